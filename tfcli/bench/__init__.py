"""Measured speed, side by side."""
