"""Nearest rows: the k largest inner products, and all from a threshold on.

Searches are exact, go by blocks of queries, and never form all n × n products.
"""

from ..neighbor_lists import Neighbors
from .index import Index, neighbors_between, neighbors_by_label, top_k
from .products import add_products
from .threshold import above

__all__ = [
    "Index",
    "Neighbors",
    "above",
    "add_products",
    "neighbors_between",
    "neighbors_by_label",
    "top_k",
]
