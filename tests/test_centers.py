"""Class centers: rows to compare with that no user sees."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl import HDSL, HDSLCV, load
from hdsl.mining import Mining
from hdsl.supervision import Supervision
from hdsl.triplets.classes import N_CENTERS
from small_fits import X_VAL, Y_VAL, D, N, T, X, Y

Y8 = np.arange(N) % 8  # more classes than centers that a row is compared with


def model(**parameters):
    return HDSL(**{"class_centers": "rows", "max_iter": 20, "tol": 0.0, "n_targets": 2,
                   "n_impostors": 3, "random_state": 0, **parameters})  # fmt: skip


def supervised(X, y, weights=None, by="rows"):
    return Supervision.check("HDSL", sp.csr_array(X), y, sample_weight=weights, class_centers=by)


def mined(supervision, mining="neighbors"):
    """Return the comparisons and weights, and where those with centers start."""
    rng = np.random.default_rng(0)
    made, weights = Mining(mining, 2, 3)(supervision, rng)
    return made, weights, int(np.argmax(made[:, 1] >= supervision.X.shape[0]))


@given(seed=st.integers(0, 200), n_classes=st.integers(2, 8))
def test_comparisons_with_centers_are_those_of_the_slow_twin(seed, n_classes):
    rng = np.random.default_rng(seed)
    dense = rng.random((24, 6)) * (rng.random((24, 6)) < 0.7) + 0.01
    y = np.arange(24) % n_classes
    of = supervised(dense, y)
    made, weights, start = mined(of)
    total = dict(enumerate(np.bincount(made[:start, 0], weights[:start], minlength=24)))
    centers, expected, share = reference.center_comparisons(dense, y, N_CENTERS, total)
    assert_allclose(of.centers.toarray(), centers, atol=1e-12)
    assert_allclose(of.rows.toarray(), np.vstack([dense, centers]), atol=1e-12)
    found = made[start:] - [0, 24, 24]
    assert found.tolist() == expected.tolist()
    assert_allclose(weights[start:], share)


@pytest.mark.parametrize("mining", ["neighbors", "random", lambda X, y, rng: T[:5]])
def test_centers_weigh_as_much_as_rows_per_anchor(mining):
    y = Y8 if not callable(mining) else Y
    made, weights, start = mined(supervised(X, y, np.arange(N) % 3), mining)
    by_rows, by_centers = (
        np.bincount(made[part, 0], weights[part], minlength=N)
        for part in (slice(None, start), slice(start, None))
    )
    assert_allclose(by_rows, by_centers)
    assert (made[start:, 1] != made[start:, 2]).all()
    assert_array_equal(made[start:, 1] - N, np.unique(y, return_inverse=True)[1][made[start:, 0]])


def test_centers_by_classes_give_each_class_the_same_weight():
    y = np.repeat([0, 1, 2], [4, 10, N - 14])
    made, weights, start = mined(supervised(X, y, by="classes"))
    of_class = np.bincount(y[made[start:, 0]], weights[start:])
    assert_allclose(of_class, weights[:start].sum() / 3)
    assert_array_equal(made, mined(supervised(X, y))[0])


@pytest.mark.parametrize("norm", ["l2", None])
def test_the_fit_is_that_of_the_same_comparisons_of_rows(norm):
    learned = model(norm=norm).fit(X, Y8)
    rows = sp.csr_array(X)
    if norm == "l2":
        rows = learned.similarity_.index_rows(rows)
    of = supervised(rows, Y8)
    made, weights, _ = mined(of)
    twin = model(norm=None).fit(of.rows, triplets=made, sample_weight=weights)
    assert_array_equal(learned.atoms_, twin.atoms_)
    assert_array_equal(learned.weights_, twin.weights_)
    assert (learned.scale_, learned.prior_) == (twin.scale_, twin.prior_)


def test_no_center_is_seen_from_outside(tmp_path):
    learned = model().fit(X, Y8)
    assert learned.transform(X).shape == (N, len(learned.weights_) + D)
    assert learned.n_triplets_ == N * (2 * 3 + N_CENTERS)
    assert learned.importance(X).pairs["n_rows"].max() <= N
    learned.save(tmp_path / "model.hdsl")
    again = load(tmp_path / "model.hdsl")
    assert again.class_centers == "rows"
    assert_array_equal(again.weights_, learned.weights_)


def test_centers_are_of_the_rows_of_weight_above_zero():
    weights = np.ones(N)
    weights[::2] = 0
    half = supervised(X[1::2], Y8[1::2])
    assert_allclose(
        supervised(X, Y8, weights).centers.toarray()[np.unique(Y8[1::2])], half.centers.toarray()
    )


def test_judgements_have_no_centers():
    plain, asked = (model(class_centers=value).fit(X, triplets=T) for value in (None, "rows"))
    assert_array_equal(plain.weights_, asked.weights_)
    assert replace(supervised(X, Y8), y=None).rows.shape[0] == N


@pytest.mark.filterwarnings("ignore:Early stopping holds out")
def test_centers_work_with_validation_early_stopping_and_folds():
    given = model().fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    stopped = model(early_stopping=True).fit(X, Y)
    assert_array_equal(stopped.atoms_, model(max_iter=stopped.n_iter_).fit(X, Y).atoms_)
    again = model(mine_every=5).fit(X, Y)
    assert again.n_triplets_ > model().fit(X, Y).n_triplets_
    search = HDSLCV(estimator=model(), cv=2, scales=[1.0, 10.0]).fit(X, Y)
    for fitted in (given, stopped, again, search):
        assert fitted.transform(X_VAL).shape[0] == len(Y_VAL)


@pytest.mark.parametrize("value", [1, "yes", True])
def test_other_values_are_refused(value):
    with pytest.raises(
        ValueError,
        match="class_centers' parameter of HDSL must be one of 'rows', 'classes' or None",
    ):
        model(class_centers=value).fit(X, Y)


def test_rows_equal_in_direction_are_told():
    rows = np.outer(np.arange(1.0, 9), [1.0, 0, 2])
    rows[4:] = np.outer(np.arange(1.0, 5), [0.0, 1, 1])
    with pytest.raises(ValueError, match="the rows of each class are equal, at unit length"):
        HDSL().fit(rows, [0] * 4 + [1] * 4)
