"""Costs as tables and curves."""
