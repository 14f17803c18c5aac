"""What can be said of rows without the truth: signs, norms, repeats, certificate."""
