"""The k largest inner products: the same as by forming all of them, in the same order."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl import search
from strategies import FLOATS, INTEGERS, matrices

FORMS = {
    "sparse": (sp.csr_array, sp.csr_array),
    "dense": (np.asarray, np.asarray),
    "sparse queries": (sp.csc_matrix, np.asarray),
    "sparse index": (np.asarray, sp.coo_array),
}


def by_way(way, queries, index, k, **options):
    """Search sparse rows by one of the two ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "TOP_K_BLOCK_LOOK_COST", 1e9 if way == "columns" else -1e9)
        return search.top_k(sp.csr_array(queries), sp.csr_array(index), k, **options)


@st.composite
def searches(draw, elements=None):
    """Queries, index and k up to the number of rows; queries may be rows of the index."""
    elements = draw(st.sampled_from([INTEGERS, FLOATS])) if elements is None else elements
    index = draw(matrices(elements=elements))
    d = index.shape[1]
    queries = draw(matrices(elements=elements, min_features=d, max_features=d))
    if draw(st.booleans()):
        queries[draw(st.integers(0, len(queries) - 1))] = 0.0
    return queries, index, draw(st.integers(1, len(index)))


def assert_found(found, expected):
    """Without rounding: the same rows in the same order."""
    assert_array_equal(found.scores, expected[0])
    assert_array_equal(found.rows, expected[1])
    assert (found.size == expected[1].shape[1]).all()


# --- against all inner products ------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@given(case=searches(INTEGERS))
def test_rows_and_ties(form, case):
    queries, index, k = case
    make_queries, make_index = FORMS[form]
    found = search.top_k(make_queries(queries), make_index(index), k)
    assert_found(found, reference.top_k(queries, index, k))


@pytest.mark.parametrize("way", ["columns", "rows"])
@given(case=searches(INTEGERS))
def test_both_ways(way, case):
    assert_found(by_way(way, *case), reference.top_k(*case))


@pytest.mark.parametrize("way", ["columns", "rows", "dense"])
@given(index=matrices(elements=INTEGERS), data=st.data())
def test_no_row_is_its_own_neighbour(way, index, data):
    k = data.draw(st.integers(1, len(index) - 1))
    if way == "dense":
        found = search.top_k(index, index, k, exclude_self=True)
    else:
        found = by_way(way, index, index, k, exclude_self=True)
    assert_found(found, reference.top_k(index, index, k, exclude_self=True))


@pytest.mark.parametrize("form", FORMS)
@given(case=searches(FLOATS))
def test_scores_with_rounding(form, case):
    """Rows that differ by rounding alone may change places; scores are those of the rows named."""
    queries, index, k = case
    make_queries, make_index = FORMS[form]
    found = search.top_k(make_queries(queries), make_index(index), k)
    assert_allclose(found.scores, reference.top_k(queries, index, k)[0], rtol=0, atol=1e-12)
    products = np.take_along_axis(queries @ index.T, found.rows, axis=1)
    assert_allclose(found.scores, products, rtol=0, atol=1e-12)
    assert all(len(set(row)) == k for row in found.rows.tolist())
    assert (np.diff(found.scores, axis=1) <= 0).all()


@given(searches(INTEGERS))
@settings(max_examples=20)
def test_float32_and_integers(case):
    """Products are taken in float64 whatever the input."""
    queries, index, k = case
    expected = reference.top_k(queries, index, k)
    for dtype in (np.float32, np.int32):
        for form in (np.asarray, sp.csr_array):
            found = search.top_k(form(queries.astype(dtype)), form(index.astype(dtype)), k)
            assert found.scores.dtype == np.float64
            assert_found(found, expected)


# --- larger ones ---------------------------------------------------------------------------------


def large(seed=0, m=101, n=330, d=60, density=0.1):
    rng = np.random.default_rng(seed)
    queries, index = (
        rng.integers(-3, 4, size=(rows, d)) * (rng.random((rows, d)) < density) for rows in (m, n)
    )
    return queries.astype(float), index.astype(float)


@pytest.mark.parametrize("k", [1, 7, 330])
def test_many_rows(k):
    """Several blocks, the last not full; ties by the dozen."""
    queries, index = large()
    expected = reference.top_k(queries, index, k)
    for way in ("columns", "rows"):
        assert_found(by_way(way, queries, index, k), expected)
    assert_found(search.top_k(queries, index, k), expected)


def test_dense_blocks_change_nothing(monkeypatch):
    queries, index = large()
    monkeypatch.setattr(search, "DENSE_BLOCK", 1000)  # three queries a block
    expected = reference.top_k(queries, index, 5)
    assert_found(search.top_k(queries, index, 5, n_jobs=2), expected)
    expected = reference.top_k(index, index, 5, exclude_self=True)
    assert_found(search.top_k(index, index, 5, exclude_self=True), expected)


@pytest.mark.parametrize("way", ["columns", "rows", "dense"])
def test_threads_change_no_bit(way):
    rng = np.random.default_rng(1)
    queries, index = (rng.normal(size=part.shape) * (part != 0) for part in large())
    run = search.top_k if way == "dense" else lambda *args, **kw: by_way(way, *args, **kw)
    one, two = (run(queries, index, 9, n_jobs=n_jobs) for n_jobs in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.tobytes() == b.tobytes()


def test_the_cheaper_way_is_taken(monkeypatch):
    """Many rows of few features each: by columns; rows that all share features: by rows."""
    from hdsl.backends.cpu import kernels

    taken = []
    for way in ("top_k_by_columns", "top_k_by_rows"):
        kernel = getattr(kernels, way)

        def spy(*args, way=way, kernel=kernel):
            taken.append(way)
            kernel(*args)

        monkeypatch.setattr(kernels, way, spy)
    rare = sp.csr_array(sp.eye_array(500))
    search.top_k(rare, rare, 2)
    full = sp.csr_array(np.ones((500, 5)))
    search.top_k(full, full, 2)
    assert taken == ["top_k_by_columns", "top_k_by_rows"]


# --- edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_zeros_come_before_negatives(form):
    """Rows that share no feature are neighbours like others, in the order of their numbers."""
    index = np.array([[-1.0, 0], [0, 5], [-2, 0], [0, 0], [3, 0]])
    found = search.top_k(form([[1.0, 0]]), form(index), 5)
    assert found.rows.tolist() == [[4, 1, 3, 0, 2]]
    assert found.scores.tolist() == [[3.0, 0.0, 0.0, -1.0, -2.0]]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_fewer_rows_than_asked_for(form):
    found = search.top_k(form([[1.0, 2]]), form([[1.0, 0], [0, 1]]), 3)
    assert found.rows.tolist() == [[1, 0, -1]]
    assert found.scores.tolist() == [[2.0, 1.0, -np.inf]]
    assert found.size.tolist() == [2]
    alone = search.top_k(form([[1.0, 2]]), form([[1.0, 0]]), 1, exclude_self=True)
    assert alone.size.tolist() == [0]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_no_queries(form, n_jobs):
    found = search.top_k(form(np.empty((0, 3))), form(np.ones((4, 3))), 2, n_jobs=n_jobs)
    assert found.rows.shape == found.scores.shape == (0, 2)


def test_input_is_left_alone():
    """Unsorted indices, duplicates and stored zeros are summed in a copy."""
    messy = sp.csr_array((np.array([1.0, 2, 3, 0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])),
                         shape=(2, 3))  # fmt: skip
    before = messy.data.copy(), messy.indices.copy()
    found = search.top_k(messy, np.eye(3), 3)
    assert found.scores.tolist() == [[4.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    assert found.rows.tolist() == [[2, 0, 1], [0, 1, 2]]
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
        ({"exclude_self": True}, "there are 2 queries and 4 rows"),
    ],
)
def test_messages(change, message):
    arguments = {"queries": np.ones((2, 3)), "index": np.ones((4, 3)), "k": 1, **change}
    with pytest.raises(ValueError, match=message):
        search.top_k(**arguments)


# --- by label ------------------------------------------------------------------------------------


@given(matrices(elements=INTEGERS), st.data())
def test_neighbors_by_label(X, data):
    n = len(X)
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    found = search.neighbors_by_label(sp.csr_array(X), labels, 2, 3)
    products = X @ X.T
    for r in range(n):
        for near, kind in zip(found, (labels == labels[r], labels != labels[r]), strict=True):
            rows = [b for b in np.flatnonzero(kind) if b != r]
            best = sorted(rows, key=lambda b: (-products[r, b], b))[: near.rows.shape[1]]
            assert near.rows[r, : near.size[r]].tolist() == best
            assert near.size[r] == len(best)
