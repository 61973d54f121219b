"""The features of either row add up to S(x, y), and each is a derivative of it."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from hdsl.explain.parts import feature_shares
from hdsl.rows import Rows
from hdsl.similarity import FixedPart, Similarity

ATOMS = np.array([[0, 1, 1], [0, 2, -1], [2, 3, 1]])
WEIGHTS = np.array([0.5, 0.25, 0.25])
VALUES = st.floats(-3, 3).map(lambda value: round(value, 3))


@given(
    x=st.lists(VALUES, min_size=4, max_size=4),
    y=st.lists(VALUES, min_size=4, max_size=4),
)
@pytest.mark.parametrize("norm", [None, "l2"])
def test_features_of_each_row_add_up_to_the_similarity(norm, x, y):
    fixed = (FixedPart("prior", 0.5, norm=norm),)
    similarity = Similarity(ATOMS, WEIGHTS, 8.0, fixed, 4)
    total = similarity.pair_score(np.array([x]), np.array([y]))[0]
    own = [similarity.index_rows(np.array([row]))[0] for row in (x, y)]
    A = similarity.matrix().toarray() + 0.5 * np.eye(4)
    slow = [own[0] * (A @ own[1]), own[1] * (A @ own[0])]
    for shares, expected in zip(feature_shares(similarity, x, y), slow, strict=True):
        assert shares.shape == (1, 4)
        assert_allclose(shares.toarray()[0], expected, atol=1e-9)
        assert shares.sum() == pytest.approx(total, abs=1e-9)


def test_columns_of_an_embedding_have_shares_too():
    fixed = (
        FixedPart("prior", 2.0, norm="l2", stop=4),
        FixedPart("embedding", 3.0, norm="l2", start=4, by_feature=False),
    )
    similarity = Similarity(ATOMS, WEIGHTS, 8.0, fixed, 6)
    rows = Rows(
        sp.csr_array([[1.0, 0, 2, 0], [0, 1, 1, 1]]), np.array([[1.0, 2], [0, 1]])
    )
    total = similarity.pair_score(rows[[0]], rows[[1]])[0]
    for shares in feature_shares(similarity, rows[[0]], rows[[1]]):
        assert shares.sum() == pytest.approx(total)
        assert shares[:, 4:].sum() == pytest.approx(3.0 * 2 / np.sqrt(5))
