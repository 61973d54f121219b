"""Runs that are cut off and continue from a snapshot, and snapshots that are refused."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hdsl.solver.oracle import ORACLES
from hdsl.solver.snapshot import SnapshotError, Snapshots
from hdsl.solver.steps import RULES
from runs import Blind, assert_same_model, covering, run
from strategies import random_twin


def snapshots_of(twin, latest=None, **parameters):
    """Return a run that begins at a snapshot, and its own snapshots by iteration."""
    found = {}

    def save(snapshot):
        arrays = snapshot()
        found[int(arrays["counts"][0])] = arrays

    return run(twin, snapshots=Snapshots(latest, save), **parameters), found


def comparable(snapshot):
    """Return the bytes of a snapshot without its clock.

    The last record is about a model whose gap is not known yet.
    """
    arrays = {name: array.copy() for name, array in snapshot.items()}
    arrays["floats"][2] = 0.0
    arrays["trace"]["seconds"] = 0.0
    arrays["trace"][["gap", "gap_is_exact"]][-1] = (0.0, False)
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("oracle", "rule", "batch_size", "init", "n_before"),
    covering([*ORACLES.values(), Blind], RULES, [None, 7], ["oracle", "random"], [0, 4]),
)
def test_a_run_continues_from_any_snapshot_to_the_same_end(
    oracle, rule, batch_size, init, n_before
):
    """In the same way: later snapshots are the same too, and the callback sees each model once.

    The oracle that knows one atom makes checks in vain, which are part of a snapshot.
    """
    parameters = {"rule": rule, "batch_size": batch_size, "init": init, "max_iter": 22, "tol": 1e-4}
    if n_before:
        earlier = run(random_twin(6, scale=8.0), **parameters | {"max_iter": n_before})
        parameters["earlier"] = earlier
    whole, snapshots = snapshots_of(random_twin(6, scale=8.0), oracle=oracle(), **parameters)
    for n_iter in sorted({n_before, n_before + 1, 11, max(snapshots)} & snapshots.keys()):
        seen = []
        again, later = snapshots_of(
            random_twin(6, scale=8.0), snapshots[n_iter], oracle=oracle(), seed=99,
            callback=lambda state, seen=seen: seen.append(state.n_iter), **parameters,
        )  # fmt: skip
        assert_same_model(again, whole)
        assert (again.status, again.n_exact_checks) == (whole.status, whole.n_exact_checks)
        assert seen == list(range(max(n_iter, n_before + (n_before > 0)), whole.n_iter + 1))
        assert later.keys() == {k for k in snapshots if k >= n_iter}
        for k, snapshot in later.items():
            assert comparable(snapshot) == comparable(snapshots[k])
        for name in set(whole.trace.dtype.names) - {"seconds"}:
            assert_array_equal(again.trace[name], whole.trace[name])
        assert (np.diff(again.trace["seconds"][n_before:]) >= 0).all()


# --- damaged snapshots ---------------------------------------------------------------------------

PARAMETERS = {"oracle": "exact", "max_iter": 12}


@pytest.fixture(scope="module")
def snapshot():
    return snapshots_of(random_twin(6, scale=8.0), **PARAMETERS)[1][11]


def accept(latest, **parameters):
    """Continue from a snapshot."""
    return snapshots_of(random_twin(6, scale=8.0), latest, **PARAMETERS | parameters)[0]


def refuse(latest, match=r"\w", **parameters):
    with pytest.raises(SnapshotError, match=match):
        accept(latest, **parameters)


def wrong_values(snapshot):
    """Yield the name of an array of the right type, and a value that no run has."""
    d, counts, trace = 8, snapshot["counts"], snapshot["trace"]
    yield "atoms", snapshot["atoms"] + d
    yield "weights", 2 * snapshot["weights"]
    yield from (("problem.known", np.array([[0, 1], pair])) for pair in ([-1, 2], [3, 3], [0, d]))
    yield "problem.known", np.array([[0, 1], [3, 2]])
    for k, wrong in enumerate([-1, -1, -2, -1, -1, 0]):
        yield "counts", np.where(np.arange(6) == k, wrong, counts)
    yield "counts", counts - [1, 0, 0, 0, 0, 0]  # fewer iterations than the trace has
    for number in (np.nan, np.inf):
        yield "problem.margins", np.append(snapshot["problem.margins"][:-1], number)
    yield "floats", np.array([np.nan, 1.0, 1.0])
    yield "random", snapshot["random"][:-1]
    yield "random", np.frombuffer(b'{"bit_generator": "MT19937"}', np.uint8)
    yield "trace", trace[:0]
    wrong = trace.copy()
    wrong["j"][3] = d
    yield "trace", wrong


def test_every_damaged_array_is_refused(snapshot):
    """Compiled loops trust the numbers of a snapshot, so nothing odd may come as far as that."""
    accept(snapshot)
    accept(snapshot | {"problem.known": np.array([[0, 7]])})
    for name, array in snapshot.items():
        refuse({k: v for k, v in snapshot.items() if k != name})
        refuse(snapshot | {name: array[np.newaxis]})
        refuse(snapshot | {name: array[:-1] if name != "problem.known" else array[:, :1]})
        if name != "trace":
            refuse(snapshot | {name: array.astype("f4")})
    for name, array in wrong_values(snapshot):
        refuse(snapshot | {name: array})
    for name in ("more", "problem.more", "oracle.more", "oracle.more.w", "more.w", "oracle", ""):
        refuse(snapshot | {name: snapshot["floats"]}, match=r"more|oracle|''")


def test_what_an_exact_search_remembers_comes_whole_or_not_at_all(snapshot):
    fresh = {k: v for k, v in snapshot.items() if not k.startswith("oracle.") or "counts" in k}
    assert_same_model(accept(fresh), accept(snapshot))


@pytest.mark.parametrize(("feature", "exists"), [(0, True), (7, True), (-1, False), (8, False)])
def test_a_recent_feature_of_an_ascent_must_exist(feature, exists):
    _, found = snapshots_of(random_twin(6, scale=8.0), oracle="ascent", max_iter=12)
    changed = found[11] | {"oracle.recent": np.array([feature])}
    (accept if exists else refuse)(changed, oracle="ascent")


def test_a_snapshot_of_another_run_is_refused(snapshot):
    earlier = run(random_twin(6, scale=8.0), max_iter=2)
    refuse(snapshot, oracle="ascent")
    refuse(snapshot, oracle=Blind())
    refuse(snapshot, earlier=earlier, match="the trace has 12 lines at iteration 11")
    for other in (random_twin(6, T=31, scale=8.0), random_twin(6, d=7, scale=8.0)):
        with pytest.raises(SnapshotError, match="expected"):
            snapshots_of(other, snapshot, **PARAMETERS)
