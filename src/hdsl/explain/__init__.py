"""Why two rows are similar, and which features count: exact parts of S, weights and effects."""

from .parts import Direction, Explanation, explain, strongest_directions
from .ranking import Importance, importance
from .tables import NEGATIVE, POSITIVE

__all__ = [
    "NEGATIVE",
    "POSITIVE",
    "Direction",
    "Explanation",
    "Importance",
    "explain",
    "importance",
    "strongest_directions",
]
