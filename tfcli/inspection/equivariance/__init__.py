"""What a model makes of the order of its tokens."""
