"""Order and permutations as tables and maps."""
