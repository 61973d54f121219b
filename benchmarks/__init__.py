"""Benchmarks of hdsl: named problems, whole fits, scaling runs; `python -m benchmarks`."""
