"""Texts as rows, and documents with a model that takes texts."""

from typing import Any

from .collection import Collection
from .counts import BM25, are_counts, inverse_frequencies, weigh_counts
from .documents import TEST, TRAIN, Documents, Queries
from .encoders import EncoderError, TextEncoder
from .learning import learn
from .search import Hits, Scored
from .words import STOP_WORDS, TOKENS, Words

__all__ = [
    "BM25",
    "STOP_WORDS",
    "TEST",
    "TOKENS",
    "TRAIN",
    "Collection",
    "Documents",
    "EncoderError",
    "Hits",
    "Queries",
    "Scored",
    "SentenceEncoder",
    "TextEncoder",
    "Words",
    "are_counts",
    "inverse_frequencies",
    "learn",
    "weigh_counts",
]


def __getattr__(name: str) -> Any:
    """Load what needs scikit-learn where it is asked for: a model file needs none."""
    if name == "SentenceEncoder":
        from .sentence_encoder import SentenceEncoder

        return SentenceEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
