"""Compiled loops: each against a slow twin, and the same bits on any number of threads.

Kernels with no test of their own here are compared through the verbs that they serve:
see test_conformance.py, test_comparisons.py (pairs, products, pulls) and
test_losses.py.
"""

import ast
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.cpu
import reference
from hdsl.cpu import problem, rows
from hdsl.cpu.atoms import Atoms
from hdsl.cpu.comparisons import ArrayPool, Pairs
from hdsl.cpu.kernels.lines import WIDTH
from hdsl.cpu.kernels.losses import CHUNK
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.solver import loop, losses
from hdsl.solver.atoms import Atom, Correction, Move
from hdsl.solver.oracle import ORACLES, climb
from hdsl.solver.steps import RULES
from pairwise import pairwise
from strategies import (
    exact_twins,
    make_twin,
    models,
    random_arrays,
    random_twin,
    twins,
    twins_with_margins,
)

N_JOBS = (1, 2, 3, 8)

# --- sorts ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", N_JOBS)
@given(data=st.data(), grain=st.sampled_from([0, 10**6]))
def test_sorts_by_counting_are_stable_sorts(n_jobs, data, grain):
    """Items by key, and columns of X from its rows, as NumPy and SciPy sort them."""
    n = data.draw(st.integers(1, 30))
    keys = np.array(
        data.draw(st.lists(st.integers(0, n - 1), max_size=60)), dtype=np.int32
    )
    first = np.arange(len(keys), dtype=np.int32)
    X = sp.csr_array(sp.random(data.draw(st.integers(1, 9)), n, 0.3, random_state=n))
    with Workers(n_jobs, grain=grain) as workers:
        ptr, items, others = rows.grouped(keys, first, first[::-1].copy(), n, workers)
        columns = rows.KernelRows(X, workers).by_column
    assert_array_equal(ptr, np.searchsorted(np.sort(keys), np.arange(n + 1)))
    assert_array_equal(items, np.argsort(keys, kind="stable"))
    assert_array_equal(others, len(keys) - 1 - items)
    for ours, wanted in zip(columns, rows.arrays_of(X.tocsc()), strict=True):
        assert_array_equal(ours, wanted)


def test_memory_serves_again_when_nobody_holds_it():
    pool = ArrayPool(5)
    view = pool.empty()[2:4]
    view[:] = 7.0
    other = pool.empty()
    other[:] = 0.0
    assert view.tolist() == [7.0, 7.0]
    address = other.ctypes.data
    del other
    assert pool.empty().ctypes.data == address


# --- atoms ----------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "grain"), [(0, 20), (5, 1 << 20), (1 << 20, 20)])
@given(twin=twins(), data=st.data())
def test_atoms_at_pairs_of_rows(limit, grain, twin, data):
    """Rows of Z, similarities and scores; scores from stored terms, or without room for them."""
    row_pairs = twin.layout.comparisons.pairs
    X = twin.dense.X
    some, factors = data.draw(models(twin.dense.d))
    w = np.random.default_rng(0).normal(size=row_pairs.n_pairs)
    diagonal = lambda: row_pairs.diagonal(w)  # noqa: E731
    U = np.column_stack([reference.atom_vector(atom, twin.dense.d) for atom in some])
    terms = (X @ U)[row_pairs.a] * (X @ U)[row_pairs.b]
    size = 1e-13 * (1 + np.abs(X).max() ** 2) * len(row_pairs.a) * 8
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_pairs.workers, "grain", grain)
        patch.setattr(row_pairs.rows, "is_small", data.draw(st.booleans()))
        ours = Atoms(row_pairs, terms_limit=limit, piece=5)
        for asked in (
            slice(0, 1),
            slice(None),
            slice(None, None, -1),
        ):  # one comes after another
            found = ours.scores(some[asked], w, diagonal)
            assert_allclose(found, (w @ terms)[asked], rtol=0, atol=size)
        wanted = np.arange(len(X)) % 3 > 0
        active = ours.activate(some)
        ptr, atom, value = active.values_of_rows(wanted)
        places = active.numbers(some)
        shape = (len(X), len(active.signs))
        Z = sp.csr_array((value, atom, ptr), shape).toarray()
        tolerance = 1e-13 * (1 + np.abs(X).max())
        assert_allclose(Z[wanted][:, places], (X @ U)[wanted], rtol=0, atol=tolerance)
        assert_allclose(
            ours.similarities(some, factors), terms @ factors, rtol=0, atol=size
        )
        found = ours.scores(some[::-1], w, diagonal)
        assert_allclose(found, (w @ terms)[::-1], rtol=0, atol=size)
        ours.reset()
        assert_allclose(
            ours.similarities(some[:1], factors[:1]),
            terms[:, 0] * factors[0],
            rtol=0,
            atol=size,
        )


def test_stored_terms_take_memory_up_to_their_limit(monkeypatch):
    """While some atoms come and others go; for a moment they lie in two places."""
    row_pairs = random_twin(0, n=300, d=12, T=9000).layout.comparisons.pairs
    limit = 8 * row_pairs.n_pairs
    ours = Atoms(row_pairs, terms_limit=limit)
    w = np.ones(row_pairs.n_pairs)
    monkeypatch.setattr(row_pairs.rows, "is_small", False)
    every = np.array([[i, j, 1] for i in range(12) for j in range(i + 1, 12)])
    tracemalloc.start()
    for first in range(60):
        ours.scores(every[first : first + 6], w, lambda: w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 12 * limit < peak < 12 * 2.5 * limit


@pytest.mark.parametrize("weighted", [False, True])
def test_a_line_search_that_begins_with_a_sample_asks_all_less_often(
    monkeypatch, weighted
):
    X, triplets = random_arrays(0, n=40, d=12, T=9 * CHUNK)
    omega = np.random.default_rng(0).random(len(triplets)) if weighted else None
    layout = CPULayout(sp.csr_array(X), triplets, omega, workers=Workers(1))
    ours = layout.problem(losses.get("smoothed_hinge"), 1e4)
    asked = []
    found = []
    slopes = ours.slopes
    move = Move("forward", Atom(2, 5, 1), None, 1.0)
    monkeypatch.setattr(
        ours, "slopes", lambda *given: asked.append(0) or slopes(*given)
    )
    ours.least_stride = 4
    for n in (16, 2):
        ours.sampled_chunks = n
        step = ours.step(ours.margins(np.array([[0, 1, 1]]), np.ones(1)), move)
        found.append((step.step_size, len(asked)))
    (size, most), (other, both) = found
    assert size == pytest.approx(other, rel=1e-9)
    assert 0.0 < size < 1.0
    assert both < 2 * most, found


def test_curvature_of_many_comparisons_is_that_of_a_sample(monkeypatch):
    """It depends on the numbers of atoms and curved comparisons, and is near the whole one."""
    twin = make_twin(*random_arrays(0, n=40, d=12, T=3000), "logistic", 3.0)
    some = np.array([[0, 1, 1], [2, 5, -1], [3, 4, 1]])
    margins = twin.ours.margins(some, np.array([0.5, 0.2, 0.3]))
    whole = twin.ours.curvature(margins, some)
    every = np.arange(3000), 1.0
    assert_array_equal(twin.ours.curvature(margins, some, every), whole)
    monkeypatch.setattr("hdsl.solver.protocols.CURVATURE_WORK", 3 * 1000)
    monkeypatch.setattr("hdsl.solver.protocols.PER_ATOM", 1)
    chosen, factor = problem.curvature_sample(3000, 3, lambda step: 3000 // step)
    assert (len(chosen), factor) == (1000, 3.0)
    part = twin.ours.curvature(margins, some)
    assert_array_equal(part, twin.ours.curvature(margins, some, (chosen, factor)))
    assert_allclose(part, whole, atol=0.2 * whole.max())
    parts = [
        twin.ours.curvature(margins, some, (own, 1.0)) for own in np.split(every[0], 3)
    ]
    assert_allclose(sum(parts), whole, rtol=1e-12, atol=1e-15)


# --- partners: one row of S at a time, or WIDTH in a pass -----------------------------

WAYS = {"scatter": np.inf, "gather": 0.0, "turns": 0.0}
each_way = pytest.mark.parametrize("way", WAYS)


def partners(way, of, features, after):
    """Find partners by one of the ways that `partners` chooses from, by their cost."""
    of.pairs.side_by_side = WAYS[way]
    if way == "turns":  # the fullest features first, and the others in parts
        first = of.n_features // 3
        middle = of.n_features // 2
        turns = [[0, first], [first, middle, of.n_features]]
        of.pairs.rows.bounds_by_turn = [np.array(bounds) for bounds in turns]
    return of.partners(features, after=after)


@each_way
@given(
    case=twins_with_margins(), after=st.booleans(), batch=st.booleans(), data=st.data()
)
def test_partners(way, case, after, batch, data):
    """Features may come in any order, and twice."""
    twin, margins = case
    subset = np.arange(0, twin.dense.T, 2) if batch else np.arange(twin.dense.T)
    part = twin.dense.subproblem(subset)
    own = margins[subset]
    C = -part.gradient(own)
    tolerance = 1e-12 * part.score_size(own) / part.scale
    features = np.array(
        data.draw(st.lists(st.integers(0, part.d - 1), min_size=1, max_size=14))
    )
    found = partners(
        way, twin.ours.gradient(margins, subset if batch else None), features, after
    )
    reference.check_partners(found, C, features, after, tolerance)


@each_way
@given(twin=exact_twins(), after=st.booleans())
def test_partners_tie_to_the_smallest(way, twin, after):
    """Without rounding the partner is the first of the best, also among those with S_ij = 0."""
    features = np.arange(twin.dense.d)
    margins = np.zeros(twin.dense.T)
    values = reference.partner_values(-twin.dense.gradient(margins), features, after)
    value, partner, _ = partners(way, twin.ours.gradient(margins), features, after)
    assert_array_equal(value, values.max(axis=1))
    assert_array_equal(partner, np.where(np.isneginf(value), -1, values.argmax(axis=1)))


@each_way
@pytest.mark.parametrize("after", [False, True])
def test_rare_columns_count_in_inner_products_alone(way, after):
    X, T = random_arrays(0, n=40, d=60, T=90, density=0.08)
    X[:, 30] = 0.0
    wanted = np.array([30, 59])  # an empty column and a rare one
    layout = partial(CPULayout, workers=Workers(1), min_rows=4, columns=wanted)
    twin = make_twin(X, T, layout=layout)
    is_common = np.count_nonzero(X, axis=0) >= 4
    assert {*twin.layout.features.tolist()} == {
        *np.flatnonzero(is_common).tolist(),
        *wanted,
    }
    anchors, near, far = (X[rows] for rows in twin.dense.triplets.T)
    dots = (anchors * (near - far)).sum(axis=1)
    assert_allclose(twin.layout.comparisons.dot_margins, dots, rtol=0, atol=1e-14)
    features = np.arange(twin.dense.d)
    margins = np.zeros(len(T))
    for batch in (None, np.arange(0, len(T), 2)):
        of = twin.ours.gradient(margins, batch)
        part = twin.dense if batch is None else twin.dense.subproblem(batch)
        C = -part.gradient(np.zeros(part.T))
        assert_allclose(of.diagonal, np.diag(C), rtol=0, atol=1e-14)
        assert_allclose(of.rows(features), C + C.T, rtol=0, atol=1e-14)
        found = partners(way, of, features, after)
        reference.check_partners(found, C, features, after, 1e-13)


def test_few_features_among_many_rare_columns():
    """The fullest features are an eighth of the entries of features, not of all columns."""
    made = rows.KernelRows(sp.csr_array(np.ones((10, 40))), Workers(1), 2, small=0)
    assert [bounds.tolist() for bounds in made.bounds_by_turn] == [[0, 1], [1, 2]]


@pytest.mark.parametrize("after", [False, True])
def test_partners_of_many_features(after):
    """Several groups of features, the last not full, some of them rare and some not."""
    X, T = random_arrays(0, n=200, d=12 * WIDTH + 5, T=400, density=0.01)
    X[:, ::10] += 0.5
    twin = make_twin(X, T)
    features = np.arange(X.shape[1])
    ours = twin.ours.gradient(np.zeros(400))
    values = reference.partner_values(
        -twin.dense.gradient(np.zeros(400)), features, after
    )
    found = ours.partners(features, after=after)  # both ways, by cost
    for value, partner, _ in [
        found,
        *(partners(way, ours, features, after) for way in WAYS),
    ]:
        assert_allclose(value, values.max(axis=1), atol=1e-13)
        assert_array_equal(partner[:-1], values[:-1].argmax(axis=1))


@given(twins_with_margins(), st.data())
def test_drift_is_the_bound_by_sizes(case, data):
    """|X|ᵀ |ΔW + ΔWᵀ| y with y_b = max_j |x_bj|."""
    twin, margins = case
    here = twin.ours.gradient(margins)
    there = twin.ours.gradient(data.draw(st.sampled_from([0.0, 0.5, 0.99])) * margins)
    X = np.abs(twin.dense.X)
    change = np.zeros((len(twin.X), len(twin.X)))
    np.add.at(change, (here.pairs.a, here.pairs.b), np.abs(here.w - there.w))
    expected = X.T @ (change + change.T) @ X.max(axis=1)
    assert_allclose(here.drift_since(there), expected, rtol=1e-12, atol=1e-300)


# --- threads --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arrays():
    """More than two chunks of triplets, rare and common features."""
    X, T = random_arrays(3, n=60, d=50, T=2 * CHUNK + 500, density=0.1)
    X[:, 7] += 0.5
    return sp.csr_array(X), T, np.random.default_rng(0).random(len(T))


@pytest.fixture
def on_threads(arrays, monkeypatch):
    """Run a function of a problem on several numbers of threads, however small the work."""
    for name in ("least_products", "least_per_feature"):
        monkeypatch.setattr(Pairs, name, 1)

    def run(function, loss="smoothed_hinge", weighted=False, width=3):
        X, T, weights = arrays
        if width == 4:
            T = np.column_stack([T, T[::-1, 0]])
        results = []
        for n_jobs in N_JOBS:
            with Workers(n_jobs, grain=1) as workers:
                layout = CPULayout(X, T, weights if weighted else None, workers=workers)
                # All have work.
                assert len(layout.comparisons.rows.feature_bounds) > n_jobs
                results.append(function(layout.problem(losses.get(loss), 20.0, 0.3)))
        return results

    return run


def everything(ours):
    """Return all that a problem can be asked for at one model, as a list of arrays."""
    d = ours.n_features
    T = ours.n_comparisons
    some = np.array([[0, 7, 1], [3, 21, -1], [7, 40, 1], [0, 49, -1]])
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    margins = ours.margins(some, weights)
    answers = [margins, ours.value(margins), ours.curvature(margins, some)]
    for move in (
        Move("forward", Atom(3, 21, -1), None, 1.0),
        Move("away", None, Atom(0, 7, 1), 0.1),
        Move("pairwise", Atom(3, 21, -1), Atom(7, 40, 1), 0.3),
        Correction("correct", None, None, 1.0, some, 0.25 - weights),
    ):
        direction = ours.direction(margins, move)
        answers += [direction, ours.slopes(margins, direction, [0.0, 0.3])]
        answers += ours.advance(margins, direction, 0.3)
        answers += ours.step(margins, move) or ()
    for subset in (None, np.arange(0, T, 3)):
        of = ours.gradient(margins, subset)
        answers += [of.dot(margins), of.diagonal, of.largest_diagonal(5), of.rounding]
        answers += [
            of.scores(some),
            of.scores(some[:3] - [0, 1, 0]),
            of.rows(np.arange(8)),
        ]
        answers += climb(of, (3, 4), 6)[0]
        answers += [of.drift_since(ours.gradient(direction, subset))]
        for way, after in (("scatter", False), ("gather", True), ("gather", False)):
            answers += partners(way, of, np.arange(d), after)
    return [np.asarray(answer) for answer in answers]


@pytest.mark.parametrize(("weighted", "width"), [(False, 3), (True, 4)])
def test_threads_change_no_bit(on_threads, weighted, width):
    one, *others = on_threads(everything, weighted=weighted, width=width)
    for other in others:
        for a, b in zip(one, other, strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("oracle", "rule", "batch_size"),
    pairwise(sorted(ORACLES), ["away", "corrective"], [None, 100]),
)
def test_threads_change_no_run(on_threads, oracle, rule, batch_size):
    def run(ours):
        options = loop.Options(batch_size=batch_size, max_iter=4, tol=0.0)
        rng = np.random.default_rng(5)
        return loop.frank_wolfe(ours, ORACLES[oracle](), RULES[rule], options, rng=rng)

    one, *others = on_threads(run)
    for other in others:
        assert_array_equal(one.atoms, other.atoms)
        assert_array_equal(one.weights, other.weights)
        for name in set(one.trace.dtype.names) - {"seconds"}:  # NaN and all
            assert one.trace[name].tobytes() == other.trace[name].tobytes()


# --- how they are compiled ------------------------------------------------------------


def test_a_read_only_install():
    """Where compiled code can be stored nowhere, the kernels work all the same."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CompileResultCacheImpl._locator_classes = []  # no folder can be "
        "written to\nfrom hdsl.cpu.kernels.losses import loss\nassert loss(1, 0.0, 0) "
        "== 1.0\nassert loss.stats.cache_path is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_kernel_calls_one_whose_sums_are_reordered():
    # Compiled within the caller too, it may sum in another order, and a process runs
    # whichever of the two it has loaded first: the last bits would depend on what was
    # called before.
    functions = [
        node
        for file in Path(hdsl.cpu.__file__).parent.rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]
    reordered = {
        f.name
        for f in functions
        if "fastmath" in " ".join(map(ast.unparse, f.decorator_list))
    }
    assert {"along", "along_hinge"} <= reordered
    for function in functions:
        called = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        assert not called & reordered, function.name
