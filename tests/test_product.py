"""The loop on a product of domains, against dense matrices."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.backends.cpu.layout import CPULayout
from hdsl.backends.cpu.workers import Workers
from hdsl.backends.regions import RegionLayout
from hdsl.core import losses
from hdsl.core.oracle import ORACLES
from hdsl.core.product import ORDERS, ProductOptions, product_frank_wolfe, replay_product
from hdsl.core.protocols import Move
from hdsl.core.solver import Options, frank_wolfe
from hdsl.core.steps import RULES
from runs import covering
from strategies import LOSSES, PRIORS, random_arrays, triplet_weights



class Case:
    """One problem twice: ours, and dense."""

    def __init__(self, seed, *, n=12, d=5, T=60, n_regions=3, loss="smoothed_hinge", scale=1.0,
                 local_scale=0.4, prior=0.0, weights=None):  # fmt: skip
        X, triplets = random_arrays(seed, n, d, T)
        weights = None if weights is None else np.array(weights)
        of_rows = np.random.default_rng(seed).integers(n_regions, size=n)
        _, of_rows = np.unique(of_rows, return_inverse=True)
        layout = RegionLayout(
            sp.csr_array(X), triplets, weights, regions=of_rows, workers=Workers(1)
        )
        self.X, self.triplets, self.weights = X, triplets, weights
        self.numbers = layout.numbers
        self.ours = layout.problem(losses.get(loss), scale, local_scale, prior)
        dense = reference.Problem(X, triplets, loss, scale, prior, weights)
        place = np.full(n_regions, -1)
        place[layout.numbers] = np.arange(len(layout.numbers))
        self.dense = reference.ProductProblem(dense, place[of_rows[triplets[:, 0]]], local_scale)

    def run(self, *, rule="pairwise", order="largest", oracle="exact", tol=1e-4, max_iter=3000,
            callback=None):  # fmt: skip
        return product_frank_wolfe(
            self.ours, ORACLES[oracle], RULES[rule], ProductOptions(order, max_iter, tol),
            rng=np.random.default_rng(0), callback=callback,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "rule", "order", "oracle"), covering(LOSSES, RULES, ORDERS, ORACLES)
)
@settings(max_examples=8)
@given(seed=st.integers(0, 99), prior=PRIORS, data=st.data())
def test_every_model_is_that_of_dense_matrices(loss, rule, order, oracle, seed, prior, data):
    """The objective never rises, weights sum to at most 1 in each block, exact gaps are true."""
    weights = data.draw(st.none() | triplet_weights(60))
    case = Case(seed, loss=loss, prior=prior, weights=weights)
    dense, values = case.dense, []

    def watch(state):
        value = dense.problem.value(dense.margins(state.blocks))
        assert state.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
        for _, own in state.blocks:
            assert (own > 0).all()
            assert own.sum() <= 1 + 1e-12
        if values:
            assert state.objective <= values[-1] * (1 + 1e-12)
        if state.gap_is_exact:
            assert state.gap == pytest.approx(dense.gap(state.blocks), rel=1e-6, abs=1e-9)
        values.append(state.objective)

    result = case.run(rule=rule, order=order, oracle=oracle, max_iter=40, callback=watch)
    assert len(values) == len(result.trace) == result.n_iter + 1
    assert_allclose(result.trace["objective"], values, rtol=1e-12)
    replayed = replay_product(
        result.trace, result.n_iter, len(result.blocks), result.corrections
    )
    for own, (atoms, weights) in zip(replayed, result.blocks, strict=True):
        assert_array_equal(own.atoms, atoms)
        assert_allclose(own.weights, weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("rule", "order"), [*product(RULES, ORDERS)])
def test_the_optimum_is_reached_within_the_certified_gap(rule, order):
    case = Case(1, d=4, n_regions=2, prior=0.1)
    result = case.run(rule=rule, order=order, oracle="ascent", tol=1e-3)
    assert result.status == "optimal"
    assert result.gap_is_exact
    assert result.gap <= 1e-3
    assert result.gap == pytest.approx(case.dense.gap(result.blocks), abs=1e-9)
    best = case.dense.optimum()
    assert best - 1e-9 <= result.objective <= best + result.gap + 1e-9


def test_without_regions_it_is_the_plain_path():
    X, triplets = random_arrays(3, n=20, d=8, T=100)
    plain = CPULayout(sp.csr_array(X), triplets, workers=Workers(1))
    loss = losses.get("smoothed_hinge")
    expected = frank_wolfe(
        plain.problem(loss, 2.0, 0.3), ORACLES["exact"](), RULES["away"],
        Options(init="zero", max_iter=30, tol=0.0), rng=np.random.default_rng(0),
    )  # fmt: skip
    layout = RegionLayout(sp.csr_array(X), triplets, regions=None, workers=Workers(1))
    result = product_frank_wolfe(
        layout.problem(loss, 2.0, 1.0, 0.3), ORACLES["exact"], RULES["away"],
        ProductOptions(max_iter=30, tol=0.0), rng=np.random.default_rng(0),
    )  # fmt: skip
    ((atoms, weights),) = result.blocks
    assert_array_equal(atoms, expected.atoms)
    assert_allclose(weights, expected.weights, rtol=1e-9)
    assert_allclose(result.trace["objective"], expected.trace["objective"], rtol=1e-12)


def test_a_step_in_a_region_leaves_the_others_as_they_are():
    case = Case(2)
    problem = case.ours
    result = case.run(max_iter=10)
    active = replay_product(result.trace, 10, problem.n_blocks)
    margins = problem.margins(active)
    before = [problem.gradient(margins, block) for block in range(problem.n_blocks)]
    atom = before[1].climb((), 4).atom
    step = problem.step(margins, 1, Move("forward", atom, None, 1.0))
    assert step is not None
    after = [problem.gradient(step.margins, block) for block in range(problem.n_blocks)]
    assert [one is other for one, other in zip(before, after, strict=True)] == [
        False, False, *(True for _ in before[2:]),
    ]  # fmt: skip
    assert problem.gradient(step.margins, 0) is after[0]


def test_callback_and_interrupt_end_a_run():
    case = Case(0)
    stopped = case.run(tol=0.0, callback=lambda state: state.n_iter == 7)
    assert (stopped.status, stopped.n_iter, len(stopped.trace)) == ("callback", 7, 8)

    def interrupt(state):
        if state.n_iter == 5:
            raise KeyboardInterrupt

    broken = case.run(tol=0.0, callback=interrupt)
    assert (broken.status, broken.n_iter) == ("interrupted", 5)
    value = case.dense.problem.value(case.dense.margins(broken.blocks))
    assert broken.objective == pytest.approx(value, rel=1e-12)


def test_a_small_gap_is_reached_in_few_steps():
    case = Case(0, d=3, T=20)
    result = case.run(tol=1e-10)
    assert result.status == "optimal"
    assert result.n_iter < 200
    assert case.dense.gap(result.blocks) <= 1.001e-10
