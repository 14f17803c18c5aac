"""Strategies: how rows are found. Each is a record of settings with begin / advance / done and a state of its own."""
