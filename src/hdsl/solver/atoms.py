"""Atoms (i, j, sign) with i < j: λ(e_i + sign·e_j)(e_i + sign·e_j)ᵀ, as rows of int64 arrays.

Beside an embedding there are atoms of a second kind, (`DIRECTION`, k, 1): s·uuᵀ for the
direction u of number k, a unit vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


#: Scores of active atoms within this relative distance are equal.
TIE = 1e-12

#: A correction leaves no weight below this: rounding makes such weights of 0.
DUST = 1e-15


class Move(NamedTuple):
    """What a step rule decides: toward an atom, away from one, or from one to the other."""

    kind: str
    toward: Atom | None
    away: Atom | None
    max_step_size: float

    @property
    def share_of_model(self) -> float:
        """How much of the model itself the move adds to it."""
        if self.toward is None:  # all else gains what the atom loses
            return 1.0
        if self.away is None:  # all else loses what the atom gains
            return -1.0
        return 0.0

    @property
    def changes(self) -> tuple[np.ndarray, np.ndarray]:
        """The atoms that are moved toward or away from, but 0, and 1 or -1 of each."""
        moved = [
            (atom, sign)
            for atom, sign in ((self.toward, 1.0), (self.away, -1.0))
            if atom is not None and atom != ZERO
        ]
        atoms = as_array([atom for atom, _ in moved])
        return atoms, np.array([sign for _, sign in moved])


class Correction(NamedTuple):
    """A change of the weights of many atoms at once, along which a step is taken."""

    kind: str
    toward: Atom | None  # the best vertex of the oracle
    away: Atom | None
    max_step_size: float
    atoms: np.ndarray  # the active ones, then new ones
    change: np.ndarray  # of the weight of each; what is left is that of the zero atom


class Scored(NamedTuple):
    """An active atom, its score ⟨B, -∇f⟩ and its weight."""

    atom: Atom
    score: float
    weight: float


@dataclass(frozen=True)
class ActiveSet:
    """Atoms with positive weights. A value: a step makes a new one.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
    weights : ndarray of shape (n_atoms,)
        They sum to 1 with the weight of the zero atom.
    zero : float or None, default=None
        Weight of the zero atom; None where the domain does not have it.
    """

    atoms: np.ndarray
    weights: np.ndarray
    zero: float | None = None

    @classmethod
    def of(cls, atom: Atom) -> ActiveSet:
        """Return the set of one atom; the zero atom is that of a domain that has it."""
        if atom == ZERO:
            return cls(as_array([]), np.empty(0), 1.0)
        return cls(as_array([atom]), np.ones(1))

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, k: int) -> Atom:
        return Atom(*self.atoms[k].tolist())

    @property
    def n_vertices(self) -> int:
        """Number of atoms with a positive weight, the zero atom included."""
        return len(self) + bool(self.zero)

    @property
    def features(self) -> np.ndarray:
        """Features of the atoms that have values, those of largest entries of M_ii first."""
        is_paired = ~are_directions(self.atoms)
        pairs = self.atoms[is_paired, :2]
        features, position = np.unique(pairs, return_inverse=True)
        weights = np.repeat(self.weights[is_paired], 2)
        entries = np.bincount(position.ravel(), weights, len(features))
        order = np.argsort(-entries, kind="stable")
        return features[order[features[order] >= 0]]

    def find(self, atom: Atom) -> int | None:
        """Return the position of an atom, None where it is not active."""
        i, j, sign = atom
        has_features = (self.atoms[:, 0] == i) & (self.atoms[:, 1] == j)
        for k in has_features.nonzero()[0].tolist():
            if self.atoms[k, 2] == sign:
                return k
        return None

    def extreme(self, scores: np.ndarray, *, largest: bool) -> Scored:
        """Return the atom of largest or smallest score, the smallest (i, j, -sign) of equals.

        Scores are equal up to rounding: after an exact line search between two atoms
        theirs are the same in theory, and chance must not decide which is worse. The
        zero atom has score 0.
        """
        if self.zero:
            scores = np.append(scores, 0.0)
        high = float(scores.max())
        low = float(scores.min())
        tolerance = TIE * max(abs(high), abs(low))
        if largest:
            is_extreme = scores >= high - tolerance
        else:
            is_extreme = scores <= low + tolerance
        candidates = is_extreme.nonzero()[0].tolist()
        if len(candidates) == 1:
            return self._scored(candidates[0], scores)
        scored_atoms = [self._scored(k, scores) for k in candidates]
        return min(scored_atoms, key=lambda scored: scored.atom.order)

    def _scored(self, k: int, scores: np.ndarray) -> Scored:
        if k == len(self):
            assert self.zero is not None
            return Scored(ZERO, 0.0, self.zero)
        return Scored(self[k], float(scores[k]), float(self.weights[k]))

    def weights_among(self, atoms: np.ndarray) -> np.ndarray:
        """Return the weights of atoms that begin with the active ones; new ones have none."""
        return np.concatenate([self.weights, np.zeros(len(atoms) - len(self))])

    def weight_of_others(self, atom: Atom) -> float:
        """Return the weight of all atoms but one; it may be too light to make a difference to 1."""
        if atom == ZERO:
            return float(self.weights.sum())
        k = self.find(atom)
        assert k is not None
        return float(np.delete(self.weights, k).sum()) + (self.zero or 0.0)

    def moved(
        self, toward: Atom | None, away: Atom | None, step_size: float, drop: bool
    ) -> ActiveSet:
        """Return the set after a step toward an atom, away from one, or from one to the other.

        toward alone: w ← (1 - γ)w + γe; away alone: w ← (1 + γ)w - γe; both: w ← w +
        γ(e - e'). `drop` says that the step has its largest size, so that the atom
        moved away from leaves.
        """
        factor = 1.0
        if away is None:
            factor = 1.0 - step_size
        elif toward is None:
            factor = 1.0 + step_size
        active = self._scaled(factor)
        if away is not None:
            active = active._with_less_of(away, step_size, drop)
        if toward is not None:
            active = active._with_more_of(toward, step_size)
        return active._normalized()

    def _scaled(self, factor: float) -> ActiveSet:
        """Return the set with all weights times a factor."""
        if self.zero is None:
            return ActiveSet(self.atoms, self.weights * factor)
        return ActiveSet(self.atoms, self.weights * factor, self.zero * factor)

    def _with_less_of(self, atom: Atom, size: float, drop: bool) -> ActiveSet:
        """Return the set with less weight of an atom, with none if the step drops it."""
        if atom == ZERO and self.zero is not None:
            if drop:
                return replace(self, zero=0.0)
            return replace(self, zero=max(self.zero - size, 0.0))
        k = self.find(atom)
        if k is None:  # only a trace from a file does this
            raise ValueError(
                f"The trace moves away from {tuple(atom)}, which is not active."
            )
        weights = self.weights.copy()
        weights[k] = max(weights[k] - size, 0.0)
        if drop:
            weights[k] = 0.0
        return replace(self, weights=weights)

    def _with_more_of(self, atom: Atom, size: float) -> ActiveSet:
        """Return the set with more weight of an atom, which may be new."""
        if atom == ZERO and self.zero is not None:
            return replace(self, zero=self.zero + size)
        k = self.find(atom)
        if k is None:
            atoms = np.concatenate([self.atoms, [atom]])
            weights = np.concatenate([self.weights, [size]])
            return replace(self, atoms=atoms, weights=weights)
        weights = self.weights.copy()
        weights[k] += size
        return replace(self, weights=weights)

    def _normalized(self) -> ActiveSet:
        """Return the set without atoms of no weight, and with weights that sum to 1."""
        positive = self.weights > 0.0
        atoms = self.atoms[positive]
        weights = self.weights[positive]
        if self.zero is None:
            return ActiveSet(atoms, weights / weights.sum())
        total = weights.sum() + self.zero
        return ActiveSet(atoms, weights / total, float(self.zero / total))

    def corrected(self, atoms: np.ndarray, weights: np.ndarray) -> ActiveSet:
        """Return the set with these weights of the active atoms, in their order, and of new ones.

        Atoms without a weight leave. The zero atom has what is left where the domain
        has it.
        """
        weights = np.where(weights > DUST, weights, 0.0)
        positive = weights > 0.0
        total = float(weights.sum())
        if self.zero is None or total > 1.0:
            weights = weights / total
        zero = None
        if self.zero is not None:
            zero = 1.0 - float(weights.sum())
            if zero <= DUST:
                zero = 0.0
        return ActiveSet(atoms[positive], weights[positive], zero)

    def after(
        self, move: Move | Correction, step_size: float
    ) -> tuple[ActiveSet, bool]:
        """Return the set after a step along a move, and whether the step drops an atom by its size.

        A correction may leave atoms without weight; it is no step of the largest size.
        """
        if isinstance(move, Correction):
            weights = self.weights_among(move.atoms) + step_size * move.change
            return self.corrected(move.atoms, weights), False
        drop = move.away is not None and step_size >= move.max_step_size
        return self.moved(move.toward, move.away, step_size, drop), drop
