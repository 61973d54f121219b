"""What each feature of one row adds to S(x, y)."""

from typing import Any

import scipy.sparse as sp

from ..rows import Rows
from ..similarity import Similarity
from .parts import as_row


def feature_shares(
    similarity: Similarity, x: Any, y: Any
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return what the features of x add to S(x, y), and what those of y add.

    A feature of x adds what x has of it times what S makes of y there. The features of
    x add up to S(x, y), and so do those of y.

    Parameters
    ----------
    similarity : Similarity
    x, y : array-like or sparse matrix of shape (n_features,) or (1, n_features)

    Returns
    -------
    x_shares, y_shares : sparse array of shape (1, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from hdsl.similarity import FixedPart
    >>> fixed = (FixedPart("prior", 0.5),)
    >>> similarity = Similarity(np.array([[0, 1, 1]]), np.ones(1), 4.0, fixed, 2)
    >>> x_shares, y_shares = feature_shares(similarity, [1, 0], [1, 2])
    >>> x_shares.toarray().tolist(), y_shares.toarray().tolist()
    ([[12.5, 0.0]], [[4.5, 8.0]])
    """
    x_row = as_row(x, similarity, "x")
    y_row = as_row(y, similarity, "y")
    x_shares = x_row.multiply(_rewritten(similarity, y_row))
    y_shares = y_row.multiply(_rewritten(similarity, x_row))
    return sp.csr_array(x_shares), sp.csr_array(y_shares)


def _rewritten(similarity: Similarity, row: sp.csr_array) -> sp.csr_array:
    """Return the query side of a row as it is compared."""
    query = similarity.rewrite(row)
    if isinstance(query, Rows):
        query = query.to_sparse()
    return sp.csr_array(query)
