"""Step rules and step sizes.

A rule looks at the context of an iteration (gradient, scores of the active atoms, the oracle's
vertex if it asks for it) and names a move.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .active_set import ActiveSet
from .atoms import ZERO
from .protocols import Gradient, Margins, Move, Oracle, StepRule, StepSize, Vertex

#: Lazy blended steps stay inside the active set while they promise so many times the last gap.
BLENDED_SHARE = 1.5


@dataclass
class StepContext:
    """What can be known before a step; each thing is computed when it is first asked for.

    Parameters
    ----------
    active : ActiveSet
    margins : Margins
        Of the model.
    gradient : Gradient
    oracle : Oracle
    rng : numpy.random.Generator
    tol : float
    gap_estimate : float
        The last gap that lazy blended steps know of; they update it.
    """

    active: ActiveSet
    margins: Margins
    gradient: Gradient
    oracle: Oracle
    rng: np.random.Generator
    tol: float
    gap_estimate: float
    asked: bool = field(default=False, init=False)  # whether the oracle was called

    @property
    def certifies(self) -> bool:
        """Whether the gap bounds the distance to the optimum."""
        return self.oracle.certifies and self.gradient.covers_all

    @cached_property
    def scores(self) -> np.ndarray:
        """⟨B, -∇f⟩ of the active atoms."""
        return self.gradient.scores(self.active.atoms)

    @cached_property
    def score(self) -> float:
        """⟨M, -∇f⟩."""
        if "scores" in self.__dict__:
            return float((self.active.weights * self.scores).sum())  # same bits: no BLAS
        return self.gradient.dot(self.margins)

    @cached_property
    def vertex(self) -> Vertex:
        """The oracle's answer, or the best active atom where that is better."""
        self.asked = True
        vertex = self.oracle(self.gradient, self.rng)
        if "scores" in self.__dict__ and not self.certifies:
            best = self.active.extreme(self.scores, largest=True)
            own = Vertex(best.score, best.atom)
            vertex = own if own.beats(vertex) else vertex
        if self.active.zero is not None and vertex.score < 0.0:
            return Vertex(0.0, ZERO)
        return vertex

    @property
    def gap(self) -> float:
        """⟨B - M, -∇f⟩ for the oracle's B: at least f - f* where the oracle certifies."""
        return self.vertex.score - self.score


# --- step rules ----------------------------------------------------------------------------------


def forward(context: StepContext) -> Move:
    """Return a step toward the vertex (Algorithm 1)."""
    return Move("forward", context.vertex.atom, None, 1.0)


def away(context: StepContext) -> Move:
    """Return the steeper of a forward step and a step away from the worst atom (Algorithm 3)."""
    active = context.active
    worst = active.extreme(context.scores, largest=False)
    if active.n_vertices == 1 or context.gap >= context.score - worst.score:
        return forward(context)
    return Move("away", None, worst.atom, worst.weight / active.weight_of_others(worst.atom))


def pairwise(context: StepContext) -> Move:
    """Return a shift of weight from the worst active atom to the vertex."""
    worst = context.active.extreme(context.scores, largest=False)
    if worst.atom == context.vertex.atom:  # there is one atom, and no better one
        return forward(context)
    return Move("pairwise", context.vertex.atom, worst.atom, worst.weight)


def blended(context: StepContext) -> Move:
    """Return a shift of weight inside the active set while that pays, else a forward step.

    Lazy blended pairwise steps (Tsuji, Tanaka and Pokutta, 2022): the oracle is called only when
    no shift between active atoms promises a share of the last known gap.
    """
    active = context.active
    worst = active.extreme(context.scores, largest=False)
    best = active.extreme(context.scores, largest=True)
    local = best.score - worst.score
    if local < BLENDED_SHARE * context.gap_estimate:
        # A poor vertex may show hardly any gap; to believe it at once would end the calls.
        least = 0.1 * context.gap_estimate if np.isfinite(context.gap_estimate) else 0.0
        context.gap_estimate = max(context.gap, least, context.tol)
        if local <= context.gap:
            return forward(context)
    return Move("pairwise", best.atom, worst.atom, worst.weight)


RULES: dict[str, StepRule] = {
    "away": away,
    "forward": forward,
    "pairwise": pairwise,
    "blended": blended,
}


# --- step sizes ----------------------------------------------------------------------------------


def best_size(n_iter: int) -> None:
    """Return None: the line search finds the size."""


def decreasing_size(n_iter: int) -> float:
    """Return 2 / (k + 2), the classic size of forward steps."""
    return 2.0 / (n_iter + 2.0)


STEP_SIZES: dict[str, StepSize] = {"line_search": best_size, "2/(k+2)": decreasing_size}
