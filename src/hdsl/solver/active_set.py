"""The model while it is learned: active atoms and their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from . import atoms as atoms_module
from .atoms import ZERO, Atom
from .protocols import Correction, Move

#: Scores of active atoms within this relative distance are equal.
TIE = 1e-12

#: A correction leaves no weight below this: rounding makes such weights of 0.
DUST = 1e-15


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
            return cls(atoms_module.as_array([]), np.empty(0), 1.0)
        return cls(atoms_module.as_array([atom]), np.ones(1))

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
        is_paired = ~atoms_module.are_directions(self.atoms)
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
