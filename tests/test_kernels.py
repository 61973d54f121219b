"""Compiled loops: each against a slow twin, and the same bits on any number of threads.

Kernels with no test of their own here are compared through the verbs that they serve: see
test_conformance_gradient.py, test_comparisons.py (products, terms) and test_losses.py.
"""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.cpu
import reference
from hdsl.cpu import comparisons, nearness, pairs, rows
from hdsl.cpu import workers as workers_module
from hdsl.cpu.comparisons import Comparisons, make_comparisons
from hdsl.cpu.kernels import gradient as gradient_kernels
from hdsl.cpu.kernels.comparisons import any_nonzero
from hdsl.cpu.kernels.compiler import CHUNK, WIDTH
from hdsl.cpu.kernels.team import JIT_IS_OFF
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.rows import Rows
from hdsl.cpu.workers import Workers
from hdsl.solver import loop, losses
from hdsl.solver.atoms import Atom
from hdsl.solver.oracle import ORACLES
from hdsl.solver.protocols import Move
from hdsl.solver.steps import RULES
from pairwise import pairwise
from strategies import (
    atoms,
    exact_twins,
    make_twin,
    matrices,
    quadruplets,
    random_arrays,
    triplets,
    twins_with_margins,
)

# --- single kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["triplets", "quadruplets", "triplets by pairs"])
@given(X=matrices(), data=st.data())
def test_atom_margins(kind, X, data):
    """They are added to what is there, and a second call finds nothing left by the first."""
    T = data.draw((quadruplets if kind == "quadruplets" else triplets)(len(X)))
    T = T[np.argsort(T[:, 0], kind="stable")]
    make = make_comparisons
    if kind == "triplets by pairs":
        T, make = T[:, [0, 1, 0, 2]], Comparisons
    of = make(Rows(sp.csr_array(X), Workers(1)), T, 1.0 / len(T))
    i, j, sign = data.draw(atoms(X.shape[1]))
    v = X[:, i] + sign * X[:, j]
    a, b, c, d = v[T.T] if T.shape[1] == 4 else v[T[:, [0, 1, 0, 2]].T]
    expected, out = np.arange(float(len(T))), np.arange(float(len(T)))
    for factor in (2.5, -0.5):
        of.add_atom_margins(Atom(i, j, sign), factor, out)
        expected += factor * (a * b - c * d)
        assert_allclose(out, expected, rtol=1e-13, atol=1e-12)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=2, max_size=12), st.data())
def test_largest(diagonal, data):
    """The first of the largest entries after each place, the two largest of all, the k largest."""
    d, values = len(diagonal), np.array(diagonal)
    out = np.empty(d, dtype=np.int64)
    first, second = gradient_kernels.largest_after(values, out)
    assert out.tolist() == [*(i + 1 + int(np.argmax(values[i + 1 :])) for i in range(d - 1)), -1]
    order = np.argsort(-values, kind="stable")
    assert [first, second] == order[:2].tolist()
    out = out[: data.draw(st.integers(0, d))]
    gradient_kernels.largest(values, out)
    assert_array_equal(out, order[: len(out)])


def test_any_nonzero():
    assert not any_nonzero(np.zeros(5))
    assert any_nonzero(np.array([0.0, 0.0, -1e-300]))


@given(twins_with_margins(), st.data())
def test_drift_is_the_bound_by_sizes(case, data):
    """|X|ᵀ |ΔW + ΔWᵀ| y with y_b = max_j |x_bj|."""
    twin, margins = case
    here = twin.ours.gradient(margins)
    there = twin.ours.gradient(data.draw(st.sampled_from([0.0, 0.5, 0.99])) * margins)
    X, change = np.abs(twin.dense.X), np.zeros((len(twin.X), len(twin.X)))
    np.add.at(change, (here.pairs.a, here.pairs.b), np.abs(here.w - there.w))
    expected = X.T @ (change + change.T) @ X.max(axis=1)
    assert_allclose(here.drift_since(there), expected, rtol=1e-12, atol=1e-300)


# --- partners: one row of S at a time, WIDTH in a pass, or many passes ---------------------------


WAYS = ["scatter", "gather", "gather_common", "gather_many"]


def visit_by_rows(pairs):
    """Make half of the features common ones, which come first in each row."""
    rows = pairs.rows
    rows.matrix = rows.matrix.copy()
    rows.matrix.sort_indices()
    rows.row_idx, rows.row_val = rows.matrix.indices.astype(np.int32), rows.matrix.data
    rows.n_common = rows.n_features // 2
    for of, name in ((rows, "common"), (rows, "feature_blocks"), (pairs, "of_blocks")):
        of.__dict__.pop(name, None)


def partners(way, gradient, features, after):
    """Find partners by one of the ways that `CPUGradient.partners` chooses from, by their cost."""
    gradient.pairs.row_cost = np.full(gradient.n_features, 0 if way == "scatter" else 10**12)
    if way == "gather_common":
        visit_by_rows(gradient.pairs)
    n, asked = len(features), features
    if way == "gather_many":
        asked = np.resize(features, max(n, WIDTH + 1))
    step = WIDTH if way.startswith("gather") and way != "gather_many" else len(asked)
    found = [
        gradient.partners(asked[k : k + step], after=after) for k in range(0, len(asked), step)
    ]
    return tuple(np.concatenate(part)[:n] for part in zip(*found, strict=True))


@pytest.mark.parametrize("way", WAYS)
@given(case=twins_with_margins(), after=st.booleans(), batch=st.booleans(), data=st.data())
def test_partners(way, case, after, batch, data):
    """Features may come in any order, and twice."""
    twin, margins = case
    subset = np.arange(0, twin.dense.T, 2) if batch else np.arange(twin.dense.T)
    part, own = twin.dense.subproblem(subset), margins[subset]
    C, tolerance = -part.gradient(own), 1e-12 * part.score_size(own) / part.scale
    features = np.array(data.draw(st.lists(st.integers(0, part.d - 1), min_size=1, max_size=14)))
    gradient = twin.ours.gradient(margins, subset if batch else None)
    found = partners(way, gradient, features, after)
    reference.check_partners(found, C, features, after, tolerance)


@pytest.mark.parametrize("way", WAYS)
@given(twin=exact_twins(), after=st.booleans())
def test_partners_tie_to_the_smallest(way, twin, after):
    """Without rounding the partner is the first of the best, also among those with S_ij = 0."""
    features, margins = np.arange(twin.dense.d), np.zeros(twin.dense.T)
    values = reference.partner_values(-twin.dense.gradient(margins), features, after)
    value, partner, _ = partners(way, twin.ours.gradient(margins), features, after)
    assert_array_equal(value, values.max(axis=1))
    assert_array_equal(partner, np.where(np.isneginf(value), -1, values.argmax(axis=1)))


@pytest.mark.parametrize("after", [False, True])
def test_partners_of_many_features(after):
    """Several blocks of features, the last not full, some of them rare and some not."""
    X, T = random_arrays(0, n=200, d=101, T=400, density=0.01)
    X[:, ::10] += 0.5
    twin, features = make_twin(X, T), np.arange(101)
    gradient = twin.ours.gradient(np.zeros(400))
    values = reference.partner_values(-twin.dense.gradient(np.zeros(400)), features, after)
    found = gradient.partners(features, after=after)  # both ways, by cost
    for value, partner, _ in [found, *(partners(way, gradient, features, after) for way in WAYS)]:
        assert_allclose(value, values.max(axis=1), atol=1e-13)
        assert_array_equal(partner[:-1], values[:-1].argmax(axis=1))


N_JOBS = (1, 2, 3, 8, 16)


# --- threads -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arrays():
    """More than two chunks of triplets, more than two blocks of features, rare and common ones."""
    X, T = random_arrays(3, n=60, d=50, T=2 * CHUNK + 500, density=0.1)
    X[:, 7] += 0.5
    return sp.csr_array(X), T, np.random.default_rng(0).random(len(T))


@pytest.fixture
def on_threads(arrays, monkeypatch):
    """Run a function of a problem on 1, 2, 3, 8 and 16 threads, however small the work."""
    for module in (comparisons, rows):
        monkeypatch.setattr(module, "GRAIN", 1)
    monkeypatch.setattr(workers_module, "TEAM_GRAIN", 1)
    for name in ("PAIR_GRAIN", "LEAST_PRODUCTS", "LEAST_SHARE"):
        monkeypatch.setattr(pairs, name, 1)
    monkeypatch.setattr(rows, "ENTRY_BLOCK", 30)
    monkeypatch.setattr(rows, "MANY_ROWS", 1)
    monkeypatch.setattr(nearness, "LEAST_ROWS", 1)
    monkeypatch.setattr(rows, "COMMON_SHARE", 20)

    def run(function, loss="smoothed_hinge", weighted=False, width=3):
        X, T, weights = arrays
        if width == 4:
            T = np.column_stack([T, T[::-1, 0]])
        results = []
        for n_jobs in N_JOBS:
            with Workers(n_jobs) as workers:
                layout = CPULayout(X, T, weights if weighted else None, workers=workers)
                results.append(function(layout.problem(losses.get(loss), 20.0, 0.3)))
                of = layout.comparisons
                assert len(of.rows.feature_bounds) == n_jobs + 1
                assert workers.team_size(1e5) == (1 if JIT_IS_OFF else n_jobs)
                assert len(of.rows.feature_blocks) > 2
                assert 0 < of.rows.n_common < 50
                assert len(of.pairs.product_parts) > 8
        return results

    return run


def everything(problem):
    """Return all that a problem can be asked for at one model, as a list of arrays."""
    d, T = problem.n_features, problem.n_comparisons
    some = np.array([[0, 7, 1], [3, 21, -1], [7, 40, 1], [0, 49, -1]])
    margins = problem.margins(some, np.array([0.1, 0.2, 0.3, 0.4]))
    direction = problem.direction(margins, Move("forward", Atom(3, 21, -1), None, 1.0))
    answers = [margins, direction, problem.value(margins)]
    answers += [problem.slopes(margins, direction, [0.0, 0.3])]
    answers += problem.advance(margins, direction, 0.3)
    for move in (
        Move("forward", Atom(3, 21, -1), None, 1.0),
        Move("away", None, Atom(0, 7, 1), 0.1),
        Move("pairwise", Atom(3, 21, -1), Atom(7, 40, 1), 0.3),
    ):
        answers += problem.step(margins, move) or ()
        answers += problem.step(margins, move, 0.05)
    for subset in (None, np.arange(0, T, 3)):
        gradient = problem.gradient(margins, subset)
        answers += [gradient.dot(margins), gradient.diagonal, gradient.largest_diagonal(5)]
        answers += [gradient.scores(some), gradient.rows(np.arange(8))]
        answers += gradient.climb((3, 4), 6)
        answers += [gradient.drift_since(problem.gradient(direction, subset))]
        for features in (np.arange(5), np.arange(d)):
            for after in (False, True):
                answers += gradient.partners(features, after=after)
        for way in WAYS:
            answers += partners(way, gradient, np.arange(d), after)
    return [np.asarray(answer) for answer in answers]


@pytest.mark.parametrize(("weighted", "width"), [(False, 3), (True, 3), (True, 4)])
def test_threads_change_no_bit(on_threads, weighted, width):
    one, *others = on_threads(everything, weighted=weighted, width=width)
    for other in others:
        for a, b in zip(one, other, strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("oracle", "loss", "batch_size", "width"),
    pairwise(sorted(ORACLES), ["smoothed_hinge", "logistic"], [None, 100], [3, 4]),
)
def test_threads_change_no_run(on_threads, oracle, loss, batch_size, width):
    def run(problem):
        options = loop.Options(batch_size=batch_size, max_iter=15, tol=0.0)
        rng = np.random.default_rng(5)
        return loop.frank_wolfe(problem, ORACLES[oracle](), RULES["away"], options, rng=rng)

    one, *others = on_threads(run, loss, width=width)
    for other in others:
        assert_array_equal(one.atoms, other.atoms)
        assert_array_equal(one.weights, other.weights)
        for name in set(one.trace.dtype.names) - {"seconds"}:  # NaN and all
            assert one.trace[name].tobytes() == other.trace[name].tobytes()


# --- how they are compiled -----------------------------------------------------------------------


def test_a_read_only_install():
    """Where compiled code can be stored nowhere, the kernels work all the same."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CompileResultCacheImpl._locator_classes = []  # no folder can be written to\n"
        "import numpy as np\n"
        "from hdsl.cpu.kernels.comparisons import any_nonzero\n"
        "assert any_nonzero(np.ones(2)) and not any_nonzero(np.zeros(2))\n"
        "assert any_nonzero.stats.cache_path is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_kernel_calls_one_whose_sums_are_reordered():
    # Compiled within the caller too, it may sum in another order, and a process runs whichever of
    # the two it has loaded first: the last bits would depend on what was called before.
    files = Path(hdsl.cpu.__file__).parent.rglob("*.py")
    functions = [
        node
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]
    reordered = {
        f.name for f in functions if "REORDERED" in " ".join(map(ast.unparse, f.decorator_list))
    }
    assert {"loss_sums", "slopes_along", "dots", "absolute_sums", "take_step"} <= reordered
    for function in functions:
        called = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        assert not called & reordered, function.name
