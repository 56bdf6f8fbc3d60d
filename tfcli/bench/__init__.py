"""Benchmarks: throughput and peak memory of training, generation and tokenization, side by side."""
