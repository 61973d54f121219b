"""The learned similarity as plain arrays, and what is computed of it."""

from .similarity import Similarity

__all__ = [
    "Similarity",
]
