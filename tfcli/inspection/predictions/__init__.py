"""What a model predicts, and why."""
