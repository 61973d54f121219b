"""Why two rows are similar, and which features count: exact parts of S, weights and effects."""

from .parts import Explanation, explain
from .ranking import Importance, importance
from .tables import NEGATIVE, POSITIVE

__all__ = ["NEGATIVE", "POSITIVE", "Explanation", "Importance", "explain", "importance"]
