"""What would help: each step applied or re-trained for real, and attacked again."""
