"""Runs of the solver by names, and what the tests of the solver share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.solver.atoms import Atom
from hdsl.solver.loop import Options, Restarts, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.protocols import Oracle, Vertex
from hdsl.solver.steps import RULES
from strategies import make_twin, random_arrays

NEVER = -1.0  # a tol that no gap reaches


def run(
    twin,
    *,
    oracle="exact",
    rule="away",
    tol=0.0,
    seed=0,
    callback=None,
    earlier=None,
    restarts=None,
    **options,
):
    """Run the solver on our side of a problem; `oracle` is a name or an object."""
    if isinstance(oracle, str):
        oracle = ORACLES[oracle]()
    return frank_wolfe(
        twin.ours,
        oracle,
        RULES[rule],
        Options(tol=tol, **options),
        rng=np.random.default_rng(seed),
        callback=callback,
        earlier=earlier,
        restarts=restarts,
    )


def run_in_parts(
    layout,
    *,
    oracle,
    rule,
    loss,
    batch_size,
    weighted,
    prior,
    width,
    max_iter,
    latest=None,
    save=lambda take: None,
):
    """Run the solver on 60 comparisons of 20 rows, from a restart point or the beginning."""
    X, T = random_arrays(7, n=20, d=15, T=60, density=0.4)
    rng = np.random.default_rng(8)
    T = np.column_stack([T, rng.integers(20, size=len(T))])[:, :width]
    weights = None
    if weighted:
        weights = rng.random(len(T))
    init = "zero"
    # From 0, or to the end, it leaves ties that rounding settles.
    if rule == "pairwise":
        init = "oracle"
    return run(
        make_twin(X, T, loss, 5.0, prior, weights, layout=layout),
        oracle=oracle,
        rule=rule,
        tol=1e-6,
        seed=5,
        restarts=Restarts(latest, save),
        batch_size=batch_size,
        max_iter=max_iter,
        init=init,
    )


def assert_same_path(run, other):
    """Compare two runs up to rounding."""
    assert (run.status, run.n_iter) == (other.status, other.n_iter)
    for name in ("i", "j", "sign", "away_i", "away_j", "away_sign", "kind", "drop"):
        assert_array_equal(run.trace[name], other.trace[name])
    for name in ("objective", "gap"):  # sums are added in another order
        assert_allclose(run.trace[name], other.trace[name], rtol=1e-9, atol=1e-9)
    tolerance = 1e-9
    if len(run.corrections):  # the value is flat around the best step of a correction
        tolerance = 1e-7
    assert_allclose(
        run.trace["step_size"], other.trace["step_size"], rtol=tolerance, atol=tolerance
    )
    assert_array_equal(run.atoms, other.atoms)
    assert_allclose(run.weights, other.weights, atol=tolerance)


def assert_same_run(run, again):
    """Compare two runs bit for bit."""
    assert_array_equal(run.weights, again.weights)
    for name in set(run.trace.dtype.names) - {"seconds"}:
        assert_array_equal(run.trace[name], again.trace[name])


class Blind(Oracle):
    """An oracle that knows only one atom, and its true score."""

    def __call__(self, gradient, rng):
        return Vertex(float(gradient.scores(np.array([[0, 1, 1]]))[0]), Atom(0, 1, 1))

    def reset(self):
        pass


def as_dict(active):
    """Return {atom: weight} of an active set, or of a result."""
    return dict(
        zip(map(tuple, active.atoms.tolist()), active.weights.tolist(), strict=True)
    )


def assert_same_model(a, b):
    """Compare two results bit for bit."""
    assert_array_equal(a.atoms, b.atoms)
    assert_array_equal(a.weights, b.weights)
    assert a.objective == b.objective


def dense_model(twin, result):
    """Return the matrix and the margins of a result or state, from its atoms."""
    atoms = twin.inside(result.atoms)
    M = reference.model_matrix(atoms, result.weights, twin.dense.d, twin.dense.scale)
    return M, twin.dense.offset + twin.dense.margins_of(M)


class Watch:
    """A callback that compares each state with the dense reference."""

    def __init__(self, twin, *, upper=np.inf, one_atom_each=True):
        self.twin = twin
        self.dense = twin.dense
        self.upper = upper
        self.one_atom_each = one_atom_each
        self.size = twin.dense.margin_size()
        self.models = []

    def __call__(self, state):
        dense = self.dense
        k = len(self.models)
        assert state.n_iter == k
        assert (state.weights > 0).all()
        assert abs(state.weights.sum() - 1) <= 1e-12
        assert len(np.unique(state.atoms, axis=0)) == len(state.weights)
        M, margins = dense_model(self.twin, state)
        assert reference.is_psd(M)
        if self.one_atom_each:
            assert M.any(axis=0).sum() <= 2 * (k + 1)
            assert np.count_nonzero(M) <= 4 * (k + 1)
        assert_allclose(state.margins, margins, rtol=0, atol=1e-10 * self.size)
        # Margins are known to a few units in the last place, which the loss's slope
        # magnifies.
        pull = dense.omega @ np.abs(dense.ell1(margins))
        rounding = 1e-13 * pull * self.size + (1e-13 * self.size) ** 2
        value = dense.value(margins)
        assert state.objective == pytest.approx(value, rel=1e-12, abs=100 * rounding)
        if self.models:
            assert state.objective <= self.models[-1][2] * (1 + 1e-12) + rounding
        if state.gap_is_exact:
            tolerance = 1e-9 * (dense.score_size(margins) + pull * self.size)
            # Slopes are as wrong as margins next to a kink.
            tolerance += 1e-13 * self.size**2
            assert state.gap == pytest.approx(dense.gap(M, margins), abs=tolerance)
            assert state.gap >= max(value - self.upper, 0.0) - tolerance
        self.models.append((state.atoms, state.weights, state.objective))
