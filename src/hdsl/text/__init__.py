"""Texts as rows, and documents with a model that takes texts."""

from .collection import Collection
from .counts import are_counts, inverse_frequencies, weigh_counts
from .documents import TEST, TRAIN, Documents
from .queries import Queries
from .scored import Scored
from .words import STOP_WORDS, TOKENS, Words

__all__ = [
    "STOP_WORDS",
    "TEST",
    "TOKENS",
    "TRAIN",
    "Collection",
    "Documents",
    "Queries",
    "Scored",
    "Words",
    "are_counts",
    "inverse_frequencies",
    "weigh_counts",
]
