"""The learned similarity as plain arrays: S(x, x') = prior·⟨x, x'⟩ + xᵀMx', M = Σ weight·atom."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from .input.matrices import as_rows
from .input.parameters import check_number
from .solver import atoms as atoms_module
from .solver.columns import drop_unused_columns

__all__ = ["Similarity"]

#: Rows of the largest matrix M in CSR format, whose row pointers take 1 GiB.
MAX_CSR_ROWS = 2**27

#: Rows that are scaled at a time: what is computed of them stays in a cache.
PART_ROWS = 4096

#: Similarities that differ by less, in relation to their size, are equal up to
#: rounding.
TIE = 1e-12


class Rewriter(Protocol):
    """What a search needs of a similarity: S(x, y) is a dot product of two rewritten rows."""

    def rewrite(self, X: Any) -> Any:
        """Return the query side."""

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""


@dataclass(frozen=True)
class Similarity:
    """A similarity made of atoms.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign), i < j.
    weights : ndarray of shape (n_atoms,)
        Positive, summing to at most 1.
    scale : float
        λ: M = Σ_k weights_k λ (e_i ± e_j)(e_i ± e_j)ᵀ.
    prior : float
        Weight of the plain dot product.
    n_features : int
    norm : {"l2", None}, default=None
        "l2" compares rows at unit length.
    columns : ndarray, default=None
        Columns that count in the length of a row, sorted; None is all.
    """

    atoms: np.ndarray
    weights: np.ndarray
    scale: float
    prior: float
    n_features: int
    norm: str | None = None
    columns: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not atoms_module.are_atoms(
            np.reshape(self.atoms, (-1, 3)).T, self.n_features
        ).all():
            raise ValueError(
                f"An atom is no (i, j, sign) with i < j < {self.n_features}."
            )

    def index_rows(self, X: Any) -> Any:
        """Return rows as S compares them; their dot products with ``rewrite`` of x are S(x, y)."""
        X = as_rows(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} columns, expected {self.n_features}, as learned."
            )
        return X if self.norm is None else unit_rows(X, self.columns)

    @property
    def components(self) -> sp.csr_array:
        """L with M = LᵀL: rows sqrt(λ weight_k)(e_i ± e_j), shape (n_atoms, n_features)."""
        return atoms_module.factors(
            self.atoms, np.sqrt(self.scale * self.weights), self.n_features
        )

    def matrix(self) -> sp.csr_array | sp.coo_array:
        """Return M, sparse, shape (n_features, n_features).

        The format is CSR, and COO for more than 2**27 features: CSR stores a number per
        row.
        """
        if self.n_features > MAX_CSR_ROWS:
            i, j, values = self.entries()
            off = i != j
            at = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
            values = np.concatenate([values, values[off]])
            return sp.coo_array((values, at), shape=(self.n_features,) * 2)
        L = self.components
        return sp.csr_array(L.T @ L)

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the upper triangle of M with its diagonal: i <= j and values, sorted by i and j.

        Entries of 0 are left out. The cost depends on the number of atoms alone.
        """
        features, place = np.unique(self.atoms[:, :2], return_inverse=True)
        i, j = place.reshape(-1, 2).T
        values = self.scale * self.weights
        rows = np.concatenate([i, i, j])
        columns = np.concatenate([j, i, j])
        all_values = np.concatenate([values * self.atoms[:, 2], values, values])
        M = sp.coo_array((all_values, (rows, columns)), (len(features),) * 2).tocsr()
        M.eliminate_zeros()  # an atom with a plus and one with a minus may cancel
        M = M.tocoo()
        return features[M.row], features[M.col], M.data

    def transform(self, X: Any) -> Any:
        """Return rows whose dot products are the similarity: components, then sqrt(prior)·X."""
        X = self.index_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self.learned(X)
            if self.prior != 0:
                rest = X * X.dtype.type(np.sqrt(self.prior))
                Z = (
                    sp.hstack([Z, rest], format="csr")
                    if sp.issparse(X)
                    else np.hstack([Z, rest])
                )
        return check_result(Z, "The transform of X")

    def learned(self, X: Any) -> Any:
        """Return X Lᵀ, where L has one row per atom."""
        if sp.issparse(X):
            (rows, L), _ = drop_unused_columns(X, self.components.astype(X.dtype))
            return rows @ L.T
        i, j, sign = self.atoms.T
        root = np.sqrt(self.scale * self.weights)
        return (X[:, i] + X[:, j] * sign.astype(X.dtype)) * root.astype(X.dtype)

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + XM, the query side: its dot products with rows y are S(x, y).

        With a norm, x and y are rows at unit length: see ``index_rows``.
        """
        X = self.index_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            # In float64 also for float32 rows: the scale and the prior may not fit in
            # float32.
            Z = self._rewrite(X.astype(np.float64, copy=False)).astype(
                X.dtype, copy=False
            )
        return check_result(Z, "The rewritten X")

    def _rewrite(self, X: Any) -> Any:
        rest = X * self.prior
        if not sp.issparse(X):
            return np.asarray(X @ self.matrix()) + rest
        (rows, L), columns = drop_unused_columns(X, self.components)
        learned = sp.csr_array(rows @ (L.T @ L))
        if columns is not None:
            learned.sort_indices()  # SciPy adds unsorted rows in arrays as long as all columns
            arrays = learned.data, columns[learned.indices], learned.indptr
            learned = sp.csr_array(arrays, shape=X.shape)
        return sp.csr_array(learned + rest)

    def own_lengths(self, X: Any) -> np.ndarray:
        """Return sqrt(S(x, x)) of each row, 1 for a row without."""
        rows = self.index_rows(X).astype(np.float64, copy=False)
        learned = self.learned(rows)
        squares = row_products(learned, learned)
        if self.prior != 0:
            squares = squares + self.prior * row_products(rows, rows)
        return _roots(squares)

    def pairwise(self, X: Any, Y: Any = None, *, cosine: bool = False) -> np.ndarray:
        """Return S between all rows of X and all rows of Y, or its cosine, dense."""
        A = self._embed(X, cosine)
        B = A if Y is None else self._embed(Y, cosine)
        return check_result(products(A, B), "The similarity")

    def _embed(self, X: Any, cosine: bool) -> Any:
        """Return rows whose dot products are S or its cosine."""
        return unit_rows(self.transform(X)) if cosine else self.transform(X)

    def pair_score(self, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, for rows of X and Y with the same number."""
        scores = row_products(self._embed(X, cosine), self._embed(Y, cosine))
        return check_result(scores, "The similarity")


class Pairwise:
    """Scores of pairs for what has ``rewrite`` and ``index_rows``."""

    def index_rows(self, X: Any) -> Any:
        """Return the rows themselves."""
        return X

    def pairwise(
        self: Any, X: Any, Y: Any = None, *, cosine: bool = False
    ) -> np.ndarray:
        """Return S between all rows of X, the queries, and all rows of Y, or its cosine, dense."""
        side = LearnedCosine(self) if cosine else self
        scores = products(side.rewrite(X), side.index_rows(X if Y is None else Y))
        return check_result(scores, "The similarity")

    def pair_score(self: Any, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, for rows of X and Y with the same number."""
        side = LearnedCosine(self) if cosine else self
        return check_result(
            row_products(side.rewrite(X), side.index_rows(Y)), "The similarity"
        )


class LearnedCosine:
    """S(x, y) / sqrt(S(x, x) S(y, y)): every row is most similar to itself.

    Parameters
    ----------
    similarity : Rewriter
    """

    def __init__(self, similarity: Rewriter) -> None:
        self.similarity = similarity

    def rewrite(self, X: Any) -> Any:
        """Return the query side."""
        queries = self.similarity.rewrite(X)
        return _divided(queries, self.lengths(X, queries))

    def index_rows(self, X: Any) -> Any:
        """Return the other side: each row of X divided by one number, its learned length."""
        return _divided(self.similarity.index_rows(X), self.lengths(X))

    def lengths(self, X: Any, queries: Any = None) -> np.ndarray:
        """Return the learned length sqrt(S(x, x)) of each row, 1 for a row without.

        `queries` are the rewritten rows, where they are known.
        """
        if isinstance(self.similarity, Similarity):
            return self.similarity.own_lengths(X)
        queries = self.similarity.rewrite(X) if queries is None else queries
        return _roots(row_products(queries, self.similarity.index_rows(X)))


def unit_rows(X: Any, columns: np.ndarray | None = None) -> Any:
    """Return the rows of X divided by their Euclidean length over some columns.

    A row without a value in these columns stays as it is.

    Parameters
    ----------
    X : ndarray or sparse array of shape (n_rows, n_features)
    columns : ndarray, default=None
        Sorted; None is all.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0, 12.0]]), np.array([0, 1])).tolist()
    [[0.6, 0.8, 2.4]]
    """
    if not sp.issparse(X):
        counted = X if columns is None else X[:, columns]
        largest = np.abs(counted).max(axis=1, initial=0.0)
        scaled = counted / np.where(largest > 0.0, largest, 1.0)[:, None]
        return _divided(X, _lengths(largest, np.square(scaled).sum(axis=1)))
    largest = np.zeros(X.shape[0], dtype=X.dtype)
    squares = np.zeros(X.shape[0])
    for rows, entries, counts in _parts(X):
        values = np.abs(X.data[entries])
        if columns is not None:
            place = np.minimum(
                np.searchsorted(columns, X.indices[entries]), len(columns) - 1
            )
            values[columns[place] != X.indices[entries]] = 0.0
        full = np.flatnonzero(counts)
        if len(full):
            first = (X.indptr[rows] - entries.start)[full]
            at = rows.start + full
            largest[at] = np.maximum.reduceat(values, first)
            unit = np.where(largest[rows] > 0.0, largest[rows], 1.0)
            values = values / np.repeat(unit, counts)
            squares[at] = np.add.reduceat(np.square(values, dtype=np.float64), first)
    return _divided(X, _lengths(largest, squares))


def _lengths(largest: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the length of each row, 1 for an empty one; squares are relative to the largest."""
    return np.where(largest > 0.0, largest * np.sqrt(squares), 1.0)


def _roots(squares: np.ndarray) -> np.ndarray:
    """Return the lengths of rows from their S(x, x), 1 for a row without."""
    return np.sqrt(np.where(squares > 0.0, squares, 1.0))


def _divided(X: Any, lengths: np.ndarray) -> Any:
    """Return the rows of X, each divided by its own number, in the dtype of X."""
    lengths = lengths.astype(X.dtype)
    if not sp.issparse(X):
        return X / lengths[:, None]
    data = np.empty(X.nnz, dtype=np.result_type(X.data, lengths))
    for rows, entries, counts in _parts(X):
        np.divide(X.data[entries], np.repeat(lengths[rows], counts), out=data[entries])
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _parts(X: sp.csr_array) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield a few thousand rows at a time, their entries, and how many each row has."""
    for start in range(0, X.shape[0], PART_ROWS):
        rows = slice(start, min(start + PART_ROWS, X.shape[0]))
        ends = X.indptr[start : rows.stop + 1]
        yield rows, slice(int(ends[0]), int(ends[-1])), np.diff(ends)


def products(A: Any, B: Any) -> np.ndarray:
    """Return the dot products of all rows of A with all rows of B, dense; they may overflow.

    Examples
    --------
    >>> products(sp.csr_array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [[3.0, 8.0]]
    """
    if sp.issparse(A) and sp.issparse(B):
        (A, B), _ = drop_unused_columns(sp.csr_array(A), sp.csr_array(B))
    with np.errstate(over="ignore", invalid="ignore"):
        found = A @ B.T
    return found.toarray() if sp.issparse(found) else np.asarray(found)


def row_products(A: Any, B: Any) -> np.ndarray:
    """Return the dot product of each row of A with the same row of B; it may overflow.

    Examples
    --------
    >>> row_products(sp.csr_array([[1.0, 2.0], [0.0, 5.0]]), np.array([[3.0, 4.0]] * 2)).tolist()
    [11.0, 20.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if not (sp.issparse(A) or sp.issparse(B)):
            return np.einsum("ij,ij->i", A, B)
        if A is B:
            squares = np.square(A.data)
            return np.asarray(
                sp.csr_array((squares, A.indices, A.indptr), A.shape).sum(axis=1)
            )
        (A, B), _ = drop_unused_columns(sp.csr_array(A), sp.csr_array(B))
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()


def check_result(Z: Any, what: str) -> Any:
    """Return Z, computed from finite rows; raise ValueError if it overflowed."""
    values = Z.data if sp.issparse(Z) else Z
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return Z
    wider = " or pass it as float64" if values.dtype == np.float32 else ""
    raise ValueError(
        f"{what} is too large for {values.dtype}: scale X to smaller values{wider}."
    )


def limit_weights(
    queries: Any,
    *,
    nonnegative: bool = False,
    max_terms: int | None = None,
    max_weight: float | None = None,
) -> Any:
    """Return queries that respect the limits of an engine, in this order.

    Parameters
    ----------
    queries : ndarray or sparse array of shape (n_queries, n_features)
    nonnegative : bool, default=False
        Leave out negative weights. With documents that are nowhere negative, the scores
        become upper bounds of the true ones: see `hdsl.serving.certified_top_k`.
    max_terms : int, default=None
        Keep at most so many weights per query, the largest in absolute value; of equals
        the first.
    max_weight : float, default=None
        Multiply each query whose largest absolute weight is above by the number that
        brings it there. All scores of the query are multiplied by the same number, so
        ranks do not change.

    Returns
    -------
    ndarray or csr_array, as `queries`

    Examples
    --------
    >>> limit_weights(np.array([[4.0, -3.0, 1.0]]), max_terms=2).tolist()
    [[4.0, -3.0, 0.0]]
    >>> limit_weights(np.array([[4.0, -3.0, 1.0]]), nonnegative=True, max_weight=2).tolist()
    [[2.0, 0.0, 0.5]]
    """
    check_number("rewrite", "max_terms", max_terms, low=1, integer=True, words=(None,))
    check_number("rewrite", "max_weight", max_weight, low=0, strict=True, words=(None,))
    if not nonnegative and max_terms is None and max_weight is None:
        return queries
    Z = sp.csr_array(as_rows(queries, "queries"))
    if nonnegative:
        Z = _only(Z, Z.data > 0)
    row = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
    if max_terms is not None:
        order = np.lexsort((Z.indices, -np.abs(Z.data), row))
        place = np.empty(Z.nnz, dtype=np.int64)
        place[order] = np.arange(Z.nnz) - Z.indptr[row[order]]
        Z = _only(Z, place < max_terms)
        row = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
    if max_weight is not None:
        largest = np.zeros(Z.shape[0], dtype=Z.dtype)
        np.maximum.at(largest, row, np.abs(Z.data))
        above = largest > max_weight
        factor = np.where(above, max_weight / np.where(above, largest, 1.0), 1.0)
        data = np.clip(Z.data * factor[row], -max_weight, max_weight).astype(Z.dtype)
        Z = sp.csr_array((data, Z.indices, Z.indptr), shape=Z.shape)
    return Z if sp.issparse(queries) else Z.toarray()


def _only(Z: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    """Return Z with some of its stored values."""
    n_before = np.concatenate([[0], np.cumsum(kept)])
    arrays = Z.data[kept], Z.indices[kept], n_before[Z.indptr]
    return sp.csr_array(arrays, shape=Z.shape)


class _Rewritten(Pairwise):
    """An object with ``rewrite`` alone: the other side is the rows themselves."""

    def __init__(self, model: Any) -> None:
        self.rewrite = model.rewrite
        if hasattr(model, "n_features"):
            self.n_features = model.n_features


def as_rewriter(model: Any, n_features: int, name: str) -> Rewriter:
    """Return the similarity of a model, which needs no column names.

    Parameters
    ----------
    model : HDSL, Similarity or other object with ``rewrite(X)``
    n_features : int
        Number of columns of the rows to compare.
    name : str
        What error messages call the model.
    """
    similarity = getattr(model, "similarity_", model)
    if hasattr(similarity, "rewrite") and not hasattr(similarity, "index_rows"):
        similarity = _Rewritten(similarity)
    if not hasattr(similarity, "rewrite"):
        raise ValueError(
            f"{name} must be a fitted HDSL, a Similarity or another object with "
            f"rewrite(X), or None for the dot product. Got {model!r} instead."
        )
    learned_on = getattr(similarity, "n_features", n_features)
    if learned_on != n_features:
        raise ValueError(
            f"X has {n_features} features, but the similarity was learned on "
            f"{learned_on}: use the same columns."
        )
    return similarity


def comparison_points(
    X: sp.csr_array, triplets: np.ndarray
) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to 1 per comparison that holds, 0.5 per tie, else 0.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3) or (n_quadruplets, 4)
        Rows (a, b, c) say S(a, b) > S(a, c); rows (a, b, c, d) say S(a, b) > S(c, d).
    """
    if triplets.shape[1] == 3:
        triplets = triplets[:, [0, 1, 0, 2]]
    # Each row is rewritten and indexed once, and each distinct pair is scored once.
    lefts, left = np.unique(triplets[:, [0, 2]].T.ravel(), return_inverse=True)
    rights, right = np.unique(triplets[:, [1, 3]].T.ravel(), return_inverse=True)
    pairs, pair = np.unique(left * np.int64(X.shape[0]) + right, return_inverse=True)
    left, right = np.divmod(pairs, X.shape[0])
    queries = X[lefts]
    others = X[rights]

    def points(similarity: Rewriter) -> np.ndarray:
        rewritten = sp.csr_array(similarity.rewrite(queries))
        indexed = sp.csr_array(similarity.index_rows(others))
        scores = row_products(rewritten[left], indexed[right])
        scores = check_result(scores, "The similarity")[pair]
        larger, smaller = np.split(scores, 2)
        lead = larger - smaller
        tie = TIE * np.maximum(abs(larger), abs(smaller))
        return 0.5 * (1.0 + np.where(abs(lead) <= tie, 0.0, np.sign(lead)))

    return points
