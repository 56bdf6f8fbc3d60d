"""Runs as lists, tables and curves."""
