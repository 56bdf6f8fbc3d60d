"""The commands that look inside, one a module."""
