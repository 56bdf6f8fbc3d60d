"""Attention to walk through, in the terminal: `state` and what is drawn know no Textual, the widgets do."""
