"""Computes what there is to see inside a model; draws nothing."""
