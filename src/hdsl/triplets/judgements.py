"""Triplets and quadruplets from tables that name rows by id: judgements, grades and choices."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..input.parameters import check_number, generator
from ..readers import tables
from .grades import compare_grades, group_numbers
from .rows import CLICKS, Judgements, ShownRows

P = ParamSpec("P")
R = TypeVar("R")


def judgement_triplets(
    table: Any,
    *,
    anchor: str = "anchor",
    positive: str = "positive",
    negative: str = "negative",
    weight: str | None = None,
    group: str | None = None,
    ids: Any = None,
) -> Judgements:
    """Return triplets from a table of judgements "anchor is more like positive than negative".

    Parameters
    ----------
    table : DataFrame, mapping of columns, or path
        A table of pandas, polars or pyarrow; a dict of lists or arrays; or a file: .csv
        and .tsv with a header, .jsonl with one object per line, .parquet. Text files
        are UTF-8.
    anchor, positive, negative : str
        Names of the columns that hold the ids.
    weight : str, default=None
        Name of the column of weights. None gives all judgements the same weight.
    group : str, default=None
        Name of a column of groups, such as users: the judgements of a group are held
        out together. None groups them by anchor.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X, all different. None if the table holds row numbers.
        Fields of .csv and .tsv are compared with the ids as text.

    Returns
    -------
    Judgements
        ``triplets, weights`` in the order of the table; the weights are None if
        `weight` is.

    Examples
    --------
    >>> table = {"anchor": ["cat", "dog"], "positive": ["lynx", "wolf"], "negative": ["dog", "cat"]}
    >>> judgement_triplets(table, ids=["cat", "dog", "lynx", "wolf"]).triplets.tolist()
    [[0, 2, 1], [1, 3, 0]]
    """
    names = {"anchor": anchor, "positive": positive, "negative": negative}
    return _read_judgements(table, names, weight, group, ids)


def judgement_quadruplets(
    table: Any,
    *,
    positive_a: str = "positive_a",
    positive_b: str = "positive_b",
    negative_a: str = "negative_a",
    negative_b: str = "negative_b",
    weight: str | None = None,
    group: str | None = None,
    ids: Any = None,
) -> Judgements:
    """Return quadruplets from a table of judgements "these two are more alike than those two".

    Parameters
    ----------
    table : DataFrame, mapping of columns, or path
        As for `judgement_triplets`.
    positive_a, positive_b : str
        Names of the columns with the ids of the more similar pair.
    negative_a, negative_b : str
        Names of the columns with the ids of the less similar pair.
    weight : str, default=None
        Name of the column of weights. None gives all judgements the same weight.
    group : str, default=None
        As for `judgement_triplets`.
    ids : array-like of shape (n_rows,), default=None
        As for `judgement_triplets`.

    Returns
    -------
    Judgements
        ``quadruplets, weights`` in the order of the table: a quadruplet (a, b, c, d)
        says that S(a, b) > S(c, d). The weights are None if `weight` is.

    Examples
    --------
    >>> table = {"positive_a": ["cat"], "positive_b": ["lynx"],
    ...          "negative_a": ["cat"], "negative_b": ["wolf"]}
    >>> quadruplets, weights = judgement_quadruplets(table, ids=["cat", "dog", "lynx", "wolf"])
    >>> quadruplets.tolist()
    [[0, 2, 0, 3]]
    """
    names = {"positive_a": positive_a, "positive_b": positive_b}
    names |= {"negative_a": negative_a, "negative_b": negative_b}
    return _read_judgements(table, names, weight, group, ids)


def _read_judgements(
    table: Any,
    names: dict[str, str],
    weight: str | None,
    group: str | None,
    ids: Any,
) -> Judgements:
    """Return the row numbers in the named columns of a table, and the weights."""
    columns = dict(names)
    if weight is not None:
        columns["weight"] = weight
    if group is not None:
        columns["group"] = group
    data = tables.read_table(table, columns)
    index = data.row_index(ids)
    rows = np.column_stack([data.row_numbers(name, index) for name in names.values()])
    weights = None
    if weight is not None:
        weights = data.numbers(weight)
        data.check(weight, weights >= 0, "weights must be >= 0")
    groups = None
    if group is not None:
        groups = group_numbers(data.columns[group])
    return Judgements(rows, weights, groups=groups)


# --- grades and choices ---------------------------------------------------------------


def _with_new_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say the new name of a parameter that is passed by its former name."""

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        for name, former in tables.FORMER_NAMES.items():
            if former in options:
                raise TypeError(
                    f"{function.__name__}() has no parameter {former!r}: its name is "
                    f"{name!r}. Tables with columns {former!r} are still read."
                )
        return function(*args, **options)

    return checked


@_with_new_names
def graded_triplets(
    table: Any,
    *,
    query: str = "query",
    document: str = "document",
    grade: str = "grade",
    event: str | None = None,
    n_per_anchor: int | None = None,
    ids: Any = None,
    random_state: Any = None,
) -> Judgements:
    """Return triplets from grades: each compares a document with one of lower grade.

    Parameters
    ----------
    table : DataFrame, mapping of columns, or path
        One row per query and document. See `judgement_triplets`.
    query, document, grade : str
        Names of the columns. Grades are numbers; larger means more relevant.
    event : str, default=None
        Name of a column of events. Only documents of the same event and query are
        compared. None compares all documents of a query.
    n_per_anchor : int or None, default=None
        Maximum number of triplets per query (and event), drawn at random without
        replacement.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X. None if the table holds row numbers.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Judgements
        ``triplets, weights``: the weight is the difference of the two grades.

    Examples
    --------
    >>> table = {"query": [0, 0, 0], "document": [1, 2, 3], "grade": [0, 3, 1]}
    >>> T, weights = graded_triplets(table)
    >>> T.tolist(), weights.tolist()
    ([[0, 3, 1], [0, 2, 1], [0, 2, 3]], [1.0, 3.0, 2.0])
    """
    owner = "graded_triplets"
    check_number(
        owner, "n_per_anchor", n_per_anchor, low=1, integer=True, words=(None,)
    )
    names = {"query": query, "document": document, "grade": grade}
    if event is not None:
        names["event"] = event
    data = tables.read_table(table, names)
    index = data.row_index(ids)
    anchors = data.row_numbers(query, index)
    group = group_numbers(anchors)
    if event is not None:
        group = group_numbers(group_numbers(data.columns[event]), anchors)
    judgements = compare_grades(
        group,
        anchors,
        items=data.row_numbers(document, index),
        grades=data.numbers(grade),
        n_per_group=n_per_anchor,
        rng=generator(random_state),
    )
    if len(judgements.triplets) == 0:
        raise ValueError(
            "No triplet can be built: no query has two documents of different grades."
        )
    return judgements


@_with_new_names
def choice_triplets(
    events: Any,
    *,
    event: str = "event",
    query: str = "query",
    document: str = "document",
    clicked: str = "clicked",
    ids: Any = None,
    queries: Any = None,
    position: str | None = None,
    max_unknown: float = 0.1,
) -> Judgements:
    """Return triplets from choices: (query, chosen, not chosen) for all documents of an event.

    Parameters
    ----------
    events : list of (query, shown, chosen), DataFrame, mapping of columns, or path
        In a list, `shown` is a list of documents and `chosen` is one or several of
        them. A table has one row per document of an event. See `judgement_triplets`.
    event, query, document, clicked : str
        Names of the columns of a table. `clicked` holds true or false, or 1 or 0.
    ids : array-like of shape (n_rows,), default=None
        The id of each row of X. None if `events` holds row numbers.
    queries : array-like of shape (n_queries,), default=None
        The ids or typed texts of queries, if queries are not rows of `ids`: query k is
        the row ``len(ids) + k`` of X.
    position : str, default=None
        Name of the column of ranks at which documents were shown, from 1; in a list,
        the order gives the ranks. People look most at the first ones, so the weight of
        a click is its rank.
    max_unknown : float, default=0.1
        Maximum share of lines whose query or document has no id, such as deleted rows.
        They are left out with a warning that counts them.

    Returns
    -------
    Judgements
        Of the kind "clicks", with the documents shown: ``HDSL().fit(X,
        triplets=clicks)``. An event with all documents chosen, or none, makes no
        triplet. With `position`, triplets have weights.

    Examples
    --------
    >>> choice_triplets([(0, [1, 2, 3], 2), (3, [0, 1], [0])]).triplets.tolist()
    [[0, 2, 1], [0, 2, 3], [3, 0, 1]]
    >>> log = [("warm hat", ["cap", "scarf"], "cap")]
    >>> choice_triplets(log, ids=["scarf", "cap"], queries=["warm hat"]).triplets.tolist()
    [[2, 1, 0]]
    """
    check_number("choice_triplets", "max_unknown", max_unknown, low=0.0, high=1.0)
    if queries is not None and ids is None:
        raise ValueError("queries stand after the rows of ids: pass ids too.")
    if isinstance(events, list | tuple):
        columns = (event, query, document, clicked, position or "position")
        events = _long_format(events, columns)
    names = {"event": event, "query": query, "document": document, "clicked": clicked}
    if position is not None:
        names["position"] = position
    data = tables.read_table(events, names)
    index = data.row_index(ids)
    anchor_index = index
    first_anchor = 0
    if queries is not None:
        anchor_index = data.row_index(queries)
        first_anchor = len(ids)
    data = data.without_unknown(query, anchor_index, max_unknown)
    data = data.without_unknown(document, index, max_unknown)
    anchors = first_anchor + data.row_numbers(query, anchor_index)
    items = data.row_numbers(document, index)
    are_clicked = data.flags(clicked)
    events_of_lines = group_numbers(group_numbers(data.columns[event]), anchors)
    # Lines are compared, and not items, so that each comparison has the rank of a line.
    compared = compare_grades(
        events_of_lines,
        anchors,
        items=np.arange(len(anchors)),
        grades=are_clicked,
    ).triplets
    chosen = items[compared[:, 1]]
    others = items[compared[:, 2]]
    differs = chosen != others
    triplets = np.column_stack([compared[:, 0], chosen, others])[differs]
    if len(triplets) == 0:
        raise ValueError(
            "No triplet can be built: no event has both a chosen document and "
            "another one."
        )
    order = np.argsort(events_of_lines, kind="stable")
    weights = None
    positions = _order_in_events(events_of_lines, order)
    if position is not None:
        positions = data.numbers(position)
        data.check(position, positions >= 1, "ranks are numbered from 1")
        weights = positions[compared[:, 1]][differs]
    shown = ShownRows(
        events=events_of_lines,
        queries=anchors,
        rows=items,
        positions=positions,
        are_clicked=are_clicked.astype(bool),
    )
    return Judgements(
        triplets,
        weights,
        kind=CLICKS,
        n_documents=None if queries is None else first_anchor,
        shown=shown.take(order),
        query_names=queries,
    )


def _order_in_events(events: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return for each line its number among those of its event, from 1."""
    sizes = np.bincount(events)
    first = np.cumsum(sizes) - sizes
    positions = np.empty(len(events))
    positions[order] = np.arange(len(events)) - np.repeat(first, sizes) + 1
    return positions


def _long_format(events: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return a list of (query, shown, chosen) as columns.

    `names` are those of events, queries, documents, clicks and ranks.
    """
    numbers = []
    anchors = []
    items = []
    clicks = []
    ranks: list[int] = []
    for k, choice in enumerate(events):
        if not isinstance(choice, list | tuple) or len(choice) != 3:
            raise ValueError(
                f"events[{k}] must be (query, shown, chosen). Got {choice!r}."
            )
        query, shown, chosen = choice
        shown = list(shown)
        if not isinstance(chosen, list | tuple | set | frozenset | np.ndarray):
            chosen = [chosen]
        chosen = set(chosen)
        unknown = [item for item in chosen if item not in shown]
        if unknown:
            raise ValueError(
                f"events[{k}]: {unknown[0]!r} was chosen but is not one of the "
                f"documents shown, {shown!r}."
            )
        numbers += [k] * len(shown)
        anchors += [query] * len(shown)
        items += shown
        clicks += [item in chosen for item in shown]
        ranks += range(1, len(shown) + 1)
    columns = (numbers, anchors, items, clicks, ranks)
    return dict(zip(names, columns, strict=True))
