"""Which features and feature pairs count: their weight in M, and their effect on rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.matrices import as_rows, canonical, sound_csr
from ..input.parameters import check_number, check_word
from ..rows import sparse_block
from ..similarity import Similarity
from ..similarity.products import check_result, row_products
from ..wide_matrices import take_columns
from . import tables
from .tables import BarList, Line, Readable, pair_names, table_of

#: The effect of a feature that so many rows have counts half.
FEW = 5

#: A pair whose effect is below this share of a usual S changes little by itself.
SMALL_SHARE = 0.02

#: Pairs of rows that say how large S usually is.
N_USUAL = 2000

#: The columns of a table by their names.
Columns = dict[str, np.ndarray]

#: Feature pairs whose columns are multiplied at a time.
CHUNK = 256


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Readable):
    """Features and feature pairs of a similarity, the most important first.

    Attributes
    ----------
    features : structured ndarray of shape (n_active,)
        name, i; weight, the entry M_ii; share of the largest trace of M, which is
        2·scale; direction, from -1 (the feature is in atoms with a minus only) to +1
        (in atoms with a plus only); with data also effect and n_rows, the number of
        rows where it is not 0.
    pairs : structured ndarray of shape (n_pairs,)
        name, i, j; weight, the entry M_ij, positive if one feature can stand for the
        other and negative if they separate rows; with data also effect, n_rows, the
        number of rows that have both, and n_rows_i and n_rows_j, the numbers of rows
        that have i and j.
    ranked_by : {"weight", "effect"}, default="weight"
        The column that both tables are sorted by, largest absolute value first.
    n_rare : int, default=0
        Number of feature pairs at the end, as one of the features is in too few rows.
    top : int or None
        Number of each to show; None is all.
    usual_score : float or None
        With data, the root mean square of S over pairs of rows.
    """

    features: np.ndarray
    pairs: np.ndarray
    ranked_by: str = "weight"
    n_rare: int = 0
    top: int | None = 10
    usual_score: float | None = None

    @property
    def note(self) -> str:
        """That no feature pair changes much by itself, if so; else empty."""
        if not self.usual_score or not len(self.pairs):
            return ""
        share = float(np.abs(self.pairs["effect"]).max()) / self.usual_score
        if share >= SMALL_SHARE:
            return ""
        return (
            f"No pair is large by itself: the first has {100 * share:.1g} % of a usual "
            f"similarity. What was learned is the sum of {len(self.pairs):,} small ones."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ranking and both tables as plain values for JSON."""
        return {
            "ranked_by": self.ranked_by,
            "n_rare": self.n_rare,
            "features": tables.records(self.features),
            "pairs": tables.records(self.pairs),
        }

    def to_frame(self, of: str = "pairs") -> Any:
        """Return one of the tables, "pairs" or "features", as a pandas DataFrame."""
        check_word("to_frame", "of", of, ("pairs", "features"))
        return tables.as_frame(getattr(self, of))

    def blocks(self) -> list[BarList]:
        """Return titles with the first features, the first pairs, and the first pairs of classes.

        Pairs with the score of a class come apart from those of other features.
        """
        blocks = [
            BarList(
                self._title("features", self.features, "it"),
                self._lines(self.features, ["n_rows"]),
            )
        ]
        is_class = tables.has_class(self.pairs["name"])
        tables_of_pairs = {
            "pairs": self.pairs[~is_class],
            "pairs with a class": self.pairs[is_class],
        }
        for what, pairs in tables_of_pairs.items():
            if len(pairs) or what == "pairs":
                lines = self._lines(pairs, ["n_rows_i", "n_rows_j"])
                blocks.append(BarList(self._title(what, pairs, "each"), lines))
        if self.note:
            blocks.append(BarList(self.note, []))
        return blocks

    def _title(self, what: str, table: np.ndarray, counted: str) -> str:
        """Return what a table holds, how much of it is shown, and what ranks it."""
        title = f"{len(table)} {what}"
        if self.top is not None and self.top < len(table):
            title += f", the first {self.top}"
        if self.ranked_by == "weight":
            return f"{title} by weight in M (with X: by effect, rare features last)"
        title += f" by effect on S (rows that have {counted})"
        if what == "pairs" and 0 < self.n_rare < len(self.pairs):
            title += f"; {self.n_rare} with a feature in too few rows come last"
        return title

    def _lines(self, table: np.ndarray, counts: list[str]) -> list[Line]:
        """Return the first labels and numbers of a table, with counts behind labels."""
        first = table[: self.top]
        lines = []
        for entry in first:
            label = tables.shown(entry["name"])
            if self.ranked_by == "effect":
                numbers = ", ".join(str(entry[count]) for count in counts)
                label = f"{label} ({numbers})"
            lines.append(Line(label, float(entry[self.ranked_by])))
        return lines


def importance(
    similarity: Similarity,
    X: Any = None,
    *,
    min_rows: int = 5,
    feature_names: Sequence[str] | np.ndarray | None = None,
    top: int | None = 10,
) -> Importance:
    """Return features and feature pairs by their effect on the rows of X, or by their weight in M.

    A weight alone says little: a pair of two rare words may be heavy and touch almost
    no row. So with X the ranking is by effect, the root mean square of the part M_ij
    (x_i y_j + x_j y_i) of S(x, y) over two rows x and y drawn from X independently,
    with the sign of M_ij. For a feature the part is M_ii x_i y_i. This is exact for
    values of any sign and follows from means over the rows of X. Squares are used
    because a few rows decide which rows are near: a part that is large for some pairs
    of rows changes their order, and one that is small for all, as those of common words
    are, does not. A mean of absolute values ranks the common words first. An effect in
    two or three rows may be chance: it is multiplied by n / (n + 5), with n the number
    of rows that have the feature, or the rarer one of a pair.

    Parameters
    ----------
    similarity : Similarity
    X : array or sparse matrix of shape (n_rows, n_features), default=None
        Rows to rank by, compared as the similarity compares them: at unit length if it
        has ``norm="l2"``. None ranks by weight.
    min_rows : int, default=5
        With X, features in fewer rows, and pairs with such a feature, come last. A pair
        that never occurs together does not: it compares rows with one feature to rows
        with the other.
    feature_names : array-like of str of shape (n_features,), default=None
        None is x0, x1 and so on.
    top : int or None, default=10
        How many the text and the HTML show; the object has all.

    Returns
    -------
    Importance

    Examples
    --------
    >>> from hdsl.similarity import FixedPart
    >>> atoms = np.array([[0, 1, 1], [0, 2, -1]])
    >>> fixed = (FixedPart("prior", 0.5),)
    >>> similarity = Similarity(atoms, np.array([0.75, 0.25]), 4.0, fixed, 3)
    >>> X = [[1, 1, 0], [1, 0, 2], [0, 1, 2], [0, 0, 2]]
    >>> importance(similarity, X, feature_names=["goal", "match", "profit"])
    3 features by effect on S (rows that have it)
      profit (3) +1.125 |++++++++++++++++++++
      goal (2)   +0.571 |++++++++++
      match (2)  +0.429 |++++++++
    <BLANKLINE>
    2 pairs by effect on S (rows that have each)
      goal ~ match (2, 2)  +0.6776                 |++++++++++++++++++++
      goal ~ profit (2, 3) -0.5345 ----------------|
    """
    check_number("importance", "top", top, low=1, integer=True, words=(None,))
    check_number("importance", "min_rows", min_rows, low=0, integer=True)
    names = tables.as_names(feature_names, similarity.n_features, similarity.n_paired)
    features, pairs = _weights(similarity, names)
    if X is None:
        return Importance(
            table_of("weight", **features), table_of("weight", **pairs), top=top
        )
    ends = np.searchsorted(features["i"], np.column_stack([pairs["i"], pairs["j"]]))
    rows = sparse_block(similarity.index_rows(X))
    if not rows.shape[0]:
        raise ValueError("X has no rows: at least one is needed.")
    occurrences = count_occurrences(rows, features["i"], ends)
    features |= _effects_of_features(features["weight"], occurrences)
    pairs |= _effects_of_pairs(pairs["weight"], occurrences, ends)
    is_rare: np.ndarray = features["n_rows"] < min_rows
    has_rare: np.ndarray = np.any(is_rare[ends], axis=1)
    return Importance(
        table_of("effect", is_rare, **features),
        table_of("effect", has_rare, **pairs),
        ranked_by="effect",
        n_rare=int(has_rare.sum()),
        top=top,
        usual_score=_usual_score(similarity, X),
    )


def _usual_score(similarity: Similarity, X: Any) -> float:
    """Return the root mean square of S over some pairs of different rows of X."""
    X = as_rows(X)
    rng = np.random.default_rng(0)
    first = rng.integers(0, X.shape[0], N_USUAL)
    second = rng.integers(0, X.shape[0], N_USUAL)
    is_pair = first != second
    if not is_pair.any():
        return 0.0
    queries = similarity.rewrite(X[first[is_pair]])
    others = similarity.index_rows(X[second[is_pair]])
    scores = row_products(queries, others)
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(np.square(scores))))


def _weights(similarity: Similarity, names: Any) -> tuple[Columns, Columns]:
    """Return the features of M and its feature pairs, with their weights."""
    i, j, entries = similarity.entries()
    is_single = i == j
    active = i[is_single]
    weight = entries[is_single]
    features = {
        "name": pair_names(active, active, names),
        "i": active,
        "weight": weight,
        "share": weight / similarity.scale / 2,
        "direction": _direction(similarity, active),
    }
    i = i[~is_single]
    j = j[~is_single]
    pairs = {
        "name": pair_names(i, j, names),
        "i": i,
        "j": j,
        "weight": entries[~is_single],
    }
    return features, pairs


def _direction(similarity: Similarity, active: np.ndarray) -> np.ndarray:
    """Return the mean sign of the atoms of each feature, by weight."""
    feature = np.searchsorted(active, similarity.atoms[:, :2].ravel())
    weights = np.repeat(similarity.weights, 2)
    signs = np.repeat(similarity.atoms[:, 2], 2)
    return np.bincount(feature, weights * signs) / np.bincount(feature, weights)


def _evidence(occurrences: Occurrences) -> np.ndarray:
    """Return the share of an effect that counts, by the rows that have the feature."""
    return occurrences.n_rows / (occurrences.n_rows + FEW)


def _effects_of_features(weight: np.ndarray, occurrences: Occurrences) -> Columns:
    """Return the effect of each feature and the number of rows that have it."""
    with np.errstate(over="ignore", invalid="ignore"):
        effect = weight * occurrences.size * _evidence(occurrences)
    return {
        "effect": check_result(effect, "The effect of a feature"),
        "n_rows": occurrences.n_rows,
    }


def _effects_of_pairs(
    weight: np.ndarray, occurrences: Occurrences, ends: np.ndarray
) -> Columns:
    """Return the effect of each feature pair and the numbers of rows that have it.

    `ends` has the positions of its two features.
    """
    evidence = _evidence(occurrences)[ends].min(axis=1, initial=1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        effect = weight * occurrences.size_of_pair * evidence
    n_rows_i, n_rows_j = occurrences.n_rows[ends].T
    return {
        "effect": check_result(effect, "The effect of a feature pair"),
        "n_rows": occurrences.n_rows_both,
        "n_rows_i": n_rows_i,
        "n_rows_j": n_rows_j,
    }


# --- occurrences ----------------------------------------------------------------------


class Occurrences(NamedTuple):
    """Numbers of rows, and root mean squares over two rows x and y drawn independently.

    Attributes
    ----------
    n_rows : ndarray of shape (n_features,)
        Number of rows that have each feature.
    n_rows_both : ndarray of shape (n_pairs,)
        Number of rows that have both features of a pair.
    size : ndarray of shape (n_features,)
        Root mean square of x_i y_i.
    size_of_pair : ndarray of shape (n_pairs,)
        Root mean square of x_i y_j + x_j y_i.
    """

    n_rows: np.ndarray
    n_rows_both: np.ndarray
    size: np.ndarray
    size_of_pair: np.ndarray


def count_occurrences(X: Any, features: np.ndarray, ends: np.ndarray) -> Occurrences:
    """Return how often features and feature pairs occur in X, and how much they do there.

    For independent rows both root mean squares follow from means over the rows of X,
    also where values have both signs: E[(x_i y_i)²] = E[x_i²]² and E[(x_i y_j + x_j
    y_i)²] = 2 E[x_i²] E[x_j²] + 2 E[x_i x_j]². The cost is the number of values in X
    and, per pair, in its two columns.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns)
    features : ndarray of shape (n_features,)
        Columns of X, ascending.
    ends : ndarray of shape (n_pairs, 2)
        Feature pairs, as positions in `features`.

    Returns
    -------
    Occurrences

    Examples
    --------
    >>> X = np.array([[1.0, 0, 2], [0, 9, 0]])
    >>> counts = count_occurrences(X, np.array([0, 2]), np.array([[0, 1]]))
    >>> counts.n_rows.tolist(), counts.n_rows_both.tolist(), counts.size.tolist()
    ([1, 1], [1], [0.5, 2.0])
    """
    values = _columns_of(X, features)
    present = values.astype(bool).astype(np.int64)
    n = max(X.shape[0], 1)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.asarray((values * values).sum(axis=0)).ravel() / n
        product = _column_products(values, ends) / n
        root = np.sqrt(size)[ends]
        size_of_pair = np.sqrt(2.0) * np.hypot(root[:, 0] * root[:, 1], product)
    return Occurrences(
        n_rows=np.diff(values.indptr),
        n_rows_both=_column_products(present, ends),
        size=size,
        size_of_pair=size_of_pair,
    )


def _columns_of(X: Any, features: np.ndarray) -> sp.csc_array:
    """Return some columns of X without stored zeros, at no cost per column of X."""
    if not sp.issparse(X):
        return sp.csc_array(np.asarray(X)[:, features], dtype=np.float64)
    return take_columns(canonical(sound_csr(X)), features).astype(np.float64).tocsc()


def _column_products(A: sp.csc_array, ends: np.ndarray) -> np.ndarray:
    """Return the dot products of pairs of columns."""
    products = []
    for first, second in _chunks(ends):
        sums = A[:, first].multiply(A[:, second]).sum(axis=0)
        products.append(np.asarray(sums).ravel())
    return np.concatenate(products)


def _chunks(ends: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the first and the second columns of about CHUNK pairs at a time."""
    for pairs in np.array_split(ends, len(ends) // CHUNK + 1):
        yield pairs[:, 0], pairs[:, 1]
