"""Layers: one idea a file, shapes at every boundary."""
