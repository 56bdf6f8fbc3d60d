"""Predictions, the logit lens, losses and attributions as pictures."""
