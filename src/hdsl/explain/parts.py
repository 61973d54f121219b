"""Why two rows are similar: the exact additive parts of S."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.matrices import sound_csr
from ..input.parameters import check_number, check_word
from ..rows import Rows
from ..similarity import FixedPart, Similarity
from ..similarity.fixed import NO_FEATURE
from ..solver import atoms as atoms_module
from .tables import (
    BarList,
    Line,
    Readable,
    as_frame,
    as_names,
    pair_names,
    records,
    shown,
    signed,
    table_of,
)

BY = ("pair", "atom")

#: What the part of an embedding is about, where others name a feature or a pair.
MEANING = "meaning"

#: The kind and the name of the part that is learned inside an embedding.
DIRECTIONS = "direction"
LEARNED_MEANING = "meaning, learned"

#: Words that are shown behind the score of a class.
MOST_WORDS = 4

#: Reasons below this share of the largest are summed up, unless all are asked for.
SMALL = 1e-3


class Reason(NamedTuple):
    """What a feature, a feature pair, an atom or a fixed part as a whole adds.

    `addends` is what is learned of it, then what each fixed part adds. `words` are
    behind the score of a class.
    """

    name: str
    i: int
    j: int
    value: float
    addends: tuple[float, ...]
    words: list[str]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Readable):
    """The exact additive parts of S(x, y), or of S(x, y) - S(x, z), largest first.

    As text and as HTML it has a line per feature and per feature pair that the rows
    have, with its learned part beside the fixed one.

    Attributes
    ----------
    total : float
        The correctly rounded sum of all parts, ``math.fsum(parts["value"])``.
    parts : structured ndarray of shape (n_parts,)
        kind ("pair", "atom", "direction", or the name of a fixed part such as "prior"),
        name, i, j, value. For a single feature j is i, and for a part of an embedding
        as a whole, fixed or learned, both are -1.
        Parts of value 0 are left out.
    of : str
        The explained quantity, such as "S(x, y)".
    top : int or None
        Number of parts to show; None is all.
    words : dict of int to dict of str to list of str, default={}
        For a feature that is the score of a class, the words that add most to the
        score, by row: "x", "y" and "rather_than". ``ClassScores.explain`` knows them.
    fixed : tuple of str, default=("prior",)
        Names of the parts of S that are not learned.
    remembered : tuple, default=()
        Known queries like x that y was judged relevant for, with the value that each
        adds to what a search ranks by, beside the total: see
        `hdsl.evaluate.QueryMemory`.
    """

    total: float
    parts: np.ndarray
    of: str
    top: int | None = 10
    words: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ("prior",)
    remembered: tuple[Any, ...] = ()

    @property
    def learned(self) -> float:
        """The part of xᵀMy and zᵀWz' in the total."""
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
        explanation = {"of": self.of, "total": self.total, "parts": facts}
        if self.remembered:
            remembered = [reason._asdict() for reason in self.remembered]
            explanation["remembered"] = remembered
        return explanation

    def words_of(self, term: Any) -> list[str]:
        """Return the words behind a part with the score of a class, those of all rows in turn."""
        features = dict.fromkeys([int(term["i"]), int(term["j"])])
        lists: list[list[str]] = []
        for feature in features:
            lists.extend(self.words.get(feature, {}).values())
        words = [word for turn in zip_longest(*lists) for word in turn]
        return [word for word in dict.fromkeys(words) if word is not None]

    def to_frame(self) -> Any:
        """Return the parts as a pandas DataFrame."""
        return as_frame(self.parts)

    @cached_property
    def reasons(self) -> list[Reason]:
        """What each feature and feature pair adds, learned or not, the largest first.

        An atom is a reason of its own, and so is a fixed part that is explained as a
        whole.
        """
        is_by_atom = (self.parts["kind"] == "atom").any()
        groups: dict[Any, list[Any]] = {}
        for term in self.parts:
            key = (term["i"], term["j"])
            if is_by_atom or term["i"] == NO_FEATURE:
                key = (term["kind"], term["name"])
            groups.setdefault(key, []).append(term)
        reasons = map(self._reason, groups.values())
        return sorted(reasons, key=lambda reason: -abs(reason.value))

    def _reason(self, terms: list[Any]) -> Reason:
        """Return parts of the same features as one reason."""
        sums = dict.fromkeys(["learned", *self.fixed], 0.0)
        for term in terms:
            kind = str(term["kind"])
            if kind not in self.fixed:
                kind = "learned"
            sums[kind] += float(term["value"])
        return Reason(
            name=str(terms[0]["name"]),
            i=int(terms[0]["i"]),
            j=int(terms[0]["j"]),
            value=math.fsum(sums.values()),
            addends=tuple(sums.values()),
            words=self.words_of(terms[0]),
        )

    def blocks(self) -> list[BarList]:
        """Return the sum as a title, and the largest reasons."""
        reasons = self.reasons
        n_lines = len(reasons)
        if self.top is not None:
            least = SMALL * max((abs(reason.value) for reason in reasons), default=0.0)
            n_large = sum(abs(reason.value) >= least for reason in reasons)
            n_lines = min(self.top, n_large)
        lines = [
            Line(self._label(reason), reason.value, reason.addends)
            for reason in reasons[:n_lines]
        ]
        others = reasons[n_lines:]
        if others:
            total = math.fsum(reason.value for reason in others)
            columns = zip(*(reason.addends for reason in others), strict=True)
            sums = tuple(math.fsum(column) for column in columns)
            lines.append(Line(f"[{len(others)} more]", total, sums))
        blocks = [self._block(lines)]
        if self.remembered:
            lines = [
                Line(str(reason._replace(query=shown(reason.query))), reason.value)
                for reason in self.remembered
            ]
            title = "a search also adds the memory of queries like x"
            blocks.append(BarList(title, lines))
        return blocks

    def _block(self, lines: list[Line]) -> BarList:
        """Return lines with a column for what is learned and for each fixed part that counts."""
        if not np.isin(self.parts["kind"], self.fixed).any():
            lines = [line._replace(addends=()) for line in lines]
            return BarList(self._title(), lines)
        return BarList(self._title(), lines, ("learned", *self.fixed))

    def _title(self) -> str:
        """Return the total, and how much of it is learned and how much is fixed."""
        total = f"{self.of} = {self.total:.6g}"
        if not len(self.parts):
            rows = "x and y share"
            if self.of.endswith("z)"):
                rows = "y and z differ in"
            return f"{total}: {rows} no feature and no pair of features that counts"
        sums = {"learned": self.learned}
        sums |= {name: self.of_fixed(name) for name in self.fixed}
        largest = max(map(abs, sums.values()))
        addends = [f"{name} {signed(value, largest)}" for name, value in sums.items()]
        return ", ".join([total, *addends])

    def _label(self, reason: Reason) -> str:
        """Return the name of a reason, and the words behind it."""
        label = shown(reason.name)
        if reason.words:
            label += f": {', '.join(map(shown, reason.words[:MOST_WORDS]))}"
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
        per feature, and the other fixed parts.
    feature_names : array-like of str of shape (n_features,), default=None
        None is x0, x1 and so on.
    top : int or None, default=10
        Number of parts that the text and the HTML show; the object has all.

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
                     sum learned prior
      goal          +4.5      +4  +0.5     |++++++++++++++++++++
      goal ~ match    +3      +3           |+++++++++++++
      goal ~ profit   -1      -1       ----|
    """
    check_word("explain", "by", by, BY)
    check_number("explain", "top", top, low=1, integer=True, words=(None,))
    names = as_names(feature_names, similarity.n_features, similarity.n_paired)
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
        inside = _terms_of_directions(similarity, rows)
    parts = _table_of_parts([learned, *fixed, inside])
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
    rows = [as_row(x, similarity, "x"), as_row(y, similarity, "y")]
    if z is not None:
        rows.append(as_row(z, similarity, "rather_than"))
    used = [similarity.atoms[:, :2].ravel(), *(row.indices for row in rows)]
    features = np.unique(np.concatenate(used))
    values = np.zeros((len(rows), len(features)))
    for k, row in enumerate(rows):
        values[k, np.searchsorted(features, row.indices)] = row.data
    return _ComparedRows(features, values[0], values[1] - values[2:].sum(axis=0))


def one_row(x: Any) -> Any:
    """Return a row in any form, also of one dimension, as a matrix of one row with its names.

    Of a pair (features, embedding) both become matrices.
    """
    if isinstance(x, Rows):
        return x
    if isinstance(x, tuple) and len(x) == 2 and np.ndim(x[1]) > 0:
        return one_row(x[0]), np.atleast_2d(x[1])
    if hasattr(x, "to_frame") and hasattr(x, "index"):  # a row of a pandas DataFrame
        return x.to_frame().T
    if np.ndim(x) != 1:
        return x
    if sp.issparse(x):
        return x.reshape(1, -1)
    return np.reshape(x, (1, -1))


def as_row(x: Any, similarity: Similarity, name: str) -> sp.csr_array:
    """Return one row as S compares it, in float64."""
    x = one_row(x)
    if not sp.issparse(x) and not isinstance(x, Rows):
        x = np.asarray(x)
    if x.shape != (1, similarity.n_features):
        raise ValueError(
            f"{name} must be one row of {similarity.n_features} features, the number "
            f"that the similarity was learned on. Got shape {x.shape}; X[[0]] is one "
            "row of a matrix X."
        )
    if not isinstance(x, Rows):
        x = sound_csr(x, name) if sp.issparse(x) else sp.csr_array(x)
        x = x.astype(np.float64)
    row = similarity.index_rows(x)
    if isinstance(row, Rows):
        row = row.to_sparse()
    return sp.csr_array(row, dtype=np.float64)


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
        labels = np.full(len(features), MEANING, dtype=object)
    return _Terms(fixed_part.name, labels, features, features, values)


def _terms_of_directions(similarity: Similarity, rows: _ComparedRows) -> _Terms:
    """Return zᵀWz' of the embedding as one number, none without a learned part."""
    values = np.empty(0)
    if similarity.directions is not None:
        is_dense = rows.features >= similarity.n_paired
        V = similarity.directions[:, rows.features[is_dense] - similarity.n_paired]
        along = (V @ rows.x[is_dense]) * (V @ rows.y[is_dense])
        values = np.array([math.fsum(along)])
    features = np.full(len(values), NO_FEATURE)
    labels = np.full(len(values), LEARNED_MEANING, dtype=object)
    return _Terms(DIRECTIONS, labels, features, features, values)


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


# --- shares of the features of one row ------------------------------------------------


def feature_shares(
    similarity: Similarity, x: Any, y: Any
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return what the features of x add to S(x, y), and what those of y add.

    A feature of x adds what x has of it times what S makes of y there. The features of
    x add up to S(x, y), and so do those of y.

    Parameters
    ----------
    similarity : Similarity
    x, y : array-like or sparse matrix of shape (n_features,) or (1, n_features)

    Returns
    -------
    x_shares, y_shares : sparse array of shape (1, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from hdsl.similarity import FixedPart
    >>> fixed = (FixedPart("prior", 0.5),)
    >>> similarity = Similarity(np.array([[0, 1, 1]]), np.ones(1), 4.0, fixed, 2)
    >>> x_shares, y_shares = feature_shares(similarity, [1, 0], [1, 2])
    >>> x_shares.toarray().tolist(), y_shares.toarray().tolist()
    ([[12.5, 0.0]], [[4.5, 8.0]])
    """
    x_row = as_row(x, similarity, "x")
    y_row = as_row(y, similarity, "y")
    x_shares = x_row.multiply(_rewritten(similarity, y_row))
    y_shares = y_row.multiply(_rewritten(similarity, x_row))
    return sp.csr_array(x_shares), sp.csr_array(y_shares)


def _rewritten(similarity: Similarity, row: sp.csr_array) -> sp.csr_array:
    """Return the query side of a row as it is compared."""
    query = similarity.rewrite(row)
    if isinstance(query, Rows):
        query = query.to_sparse()
    return sp.csr_array(query)


# --- directions of an embedding -------------------------------------------------------


class Direction(NamedTuple):
    """A learned direction v of an embedding, and its contribution to S(x, y).

    Attributes
    ----------
    number : int
        Of the row of ``directions_``.
    value : float
        (v·z)(v·z'); over all directions these sum to zᵀWz'.
    x, y : float
        v·z of both rows: equal signs make them more alike.
    low, high : list
        Rows at both ends, the outermost first: their texts, or their numbers.
    """

    number: int
    value: float
    x: float
    y: float
    low: list[Any]
    high: list[Any]


def strongest_directions(
    similarity: Similarity,
    x: Any,
    y: Any,
    X: Any,
    texts: Sequence[Any] | None = None,
    *,
    top: int = 3,
    n_ends: int = 3,
) -> list[Direction]:
    """Return the learned directions that add most to S(x, y), the largest first.

    Parameters
    ----------
    similarity : Similarity
    x, y : Rows or matrix of one row
    X : Rows or matrix of shape (n_rows, n_features)
        Rows to show at the ends, such as the training rows.
    texts : sequence of length n_rows, default=None
        Texts to show for these rows; None shows row numbers.
    top : int, default=3
        Number of directions.
    n_ends : int, default=3
        Number of rows per end.

    Returns
    -------
    list of Direction
    """
    check_number("strongest_directions", "top", top, low=1, integer=True)
    check_number("strongest_directions", "n_ends", n_ends, low=1, integer=True)
    if texts is not None and len(texts) != X.shape[0]:
        raise ValueError(
            f"texts must be one per row of X. Got {len(texts)} for {X.shape[0]} rows."
        )
    if not similarity.has_directions:
        return []

    def along(rows: Any) -> np.ndarray:
        compared = similarity.index_rows(rows)
        return similarity.along_directions(compared).astype(np.float64)

    left = along(x)
    right = along(y)
    all_rows = along(X)
    values = left[0] * right[0]
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    directions = []
    for number in order.tolist():
        rising = np.argsort(all_rows[:, number], kind="stable")
        shown = [rising[:n_ends].tolist(), rising[::-1][:n_ends].tolist()]
        if texts is not None:
            shown = [[texts[row] for row in rows] for rows in shown]
        directions.append(
            Direction(
                number=number,
                value=float(values[number]),
                x=float(left[0, number]),
                y=float(right[0, number]),
                low=shown[0],
                high=shown[1],
            )
        )
    return directions
