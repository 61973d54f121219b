"""Data to learn from: the docstrings of Python's standard library."""

from .docstrings import load_docstrings

__all__ = ["load_docstrings"]
