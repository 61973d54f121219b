"""How good a learned similarity is."""

from ..uncertainty import (
    ErrorComparison,
    ErrorRate,
    McNemar,
    compare_errors,
    mcnemar,
    wilson_interval,
)
from .agreement import compare_triplets, knn_error, triplet_accuracy
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
