"""The loop: what holds at each step, where it begins, batches, and what makes no difference."""

import math
import warnings
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.fit.layouts import warn_of_rounding
from hdsl.solver import loop
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from hdsl.solver.trace import STEP_FIELDS, RestartPoint, replay
from pairwise import pairwise
from runs import NEVER, Watch, as_dict, assert_same_model, dense_model, run
from strategies import LOSSES, make_twin, random_arrays, random_twin, twins

# --- what holds at each step ----------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "oracle", "rule", "batches"),
    pairwise(LOSSES, ORACLES, RULES, [False, True]),
)
@settings(max_examples=5)
@given(
    data=st.data(),
    max_iter=st.sampled_from([15, 60]),
    tol=st.sampled_from([0.0, 1e-4, 0.1]),
    seed=st.integers(0, 9),
)
def test_every_step(loss, oracle, rule, batches, data, max_iter, tol, seed):
    """Directions may come from a batch, but the line search sees all triplets.

    The callback sees every model, and the trace rebuilds it. Whatever the problem,
    "optimal" means that the gap is small; the watch compares the gap of the last model
    with the reference.
    """
    twin = data.draw(twins(loss))
    batch_size = data.draw(st.integers(1, twin.dense.T)) if batches else None
    upper = twin.dense.optimum().upper if oracle == "exact" else np.inf
    watch = Watch(twin, upper=upper, one_atom_each=rule != "corrective")
    result = run(
        twin,
        oracle=oracle,
        rule=rule,
        batch_size=batch_size,
        max_iter=max_iter,
        tol=tol,
        seed=seed,
        callback=watch,
    )
    n_iter = result.n_iter
    trace = result.trace
    is_stalled = result.status == "stalled"
    assert result.status in {"optimal", "max_iter", "no_violation", "stalled"}
    assert result.n_exact_checks <= math.log2(max(n_iter, 1)) + 2
    if result.status == "max_iter":
        assert n_iter == max_iter
        assert np.isfinite(result.gap)  # lazy steps may leave any other gap unknown
    elif is_stalled:  # no float step improves anything
        M, margins = dense_model(twin, result)
        size = twin.dense.score_size(margins) + twin.dense.margin_size() ** 2
        assert twin.dense.gap(M, margins) <= tol + 1e-6 * size
    else:
        assert result.gap_is_exact
        assert result.gap <= tol
    assert len(watch.models) == n_iter + (not is_stalled)
    assert len(trace) == n_iter + 1
    models = (
        watch.models + [(result.atoms, result.weights, result.objective)] * is_stalled
    )
    for k, (atoms, weights, objective) in enumerate(models):
        again = replay(trace, k, result.corrections)
        row = trace[k]
        assert_array_equal(again.atoms, atoms)
        assert_allclose(again.weights, weights, rtol=0, atol=1e-12)
        assert row["objective"] == pytest.approx(
            objective, rel=1e-12 * is_stalled, abs=0
        )
        assert (row["n_atoms"], row["n_features"]) == (
            len(atoms),
            len(np.unique(atoms[:, :2])),
        )


@settings(max_examples=30)
@given(twin=twins())
def test_rate_of_forward_steps(twin):
    """f - f* ≤ 16Lλ²/(k+2) (Proposition 1)."""
    result = run(twin, rule="forward", max_iter=40)
    k = np.arange(1, result.n_iter + 1)
    bound = 16 * twin.dense.lipschitz() * twin.dense.scale**2 / (k + 2)
    excess = result.trace["objective"][1:] - twin.dense.optimum().upper
    # The bound is 0 where all rows are equal.
    assert (excess <= bound * (1 + 1e-12) + 1e-14).all()


# --- where it begins ------------------------------------------------------------------


@settings(max_examples=30)
@given(twins())
def test_the_start_is_the_oracles_atom_at_zero(twin):
    first = run(twin, max_iter=0).trace[0]
    atom = twin.inside(np.array([[first["i"], first["j"], first["sign"]]]))
    best, _ = twin.dense.best_atom(twin.dense.offset)
    score = twin.dense.scores(twin.dense.offset, atom)[0]
    assert score >= best - 1e-12 * twin.dense.score_size(twin.dense.offset)


def test_a_random_start_may_be_any_atom():
    """The same one for the same seed."""
    twin = random_twin(0, d=3)
    starts = [
        run(twin, init="random", max_iter=0, seed=s).atoms[0].tolist()
        for s in range(100)
    ]
    assert {tuple(atom) for atom in starts} == set(reference.all_atoms(3))
    assert run(twin, init="random", max_iter=0, seed=7).atoms[0].tolist() == starts[7]


def test_a_run_that_continues_an_earlier_one():
    """The callback sees the new models only; the trace and its seconds are those of both."""
    twin = random_twin(1, scale=5.0)
    seen = []
    first = run(twin, max_iter=3)
    first.trace["seconds"] = [0.0, 1.0, 2.0, 500.0]
    second = run(
        twin,
        max_iter=6,
        earlier=first,
        callback=lambda state: seen.append(state.n_iter),
    )
    assert seen == [4, 5, 6]
    assert second.trace["seconds"][:3].tolist() == [0.0, 1.0, 2.0]
    assert (second.trace["seconds"][3:] >= 500.0).all()
    whole = run(twin, max_iter=6)
    assert as_dict(second) == pytest.approx(as_dict(whole), abs=1e-12)
    for name in STEP_FIELDS:
        assert second.trace[name].tolist() == pytest.approx(
            whole.trace[name].tolist(), abs=1e-12
        )
    assert as_dict(replay(second.trace, 6)) == pytest.approx(as_dict(second), abs=1e-12)


# --- batches --------------------------------------------------------------------------


def test_a_batch_has_each_triplet_once(monkeypatch):
    """Sorted, none twice, and another batch in every iteration."""
    twin = random_twin(8, scale=8.0)
    batches = []
    gradient = twin.ours.gradient
    monkeypatch.setattr(
        twin.ours, "gradient", lambda *args: batches.append(args[1]) or gradient(*args)
    )
    run(twin, batch_size=20, max_iter=20, tol=NEVER)
    assert len(batches) == 22  # one for the start, one for each model
    assert all(len(batch) == 20 and (np.diff(batch) > 0).all() for batch in batches)
    assert len({tuple(batch) for batch in batches}) == 22


@pytest.mark.parametrize(("oracle", "rule"), pairwise(ORACLES, RULES))
def test_batches_are_reproducible(oracle, rule):
    twin = random_twin(8, scale=8.0)
    parameters = {"oracle": oracle, "rule": rule, "batch_size": 6, "max_iter": 10}
    one, two, other = (run(twin, seed=seed, **parameters) for seed in (4, 4, 5))
    assert_same_model(one, two)
    assert_array_equal(one.trace[STEP_FIELDS], two.trace[STEP_FIELDS])
    assert not np.array_equal(one.trace["step_size"], other.trace["step_size"])


@pytest.mark.parametrize(("oracle", "batch_size"), pairwise(ORACLES, [30, 31]))
def test_a_batch_of_all_is_no_batch(oracle, batch_size):
    twin = random_twin(8, T=30, scale=8.0)
    all_ = run(twin, oracle=oracle, max_iter=40, seed=2)
    batch = run(twin, oracle=oracle, max_iter=40, seed=2, batch_size=batch_size)
    assert_same_model(all_, batch)
    assert_array_equal(all_.trace["gap_is_exact"], batch.trace["gap_is_exact"])


def test_a_batch_of_weight_0_does_not_end_the_run():
    """It names no direction, but other triplets are violated."""
    weights = np.repeat([1.0, 0.0], [2, 10])
    twin = make_twin(*random_arrays(1, T=12), scale=0.5, weights=weights)
    result = run(twin, batch_size=2, max_iter=30, callback=Watch(twin))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(twin.dense.optimum().upper, abs=1e-9)


# --- what must make no difference -----------------------------------------------------


def two_forms(change):
    """Return one problem in two forms."""
    rng = np.random.default_rng(0)
    (X, T) = random_arrays(10, T=20)
    times = rng.integers(1, 4, len(T))
    rows = rng.permutation(len(X))
    order = rng.permutation(len(T))
    other, scale = {
        "repetitions for weights": ((X, np.repeat(T, times, axis=0)), 8.0),
        "order of triplets": ((X, T[order]), 8.0),
        "order of rows": ((X[rows], np.argsort(rows)[T]), 8.0),
        "scale in the data": ((np.sqrt(3.0) * X, T), 8.0 / 3.0),
    }[change]
    weights = (
        None if "weights" in change else times[order] if "triplets" in change else times
    )
    return (
        make_twin(X, T, scale=8.0, weights=times),
        make_twin(*other, scale=scale, weights=weights),
    )


CHANGES = [
    "repetitions for weights",
    "order of triplets",
    "order of rows",
    "scale in the data",
]


@pytest.mark.parametrize(
    ("change", "oracle", "rule"), pairwise(CHANGES, ORACLES, RULES)
)
def test_the_form_of_a_problem_makes_no_difference(change, oracle, rule):
    """To the path where that is well defined, to the optimum where ties part the paths."""
    forms = two_forms(change)
    if rule in {"forward", "away"}:
        a, b = (
            run(twin, oracle=oracle, rule=rule, max_iter=20, tol=NEVER)
            for twin in forms
        )
        for name in set(STEP_FIELDS) - {"step_size"}:
            assert_array_equal(a.trace[name], b.trace[name])
        assert_allclose(
            a.trace["step_size"], b.trace["step_size"], rtol=1e-8, atol=1e-10
        )
        assert_allclose(a.trace["objective"], b.trace["objective"], rtol=1e-12)
    else:
        a, b = (run(twin, oracle=oracle, rule=rule, tol=1e-9) for twin in forms)
        assert a.objective == pytest.approx(b.objective, abs=1e-9)


@pytest.mark.parametrize(
    ("oracle", "rule", "batch_size"), pairwise(ORACLES, RULES, [None, 7])
)
def test_empty_columns_change_only_feature_numbers(oracle, rule, batch_size):
    X, T = random_arrays(12)
    where = np.sort(np.random.default_rng(0).choice(24, size=8, replace=False))
    wide = np.zeros((len(X), 24))
    wide[:, where] = X
    parameters = {
        "oracle": oracle,
        "rule": rule,
        "batch_size": batch_size,
        "max_iter": 30,
    }
    narrow = run(make_twin(X, T, scale=8.0), **parameters)
    found = run(make_twin(wide, T, scale=8.0), **parameters)
    assert_array_equal(found.atoms[:, :2], where[narrow.atoms[:, :2]])
    assert_array_equal(found.atoms[:, 2], narrow.atoms[:, 2])
    assert_array_equal(found.weights, narrow.weights)
    assert_array_equal(found.trace["objective"], narrow.trace["objective"])
    for name in ("i", "j", "away_i", "away_j"):
        mapped = np.where(narrow.trace[name] < 0, -1, where[narrow.trace[name]])
        assert_array_equal(found.trace[name], mapped)


# --- restart points -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oracle", "rule", "batch_size", "init"),
    pairwise(ORACLES, RULES, [None, 7], ["zero", "oracle"]),
)
def test_a_run_goes_on_from_any_rest_to_the_same_bytes(oracle, rule, batch_size, init):
    options = {"oracle": oracle, "rule": rule, "batch_size": batch_size, "init": init}
    options |= {"max_iter": 10 if rule == "corrective" else 70, "tol": NEVER}
    taken = []
    restarts = loop.Restarts(None, lambda take: taken.append(take()))
    whole = run(random_twin(1, scale=8.0), **options, restarts=restarts)
    assert [int(point["counts"][0]) for point in taken] == (
        [4, 8] if rule == "corrective" else [64]
    )
    for point in taken:
        again = run(
            random_twin(1, scale=8.0),
            **options,
            restarts=loop.Restarts(point, lambda take: None),
        )
        assert_same_model(whole, again)
        assert again.corrections.tobytes() == whole.corrections.tobytes()
        for name in set(whole.trace.dtype.names) - {"seconds"}:
            assert_array_equal(again.trace[name], whole.trace[name])


def test_a_rest_is_made_into_arrays_when_it_is_written(monkeypatch):
    """Nothing that grows with the run is done at a restart point, and later steps change none."""
    monkeypatch.setattr(loop, "restart_every", lambda rule: 3)
    n_made = []
    as_arrays = RestartPoint.as_arrays

    def counted(point):
        n_made.append(point.n_iter)
        return as_arrays(point)

    monkeypatch.setattr(RestartPoint, "as_arrays", counted)
    options = {"rule": "away", "init": "zero", "max_iter": 20, "tol": NEVER}
    at_once = []
    run(
        random_twin(1),
        **options,
        restarts=loop.Restarts(None, lambda arrays: at_once.append(arrays())),
    )
    assert n_made == [3, 6, 9, 12, 15, 18]
    n_made.clear()
    later = []
    run(random_twin(1), **options, restarts=loop.Restarts(None, later.append))
    assert n_made == []
    for point, arrays in zip(at_once, later, strict=True):
        again = arrays()
        for name in point.keys() - {"seconds", "trace"}:
            assert_array_equal(again[name], point[name])
        for name in set(point["trace"].dtype.names) - {"seconds"}:
            assert_array_equal(again["trace"][name], point["trace"][name])


def test_a_damaged_rest_is_refused():
    taken = []
    options = {"rule": "corrective", "init": "zero", "max_iter": 6, "tol": NEVER}
    run(
        random_twin(1),
        **options,
        restarts=loop.Restarts(None, lambda take: taken.append(take())),
    )
    point = taken[0]
    damaged = [{**point, "what": np.zeros(3)}]
    for name, array in point.items():
        damaged += [{key: value for key, value in point.items() if key != name}]
        damaged += [{**point, name: array[..., None]}]
    damaged += [{**point, "zero": np.array([zero])} for zero in (np.nan, -0.1, 0.9)]
    damaged += [
        {**point, "counts": point["counts"] * 0 - 5},
        {**point, "trace": point["trace"][:2]},
    ]
    damaged += [
        {**point, "atoms": point["atoms"] + [0, 99, 0]},
        {**point, "seconds": np.array([np.nan])},
    ]
    damaged += [{**point, "random": np.frombuffer(b"{}", np.uint8)}]
    damaged += [{**point, "weights": point["weights"] * np.nan}]
    for bad in damaged:
        with pytest.raises(loop.RestartError):
            run(
                random_twin(1),
                **options,
                restarts=loop.Restarts(bad, lambda take: None),
            )


@pytest.mark.parametrize(("loss", "rule"), [*zip(cycle(LOSSES), RULES, strict=False)])
def test_a_long_run_does_not_drift(loss, rule):
    twin = random_twin(11, n=15, d=12, T=60, loss=loss, scale=50.0, prior=0.5)
    watch = Watch(twin, one_atom_each=rule != "corrective")
    run(twin, oracle="heuristic", rule=rule, max_iter=120, callback=watch)
    assert len(watch.models) > (20 if rule == "corrective" else 100)


@pytest.mark.parametrize(("share", "n_warnings"), [(0.5e-6, 0), (2e-6, 1)])
def test_the_objective_is_that_of_the_atoms(share, n_warnings):
    """A warning says so where rounding has moved the objective visibly."""
    twin = random_twin(0, scale=8.0)

    def disturb(state):
        state.objective *= 1.0 + share
        return state.n_iter == 3

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = run(twin, callback=disturb)
        assert not found
        assert result.objective_by_steps / result.objective == pytest.approx(
            1.0 + share, rel=1e-9
        )
        warn_of_rounding(result)
    assert ["Rounding" in str(warning.message) for warning in found] == [
        True
    ] * n_warnings
    assert result.objective == pytest.approx(
        twin.dense.value(twin.dense.margins(twin.inside(result.atoms), result.weights)),
        rel=1e-12,
    )
