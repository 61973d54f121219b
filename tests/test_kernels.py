"""Compiled loops: the ways to find partners, the same bits on any number of threads."""

import ast
import inspect
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.backends.cpu.problem
from hdsl.backends.cpu import kernels
from hdsl.backends.cpu.problem import TripletData, TripletProblem
from hdsl.backends.cpu.workers import Workers
from hdsl.core import losses, solver
from strategies import (
    atoms,
    exact_twins,
    make_twin,
    matrices,
    random_arrays,
    random_twin,
    triplets,
    twins_with_margins,
)

# --- single kernels ------------------------------------------------------------------------------


@given(matrices(), st.data())
def test_atom_margins_kernel(X, data):
    """The kernel adds to what is there and leaves its work vector as it was."""
    T = data.draw(triplets(len(X)))
    T = T[np.argsort(T[:, 0], kind="stable")]
    i, j, sign = data.draw(atoms(X.shape[1]))
    columns = sp.csc_array(X)
    anchor_ptr = np.searchsorted(T[:, 0], np.arange(len(X) + 1))
    u, out = np.zeros(len(X)), np.arange(float(len(T)))
    kernels.add_atom_margins(
        i, j, float(sign), 2.5, columns.indptr.astype(np.int64), columns.indices.astype(np.int32),
        columns.data, anchor_ptr, T[:, 1].astype(np.int32), T[:, 2].astype(np.int32), u, out,
    )  # fmt: skip
    v = X[:, i] + sign * X[:, j]
    expected = np.arange(float(len(T))) + 2.5 * v[T[:, 0]] * (v[T[:, 1]] - v[T[:, 2]])
    assert_allclose(out, expected, rtol=1e-13, atol=1e-13)
    assert not u.any()


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=2, max_size=12))
def test_largest_after(diagonal):
    """The first of the largest entries after each place, and the two largest of all."""
    d, out = len(diagonal), np.empty(len(diagonal), dtype=np.int64)
    first, second = kernels.largest_after(np.array(diagonal), out)
    for i in range(d - 1):
        assert out[i] == i + 1 + int(np.argmax(diagonal[i + 1 :]))
    assert out[-1] == -1
    assert first == int(np.argmax(diagonal))
    assert second == max((j for j in range(d) if j != first), key=lambda j: (diagonal[j], -j))


# --- partners: scatter for rare features, gather for the rest ------------------------------------


WAYS = ["scatter", "gather", "gather_many"]


def partners(way, gradient, features, after):
    """Find partners by one of the ways that `PairGradient.partners` chooses from."""
    if way == "gather":  # up to WIDTH features in one call
        blocks = np.split(features, range(kernels.WIDTH, len(features), kernels.WIDTH))
        return tuple(
            map(np.concatenate, zip(*(gradient._gather(b, after) for b in blocks), strict=True))
        )
    return getattr(gradient, f"_{way}")(features, after)


def dense_partners(C, features, after):
    """Return for each i the largest C_jj + |S_ij| over j ≠ i or j > i, -inf where there is none."""
    values = np.diag(C) + np.abs(C + C.T)
    np.fill_diagonal(values, -np.inf)
    if after:
        values[np.tril_indices_from(values)] = -np.inf
    return values[features]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", WAYS)
@given(case=twins_with_margins(), data=st.data())
def test_partners(way, after, case, data):
    """Value and entry are those of the partner named, and no other is better."""
    twin, margins = case
    C = -twin.dense.gradient(margins)
    d, tolerance = twin.dense.d, 1e-12 * twin.dense.score_size(margins) / twin.dense.scale
    features = np.array(sorted(data.draw(st.sets(st.integers(0, d - 1), min_size=1))))
    value, partner, entry = partners(way, twin.ours.gradient(margins), features, after)
    for row, i, v, j, e in zip(
        dense_partners(C, features, after), features, value, partner, entry, strict=True
    ):
        if after and i == d - 1:
            assert (v, j) == (-np.inf, -1)
        else:
            assert row[j] >= row.max() - tolerance
            assert v == pytest.approx(row[j], abs=tolerance)
            assert e == pytest.approx(C[i, j] + C[j, i], abs=tolerance)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", WAYS)
@given(twin=exact_twins())
def test_partners_tie_to_the_smallest(way, after, twin):
    """Without rounding the partner is the first of the best, also among those with S_ij = 0."""
    features, margins = np.arange(twin.dense.d), np.zeros(twin.dense.T)
    values = dense_partners(-twin.dense.gradient(margins), features, after)
    value, partner, _ = partners(way, twin.ours.gradient(margins), features, after)
    assert_array_equal(value, values.max(axis=1))
    expected = values.argmax(axis=1)
    assert_array_equal(partner, np.where(np.isneginf(value), -1, expected))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("batch", [False, True])
@given(case=twins_with_margins())
def test_all_ways_agree(after, batch, case):
    """They add in another order, so no more than rounding lies between them."""
    twin, margins = case
    subset = np.arange(0, twin.dense.T, 2) if batch else None
    part = twin.dense if subset is None else twin.dense.subproblem(subset)
    size = part.score_size(margins if subset is None else margins[subset]) / part.scale
    gradient, features = twin.ours.gradient(margins, subset), np.arange(twin.dense.d)
    expected, _, _ = gradient.partners(features, after=after)
    for way in WAYS:
        value, _, _ = partners(way, gradient, features, after)
        assert_allclose(value, expected, rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("after", [False, True])
def test_all_ways_agree_on_many_features(after):
    """Several blocks of features, the last not full, some of them rare and some not."""
    X, T = random_arrays(0, n=200, d=101, T=400, density=0.01)
    X[:, ::10] += 0.5
    twin, features = make_twin(X, T), np.arange(101)
    gradient = twin.ours.gradient(np.zeros(400))
    values = dense_partners(-twin.dense.gradient(np.zeros(400)), features, after)
    found = [partners(way, gradient, features, after) for way in WAYS]
    for value, partner, _ in [gradient.partners(features, after=after), *found]:
        assert_allclose(value, values.max(axis=1), atol=1e-13)
        assert_array_equal(partner[:-1], values[:-1].argmax(axis=1))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_partners_in_any_order(way, after):
    """The features asked for may come in any order, and twice."""
    twin, rng = random_twin(0, n=20, d=30, T=100), np.random.default_rng(1)
    features = rng.integers(30, size=25)
    values = dense_partners(-twin.dense.gradient(np.zeros(100)), features, after)
    value, _, _ = partners(way, twin.ours.gradient(np.zeros(100)), features, after)
    assert_allclose(value, values.max(axis=1), atol=1e-13)


# --- threads -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arrays():
    """More than two chunks of triplets, more than two blocks of features, rare and common ones."""
    X, T = random_arrays(3, n=60, d=50, T=2 * kernels.CHUNK + 500, density=0.1)
    X[:, 7] += 0.5
    return sp.csr_array(X), T


@pytest.fixture
def on_threads(arrays, monkeypatch):
    """Run a function of a problem on one thread and on two, however small the work."""
    monkeypatch.setattr(hdsl.backends.cpu.problem, "GRAIN", 1)
    monkeypatch.setattr(hdsl.backends.cpu.problem, "PAIR_GRAIN", 1)

    def run(function, loss="smoothed_hinge", weights=None):
        results = []
        for n_jobs in (1, 2):
            with Workers(n_jobs) as workers:
                data = TripletData(*arrays, workers)
                problem = TripletProblem(data, losses.get(loss), 20.0, 0.3, weights)
                results.append(function(problem))
                assert len(data.chunk_bounds) == len(data.feature_bounds) == n_jobs + 1
        return results

    return run


def everything(problem):
    """Return all that a problem can be asked for at one model, as a list of arrays."""
    d, T = problem.n_features, problem.n_triplets
    some = np.array([[0, 7, 1], [3, 21, -1], [7, 40, 1], [0, 49, -1]])
    margins = problem.margins(some, np.array([0.1, 0.2, 0.3, 0.4]))
    direction = problem.atom_margins(some[1]) - margins
    answers = [margins, problem.value(margins), problem.slope_along(margins, direction, 0.3)]
    for subset in (None, np.arange(0, T, 3)):
        gradient = problem.gradient(margins, subset)
        answers += [gradient.dot(margins), gradient.diagonal, gradient.largest_diagonal(5)]
        answers += [gradient.scores(some), gradient.rows(np.arange(8))]
        answers += [gradient.drift_since(problem.gradient(direction))]
        for features in (np.arange(5), np.arange(d)):
            for after in (False, True):
                answers += gradient.partners(features, after=after)
                for way in WAYS:
                    answers += partners(way, gradient, features, after)
    return [np.asarray(answer) for answer in answers]


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_change_no_bit(on_threads, arrays, weighted):
    weights = np.random.default_rng(0).random(len(arrays[1])) if weighted else None
    one, two = on_threads(everything, weights=weights)
    for a, b in zip(one, two, strict=True):
        assert_array_equal(a, b)


def test_chunks_are_all_counted(arrays):
    """Sums over several chunks of triplets are those of the dense reference."""
    X, T = arrays
    twin = make_twin(X.toarray(), T, scale=20.0, prior=0.3)
    some, weights = np.array([[0, 7, 1], [3, 21, -1]]), np.array([0.25, 0.75])
    margins = twin.ours.margins(some, weights)
    gradient = twin.ours.gradient(margins)
    slope = twin.dense.slope(margins, np.cos(margins), 0.3)
    C = -twin.dense.gradient(margins)
    assert_allclose(margins, twin.dense.margins(some, weights), rtol=1e-11, atol=1e-11)
    assert twin.ours.value(margins) == pytest.approx(twin.dense.value(margins), rel=1e-12)
    assert twin.ours.slope_along(margins, np.cos(margins), 0.3)[0] == pytest.approx(
        slope, rel=1e-11
    )
    assert gradient.dot(margins) == pytest.approx(
        (margins - twin.dense.offset) @ (-twin.dense.omega * twin.dense.ell1(margins)), rel=1e-11
    )
    assert_allclose(gradient.diagonal, np.diag(C), atol=1e-13)
    assert_allclose(gradient.rows(np.arange(8)), (C + C.T)[:8], atol=1e-13)


@pytest.mark.parametrize("loss", ["smoothed_hinge", "logistic"])
@pytest.mark.parametrize("oracle", ["exact", "heuristic", "ascent"])
@pytest.mark.parametrize("batch_size", [None, 100])
def test_threads_change_no_run(on_threads, loss, oracle, batch_size):
    run = partial(solver.frank_wolfe, oracle=oracle, batch_size=batch_size, max_iter=25, tol=0.0)
    one, two = on_threads(lambda problem: run(problem, rng=np.random.default_rng(5)), loss)
    assert_array_equal(one.atoms, two.atoms)
    assert_array_equal(one.weights, two.weights)
    names = [name for name in one.trace.dtype.names if name != "seconds"]
    for name in names:  # NaN and all
        assert one.trace[name].tobytes() == two.trace[name].tobytes()


def test_a_read_only_install():
    """Where compiled code can be kept nowhere, the kernels work all the same."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CompileResultCacheImpl._locator_classes = []  # no folder can be written to\n"
        "import numpy as np\n"
        "from hdsl import _kernels as kernels\n"
        "assert kernels.any_nonzero(np.ones(2)) and not kernels.any_nonzero(np.zeros(2))\n"
        "assert kernels.any_nonzero.stats.cache_path is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_kernel_calls_one_whose_sums_are_reordered():
    # Compiled within the caller too, it may sum in another order, and a process runs whichever of
    # the two it has loaded first: the last bits would depend on what was called before.
    tree = ast.parse(inspect.getsource(kernels))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    reordered = {
        f.name for f in functions if "REORDERED" in " ".join(map(ast.unparse, f.decorator_list))
    }
    assert {"loss_sums", "slopes_along", "dots"} <= reordered
    for function in functions:
        called = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        assert not called & reordered, function.name
