"""Results that travel up: frozen, torch-free, with read-only arrays."""
