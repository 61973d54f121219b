"""The learned similarity as plain arrays, and what is computed of it."""

from .fixed import FixedPart
from .similarity import Similarity

__all__ = ["FixedPart", "Similarity"]
