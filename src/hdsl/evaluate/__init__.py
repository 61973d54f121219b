"""How good a learned similarity is."""

from .agreement import compare_triplets, knn_error, triplet_accuracy
from .errors import (
    ErrorComparison,
    ErrorRate,
    McNemar,
    compare_errors,
    mcnemar,
    wilson_interval,
)
from .known_items import KnownItem, known_item
from .rankings import RankingQuality, ranking_quality
from .recovery import RecoveryAUC, recovery_auc

__all__ = [
    "ErrorComparison",
    "ErrorRate",
    "KnownItem",
    "McNemar",
    "RankingQuality",
    "RecoveryAUC",
    "compare_errors",
    "compare_triplets",
    "knn_error",
    "known_item",
    "mcnemar",
    "ranking_quality",
    "recovery_auc",
    "triplet_accuracy",
    "wilson_interval",
]
