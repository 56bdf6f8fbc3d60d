"""Tokenizers and tokens as tables."""
