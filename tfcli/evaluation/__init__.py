"""Scores of trained models on whole sets."""
