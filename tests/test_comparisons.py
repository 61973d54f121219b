"""Rows, comparisons and pairs of rows as the CPU lays them out, against plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.cpu.cross_terms
import hdsl.cpu.rows
import reference
from hdsl.cpu.cross_terms import CrossTerms
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.solver import losses
from strategies import comparisons, make_twin, matrices, random_arrays, random_twin

ONE = Workers(1)


@given(matrices(), st.data())
def test_comparisons_and_their_pairs(X, data):
    """Comparisons are sorted by their first row; each pair of rows that they name comes once."""
    T = data.draw(comparisons(len(X)))
    twin = make_twin(X, T)
    of, dense = twin.layout.comparisons, twin.dense
    assert_array_equal(np.column_stack(of.columns), T[np.argsort(T[:, 0], kind="stable")])
    sides = [list(zip(a.tolist(), b.tolist(), strict=True)) for a, b in of.sides]
    pairs = sorted({tuple(sorted(pair)) for pair in sides[0] + sides[1]})
    assert list(zip(of.pairs.a, of.pairs.b, strict=True)) == pairs
    for side, number in zip(sides, (of.positive_pair, of.negative_pair), strict=True):
        assert [pairs[s] for s in number] == [tuple(sorted(pair)) for pair in side]
    dots = np.trace(dense.A, axis1=1, axis2=2)
    assert_allclose(of.dot_margins, dots, rtol=1e-13, atol=1e-12)
    a, b, c, d = (np.linalg.norm(side, axis=1) for side in dense.sides)
    assert_allclose(of.dot_rounding, 1e-14 * (a * b + c * d), rtol=1e-12)


@given(matrices(), st.data())
def test_products_and_costs(X, data):
    """Products are of pairs that share a feature; a row of S costs the entries that it touches."""
    twin = make_twin(X, data.draw(comparisons(len(X))))
    pairs, X = twin.layout.comparisons.pairs, twin.dense.X
    both = list(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True))
    expected = {
        s: {int(j): X[a, j] * X[b, j] for j in (X[a] * X[b]).nonzero()[0]}
        for s, (a, b) in enumerate(both)
    }
    pair, ptr, feature, product = pairs.products
    found = {
        s: dict(zip(feature[start:end].tolist(), product[start:end], strict=True))
        for s, start, end in zip(pair.tolist(), ptr[:-1], ptr[1:], strict=True)
    }
    assert found == {s: run for s, run in expected.items() if run}
    assert (np.diff(np.diff(ptr)) >= 0).all()  # the shortest first
    assert_array_equal(pairs.rows.largest, np.abs(X).max(axis=1))
    # A pair of a row with itself is met twice, once from either end.
    full, cost = np.count_nonzero(X, axis=1), np.zeros(X.shape[1])
    for a, b in both:
        cost += (X[a] != 0) * full[b] + (X[b] != 0) * full[a]
    assert_array_equal(pairs.row_cost, cost)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("n_columns", [1005, 1200, 2_000_000_001])
def test_columns_far_apart_cost_nothing(index, n_columns):
    """The two ways to number columns agree, and every array has the dtype of the kernels."""
    columns = np.array([3, n_columns - 1, 700])
    narrow = sp.csr_array(np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 5.0]]))
    parts = narrow.data, columns[narrow.indices].astype(index), narrow.indptr.astype(index)
    wide = sp.csr_array(parts, shape=(3, n_columns))
    layout = CPULayout(wide, np.array([[0, 1, 2]]), workers=ONE)
    assert_array_equal(layout.features, columns)
    assert layout.features.dtype == np.int64
    rows, pairs = layout.comparisons.rows, layout.comparisons.pairs
    assert_array_equal(rows.matrix.toarray(), narrow.toarray())
    for ptr, idx, val in (rows.by_row, rows.by_column):
        assert [array.dtype for array in (ptr, idx, val)] == [np.int64, np.int32, np.float64]
    assert [array.dtype for array in pairs.links] == [np.int64, np.int32, np.int32]
    assert {column.dtype for column in layout.comparisons.columns} == {np.dtype(np.int32)}


def test_more_than_32_bits_can_number_is_refused(monkeypatch):
    X, T = random_arrays(0)
    monkeypatch.setattr(hdsl.cpu.rows, "INDEX_LIMIT", 8)
    with pytest.raises(ValueError, match=r"pairs of rows .* at most 8 .* fewer comparisons"):
        make_twin(X, T)
    monkeypatch.setattr(hdsl.cpu.rows, "INDEX_LIMIT", 7)
    with pytest.raises(ValueError, match=r"8 features .* at most 7 .* fewer columns"):
        make_twin(X, T)


def test_columns_that_an_earlier_model_uses_come_last():
    """They have numbers although they are empty, and their rows of S are zero."""
    X, T = random_arrays(0, d=6)
    X[:, [1, 4]] = 0.0
    layout = CPULayout(sp.csr_array(X), T, workers=ONE, columns=np.array([0, 4, 1, 4]))
    assert layout.features.tolist() == [0, 2, 3, 5, 1, 4]
    gradient = layout.problem(losses.get("logistic"), 2.0).gradient(np.zeros(len(T)))
    assert gradient.n_features == 6
    assert gradient.diagonal[:4].any()
    assert not gradient.diagonal[4:].any()
    assert not gradient.rows(np.array([4, 5])).any()


def test_products_and_terms_of_a_batch_are_not_stored():
    """A batch is used once: what takes time to lay out does not pay."""
    twin = random_twin(0)
    some = np.array([[0, 1, 1], [2, 3, -1]])
    whole, batch = (twin.ours.gradient(np.zeros(30), b) for b in (None, np.arange(4)))
    for gradient in (batch, whole):
        assert gradient.diagonal.any()
        assert gradient.entries(some).any()
        assert ("products" in vars(gradient.pairs)) == gradient.covers_all
        assert len(twin.ours.cross_terms.known) == 2 * gradient.covers_all


# --- terms of feature pairs ----------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 40])
def test_entries_with_little_room(limit, monkeypatch):
    """Scores are the same when what they are summed from cannot all be stored."""
    monkeypatch.setattr(hdsl.cpu.cross_terms, "CROSS_TERMS_LIMIT", limit)
    twin, rng = random_twin(1, n=12, d=10, T=40), np.random.default_rng(2)
    everyone = np.array(reference.all_atoms(10))
    for _ in range(20):
        margins = rng.normal(size=40)
        some = everyone[rng.choice(len(everyone), size=7)]
        scores = twin.ours.gradient(margins).scores(some)
        assert_allclose(scores, twin.dense.scores(margins, some), atol=1e-13)
        assert twin.ours.cross_terms.used <= limit


@pytest.mark.parametrize(
    ("room", "first", "second", "known"),
    [
        ("all", [0, 1, 2], [1, 3], [0, 1, 2, 3]),
        ("one less", [0, 1, 2], [1, 3], [1, 3]),  # only those of the last question stay
        ("two", [0], [1], [0, 1]),
        ("one less than two", [0], [1], [1]),
        ("one less than two", [0], [0, 1], [0]),  # asked together, the second has no room
    ],
)
def test_terms_are_dropped_for_want_of_room_alone(room, first, second, known, monkeypatch):
    twin = random_twin(1, n=12, d=10, T=40)
    pairs, w = twin.layout.comparisons.pairs, twin.ours.gradient(np.zeros(40)).w
    some = np.array([[0, 1, 1], [2, 3, 1], [4, 5, 1], [6, 7, 1]])
    everything = CrossTerms(pairs)
    expected = everything.entries(some, w)
    keys, begins, ends = everything.runs
    size = np.empty(len(keys), dtype=np.int64)
    size[np.argsort(np.lexsort((ends, begins)))] = ends - begins
    assert everything.used == size.sum()
    limit = {"all": 4, "one less": 4, "two": 2, "one less than two": 2}[room]
    limit = size[:limit].sum() - ("less" in room)
    monkeypatch.setattr(hdsl.cpu.cross_terms, "CROSS_TERMS_LIMIT", limit)
    terms = CrossTerms(pairs)
    for asked in (first, second):
        assert_allclose(terms.entries(some[asked], w), expected[asked], rtol=1e-12)
    assert_array_equal(terms.known, some[known, :2])
    assert terms.used == size[known].sum() == terms.runs[2].max()
