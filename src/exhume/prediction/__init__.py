"""What to expect of a model before any attack runs."""
