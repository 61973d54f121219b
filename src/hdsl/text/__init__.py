"""Texts as rows, and documents with a model that takes texts."""

from typing import Any

from .collection import Collection
from .counts import BM25
from .documents import TEST, TRAIN, Documents, Queries
from .encoders import EncoderError, TextEncoder
from .learning import learn
from .search import Hits
from .words import Words

__all__ = [
    "BM25",
    "TEST",
    "TRAIN",
    "Collection",
    "Documents",
    "EncoderError",
    "Hits",
    "Queries",
    "SentenceEncoder",
    "TextEncoder",
    "Words",
    "learn",
]


def __getattr__(name: str) -> Any:
    """Load what needs scikit-learn on first use: a model file does not need it."""
    if name == "SentenceEncoder":
        from .sentence_encoder import SentenceEncoder

        return SentenceEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
