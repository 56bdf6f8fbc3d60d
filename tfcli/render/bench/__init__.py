"""Measured speed as tables."""
