"""Rows, comparisons and pairs of rows as the CPU lays them out, against plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.cpu.rows
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.memory import estimate
from hdsl.cpu.workers import Workers
from hdsl.solver import losses, statistics
from strategies import comparisons, make_twin, matrices, random_arrays, subsets, twins

ONE = Workers(1)


@given(matrices(), st.data())
def test_comparisons_and_their_pairs(X, data):
    """Comparisons are sorted by their first row; each pair of rows that they name comes once."""
    T = data.draw(comparisons(len(X)))
    twin = make_twin(X, T)
    compared = twin.layout.comparisons
    dense = twin.dense
    assert_array_equal(
        np.column_stack(compared.columns), T[np.argsort(T[:, 0], kind="stable")]
    )
    a, b, c, d = (side.tolist() for side in compared.sides)
    winners = list(zip(a, b, strict=True))
    losers = list(zip(c, d, strict=True))
    pairs = sorted({tuple(sorted(pair)) for pair in winners + losers})
    assert list(zip(compared.pairs.a, compared.pairs.b, strict=True)) == pairs
    for side, number in ((winners, compared.winner), (losers, compared.loser)):
        assert [pairs[s] for s in number] == [tuple(sorted(pair)) for pair in side]
    dots = np.trace(dense.A, axis1=1, axis2=2)
    assert_allclose(compared.dot_margins, dots, rtol=1e-13, atol=1e-12)
    pulls = np.arange(1.0, len(T) + 1)
    w = np.zeros(len(pairs))
    np.add.at(w, compared.winner, pulls)
    np.subtract.at(w, compared.loser, pulls)
    assert_array_equal(compared.sum_pulls(pulls), w)


@given(matrices(), st.data())
def test_products_links_and_costs(X, data):
    """A pair is linked from both of its rows; its products are those of shared features."""
    twin = make_twin(X, data.draw(comparisons(len(X))))
    pairs = twin.layout.comparisons.pairs
    X = twin.dense.X
    both = list(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True))
    ptr, feature, product = pairs.products
    for s, (a, b) in enumerate(both):
        run = slice(ptr[s], ptr[s + 1])
        found = dict(zip(feature[run].tolist(), product[run].tolist(), strict=True))
        assert found == {int(j): X[a, j] * X[b, j] for j in (X[a] * X[b]).nonzero()[0]}
    link_ptr, neighbor, number = pairs.links
    for row in range(len(X)):
        run = slice(link_ptr[row], link_ptr[row + 1])
        found = sorted(zip(number[run].tolist(), neighbor[run].tolist(), strict=True))
        ends = [(s, b) for s, (a, b) in enumerate(both) if a == row]
        assert found == sorted(
            ends + [(s, a) for s, (a, b) in enumerate(both) if b == row]
        )
    full = np.count_nonzero(X, axis=1)
    assert pairs.cost == sum(2 * full[a] * full[b] for a, b in both)
    assert_array_equal(pairs.rows.largest, np.abs(X).max(axis=1))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("n_columns", [1005, 1200, 2_000_000_001])
def test_columns_far_apart_cost_nothing(index, n_columns):
    """The two ways to number columns agree, and every array has the dtype of the kernels."""
    columns = np.array([3, n_columns - 1, 700])
    narrow = sp.csr_array(np.array([[2.0, 1.0, 0.0], [4.0, 3.0, 0.0], [0.0, 0.0, 5.0]]))
    parts = (
        narrow.data,
        columns[narrow.indices].astype(index),
        narrow.indptr.astype(index),
    )
    wide = sp.csr_array(parts, shape=(3, n_columns))
    layout = CPULayout(wide, np.array([[0, 1, 2]]), workers=ONE)
    assert_array_equal(layout.features, columns)
    assert layout.features.dtype == np.int64
    rows = layout.comparisons.rows
    pairs = layout.comparisons.pairs
    assert_array_equal(rows.matrix.toarray(), narrow.toarray())
    for arrays in (rows.by_row, rows.by_column):
        assert [array.dtype for array in arrays] == [np.int64, np.int32, np.float64]
    assert [array.dtype for array in pairs.links] == [np.int64, np.int32, np.int32]
    assert {column.dtype for column in layout.comparisons.columns} == {
        np.dtype(np.int32)
    }


def test_more_than_32_bits_can_number_is_refused(monkeypatch):
    X, T = random_arrays(0)
    n_pairs = make_twin(X, T).layout.comparisons.pairs.n_pairs
    monkeypatch.setattr(hdsl.layout, "INDEX_LIMIT", 2 * n_pairs - 1)
    with pytest.raises(ValueError, match=r"pairs of rows .* fewer comparisons"):
        make_twin(X, T)
    monkeypatch.setattr(hdsl.layout, "INDEX_LIMIT", 7)
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


@given(twins(compared=comparisons), st.data())
def test_parts_of_a_batch_and_of_a_problem_add_up(twin, data):
    """With the weight of the whole, gradients of batches and values of parts are summands."""
    ours = twin.ours
    dense = twin.dense
    batch = data.draw(subsets(dense.T))
    parts = [
        part for part in (batch, np.setdiff1d(np.arange(dense.T), batch)) if len(part)
    ]
    total = ours.batch_weight(np.arange(dense.T))
    margins = ours.margins(np.array([[0, 1, 1]]), np.ones(1))
    size = dense.score_size(margins) / dense.scale
    summed = sum(ours.gradient(margins, part, total).diagonal for part in parts)
    assert_allclose(summed, ours.gradient(margins).diagonal, rtol=0, atol=1e-12 * size)
    values = []
    for part in parts:
        weights = None if dense.weights is None else dense.weights[part]
        layout = CPULayout(
            sp.csr_array(dense.X), dense.triplets[part], weights, workers=ONE
        )
        share = ours.batch_weight(part) / total
        values.append(
            share * layout.problem(losses.get(dense.loss), 1.0).value(margins[part])
        )
    assert sum(values) == pytest.approx(ours.value(margins), rel=1e-12)


def test_statistics_from_a_sample(monkeypatch):
    """Where there are many comparisons, means are those of an evenly spaced sample."""
    X, T = random_arrays(1, n=40, T=600)
    whole = make_twin(X, T).layout.statistics()
    monkeypatch.setattr(statistics, "SAMPLE_SIZE", 100)
    part = make_twin(X, T).layout.statistics()
    assert part.n_anchors == whole.n_anchors
    for name in ("typical_margin", "values_per_anchor", "own_similarity"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.3)
    weights = np.zeros(600)
    weights[601 % 600] = 1.0  # none of the sample
    assert np.isfinite(make_twin(X, T, weights=weights).layout.statistics()).all()


def test_the_memory_of_a_fit_grows_with_what_it_holds():
    X = sp.csr_array(random_arrays(0, n=300, d=50, T=2000)[0])
    T = random_arrays(0, 300, T=2000)[1]
    small = estimate(X, T[:1000])
    more = estimate(X, T)
    assert 0 < small.total < more.total
    assert estimate(X, T, batch_size=10).products < more.products
    assert estimate(X, T, n_threads=8).matrix > more.matrix
