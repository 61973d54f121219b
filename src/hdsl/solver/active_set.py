"""The model while it is learned: active atoms and their weights."""

from __future__ import annotations

from dataclasses import dataclass
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
        features, place = np.unique(self.atoms[:, :2], return_inverse=True)
        entries = np.bincount(place.ravel(), np.repeat(self.weights, 2), len(features))
        order = np.argsort(-entries, kind="stable")
        return features[order[features[order] >= 0]]

    def find(self, atom: Atom) -> int | None:
        """Return the position of an atom, None where it is not active."""
        i, j, sign = atom
        at = ((self.atoms[:, 0] == i) & (self.atoms[:, 1] == j)).nonzero()[0].tolist()
        return next((k for k in at if self.atoms[k, 2] == sign), None)

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
        near = TIE * max(abs(high), abs(low))
        candidates = (
            scores >= high - near if largest else scores <= low + near
        ).nonzero()[0]
        if len(candidates) == 1:
            return self._scored(int(candidates[0]), scores)
        found = (self._scored(k, scores) for k in candidates.tolist())
        return min(found, key=lambda scored: scored.atom.order)

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
        atoms = self.atoms
        weights = self.weights.copy()
        zero = self.zero
        factor = 1.0
        if away is None:
            factor = 1.0 - step_size
        elif toward is None:
            factor = 1.0 + step_size
        weights *= factor
        zero = None if zero is None else zero * factor
        if away == ZERO and zero is not None:
            zero = 0.0 if drop else max(zero - step_size, 0.0)
        elif away is not None:
            k = self.find(away)
            if k is None:  # only a trace from a file does this
                raise ValueError(
                    f"The trace moves away from {tuple(away)}, which is not active."
                )
            weights[k] = 0.0 if drop else max(weights[k] - step_size, 0.0)
        if toward == ZERO and zero is not None:
            zero += step_size
        elif toward is not None:
            k = self.find(toward)
            if k is None:
                atoms = np.concatenate([atoms, [toward]])
                weights = np.concatenate([weights, [step_size]])
            else:
                weights[k] += step_size
        positive = weights > 0.0
        if not positive.all():
            atoms = atoms[positive]
            weights = weights[positive]
        total = weights.sum() + (zero or 0.0)
        return ActiveSet(
            atoms, weights / total, None if zero is None else float(zero / total)
        )

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
        zero = None if self.zero is None else 1.0 - float(weights.sum())
        if zero is not None and zero <= DUST:
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
