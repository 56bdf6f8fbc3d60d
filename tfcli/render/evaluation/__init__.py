"""Scores as tables."""
