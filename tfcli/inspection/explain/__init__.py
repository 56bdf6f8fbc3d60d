"""Computations step by step, with every matrix: on toy sizes, or of a real layer."""
