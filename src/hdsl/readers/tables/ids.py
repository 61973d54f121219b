"""Row numbers of X that the ids in a column stand for."""

from __future__ import annotations

from collections import Counter
from itertools import repeat
from typing import Any

import numpy as np

from ...input.errors import WayOutError, first_few, warn
from .columns import Table
from .values import PASS_IDS, whole_numbers


def row_index(ids: Any, is_text: bool) -> dict[Any, int] | None:
    """Return the row of each id, None without ids; `is_text` makes texts of the ids."""
    if ids is None:
        return None
    # A NumPy array of strings would strip null characters.
    dtype = object if isinstance(ids, list | tuple) else None
    array = np.asarray(ids, dtype=dtype)
    if array.ndim != 1:
        raise ValueError(
            f"ids must have shape (n_rows,), one id per row. Got shape {array.shape}."
        )
    keys = array.tolist()
    if is_text:
        keys = [str(key) for key in keys]
    return unique_index(keys)


def unique_index(keys: list[Any]) -> dict[Any, int]:
    """Return the number of each key; raise ValueError where a key occurs twice."""
    index = {key: number for number, key in enumerate(keys)}
    if len(index) < len(keys):
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        raise ValueError(
            f"ids must be different, but {len(repeated)} of them occur more than once: "
            f"{first_few(repeated)}."
        )
    return index


def row_numbers(table: Table, name: str, index: dict[Any, int] | None) -> np.ndarray:
    """Return the row numbers of X that a column of ids, or of row numbers, stands for."""
    if index is None:
        return _plain_numbers(table, name)
    ids = table.columns[name].tolist()
    rows = np.fromiter(map(index.get, ids, repeat(-1)), np.int64, len(ids))
    if rows.min() < 0:
        unknown = list(dict.fromkeys(ids[k] for k in np.flatnonzero(rows < 0)))
        raise ValueError(_about_unknown(table, name, index, unknown))
    return rows


def without_unknown(
    table: Table, name: str, index: dict[Any, int] | None, max_unknown: float
) -> Table:
    """Return the lines of a table whose id in a column has a row; warn of the others.

    More lines than the share `max_unknown` are an error, as those of a log about another
    table would be. Nothing is left out where it is 0, nor of row numbers.
    """
    if index is None or max_unknown == 0.0:
        return table
    ids = table.columns[name].tolist()
    is_known = np.fromiter((key in index for key in ids), bool, len(ids))
    n_unknown = int((~is_known).sum())
    if n_unknown == 0:
        return table
    unknown = list(dict.fromkeys(ids[k] for k in np.flatnonzero(~is_known)))
    facts = f"{_about_unknown(table, name, index, unknown)[:-1]}"
    share = f"{n_unknown:,} of {len(ids):,} lines"
    if n_unknown > max_unknown * len(ids):
        raise WayOutError(
            f"{facts}. These are {share}, more than a share of {max_unknown:g}",
            "check the ids, or raise max_unknown if these rows are gone",
            "unknown",
        )
    warn(f"{facts}: {share} are left out.")
    return table.only(is_known)


def _about_unknown(
    table: Table, name: str, index: dict[Any, int], unknown: list[Any]
) -> str:
    """Return the message about ids that no row has; their type may be why."""
    clause = f"{len(unknown)} ids in column {name!r} of {table.name} match no row"
    if len(unknown) == 1:
        clause = f"1 id in column {name!r} of {table.name} matches no row"
    message = f"{clause}: {first_few(unknown)}."
    column_type = type(unknown[0]).__name__
    ids_type = type(next(iter(index), None)).__name__
    if not index:
        message += " There are no rows."
    elif column_type != ids_type:
        message += f" The column holds {column_type}, ids hold {ids_type}: convert one."
    return message


def _plain_numbers(table: Table, name: str) -> np.ndarray:
    """Return a column of row numbers; raise ValueError where it holds anything else."""
    column = table.columns[name]
    if table.is_text:
        column = whole_numbers(table, name)
    if column.dtype.kind not in "iu":
        raise WayOutError(
            f"Column {name!r} of {table.name} must hold row numbers, integers. Got "
            f"dtype {column.dtype}",
            f"{PASS_IDS}, or convert the column",
            "ids",
        )
    is_row = (column >= 0) & (column <= np.iinfo(np.int64).max)
    table.check(name, is_row, "rows are numbered from 0")
    return column.astype(np.int64)
