"""Proofs, on a given run, of what is otherwise taken on trust."""
