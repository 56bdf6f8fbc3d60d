"""Records as terminal pictures, SVG, HTML and JSON; knows no model."""
