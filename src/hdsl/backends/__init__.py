"""Implementations of a problem and its gradient, one per kind of machine."""
