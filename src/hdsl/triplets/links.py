"""Triplets from pairs of rows that are known to be similar or dissimilar."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import canonical, check_finite
from ..input.parameters import check_number, generator
from .draws import draw
from .rows import group_equal_rows


def link_triplets(
    links: Any,
    signs: Any = None,
    *,
    n_per_link: int | None = 10,
    directed: bool = False,
    random_state: Any = None,
) -> np.ndarray:
    """Return triplets from pairs of rows that are known to be similar or dissimilar.

    A positive link (a, b) and a negative link (a, c) make the triplet (a, b, c).

    Parameters
    ----------
    links : array-like of int of shape (n_links, 2) or sparse matrix
        Pairs of row numbers, or a signed adjacency matrix whose non-zero values are the
        links. Duplicate links count once.
    signs : array-like of shape (n_links,), default=None
        +1 or True for similar, -1 or False for dissimilar. Not with an adjacency
        matrix.
    n_per_link : int or None, default=10
        Triplets drawn per link, without replacement, or all if there are fewer. None
        makes every triplet once.
    directed : bool, default=False
        Whether only the first row of a link is an anchor. If False, both are: (a, b)
        equals (b, a).
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        In the order of the links, sorted by their rows.

    Notes
    -----
    The paper: "given a pair x1, x2, y, we randomly sample x3 as a similar (if y = -1)
    or dissimilar (if y = 1) node". It does not say to which of the two x3 is similar,
    nor by what measure. Here it is either, by the given links, because the paper ranks
    a pair among the neighbours of x1 or of x2. A link whose rows have no link of the
    other sign makes no triplet. A triplet can be drawn twice, once for each of its two
    links; `deduplicate` merges them.

    Examples
    --------
    >>> link_triplets([[0, 1], [0, 2], [3, 0]], [1, -1, -1], n_per_link=None).tolist()
    [[0, 1, 2], [0, 1, 3]]
    """
    owner = "link_triplets"
    check_number(owner, "n_per_link", n_per_link, low=1, integer=True, words=(None,))
    ends, similar = _check_links(links, signs)
    if not directed:
        ends = np.sort(ends, axis=1)
    signed = np.column_stack([ends, similar])
    order, first = group_equal_rows(signed)
    signed = signed[order[first]]
    link = np.arange(len(signed))
    if not directed:
        # Both directions, one after the other; a link from a row to itself has one
        # direction.
        signed = signed[:, [0, 1, 2, 1, 0, 2]].reshape(-1, 3)
        link = np.repeat(link, 2)
        keep = (np.arange(len(link)) % 2 == 0) | (signed[:, 0] != signed[:, 1])
        signed = signed[keep]
        link = link[keep]
    anchor, other, sign = signed.T
    key = 2 * anchor + sign
    by_key = np.lexsort((other, key))
    start, stop = (
        np.searchsorted(key, key ^ 1, side, sorter=by_key) for side in ("left", "right")
    )
    # A link of both signs is not compared with itself: its place in the other list is
    # left out.
    numbers = np.unique(np.append(anchor, other), return_inverse=True)[1].reshape(2, -1)
    code, turned = (
        (2 * numbers[0] + sign ^ flip) * len(key) * 2 + numbers[1] for flip in (0, 1)
    )
    twin = np.searchsorted(code, turned, sorter=by_key)
    has_twin = np.isin(turned, code)
    count = stop - start - has_twin
    if n_per_link is None:
        count[sign == 0] = 0  # each triplet once, for its positive link
    rng = generator(random_state)
    row, offset = draw(count, link, n_per_link, rng, "n_per_link")
    place = start[row] + offset
    third = other[by_key[place + (has_twin[row] & (place >= twin[row]))]]
    second = other[row]
    positive = sign[row] == 1
    others = np.where(positive, second, third), np.where(positive, third, second)
    triplets = np.column_stack([anchor[row], *others])
    if len(triplets) == 0:
        raise ValueError(
            "No triplet can be built: no row has both a positive and a negative link. "
            "Give more links of either sign, or directed=False if links have no "
            "direction."
        )
    return triplets


def _check_links(links: Any, signs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of links, shape (n_links, 2), and whether they are positive, as 0 and 1."""
    if sp.issparse(links):
        if signs is not None:
            raise ValueError(
                "signs must be None if links is an adjacency matrix: its values have "
                "the signs."
            )
        if links.shape[0] != links.shape[1]:
            raise ValueError(
                "An adjacency matrix has shape (n_rows, n_rows). links has shape "
                f"{links.shape}."
            )
        matrix = canonical(links)
        check_finite(matrix, "links")
        from_rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return np.column_stack([from_rows, matrix.indices]), (matrix.data > 0).astype(
            np.int64
        )
    ends = np.asarray(links)
    if (
        ends.ndim != 2
        or ends.shape[1] != 2
        or not np.issubdtype(ends.dtype, np.integer)
    ):
        raise ValueError(
            "links must be integers of shape (n_links, 2), pairs of row numbers, or a "
            f"sparse adjacency matrix. Got shape {ends.shape} of dtype {ends.dtype}."
        )
    negative = np.flatnonzero((ends < 0).any(axis=1))
    if len(negative):
        raise ValueError(
            f"links[{negative[0]}] is {ends[negative[0]].tolist()}: rows are numbered "
            "from 0."
        )
    if signs is None:
        raise ValueError("signs must be given with a list of links: +1 or -1 per link.")
    values = np.asarray(signs)
    if values.shape != (len(ends),):
        raise ValueError(
            f"signs must have shape ({len(ends)},), one per link. Got shape "
            f"{values.shape}."
        )
    if values.dtype.kind == "b":
        return ends.astype(np.int64), values.astype(np.int64)
    wrong = np.flatnonzero(~np.isin(values, [-1, 1]))
    if len(wrong):
        raise ValueError(
            f"signs must be +1 or -1, or booleans. signs[{wrong[0]}] is "
            f"{values.tolist()[wrong[0]]!r}: pass signs == 1 if 0 means dissimilar."
        )
    return ends.astype(np.int64), (values > 0).astype(np.int64)
