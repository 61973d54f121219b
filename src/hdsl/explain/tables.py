"""Tables with names and signed numbers, as text, HTML, DataFrame and plain values."""

import html
from importlib import import_module
from typing import Any

import numpy as np

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
    labels = [str(names[a]) if a == b else f"{names[a]} ~ {names[b]}" for a, b in pairs]
    return np.array(labels, dtype=object)


def has_class(names: np.ndarray) -> np.ndarray:
    """Return whether each name of `pair_names` has the score of a class in it."""
    found = [name.startswith(CLASS) or f" ~ {CLASS}" in name for name in names]
    return np.array(found, dtype=bool)


def table_of(
    by: str, last: np.ndarray | None = None, **columns: np.ndarray
) -> np.ndarray:
    """Return columns as one structured array, sorted by falling absolute value of column `by`.

    Rows where `last` is True come after all others.
    """
    size = -np.abs(columns[by])
    order = np.lexsort((size,) if last is None else (size, last))
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
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name)
    )
    half = width // 2
    return text if len(text) <= width else f"{text[:half]}…{text[-half:]}"


def _as_text(title: str, rows: list[tuple[str, float]], width: int = 20) -> str:
    largest = _largest(rows)
    bars = [
        ("+" if value > 0 else "-") * round(width * (abs(value) / largest))
        for _, value in rows
    ]
    left = max((len(bar) for bar in bars if bar.startswith("-")), default=0)
    label_width = max((len(label) for label, _ in rows), default=0)
    numbers = [f"{value:+.4g}" for _, value in rows]
    number_width = max(map(len, numbers), default=0)
    lines = [title]
    for (label, _), number, bar in zip(rows, numbers, bars, strict=True):
        signed = f"{bar:>{left}}|" if bar.startswith("-") else f"{'':{left}}|{bar}"
        lines.append(f"  {label:{label_width}} {number:>{number_width}} {signed}")
    return "\n".join(lines)


def _largest(rows: list[tuple[str, float]]) -> float:
    """Return the largest absolute value, 1 if there is none."""
    return max((abs(value) for _, value in rows), default=1.0) or 1.0


def _as_html(title: str, rows: list[tuple[str, float]]) -> str:
    largest = _largest(rows)
    values = [
        value / largest for _, value in rows
    ]  # a difference of two may be no float
    high = max([*values, 0.0])
    low = min([*values, 0.0])
    extent = high - low or 1.0
    caption = f'<caption style="text-align:left;white-space:nowrap">{html.escape(title)}</caption>'
    lines = ["<table>", caption]
    for (label, value), part in zip(rows, values, strict=True):
        left = 100 * (min(part, 0.0) - low) / extent
        size = 100 * abs(part) / extent
        color = POSITIVE if value > 0 else NEGATIVE
        lines.append(
            f'<tr><td style="text-align:left">{html.escape(label)}</td>'
            f'<td style="text-align:right">{value:+.4g}</td>'
            f'<td style="min-width:12em"><div style="margin-left:{left:.1f}%;width:{size:.1f}%;'
            f'height:0.8em;background:{color}"></div></td></tr>'
        )
    return "\n".join([*lines, "</table>"])
