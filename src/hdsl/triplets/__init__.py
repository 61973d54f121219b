"""Supervision of all kinds turned into triplets: int arrays of shape (n_triplets, 3).

A triplet (anchor, positive, negative) of row numbers says that the anchor is more like the
positive than like the negative. Labels, signed links, graded relevance, clicks and judgements all
say, for an anchor, that some rows are preferred to others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import scipy.sparse as sp

from .. import search, user_input
from ..readers import tables


class Judgements(NamedTuple):
    """Triplets and their weights, for ``fit(X, triplets=..., sample_weight=...)``.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3)
    weights : ndarray of shape (n_triplets,), or None where all weigh the same
    """

    triplets: np.ndarray
    weights: np.ndarray | None


# --- labels --------------------------------------------------------------------------------------


def neighbor_triplets(
    X: Any,
    y: Any,
    n_targets: int = 3,
    n_impostors: int = 5,
    *,
    similarity: Any = None,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return, for each row, its target neighbours times its impostors.

    Targets are the nearest rows of the same label, impostors the nearest of other labels, by inner
    product; equal ones in the order of their rows.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        Labels of at least two classes.
    n_targets, n_impostors : int
        Wanted for each row. Where a class is too small, those there are; a warning says so.
    similarity : object, default=None
        Anything whose ``transform(X)`` gives rows to take the inner products of: neighbours are
        those under a fitted HDSL, say, instead of those of X as it is.
    n_jobs : int, default=None
        Threads.

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        n_targets * n_impostors triplets a row, in the order of the rows.

    Examples
    --------
    >>> X = [[1, 0], [2, 0], [0, 3], [1, 1]]
    >>> neighbor_triplets(X, ["a", "a", "b", "b"], n_targets=1, n_impostors=1).tolist()
    [[0, 1, 3], [1, 0, 3], [2, 3, 0], [3, 2, 1]]
    """
    for name, value in (("n_targets", n_targets), ("n_impostors", n_impostors)):
        user_input.check_number("neighbor_triplets", name, value, low=1, integer=True)
    X = _matrix(X) if similarity is None else _matrix(_transformed(X, similarity))
    codes = user_input.check_labels(y, X.shape[0])
    _warn_of_small_classes(y, codes, n_targets, n_impostors)
    same, other = search.neighbors_by_label(X, codes, n_targets, n_impostors, n_jobs=n_jobs)
    valid = (np.arange(n_targets) < same.size[:, None])[:, :, None] & (
        np.arange(n_impostors) < other.size[:, None]
    )[:, None, :]
    anchor, target, impostor = np.nonzero(valid)
    triplets = np.column_stack([anchor, same.rows[anchor, target], other.rows[anchor, impostor]])
    return _not_empty(triplets, ONE_ROW_CLASSES)


def random_triplets(y: Any, n_per_row: int = 15, *, random_state: Any = None) -> np.ndarray:
    """Return random triplets: the positive of the anchor's class, the negative of another.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    n_per_row : int, default=15
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        `n_per_row` triplets for each row whose class has another row.

    Examples
    --------
    >>> random_triplets(["a", "a", "b", "b"], n_per_row=1, random_state=0)[:, 1].tolist()
    [1, 0, 3, 2]
    """
    user_input.check_number("random_triplets", "n_per_row", n_per_row, low=1, integer=True)
    codes = user_input.check_labels(y, len(np.asarray(y)))
    _warn_of_small_classes(y, codes, 1, 1)
    rng = user_input.generator(random_state)
    n = len(codes)
    by_class = np.argsort(codes, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[by_class] = np.arange(n)
    size = np.bincount(codes)[codes]
    start = np.searchsorted(codes[by_class], codes)
    anchor = np.repeat(np.flatnonzero(size > 1), n_per_row)
    # Another of the class: skip the anchor's own place. Any of the rest: skip the whole class.
    positive = start[anchor] + rng.integers(size[anchor] - 1)
    positive += positive >= place[anchor]
    negative = rng.integers(n - size[anchor])
    negative += np.where(negative >= start[anchor], size[anchor], 0)
    triplets = np.column_stack([anchor, by_class[positive], by_class[negative]])
    return _not_empty(triplets, ONE_ROW_CLASSES)


def _matrix(X: Any) -> sp.csr_array:
    """Return X as a canonical float64 CSR array."""
    X = X if sp.issparse(X) else sp.csr_array(np.asarray(X, dtype=np.float64))
    X = user_input.canonical(X).astype(np.float64, copy=False)
    user_input.check_finite(X)
    return X


def _transformed(X: Any, similarity: Any) -> Any:
    if not callable(getattr(similarity, "transform", None)):
        raise TypeError(
            "similarity must have a transform(X) method, whose rows' inner products are the "
            f"similarity, as a fitted HDSL has. Got {similarity!r}."
        )
    # An estimator fitted on named columns wants them back; all others get a checked matrix.
    named = hasattr(similarity, "feature_names_in_")
    return similarity.transform(X if named else _matrix(X))


def _warn_of_small_classes(y: Any, codes: np.ndarray, n_targets: int, n_impostors: int) -> None:
    size = np.bincount(codes)
    names = np.unique(np.asarray(y)).tolist()
    small = np.flatnonzero(size - 1 < n_targets)
    if len(small):
        shown = ", ".join(f"{names[c]!r} ({size[c]} rows)" for c in small[:5])
        more = f" and {len(small) - 5} more" if len(small) > 5 else ""
        warnings.warn(
            f"Too few rows for {n_targets} target neighbours in class {shown}{more}: their rows "
            "get as many targets as there are; a class of one row makes no triplets as anchor.",
            UserWarning,
            stacklevel=3,
        )
    others = len(codes) - size
    if others.min() < n_impostors:
        c = int(np.argmin(others))
        warnings.warn(
            f"Too few rows outside class {names[c]!r} for {n_impostors} impostors: its rows get "
            f"{others[c]} instead.",
            UserWarning,
            stacklevel=3,
        )


ONE_ROW_CLASSES = (
    "every class of y has one row only, so no row has a neighbour of its own class. Pass triplets= "
    "to give judgements directly."
)


def _not_empty(triplets: np.ndarray, why: str) -> np.ndarray:
    if len(triplets) == 0:
        raise ValueError(f"No triplet can be built: {why}")
    return triplets.astype(np.int64, copy=False)


# --- preferences: links, grades, choices ---------------------------------------------------------


def link_triplets(
    links: Any,
    signs: Any = None,
    *,
    n_per_link: int | None = 10,
    directed: bool = False,
    random_state: Any = None,
) -> np.ndarray:
    """Return triplets from pairs of rows that are known to be similar or dissimilar.

    A positive link (a, b) is completed by rows c of negative links (a, c) to triplets (a, b, c), a
    negative link (a, c) by rows b of positive links (a, b).

    Parameters
    ----------
    links : array-like of int of shape (n_links, 2), or sparse matrix of shape (n_rows, n_rows)
        Pairs of row numbers; or a signed adjacency matrix, whose non-zero values are the links. A
        link given twice counts once.
    signs : array-like of shape (n_links,), default=None
        +1 or -1, or True and False, for similar and dissimilar. Not with an adjacency matrix.
    n_per_link : int or None, default=10
        Triplets drawn for each link, without replacement; where there are fewer, all of them. None
        is every triplet there is, once.
    directed : bool, default=False
        Whether only the first row of a link is an anchor. If False both are, and a link counts for
        both: (a, b) is (b, a).
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        In the order of the links, sorted by their rows.

    Notes
    -----
    The paper: "given a pair x1, x2, y, we randomly sample x3 as a similar (if y = -1) or dissimilar
    (if y = 1) node". It does not say which of the two x3 is similar to, nor by what. Here it is
    either, since the paper ranks a pair among the neighbours of x1 or of x2, by the links given. A
    link that meets none of the other sign makes no triplet; a triplet can be drawn twice, once for
    each of its two links, and `deduplicate` makes one of them.

    Examples
    --------
    >>> link_triplets([[0, 1], [0, 2], [3, 0]], [1, -1, -1], n_per_link=None).tolist()
    [[0, 1, 2], [0, 1, 3]]
    """
    user_input.check_number(
        "link_triplets", "n_per_link", n_per_link, low=1, integer=True, words=(None,)
    )
    ends, similar = _check_links(links, signs)
    if not directed:
        ends = np.sort(ends, axis=1)
    signed = np.column_stack([ends, similar])
    order, first = _grouped(signed)
    signed = signed[order[first]]
    link = np.arange(len(signed))
    if not directed:
        # Both ways, one after the other; a row linked to itself has one.
        signed = signed[:, [0, 1, 2, 1, 0, 2]].reshape(-1, 3)
        link = np.repeat(link, 2)
        keep = (np.arange(len(link)) % 2 == 0) | (signed[:, 0] != signed[:, 1])
        signed, link = signed[keep], link[keep]
    anchor, other, sign = signed.T
    key = 2 * anchor + sign
    by_key = np.argsort(key, kind="stable")
    start, stop = (np.searchsorted(key, key ^ 1, side, sorter=by_key) for side in ("left", "right"))
    count = stop - start
    if n_per_link is None:
        count[sign == 0] = 0  # each triplet once: that of its positive link
    rng = user_input.generator(random_state)
    row, offset = _draw(count, link, n_per_link, rng, "n_per_link")
    third = other[by_key[start[row] + offset]]
    second, positive = other[row], sign[row] == 1
    triplets = np.column_stack(
        [anchor[row], np.where(positive, second, third), np.where(positive, third, second)]
    )
    # A link of both signs would compare a row with itself.
    return _not_empty(
        triplets[second != third],
        "no row has both a positive and a negative link. Give more links of either sign, or "
        "directed=False if links have no direction.",
    )


def graded_triplets(
    table: Any,
    *,
    anchor: str = "anchor",
    item: str = "item",
    grade: str = "grade",
    event: str | None = None,
    n_per_anchor: int | None = None,
    ids: Any = None,
    random_state: Any = None,
) -> Judgements:
    """Return triplets from graded relevance: an item of higher grade before one of lower grade.

    Parameters
    ----------
    table : DataFrame, mapping of columns, or path
        One line for each anchor and item: see `judgement_triplets`.
    anchor, item, grade : str
        Names of the columns. Grades are numbers, the larger the more relevant.
    event : str, default=None
        Name of a column that says which lines may be compared: those of one event and anchor. None
        is all lines of an anchor.
    n_per_anchor : int or None, default=None
        Most triplets of an anchor (and event), drawn at random without replacement.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X; None where the table holds row numbers.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Judgements
        ``triplets, weights``: the weight is the difference of the two grades.

    Examples
    --------
    >>> T, weights = graded_triplets({"anchor": [0, 0, 0], "item": [1, 2, 3], "grade": [0, 3, 1]})
    >>> T.tolist(), weights.tolist()
    ([[0, 3, 1], [0, 2, 1], [0, 2, 3]], [1.0, 3.0, 2.0])
    """
    user_input.check_number(
        "graded_triplets", "n_per_anchor", n_per_anchor, low=1, integer=True, words=(None,)
    )
    names = {"anchor": anchor, "item": item, "grade": grade}
    data = tables.read_table(table, names if event is None else {**names, "event": event})
    index = tables.row_index(ids, data.is_text)
    triplets, difference = _compare(
        None if event is None else data.columns[event],
        tables.row_numbers(data, anchor, index),
        tables.row_numbers(data, item, index),
        tables.numbers(data, grade),
        n_per_anchor,
        user_input.generator(random_state),
    )
    why = "no anchor has two items of different grades."
    return Judgements(_not_empty(triplets, why), difference)


def choice_triplets(
    events: Any,
    *,
    event: str = "event",
    anchor: str = "anchor",
    item: str = "item",
    clicked: str = "clicked",
    ids: Any = None,
) -> np.ndarray:
    """Return triplets from choices: (query, chosen, not chosen) for all items of an event.

    Parameters
    ----------
    events : list of (query, shown, chosen), DataFrame, mapping of columns, or path
        In the list `shown` is a list of items, `chosen` one of them or a list of some. A table has
        one line for each item of an event: see `judgement_triplets`.
    event, anchor, item, clicked : str
        Names of the columns of a table. Clicked is true or false, or 1 or 0.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X; None where `events` holds row numbers.

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        An event where all items were chosen, or none, makes no triplet.

    Examples
    --------
    >>> choice_triplets([(0, [1, 2, 3], 2), (3, [0, 1], [0])]).tolist()
    [[0, 2, 1], [0, 2, 3], [3, 0, 1]]
    """
    if isinstance(events, list | tuple):
        events = _long_format(events, (event, anchor, item, clicked))
    data = tables.read_table(
        events, {"event": event, "anchor": anchor, "item": item, "clicked": clicked}
    )
    index = tables.row_index(ids, data.is_text)
    triplets, _ = _compare(
        data.columns[event],
        tables.row_numbers(data, anchor, index),
        tables.row_numbers(data, item, index),
        tables.flags(data, clicked),
        None,
        None,
    )
    return _not_empty(triplets, "no event has both an item that was chosen and one that was not.")


def _check_links(links: Any, signs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of links, shape (n_links, 2), and whether they are positive, as 0 and 1."""
    if sp.issparse(links):
        if signs is not None:
            raise ValueError(
                "signs must be None where links is an adjacency matrix: its values have the signs."
            )
        if links.shape[0] != links.shape[1]:
            raise ValueError(
                f"An adjacency matrix has shape (n_rows, n_rows). links has shape {links.shape}."
            )
        matrix = user_input.canonical(links)
        user_input.check_finite(matrix, "links")
        from_rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return np.column_stack([from_rows, matrix.indices]), (matrix.data > 0).astype(np.int64)
    ends = np.asarray(links)
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.issubdtype(ends.dtype, np.integer):
        raise ValueError(
            "links must be integers of shape (n_links, 2), pairs of row numbers, or a sparse "
            f"adjacency matrix. Got shape {ends.shape} of dtype {ends.dtype}."
        )
    negative = np.flatnonzero((ends < 0).any(axis=1))
    if len(negative):
        raise ValueError(
            f"links[{negative[0]}] is {ends[negative[0]].tolist()}: rows are numbered from 0."
        )
    if signs is None:
        raise ValueError("signs must be given with a list of links: +1 or -1 for each.")
    values = np.asarray(signs)
    if values.shape != (len(ends),):
        raise ValueError(
            f"signs must have shape ({len(ends)},), one for each link. Got shape {values.shape}."
        )
    if values.dtype.kind == "b":
        return ends.astype(np.int64), values.astype(np.int64)
    wrong = np.flatnonzero(~np.isin(values, [-1, 1]))
    if len(wrong):
        raise ValueError(
            f"signs must be +1 or -1, or booleans. signs[{wrong[0]}] is "
            f"{values.tolist()[wrong[0]]!r}: pass signs == 1 if 0 stands for dissimilar."
        )
    return ends.astype(np.int64), (values > 0).astype(np.int64)


def _long_format(events: Any, names: tuple[str, str, str, str]) -> dict[str, Any]:
    """Return a list of (query, shown, chosen) as columns: event, anchor, item, clicked."""
    numbers, anchors, items, clicks = [], [], [], []
    for k, one in enumerate(events):
        if not isinstance(one, list | tuple) or len(one) != 3:
            raise ValueError(f"events[{k}] must be (query, shown, chosen). Got {one!r}.")
        query, shown, chosen = one
        shown = list(shown)
        several = isinstance(chosen, list | tuple | set | frozenset | np.ndarray)
        picked = set(chosen) if several else {chosen}
        strangers = [choice for choice in picked if choice not in shown]
        if strangers:
            raise ValueError(
                f"events[{k}]: {strangers[0]!r} was chosen but is not among the shown, {shown!r}."
            )
        numbers += [k] * len(shown)
        anchors += [query] * len(shown)
        items += shown
        clicks += [choice in picked for choice in shown]
    return dict(zip(names, (numbers, anchors, items, clicks), strict=True))


def _compare(
    event: np.ndarray | None,
    anchor: np.ndarray,
    item: np.ndarray,
    grade: np.ndarray,
    n_per_group: int | None,
    rng: np.random.Generator | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return triplets (anchor, item, item of lower grade) and the differences of the grades.

    Compared are the items of one event and anchor, in the order of the first line of each; at most
    `n_per_group` triplets of them are drawn.
    """
    group = _codes(anchor) if event is None else _codes(_codes(event), anchor)
    order = np.lexsort((grade, group))
    group, grade = group[order], grade[order]
    new_group = np.diff(group, prepend=-1) != 0
    new_grade = new_group | (np.diff(grade, prepend=np.nan) != 0)
    # The items of lower grade lie between the first of the group and the first of equal grade.
    place = np.arange(len(order))
    first = np.maximum.accumulate(np.where(new_group, place, 0))
    count = np.maximum.accumulate(np.where(new_grade, place, 0)) - first
    row, offset = _draw(count, group, n_per_group, rng, "n_per_anchor")
    lower = first[row] + offset
    difference = grade[row] - grade[lower]
    anchor, item = anchor[order], item[order]
    triplets = np.column_stack([anchor[row], item[row], item[lower]])
    # An item that has two grades is not compared with itself.
    sound = triplets[:, 1] != triplets[:, 2]
    return triplets[sound], difference[sound]


def _codes(*columns: np.ndarray) -> np.ndarray:
    """Return a number for each line, equal where all columns are, by first appearance."""
    values = [column.tolist() for column in columns]
    known: dict[Any, int] = {}
    keys = values[0] if len(values) == 1 else zip(*values, strict=True)
    return np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64)


def _draw(
    count: np.ndarray,
    group: np.ndarray,
    n: int | None,
    rng: np.random.Generator | None,
    parameter: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw among candidates, of which line r has ``count[r]``; return their lines and offsets.

    All of them where n is None, else at most n of each group without replacement, every choice as
    likely. Lines of a group lie side by side.
    """
    stop = np.cumsum(count)
    total = int(stop[-1]) if len(stop) else 0
    if n is None:
        if total > user_input.INDEX_LIMIT:
            raise ValueError(
                f"{total} triplets would be made, more than can be handled: set {parameter}."
            )
        chosen = np.arange(total)
    else:
        assert rng is not None
        last = np.flatnonzero(np.diff(group, append=-1))
        chosen = _sample(np.diff(stop[last], prepend=0), n, rng)
    line = np.searchsorted(stop, chosen, side="right")
    return line, chosen - (stop - count)[line]


def _sample(size: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most n distinct numbers of each range, sorted; the ranges follow each other from 0.

    Every subset of a range is as likely as any other.
    """
    stop = np.cumsum(size)
    start = stop - size
    # Small ranges are shuffled whole: twice the numbers wanted at most.
    small = np.flatnonzero(size <= 2 * n)
    first = np.cumsum(size[small]) - size[small]
    rank = np.arange(size[small].sum()) - np.repeat(first, size[small])
    owner = np.repeat(small, size[small])
    shuffled = np.argsort((owner << 32) + rng.integers(2**32, size=len(owner)), kind="stable")
    drawn = (start[owner] + rank)[shuffled[rank < n]]
    # In large ones a draw is new with probability 1/2 at least: draw until enough are.
    large = np.flatnonzero(size > 2 * n)
    found = np.empty(0, dtype=np.int64)
    missing = np.full(len(large), n)
    while missing.any():
        owner = np.repeat(large, missing)
        found = np.sort(np.concatenate([found, start[owner] + rng.integers(size[owner])]))
        found = found[np.diff(found, prepend=-1) > 0]
        owner = np.searchsorted(stop[large], found, side="right")
        missing = n - np.bincount(owner, minlength=len(large))
    return np.sort(np.concatenate([drawn, found]))


# --- judgements in tables ------------------------------------------------------------------------


def judgement_triplets(
    table: Any,
    *,
    anchor: str = "anchor",
    positive: str = "positive",
    negative: str = "negative",
    weight: str | None = None,
    ids: Any = None,
) -> Judgements:
    """Return triplets from a table of judgements "anchor is more like positive than negative".

    Parameters
    ----------
    table : DataFrame, mapping of columns, or path
        A table of pandas, polars or pyarrow; a dict of lists or arrays; or a file, UTF-8 where it
        is text: .csv and .tsv with a header, .jsonl with an object a line, .parquet.
    anchor, positive, negative : str
        Names of the columns that hold the ids.
    weight : str, default=None
        Name of the column of weights; None where all judgements weigh the same.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X, each different; None where the table holds row numbers. Fields of
        .csv and .tsv are compared with the ids as text.

    Returns
    -------
    Judgements
        ``triplets, weights``, in the order of the table; the weights are None where `weight` is.

    Examples
    --------
    >>> table = {"anchor": ["cat", "dog"], "positive": ["lynx", "wolf"], "negative": ["dog", "cat"]}
    >>> judgement_triplets(table, ids=["cat", "dog", "lynx", "wolf"]).triplets.tolist()
    [[0, 2, 1], [1, 3, 0]]
    """
    names = {"anchor": anchor, "positive": positive, "negative": negative}
    data = tables.read_table(table, names if weight is None else {**names, "weight": weight})
    index = tables.row_index(ids, data.is_text)
    triplets = np.column_stack([tables.row_numbers(data, name, index) for name in names.values()])
    same = np.flatnonzero(triplets[:, 1] == triplets[:, 2])
    if len(same):
        what = data.columns[positive].tolist()[same[0]]
        raise ValueError(
            f"{data.place(same[0])} has {what!r} as both positive and negative ({len(same)} such "
            "judgement(s)): drop them, they say nothing."
        )
    if weight is None:
        return Judgements(triplets, None)
    weights = tables.numbers(data, weight)
    bad = np.flatnonzero(weights < 0)
    if len(bad):
        raise ValueError(
            f"{data.place(bad[0])} has {weights[bad[0]]} in column {weight!r}: weights must be "
            ">= 0."
        )
    return Judgements(triplets, weights)


# --- sets of triplets ----------------------------------------------------------------------------


@overload
def restrict(triplets: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray: ...
@overload
def restrict(
    triplets: np.ndarray, rows: np.ndarray, n_rows: int, weights: np.ndarray
) -> Judgements: ...
def restrict(
    triplets: np.ndarray, rows: np.ndarray, n_rows: int, weights: np.ndarray | None = None
) -> np.ndarray | Judgements:
    """Return the triplets that live inside `rows`, renumbered to it.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3)
        Anchor, positive and negative row numbers.
    rows : ndarray of shape (n_kept,)
        Rows to keep, in their new order.
    n_rows : int
        Number of rows `triplets` refers to.
    weights : ndarray of shape (n_triplets,), default=None

    Returns
    -------
    ndarray of shape (n_inside, 3), or Judgements
        With weights, both the triplets and their weights.

    Examples
    --------
    >>> restrict(np.array([[0, 1, 2], [3, 1, 2]]), np.array([2, 1, 0]), n_rows=4).tolist()
    [[2, 1, 0]]
    """
    position = np.full(n_rows, -1)
    position[rows] = np.arange(len(rows))
    renumbered = position[triplets]
    inside = (renumbered >= 0).all(axis=1)
    if weights is None:
        return renumbered[inside]
    return Judgements(renumbered[inside], np.asarray(weights)[inside])


def deduplicate(triplets: Any, weights: Any = None, *, net: bool = False) -> Judgements:
    """Return each triplet once, with the sum of its weights, in the order of first appearance.

    Parameters
    ----------
    triplets : array-like of int of shape (n_triplets, 3)
    weights : array-like of shape (n_triplets,), default=None
        None is 1 each, so that the sum is a count.
    net : bool, default=False
        Whether opposite triplets (a, b, c) and (a, c, b) are set off against each other: the
        heavier stays with the difference, and of equal weights neither does.

    Returns
    -------
    Judgements

    Examples
    --------
    >>> T, weights = deduplicate([[0, 1, 2], [0, 2, 1], [0, 1, 2]])
    >>> T.tolist(), weights.tolist()
    ([[0, 1, 2], [0, 2, 1]], [2.0, 1.0])
    >>> deduplicate([[0, 1, 2], [0, 2, 1], [0, 1, 2]], net=True).triplets.tolist()
    [[0, 1, 2]]
    """
    triplets = user_input.check_triplets(triplets, user_input.INDEX_LIMIT)
    weights = user_input.check_weights(weights, len(triplets), "triplet")
    weights = np.ones(len(triplets)) if weights is None else weights
    anchor, positive, negative = triplets.T
    if net:
        turned = positive > negative
        weights = np.where(turned, -weights, weights)
        positive, negative = np.minimum(positive, negative), np.maximum(positive, negative)
    kept = np.column_stack([anchor, positive, negative])
    order, first = _grouped(kept)
    total = np.add.reduceat(weights[order], first)
    by_appearance = np.argsort(order[first])
    kept, total = kept[order[first[by_appearance]]], total[by_appearance]
    if net:
        turned = total < 0
        kept[turned] = kept[turned][:, [0, 2, 1]]
        kept, total = kept[total != 0], np.abs(total[total != 0])
    return Judgements(kept, total)


def _grouped(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an order that puts equal rows side by side, and where each set of equals starts.

    Rows are sorted, equal ones in the order they came in.
    """
    width = [int(w) for w in rows.max(axis=0, initial=0) + 1]
    if math.prod(width) < 2**63:  # one sort of one number, three times as fast
        key = np.ravel_multi_index(tuple(rows.T), width)
        order = np.argsort(key, kind="stable")
        differs = np.diff(key[order]) != 0
    else:
        order = np.lexsort(rows.T[::-1])
        differs = (np.diff(rows[order], axis=0) != 0).any(axis=1)
    return order, np.flatnonzero(np.concatenate([[len(rows) > 0], differs]))


class Side(NamedTuple):
    """One side of a split of points: rows of X, and triplets that number these rows from 0.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,)
    triplets : ndarray of shape (n_triplets, 3)
    weights : ndarray of shape (n_triplets,), or None
    """

    rows: np.ndarray
    triplets: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True)
class PointKFold:
    """Cross-validation that splits points, so that no row is on both sides.

    Splitting triplets instead would test on rows that were learned from.

    Parameters
    ----------
    n_splits : int, default=5
    shuffle : bool, default=True
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> X = np.eye(6)
    >>> triplets = [[a, b, c] for a in range(6) for b in range(6) for c in range(b)]
    >>> for train, test in PointKFold(2, random_state=0).split_triplets(triplets, n_rows=6):
    ...     print(train.rows, len(train.triplets), test.rows, len(test.triplets))
    [0 3 4] 9 [1 2 5] 9
    [1 2 5] 9 [0 3 4] 9
    """

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = True
    random_state: Any = None

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of train and test sides, as the splitters of scikit-learn do.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Labels, whose shares the sides keep.
        groups : ignored

        Yields
        ------
        train, test : ndarray
        """
        from sklearn.model_selection import KFold, StratifiedKFold

        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        kind = KFold if y is None else StratifiedKFold
        folds = kind(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        yield from folds.split(np.empty((n_rows, 0)), y)

    def split_triplets(
        self, triplets: Any, n_rows: int, *, y: Any = None, weights: Any = None
    ) -> Iterator[tuple[Side, Side]]:
        """Yield train and test sides with their triplets; those across belong to neither.

        Parameters
        ----------
        triplets : array-like of int of shape (n_triplets, 3)
        n_rows : int
            Number of rows `triplets` refers to.
        y : array-like of shape (n_rows,), default=None
            Labels, whose shares the sides keep.
        weights : array-like of shape (n_triplets,), default=None

        Yields
        ------
        train, test : Side
            ``rows, triplets, weights``: ``fit(X[rows], triplets=triplets, sample_weight=weights)``.
        """
        triplets = user_input.check_triplets(triplets, n_rows)
        weights = user_input.check_weights(weights, len(triplets), "triplet")
        splits = list(self.split(np.empty((n_rows, 0)), y))
        # All before the first is used: nobody likes an error after hours of fitting.
        for k, (train, test) in enumerate(splits):
            for name, rows, way in (("train", train, "more"), ("test", test, "fewer")):
                inside = np.zeros(n_rows, dtype=bool)
                inside[rows] = True
                if not inside[triplets].all(axis=1).any():
                    raise ValueError(
                        f"Split {k} of n_splits={self.n_splits} has no triplet inside its "
                        f"{len(rows)} {name} rows; triplets across the sides belong to neither. "
                        f"Use {way} splits or more triplets."
                    )
        for train, test in splits:
            yield _side(train, triplets, weights, n_rows), _side(test, triplets, weights, n_rows)


def _side(rows: np.ndarray, triplets: np.ndarray, weights: np.ndarray | None, n_rows: int) -> Side:
    if weights is None:
        return Side(rows, restrict(triplets, rows, n_rows), None)
    return Side(rows, *restrict(triplets, rows, n_rows, weights))


# --- equal rows ----------------------------------------------------------------------------------


def distinct_rows(
    X: sp.csr_array, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each set of equal rows with equal labels, and the weight of each set.

    Rows of weight 0 are left out. Without weights each row weighs 1, so the weight of a set is the
    number of its rows: a row given twice is a row of weight 2.
    """
    kept = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
    weights = np.ones(len(kept)) if weights is None else weights[kept]
    # Equal rows have equal sums of weighted values, bit for bit: only rows that agree in it are
    # compared in full.
    spread = (X.indices.astype(np.uint64) * np.uint64(2654435761) % np.uint64(2**32)) / 2.0**32
    weighted = sp.csr_array(
        (X.data * spread, np.zeros_like(X.indices), X.indptr), shape=(X.shape[0], 1)
    )
    mark = weighted @ np.ones(1)
    _, group, count = np.unique(mark[kept], return_inverse=True, return_counts=True)
    if count.max() == 1:
        return kept, weights
    first: dict[tuple[bytes, bytes, int], int] = {}
    keep: list[int] = []
    total: list[float] = []
    for k, row in enumerate(kept):
        if count[group[k]] > 1:
            span = slice(X.indptr[row], X.indptr[row + 1])
            key = (X.indices[span].tobytes(), X.data[span].tobytes(), int(labels[row]))
            if key in first:
                total[first[key]] += weights[k]
                continue
            first[key] = len(keep)
        keep.append(int(row))
        total.append(weights[k])
    return np.array(keep), np.array(total)
