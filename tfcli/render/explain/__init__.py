"""Step-by-step explanations as pages of the terminal."""
