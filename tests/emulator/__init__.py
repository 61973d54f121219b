"""Kernels of the GPU on the CPU: the same source, compiled by a C++ compiler."""
