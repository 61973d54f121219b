"""The loop on a product of domains, against dense matrices."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.regions import RegionLayout
from hdsl.cpu.workers import Workers
from hdsl.solver import losses
from hdsl.solver.blocks import ORDERS, ProductOptions
from hdsl.solver.loop import Options, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.product import product_frank_wolfe, replay_product
from hdsl.solver.protocols import Move
from hdsl.solver.snapshot import SnapshotError, Snapshots
from hdsl.solver.steps import RULES
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
            callback=None, snapshots=None, seed=0):  # fmt: skip
        return product_frank_wolfe(
            self.ours, ORACLES[oracle], RULES[rule], ProductOptions(order, max_iter, tol),
            rng=np.random.default_rng(seed), callback=callback, snapshots=snapshots,
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
    replayed = replay_product(result.trace, result.n_iter, len(result.blocks), result.corrections)
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


# --- snapshots -----------------------------------------------------------------------------------


def with_snapshots(latest=None, **parameters):
    """Return a run that begins at a snapshot, and its own snapshots by iteration."""
    found = {}

    def save(snapshot):
        arrays = snapshot()
        found[int(arrays["counts"][0])] = arrays

    case = Case(5, n=20, d=9, T=90, scale=8.0, local_scale=4.0)
    options = {"max_iter": 22, "tol": 1e-4, **parameters}
    return case.run(snapshots=Snapshots(latest, save), **options), found


def comparable(snapshot):
    """Return the bytes of a snapshot without its clock and the gap that is not known yet."""
    arrays = {name: array.copy() for name, array in snapshot.items()}
    arrays["floats"][1] = 0.0
    arrays["trace"]["seconds"] = 0.0
    arrays["trace"][["gap", "gap_is_exact"]][-1] = (0.0, False)
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


@pytest.mark.parametrize(("rule", "order", "oracle"), covering(RULES, ORDERS, ORACLES))
def test_a_run_continues_from_any_snapshot_to_the_same_end(rule, order, oracle):
    """In the same way: the answers about blocks that did not change are part of a snapshot."""
    parameters = {"rule": rule, "order": order, "oracle": oracle}
    whole, snapshots = with_snapshots(**parameters)
    for n_iter in sorted({0, 1, 11, max(snapshots)} & snapshots.keys()):
        again, later = with_snapshots(snapshots[n_iter], seed=99, **parameters)
        assert (again.status, again.n_exact_checks) == (whole.status, whole.n_exact_checks)
        assert later.keys() == {k for k in snapshots if k >= n_iter}
        for k, snapshot in later.items():
            assert comparable(snapshot) == comparable(snapshots[k])
        for name in set(whole.trace.dtype.names) - {"seconds"}:
            assert_array_equal(again.trace[name], whole.trace[name])
        assert_array_equal(again.corrections, whole.corrections)
        for (atoms, weights), expected in zip(again.blocks, whole.blocks, strict=True):
            assert_array_equal(atoms, expected[0])
            assert_array_equal(weights, expected[1])


def wrong_values(snapshot):
    """Yield the name of an array of the right type, and a value that no run has."""
    atoms, counts, trace = snapshot["atoms"], snapshot["counts"], snapshot["trace"]
    yield "atoms", atoms + np.array([0, 9, 9, 0])
    yield "atoms", atoms + np.array([9, 0, 0, 0])
    yield "weights", 2 * snapshot["weights"]
    yield "zero", snapshot["zero"] - 2.0
    yield "zero", snapshot["zero"] + 0.5
    for k, wrong in enumerate([-1, -1, -1, -1, 0]):
        yield "counts", np.where(np.arange(5) == k, wrong, counts)
    yield "floats", np.array([np.nan, 1.0])
    yield "gaps", snapshot["gaps"] * np.nan
    yield "random", snapshot["random"][:-1]
    yield "trace", trace[:0]
    for name in ("j", "block"):
        wrong = trace.copy()
        wrong[name][3] = 9
        yield "trace", wrong
    for wrong in ([9, 0], [0, 2], [-1, 0]):
        yield "known", np.array([wrong] * len(snapshot["known"]))
    yield "known_scores", np.append(snapshot["known_scores"], 1.0)
    yield "answers", snapshot["answers"] + [0, 9, 9, 0]
    yield "answers", snapshot["answers"] + [1, 0, 0, 0]
    yield "problem.total.0.margins", snapshot["problem.total.0.margins"] * np.nan
    yield "problem.local.0.known", np.array([[0, 9]])
    yield "problem.other", np.zeros(1)


def test_a_damaged_snapshot_is_refused():
    """Compiled loops trust the numbers of a snapshot, so nothing odd may come as far as that."""
    parameters = {"oracle": "exact", "max_iter": 12}
    _, snapshots = with_snapshots(**parameters)
    snapshot = max(snapshots.values(), key=lambda found: (len(found["known"]), len(found["trace"])))
    assert len(snapshot["known"])
    for name, array in snapshot.items():
        changes = [
            {k: v for k, v in snapshot.items() if k != name},
            snapshot | {name: array[np.newaxis]},
        ]
        for changed in changes:
            with pytest.raises(SnapshotError):
                with_snapshots(changed, **parameters)
    for name, wrong in wrong_values(snapshot):
        with pytest.raises(SnapshotError):
            with_snapshots(snapshot | {name: wrong}, **parameters)
