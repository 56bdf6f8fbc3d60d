"""The three architectures, put together from layers."""
