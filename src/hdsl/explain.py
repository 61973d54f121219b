"""Why two rows are similar, and which features count: exact parts of S, and weights in M."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import user_input
from .core import atoms as atoms_module
from .similarity import Similarity

__all__ = ["Explanation", "Importance", "explain", "importance"]

BY = ("pair", "atom")

#: Blue and vermilion of Okabe and Ito, for positive and negative: safe for the color-blind.
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"

Block = tuple[str, list[tuple[str, float]]]


# --- results -------------------------------------------------------------------------------------


class _Readable:
    """Titled lists of labels and signed numbers, as text and as HTML."""

    def _blocks(self) -> list[Block]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n\n".join(_as_text(*block) for block in self._blocks())

    def _repr_html_(self) -> str:
        return "\n".join(_as_html(*block) for block in self._blocks())


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(_Readable):
    """The exact additive parts of S(x, y), or of S(x, y) - S(x, z), largest first.

    Attributes
    ----------
    total : float
        The correctly rounded sum of all parts, ``math.fsum(parts["value"])``.
    parts : structured ndarray of shape (n_parts,)
        kind ("pair", "atom" or "prior"), name, i, j, value. For a single feature j is i. Parts
        of value 0 are left out.
    of : str
        What is explained, such as "S(x, y)".
    top : int or None
        How many parts are shown; None is all.
    """

    total: float
    parts: np.ndarray
    of: str
    top: int | None = 10

    @property
    def learned(self) -> float:
        """The part of xᵀMy in the total."""
        return math.fsum(self.parts["value"][self.parts["kind"] != "prior"])

    @property
    def prior(self) -> float:
        """The part of prior·⟨x, y⟩ in the total."""
        return math.fsum(self.parts["value"][self.parts["kind"] == "prior"])

    def to_dict(self) -> dict[str, Any]:
        """Return `of`, the total and the parts as plain values for JSON."""
        return {"of": self.of, "total": self.total, "parts": _records(self.parts)}

    def to_frame(self) -> Any:
        """Return the parts as a pandas DataFrame."""
        return _frame(self.parts)

    def _blocks(self) -> list[Block]:
        title = f"{self.of} = {self.total:.6g}"
        if len(self.parts):
            title += f", learned {self.learned:+.4g}, prior {self.prior:+.4g}"
        else:
            which = "y and z differ in" if self.of.endswith("z)") else "x and y share"
            title += f": {which} no feature and no pair of features that counts"
        rows = [
            (shown(part["name"]) + " (prior)" * (part["kind"] == "prior"), float(part["value"]))
            for part in self.parts[: self.top]
        ]
        rest = self.parts["value"][self.top :] if self.top is not None else ()
        if len(rest):
            rows.append((f"[{len(rest)} more]", math.fsum(rest)))
        return [(title, rows)]


@dataclass(frozen=True, eq=False, repr=False)
class Importance(_Readable):
    """Weights of features and feature pairs in a similarity, heaviest first.

    Attributes
    ----------
    features : structured ndarray of shape (n_active,)
        name, i; weight, the entry M_ii; share of the trace of M, which is 2·scale; direction, from
        -1 (the feature is in atoms with a minus only) to +1 (in atoms with a plus only); with data
        also n_rows, the number of rows where it is not 0.
    pairs : structured ndarray of shape (n_pairs,)
        name, i, j; weight, the entry M_ij, positive if one feature can stand for the other and
        negative if they separate rows; with data also n_rows, the number of rows that have both,
        and n_rows_i and n_rows_j, the numbers of rows that have i and j.
    top : int or None
        How many of each are shown; None is all.
    """

    features: np.ndarray
    pairs: np.ndarray
    top: int | None = 10

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return both tables as lists of plain values for JSON."""
        return {"features": _records(self.features), "pairs": _records(self.pairs)}

    def to_frame(self, of: str = "pairs") -> Any:
        """Return one of the tables, "pairs" or "features", as a pandas DataFrame."""
        user_input.check_word("to_frame", "of", of, ("pairs", "features"))
        return _frame(getattr(self, of))

    def _blocks(self) -> list[Block]:
        blocks = []
        for what, has, table in (("features", "it", self.features), ("pairs", "both", self.pairs)):
            heaviest = table[: self.top]
            title = f"{len(table)} {what}"
            title += f", the heaviest {len(heaviest)}" if len(heaviest) < len(table) else ""
            title += ": weight in M"
            labels = [shown(name) for name in heaviest["name"]]
            if "n_rows" in (table.dtype.names or ()):
                title += f" (rows that have {has})"
                counts = heaviest["n_rows"]
                labels = [f"{label} ({n})" for label, n in zip(labels, counts, strict=True)]
            blocks.append((title, list(zip(labels, heaviest["weight"].tolist(), strict=True))))
        return blocks


# --- computation ---------------------------------------------------------------------------------


def explain(
    similarity: Similarity,
    x: Any,
    y: Any,
    *,
    rather_than: Any = None,
    by: str = "pair",
    feature_names: Sequence[str] | np.ndarray | None = None,
    top: int | None = 10,
) -> Explanation:
    """Return the exact additive parts of S(x, y), or of S(x, y) - S(x, z): why y rather than z.

    Parameters
    ----------
    similarity : Similarity
    x, y : array-like or sparse matrix of shape (n_features,) or (1, n_features)
    rather_than : array-like or sparse matrix, default=None
        z, also one row.
    by : {"pair", "atom"}, default="pair"
        "pair": M_ij (x_i y_j + x_j y_i) per feature pair and M_ii x_i y_i per feature. "atom":
        scale·weight·(x_i ± x_j)(y_i ± y_j) per atom. Both have prior·x_i y_i per feature.
    feature_names : array-like of str of shape (n_features,), default=None
        None is x0, x1, …
    top : int or None, default=10
        How many parts the text and the HTML show; the object has all.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> similarity = Similarity(np.array([[0, 1, 1], [0, 2, -1]]), np.array([0.75, 0.25]), 4.0,
    ...                         prior=0.5, n_features=3)
    >>> explain(similarity, [1, 0, 1], [1, 1, 0], feature_names=["goal", "match", "profit"])
    S(x, y) = 6.5, learned +6, prior +0.5
      goal            +4      |++++++++++++++++++++
      goal ~ match    +3      |+++++++++++++++
      goal ~ profit   -1 -----|
      goal (prior)  +0.5      |++
    """
    user_input.check_word("explain", "by", by, BY)
    user_input.check_number("explain", "top", top, low=1, integer=True, words=(None,))
    names = _names(feature_names, similarity.n_features)
    of = "S(x, y)" if rather_than is None else "S(x, y) - S(x, z)"
    x, y = _vector(x, similarity, "x"), _vector(y, similarity, "y")
    if rather_than is not None:  # S is linear in y
        y = y - _vector(rather_than, similarity, "rather_than")
    with np.errstate(over="ignore", invalid="ignore"):
        if by == "atom":
            i, j, sign = similarity.atoms.T
            learned = (x[i] + sign * x[j]) * (y[i] + sign * y[j])
            learned *= similarity.scale * similarity.weights
            labels = atoms_module.names(similarity.atoms, names)
        else:
            i, j, entries = _entries(similarity)
            learned = entries * np.where(i == j, x[i] * y[j], x[i] * y[j] + x[j] * y[i])
            labels = _pair_names(i, j, names)
        shared = np.flatnonzero((x != 0) & (y != 0))
        values = np.concatenate([learned, similarity.prior * (x[shared] * y[shared])])
    if not np.isfinite(values).all():
        raise ValueError(
            f"A part of {of} is too large for a float: the values of the rows are up to "
            f"{max(np.abs(x).max(), np.abs(y).max()):.3g}. Scale the rows."
        )
    parts = _table(
        "value",
        kind=np.repeat(np.array([by, "prior"]), [len(learned), len(shared)]),
        name=np.concatenate([labels, _pair_names(shared, shared, names)]),
        i=np.concatenate([i, shared]),
        j=np.concatenate([j, shared]),
        value=values,
    )
    parts = parts[parts["value"] != 0]
    return Explanation(math.fsum(parts["value"]), parts, of, top)


def importance(
    similarity: Similarity,
    X: Any = None,
    *,
    feature_names: Sequence[str] | np.ndarray | None = None,
    top: int | None = 10,
) -> Importance:
    """Return the weight of each feature and each feature pair in M, heaviest first.

    Parameters
    ----------
    similarity : Similarity
    X : array or sparse matrix of shape (n_rows, n_features), default=None
        Rows in which features and pairs are counted.
    feature_names : array-like of str of shape (n_features,), default=None
        None is x0, x1, …
    top : int or None, default=10
        How many the text and the HTML show; the object has all.

    Returns
    -------
    Importance

    Examples
    --------
    >>> similarity = Similarity(np.array([[0, 1, 1], [0, 2, -1]]), np.array([0.75, 0.25]), 4.0,
    ...                         prior=0.5, n_features=3)
    >>> importance(similarity, [[1, 1, 0], [1, 0, 1]], feature_names=["goal", "match", "profit"])
    3 features: weight in M (rows that have it)
      goal (2)   +4 |++++++++++++++++++++
      match (1)  +3 |+++++++++++++++
      profit (1) +1 |+++++
    <BLANKLINE>
    2 pairs: weight in M (rows that have both)
      goal ~ match (1)  +3        |++++++++++++++++++++
      goal ~ profit (1) -1 -------|
    """
    user_input.check_number("importance", "top", top, low=1, integer=True, words=(None,))
    d = similarity.n_features
    names = _names(feature_names, d)
    i, j, entries = _entries(similarity)
    own = i == j
    active, weight = i[own], entries[own]
    features = {
        "name": _pair_names(active, active, names),
        "i": active,
        "weight": weight,
        "share": weight / (2 * similarity.scale),
        "direction": _direction(similarity, active),
    }
    i, j, entries = i[~own], j[~own], entries[~own]
    pairs = {"name": _pair_names(i, j, names), "i": i, "j": j, "weight": entries}
    if X is not None:
        X = X if sp.issparse(X) else np.asarray(X)
        if X.ndim != 2 or X.shape[1] != d:
            raise ValueError(
                f"X must have shape (n_rows, {d}): the similarity was learned on {d} features. "
                f"Got shape {X.shape}."
            )
        present = sp.csr_array(sp.csr_array(X)[:, active] != 0).astype(np.int64)
        both = sp.csr_array(present.T @ present)
        at = np.searchsorted(active, np.stack([i, j]))
        features["n_rows"] = both.diagonal()
        pairs["n_rows"] = np.asarray(both[at[0], at[1]]).ravel()
        pairs["n_rows_i"], pairs["n_rows_j"] = features["n_rows"][at]
    return Importance(_table("weight", **features), _table("weight", **pairs), top)


def one_row(x: Any) -> Any:
    """Return a row in any form, also of one dimension, as a matrix of one row with its names."""
    if hasattr(x, "to_frame") and hasattr(x, "index"):  # a row of a pandas DataFrame
        return x.to_frame().T
    if sp.issparse(x):
        return x.reshape(1, -1) if x.ndim == 1 else x
    return np.reshape(x, (1, -1)) if np.ndim(x) == 1 else x


def _vector(x: Any, similarity: Similarity, name: str) -> np.ndarray:
    """Return one row as a dense float64 vector."""
    x = one_row(x)
    x = x.toarray() if sp.issparse(x) else np.asarray(x)
    if x.shape != (1, similarity.n_features):
        raise ValueError(
            f"{name} must be one row of {similarity.n_features} features, the number that the "
            f"similarity was learned on. Got shape {x.shape}; X[[0]] is one row of a matrix X."
        )
    return x[0].astype(np.float64)


def _entries(similarity: Similarity) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the upper triangle of M with its diagonal as i <= j and values, sorted."""
    i, j, sign = similarity.atoms.T
    values = similarity.scale * similarity.weights
    shape = (similarity.n_features,) * 2
    rows, columns = np.concatenate([i, i, j]), np.concatenate([j, i, j])
    M = sp.coo_array((np.concatenate([values * sign, values, values]), (rows, columns)), shape)
    M = M.tocsr()
    M.eliminate_zeros()  # an atom with a plus and one with a minus may cancel
    M = M.tocoo()
    return M.row.astype(np.int64), M.col.astype(np.int64), M.data


def _direction(similarity: Similarity, active: np.ndarray) -> np.ndarray:
    """Return the mean sign of the atoms of each feature, by weight."""
    at = np.searchsorted(active, similarity.atoms[:, :2].ravel())
    weights = np.repeat(similarity.weights, 2)
    signs = np.repeat(similarity.atoms[:, 2], 2)
    return np.bincount(at, weights * signs) / np.bincount(at, weights)


def _names(feature_names: Any, n_features: int) -> Any:
    """Return an object that gives the name of a feature by its number."""
    if feature_names is None:
        return _Numbered()
    if len(feature_names) != n_features:
        raise ValueError(
            f"feature_names must have one name for each of {n_features} features. Got "
            f"{len(feature_names)}."
        )
    return feature_names


class _Numbered:
    """Names x0, x1, …, made on demand."""

    def __getitem__(self, i: int) -> str:
        return f"x{i}"


def _pair_names(i: np.ndarray, j: np.ndarray, names: Any) -> np.ndarray:
    pairs = zip(i, j, strict=True)
    labels = [str(names[a]) if a == b else f"{names[a]} ~ {names[b]}" for a, b in pairs]
    return np.array(labels, dtype=object)


def _table(by: str, **columns: np.ndarray) -> np.ndarray:
    """Return columns as one structured array, sorted by falling absolute value of column `by`."""
    order = np.argsort(-np.abs(columns[by]), kind="stable")
    table = np.empty(len(order), dtype=[(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        table[name] = column[order]
    return table


def _records(table: np.ndarray) -> list[dict[str, Any]]:
    return [dict(zip(table.dtype.names or (), row, strict=True)) for row in table.tolist()]


def _frame(table: np.ndarray) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "to_frame needs pandas: install it with `pip install pandas`, or use to_dict()."
        ) from error
    return pandas.DataFrame({name: table[name] for name in table.dtype.names or ()})


# --- text and HTML -------------------------------------------------------------------------------


def shown(name: Any, width: int = 48) -> str:
    """Return a name as one short line; control characters are escaped."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))
    half = width // 2
    return text if len(text) <= width else f"{text[:half]}…{text[-half:]}"


def _as_text(title: str, rows: list[tuple[str, float]], width: int = 20) -> str:
    largest = max((abs(value) for _, value in rows), default=1.0) or 1.0
    bars = [("+" if value > 0 else "-") * round(width * abs(value) / largest) for _, value in rows]
    left = max((len(bar) for bar in bars if bar.startswith("-")), default=0)
    label_width = max((len(label) for label, _ in rows), default=0)
    numbers = [f"{value:+.4g}" for _, value in rows]
    number_width = max(map(len, numbers), default=0)
    lines = [title]
    for (label, _), number, bar in zip(rows, numbers, bars, strict=True):
        signed = f"{bar:>{left}}|" if bar.startswith("-") else f"{'':{left}}|{bar}"
        lines.append(f"  {label:{label_width}} {number:>{number_width}} {signed}")
    return "\n".join(lines)


def _as_html(title: str, rows: list[tuple[str, float]]) -> str:
    values = [value for _, value in rows]
    high, low = max([*values, 0.0]), min([*values, 0.0])
    extent = high - low or 1.0
    caption = f'<caption style="text-align:left;white-space:nowrap">{html.escape(title)}</caption>'
    lines = ["<table>", caption]
    for label, value in rows:
        left, size = 100 * (min(value, 0.0) - low) / extent, 100 * abs(value) / extent
        color = POSITIVE if value > 0 else NEGATIVE
        lines.append(
            f'<tr><td style="text-align:left">{html.escape(label)}</td>'
            f'<td style="text-align:right">{value:+.4g}</td>'
            f'<td style="min-width:12em"><div style="margin-left:{left:.1f}%;width:{size:.1f}%;'
            f'height:0.8em;background:{color}"></div></td></tr>'
        )
    return "\n".join([*lines, "</table>"])
