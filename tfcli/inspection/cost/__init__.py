"""What a model costs, part by part."""
