"""Positional encodings as pictures."""
