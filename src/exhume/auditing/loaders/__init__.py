"""A user's model, whatever it is -> Subject. One file per kind of model or file."""
