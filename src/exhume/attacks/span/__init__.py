"""The problem: rows X whose features span the weights. State, gradient and Gauss-Newton product; no search, no proof."""
