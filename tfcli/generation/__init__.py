"""Text out of trained models."""
