"""Tables with names and signed numbers, as text, HTML, DataFrame and plain values."""

import html
import math
from typing import Any, NamedTuple

import numpy as np

from ..printable import escaped, frame_of

#: Blue and vermilion of Okabe and Ito, for positive and negative: safe for the
#: color-blind.
POSITIVE = "#0072B2"
NEGATIVE = "#D55E00"

#: How the name of a feature begins that is the score of a class.
CLASS = "class:"

#: Digits that numbers have after the first one of the largest beside them.
DIGITS = 3


class Line(NamedTuple):
    """A labelled number that is drawn as a bar, and the numbers that add up to it."""

    label: str
    value: float
    addends: tuple[float, ...] = ()


class BarList(NamedTuple):
    """A titled list of lines; `addends` names the columns of what adds up."""

    title: str
    lines: list[Line]
    addends: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of numbers; none if a line has one number."""
        if not self.addends:
            return ()
        return ("sum", *self.addends)


def as_names(feature_names: Any, n_features: int, n_paired: int | None = None) -> Any:
    """Return an object that gives the name of a feature by its number.

    Parameters
    ----------
    feature_names : array-like of str of shape (n_features,) or None
        None is x0, x1, …, made on demand: there may be more features than names fit in
        memory.
    n_features : int
    n_paired : int, default=None
        Features before an embedding, whose columns need no names; None is all.
    """
    if feature_names is None:
        return _Numbered()
    if len(feature_names) not in (n_features, n_paired):
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
    """Return "a ~ b" per feature pair, and "a" if both are the same feature."""
    pairs = zip(i.tolist(), j.tolist(), strict=True)
    return np.array(
        [_pair_name(first, second, names) for first, second in pairs], dtype=object
    )


def _pair_name(i: int, j: int, names: Any) -> str:
    """Return "a ~ b", and "a" if both are the same feature."""
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
    columns = {name: table[name] for name in table.dtype.names or ()}
    return frame_of(columns, otherwise=", or use to_dict()")


# --- text and HTML --------------------------------------------------------------------


class Readable:
    """Titled lists of labels and signed numbers, as text and as HTML."""

    def blocks(self) -> list[BarList]:
        """Return a title and lines of label and number, per list."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n\n".join(map(_as_text, self.blocks()))

    def _repr_html_(self) -> str:
        return "\n".join(map(_as_html, self.blocks()))


def shown(name: Any, width: int = 48) -> str:
    """Return a name as one short line; control characters are escaped."""
    text = "".join(map(escaped, str(name)))
    if len(text) <= width:
        return text
    half = width // 2
    return f"{text[:half]}…{text[-half:]}"


def signed(value: float, largest: float) -> str:
    """Return a number with its sign and four digits; what is tiny beside the largest is 0."""
    if 0.0 < abs(largest) < math.inf:
        value = round(value, DIGITS - math.floor(math.log10(abs(largest)))) + 0.0
    return f"{value:+.4g}"


def _numbers(block: BarList) -> list[list[str]]:
    """Return the numbers of each line as text; of what adds up, a 0 is empty."""
    largest = max((abs(line.value) for line in block.lines), default=0.0)
    numbers = []
    for line in block.lines:
        texts = [signed(line.value, largest)]
        for addend in line.addends:
            text = signed(addend, largest)
            texts.append("" if text == "+0" else text)
        numbers.append(texts)
    return numbers


def _as_text(block: BarList, width: int = 20) -> str:
    """Return lines with bars: those of negative numbers to the left of those of positive."""
    bars = [round(width * share) for share in _shares_of_largest(block.lines)]
    left = max((-length for length in bars), default=0)
    left = max(left, 0)
    labels = [line.label for line in block.lines]
    numbers = _numbers(block)
    if block.header:
        labels.insert(0, "")
        numbers.insert(0, list(block.header))
    label_width = max(map(len, labels), default=0)
    widths = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    texts = []
    for label, row in zip(labels, numbers, strict=True):
        cells = [f"{text:>{n}}" for text, n in zip(row, widths, strict=True)]
        texts.append(f"  {label:{label_width}} {' '.join(cells)}")
    if block.header:
        bar_texts = [""]
    else:
        bar_texts = []
    bar_texts += [f" {'-' * -length:>{left}}|{'+' * length}" for length in bars]
    lines = [text + bar for text, bar in zip(texts, bar_texts, strict=True)]
    return "\n".join([block.title, *lines])


def _shares_of_largest(lines: list[Line]) -> list[float]:
    """Return the numbers divided by the largest absolute value of them, if it is not 0."""
    values = [line.value for line in lines]
    largest = max(map(abs, values), default=0.0)
    if largest == 0.0:
        return values
    return [value / largest for value in values]


def _as_html(block: BarList) -> str:
    """Return lines as a table with a bar per number, on one axis."""
    shares = _shares_of_largest(block.lines)  # of which a difference cannot overflow
    low = min([*shares, 0.0])
    extent = max([*shares, 0.0]) - low
    if extent == 0.0:
        extent = 1.0
    caption = (
        '<caption style="text-align:left;white-space:nowrap">'
        f"{html.escape(block.title)}</caption>"
    )
    rows = ["<table>", caption]
    if block.header:
        names = "".join(f"<th>{html.escape(name)}</th>" for name in block.header)
        rows.append(f"<thead><tr><th></th>{names}<th></th></tr></thead>")
    numbers = _numbers(block)
    for line, share, texts in zip(block.lines, shares, numbers, strict=True):
        color = NEGATIVE
        if line.value > 0:
            color = POSITIVE
        left = 100 * (min(share, 0.0) - low) / extent
        length = 100 * abs(share) / extent
        cells = [f'<td style="text-align:right">{text}</td>' for text in texts]
        rows.append(
            f'<tr><td style="text-align:left">{html.escape(line.label)}</td>'
            f"{''.join(cells)}"
            '<td style="min-width:12em">'
            f'<div style="margin-left:{left:.1f}%;width:{length:.1f}%;'
            f'height:0.8em;background:{color}"></div></td></tr>'
        )
    return "\n".join([*rows, "</table>"])
