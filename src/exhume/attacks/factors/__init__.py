"""The problem of the first layer: its change is a product Delta [X, 1]. Column space, zero sets, rows; no search, no proof."""
