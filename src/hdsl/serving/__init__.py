"""The learned similarity in search engines: queries, rows, exact answers, BM25 weights, exports.

No client library of an engine is imported here: a search is any function.
"""

from ..similarity.limits import limit_weights
from .bm25 import BM25Transformer
from .certify import CertifiedTopK, certified_top_k
from .full_text import expand_query, full_text_query
from .recall import recall_at
from .rows import sparse_rows, to_sparsevec
from .vector_engines import export_query, export_rows

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
