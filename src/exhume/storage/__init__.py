"""Files: written whole or not at all, read within bounds, never executed."""
