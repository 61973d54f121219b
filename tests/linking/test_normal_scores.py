"""Normal scores are those of scikit-learn, and say what is missing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import QuantileTransformer

from hdsl.linking.normal_scores import NormalScores

columns = st.lists(st.integers(-4, 4) | st.just(np.nan), min_size=2, max_size=30)


@given(columns, columns)
def test_scores_between_known_numbers_are_those_of_scikit_learn(known, new):
    """Those at the ends are not as extreme: a number that most rows have is the middle."""
    X = np.array(known, dtype=float)[:, None]
    Y = np.array(new, dtype=float)[:, None]
    if np.isnan(X).all():
        X[0] = 0.0
    transformer = QuantileTransformer(
        n_quantiles=len(X), output_distribution="normal", subsample=None
    )
    expected = np.clip(transformer.fit(X).transform(Y), -3.0, 3.0)
    scores = NormalScores.of_rows(X)(Y)
    low = np.nanmin(X)
    high = np.nanmax(X)
    is_between = (low < Y) & (high > Y)
    np.testing.assert_allclose(
        scores[:, :1][is_between], expected[is_between], atol=1e-6
    )
    assert (abs(scores) <= 3.0).all()
    np.testing.assert_array_equal(scores[:, 1:], np.isnan(Y))


def test_a_column_that_is_empty_has_scores():
    scores = NormalScores.of_rows(np.full((3, 1), np.nan))
    assert np.isfinite(scores(np.array([[1.0], [np.nan]]))).all()
