"""The drawing kit: matrices, heat maps, curves, tables, SVG, pages, colours, safe text; it knows no model."""
