"""Triplets and quadruplets from tables of judgements that name rows by id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..readers import tables


class Judgements(NamedTuple):
    """Triplets or quadruplets and their weights, to unpack into arguments of ``fit``.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3) or (n_quadruplets, 4)
    weights : ndarray of shape (n_triplets,), or None if all weigh the same
    """

    triplets: np.ndarray
    weights: np.ndarray | None


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
        A table of pandas, polars or pyarrow; a dict of lists or arrays; or a file: .csv and .tsv
        with a header, .jsonl with one object per line, .parquet. Text files are UTF-8.
    anchor, positive, negative : str
        Names of the columns that hold the ids.
    weight : str, default=None
        Name of the column of weights. None if all judgements weigh the same.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X, all different. None if the table holds row numbers. Fields of
        .csv and .tsv are compared with the ids as text.

    Returns
    -------
    Judgements
        ``triplets, weights`` in the order of the table; the weights are None if `weight` is.

    Examples
    --------
    >>> table = {"anchor": ["cat", "dog"], "positive": ["lynx", "wolf"], "negative": ["dog", "cat"]}
    >>> judgement_triplets(table, ids=["cat", "dog", "lynx", "wolf"]).triplets.tolist()
    [[0, 2, 1], [1, 3, 0]]
    """
    names = {"anchor": anchor, "positive": positive, "negative": negative}
    data, triplets, weights = _read_judgements(table, names, weight, ids)
    same = np.flatnonzero(triplets[:, 1] == triplets[:, 2])
    if len(same):
        what = data.columns[positive].tolist()[same[0]]
        raise ValueError(
            f"{data.place(same[0])} has {what!r} as both positive and negative. Such judgements "
            f"say nothing: drop them ({len(same)} of {len(triplets)})."
        )
    return Judgements(triplets, weights)


def judgement_quadruplets(
    table: Any,
    *,
    positive_a: str = "positive_a",
    positive_b: str = "positive_b",
    negative_a: str = "negative_a",
    negative_b: str = "negative_b",
    weight: str | None = None,
    ids: Any = None,
) -> Judgements:
    """Return quadruplets from a table of judgements "these two are more alike than those two".

    Parameters
    ----------
    table : DataFrame, mapping of columns, or path
        As for `judgement_triplets`.
    positive_a, positive_b : str
        Names of the columns that hold the ids of the pair that is more alike.
    negative_a, negative_b : str
        Names of the columns that hold the ids of the pair that is less alike.
    weight : str, default=None
        Name of the column of weights. None if all judgements weigh the same.
    ids : array-like of shape (n_rows,), default=None
        As for `judgement_triplets`.

    Returns
    -------
    Judgements
        ``quadruplets, weights`` in the order of the table: a quadruplet (a, b, c, d) says that
        S(a, b) > S(c, d). The weights are None if `weight` is.

    Examples
    --------
    >>> table = {"positive_a": ["cat"], "positive_b": ["lynx"],
    ...          "negative_a": ["cat"], "negative_b": ["wolf"]}
    >>> quadruplets, weights = judgement_quadruplets(table, ids=["cat", "dog", "lynx", "wolf"])
    >>> quadruplets.tolist()
    [[0, 2, 0, 3]]
    """
    names = {
        "positive_a": positive_a,
        "positive_b": positive_b,
        "negative_a": negative_a,
        "negative_b": negative_b,
    }
    data, quadruplets, weights = _read_judgements(table, names, weight, ids)
    pairs = np.sort(quadruplets.reshape(-1, 2, 2), axis=2)
    same = np.flatnonzero((pairs[:, 0] == pairs[:, 1]).all(axis=1))
    if len(same):
        a, b = (data.columns[name].tolist()[same[0]] for name in (positive_a, positive_b))
        raise ValueError(
            f"{data.place(same[0])} compares the pair ({a!r}, {b!r}) with itself. Such judgements "
            f"say nothing: drop them ({len(same)} of {len(quadruplets)})."
        )
    return Judgements(quadruplets, weights)


def _read_judgements(
    table: Any, names: dict[str, str], weight: str | None, ids: Any
) -> tuple[tables.Table, np.ndarray, np.ndarray | None]:
    """Return a table, the row numbers in the named columns, and the weights."""
    data = tables.read_table(table, names if weight is None else {**names, "weight": weight})
    index = tables.row_index(ids, data.is_text)
    rows = np.column_stack([tables.row_numbers(data, name, index) for name in names.values()])
    if weight is None:
        return data, rows, None
    weights = tables.numbers(data, weight)
    bad = np.flatnonzero(weights < 0)
    if len(bad):
        raise ValueError(
            f"{data.place(bad[0])} has {weights[bad[0]]} in column {weight!r}: weights must be "
            ">= 0."
        )
    return data, rows, weights
