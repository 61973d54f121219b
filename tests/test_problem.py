"""The four verbs and the lazy gradient against dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.backends.cpu.problem
import reference
from hdsl.backends.cpu import kernels
from hdsl.backends.cpu.problem import TripletData, TripletProblem
from hdsl.backends.cpu.workers import Workers
from hdsl.core import losses
from hdsl.core.atoms import Atom
from strategies import (
    LOSSES,
    atoms,
    exact_twins,
    make_twin,
    matrices,
    models,
    random_arrays,
    random_twin,
    subsets,
    triplets,
    twins,
    twins_with_margins,
)

# --- the reference itself ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_reference_gradient_is_the_derivative_of_its_value(loss):
    problem = random_twin(0, loss=loss, scale=5.0, prior=0.5).dense
    M = reference.model_matrix([(0, 1, 1), (2, 5, -1)], [0.3, 0.7], problem.d, problem.scale)
    margins = problem.offset + problem.margins_of(M)
    G, h = problem.gradient(margins), 1e-6
    for i, j in np.ndindex(*M.shape):
        E = np.zeros_like(M)
        E[i, j] = h
        rise = problem.value(margins + problem.margins_of(E))
        fall = problem.value(margins - problem.margins_of(E))
        assert G[i, j] == pytest.approx((rise - fall) / (2 * h), abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_reference_optimum_is_certified(loss, scale):
    for seed in range(3):
        upper, lower = random_twin(seed, loss=loss, scale=scale).dense.optimum()
        assert 0 <= upper - lower <= 1e-10


def test_reference_optimum_by_hand():
    """One triplet, two features: margins run from 0 (e1 - e2) to 4·scale (e1 + e2)."""
    X, T = [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [[0, 1, 2]]
    assert_allclose(make_twin(X, T, scale=0.1).dense.optimum(), 0.5 * (1 - 0.4) ** 2, atol=1e-10)
    assert make_twin(X, T, scale=1.0).dense.optimum().upper == pytest.approx(0.0, abs=1e-15)


# --- the data ------------------------------------------------------------------------------------


@given(matrices(), st.data())
def test_data(X, data):
    """Only columns with an entry count, the fullest first; triplets are sorted by anchor."""
    T = data.draw(triplets(len(X)))
    prepared = TripletData(sp.csr_array(X), T, Workers(1))
    a, p, q = X[T[prepared.order]].transpose(1, 0, 2)
    full = np.count_nonzero(X, axis=0)
    assert prepared.features.tolist() == sorted(np.flatnonzero(full), key=lambda j: (-full[j], j))
    assert_array_equal(np.sort(prepared.order), np.arange(len(T)))
    assert (np.diff(T[prepared.order, 0]) >= 0).all()
    assert_allclose(prepared.dot_margins, (a * (p - q)).sum(axis=1), rtol=1e-13, atol=1e-12)
    norms = (a**2).sum(axis=1) * ((p - q) ** 2).sum(axis=1)
    assert_allclose(prepared.squared_norms, norms, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_very_wide_data(index):
    """Columns far apart cost nothing, and their numbers do not leave an int32."""
    columns = np.array([5, 70_000, 2_000_000_000])
    narrow = sp.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]]))
    parts = narrow.data, columns[narrow.indices].astype(index), narrow.indptr.astype(index)
    wide = sp.csr_array(parts, shape=(3, 2_000_000_001))
    data = TripletData(wide, np.array([[0, 1, 2]]), Workers(1))
    assert_array_equal(data.features, columns)
    assert data.n_features == 3
    assert_array_equal(data.rows.toarray(), narrow.toarray())


@given(matrices(), st.data())
def test_what_the_data_knows_of_its_rows(X, data):
    """Pairs that are compared, the largest entry of a row, and what a row of S touches."""
    T = data.draw(triplets(len(X)))
    prepared = TripletData(sp.csr_array(X), T, Workers(1))
    pairs = sorted({tuple(sorted((a, b))) for a, p, q in T.tolist() for b in (p, q)})
    assert list(zip(prepared.pair_a, prepared.pair_b, strict=True)) == pairs
    assert prepared.n_pairs == len(pairs)
    assert_array_equal(prepared.largest_in_row, np.abs(X).max(axis=1))
    # A pair of a row with itself is met twice, once from either end.
    links = [
        [(b if a == r else a) for a, b in pairs for end in (a, b) if end == r]
        for r in range(len(X))
    ]
    full = np.count_nonzero(X, axis=1)
    touched = [
        sum(full[b] for r in X[:, j].nonzero()[0] for b in links[r]) for j in prepared.features
    ]
    assert_array_equal(prepared.reach, touched)


def test_kept_columns_come_last():
    """An empty column that an earlier model uses has a number, and its row of S is zero."""
    X, T = random_arrays(0, d=6)
    X[:, [1, 4]] = 0.0
    data = TripletData(sp.csr_array(X), T, Workers(1), keep=np.array([0, 4, 1, 4]))
    assert data.features[:4].tolist() == [0, 2, 3, 5]
    assert data.features[4:].tolist() == [1, 4]
    gradient = TripletProblem(data, losses.get("logistic"), 2.0).gradient(np.zeros(len(T)))
    assert gradient.n_features == 6
    assert not gradient.diagonal[4:].any()
    assert not gradient.rows(np.array([4, 5])).any()
    assert gradient.diagonal[:4].any()


def test_triplets_of_one_anchor_keep_their_order():
    _, T = random_arrays(0, n=5, T=300)
    order = TripletData(sp.csr_array(np.eye(5)), T, Workers(1)).order
    assert order.tolist() == sorted(range(300), key=lambda t: T[t, 0])


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
def test_parts_cover_everything_once(n, monkeypatch):
    """Two parts where there is much to do, as equal as can be; one where there is little."""
    monkeypatch.setattr(hdsl.backends.cpu.problem, "GRAIN", 4)
    bounds = hdsl.backends.cpu.problem._parts(n)
    assert bounds.tolist() == ([0, n] if n <= 8 else [0, n // 2, n])


@pytest.mark.parametrize("d", [1100, 1200])
def test_columns_are_the_same_in_wide_data(d):
    """The two ways to number columns, in data of few and of many, agree."""
    X = sp.csr_array(([1.0, 2.0, 3.0, 4.0, 5.0], ([0, 0, 1, 1, 2], [3, 900, 3, 900, 700])), (3, d))
    X.indices = X.indices.astype(np.int64)
    for indices in (X.indices, X.indices.astype(np.int32)):
        part = sp.csr_array((X.data, indices, X.indptr), X.shape)
        data = TripletData(part, np.array([[0, 1, 2]]), Workers(1))
        assert data.features.tolist() == [3, 900, 700]
        assert data.features.dtype == np.int64
        assert_array_equal(data.rows.toarray(), [[1, 2, 0], [3, 4, 0], [0, 0, 5]])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("batch", [False, True])
def test_layout(index, batch):
    """Kernels are compiled for one layout, and memory is estimated from it, whatever X had."""
    X, T = random_arrays(0)
    X = sp.csr_array(X)
    X = sp.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), X.shape)
    data = TripletData(X, T, Workers(1))
    if batch:
        data = data.take(np.arange(3, 20))
    n, d, entries, pairs = data.n_rows, data.n_features, data.nnz, data.n_pairs
    pair, ptr, feature, product = data.products
    counts, inner = data._shared_features
    for array, dtype, length in [
        (data.features, np.int64, d), (data.order, np.int64, data.n_triplets),
        (data.row_ptr, np.int64, n + 1), (data.row_idx, np.int32, entries),
        (data.col_ptr, np.int64, d + 1), (data.col_idx, np.int32, entries),
        *((part, np.int32, data.n_triplets) for part in data.triplets),
        (data.anchor_ptr, np.int64, n + 1), (data.positive_pair, np.int32, data.n_triplets),
        (data.negative_pair, np.int32, data.n_triplets), (data.pair_a, np.int32, pairs),
        (data.pair_b, np.int32, pairs), (data.link_ptr, np.int64, n + 1),
        (data.link_row, np.int32, 2 * pairs), (data.link_pair, np.int32, 2 * pairs),
        (counts, np.int64, pairs), (inner, np.float64, pairs), (pair, np.int32, len(pair)),
        (ptr, np.int64, len(pair) + 1), (feature, np.int32, ptr[-1]),
        (product, np.float64, ptr[-1]), (data.row_val, np.float64, entries),
        (data.col_val, np.float64, entries), (data.reach, np.int64, d),
    ]:  # fmt: skip
        assert (array.dtype, array.shape, array.flags.c_contiguous) == (dtype, (length,), True)
    assert data.chunks == 1


@given(matrices(), st.data())
def test_products(X, data):
    """Of pairs that share a feature, the shortest first, and in the order of pairs where equal."""
    prepared = TripletData(sp.csr_array(X), data.draw(triplets(len(X))), Workers(1))
    X = X[:, prepared.features]
    expected = []
    for s, (a, b) in enumerate(zip(prepared.pair_a, prepared.pair_b, strict=True)):
        shared = (X[a] * X[b]).nonzero()[0]
        if len(shared):
            expected.append((len(shared), s, {j: X[a, j] * X[b, j] for j in shared.tolist()}))
    pair, ptr, feature, product = prepared.products
    found = [
        (end - start, s, dict(zip(feature[start:end], product[start:end], strict=True)))
        for s, start, end in zip(pair.tolist(), ptr[:-1], ptr[1:], strict=True)
    ]
    assert found == sorted(expected, key=lambda run: run[:2])


def test_products_are_kept_but_those_of_a_batch():
    """A batch is used once: what takes time to lay out does not pay."""
    twin = random_twin(0)
    margins, subset = np.zeros(30), np.array([2, 3, 7, 20])
    whole, batch = twin.ours.gradient(margins), twin.ours.gradient(margins, subset)
    assert whole.diagonal.any()
    assert batch.diagonal.any()
    assert whole.data.store_products
    assert "products" in vars(whole.data)
    assert not batch.data.store_products
    assert "products" not in vars(batch.data)
    assert_array_equal(batch.data.order, np.arange(4))
    some = np.array([[0, 1, 1], [2, 3, -1]])
    batch.entries(some)
    assert not twin.ours.cross_terms.runs  # nor are the terms of a batch
    whole.entries(some)
    assert set(twin.ours.cross_terms.runs) == {(0, 1), (2, 3)}
    thrifty = TripletData(sp.csr_array(twin.X), twin.triplets, Workers(1), store_products=False)
    again = TripletProblem(thrifty, twin.ours.loss, 1.0).gradient(margins)
    assert_allclose(again.diagonal, whole.diagonal, atol=1e-14)
    assert "products" not in vars(thrifty)


def test_rounding_of_the_dot_product():
    X, T = random_arrays(0)
    twin = make_twin(X * np.arange(1.0, 11.0)[:, np.newaxis], T)
    norm = np.linalg.norm(twin.dense.X, axis=1)
    a, p, q = twin.dense.triplets.T
    expected = 1e-14 * norm[a] * (norm[p] + norm[q])
    assert_allclose(twin.ours.data.dot_rounding, expected, rtol=1e-12)


@pytest.mark.parametrize(("grain", "shared"), [(1, True), (10**9, False)])
def test_threads_share_what_is_worth_it(grain, shared, monkeypatch):
    """By entries of X, by chunks of triplets and by terms, where there are enough of them."""
    monkeypatch.setattr(hdsl.backends.cpu.problem, "GRAIN", grain)
    X = np.ones((6, 8))
    X[1:, 2:] = 0.0  # 6 entries in two columns, 1 in each of the others
    T = np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 1], [5, 1, 2]])
    T = np.vstack([T, np.tile(T[:1], (3 * kernels.CHUNK, 1))])
    monkeypatch.setattr(hdsl.backends.cpu.problem, "PAIR_GRAIN", grain)
    with Workers(2) as workers:
        data = TripletData(sp.csr_array(X), T, workers)
        assert data.chunks == 4
        terms = TripletProblem(data, losses.get("logistic"), 1.0).cross_terms
        # The features of the first atom meet in all pairs, those of the others in pairs of a row.
        *_, bounds = terms._locate(np.array([[0, 1, 1], [0, 2, 1], [0, 3, 1], [0, 4, 1]]))
        split, calls = workers.split, []
        workers.split = lambda n, **how: calls.append((n, how)) or split(n, **how)
        assert len(data.products) == 4
    assert calls == [(data.n_pairs, {"grain": grain})] * 2
    assert data.feature_bounds.tolist() == ([0, 2, 8] if shared else [0, 8])
    assert data.chunk_bounds == ([0, 2, 4] if shared else [0, 4])
    assert bounds == ([0, 1, 4] if shared else [0, 4])


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_more_than_one_chunk_and_part(n_jobs, weighted, monkeypatch):
    """Sums over many triplets are the dense ones, in whatever pieces they are made."""
    monkeypatch.setattr(hdsl.backends.cpu.problem, "GRAIN", 7)
    monkeypatch.setattr(hdsl.backends.cpu.problem, "PAIR_GRAIN", 7)
    X, T = random_arrays(0, T=2 * kernels.CHUNK + 3)
    weights = np.random.default_rng(1).random(len(T)) if weighted else None
    twin = make_twin(X, T, "logistic", 3.0, 0.5, weights, n_jobs=n_jobs)
    rng = np.random.default_rng(2)
    margins, direction = rng.normal(size=(2, len(T)))
    some = np.array([[0, 1, 1], [2, 7, -1], [3, 4, 1]])
    with twin.ours.data.workers:
        data = twin.ours.data
        assert data.chunks == 3
        assert len(data.triplet_parts) == len(data.product_parts) == 3
        _, ptr, *_ = data.products
        half = ptr[data.product_parts[1]]
        assert ptr[-1] / 2 <= half < ptr[-1] / 2 + X.shape[1]
        assert data.product_parts[[0, 2]].tolist() == [0, len(ptr) - 1]
        assert twin.ours.value(margins) == pytest.approx(twin.dense.value(margins), rel=1e-12)
        out, value = twin.ours.advance(margins, direction, 0.25)
        assert_allclose(out, margins + 0.25 * direction, rtol=1e-14, atol=1e-15)
        assert value == pytest.approx(twin.dense.value(out), rel=1e-12)
        gradient = twin.ours.gradient(margins)
        assert_gradient(gradient, twin.dense, margins, some)
        for n in (1, 8):
            assert_partners(gradient, twin.dense, margins, np.arange(n))
        slopes = twin.dense.omega * [
            twin.dense.ell1(out) * direction, twin.dense.ell2(out) * direction**2
        ]  # fmt: skip
        found = twin.ours.slope_along(margins, direction, 0.25)
        assert_allclose(found, slopes.sum(axis=1), rtol=1e-10, atol=1e-14)


def assert_partners(gradient, dense, margins, features):
    """Compare the partners of features with all that there are, after each feature or not."""
    C = -dense.gradient(margins)
    S = C + C.T
    for find in (
        gradient._scatter,
        gradient._gather,
        gradient._gather_many,
        lambda features, after: gradient.partners(features, after=after),
    ):
        for after in (False, True):
            found = find(features, after)
            for i, value, partner, entry in zip(features, *found, strict=True):
                others = [j for j in range(dense.d) if (j > i if after else j != i)]
                if not others:
                    assert (value, partner) == (-np.inf, -1)
                    continue
                j = max(others, key=lambda j: C[j, j] + abs(S[i, j]))
                assert partner == j
                assert_allclose([value, entry], [C[j, j] + abs(S[i, j]), S[i, j]], rtol=1e-10)


@pytest.mark.parametrize(
    ("reach", "n_features", "ways"),
    [
        (5, 1, ["_scatter"]),
        (10, 1, ["_scatter"]),
        (11, 1, ["_gather"]),
        (3, 4, ["_gather"]),
        (1, 8, ["_scatter"]),
        (1, 9, ["_scatter"]),
        (2, 9, ["_gather_many"]),
        ([1] * 5 + [2] * 4, 9, ["_scatter", "_gather_many"]),
    ],
)
def test_the_cheaper_way_to_find_partners(reach, n_features, ways, monkeypatch):
    """Row by row where rows of S touch few of the 20 entries; else side by side, 8 in a pass."""
    X = np.zeros((3, 12))
    X[0, :10] = X[1, 2:] = 1.0
    problem = make_twin(X, [[0, 1, 2], [1, 0, 2]]).ours
    assert problem.data.nnz == 20
    problem.data.__dict__["reach"] = np.resize(reach, 12)
    asked = []
    for way in ("_scatter", "_gather", "_gather_many"):
        original = getattr(hdsl.backends.cpu.problem.PairGradient, way)

        def noted(self, features, after, way=way, original=original):
            asked.append(way)
            return original(self, features, after)

        monkeypatch.setattr(hdsl.backends.cpu.problem.PairGradient, way, noted)
    problem.gradient(np.zeros(2)).partners(np.arange(n_features))
    assert asked == ways
    asked.clear()
    if n_features <= 8:  # a batch is asked once: what rows of S touch is not worth counting
        problem.gradient(np.zeros(2), np.array([0])).partners(np.arange(n_features))
        assert asked == ["_gather"]


@pytest.mark.parametrize(("more", "calls"), [(-1, 1), (0, 1), (1, 2)])
def test_arrays_of_all_columns_where_they_are_few(more, calls, monkeypatch):
    """Up to 1,000 and four times the entries; past it the columns with entries are sorted out."""
    found, unique = [], np.unique
    monkeypatch.setattr(np, "unique", lambda *args, **how: found.append(1) or unique(*args, **how))
    X = sp.csr_array(([1.0, 2.0, 3.0], ([0, 1, 2], [3, 7, 3])), (3, 1012 + more))
    assert TripletData(X, np.array([[0, 1, 2]]), Workers(1)).features.tolist() == [3, 7]
    assert len(found) == calls


def test_rounding_of_the_gradient():
    X, T = random_arrays(0)
    gradient = make_twin(3.0 * X, T).ours.gradient(np.zeros(30))
    largest = 9.0 * np.abs(X).max() ** 2
    expected = 1e-14 * largest * np.abs(gradient.w).sum()
    assert gradient.rounding == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_no_prior_by_default():
    """A prior of 0 is none, not an array of zeros; no weights are equal ones, and take no room."""
    data = random_twin(0).ours.data
    plain = TripletProblem(data, losses.get("logistic"), 1.0)
    assert plain.prior == 0.0
    assert plain.offset is None
    assert (plain.omega.tolist(), plain.omega_step) == ([1 / 30], 0)
    small = TripletProblem(data, losses.get("logistic"), 1.0, 0.01)
    assert_allclose(small.offset, 0.01 * data.dot_margins)


def test_each_atom_has_a_weight():
    with pytest.raises(ValueError, match="shorter"):
        random_twin(0).ours.margins(np.array([[0, 1, 1], [2, 3, 1]]), np.ones(1))


# --- margins and value ---------------------------------------------------------------------------


@given(twins(), st.data())
def test_steps(twin, data):
    """Margins toward an atom, away from one and between two, and what they are worth."""
    ours, dense = twin.ours, twin.dense
    margins = dense.margins(*data.draw(models(dense.d)))
    a, b = (data.draw(atoms(dense.d)) for _ in range(2))
    at = {atom: dense.margins([atom], [1.0]) for atom in (a, b)}
    step = data.draw(st.floats(0.0, 1.0))
    size = 1e-12 * (np.abs(margins).max() + dense.margin_size())
    for toward, away, expected in (
        (a, None, at[a] - margins),
        (None, a, margins - at[a]),
        (a, b, at[a] - at[b]),
    ):
        direction = ours.direction(margins, toward, away)
        assert_allclose(direction, expected, rtol=0, atol=size)
        moved, value = ours.advance(margins, direction, step)
        assert_allclose(moved, margins + step * direction, rtol=1e-15, atol=size)
        assert value == pytest.approx(ours.value(moved), rel=1e-13)


def test_pulls_that_are_all_zero():
    assert not kernels.any_nonzero(np.zeros(5))
    assert kernels.any_nonzero(np.array([0.0, 0.0, -1e-300]))


@given(twins(), st.data())
def test_atom_margins(twin, data):
    atom = data.draw(atoms(twin.dense.d))
    expected = twin.dense.margins([atom], [1.0])
    assert_allclose(
        twin.ours.atom_margins(Atom(*atom)), expected, atol=1e-13 * twin.dense.margin_size()
    )


@given(twins(), st.data())
def test_margins(twin, data):
    """A second call gives the same bits, so that nothing is left behind by the first."""
    model = data.draw(models(twin.dense.d))
    margins = twin.ours.margins(*model)
    expected = twin.dense.margins(*model)
    assert_allclose(margins, expected, atol=1e-13 * twin.dense.margin_size())
    assert_array_equal(twin.ours.margins(*model), margins)


@given(twins())
def test_margins_of_no_atom_are_the_priors(twin):
    margins = twin.ours.margins(np.empty((0, 3), dtype=np.int64), np.empty(0))
    assert_allclose(margins, twin.dense.offset, rtol=1e-12, atol=1e-12)


@given(twins_with_margins())
def test_value(case):
    twin, margins = case
    assert twin.ours.value(margins) == pytest.approx(twin.dense.value(margins), rel=1e-12)


@given(twins_with_margins(), st.floats(0.0, 2.0), st.data())
def test_slope_along(case, step, data):
    twin, margins = case
    direction = twin.dense.margins(*data.draw(models(twin.dense.d))) - margins
    first, second = twin.ours.slope_along(margins, direction, step)
    at = margins + step * direction
    size = twin.dense.omega @ np.abs(direction * twin.dense.ell1(at))
    # A kink at `at` itself leaves the second derivative open: rounding decides the side.
    if np.abs(at[:, None] - [-30.0, 0.0, 1.0]).min() > 1e-9:
        expected = twin.dense.curvature(margins, direction, step)
        assert second == pytest.approx(expected, rel=1e-9, abs=1e-300)
    expected = twin.dense.slope(margins, direction, step)
    # e^-m turns the rounding of a margin, 1e-16 of it, into that much of the slope
    assert first == pytest.approx(expected, abs=1e-12 * size * twin.dense.margin_size())


@given(twins())
def test_lipschitz(twin):
    assert twin.ours.lipschitz() == pytest.approx(twin.dense.lipschitz(), rel=1e-12)


@given(twins(), st.data())
def test_lipschitz_bounds_the_gradient(twin, data):
    """‖∇f(M) - ∇f(M')‖ ≤ L ‖M - M'‖ (equation 5)."""
    dense = twin.dense
    models_ = [data.draw(models(dense.d)) for _ in range(2)]
    M = [reference.model_matrix(*model, dense.d, dense.scale) for model in models_]
    G = [dense.gradient(dense.margins(*model)) for model in models_]
    bound = twin.ours.lipschitz() * np.linalg.norm(M[0] - M[1])
    assert np.linalg.norm(G[0] - G[1]) <= bound * (1 + 1e-9) + 1e-9


# --- the lazy gradient ---------------------------------------------------------------------------


def assert_gradient(gradient, dense, margins, some_atoms):
    """Compare all that a PairGradient can be asked for with C = -∇f, d × d."""
    C = -dense.gradient(margins)
    S = C + C.T
    d, size = dense.d, 1e-12 * max(dense.score_size(margins), 1e-290)
    tolerance = {"rtol": 0.0, "atol": size / dense.scale}
    i, j, _ = some_atoms.T
    assert_allclose(gradient.diagonal, np.diag(C), **tolerance)
    for start in range(0, d, 8):
        features = np.arange(start, min(start + 8, d))
        assert_allclose(gradient.rows(features), S[features], **tolerance)
    assert_allclose(gradient.rows(np.array([d - 1, 0])), S[[d - 1, 0]], **tolerance)
    atoms = np.column_stack([i, j, np.ones_like(i)])
    assert_allclose(gradient.entries(atoms), S[i, j], **tolerance)
    assert_allclose(gradient.scores(some_atoms), dense.scores(margins, some_atoms), atol=size)
    assert gradient.n_features == d
    assert gradient.is_zero() == (not dense.ell1(margins).any())


@given(twins_with_margins(), st.data())
def test_gradient(case, data):
    twin, margins = case
    some_atoms = np.array(data.draw(st.lists(atoms(twin.dense.d), min_size=1, max_size=6)))
    gradient = twin.ours.gradient(margins)
    assert_gradient(gradient, twin.dense, margins, some_atoms)
    assert gradient.covers_all


@given(twins_with_margins(), st.data())
def test_batch_gradient_is_that_of_its_triplets_alone(case, data):
    twin, margins = case
    some_atoms = np.array(data.draw(st.lists(atoms(twin.dense.d), min_size=1, max_size=6)))
    subset = data.draw(subsets(twin.dense.T))
    gradient = twin.ours.gradient(margins, subset)
    assert_gradient(gradient, twin.dense.subproblem(subset), margins[subset], some_atoms)
    assert not gradient.covers_all


@pytest.mark.parametrize("batch", [False, True])
@given(twin=twins(), data=st.data())
def test_dot(batch, twin, data):
    """⟨M, -∇f⟩ of the learned part alone, whatever the prior; another model's may be asked too."""
    here, other = (data.draw(models(twin.dense.d)) for _ in range(2))
    margins, others = twin.dense.margins(*here), twin.dense.margins(*other)
    subset = data.draw(subsets(twin.dense.T)) if batch else np.arange(twin.dense.T)
    part = twin.dense.subproblem(subset)
    M = reference.model_matrix(*other, part.d, part.scale)
    expected = -(M * part.gradient(margins[subset])).sum()
    size = (part.omega * np.abs(part.ell1(margins[subset]))).sum() * twin.dense.margin_size()
    gradient = twin.ours.gradient(margins, subset if batch else None)
    assert gradient.dot(others) == pytest.approx(expected, abs=1e-12 * size)


@given(twins(), st.data())
def test_scores_and_dot_agree(twin, data):
    """⟨M, -∇f⟩ is the weighted mean of the atoms' scores."""
    chosen, weights = data.draw(models(twin.dense.d))
    margins = twin.ours.margins(chosen, weights)
    gradient = twin.ours.gradient(margins)
    size = (twin.dense.omega @ np.abs(twin.dense.ell1(margins))) * twin.dense.margin_size()
    size += twin.dense.score_size(margins)
    mean = weights @ gradient.scores(chosen)
    assert gradient.dot(margins) == pytest.approx(mean, abs=1e-12 * size)


@given(exact_twins(), st.integers(1, 13))
def test_largest_diagonal(twin, count):
    """The largest first, and the first of equals first."""
    margins = np.zeros(twin.dense.T)
    diagonal = -np.diag(twin.dense.gradient(margins))
    found = twin.ours.gradient(margins).largest_diagonal(count)
    assert_array_equal(found, np.argsort(-diagonal, kind="stable")[:count])


@given(twins(), st.data())
def test_drift_bounds_every_row(twin, data):
    """|S_ij - S_ij at another model| is at most the drift of i, whatever j is."""
    S, gradients, size = [], [], 0.0
    for _ in range(2):
        margins = twin.dense.margins(*data.draw(models(twin.dense.d)))
        C = -twin.dense.gradient(margins)
        S.append(C + C.T)
        gradients.append(twin.ours.gradient(margins))
        size += twin.dense.score_size(margins) / twin.dense.scale
    change = np.abs(S[0] - S[1])
    np.fill_diagonal(change, 0.0)
    assert (change.max(axis=1) <= gradients[0].drift_since(gradients[1]) + 1e-12 * size).all()


def test_gradient_is_zero_when_all_are_satisfied():
    X, T = [[2.0, 1.0], [2.0, 1.0], [0.0, 0.0]], [[0, 1, 2]]
    problem = make_twin(X, T, prior=1.0).ours
    gradient = problem.gradient(problem.atom_margins(Atom(0, 1, 1)))
    assert gradient.is_zero()
    assert not gradient.diagonal.any()
    assert not gradient.rows(np.array([0, 1])).any()


def test_opposite_pulls_cancel_but_are_not_zero():
    """Two contradictory triplets pull on the same pairs: C = 0, yet both are violated."""
    X, T = [[2.0, 1.0], [2.0, 1.0], [0.0, 0.0]], [[0, 1, 2], [0, 2, 1]]
    gradient = make_twin(X, T).ours.gradient(np.zeros(2))
    assert not gradient.is_zero()
    assert not gradient.diagonal.any()


# --- what must make no difference ----------------------------------------------------------------


@given(matrices(), st.data())
def test_a_weight_is_a_repetition(X, data):
    T = data.draw(triplets(len(X), sizes=st.integers(1, 8)))
    times = data.draw(st.lists(st.integers(1, 3), min_size=len(T), max_size=len(T)))
    weighted = make_twin(X, T, scale=2.0, weights=times)
    repeated = make_twin(X, np.repeat(T, times, axis=0), scale=2.0)
    model = data.draw(models(weighted.dense.d))
    answers = []
    for problem in (weighted.ours, repeated.ours):
        margins = problem.margins(*model)
        gradient = problem.gradient(margins)
        answers.append((problem.value(margins), gradient.dot(margins), gradient.scores(model[0])))
        answers[-1] += (gradient.diagonal, problem.lipschitz())
    for a, b in zip(*answers, strict=True):
        assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@given(twins_with_margins(), st.floats(0.01, 100.0))
def test_only_ratios_of_weights_matter(case, factor):
    twin, margins = case
    weights = np.ones(len(twin.triplets)) if twin.weights is None else twin.weights
    loss, scale = twin.dense.loss, twin.dense.scale
    again = make_twin(twin.X, twin.triplets, loss, scale, twin.dense.prior, factor * weights)
    expected = twin.ours.gradient(margins).diagonal
    size = twin.dense.score_size(margins) / scale
    assert again.ours.value(margins) == pytest.approx(twin.ours.value(margins), rel=1e-12)
    assert_allclose(again.ours.gradient(margins).diagonal, expected, atol=1e-12 * size)


@given(matrices(), st.data())
def test_a_triplet_of_weight_zero_is_not_there(X, data):
    T = data.draw(triplets(len(X), sizes=st.integers(2, 10)))
    kept = data.draw(subsets(len(T)))
    weights = np.zeros(len(T))
    weights[kept] = 1.0
    model = data.draw(models(int(X.any(axis=0).sum())))
    with_it, without = make_twin(X, T, weights=weights).ours, make_twin(X, T[kept]).ours
    values = [problem.value(problem.margins(*model)) for problem in (with_it, without)]
    scores = [
        problem.gradient(problem.margins(*model)).scores(model[0]) for problem in (with_it, without)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert_allclose(scores[0], scores[1], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("limit", [0, 1, 40])
def test_entries_with_little_room(limit, monkeypatch):
    """Scores are the same when what they are summed from cannot all be kept."""
    monkeypatch.setattr(hdsl.backends.cpu.problem, "CROSS_TERMS_LIMIT", limit)
    twin, rng = random_twin(1, n=12, d=10, T=40), np.random.default_rng(2)
    everyone = np.array(reference.all_atoms(10))
    for _ in range(20):
        margins = rng.normal(size=40)
        some = everyone[rng.choice(len(everyone), size=7)]
        scores = twin.ours.gradient(margins).scores(some)
        assert_allclose(scores, twin.dense.scores(margins, some), atol=1e-13)
        assert twin.ours.cross_terms.used <= limit


def test_terms_that_are_not_asked_for_are_forgotten(monkeypatch):
    """Past the limit only the pairs of the last question are kept, without gaps."""
    twin = random_twin(1, n=12, d=10, T=40)
    terms, w = twin.ours.cross_terms, twin.ours.gradient(np.zeros(40)).w
    first, second = np.array([[0, 1, 1], [2, 3, 1], [4, 5, 1]]), np.array([[2, 3, 1], [6, 7, 1]])
    expected = [terms.entries(some, w) for some in (first, second)]
    size = {pair: end - start for pair, (start, end) in terms.runs.items()}
    assert terms.used == sum(size.values())
    monkeypatch.setattr(hdsl.backends.cpu.problem, "CROSS_TERMS_LIMIT", terms.used - 1)
    again = type(terms)(twin.ours.data)
    assert_array_equal(again.entries(first, w), expected[0])
    assert set(again.runs) == {(0, 1), (2, 3), (4, 5)}
    assert_array_equal(again.entries(second, w), expected[1])
    assert set(again.runs) == {(2, 3), (6, 7)}
    assert again.used == size[2, 3] + size[6, 7] == max(end for _, end in again.runs.values())


@pytest.mark.parametrize("room", ["both", "less", "one"])
def test_terms_are_forgotten_for_want_of_room_alone(room, monkeypatch):
    twin = random_twin(1, n=12, d=10, T=40)
    w, full = twin.ours.gradient(np.zeros(40)).w, twin.ours.cross_terms
    both = np.array([[0, 1, 1], [2, 3, 1]])
    full.entries(both, w)
    last = np.diff(full.runs[2, 3])[0]
    limit = {"both": full.used, "less": full.used - 1, "one": last}[room]
    monkeypatch.setattr(
        hdsl.backends.cpu.problem, "CROSS_TERMS_LIMIT", max(limit, full.runs[0, 1][1])
    )
    terms = type(full)(twin.ours.data)
    terms.entries(both[:1], w)
    monkeypatch.setattr(hdsl.backends.cpu.problem, "CROSS_TERMS_LIMIT", limit)
    terms.entries(both[1:], w)
    assert list(terms.runs) == ([(0, 1), (2, 3)] if room == "both" else [(2, 3)])


@pytest.mark.parametrize("missing", [0, 1])
def test_terms_that_just_fit_are_kept(missing, monkeypatch):
    """Nothing is forgotten, and nothing left out, while there is room to the last term."""
    twin = random_twin(1, n=12, d=10, T=40)
    w = twin.ours.gradient(np.zeros(40)).w
    both = np.array([[0, 1, 1], [2, 3, 1]])
    expected = twin.ours.cross_terms.entries(both, w)
    runs, used = twin.ours.cross_terms.runs, twin.ours.cross_terms.used
    monkeypatch.setattr(hdsl.backends.cpu.problem, "CROSS_TERMS_LIMIT", used - missing)
    terms = type(twin.ours.cross_terms)(twin.ours.data)
    assert_array_equal(terms.entries(both[:1], w), expected[:1])
    assert_allclose(terms.entries(both, w), expected, rtol=1e-13)
    assert list(terms.runs) == list(runs)[: 2 - missing]
    # Alone, the one has room that had none beside the other.
    assert_array_equal(terms.entries(both[1:], w), expected[1:])
    assert (2, 3) in terms.runs


def test_known_terms_are_those_of_another_object():
    twin = random_twin(1, n=12, d=10, T=40)
    w, first = twin.ours.gradient(np.zeros(40)).w, twin.ours.cross_terms
    assert first.known.shape == (0, 2)
    first.entries(np.array([[4, 5, 1], [0, 1, -1], [2, 3, 1]]), w)
    assert first.known.dtype == np.int64
    assert first.known.tolist() == [[4, 5], [0, 1], [2, 3]]
    second = type(first)(twin.ours.data)
    second.learn(first.known)
    assert second.runs == first.runs
    assert_array_equal(second.pair[: second.used], first.pair[: first.used])
    assert_array_equal(second.value[: second.used], first.value[: first.used])
    degree = np.diff(twin.ours.data.link_ptr)
    assert first.bound.tolist() == [degree[column != 0].sum() for column in twin.dense.X.T]


def test_problems_share_their_data():
    """One TripletData serves several losses and scales."""
    twin = random_twin(4)
    model = np.array([[0, 1, 1], [2, 3, -1]]), np.array([0.5, 0.5])
    for loss in LOSSES:
        for scale, prior in [(1.0, 0.0), (7.0, 2.0)]:
            ours = TripletProblem(twin.ours.data, losses.get(loss), scale, prior)
            dense = reference.Problem(twin.dense.X, twin.dense.triplets, loss, scale, prior)
            margins = ours.margins(*model)
            assert_allclose(margins, dense.margins(*model), atol=1e-13 * scale)
            assert_gradient(ours.gradient(margins), dense, margins, model[0])
