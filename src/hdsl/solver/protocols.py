"""Who may ask what: the seams between the solver and the machines it runs on.

The loop knows a problem, a gradient, an oracle and a step rule by these base classes
alone. A machine (``cpu``, ``cuda``, ``dask``) implements ``Layout``, ``Problem`` and
``Gradient``. A method with a body is built on the others, and a machine may replace it
by a faster one.

A model is a convex combination of atoms λ(e_i ± e_j)(e_i ± e_j)ᵀ and, in a domain that
has it, 0. A comparison says that one pair of rows is more alike than another one, and
its margin is the difference of the two similarities. With one number w_s per distinct
pair s = {a, b} of compared rows,

    -∇f = C = Σ_s w_s x_a x_bᵀ,    ⟨λ(e_i ± e_j)(e_i ± e_j)ᵀ, -∇f⟩ = λ (C_ii + C_jj ±
    S_ij),

where S = C + Cᵀ. Nothing is ever d × d. Rows may have an embedding beside the features,
with atoms s·uuᵀ of its own: see ``directions``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from .atoms import (
    Atom,
    Correction,
    Move,
    are_directions,
    direction_atoms,
    positioned,
    renumbered,
)
from .directions import Directions, top_eigenvectors
from .statistics import Statistics

#: Second derivatives of n atoms are estimated from about this many curved comparisons
#: divided by n, where there are more, but from so many per atom at least: a step by
#: fewer goes astray. How many there are is estimated from so many comparisons.
CURVATURE_WORK = 1 << 21
PER_ATOM = 24
COUNTED = 1 << 17

#: Margins of all comparisons. A handle: whoever is not the problem passes it back and
#: never looks inside, since it may be an array, several arrays, or live on another
#: machine.
Margins = Any


class Loss(Protocol):
    """A convex, differentiable, non-increasing loss of a margin; arrays in, arrays out."""

    @abstractmethod
    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return the loss of each margin."""

    @abstractmethod
    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative of the loss at each margin."""

    @abstractmethod
    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return the second derivative at each margin; from either side where it jumps."""


class Step(NamedTuple):
    """A move carried out."""

    margins: Margins
    step_size: float
    value: float


class Vertex(NamedTuple):
    """An atom B and its score ⟨B, -∇f⟩."""

    score: float
    atom: Atom

    def order(self) -> tuple[float, tuple[int, int, int]]:
        """Return what vertices are sorted by: the larger score, then the smaller atom, first."""
        return -self.score, self.atom.order


class FeaturePairs(NamedTuple):
    """Pairs of features i and j, as arrays: their better atoms and the scores of these."""

    scores: np.ndarray
    features: np.ndarray  # i
    partners: np.ndarray  # j
    entries: np.ndarray  # S_ij

    def take(self, is_taken: np.ndarray) -> FeaturePairs:
        """Return the pairs of a mask."""
        return FeaturePairs(
            scores=self.scores[is_taken],
            features=self.features[is_taken],
            partners=self.partners[is_taken],
            entries=self.entries[is_taken],
        )

    def atoms(self) -> list[Atom]:
        """Return the better atom of each pair."""
        features = self.features.tolist()
        partners = self.partners.tolist()
        entries = self.entries.tolist()
        return list(map(Atom.of, features, partners, entries))


class Gradient(ABC):
    """C = -∇f at some margins, computed as far as it is asked for.

    Attributes
    ----------
    scale : float
        λ, a factor of every score.
    n_features : int
    covers_all : bool
        Whether it is the gradient over all comparisons, not over a mini-batch.
    directions : Directions or None
        Those of the problem; None without an embedding to learn in.
    direction_scale : float
        s, a factor of the scores of directions.
    """

    scale: float
    n_features: int
    covers_all: bool
    directions: Directions | None = None
    direction_scale: float = 0.0

    # What is additive over comparisons.

    @property
    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""

    @abstractmethod
    def pair_scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B that pairs features."""

    @abstractmethod
    def dot(self, margins: Margins) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""

    @abstractmethod
    def drift_since(self, other: Any) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S."""

    @abstractmethod
    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""

    @property
    def block(self) -> np.ndarray:
        """G inside the embedding, of shape (width, width); empty if none is learned in."""
        return np.zeros((0, 0))

    # What is built on it.

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B."""
        is_direction = are_directions(atoms)
        if not is_direction.any():
            return self.pair_scores(atoms)
        assert self.directions is not None
        scores = np.empty(len(atoms))
        vectors = self.directions.take(atoms[is_direction, 1])
        along = np.einsum("kj,kj->k", vectors @ self.block, vectors)
        scores[is_direction] = self.direction_scale * along
        scores[~is_direction] = self.pair_scores(atoms[~is_direction])
        return scores

    def best_directions(self, n: int) -> list[Vertex]:
        """Return the best directions, best first, as many as have a positive score, but one.

        The first is the best of all. They get numbers of their own.
        """
        assert self.directions is not None
        values, vectors = top_eigenvectors(self.block, n)
        n_kept = max(1, int(np.count_nonzero(values > 0.0)))
        atoms = direction_atoms(self.directions.add(vectors[:n_kept]))
        scores = self.direction_scale * values[:n_kept]
        return [
            Vertex(score, Atom(*atom))
            for score, atom in zip(scores.tolist(), atoms.tolist(), strict=True)
        ]

    def score(self, i: Any, j: Any, entry: Any) -> Any:
        """Return the score of the better atom on features i and j with a known S_ij, or of many."""
        return self.scale * (self.diagonal[i] + self.diagonal[j] + np.abs(entry))

    def vertex(self, i: int, j: int, entry: float) -> Vertex:
        """Return the better atom on features i and j with a known S_ij, and its score."""
        return Vertex(float(self.score(i, j, entry)), Atom.of(i, j, entry))

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first, the smallest of equals first."""
        n = self.n_features
        diagonal = self.diagonal
        count = min(count, self.n_features)
        if count == 0:
            return np.empty(0, dtype=np.int64)
        n_parts = min(n, 8 * count)
        # So many parts have an entry from this on, and few other entries are above it.
        largest = np.maximum.reduceat(diagonal, n * np.arange(n_parts) // n_parts)
        least = np.partition(largest, n_parts - count)[n_parts - count]
        candidates = np.flatnonzero(diagonal >= least)
        order = np.argsort(-diagonal[candidates], kind="stable")
        return candidates[order[:count]]

    @abstractmethod
    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals.

        Returns
        -------
        value, partner, entry : ndarrays of the length of `features`
            C_jj + |S_ij|, j and S_ij; -inf, -1 and 0 where `after` asks for j > i and
            there is none.
        """

    def half_steps(self, starts: Iterable[int], n_largest: int) -> FeaturePairs:
        """Return each start with its best partner, and each of these with its own."""
        features = sorted(
            {*self.largest_diagonal(n_largest).tolist(), *map(int, starts)}
        )
        _, partners, entries = self.partners(np.array(features))
        others = sorted(set(partners.tolist()).difference(features))
        if others:
            _, more_partners, more_entries = self.partners(np.array(others))
            features = features + others
            partners = np.append(partners, more_partners)
            entries = np.append(entries, more_entries)
        scores = self.score(features, partners, entries)
        return FeaturePairs(scores, np.array(features), partners, entries)


class Problem(ABC):
    """Mean loss of the margins of a convex combination of atoms.

    Each method may be a round trip to another machine: the solver asks few, coarse
    questions. Atoms have the problem's own feature numbers; ``to_user`` and
    ``from_user`` translate.

    Attributes
    ----------
    n_features, n_comparisons : int
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    directions : Directions or None
        Of the embedding; None without one to learn in.
    """

    n_features: int
    n_comparisons: int
    features: np.ndarray
    directions: Directions | None = None

    @abstractmethod
    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> Margins:
        """Return the margins of a combination of atoms, from scratch."""

    @abstractmethod
    def value(self, margins: Margins) -> float:
        """Return the mean loss."""

    @abstractmethod
    def gradient(self, margins: Margins, batch: np.ndarray | None = None) -> Gradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""

    @abstractmethod
    def reset(self) -> None:
        """Drop all that is remembered from one question to the next.

        The solver asks for it at a restart point: what follows depends on atoms and weights
        alone.
        """

    @abstractmethod
    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""

    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""
        return renumbered(atoms, self.features)

    def from_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the problem's own feature numbers; -1 for one that it has not."""
        return positioned(atoms, self.features)

    @abstractmethod
    def step(self, margins: Margins, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""

    @abstractmethod
    def curvature(self, margins: Margins, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms.

        Where there are many comparisons, these are an estimate from a part of them that
        depends on the problem and on the number of atoms alone.
        """


def curvature_stride(
    n_comparisons: int, n_atoms: int, n_curved: Callable[[int], int]
) -> int:
    """Return the stride of the sample of comparisons that a curvature is estimated from.

    Parameters
    ----------
    n_comparisons, n_atoms : int
    n_curved : callable
        From a stride k to the number of comparisons 0, k, 2k, ... whose loss is curved.

    Examples
    --------
    >>> curvature_stride(10**6, 100, n_curved=lambda k: 10**6 // k)
    48
    >>> curvature_stride(1000, 100, n_curved=lambda k: 1000 // k)
    1
    """
    size_of_sample = max(CURVATURE_WORK // n_atoms, PER_ATOM * n_atoms)
    if n_comparisons <= size_of_sample:
        return 1
    stride_of_count = -(-n_comparisons // COUNTED)
    n_curved_of_all = stride_of_count * n_curved(stride_of_count)
    return max(1, -(-n_curved_of_all // size_of_sample))


class Layout(ABC):
    """Rows and comparisons for a machine; one layout serves any loss, scale and weights.

    The plain dot product of the rows, which is not learned, is laid out with them.

    Attributes
    ----------
    n_features : int
    """

    n_features: int

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""

    @abstractmethod
    def problem(
        self,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        direction_scale: float = 0.0,
    ) -> Problem:
        """Return the problem of a loss, a scale and a weight of the plain dot product.

        With a `direction_scale` s > 0 the domain has the atoms s·uuᵀ of the embedding
        too.
        """


class Oracle(ABC):
    """Finds the next atom. There is one object per run, so it may remember.

    Attributes
    ----------
    certifies : bool
        Whether the vertex is the best of all, so that its gap bounds the distance to
        the optimum.
    """

    certifies: bool = False

    @abstractmethod
    def __call__(self, gradient: Gradient, rng: np.random.Generator) -> Vertex:
        """Return a vertex of high score."""

    def vertices(
        self, gradient: Gradient, rng: np.random.Generator, n: int, active: np.ndarray
    ) -> list[Vertex]:
        """Return distinct vertices of high score, best first: of n starts, some are `active`."""
        return [self(gradient, rng)]

    @abstractmethod
    def reset(self) -> None:
        """Drop what later answers depend on, but for the random state."""


#: Looks at the context of an iteration (``steps.StepContext``) and names a move.
StepRule = Callable[[Any], "Move | Correction"]
