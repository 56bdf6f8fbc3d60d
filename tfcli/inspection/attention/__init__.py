"""The attention weights of a text, and what can be done with them."""
