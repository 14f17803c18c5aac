"""Options by concept: each file declares the options of one and turns them into the value that they describe."""
