"""Supervision of all kinds turned into triplets or quadruplets of row numbers.

A triplet (anchor, positive, negative) says that the anchor is more like the positive
than like the negative. A quadruplet (a, b, c, d) says that a and b are more alike than
c and d. Labels, signed links, graded relevance, clicks and judgements all become int
arrays of shape (n_triplets, 3) or (n_quadruplets, 4).
"""

from .judgements import (
    choice_triplets,
    graded_triplets,
    judgement_quadruplets,
    judgement_triplets,
)
from .links import link_triplets
from .mining import distinct_rows as distinct_rows  # for the estimators
from .mining import neighbor_triplets, random_triplets, shared_label_triplets
from .mining import (
    random_shared_triplets as random_shared_triplets,
)  # for the estimators
from .mining import row_keys as row_keys
from .relevance import relevance_triplets
from .rows import Judgements, ShownRows, deduplicate, restrict

__all__ = [
    "Judgements",
    "ShownRows",
    "choice_triplets",
    "deduplicate",
    "graded_triplets",
    "judgement_quadruplets",
    "judgement_triplets",
    "link_triplets",
    "neighbor_triplets",
    "random_triplets",
    "relevance_triplets",
    "restrict",
    "shared_label_triplets",
]
