"""The seam in dense arrays: the slow, obvious machine that the solver is tested on."""

import numpy as np

import reference
from hdsl.solver.atoms import ZERO, positioned, renumbered
from hdsl.solver.protocols import Correction, Gradient, Layout, Problem, Statistics, Step


class DenseGradient(Gradient):
    def __init__(self, dense, margins, batch=None):
        self.covers_all = batch is None
        if batch is not None:
            dense, margins = dense.subproblem(batch), margins[batch]
        self.dense, self.margins, self.batch = dense, margins, batch
        self.C = -dense.gradient(margins)
        self.S = self.C + self.C.T
        self.scale, self.n_features = dense.scale, dense.d

    @property
    def diagonal(self):
        return self.C.diagonal()

    @property
    def rounding(self):
        return 1e-13 * np.abs(self.dense.A).max() * np.abs(self.dense.ell1(self.margins)).sum()

    def rows(self, features):
        return self.S[features]

    def entries(self, atoms):
        return self.S[atoms[:, 0], atoms[:, 1]]

    def dot(self, margins):
        margins = margins if self.batch is None else margins[self.batch]
        slopes = self.dense.omega * self.dense.ell1(self.margins)
        return -float(slopes @ (margins - self.dense.offset))

    def drift_since(self, other):
        return np.abs(self.S - other.S).max(axis=1)

    def is_zero(self):
        return not (self.dense.omega * self.dense.ell1(self.margins)).any()


class DenseProblem(Problem):
    def __init__(self, dense, features):
        self.dense, self.features = dense, features
        self.n_features, self.n_comparisons = dense.d, dense.T

    def margins(self, atoms, weights):
        return self.dense.margins(atoms, weights)

    def value(self, margins):
        return float(self.dense.value(margins))

    def gradient(self, margins, batch=None):
        return DenseGradient(self.dense, margins, batch)

    def exact_search_cost(self):
        return self.n_features**2

    def to_user(self, atoms):
        return renumbered(atoms, self.features)

    def from_user(self, atoms):
        return positioned(atoms, self.features)

    def _of(self, atom):
        atoms = [] if atom == ZERO else [atom]
        return self.dense.margins(atoms, np.ones(len(atoms)))

    def direction(self, margins, move):
        if isinstance(move, Correction):
            return self.dense.margins(move.atoms, move.change) - self.dense.offset
        if move.away is None:
            return self._of(move.toward) - margins
        if move.toward is None:
            return margins - self._of(move.away)
        return self._of(move.toward) - self._of(move.away)

    def slopes(self, margins, direction, step_sizes):
        dense = self.dense
        return np.array(
            [
                (dense.slope(margins, direction, size), dense.curvature(margins, direction, size))
                for size in step_sizes
            ]
        )

    def advance(self, margins, direction, step_size):
        after = margins + step_size * direction
        return Step(after, step_size, self.value(after))

    def curvature(self, margins, atoms):
        V = reference.atom_margins(self.dense, atoms)
        return (V.T * (self.dense.omega * self.dense.ell2(margins))) @ V


class DenseLayout(Layout):
    """As the machines do it: comparisons by their first row, the fullest columns first."""

    def __init__(self, X, compared, weights=None, columns=None):
        X = X.toarray()
        fullest = np.argsort(-np.count_nonzero(X, axis=0), kind="stable")
        self.features = fullest[: np.count_nonzero(X.any(axis=0))]
        order = np.argsort(compared[:, 0], kind="stable")
        self.n_features = len(self.features)
        self.given = X[:, self.features], compared[order]
        self.weights = None if weights is None else weights[order]

    def statistics(self):
        return Statistics(1.0, 1.0, 1, 1.0, 1.0)

    def problem(self, loss, scale, prior=0.0, base=None):
        assert base is None
        dense = reference.Problem(*self.given, loss, scale, prior, self.weights)
        return DenseProblem(dense, self.features)
