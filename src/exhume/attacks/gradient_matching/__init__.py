"""The published attacks: one objective with switches, one descent, and the constants that their authors gave."""
