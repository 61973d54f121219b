"""Why two rows are similar: the exact additive parts of S."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.parameters import check_number, check_word
from ..input.sparse_structure import sound_csr
from ..similarity import FixedPart, Similarity
from ..similarity.fixed import NO_FEATURE
from ..solver import atoms as atoms_module
from .tables import (
    Block,
    Readable,
    as_frame,
    as_names,
    pair_names,
    records,
    shown,
    table_of,
)

BY = ("pair", "atom")

#: Words that are shown behind the score of a class.
MOST_WORDS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Readable):
    """The exact additive parts of S(x, y), or of S(x, y) - S(x, z), largest first.

    Attributes
    ----------
    total : float
        The correctly rounded sum of all parts, ``math.fsum(parts["value"])``.
    parts : structured ndarray of shape (n_parts,)
        kind ("pair", "atom", or the name of a fixed part such as "prior"), name, i, j,
        value. For a single feature j is i, and for a fixed part as a whole both are -1.
        Parts of value 0 are left out.
    of : str
        What is explained, such as "S(x, y)".
    top : int or None
        How many parts are shown; None is all.
    words : dict of int to dict of str to list of str, default={}
        For a feature that is the score of a class, the words that add most to the
        score, by row: "x", "y" and "rather_than". ``ClassScores.explain`` knows them.
    fixed : tuple of str, default=("prior",)
        Names of the parts of S that are not learned.
    """

    total: float
    parts: np.ndarray
    of: str
    top: int | None = 10
    words: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ("prior",)

    @property
    def learned(self) -> float:
        """The part of xᵀMy in the total."""
        is_fixed = np.isin(self.parts["kind"], self.fixed)
        return math.fsum(self.parts["value"][~is_fixed])

    @property
    def prior(self) -> float:
        """The part of prior·⟨x, y⟩ in the total."""
        return self.of_fixed("prior")

    def of_fixed(self, name: str) -> float:
        """Return what a fixed part, by its name, adds to the total."""
        return math.fsum(self.parts["value"][self.parts["kind"] == name])

    def to_dict(self) -> dict[str, Any]:
        """Return `of`, the total and the parts as plain values for JSON."""
        facts = records(self.parts)
        for fact in facts:
            words = self.words_of(fact)
            if words:
                fact["words"] = words
        return {"of": self.of, "total": self.total, "parts": facts}

    def words_of(self, part: Any) -> list[str]:
        """Return the words behind a part with the score of a class, those of all rows in turn."""
        features = dict.fromkeys([int(part["i"]), int(part["j"])])
        lists: list[list[str]] = []
        for feature in features:
            lists.extend(self.words.get(feature, {}).values())
        words = [word for turn in zip_longest(*lists) for word in turn]
        return [word for word in dict.fromkeys(words) if word is not None]

    def to_frame(self) -> Any:
        """Return the parts as a pandas DataFrame."""
        return as_frame(self.parts)

    def blocks(self) -> list[Block]:
        """Return the sum as a title, and the largest parts."""
        shown_parts = self.parts[: self.top]
        rows = [(self._label(row), float(row["value"])) for row in shown_parts]
        other_values = self.parts["value"][len(shown_parts) :]
        if len(other_values):
            rows.append((f"[{len(other_values)} more]", math.fsum(other_values)))
        return [(self._title(), rows)]

    def _title(self) -> str:
        """Return the total, and how much of it is learned and how much is fixed."""
        total = f"{self.of} = {self.total:.6g}"
        if not len(self.parts):
            rows = "x and y share"
            if self.of.endswith("z)"):
                rows = "y and z differ in"
            return f"{total}: {rows} no feature and no pair of features that counts"
        fixed = [f"{name} {self.of_fixed(name):+.4g}" for name in self.fixed]
        return ", ".join([total, f"learned {self.learned:+.4g}", *fixed])

    def _label(self, row: Any) -> str:
        """Return the name of a part, its kind if that is fixed, and the words behind it."""
        label = shown(row["name"])
        if row["kind"] in self.fixed and row["i"] != NO_FEATURE:
            label += f" ({row['kind']})"
        words = self.words_of(row)
        if words:
            label += f": {', '.join(map(shown, words[:MOST_WORDS]))}"
        return label


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
        The parts are those of the rows at unit length if the similarity has
        ``norm="l2"``.
    rather_than : array-like or sparse matrix, default=None
        z, also one row.
    by : {"pair", "atom"}, default="pair"
        "pair": M_ij (x_i y_j + x_j y_i) per feature pair and M_ii x_i y_i per feature.
        "atom": scale·weight·(x_i ± x_j)(y_i ± y_j) per atom. Both have prior·x_i y_i
        per feature, and what other fixed parts add.
    feature_names : array-like of str of shape (n_features,), default=None
        None is x0, x1 and so on.
    top : int or None, default=10
        How many parts the text and the HTML show; the object has all.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> atoms = np.array([[0, 1, 1], [0, 2, -1]])
    >>> fixed = (FixedPart("prior", 0.5),)
    >>> similarity = Similarity(atoms, np.array([0.75, 0.25]), 4.0, fixed, 3)
    >>> explain(similarity, [1, 0, 1], [1, 1, 0], feature_names=["goal", "match", "profit"])
    S(x, y) = 6.5, learned +6, prior +0.5
      goal            +4      |++++++++++++++++++++
      goal ~ match    +3      |+++++++++++++++
      goal ~ profit   -1 -----|
      goal (prior)  +0.5      |++
    """
    check_word("explain", "by", by, BY)
    check_number("explain", "top", top, low=1, integer=True, words=(None,))
    names = as_names(feature_names, similarity.n_features)
    rows = _compared_rows(similarity, x, y, rather_than)
    what = "S(x, y)"
    if rather_than is not None:
        what = "S(x, y) - S(x, z)"
    with np.errstate(over="ignore", invalid="ignore"):
        if by == "atom":
            learned = _terms_of_atoms(similarity, rows, names)
        else:
            learned = _terms_of_pairs(similarity, rows, names)
        fixed = [
            _terms_of_fixed(fixed_part, rows, names) for fixed_part in similarity.fixed
        ]
    parts = _table_of_parts([learned, *fixed])
    if not np.isfinite(parts["value"]).all():
        raise ValueError(
            f"A part of {what} is too large for a float: the values of the rows are up "
            f"to {max(np.abs(rows.x).max(), np.abs(rows.y).max()):.3g}. Scale the rows."
        )
    return Explanation(
        total=math.fsum(parts["value"]),
        parts=parts,
        of=what,
        top=top,
        fixed=tuple(fixed_part.name for fixed_part in similarity.fixed),
    )


# --- the rows -------------------------------------------------------------------------


class _ComparedRows(NamedTuple):
    """Two rows as S compares them, of the features that the rows or the model have.

    Other features take no memory. S is linear in y: with a third row z, y is y - z.
    """

    features: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def values(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of x and of y of some features."""
        positions = np.searchsorted(self.features, features)
        return self.x[positions], self.y[positions]


def _compared_rows(similarity: Similarity, x: Any, y: Any, z: Any) -> _ComparedRows:
    """Return the rows x and y, or x and y - z, checked; z may be None."""
    rows = [_as_row(x, similarity, "x"), _as_row(y, similarity, "y")]
    if z is not None:
        rows.append(_as_row(z, similarity, "rather_than"))
    used = [similarity.atoms[:, :2].ravel(), *(row.indices for row in rows)]
    features = np.unique(np.concatenate(used))
    values = np.zeros((len(rows), len(features)))
    for k, row in enumerate(rows):
        values[k, np.searchsorted(features, row.indices)] = row.data
    return _ComparedRows(features, values[0], values[1] - values[2:].sum(axis=0))


def one_row(x: Any) -> Any:
    """Return a row in any form, also of one dimension, as a matrix of one row with its names."""
    if hasattr(x, "to_frame") and hasattr(x, "index"):  # a row of a pandas DataFrame
        return x.to_frame().T
    if np.ndim(x) != 1:
        return x
    if sp.issparse(x):
        return x.reshape(1, -1)
    return np.reshape(x, (1, -1))


def _as_row(x: Any, similarity: Similarity, name: str) -> sp.csr_array:
    """Return one row as S compares it, in float64."""
    x = one_row(x)
    if not sp.issparse(x):
        x = np.asarray(x)
    if x.shape != (1, similarity.n_features):
        raise ValueError(
            f"{name} must be one row of {similarity.n_features} features, the number "
            f"that the similarity was learned on. Got shape {x.shape}; X[[0]] is one "
            "row of a matrix X."
        )
    row = sound_csr(x, name) if sp.issparse(x) else sp.csr_array(x)
    return sp.csr_array(similarity.index_rows(row.astype(np.float64)))


# --- the parts ------------------------------------------------------------------------


class _Terms(NamedTuple):
    """Parts of one kind; `i` and `j` are features."""

    kind: str
    name: np.ndarray
    i: np.ndarray
    j: np.ndarray
    value: np.ndarray


def _terms_of_pairs(similarity: Similarity, rows: _ComparedRows, names: Any) -> _Terms:
    """Return M_ij (x_i y_j + x_j y_i) per feature pair, and M_ii x_i y_i per feature."""
    i, j, entries = similarity.entries()
    x_i, y_i = rows.values(i)
    x_j, y_j = rows.values(j)
    products = x_i * y_j
    values = entries * np.where(i == j, products, products + x_j * y_i)
    return _Terms("pair", pair_names(i, j, names), i, j, values)


def _terms_of_atoms(similarity: Similarity, rows: _ComparedRows, names: Any) -> _Terms:
    """Return scale·weight·(x_i ± x_j)(y_i ± y_j) per atom."""
    i, j, sign = similarity.atoms.T
    x_i, y_i = rows.values(i)
    x_j, y_j = rows.values(j)
    values = (x_i + sign * x_j) * (y_i + sign * y_j)
    values *= similarity.scale * similarity.weights
    return _Terms("atom", atoms_module.names(similarity.atoms, names), i, j, values)


def _terms_of_fixed(fixed_part: FixedPart, rows: _ComparedRows, names: Any) -> _Terms:
    """Return weight·x_i y_i per feature, or one number for the whole part."""
    features, values = fixed_part.terms(rows.features, rows.x, rows.y)
    if fixed_part.by_feature:
        labels = pair_names(features, features, names)
    else:
        labels = np.full(len(features), fixed_part.name, dtype=object)
    return _Terms(fixed_part.name, labels, features, features, values)


def _table_of_parts(terms: list[_Terms]) -> np.ndarray:
    """Return all parts that are not 0 as one table, the largest first."""
    table = table_of(
        "value",
        kind=np.concatenate([np.full(len(term.value), term.kind) for term in terms]),
        name=np.concatenate([term.name for term in terms]),
        i=np.concatenate([term.i for term in terms]),
        j=np.concatenate([term.j for term in terms]),
        value=np.concatenate([term.value for term in terms]),
    )
    return table[table["value"] != 0]
