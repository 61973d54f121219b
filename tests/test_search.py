"""The k largest inner products: the same as by forming all of them, in the same order."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl import memory, search
from hdsl.cpu import workers
from hdsl.cpu.kernels import search as search_kernels
from hdsl.rows import unit_rows
from hdsl.search import all_pairs, fill
from strategies import FLOATS, INTEGERS, matrices

FORMS = {
    "sparse": (sp.csr_array, sp.csr_array),
    "dense": (np.asarray, np.asarray),
    "sparse queries": (sp.csc_matrix, np.asarray),
    "sparse index": (np.asarray, sp.coo_array),
}
sparse_or_dense = pytest.mark.parametrize("form", [np.asarray, sp.csr_array])


@st.composite
def searches(draw, elements):
    """Queries, one perhaps empty, an index, and k up to the number of its rows."""
    index = draw(matrices(elements=elements))
    d = index.shape[1]
    queries = draw(matrices(elements=elements, min_features=d, max_features=d))
    if draw(st.booleans()):
        queries[draw(st.integers(0, len(queries) - 1))] = 0.0
    return queries, index, draw(st.integers(1, len(index)))


def assert_found(neighbors, expected):
    """Exact arithmetic: the same rows in the same order."""
    assert_array_equal(neighbors.scores, expected[0])
    assert_array_equal(neighbors.rows, expected[1])
    assert (neighbors.size == expected[1].shape[1]).all()


@pytest.fixture(scope="module", params=[fill.FEW, 0], ids=["few", "many"])
def few_or_many(request):
    """Search as few rows are searched, and as many are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fill, "FEW", request.param)
        yield


# --- against all inner products -------------------------------------------------------


@pytest.mark.usefixtures("few_or_many")
@sparse_or_dense
@given(case=searches(INTEGERS), data=st.data())
def test_rows_and_ties_are_those_of_the_slow_twin(form, case, data):
    queries, index, k = case
    assert_found(search.top_k(form(queries), form(index), k), reference.top_k(*case))
    k = data.draw(st.integers(1, len(index) - 1))
    rows = form(index)
    neighbors = search.top_k(rows, rows, k, exclude_self=True)
    assert_found(neighbors, reference.top_k(index, index, k, exclude_self=True))


@pytest.mark.usefixtures("few_or_many")
@pytest.mark.parametrize("form", FORMS)
@given(case=searches(FLOATS))
@settings(max_examples=30)
def test_scores_are_the_largest_products_up_to_rounding(form, case):
    queries, index, k = case
    make_queries, make_index = FORMS[form]
    neighbors = search.top_k(make_queries(queries), make_index(index), k)
    assert_allclose(
        neighbors.scores, reference.top_k(queries, index, k)[0], rtol=0, atol=1e-12
    )
    products = np.take_along_axis(queries @ index.T, neighbors.rows, axis=1)
    assert_allclose(neighbors.scores, products, rtol=0, atol=1e-12)
    assert all(len(set(row)) == k for row in neighbors.rows.tolist())
    assert (np.diff(neighbors.scores, axis=1) <= 0).all()


@given(searches(INTEGERS), st.sampled_from([np.float32, np.int32]))
@settings(max_examples=20)
def test_products_are_in_float64_whatever_the_input(case, dtype):
    queries, index, k = case
    for form in (np.asarray, sp.csr_array):
        neighbors = search.top_k(
            form(queries.astype(dtype)), form(index.astype(dtype)), k
        )
        assert neighbors.scores.dtype == np.float64
        assert_found(neighbors, reference.top_k(queries, index, k))


@pytest.mark.usefixtures("few_or_many")
@given(X=matrices(elements=INTEGERS), data=st.data())
def test_neighbors_by_label_are_those_of_the_slow_twin(X, data):
    n = len(X)
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    widths = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    neighbors = search.neighbors_by_label(sp.csr_array(X), labels, *widths)
    for r in range(n):
        for same_or_other, is_candidate in zip(
            neighbors, (labels == labels[r], labels != labels[r]), strict=True
        ):
            candidates = np.flatnonzero(is_candidate & (np.arange(n) != r))
            scores, rows = reference.top_k(
                X[[r]], X[candidates], same_or_other.rows.shape[1]
            )
            rows = candidates[rows[0].astype(int)]
            assert same_or_other.size[r] == len(rows)
            assert_array_equal(same_or_other.rows[r, : len(rows)], rows)
            assert_array_equal(same_or_other.scores[r, : len(rows)], scores[0])


# --- larger searches ------------------------------------------------------------------


def large(seed=0, m=101, n=330, d=60, density=0.1):
    """Several blocks of queries, the last not full, and many ties."""
    rng = np.random.default_rng(seed)
    queries, index = (
        rng.integers(-3, 4, size=(rows, d)) * (rng.random((rows, d)) < density)
        for rows in (m, n)
    )
    return queries.astype(float), index.astype(float)


@pytest.mark.usefixtures("few_or_many")
@sparse_or_dense
def test_many_rows(form):
    queries, index = large()
    for k in (1, 7, 330):
        neighbors = search.top_k(form(queries), form(index), k)
        assert_found(neighbors, reference.top_k(queries, index, k))


def test_sparse_blocks_change_nothing(monkeypatch):
    """Ties and the query's own row among them: small whole numbers."""
    X = sp.csr_array(
        np.random.default_rng(0).integers(-1, 3, size=(61, 9)).astype(float)
    )
    labels = np.arange(61) % 3
    neighbors = search.neighbors_by_label(X, labels, 4, 6)
    monkeypatch.setattr(fill, "FEW", 0)
    monkeypatch.setattr(fill, "SPARSE_BLOCK", 8)
    for whole, blocks in zip(
        neighbors, search.neighbors_by_label(X, labels, 4, 6), strict=True
    ):
        for a, b in zip(whole, blocks, strict=True):
            assert_array_equal(a, b)


@given(
    seed=st.integers(0, 2**16),
    kind=st.sampled_from(["counts", "weights", "signed", "far apart", "halves"]),
    n=st.integers(20, 300),
    density=st.sampled_from([0.05, 0.2, 0.9]),
    n_classes=st.sampled_from([2, 9, 60]),
    n_jobs=st.integers(1, 2),
)
@settings(deadline=None, max_examples=60)
def test_rows_that_meet_once_have_the_lists_of_rows_one_by_one(
    seed, kind, n, density, n_classes, n_jobs
):
    """The same bits: equal rows, ties, inner products of 0, rare labels, and what float32 lacks."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 40)) < density * rng.random(40)
    values = {
        "counts": rng.integers(1, 4, X.shape),
        "weights": rng.random(X.shape),
        "signed": rng.normal(size=X.shape),
        "far apart": 10.0 ** rng.integers(-40, 40, X.shape),
        "halves": 1e150 * 0.5 ** rng.integers(0, 9, X.shape),
    }
    rows = np.where(X, values[kind], 0.0)[rng.integers(n, size=n)]
    X = sp.csr_array(rows)
    labels = rng.integers(n_classes, size=n)
    expected = (
        *search.neighbors_by_label(X, labels, 4, 6),
        search.top_k(X, X, 3, exclude_self=True),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fill, "FEW", 0)
        patch.setattr(all_pairs, "LEAST_ROWS", 16)
        patch.setattr(all_pairs, "BLOCK_ROWS", 64)
        patch.setattr(all_pairs, "LEAST_PRODUCTS", 0.0)
        by_label = search.neighbors_by_label(X, labels, 4, 6, n_jobs=n_jobs)
        neighbors = *by_label, search.top_k(X, X, 3, exclude_self=True, n_jobs=n_jobs)
    for one, other in zip(expected, neighbors, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.tobytes() == b.tobytes()


def test_equal_dense_rows_come_by_number():
    """BLAS rounds products by the place of a row."""
    rng = np.random.default_rng(0)
    for n_columns in (16, 32, 100):
        for n_rows in (5, 7, 9):
            index = np.repeat(rng.normal(size=(1, n_columns)), n_rows, axis=0)
            for n_queries in (1, 4):
                queries = rng.normal(size=(n_queries, n_columns))
                neighbors = search.top_k(queries, index, n_rows)
                assert (np.diff(neighbors.rows) == 1).all()
                assert (neighbors.scores == neighbors.scores[:, :1]).all()


@given(matrix=matrices(elements=INTEGERS), columns=st.integers(1, 3))
def test_first_equal_rows(matrix, columns):
    first_rows = fill.first_equal_rows(matrix, columns)
    rows = matrix.tolist()
    assert first_rows.tolist() == [rows.index(row) for row in rows]


def test_dense_blocks_change_nothing(monkeypatch):
    queries, index = large()
    monkeypatch.setattr(fill, "DENSE_BLOCK", 1000)  # three queries per block
    expected = reference.top_k(queries, index, 5)
    assert_found(search.top_k(queries, index, 5, n_jobs=2), expected)
    expected = reference.top_k(index, index, 5, exclude_self=True)
    assert_found(search.top_k(index, index, 5, exclude_self=True), expected)


# --- interrupts -----------------------------------------------------------------------


def test_an_interrupt_is_served_after_one_turn_of_pieces(monkeypatch):
    """Ctrl-C waits for the pieces under way, each some hundredths of a second, on one thread too.

    The test counts pieces: an interrupt is raised in the second, and none runs
    afterwards.
    """
    X = sp.csr_array(large()[1])
    kernel = search_kernels.top_by_columns
    ran = []

    def interrupted(start, stop, *args):
        ran.append(stop - start)
        kernel(start, stop, *args)
        if len(ran) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(fill, "FEW", 0)
    monkeypatch.setattr(search_kernels, "top_by_columns", interrupted)
    monkeypatch.setattr(workers, "PIECE", 1.0)
    with pytest.raises(KeyboardInterrupt):
        search.neighbors_by_label(X, np.arange(X.shape[0]) % 2, 3, 5, n_jobs=1)
    assert ran == [1, 1]


def test_pieces_are_short():
    """A piece has a bounded number of multiplications, whatever the number of threads."""
    for n_jobs in (1, 2):
        with workers.Workers(n_jobs) as threads:
            seen = []
            threads.run_pieces(
                lambda *bounds, seen=seen: seen.append(bounds), 10**6, 1000.0
            )
        assert sorted(start for start, _ in seen) == sorted(
            {start for start, _ in seen}
        )
        assert sum(stop - start for start, stop in seen) == 10**6
        assert max(stop - start for start, stop in seen) * 1000.0 <= workers.PIECE


# --- edges ----------------------------------------------------------------------------


@sparse_or_dense
def test_rows_without_a_shared_feature_come_before_negative_ones(form):
    index = np.array([[-1.0, 0], [0, 5], [-2, 0], [0, 0], [3, 0]])
    neighbors = search.top_k(form([[1.0, 0]]), form(index), 5)
    assert neighbors.rows.tolist() == [[4, 1, 3, 0, 2]]
    assert neighbors.scores.tolist() == [[3.0, 0.0, 0.0, -1.0, -2.0]]


@sparse_or_dense
def test_fewer_rows_than_k_and_no_queries(form):
    neighbors = search.top_k(form([[1.0, 2]]), form([[1.0, 0], [0, 1]]), 3)
    assert neighbors.rows.tolist() == [[1, 0, -1]]
    assert neighbors.scores.tolist() == [[2.0, 1.0, -np.inf]]
    assert neighbors.size.tolist() == [2]
    alone = search.top_k(form([[1.0, 2]]), form([[1.0, 0]]), 1, exclude_self=True)
    assert alone.size.tolist() == [0]
    nothing = search.top_k(form(np.empty((0, 3))), form(np.ones((4, 3))), 2, n_jobs=2)
    assert nothing.rows.shape == nothing.scores.shape == (0, 2)


def test_unsorted_rows_with_duplicates_and_stored_zeros_are_not_changed():
    messy = sp.csr_array(
        (np.array([1.0, 2, 3, 0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])),
        shape=(2, 3),
    )
    before = messy.data.copy(), messy.indices.copy()
    neighbors = search.top_k(messy, np.eye(3), 3)
    assert neighbors.scores.tolist() == [[4.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    assert neighbors.rows.tolist() == [[2, 0, 1], [0, 1, 2]]
    assert_array_equal(messy.data, before[0])
    assert_array_equal(messy.indices, before[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, r"'k' parameter of top_k must be an int >= 1\. Got 0"),
        ({"k": 1.5}, r"'k' parameter of top_k must be an int >= 1\. Got 1\.5"),
        ({"index": np.ones((4, 2))}, "queries has 3 features and index has 2"),
        ({"queries": np.ones(3)}, r"queries must have shape .* Got shape \(3,\)"),
        ({"index": np.full((4, 3), np.nan)}, r"index\[0, 0\] is NaN"),
        ({"index": np.full((4, 3), 1e308)}, "may overflow: .* index up to 1e\\+308"),
        ({"exclude_self": True}, "there are 2 queries and 4 rows"),
    ],
)
def test_messages(change, message):
    arguments = {"queries": np.ones((2, 3)), "index": np.ones((4, 3)), "k": 1, **change}
    with pytest.raises(ValueError, match=message):
        search.top_k(**arguments)


def test_an_answer_that_does_not_fit_in_memory_is_refused(monkeypatch):
    """Before it is allocated, however many rows there are."""
    index = search.Index(np.eye(3))
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    assert index.top_k(np.ones((10_000, 3)), k=3).rows.shape == (10_000, 3)
    for k in (2, 4):
        with pytest.raises(MemoryError, match=f"list of {k} neighbours.*smaller k"):
            index.top_k(np.ones((100_000, 3)), k=k)


# --- everything above a threshold -----------------------------------------------------


@given(searches(INTEGERS), st.integers(1, 6), st.booleans())
@settings(deadline=None)
def test_above_is_what_all_products_say(drawn, threshold, is_same):
    queries, index, _ = drawn
    queries = index if is_same else queries
    products = queries @ index.T
    if is_same:
        np.fill_diagonal(products, 0.0)
    reaching = search.above(
        sp.csr_array(queries), index, threshold, exclude_self=is_same
    )
    assert_array_equal(
        reaching.toarray(), np.where(products >= threshold, products, 0.0)
    )
    assert reaching.has_canonical_format


def test_above_of_many_rows_in_blocks():
    X = sp.random_array((500, 300), density=0.05, random_state=0, format="csr")
    X = unit_rows(sp.csr_array(X))
    expected = (X @ X.T).toarray()
    expected[expected < 0.3] = 0.0
    assert_allclose(search.above(X, X, 0.3).toarray(), expected, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hdsl.search.products.BLOCK_PRODUCTS", 20_000)
        assert_allclose(search.above(X, X, 0.3).toarray(), expected, atol=1e-12)


def test_above_of_nothing():
    assert search.above(np.zeros((0, 3)), np.eye(3), 0.5).shape == (0, 3)
    assert search.above(np.eye(3), np.zeros((0, 3)), 0.5).shape == (3, 0)
    assert search.above(np.eye(3), np.zeros((2, 3)), 0.5).nnz == 0


@pytest.mark.parametrize(
    "scales", [(1e200, 1.0), (1.0, 1e200), (1e200, 1e-200), (1.0, 1e-200)]
)
def test_above_takes_values_whose_squares_overflow(scales):
    A, B = np.random.default_rng(0).random((2, 9, 5))
    products = (scales[0] * A) @ (scales[1] * B).T
    threshold = float(np.median(products)) * 1.0001
    reaching = search.above(scales[0] * A, scales[1] * B, threshold).toarray()
    assert_allclose(
        reaching, np.where(products >= threshold, products, 0.0), rtol=1e-12
    )


def test_above_says_what_is_wrong():
    with pytest.raises(ValueError, match="threshold"):
        search.above(np.eye(3), np.eye(3), 0.0)
    with pytest.raises(ValueError, match="same features"):
        search.above(np.eye(3), np.eye(4), 0.5)
    with pytest.raises(ValueError, match="same rows"):
        search.above(np.eye(3), np.ones((2, 3)), 0.5, exclude_self=True)
    with pytest.raises(MemoryError, match="higher threshold"):
        search.above(np.ones((50, 3)), np.ones((50, 3)), 0.5, memory_limit=1e-6)


def test_labels_and_rows_by_label_are_checked():
    X = np.eye(6) + 0.1
    y = np.arange(6) % 2
    dense, sparse = (
        search.neighbors_by_label(form(X), y, 2, 2)
        for form in (np.asarray, sp.csc_array)
    )
    for ours, other in zip(dense, sparse, strict=True):
        assert_array_equal(ours.rows, other.rows)
    with pytest.raises(ValueError, match="one label per row"):
        search.neighbors_by_label(X, y[:4], 2, 2)
