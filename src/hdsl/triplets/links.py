"""Triplets from pairs of rows that are known to be similar or dissimilar."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.errors import warn
from ..input.matrices import canonical, check_finite, sound_csr
from ..input.parameters import check_number, generator
from .grades import draw
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
        links. Duplicate links count once. Links that are both positive and negative
        are left out, with a warning.
    signs : array-like of shape (n_links,), default=None
        +1 or True for similar, -1 or False for dissimilar. Not with an adjacency
        matrix.
    n_per_link : int or None, default=10
        Number of triplets drawn per link, without replacement, or all if there are
        fewer. None makes every triplet once.
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
    nor by what measure. Here it may be either, by the given links, because the paper
    ranks a pair among the neighbours of x1 or of x2. A link makes no triplet if its
    rows have no link of the other sign. A triplet can be drawn twice, once for each of
    its two links; `deduplicate` merges them.

    Examples
    --------
    >>> link_triplets([[0, 1], [0, 2], [3, 0]], [1, -1, -1], n_per_link=None).tolist()
    [[0, 1, 2], [0, 1, 3]]
    """
    owner = "link_triplets"
    check_number(owner, "n_per_link", n_per_link, low=1, integer=True, words=(None,))
    directed_links = _directed_links(*_checked_links(links, signs), directed)
    opposite = _opposite_links(directed_links)
    count = opposite.stop - opposite.start
    if n_per_link is None:
        # Each triplet once, for its positive link.
        count[~directed_links.is_similar] = 0
    rng = generator(random_state)
    link, candidate = draw(count, directed_links.number, n_per_link, rng, "n_per_link")
    second = directed_links.other[link]
    third = directed_links.other[opposite.take(link, candidate)]
    is_similar = directed_links.is_similar[link]
    triplets = np.column_stack(
        [
            directed_links.anchor[link],
            np.where(is_similar, second, third),
            np.where(is_similar, third, second),
        ]
    )
    if len(triplets) == 0:
        raise ValueError(
            "No triplet can be built: no row has both a positive and a negative link. "
            "Give more links of either sign, or directed=False if links have no "
            "direction."
        )
    return triplets


class _Links(NamedTuple):
    """Links from an anchor to another row, all different.

    Attributes
    ----------
    anchor, other : ndarray of shape (n_links,)
        Row numbers.
    is_similar : ndarray of bool of shape (n_links,)
    number : ndarray of shape (n_links,)
        Equal for the two directions of one link.
    """

    anchor: np.ndarray
    other: np.ndarray
    is_similar: np.ndarray
    number: np.ndarray


def _directed_links(ends: np.ndarray, signs: np.ndarray, directed: bool) -> _Links:
    """Return each link once, or in both directions, one after the other."""
    if not directed:
        ends = np.sort(ends, axis=1)
    signed_ends = np.column_stack([ends, signs])
    order, first = group_equal_rows(signed_ends)
    left, right, sign = _without_contradictions(signed_ends[order[first]]).T
    number = np.arange(len(left))
    if directed:
        return _Links(left, right, sign == 1, number)
    both_ways = _Links(
        anchor=np.column_stack([left, right]).ravel(),
        other=np.column_stack([right, left]).ravel(),
        is_similar=np.repeat(sign == 1, 2),
        number=np.repeat(number, 2),
    )
    # A link from a row to itself has one direction.
    is_first = np.arange(2 * len(left)) % 2 == 0
    is_kept = is_first | (both_ways.anchor != both_ways.other)
    return _Links(*(column[is_kept] for column in both_ways))


def _without_contradictions(signed_ends: np.ndarray) -> np.ndarray:
    """Return links, sorted and unique, without those of both signs, which raise a warning."""
    is_next = (signed_ends[1:, :2] == signed_ends[:-1, :2]).all(axis=1)
    if not is_next.any():
        return signed_ends
    n_both = int(np.count_nonzero(is_next))
    subject = "1 pair is" if n_both == 1 else f"{n_both:,} pairs are"
    example = signed_ends[:-1, :2][is_next][0].tolist()
    warn(
        f"{subject} linked both as similar and as dissimilar, such as {example}: left out."
    )
    is_both = np.append(is_next, False) | np.append(False, is_next)
    return signed_ends[~is_both]


class _OppositeLinks(NamedTuple):
    """For each link the links of the same anchor with the other sign.

    Attributes
    ----------
    order : ndarray of shape (n_links,)
        All links by anchor, sign, and other row.
    start, stop : ndarray of shape (n_links,)
        The opposite links of a link are those from start to stop in this order.
    """

    order: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    def take(self, links: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Return opposite links by their numbers from 0."""
        return self.order[self.start[links] + candidates]


def _opposite_links(links: _Links) -> _OppositeLinks:
    """Return the links that each link makes triplets with."""
    key = 2 * links.anchor + links.is_similar
    opposite_key = 2 * links.anchor + ~links.is_similar
    order = np.lexsort((links.other, key))
    sorted_key = key[order]
    return _OppositeLinks(
        order=order,
        start=np.searchsorted(sorted_key, opposite_key, side="left"),
        stop=np.searchsorted(sorted_key, opposite_key, side="right"),
    )


def _checked_links(links: Any, signs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of links, shape (n_links, 2), and whether they are positive, as 0 and 1."""
    if sp.issparse(links):
        return _links_of_matrix(links, signs)
    ends = np.asarray(links)
    is_list = ends.ndim == 2 and ends.shape[1] == 2
    if not is_list or not np.issubdtype(ends.dtype, np.integer):
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
    return ends.astype(np.int64), _checked_signs(signs, len(ends))


def _links_of_matrix(links: Any, signs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends and the signs of the links of an adjacency matrix."""
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
    matrix = canonical(sound_csr(links, "links"))
    check_finite(matrix, "links")
    from_rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    ends = np.column_stack([from_rows, matrix.indices])
    return ends, (matrix.data > 0).astype(np.int64)


def _checked_signs(signs: Any, n_links: int) -> np.ndarray:
    """Return the signs of links as 0 and 1; raise ValueError if one is not a sign."""
    values = np.asarray(signs)
    if values.shape != (n_links,):
        raise ValueError(
            f"signs must have shape ({n_links},), one per link. Got shape "
            f"{values.shape}."
        )
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    wrong = np.flatnonzero(~np.isin(values, [-1, 1]))
    if len(wrong):
        raise ValueError(
            f"signs must be +1 or -1, or booleans. signs[{wrong[0]}] is "
            f"{values.tolist()[wrong[0]]!r}: pass signs == 1 if 0 means dissimilar."
        )
    return (values > 0).astype(np.int64)
