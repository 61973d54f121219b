"""Class scores: what a classifier makes of a row, as features beside the row.

``ClassScores`` is loaded on first use: it needs scikit-learn, and a search in a model
file with class scores does not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimator import ClassScores

__all__ = ["ClassScores"]


def __getattr__(name: str) -> Any:
    if name == "ClassScores":
        from .estimator import ClassScores

        return ClassScores
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
