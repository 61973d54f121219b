"""Step rules.

A rule looks at the context of an iteration (gradient, scores of the active atoms, the
oracle's vertex if it asks for it) and names a move.
"""

from dataclasses import dataclass, field

import numpy as np

from .atoms import ZERO, ActiveSet, Correction, Move, as_array, as_keys
from .protocols import Gradient, Margins, Oracle, Problem, StepRule, Vertex

#: Lazy blended steps stay inside the active set while they promise so many times the
#: last gap.
BLENDED_SHARE = 1.5

#: The estimate of the gap falls to this share of the last one at most, per call.
LEAST_SHARE_OF_GAP = 0.1

#: A correction solves its quadratic model to this share of the gap.
CORRECTION_SHARE = 0.05

#: Most atoms that a correction weighs: it computes a curvature for each two of them.
CORRECTION_LIMIT = 4096

#: Starts of the search of a corrective step: the cube root of the number of mined
#: comparisons, within limits. With 96 on some hundred labelled rows the error is the
#: same, and pairs are twice as many. Comparisons that a person gives say more: with
#: them it has the most.
FEWEST_STARTS = 12
MOST_STARTS = 96


@dataclass
class StepContext:
    """What can be known before a step; each thing is computed when it is first asked for.

    Parameters
    ----------
    problem : Problem
    active : ActiveSet
    margins : Margins
        Of the model.
    gradient : Gradient
    oracle : Oracle
    rng : numpy.random.Generator
    tol : float
    gap_estimate : float
        The last gap that lazy blended steps know of; they update it.
    are_mined : bool, default=False
        As in ``state.Options``.

    Attributes
    ----------
    oracle_was_called : bool
        Whether the oracle was called.
    """

    problem: Problem
    active: ActiveSet
    margins: Margins
    gradient: Gradient
    oracle: Oracle
    rng: np.random.Generator
    tol: float
    gap_estimate: float
    are_mined: bool = False
    oracle_was_called: bool = field(default=False, init=False)
    _active_scores: np.ndarray | None = field(default=None, init=False)
    _score: float | None = field(default=None, init=False)
    _vertex: Vertex | None = field(default=None, init=False)
    _vertices: list[Vertex] | None = field(default=None, init=False)

    @property
    def certifies(self) -> bool:
        """Whether the gap bounds the distance to the optimum."""
        return self.oracle.certifies and self.gradient.covers_all

    def include_active(self) -> np.ndarray:
        """Return ⟨B, -∇f⟩ of the active atoms; the best of them may be the vertex from here on.

        A vertex that is known already stays.
        """
        if self._active_scores is None:
            self._active_scores = self.gradient.scores(self.active.atoms)
        return self._active_scores

    @property
    def score(self) -> float:
        """⟨M, -∇f⟩."""
        if self._score is not None:
            return self._score
        if self._active_scores is None:
            self._score = self.gradient.dot(self.margins)
        else:
            products = self.active.weights * self._active_scores
            self._score = float(products.sum())  # not by BLAS, which has other bits
        return self._score

    @property
    def vertices(self) -> list[Vertex]:
        """The oracle's answers, best first; one where it was asked for one already."""
        if self._vertices is not None:
            return self._vertices
        if self._vertex is not None:
            return [self._vertex]
        n = MOST_STARTS
        if self.are_mined:
            n = n_starts(self.problem.n_comparisons)
        self.oracle_was_called = True
        self._vertices = self.oracle.vertices(
            self.gradient, self.rng, n, self.active.features
        )
        return self._vertices

    @property
    def vertex(self) -> Vertex:
        """The oracle's answer, or the best included active atom where that is better."""
        if self._vertex is None:
            self._vertex = self._best_vertex()
        return self._vertex

    def _best_vertex(self) -> Vertex:
        self.oracle_was_called = True
        if self._vertices:
            vertex = self._vertices[0]
        else:
            vertex = self.oracle(self.gradient, self.rng)
        if self._active_scores is not None and not self.certifies:
            best = self.active.extreme(self._active_scores, largest=True)
            vertex = min(vertex, Vertex(best.score, best.atom), key=Vertex.order)
        if self.active.zero is not None and vertex.score < 0.0:
            return Vertex(0.0, ZERO)
        return vertex

    @property
    def gap(self) -> float:
        """⟨B - M, -∇f⟩ for the oracle's B: at least f - f* where the oracle certifies."""
        return self.vertex.score - self.score

    @property
    def known_gap(self) -> float:
        """The gap, NaN where the oracle was not called."""
        if self.oracle_was_called:
            return self.gap
        return np.nan

    @property
    def gap_is_exact(self) -> bool:
        """Whether the gap is known, and bounds the distance to the optimum."""
        return self.oracle_was_called and self.certifies


def n_starts(n_comparisons: int) -> int:
    """Return how many atoms a corrective step looks for: few comparisons tell few atoms apart."""
    return int(np.clip(np.cbrt(n_comparisons), FEWEST_STARTS, MOST_STARTS))


# --- step rules -----------------------------------------------------------------------


def forward(context: StepContext) -> Move:
    """Return a step toward the vertex (Algorithm 1)."""
    return Move("forward", context.vertex.atom, None, 1.0)


def away(context: StepContext) -> Move:
    """Return the steeper of a forward step and a step away from the worst atom (Algorithm 3)."""
    active = context.active
    worst = active.extreme(context.include_active(), largest=False)
    if active.n_vertices == 1 or context.gap >= context.score - worst.score:
        return forward(context)
    max_step_size = worst.weight / active.weight_of_others(worst.atom)
    return Move("away", None, worst.atom, max_step_size)


def pairwise(context: StepContext) -> Move:
    """Return a shift of weight from the worst active atom to the vertex."""
    worst = context.active.extreme(context.include_active(), largest=False)
    if worst.atom == context.vertex.atom:  # there is one atom, and no better one
        return forward(context)
    return Move("pairwise", context.vertex.atom, worst.atom, worst.weight)


def blended(context: StepContext) -> Move:
    """Return a shift of weight inside the active set while that pays, else a forward step.

    Lazy blended pairwise steps (Tsuji, Tanaka and Pokutta, 2022): the oracle is called
    only when no shift between active atoms promises a share of the last known gap.
    """
    active = context.active
    scores = context.include_active()
    worst = active.extreme(scores, largest=False)
    best = active.extreme(scores, largest=True)
    local_gap = best.score - worst.score
    if local_gap < BLENDED_SHARE * context.gap_estimate:
        # A poor vertex may show hardly any gap. To believe it at once would end the
        # calls of the oracle.
        least = 0.0
        if np.isfinite(context.gap_estimate):
            least = LEAST_SHARE_OF_GAP * context.gap_estimate
        context.gap_estimate = max(context.gap, least, context.tol)
        if local_gap <= context.gap:
            return forward(context)
    return Move("pairwise", best.atom, worst.atom, worst.weight)


def corrective(context: StepContext) -> Move | Correction:
    """Return a change of the weights of all active atoms, and of several new ones, at once.

    A Newton step of the weights over the simplex (fully corrective Frank-Wolfe): the
    change minimises a quadratic model of the value, and a line search follows it. New
    atoms are the vertices of the oracle that promise descent.
    """
    active = context.active
    vertices = context.vertices
    active_scores = context.include_active()
    new = _promising(context, vertices)
    atoms = np.concatenate([active.atoms, as_array([vertex.atom for vertex in new])])
    scores = np.concatenate([active_scores, [vertex.score for vertex in new]])
    weights = active.weights_among(atoms)
    curvature = context.problem.curvature(context.margins, atoms)
    if not context.gradient.covers_all:
        # A batch names atoms, all comparisons weigh them.
        scores = context.problem.gradient(context.margins).scores(atoms)
    if active.zero is not None:  # one more atom, with score and curvature 0
        scores = np.append(scores, 0.0)
        weights = np.append(weights, active.zero)
        curvature = np.pad(curvature, (0, 1))
    if not len(scores):
        return forward(context)
    gap = float(scores.max() - (scores * weights).sum())
    if not gap > 0.0:
        return forward(context)
    from .quadratic import best_change  # loads the compiler, which not every run needs

    change = best_change(curvature, scores, weights, CORRECTION_SHARE * gap)
    falls = change < 0.0
    if not falls.any():
        return forward(context)
    max_step_size = max(1.0, float((weights[falls] / -change[falls]).min()))
    return Correction(
        kind="correct",
        toward=context.vertex.atom,
        away=None,
        max_step_size=max_step_size,
        atoms=atoms,
        change=change[: len(atoms)],
    )


def _promising(context: StepContext, vertices: list[Vertex]) -> list[Vertex]:
    """Return the vertices that are not active and promise descent, as many as may be added."""
    active_atoms = set(as_keys(context.active.atoms))
    least = context.score
    if context.active.zero is not None:
        least = max(least, 0.0)
    new = [
        vertex
        for vertex in vertices
        if vertex.score > least
        and vertex.atom not in active_atoms
        and vertex.atom != ZERO
    ]
    return new[: max(1, CORRECTION_LIMIT - len(active_atoms))]


RULES: dict[str, StepRule] = {
    "away": away,
    "forward": forward,
    "pairwise": pairwise,
    "blended": blended,
    "corrective": corrective,
}


def restart_every(rule: StepRule) -> int:
    """Return the iterations between restart points, which then cost next to nothing."""
    if rule is corrective:
        return 4
    return 64
