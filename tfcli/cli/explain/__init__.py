"""The commands that explain a computation step by step, one a module."""
