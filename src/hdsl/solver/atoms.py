"""Atoms (i, j, sign) with i < j: λ(e_i + sign·e_j)(e_i + sign·e_j)ᵀ, as rows of int64 arrays.

Beside an embedding there are atoms of a second kind, (`DIRECTION`, k, 1): s·uuᵀ for the
direction u of number k, a unit vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Atom(NamedTuple):
    """One atom: features i < j, and sign +1 (the paper's P) or -1 (its N)."""

    i: int
    j: int
    sign: int

    @classmethod
    def of(cls, i: int, j: int, sign: float) -> Atom:
        """Return the canonical atom of two features in any order; a sign of 0 counts as +1."""
        low = int(min(i, j))
        high = int(max(i, j))
        if sign < 0:
            return cls(low, high, -1)
        return cls(low, high, 1)

    @property
    def order(self) -> tuple[int, int, int]:
        """What ties are settled by: the smallest wins."""
        return self.i, self.j, -self.sign


#: The zero matrix, a vertex of the domain that has it.
ZERO = Atom(-1, -1, 1)


def as_array(atoms: Sequence[Atom]) -> np.ndarray:
    """Return atoms as an int64 array of shape (n_atoms, 3)."""
    return np.array(atoms, dtype=np.int64).reshape(-1, 3)


def as_keys(atoms: np.ndarray) -> list[tuple[int, ...]]:
    """Return atoms as tuples."""
    return list(map(tuple, atoms.tolist()))


#: Stands before the number of a direction of the embedding.
DIRECTION = -2


def direction_atoms(numbers: np.ndarray) -> np.ndarray:
    """Return the atoms of some directions."""
    signs = np.ones_like(numbers)
    return np.column_stack([np.full_like(numbers, DIRECTION), numbers, signs])


def are_directions(atoms: np.ndarray) -> np.ndarray:
    """Return which atoms are directions of the embedding.

    Examples
    --------
    >>> are_directions(np.array([[0, 1, -1], [DIRECTION, 0, 1]])).tolist()
    [False, True]
    """
    return atoms[:, 0] == DIRECTION


#: No atoms, and their weights.
NOTHING = as_array([]), np.empty(0)


def renumbered(atoms: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return atoms on positions in `features` as atoms on those features, i < j; -1 stays -1.

    Directions stay as they are.

    Examples
    --------
    >>> renumbered(np.array([[0, 1, -1]]), np.array([7, 3])).tolist()
    [[3, 7, -1]]
    """
    answer = atoms.copy()
    paired = atoms[~are_directions(atoms)]
    if len(paired):
        ends = np.where(paired[:, :2] < 0, -1, features[paired[:, :2]])
        paired = np.column_stack([np.sort(ends, axis=1), paired[:, 2]])
        answer[~are_directions(atoms)] = paired
    return answer


def positioned(atoms: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return atoms on `features` as atoms on positions in it, i < j: undoes `renumbered`.

    A feature that is not there gets -1. Directions stay as they are.

    Examples
    --------
    >>> positioned(np.array([[3, 7, -1], [5, 7, 1]]), np.array([7, 3])).tolist()
    [[0, 1, -1], [-1, 0, 1]]
    """
    answer = atoms.copy()
    is_paired = ~are_directions(atoms)
    numbers = atoms[is_paired, :2]
    if not len(numbers):
        return answer
    if not len(features):
        answer[is_paired, :2] = -1
        return answer
    order = np.argsort(features)
    rank = np.searchsorted(features, numbers, sorter=order)
    position = order[np.minimum(rank, len(features) - 1)]
    ends = np.where(features[position] == numbers, position, -1)
    answer[is_paired, :2] = np.sort(ends, axis=1)
    return answer


def n_features(atoms: np.ndarray) -> int:
    """Return how many distinct features the atoms use."""
    ends = np.sort(atoms[~are_directions(atoms), :2], axis=None)
    return int(np.count_nonzero(ends[1:] != ends[:-1])) + bool(len(ends))


def factors(atoms: np.ndarray, scales: np.ndarray, n_features: int) -> sp.csr_array:
    """Return the rows scales_k · (e_i + sign·e_j), shape (n_atoms, n_features)."""
    n = len(atoms)
    data = np.column_stack([scales, scales * atoms[:, 2]]).ravel()
    indptr = np.arange(0, 2 * n + 1, 2, dtype=np.int64)
    return sp.csr_array((data, atoms[:, :2].ravel(), indptr), shape=(n, n_features))


def names(atoms: np.ndarray, feature_names: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return readable names, such as ``price+cost`` and ``price-goal``.

    Examples
    --------
    >>> names(np.array([[0, 1, 1], [0, 2, -1]]), ["price", "cost", "goal"]).tolist()
    ['price+cost', 'price-goal']
    """
    signs = {1: "+", -1: "-"}
    readable = [
        f"{feature_names[i]}{signs[sign]}{feature_names[j]}"
        for i, j, sign in atoms.tolist()
    ]
    return np.array(readable, dtype=object)


def check_atoms(
    atoms: np.ndarray, weights: np.ndarray, n_features: int, n_directions: int = 0
) -> None:
    """Raise ValueError for atoms and weights that no model has."""
    if atoms.dtype.kind != "i" or atoms.ndim != 2 or atoms.shape[1] != 3:
        raise ValueError(
            f"atoms has shape {atoms.shape} and dtype {atoms.dtype}, expected "
            "(n_atoms, 3) integers."
        )
    if weights.dtype != np.float64 or weights.shape != (len(atoms),):
        raise ValueError(
            f"weights has shape {weights.shape} and dtype {weights.dtype}, expected "
            f"{(len(atoms),)} and float64: one weight per atom."
        )
    is_atom = are_atoms(atoms.T, n_features) | have_number(atoms.T, n_directions)
    bad = np.flatnonzero(~is_atom)
    if len(bad):
        raise ValueError(not_an_atom(f"atoms[{bad[0]}]", atoms[bad[0]], n_features))
    _, first = np.unique(atoms, axis=0, return_index=True)
    if len(first) < len(atoms):
        k = int(np.setdiff1d(np.arange(len(atoms)), first)[0])
        raise ValueError(f"atoms[{k}] is {atoms[k].tolist()}, as is an earlier one.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(bad):
        raise ValueError(
            f"weights[{bad[0]}] is {weights[bad[0]]}, expected a finite number > 0."
        )
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not total <= 1.0 + 1e-9:
        raise ValueError(f"weights sum to {total!r}, expected at most 1.")


def are_atoms(columns: Any, n_features: int) -> np.ndarray:
    """Return which of the columns (i, j, sign) are atoms on that many features."""
    i, j, sign = columns
    return (i >= 0) & (i < j) & (j < n_features) & (np.abs(sign) == 1)


def have_number(columns: Any, n_directions: int) -> np.ndarray:
    """Return which of the columns (i, j, sign) are one of that many directions."""
    i, j, sign = columns
    return (i == DIRECTION) & (j >= 0) & (j < n_directions) & (sign == 1)


def are_vertices(columns: Any, n_features: int, n_directions: int = 0) -> np.ndarray:
    """Return which of the columns (i, j, sign) are atoms of either kind, or the zero atom."""
    i, j, sign = columns
    is_zero = (i == ZERO.i) & (j == ZERO.j) & (sign == ZERO.sign)
    is_direction = have_number(columns, n_directions)
    return is_zero | is_direction | are_atoms(columns, n_features)


def not_an_atom(where: str, atom: Any, n_features: int) -> str:
    """Return the message for what is no atom."""
    return (
        f"{where} is {[int(number) for number in atom]}, expected (i, j, sign) with "
        f"0 <= i < j < n_features_in = {n_features} and a sign of -1 or 1."
    )
