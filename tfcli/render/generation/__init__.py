"""Generated texts, beams and traces."""
