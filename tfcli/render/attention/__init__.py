"""Attention weights as pictures."""
