"""The model while it is learned: active atoms and their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import atoms as atoms_module
from .atoms import Atom

#: Scores of active atoms within this relative distance are equal.
TIE = 1e-12


@dataclass(frozen=True)
class ActiveSet:
    """Atoms with positive weights that sum to 1. A value: a step makes a new one."""

    atoms: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, atom: Atom) -> ActiveSet:
        """Return the set of one atom."""
        return cls(atoms_module.as_array([atom]), np.ones(1))

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, k: int) -> Atom:
        return Atom(*self.atoms[k].tolist())

    def find(self, atom: Atom) -> int | None:
        """Return the position of an atom, None where it is not active."""
        i, j, sign = atom
        at = ((self.atoms[:, 0] == i) & (self.atoms[:, 1] == j)).nonzero()[0].tolist()
        return next((k for k in at if self.atoms[k, 2] == sign), None)

    def extreme(self, scores: np.ndarray, *, largest: bool) -> int:
        """Return the atom of largest or smallest score, the smallest (i, j, -sign) of equals.

        Scores are equal up to rounding: after an exact line search between two atoms theirs are
        the same in theory, and chance must not decide which is worse.
        """
        high, low = float(scores.max()), float(scores.min())
        near = TIE * max(abs(high), abs(low))
        candidates = (scores >= high - near if largest else scores <= low + near).nonzero()[0]
        if len(candidates) == 1:
            return int(candidates[0])
        return min(candidates.tolist(), key=lambda k: self[k].order)

    def moved(
        self, toward: Atom | None, away: Atom | None, step_size: float, drop: bool
    ) -> ActiveSet:
        """Return the set after a step toward an atom, away from one, or from one to the other.

        toward alone: w ← (1 - γ)w + γe; away alone: w ← (1 + γ)w - γe; both: w ← w + γ(e - e').
        `drop` says that the step has its largest size, so that the atom moved away from leaves.
        """
        atoms, weights = self.atoms, self.weights
        if away is None:
            weights = weights * (1.0 - step_size)
        elif toward is None:
            weights = weights * (1.0 + step_size)
        else:
            weights = weights.copy()
        if away is not None:
            k = self.find(away)
            if k is None:  # only a trace from a file does this
                raise ValueError(f"The trace moves away from {tuple(away)}, which is not active.")
            weights[k] = 0.0 if drop else max(weights[k] - step_size, 0.0)
        if toward is not None:
            k = self.find(toward)
            if k is None:
                atoms = np.vstack([atoms, [toward]])
                weights = np.append(weights, step_size)
            else:
                weights[k] += step_size
        positive = weights > 0.0
        if not positive.all():
            atoms, weights = atoms[positive], weights[positive]
        return ActiveSet(atoms, weights / weights.sum())

    def n_features(self) -> int:
        """Return how many features the atoms use."""
        return atoms_module.n_features(self.atoms)
