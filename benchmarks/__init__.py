"""Benchmarks of hdsl: named problems, kernels, whole fits, scaling runs; `python -m benchmarks`."""
