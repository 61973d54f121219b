"""Tables with names and signed numbers, as text, HTML, DataFrame and plain values."""

import html
from importlib import import_module
from typing import Any

import numpy as np

from ..input.printable import escaped

#: Blue and vermilion of Okabe and Ito, for positive and negative: safe for the
#: color-blind.
POSITIVE = "#0072B2"
NEGATIVE = "#D55E00"

#: How the name of a feature begins that is the score of a class.
CLASS = "class:"

Block = tuple[str, list[tuple[str, float]]]


def as_names(feature_names: Any, n_features: int) -> Any:
    """Return an object that gives the name of a feature by its number.

    Parameters
    ----------
    feature_names : array-like of str of shape (n_features,) or None
        None is x0, x1, …, made on demand: there may be more features than names fit in
        memory.
    n_features : int
    """
    if feature_names is None:
        return _Numbered()
    if len(feature_names) != n_features:
        raise ValueError(
            f"feature_names must have one name for each of {n_features} features. Got "
            f"{len(feature_names)}."
        )
    return np.asarray(feature_names, dtype=object)


class _Numbered:
    """Names x0, x1, …, made on demand."""

    def __getitem__(self, i: int) -> str:
        return f"x{i}"


def pair_names(i: np.ndarray, j: np.ndarray, names: Any) -> np.ndarray:
    """Return "a ~ b" per feature pair, and "a" where both are the same feature."""
    pairs = zip(i.tolist(), j.tolist(), strict=True)
    return np.array(
        [_pair_name(first, second, names) for first, second in pairs], dtype=object
    )


def _pair_name(i: int, j: int, names: Any) -> str:
    """Return "a ~ b", and "a" where both are the same feature."""
    if i == j:
        return str(names[i])
    return f"{names[i]} ~ {names[j]}"


def has_class(names: np.ndarray) -> np.ndarray:
    """Return whether each name of `pair_names` has the score of a class in it."""
    are_classes = [name.startswith(CLASS) or f" ~ {CLASS}" in name for name in names]
    return np.array(are_classes, dtype=bool)


def table_of(
    by: str, last: np.ndarray | None = None, **columns: np.ndarray
) -> np.ndarray:
    """Return columns as one structured array, sorted by falling absolute value of column `by`.

    Rows where `last` is True come after all others.
    """
    keys = [-np.abs(columns[by])]
    if last is not None:
        keys.append(last)
    order = np.lexsort(keys)
    table = np.empty(
        len(order), dtype=[(name, column.dtype) for name, column in columns.items()]
    )
    for name, column in columns.items():
        table[name] = column[order]
    return table


def records(table: np.ndarray) -> list[dict[str, Any]]:
    """Return one dict of plain values per row of a table."""
    return [
        dict(zip(table.dtype.names or (), row, strict=True)) for row in table.tolist()
    ]


def as_frame(table: np.ndarray) -> Any:
    """Return a table as a pandas DataFrame."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "to_frame needs pandas: install it with `pip install pandas`, or use "
            "to_dict()."
        ) from error
    return pandas.DataFrame({name: table[name] for name in table.dtype.names or ()})


# --- text and HTML --------------------------------------------------------------------


class Readable:
    """Titled lists of labels and signed numbers, as text and as HTML."""

    def blocks(self) -> list[Block]:
        """Return a title and rows of label and number, per list."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n\n".join(_as_text(*block) for block in self.blocks())

    def _repr_html_(self) -> str:
        return "\n".join(_as_html(*block) for block in self.blocks())


def shown(name: Any, width: int = 48) -> str:
    """Return a name as one short line; control characters are escaped."""
    text = "".join(map(escaped, str(name)))
    if len(text) <= width:
        return text
    half = width // 2
    return f"{text[:half]}…{text[-half:]}"


def _as_text(title: str, rows: list[tuple[str, float]], width: int = 20) -> str:
    """Return rows with bars: those of negative numbers to the left of those of positive."""
    labels = [label for label, _ in rows]
    numbers = [f"{value:+.4g}" for _, value in rows]
    lengths = [round(width * share) for share in _shares_of_largest(rows)]
    left = max((-length for length in lengths), default=0)
    left = max(left, 0)
    label_width = max(map(len, labels), default=0)
    number_width = max(map(len, numbers), default=0)
    lines = [title]
    for label, number, length in zip(labels, numbers, lengths, strict=True):
        minuses = "-" * -length
        pluses = "+" * length
        lines.append(
            f"  {label:{label_width}} {number:>{number_width}} "
            f"{minuses:>{left}}|{pluses}"
        )
    return "\n".join(lines)


def _shares_of_largest(rows: list[tuple[str, float]]) -> list[float]:
    """Return the numbers divided by the largest absolute value of them, if it is not 0."""
    values = [value for _, value in rows]
    largest = max(map(abs, values), default=0.0)
    if largest == 0.0:
        return values
    return [value / largest for value in values]


def _as_html(title: str, rows: list[tuple[str, float]]) -> str:
    """Return rows as a table with a bar per number, on one axis."""
    shares = _shares_of_largest(rows)  # of which a difference cannot overflow
    low = min([*shares, 0.0])
    extent = max([*shares, 0.0]) - low
    if extent == 0.0:
        extent = 1.0
    caption = (
        '<caption style="text-align:left;white-space:nowrap">'
        f"{html.escape(title)}</caption>"
    )
    lines = ["<table>", caption]
    for (label, value), share in zip(rows, shares, strict=True):
        color = NEGATIVE
        if value > 0:
            color = POSITIVE
        left = 100 * (min(share, 0.0) - low) / extent
        length = 100 * abs(share) / extent
        lines.append(
            f'<tr><td style="text-align:left">{html.escape(label)}</td>'
            f'<td style="text-align:right">{value:+.4g}</td>'
            '<td style="min-width:12em">'
            f'<div style="margin-left:{left:.1f}%;width:{length:.1f}%;'
            f'height:0.8em;background:{color}"></div></td></tr>'
        )
    return "\n".join([*lines, "</table>"])
