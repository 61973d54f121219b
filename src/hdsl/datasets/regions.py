"""A synthetic problem in which feature pairs mean the opposite in different regions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import checks


class RegionRows(NamedTuple):
    """Rows, their labels, the region of each row, and which rows are queries."""

    X: sp.csr_array
    y: np.ndarray
    regions: np.ndarray
    is_query: np.ndarray


def make_regions(
    n_rows: int = 1200,
    *,
    n_classes: int = 6,
    n_words: int = 3,
    n_marks: int = 8,
    random_state: Any = None,
) -> RegionRows:
    """Make queries and documents in two regions that contradict each other.

    Queries and documents use different words, so that they share no word of a class. In the first
    region the words of query class c go with those of document class c; in the second region they
    go with those of class c + 1. So a word pair pulls together in one region and apart in the
    other, and no single matrix is right in both. Each row has two words of its class, and half of
    the marks of its region, words that tell nothing but the region.

    Parameters
    ----------
    n_rows : int, default=1200
    n_classes : int >= 2, default=6
        Classes per region.
    n_words : int >= 2, default=3
        Words per class, for queries and for documents.
    n_marks : int >= 2, default=8
        Marks per region.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    RegionRows
        ``X, y, regions, is_query``. There are ``2 * n_classes * n_words + 2 * n_marks`` features;
        labels from `n_classes` on are those of the second region.

    Examples
    --------
    >>> X, y, regions, is_query = make_regions(100, random_state=0)
    >>> X.shape, len(np.unique(y)), bool((y // 6 == regions).all())
    ((100, 52), 12, True)
    """
    owner = "make_regions"
    checks.check_number(owner, "n_rows", n_rows, low=4, integer=True)
    for name, value in (("n_classes", n_classes), ("n_words", n_words), ("n_marks", n_marks)):
        checks.check_number(owner, name, value, low=2, integer=True)
    rng = checks.generator(random_state)
    regions, is_query = rng.integers(2, size=(2, n_rows))
    classes = rng.integers(n_classes, size=n_rows)
    # The words of a document of class c are those of class c + 1 in the second region.
    blocks = np.where(is_query, classes, n_classes + (classes + regions) % n_classes)
    words = _some_of(n_words, 2, n_rows, rng) + (blocks * n_words)[:, None]
    first_mark, per_row = 2 * n_classes * n_words, n_marks // 2
    marks = _some_of(n_marks, per_row, n_rows, rng) + (first_mark + regions * n_marks)[:, None]
    indices = np.sort(np.column_stack([words, marks]), axis=1).ravel()
    shape = (n_rows, first_mark + 2 * n_marks)
    arrays = np.ones(len(indices)), indices, (2 + per_row) * np.arange(n_rows + 1)
    return RegionRows(
        sp.csr_array(arrays, shape=shape), regions * n_classes + classes, regions, is_query == 1
    )


def _some_of(n: int, count: int, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` different numbers below n per row."""
    return rng.permuted(np.tile(np.arange(n), (n_rows, 1)), axis=1)[:, :count]
