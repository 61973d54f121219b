"""Frames with both records of a pair in a row, as joins of other programs make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..input.errors import first_few
from .blocking import Blocks
from .candidates import SearchedRecords
from .features import RecordFeatures
from .nearest import DEPTH, NearestRecords
from .similarity import learned_rows
from .tables import Table, Tables, columns_of, make_table, texts_of

#: How a column of a side may be called: those of pandas, of SQL, and of Splink.
PATTERNS = {
    "left": ("{}_left", "left_{}", "{}_l"),
    "right": ("{}_right", "right_{}", "{}_r"),
}


def read_pairs(frame: Any, tables: Tables) -> Tables:
    """Return the left and the right record of each row, with the columns of tables.

    Parameters
    ----------
    frame : DataFrame, batch of Arrow or mapping of columns
        Columns as ``name_left`` and ``name_right``, ``left_name`` and ``right_name``, or
        ``name_l`` and ``name_r``. One that is not there is empty.
    tables : Tables
    """
    if hasattr(frame, "to_pydict"):  # a table or a batch of Arrow
        frame = frame.to_pydict()
    values = columns_of(frame)
    n_rows = max(map(len, values.values()), default=0)
    return Tables(
        _side(values, tables.left, "left", n_rows),
        _side(values, tables.right, "right", n_rows),
    )


def _side(values: dict[str, list[Any]], table: Table, side: str, n_rows: int) -> Table:
    """Return the records of one side."""
    source_of = {}
    for name in table.columns:
        names = [pattern.format(name) for pattern in PATTERNS[side]]
        source_of[name] = next((each for each in names if each in values), None)
    if not any(source_of.values()):
        name = next(iter(table.columns))
        raise ValueError(
            f"score_pairs expected columns of the {side} record, such as "
            f"{PATTERNS[side][0].format(name)!r}, and the frame has "
            f"{first_few(values)}: rename them."
        )
    empty = [""] * n_rows
    columns = {
        name: texts_of(values[source], name) if source else empty
        for name, source in source_of.items()
    }
    return make_table(columns, [*range(n_rows)])


def alone(pairs: Tables, searched: SearchedRecords, model: Any) -> SearchedRecords:
    """Return records of pairs as if there were no others: none has a nearer one.

    Parameters
    ----------
    pairs : Tables
    searched : SearchedRecords
        The records whose vocabulary and columns count.
    model : HDSL or None
    """
    vocabulary = searched.records.vocabulary.with_texts(pairs.texts())
    kinds = searched.records.strings.column_kinds
    records = RecordFeatures.of_tables(pairs, vocabulary, kinds)
    rows = [records.unit_rows]
    if model is not None:
        rows.append(learned_rows(model, records))
    nobody = NearestRecords.empty(pairs.n_records, DEPTH)
    return SearchedRecords(
        pairs,
        records,
        rules=(),
        blocks=Blocks.of_tables(pairs, ()),
        rows=rows,
        near=[nobody] * len(rows),
        spelling=nobody,
    )


def pairs_of_rows(tables: Tables) -> np.ndarray:
    """Return the numbers of the left and the right record of each row."""
    rows = np.arange(tables.n_left)
    return np.column_stack([rows, rows + tables.n_left])
