"""Recipes: everything a run is made from, as frozen dataclasses and TOML."""
