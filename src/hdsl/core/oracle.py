"""Oracles: a gradient in, the best atom out.

An oracle maximises the score ⟨B, -∇f⟩ = λ (C_ii + C_jj + |S_ij|) over pairs of features i < j;
the better sign of a pair is that of S_ij. It asks the gradient for ``partners``,
``largest_diagonal`` and ``score``; whether that covers all triplets or a batch is not its business.
Ties go to the smallest (i, j, -sign).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from ..backends.cpu.problem import PairGradient, TripletProblem
from .atoms import Atom

#: Starts of an ascent: the features of so many largest diagonal entries, of so many of the last
#: vertices, and so many at random; together no more than share one pass over X.
ASCENT_LARGEST, ASCENT_RECENT, ASCENT_RANDOM = 6, 1, 1

#: The exact search looks at every row whose bound comes within this relative distance of the best.
ROUNDING = 1e-10


class Vertex(NamedTuple):
    """An atom and its score ⟨B, -∇f⟩."""

    score: float
    atom: Atom

    def beats(self, other: Vertex) -> bool:
        """Whether this vertex is to be preferred: the larger score, then the smaller atom."""
        return self.score > other.score or (
            self.score == other.score and self.atom.order < other.atom.order
        )


class Oracle(Protocol):
    """What the solver asks for the next atom; one object a run, so it may remember."""

    def __call__(self, gradient: PairGradient, rng: np.random.Generator) -> Vertex:
        """Return a vertex of high score."""

    def memory(self) -> dict[str, np.ndarray]:
        """Return what is remembered, as arrays."""
        return {}

    def recall(self, memory: Mapping[str, np.ndarray], problem: TripletProblem) -> None:
        """Remember what another object did, in a run on the same problem."""


class Exact(Oracle):
    """The best of all atoms. No pair is stored, and few rows of S are looked at.

    The best value of a row, V_i = max over j > i of C_jj + |S_ij|, is remembered, and how far it
    can have risen since it was looked at: by no more than the largest rise of a diagonal entry plus
    max_j |ΔS_ij| ≤ (|X|ᵀ |ΔW + ΔWᵀ| y)_i, where y_b = max_j |x_bj|. Steps change W little, so most
    rows cannot hold the best pair and are skipped; the answer is that of a search of all rows.
    Rises are counted from the last look at all rows, and step by step from the last look at the
    row itself; the lower count holds. After as many looks as there are rows, all are looked at
    anew.

    Attributes
    ----------
    n_calls, n_rows : int
        Calls so far over all triplets, and rows of S looked at in them.
    """

    def __init__(self) -> None:
        self.n_calls = self.n_rows = 0
        self._budget = 0
        self._base: PairGradient | None = None
        self._last: PairGradient | None = None
        self._base_value: np.ndarray
        self._value: np.ndarray

    def __call__(self, gradient: PairGradient, rng: np.random.Generator) -> Vertex:
        """Return the best of all atoms."""
        if not gradient.covers_all:  # a batch is not like the one before
            return _best(gradient, *_rows(gradient, np.arange(gradient.n_features)))
        rows = self._candidates(gradient)
        found = _rows(gradient, rows)
        self._value[rows] = found[1]
        if len(rows) == gradient.n_features:
            self._base, self._base_value = gradient, found[1].copy()
            self._budget = gradient.n_features
        else:
            self._budget -= len(rows)
        self._last = gradient
        self.n_calls += 1
        self.n_rows += len(rows)
        return _best(gradient, *found)

    def memory(self) -> dict[str, np.ndarray]:
        """Return the bounds, and by w the two gradients that they count from."""
        counts = np.array([self.n_calls, self.n_rows, self._budget])
        if self._base is None or self._last is None:
            return {"counts": counts}
        return {
            "counts": counts,
            "value": self._value,
            "base_value": self._base_value,
            "base": self._base.w,
            "last": self._last.w,
        }

    def recall(self, memory: Mapping[str, np.ndarray], problem: TripletProblem) -> None:
        """Remember what another object did, in a run on the same problem."""
        self.n_calls, self.n_rows, self._budget = memory["counts"].tolist()
        if "base" in memory:
            self._value, self._base_value = memory["value"].copy(), memory["base_value"]
            self._base, self._last = (
                PairGradient(problem, problem.data, None, np.empty(0), memory[name])
                for name in ("base", "last")
            )

    def _candidates(self, gradient: PairGradient) -> np.ndarray:
        """Return the rows whose best pair may be the best of all."""
        everything = np.arange(gradient.n_features)
        if self._base is None or self._last is None:
            self._value = np.empty(gradient.n_features)
            return everything
        self._value += _rise(gradient, self._last)
        bound = np.minimum(self._value, self._base_value + _rise(gradient, self._base))
        reached = climb(gradient, gradient.largest_diagonal(ASCENT_LARGEST)).score / gradient.scale
        slack = ROUNDING * abs(reached) + gradient.rounding
        rows = np.flatnonzero(gradient.diagonal + bound >= reached - slack)
        return rows if 0 < len(rows) <= self._budget else everything


def _rise(gradient: PairGradient, since: PairGradient) -> np.ndarray:
    """Return how much each V_i can have risen since another gradient."""
    diagonal = float((gradient.diagonal - since.diagonal).max())
    return gradient.drift_since(since) + max(diagonal, 0.0)


def _rows(
    gradient: PairGradient, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rows, *gradient.partners(rows, after=True)


def _best(
    gradient: PairGradient,
    rows: np.ndarray,
    value: np.ndarray,
    partner: np.ndarray,
    entry: np.ndarray,
) -> Vertex:
    """Return the best pair of the rows: the first of equals, as its partner is."""
    k = int(np.argmax(gradient.diagonal[rows] + value))
    return _vertex(gradient, int(rows[k]), int(partner[k]), float(entry[k]))


class Heuristic(Oracle):
    """The paper's choice: a feature at random, its best partner, that one's best partner."""

    def __call__(self, gradient: PairGradient, rng: np.random.Generator) -> Vertex:
        """Return the vertex of a random start and two half steps."""
        i = rng.integers(gradient.n_features)
        _, j, _ = gradient.partners(np.array([i]))
        _, k, entry = gradient.partners(j)
        return _vertex(gradient, int(j[0]), int(k[0]), float(entry[0]))


class Ascent(Oracle):
    """The best fixed point of alternating maximisation from several starts.

    The starts are the features of largest diagonal, those of the last vertices found, and a few at
    random: feature frequencies follow a power law, so random ones alone are poor.
    """

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=ASCENT_RECENT)

    def __call__(self, gradient: PairGradient, rng: np.random.Generator) -> Vertex:
        """Return the best fixed point found."""
        random = rng.integers(gradient.n_features, size=ASCENT_RANDOM)
        starts = [*gradient.largest_diagonal(ASCENT_LARGEST), *self._recent, *random]
        vertex = climb(gradient, starts)
        self._recent.append(vertex.atom.i)
        return vertex

    def memory(self) -> dict[str, np.ndarray]:
        """Return the features of the last vertices."""
        return {"recent": np.array(self._recent, dtype=np.int64)}

    def recall(self, memory: Mapping[str, np.ndarray], problem: TripletProblem) -> None:
        """Remember the features of another object's last vertices."""
        self._recent.extend(memory["recent"].tolist())


def climb(gradient: PairGradient, starts: Iterable[int]) -> Vertex:
    """Return the best vertex reached by alternating maximisation.

    Each start i moves to its best partner j, and that one to its best partner. The best of all then
    goes on until its score no longer rises. Starts move together: their rows of S share a pass over
    X. To take all of them to the end costs twice as many passes and finds hardly better atoms.
    """
    features = sorted(set(map(int, starts)))
    best, seen, first = None, set(features), True
    while features:
        _, partner, entry = gradient.partners(np.array(features))
        scores = gradient.score(features, partner, entry)
        # Of equal ones the smallest atom, as everywhere; as a rule there is but one.
        vertex, j = min(
            (
                (_vertex(gradient, features[k], int(partner[k]), float(entry[k])), int(partner[k]))
                for k in (scores == scores.max()).nonzero()[0].tolist()
            ),
            key=lambda found: found[0].atom.order,
        )
        ahead = set(partner.tolist()) if first else set()
        if best is None or vertex.beats(best):
            best = vertex
            ahead = ahead if first else {j}
        first = False
        features = sorted(ahead - seen)
        seen.update(features)
    assert best is not None
    return best


def _vertex(gradient: PairGradient, i: int, j: int, entry: float) -> Vertex:
    atom = Atom.of(i, j, entry)
    return Vertex(float(gradient.score(atom.i, atom.j, entry)), atom)


ORACLES: dict[str, Callable[[], Oracle]] = {
    "exact": Exact,
    "heuristic": Heuristic,
    "ascent": Ascent,
}
