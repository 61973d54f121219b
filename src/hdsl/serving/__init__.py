"""The learned similarity in search engines: queries, rows, exact answers, BM25 weights, exports.

No client library of an engine is imported here: a search is any function.
"""

from typing import TYPE_CHECKING, Any

from ..similarity.limits import limit_weights
from .certify import CertifiedTopK, certified_top_k, recall_at
from .full_text import expand_query, full_text_query
from .vector_engines import export_query, export_rows, sparse_rows, to_sparsevec

if TYPE_CHECKING:
    from .bm25 import BM25Transformer

__all__ = [
    "BM25Transformer",
    "CertifiedTopK",
    "certified_top_k",
    "expand_query",
    "export_query",
    "export_rows",
    "full_text_query",
    "limit_weights",
    "recall_at",
    "sparse_rows",
    "to_sparsevec",
]


def __getattr__(name: str) -> Any:
    """Load the estimator when it is first asked for: the others need no scikit-learn."""
    if name == "BM25Transformer":
        from .bm25 import BM25Transformer

        return BM25Transformer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
