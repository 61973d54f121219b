"""Why two rows are similar, and which features count: exact parts of S, weights and effects."""

from .effects import Occurrences, count_occurrences
from .parts import Explanation, explain, one_row
from .ranking import Importance, importance
from .tables import NEGATIVE, POSITIVE, as_names, shown

__all__ = [
    "NEGATIVE",
    "POSITIVE",
    "Explanation",
    "Importance",
    "Occurrences",
    "as_names",
    "count_occurrences",
    "explain",
    "importance",
    "one_row",
    "shown",
]
