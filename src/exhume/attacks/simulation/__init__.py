"""Training as a function of its samples, by the recipe that it followed."""
