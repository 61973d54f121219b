"""Second derivatives of the value in the weights of atoms, from a sample of comparisons."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..solver.protocols import curvature_stride
from .atoms import Atoms
from .comparisons import Comparisons
from .kernels import curvature as kernels
from .kernels.pairs import PairRows

#: Numbers in the matrices that they are summed in, the largest number of these, and the
#: least comparisons of each.
MATRICES_LIMIT = 1 << 22
MOST_MATRICES = 16
LEAST_COMPARISONS = 32768


class CurvatureSample(NamedTuple):
    """Comparisons that second derivatives are estimated from.

    Attributes
    ----------
    numbers : ndarray of shape (n,)
    factor : float
        Of the weights of these.
    """

    numbers: np.ndarray
    factor: float


def curvature_sample(
    n_comparisons: int, n_atoms: int, count: Callable[[int], int]
) -> CurvatureSample:
    """Return evenly spaced comparisons; ``count`` is as in `curvature_stride`."""
    stride = curvature_stride(n_comparisons, n_atoms, count)
    numbers = np.arange(0, n_comparisons, stride)
    return CurvatureSample(numbers, n_comparisons / len(numbers))


def sum_curvatures(
    comparisons: Comparisons,
    stored: Atoms,
    atoms: np.ndarray,
    curved: kernels.CurvedComparisons,
) -> np.ndarray:
    """Return Σ_t c_t v_t v_tᵀ over curved comparisons, v_t the margins of the atoms / λ."""
    pair_rows = PairRows(comparisons.pairs.a, comparisons.pairs.b)
    values = stored.terms_of(atoms, _rows_of(comparisons, pair_rows, curved))
    n_columns = values.n_columns
    n = len(curved.numbers)
    n_matrices = min(
        MOST_MATRICES, MATRICES_LIMIT // n_columns**2, n // LEAST_COMPARISONS
    )
    n_matrices = max(1, n_matrices)
    bounds = n * np.arange(n_matrices + 1) // n_matrices
    sums = np.zeros((n_matrices, n_columns, n_columns))
    compared = kernels.AnchoredPairs(
        comparisons.columns[0], comparisons.winner, comparisons.loser
    )

    def add(start: int, stop: int) -> None:
        workspace = kernels.CurvatureWorkspace.empty(n_columns)
        for number in range(start, stop):
            kernels.add_curvatures(
                int(bounds[number]),
                int(bounds[number + 1]),
                curved,
                compared,
                pair_rows,
                values.Z,
                workspace,
                sums[number],
            )

    comparisons.workers.run(add, np.arange(n_matrices + 1))
    total = sums.sum(axis=0)
    total += total.T.copy()
    if np.array_equal(values.columns, np.arange(n_columns)):
        return total
    return total[np.ix_(values.columns, values.columns)]


def margins_of_pairs(
    comparisons: Comparisons, stored: Atoms, atoms: np.ndarray, numbers: np.ndarray
) -> sp.csr_array:
    """Return the margins / λ of atoms (columns) in some comparisons (rows), sparse."""
    n_rows = comparisons.rows.n_rows
    values = stored.terms_of(atoms, np.ones(n_rows, dtype=bool))
    arrays = (values.Z.data, values.Z.indices, values.Z.indptr)
    Z = sp.csr_array(arrays, shape=(n_rows, values.n_columns))[:, values.columns]
    a, b, c, d = (Z[side[numbers]] for side in comparisons.sides)
    return sp.csr_array(a.multiply(b) - c.multiply(d))


def _rows_of(
    comparisons: Comparisons, pair_rows: PairRows, curved: kernels.CurvedComparisons
) -> np.ndarray:
    """Return which rows of X are needed: all for all comparisons, fewer for a sample."""
    n_rows = comparisons.rows.n_rows
    if len(curved.numbers) == comparisons.n_comparisons:
        return np.ones(n_rows, dtype=bool)
    numbers = curved.numbers[curved.curvatures != 0.0]
    is_used = np.zeros(comparisons.pairs.n_pairs, dtype=bool)
    is_used[comparisons.winner[numbers]] = True
    is_used[comparisons.loser[numbers]] = True
    is_wanted = np.zeros(n_rows, dtype=bool)
    is_wanted[pair_rows.first[is_used]] = True
    is_wanted[pair_rows.second[is_used]] = True
    return is_wanted
