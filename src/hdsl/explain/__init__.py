"""Why two rows are similar, and which features count: exact parts of S, weights and effects."""

from .directions import Direction, strongest_directions
from .parts import Explanation, explain
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
