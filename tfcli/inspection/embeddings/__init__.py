"""Embeddings: the vectors of tokens and of whole texts."""
