"""A problem on a Dask cluster: sums of shards, and what every implementation promises."""

import inspect
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("distributed")

import clusters
import runs
import test_conformance
import test_conformance_gradient
import test_conformance_snapshots
from clusters import data
from hdsl.cpu.kernels.gradient import list_reaching
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.dask.folding import fold, total
from hdsl.solver import losses
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from layouts import PATH_LOSSES
from pairwise import pairwise

pytestmark = [
    # Dask's scheduler, a thread of this process, chooses workers by the `random` module.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


# --- sums and places -----------------------------------------------------------------------------


@given(st.integers(1, 20), st.data())
def test_sums_do_not_depend_on_where_shards_are(n_shards, data):
    values = np.random.default_rng(n_shards).normal(size=(n_shards, 3)) * 10.0 ** np.arange(3)
    parts = {(0, k): values[k] for k in range(n_shards)}
    owner = data.draw(st.lists(st.integers(0, 3), min_size=n_shards, max_size=n_shards))
    sent = {}
    for worker in set(owner):
        sent |= fold({(0, k): parts[0, k] for k in range(n_shards) if owner[k] == worker}, n_shards)
    assert len(sent) <= n_shards
    assert_array_equal(total(sent, n_shards), total(parts, n_shards))
    assert_allclose(total(sent, n_shards), values.sum(axis=0), rtol=1e-12, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 20), st.booleans())
def test_a_part_of_some_rows_of_S(seed, m, common):
    """Entries of listed columns are those of whole rows; bounds hold; none that is best is lost."""
    rng = np.random.default_rng(seed)
    X, _, compared = data(n=40, d=30, seed=seed)
    if common:
        X = sp.csr_array(X.toarray() + (rng.random(X.shape) < 0.5))
    problem = CPULayout(X, compared, workers=Workers(1)).problem(losses.get("logistic"), 1.0)
    gradient = problem.gradient(problem.margins(np.array([[0, 1, 1]]), np.ones(1)))
    d = problem.n_features
    features, columns = rng.integers(d, size=m), np.flatnonzero(rng.random(d) < 0.5)
    whole = np.vstack([gradient.rows(features[k : k + 8]) for k in range(0, m, 8)])
    spread, peak = gradient.spread(features)
    assert_allclose(gradient.rows_at(spread, m, columns), whole[:, columns].T, atol=1e-12)
    sizes = gradient.rows_of_x.column_sizes
    assert (np.abs(whole) <= peak[:, None] * sizes + 1e-12).all()
    values = gradient.diagonal + np.abs(whole)
    floor, out = values[:, :5].max(axis=1), np.empty(d - 5, dtype=np.int64)
    listed = out[: list_reaching(5, gradient.diagonal, sizes, peak, floor, out)].tolist()
    expected = np.flatnonzero(
        (gradient.diagonal + np.multiply.outer(peak, sizes) >= floor[:, None]).any(axis=0)
    )
    assert listed == expected[expected >= 5].tolist()
    assert set(np.flatnonzero((values > floor[:, None]).any(axis=0))) <= {*range(5), *listed}


def test_a_missing_shard_is_no_sum():
    with pytest.raises(ValueError, match="3 shards"):
        total({(0, 0): 1.0, (0, 2): 1.0}, 3)


# --- the problem ---------------------------------------------------------------------------------


CONFORMANCE = {
    name: test
    for module in (test_conformance, test_conformance_gradient, test_conformance_snapshots)
    for name, test in vars(module).items()
    if name.startswith("test_") and "layout" in inspect.signature(test).parameters
}


@pytest.mark.parametrize("name", CONFORMANCE)
def test_conformance(name, monkeypatch):
    """The tests of every machine, with fewer random examples."""
    test = CONFORMANCE[name]
    known = {"layout": clusters.cluster_layout, "monkeypatch": monkeypatch}
    for mark in test.pytestmark:  # of other parameters the first value
        if mark.name == "parametrize" and mark.args[0] != "layout":
            known[mark.args[0]] = next(iter(mark.args[1]))
    wanted = inspect.signature(test).parameters.keys() & known.keys()
    known = {name: known[name] for name in wanted}
    if not hasattr(test, "hypothesis"):
        test(**known)
        return

    drawn = {
        "after": st.booleans(),
        "count": st.integers(0, 13),
        "factor": st.floats(0.01, 100.0),
    }
    wanted = inspect.signature(test.hypothesis.inner_test).parameters.keys() & drawn.keys()
    drawn = st.fixed_dictionaries({name: drawn[name] for name in sorted(wanted)})

    @settings(max_examples=4)
    @given(data=st.data(), others=drawn)
    def check(data, others):
        test.hypothesis.inner_test(**known, **others, data=data)

    check()


@pytest.mark.parametrize(
    ("n_shards", "oracle", "rule", "loss", "batch_size", "weighted", "prior", "width"),
    pairwise(
        [2, 5], sorted(ORACLES), sorted(RULES), PATH_LOSSES, [None, 12], [False, True],
        [0.0, 0.3], [3, 4],
    ),
)  # fmt: skip
def test_the_path_is_that_of_one_machine(
    n_shards, oracle, rule, loss, batch_size, weighted, prior, width
):
    """On one or two workers the same to the last bit, also when it goes on from a snapshot."""
    run = partial(
        runs.run_in_parts, oracle=oracle, rule=rule, loss=loss, batch_size=batch_size,
        weighted=weighted, prior=prior, width=width, max_iter=6 if rule == "corrective" else 10,
    )  # fmt: skip
    shards, taken = partial(clusters.cluster_layout, n_shards=n_shards), []
    two = run(partial(shards, n_workers=2), save=lambda take: taken.append(take()))
    runs.assert_same_path(run(partial(CPULayout, workers=Workers(1))), two)
    runs.assert_same_run(run(partial(shards, n_workers=1)), two)
    runs.assert_same_run(run(shards, latest=taken[min(4, len(taken) - 1)]), two)


@pytest.mark.parametrize("width", [3, 4])
def test_second_derivatives_are_estimated_as_on_one_machine(monkeypatch, width):
    """From a sample of the same comparisons, also where some shard has none of them."""
    monkeypatch.setattr("hdsl.cpu.corrective.CURVATURE_SAMPLE", 8)
    params = {"oracle": "ascent", "rule": "corrective", "loss": "logistic", "batch_size": None}
    run = partial(
        runs.run_in_parts, **params, weighted=width == 3, prior=0.3, width=width, max_iter=5
    )
    one = run(partial(CPULayout, workers=Workers(1)))
    runs.assert_same_path(one, run(partial(clusters.cluster_layout, n_shards=5)))
