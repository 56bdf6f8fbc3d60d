"""One family of published checkpoints a file: its config, its tensors, in both directions."""
