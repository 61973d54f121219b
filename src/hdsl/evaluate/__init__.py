"""How good a learned similarity is."""

from .chance import McNemar, mcnemar
from .clicks import compare_clicks
from .comparisons import compare_triplets, triplet_accuracy
from .errors import ErrorComparison, ErrorRate
from .intervals import wilson_interval
from .known_items import KnownItem, known_item
from .neighbors import compare_errors, knn_error
from .query_memory import QueryMemory, remember
from .rankings import RankingQuality, ranking_quality
from .searches import SearchComparison, compare_searches

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
