"""Prepared datasets on disk and the batches that training and evaluation read from them."""
