"""Tokenizers: learned from text, loaded from files, with their special tokens' roles."""
