"""A recipe's stages in order; a stage whose inputs are unchanged is skipped."""
