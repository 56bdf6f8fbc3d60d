"""Inspection: what there is to see inside a model, a folder a picture."""
