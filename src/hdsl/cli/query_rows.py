"""Queries as rows with the features of the documents."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..rows import sparse_block
from ..text import Documents, Words
from ..text.counts import weigh_counts
from .data import Data
from .messages import say
from .wording import counted


def query_rows(
    queries: Data, documents: Documents, words: Words | None
) -> sp.csr_array:
    """Return queries as rows with the features of the documents; say how many have none."""
    rows = _rows_of(queries, documents, words)
    n_empty = int((np.diff(rows.indptr) == 0).sum())
    if n_empty:
        feature = "known word"
        if words is None:
            feature = "feature of the documents"
        say(
            f"{n_empty:,} of {counted(queries.n_rows, 'query', 'queries')} of "
            f"{queries.path} without a {feature}: words find nothing for these."
        )
    return rows


def _rows_of(queries: Data, documents: Documents, words: Words | None) -> sp.csr_array:
    """Return queries as rows with the features of the documents."""
    if words is not None:
        if queries.texts is None:
            raise ValueError(
                f"{queries.path} has rows of numbers, but the documents are texts: "
                "give a table of texts."
            )
        return words.transform(queries.texts, are_queries=True)
    n_features = sparse_block(documents.X).shape[1]
    X = queries.X
    if X is None or X.shape[1] > n_features:
        raise ValueError(
            f"{queries.path} must have rows with the {n_features} features of the "
            "documents."
        )
    X = sp.csr_array(X)
    X.resize(X.shape[0], n_features)
    if documents.idf is None:
        return X
    return weigh_counts(X, documents.idf)
