"""Positional encodings: their tables, and what they should be."""
