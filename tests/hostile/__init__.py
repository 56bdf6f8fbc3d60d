"""Hostile input: what the pages promise, and an attempt to break each promise."""
