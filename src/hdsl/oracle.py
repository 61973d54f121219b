"""Oracles: a gradient in, the best atom out.

An oracle maximises the score ⟨B, -∇f⟩ = λ (C_ii + C_jj + |S_ij|) over pairs of features i < j;
the better sign of a pair is that of S_ij. It asks the gradient for ``partners``,
``largest_diagonal`` and ``score``; whether that covers all triplets or a batch is not its business.
Ties go to the smallest (i, j, -sign).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .atoms import Atom
from .problem import PairGradient

#: Starts of `ascent`: that many largest diagonal entries, and as many features at random.
ASCENT_TOP, ASCENT_RANDOM = 6, 2


class Vertex(NamedTuple):
    """An atom and its score ⟨B, -∇f⟩."""

    score: float
    atom: Atom

    def beats(self, other: Vertex) -> bool:
        """Whether this vertex is to be preferred: the larger score, then the smaller atom."""
        return self.score > other.score or (
            self.score == other.score and self.atom.order < other.atom.order
        )


def exact(gradient: PairGradient, rng: np.random.Generator) -> Vertex:
    """Return the best of all atoms: every pair is looked at, none is stored."""
    value, partner, entry = gradient.partners(np.arange(gradient.n_features), after=True)
    total = gradient.diagonal + value
    i = int(np.argmax(total))  # the first of equals; its partner is the first of equals too
    return _vertex(gradient, i, partner[i], entry[i])


def heuristic(gradient: PairGradient, rng: np.random.Generator) -> Vertex:
    """Return the paper's choice: a feature at random, its best partner, that one's best partner."""
    i = rng.integers(gradient.n_features)
    _, j, _ = gradient.partners(np.array([i]))
    _, k, entry = gradient.partners(j)
    return _vertex(gradient, j[0], k[0], entry[0])


def ascent(gradient: PairGradient, rng: np.random.Generator) -> Vertex:
    """Return the best fixed point of alternating maximisation from several starts.

    Each start i moves to its best partner j, that one to its best partner, and so on until the
    score no longer rises. The starts are the features of largest diagonal and a few at random;
    they move together, so their rows of S share one pass over X.
    """
    d = gradient.n_features
    starts = [*gradient.largest_diagonal(ASCENT_TOP), *rng.integers(d, size=ASCENT_RANDOM)]
    best = Vertex(-np.inf, Atom(d, d, 1))
    reached = dict.fromkeys(map(int, starts), -np.inf)  # feature: score of the pair it came from
    seen: set[int] = set()
    while reached:
        features = sorted(reached)
        seen.update(features)
        _, partner, entry = gradient.partners(np.array(features))
        following: dict[int, float] = {}
        for i, j, s in zip(features, partner.tolist(), entry.tolist(), strict=True):
            vertex = _vertex(gradient, i, j, s)
            if vertex.beats(best):
                best = vertex
            # Go on where the score rose, to a feature whose row is not known yet.
            if vertex.score > reached[i] and j not in seen:
                following[j] = max(vertex.score, following.get(j, -np.inf))
        reached = following
    return best


def _vertex(gradient: PairGradient, i: int, j: int, entry: float) -> Vertex:
    atom = Atom.of(i, j, entry)
    return Vertex(gradient.score(atom.i, atom.j, entry), atom)


Oracle = Callable[[PairGradient, np.random.Generator], Vertex]

ORACLES: dict[str, Oracle] = {"exact": exact, "heuristic": heuristic, "ascent": ascent}
