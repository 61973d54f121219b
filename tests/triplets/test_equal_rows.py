"""Keys of rows, and the distinct rows."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays

import strategies
from hdsl.triplets import mining as equal_rows
from hdsl.triplets.mining import distinct_rows, row_keys


def one_row(columns, values=None):
    """Return a row of 2^40 columns with some values."""
    values = np.ones(len(columns)) if values is None else values
    return sp.csr_array((values, columns, [0, len(columns)]), shape=(1, 2**40))


@pytest.mark.parametrize(
    ("row", "other"),
    [
        (one_row([5]), one_row([5 + 2**32])),
        (one_row([5, 2**32 - 1]), one_row([5])),
        (one_row([2**32 - 1]), one_row([2**32 - 1], [2.0])),
        (one_row([2**32 - 1]), one_row([])),
        (one_row([1, 2], [3.0, 4.0]), one_row([1, 2], [4.0, 3.0])),
        (one_row([1], [3.0]), one_row([1], [-3.0])),
    ],
)
def test_rows_that_differ_have_other_keys(row, other):
    assert (row_keys(row) != row_keys(other)).all()


def test_keys_of_random_rows_do_not_collide():
    """Of a million rows, words of 32 bits would have about a hundred keys in common."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    columns = np.sort(rng.integers(2**40, size=(n, 2)), axis=1).ravel()
    indptr = np.arange(0, 2 * n + 1, 2)
    X = sp.csr_array((np.ones(2 * n), columns, indptr), shape=(n, 2**40))
    keys = row_keys(X)
    for column in keys.T:
        assert len(np.unique(column)) == n


@given(st.data())
def test_a_key_depends_on_the_row_alone(data):
    X = data.draw(strategies.matrices(elements=strategies.INTEGERS, max_features=4))
    keys = row_keys(sp.csr_array(X))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_rows, "BLOCK", 3)
        np.testing.assert_array_equal(row_keys(sp.csr_array(X)), keys)
    for k in range(len(X)):
        turned = sp.csr_array(X[k : k + 1])
        turned.indices = turned.indices[::-1].copy()
        turned.data = turned.data[::-1].copy()
        np.testing.assert_array_equal(row_keys(turned)[0], keys[k])
    same = (X[:, None] == X[None]).all(axis=2)
    np.testing.assert_array_equal((keys[:, None] == keys[None]).all(axis=2), same)


@given(st.data())
def test_distinct_rows_are_the_first_of_equals_with_their_number(data):
    X = data.draw(strategies.matrices(elements=strategies.INTEGERS, max_features=3))
    labels = data.draw(arrays(np.int64, len(X), elements=st.integers(0, 1)))
    weights = data.draw(
        st.none()
        | arrays(np.float64, len(X), elements=st.sampled_from([0.0, 1.0, 2.5]))
    )
    if weights is not None:
        weights[0] = 1.0  # validation refuses weights that are all zero
    slow: dict = {}
    for row, (x, label) in enumerate(zip(X, labels, strict=True)):
        weight = 1.0 if weights is None else weights[row]
        if weight > 0:
            first = slow.setdefault((*x, label), [row, 0.0])
            first[1] += weight
    kept, total = distinct_rows(row_keys(sp.csr_array(X)), labels, weights)
    assert [[row, weight] for row, weight in zip(kept, total, strict=True)] == list(
        slow.values()
    )
