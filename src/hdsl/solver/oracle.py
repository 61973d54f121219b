"""Oracles: a gradient in, the best atom out.

An oracle maximises the score ⟨B, -∇f⟩ = λ (C_ii + C_jj + |S_ij|) over feature pairs i <
j; the better sign of a pair is that of S_ij. Whether the gradient covers all
comparisons or a batch is not its business. Ties go to the smallest (i, j, -sign).
"""

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from .atoms import ZERO
from .directions import MOST_NEW
from .protocols import Gradient, Oracle, Vertex

#: Starts of an ascent: the features of so many largest diagonal entries, of so many of
#: the last vertices, and so many at random; together no more than share one pass over
#: X.
ASCENT_LARGEST = 6
ASCENT_RECENT = 1
ASCENT_RANDOM = 1

#: Share of active features among the starts of an ascent to many vertices, and of
#: random ones among the others, which have the largest diagonal entries. Once a feature
#: is active its diagonal entry is small or negative, and the best new pairs are often
#: two active features.
MANY_ACTIVE = 1 / 3
MANY_RANDOM = 0.1

#: Starts of a search for a vertex that is allowed, where the best one is not.
N_OTHERS = 96

#: The exact search computes every row whose bound comes within this relative distance
#: of the best.
ROUNDING = 1e-10


class Exact(Oracle):
    """The best of all atoms. No pair is stored, and few rows of S are computed.

    The best value of a row, V_i = max over j > i of C_jj + |S_ij|, is remembered, and
    how far it can have risen since it was computed: by no more than the largest rise of
    a diagonal entry plus max_j |ΔS_ij| ≤ (|X|ᵀ |ΔW + ΔWᵀ| y)_i, where y_b = max_j
    |x_bj|. Steps change W little, so most rows cannot hold the best pair and are
    skipped; the answer is that of a search of all rows. Rises are counted from the last
    search of all rows, and step by step from the last time the row itself was computed;
    the lower count holds. After as many computed rows as there are features, all are
    computed anew.
    """

    certifies = True

    def __init__(self) -> None:
        self._budget = 0
        self._base: Gradient | None = None
        self._last: Gradient | None = None
        self._base_value: np.ndarray
        self._value: np.ndarray

    def reset(self) -> None:
        """Forget the bounds: the next search is of all rows.

        The last bits of a score depend on which rows are computed together.
        """
        self._base = self._last = None

    def __call__(self, gradient: Gradient, rng: np.random.Generator) -> Vertex:
        """Return the best of all atoms."""
        rows, value, partner, entry = self._search(gradient)
        k = int(np.argmax(gradient.diagonal[rows] + value))
        return gradient.vertex(int(rows[k]), int(partner[k]), float(entry[k]))

    def vertices(
        self, gradient: Gradient, rng: np.random.Generator, n: int, active: np.ndarray
    ) -> list[Vertex]:
        """Return the best of all atoms, and the vertices of an ascent from n starts.

        None of them depends on what is remembered.
        """
        best = self(gradient, rng)
        known = active[: round(MANY_ACTIVE * n)]
        others = climb(gradient, known, n - len(known))
        return [best, *(vertex for vertex in others if vertex.atom != best.atom)]

    def _search(
        self, gradient: Gradient
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return rows that hold the best pair, and the best pair of each."""
        if not gradient.covers_all:  # a batch says nothing about the next one
            rows = np.arange(gradient.n_features)
            return rows, *gradient.partners(rows, after=True)
        rows = self._candidates(gradient)
        value, partner, entry = gradient.partners(rows, after=True)
        self._value[rows] = value
        if len(rows) == gradient.n_features:
            self._base = gradient
            self._base_value = value.copy()
            self._budget = gradient.n_features
        else:
            self._budget -= len(rows)
        self._last = gradient
        return rows, value, partner, entry

    def _candidates(self, gradient: Gradient) -> np.ndarray:
        """Return the rows whose best pair may be the best of all."""
        everything = np.arange(gradient.n_features)
        if self._base is None or self._last is None:
            self._value = np.empty(gradient.n_features)
            return everything
        self._value += _rise(gradient, self._last)
        bound = np.minimum(self._value, self._base_value + _rise(gradient, self._base))
        climbed = climb(gradient, (), ASCENT_LARGEST, best_only=True)[0]
        reached = climbed.score / gradient.scale
        slack = ROUNDING * abs(reached) + gradient.rounding
        rows = np.flatnonzero(gradient.diagonal + bound >= reached - slack)
        if 0 < len(rows) <= self._budget:
            return rows
        return everything


def climb(
    gradient: Gradient,
    starts: Iterable[int],
    n_largest: int,
    *,
    best_only: bool = False,
) -> list[Vertex]:
    """Return the distinct vertices of two half steps from each start, best first.

    Starts are the features of the `n_largest` largest diagonal entries and `starts`.
    Each start i moves to its best partner j, and that one to its best partner. Starts
    move together: their rows of S share a pass over X. More half steps cost passes and
    find hardly better atoms.
    """
    pairs = gradient.half_steps(starts, n_largest)
    if best_only:
        pairs = pairs.take(pairs.scores == pairs.scores.max())
    score_of = dict(zip(pairs.atoms(), pairs.scores.tolist(), strict=True))
    vertices = [Vertex(score, atom) for atom, score in score_of.items()]
    return sorted(vertices, key=Vertex.order)


def _rise(gradient: Gradient, since: Gradient) -> np.ndarray:
    """Return how much each V_i can have risen since another gradient."""
    diagonal = float((gradient.diagonal - since.diagonal).max())
    return gradient.drift_since(since) + max(diagonal, 0.0)


class Heuristic(Oracle):
    """The paper's choice: a random feature, its best partner, and the best partner of that one."""

    def __call__(self, gradient: Gradient, rng: np.random.Generator) -> Vertex:
        """Return the vertex of a random start and two half steps."""
        i = rng.integers(gradient.n_features)
        _, j, _ = gradient.partners(np.array([i]))
        _, k, entry = gradient.partners(j)
        return gradient.vertex(int(j[0]), int(k[0]), float(entry[0]))

    def reset(self) -> None:
        """Do nothing: no answer depends on earlier ones."""


class Ascent(Oracle):
    """The best atom of two half steps of alternating maximisation from several starts.

    The starts are the features of largest diagonal, those of the last vertices found,
    and a few random ones: feature frequencies follow a power law, so random starts
    alone are poor.
    """

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=ASCENT_RECENT)

    def __call__(self, gradient: Gradient, rng: np.random.Generator) -> Vertex:
        """Return the best atom found."""
        random = rng.integers(gradient.n_features, size=ASCENT_RANDOM)
        starts = [*self._recent, *random]
        vertex = climb(gradient, starts, ASCENT_LARGEST, best_only=True)[0]
        self._recent.append(vertex.atom.i)
        return vertex

    def vertices(
        self, gradient: Gradient, rng: np.random.Generator, n: int, active: np.ndarray
    ) -> list[Vertex]:
        """Return the vertices of n starts, best first."""
        known = active[: round(MANY_ACTIVE * n)]
        random = rng.integers(
            gradient.n_features, size=round(MANY_RANDOM * (n - len(known)))
        )
        return climb(gradient, (*known, *random), n - len(known) - len(random))

    def reset(self) -> None:
        """Forget the last vertices."""
        self._recent.clear()


class BothKinds(Oracle):
    """The best of the atoms that pair features and of the directions of an embedding.

    The best direction is an eigenvector, so that it is certain.

    Parameters
    ----------
    oracle : Oracle
        For the atoms that pair features.
    n_features : int
        With fewer than 2 there are directions alone.
    """

    def __init__(self, oracle: Oracle, n_features: int) -> None:
        self.oracle = oracle
        self.has_pairs = n_features > 1
        self.certifies = oracle.certifies or not self.has_pairs

    def __call__(self, gradient: Gradient, rng: np.random.Generator) -> Vertex:
        """Return the better of the best direction and the vertex of features."""
        (direction,) = gradient.best_directions(1)
        if not self.has_pairs:
            return direction
        vertex = self.oracle(gradient, rng)
        return min(direction, vertex, key=Vertex.order)

    def vertices(
        self, gradient: Gradient, rng: np.random.Generator, n: int, active: np.ndarray
    ) -> list[Vertex]:
        """Return the best directions and the vertices of features, best first."""
        vertices = gradient.best_directions(min(n, MOST_NEW))
        if self.has_pairs:
            vertices += self.oracle.vertices(gradient, rng, n, active)
        return sorted(vertices, key=Vertex.order)

    def reset(self) -> None:
        """Forget what the other oracle remembers."""
        self.oracle.reset()


class Without(Oracle):
    """Another oracle, whose forbidden vertices are left out.

    The best of the others is looked for among those of many starts. A gap is certified
    where the best of all atoms is allowed.

    Parameters
    ----------
    oracle : Oracle
    forbidden : ndarray of shape (n_pairs, 2)
        Pairs of features in the user's numbers.
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    """

    def __init__(
        self, oracle: Oracle, forbidden: np.ndarray, features: np.ndarray
    ) -> None:
        self.oracle = oracle
        self.forbidden = {frozenset(pair) for pair in forbidden.tolist()}
        self.features = features
        self.certifies = oracle.certifies

    def __call__(self, gradient: Gradient, rng: np.random.Generator) -> Vertex:
        """Return the best vertex that is allowed, and 0 where none is found."""
        vertex = self.oracle(gradient, rng)
        is_allowed = self._is_allowed(vertex)
        self.certifies = self.oracle.certifies and is_allowed
        if is_allowed:
            return vertex
        others = np.empty(0, dtype=np.int64)
        return self.vertices(gradient, rng, N_OTHERS, others)[0]

    def vertices(
        self, gradient: Gradient, rng: np.random.Generator, n: int, active: np.ndarray
    ) -> list[Vertex]:
        """Return the vertices that are allowed, best first."""
        vertices = self.oracle.vertices(gradient, rng, n, active)
        allowed = [vertex for vertex in vertices if self._is_allowed(vertex)]
        self.certifies = self.oracle.certifies and allowed[:1] == vertices[:1]
        return allowed or [Vertex(0.0, ZERO)]

    def _is_allowed(self, vertex: Vertex) -> bool:
        """Return whether a vertex is no forbidden pair; a direction is none."""
        i, j, _ = vertex.atom
        if i < 0:
            return True
        ends = frozenset([int(self.features[i]), int(self.features[j])])
        return ends not in self.forbidden

    def reset(self) -> None:
        """Forget what the other oracle remembers."""
        self.oracle.reset()


ORACLES: dict[str, Callable[[], Oracle]] = {
    "ascent": Ascent,
    "heuristic": Heuristic,
    "exact": Exact,
}
