"""Areas under the curve are those of scikit-learn, also where pairs are too many to list."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis.extra.numpy import arrays
from sklearn.metrics import roc_auc_score

from reproduce.auc import recovery_auc


@st.composite
def symmetric(draw, d):
    """Symmetric matrices, mostly zeros, with ties and signs."""
    half = draw(
        arrays(
            np.float64,
            (d, d),
            elements=st.sampled_from([0, 0.5, -0.5, 1, -2]),
            fill=st.just(0),
        )
    )
    return np.triu(half) + np.triu(half, 1).T


@st.composite
def pairs_of_matrices(draw):
    d = draw(st.integers(3, 9))
    return draw(symmetric(d)), draw(symmetric(d))


def slow_auc(learned, truth):
    upper = np.triu_indices(len(truth), 1)
    return (
        roc_auc_score(truth.any(axis=1), np.abs(learned).sum(axis=1)),
        roc_auc_score(truth[upper] != 0, np.abs(learned)[upper]),
    )


@given(pairs_of_matrices())
def test_recovery_auc_is_that_of_scikit_learn(matrices):
    learned, truth = matrices
    upper = np.triu_indices(len(truth), 1)
    active = truth.any(axis=1)
    entries = truth[upper] != 0
    assume(len(set(active)) == 2)
    assume(len(set(entries)) == 2)
    found = recovery_auc(sp.csr_array(learned), sp.csr_array(truth))
    np.testing.assert_allclose(found, slow_auc(learned, truth), rtol=1e-12)


def test_right_wrong_unknown_and_missing_answers():
    truth, wrong, nothing = (np.zeros((4, 4)) for _ in range(3))
    truth[:2, :2] = wrong[2:, 2:] = 1
    truth, wrong, nothing = map(sp.csr_array, (truth, wrong, nothing))
    assert recovery_auc(truth, truth) == (1.0, 1.0)
    assert recovery_auc(wrong, truth).features == 0.0
    assert recovery_auc(nothing, truth) == (0.5, 0.5)
    assert np.isnan(recovery_auc(nothing, nothing)).all()


def test_pair_numbers_past_int32():
    # Row 49,999 times d = 50,000 leaves int32; keys that wrapped round would meet by
    # chance.
    d = 50_000
    rows = np.array([0, 49_998, 42_949, 20_000])
    columns = np.array([1, 49_999, 49_000, 30_000])

    def of(n):
        i = rows[:n]
        j = columns[:n]
        ij = np.concatenate([i, j]), np.concatenate([j, i])
        return sp.csr_array((np.ones(2 * n), ij), shape=(d, d))

    n_pairs = d * (d - 1) // 2
    # Four pairs are ranked first, all equal, and two of them are true.
    expected = 1 - 0.5 * 2 / (n_pairs - 2)
    assert recovery_auc(of(4), of(2)).entries == pytest.approx(expected, rel=1e-12)
