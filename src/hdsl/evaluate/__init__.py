"""How good a learned similarity is."""

from .errors import (
    ErrorComparison,
    ErrorRate,
    McNemar,
    compare_errors,
    compare_triplets,
    knn_error,
    mcnemar,
    triplet_accuracy,
    wilson_interval,
)
from .rankings import KnownItem, RankingQuality, known_item, ranking_quality

__all__ = [
    "ErrorComparison",
    "ErrorRate",
    "KnownItem",
    "McNemar",
    "RankingQuality",
    "compare_errors",
    "compare_triplets",
    "knn_error",
    "known_item",
    "mcnemar",
    "ranking_quality",
    "triplet_accuracy",
    "wilson_interval",
]
