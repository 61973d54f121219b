"""How good a learned similarity is."""

from .comparisons import compare_clicks, compare_triplets, triplet_accuracy
from .errors import ErrorComparison, ErrorRate, McNemar, mcnemar, wilson_interval
from .known_items import KnownItem, known_item
from .neighbors import compare_errors, knn_error
from .query_memory import QueryMemory, remember
from .searches import (
    RankingQuality,
    SearchComparison,
    compare_searches,
    ranking_quality,
)

__all__ = [
    "ErrorComparison",
    "ErrorRate",
    "KnownItem",
    "McNemar",
    "QueryMemory",
    "RankingQuality",
    "SearchComparison",
    "compare_clicks",
    "compare_errors",
    "compare_searches",
    "compare_triplets",
    "knn_error",
    "known_item",
    "mcnemar",
    "ranking_quality",
    "remember",
    "triplet_accuracy",
    "wilson_interval",
]
