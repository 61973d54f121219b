"""Comparisons: which pair of rows is to beat which, and how much each counts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ..solver.atoms import Atom
from .kernels import comparisons as kernels
from .kernels.compiler import CHUNK
from .kernels.pairs import count_into, list_terms
from .pairs import Pairs
from .rows import Rows, check_count
from .workers import GRAIN


def sides_of(columns: Iterable[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows of the pairs that are to win, and those of the pairs that are to lose.

    The columns are those of triplets or of quadruplets.
    """
    a, b, *others = columns
    c, d = others if len(others) == 2 else (a, *others)
    return [(a, b), (c, d)]


class Comparisons:
    """Comparisons of any two pairs of rows: S(a, b) > S(c, d).

    Parameters
    ----------
    rows : Rows
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows (anchor, positive, negative), sorted by anchor, or rows (a, b, c, d).
    omega : ndarray of shape (n,) or float
        Weights, which sum to 1 over all comparisons of a problem; a number where all are equal.
    store_products : bool, default=True
    """

    def __init__(
        self,
        rows: Rows,
        compared: np.ndarray,
        omega: np.ndarray | float,
        *,
        store_products: bool = True,
    ) -> None:
        self.rows, self.workers = rows, rows.workers
        self.n_comparisons, self.n_chunks = len(compared), -(-len(compared) // CHUNK)
        self.columns = tuple(np.ascontiguousarray(part, dtype=np.int32) for part in compared.T)
        self.omega, self.omega_step = np.atleast_1d(omega), np.ndim(omega)
        self.pairs, self.positive_pair, self.negative_pair = self._number_pairs(store_products)

    def _number_pairs(self, store_products: bool) -> tuple[Pairs, np.ndarray, np.ndarray]:
        n, n_rows = self.n_comparisons, np.int64(self.rows.n_rows)
        keys = np.concatenate([np.minimum(a, b) * n_rows + np.maximum(a, b) for a, b in self.sides])
        distinct, number = np.unique(keys, return_inverse=True)
        check_count(len(distinct), "pairs of rows that are compared", "comparisons")
        a, b = (distinct // n_rows).astype(np.int32), (distinct % n_rows).astype(np.int32)
        number = number.astype(np.int32)
        pairs = Pairs(self.rows, a, b, store_products=store_products)
        return pairs, number[:n].copy(), number[n:].copy()

    @property
    def sides(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows of the pairs that are to win, and those of the pairs that are to lose."""
        return sides_of(self.columns)

    @property
    def anchors(self) -> np.ndarray:
        """The row that each comparison starts from."""
        return self.columns[0]

    @cached_property
    def chunk_bounds(self) -> list[int]:
        """Chunks of comparisons shared out among the threads."""
        return self.workers.split(self.n_chunks, grain=GRAIN // CHUNK)

    @cached_property
    def dot_margins(self) -> np.ndarray:
        """Margins of the plain dot product."""
        inner = self.pairs.inner_products
        return inner[self.positive_pair] - inner[self.negative_pair]

    @property
    def dot_rounding(self) -> np.ndarray:
        """How far rounding may move each margin of the dot product."""
        norm = np.sqrt(self.rows.squared_norms)
        (a, b), (c, d) = self.sides
        return 1e-14 * (norm[a] * norm[b] + norm[c] * norm[d])

    def add_atom_margins(self, atom: Atom, factor: float, out: np.ndarray) -> None:
        """Add `factor` times the margins of the matrix (e_i ± e_j)(e_i ± e_j)ᵀ."""
        i, j, sign = atom
        u = self.two_per_row[0]
        kernels.unfold_atom(0, self.rows.n_rows, i, j, float(sign), *self.rows.by_column, u)
        self.workers.run(kernels.add_margins, self.chunk_bounds, factor, *self.by_anchor, u, out)

    @cached_property
    def two_per_row(self) -> np.ndarray:
        """Room for two numbers per row."""
        return np.zeros((2, self.rows.n_rows))

    @property
    def by_anchor(self) -> tuple[np.ndarray, ...]:
        """Where the triplets of each anchor begin, if these are triplets, and rows a, b, c, d."""
        (a, b), (c, d) = self.sides
        return self._anchor_ptr, a, b, c, d

    @property
    def _anchor_ptr(self) -> np.ndarray:
        return np.empty(0, dtype=np.int64)

    @cached_property
    def terms(self) -> tuple[np.ndarray, np.ndarray]:
        """The comparisons that each pair is in: t where it is to win, ~t where it is to lose."""
        ptr = np.zeros(self.pairs.n_pairs + 1, dtype=np.int64)
        for number in (self.positive_pair, self.negative_pair):
            count_into(number, ptr)
        np.cumsum(ptr, out=ptr)
        term = np.empty(2 * self.n_comparisons, dtype=np.int32)
        list_terms(self.positive_pair, self.negative_pair, ptr[:-1].copy(), term)
        return ptr, term


class Triplets(Comparisons):
    """Comparisons of two pairs that share a row: the anchor is more like the one than the other.

    Only triplets whose anchor has a feature of an atom have a margin: they come sorted by anchor.
    """

    @property
    def dot_rounding(self) -> np.ndarray:
        """How far rounding may move each margin of the dot product."""
        norm = np.sqrt(self.rows.squared_norms)
        anchor, positive, negative = self.columns
        return 1e-14 * norm[anchor] * (norm[positive] + norm[negative])

    @cached_property
    def _anchor_ptr(self) -> np.ndarray:
        ptr = np.zeros(self.rows.n_rows + 1, dtype=np.int64)
        count_into(self.anchors, ptr)
        return np.cumsum(ptr)


def make_comparisons(
    rows: Rows, compared: np.ndarray, omega: np.ndarray | float, *, store_products: bool = True
) -> Comparisons:
    """Return triplets or quadruplets, as the width of `compared` says."""
    kind = Triplets if compared.shape[1] == 3 else Comparisons
    return kind(rows, compared, omega, store_products=store_products)
