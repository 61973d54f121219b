"""The classification objective: rows against the mean landmarks of classes."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl import HDSL, HDSLCV, load
from hdsl.checks import generator
from hdsl.landmarks import N_GROUPS, LandmarkMeans, draw_landmarks
from hdsl.triplets.classes import N_CENTERS
from small_fits import X_VAL, Y_VAL, N, T, X, Y

Y8 = np.arange(N) % 8  # at most 5 rows of a class: each is left out alone
THREE = np.where(np.arange(N) % 4 == 3, 2, Y)


def model(**parameters):
    return HDSL(**{"objective": "classification", "max_iter": 20, "tol": 0.0, "random_state": 0,
                   **parameters})  # fmt: skip


# --- the objective against plain means of similarities --------------------------------------------


@pytest.mark.parametrize(
    ("y", "landmarks", "weights"),
    [
        (Y8, "all", None),
        (Y8, 18, np.arange(N) % 3),
        (Y8, np.arange(0, N, 2), None),
        (Y, np.arange(8), None),
        (THREE, 14, None),
    ],
    ids=["all", "drawn", "given", "binary", "three"],
)
@pytest.mark.parametrize("norm", ["l2", None])
def test_the_objective_is_that_of_mean_similarities(y, landmarks, weights, norm):
    learned = model(landmarks=landmarks, norm=norm).fit(X, y, sample_weight=weights)
    rows = X if norm is None else learned.similarity_.index_rows(X)
    is_landmark = draw_landmarks(landmarks, y, weights, generator(0))  # of the model's seed
    value, n_margins = reference.landmark_objective(
        rows, y, is_landmark, learned.similarity(X), learned.loss, N_CENTERS, weights
    )
    assert learned.objective_ == pytest.approx(value, rel=1e-10)
    assert learned.n_triplets_ == n_margins


def test_drawn_landmarks_are_those_of_the_seed():
    drawn = np.flatnonzero(draw_landmarks(18, Y8, None, generator(3)))
    one = model(landmarks=18, random_state=3).fit(X, Y8)
    two = model(landmarks=drawn, random_state=3).fit(X, Y8)
    assert one.objective_ == two.objective_
    assert one.objective_ != model(landmarks=18, random_state=4).fit(X, Y8).objective_


def test_the_certified_optimum_is_that_of_dense_rows():
    # The same minimum by the dense problem of the comparisons, spelled out with rows of means.
    learned = model(landmarks="all", scale=2.0, prior=1.0, oracle="exact", step="pairwise",
                    tol=1e-7, max_iter=3000).fit(X, Y8)  # fmt: skip
    assert learned.gap_is_exact_
    rows = learned.similarity_.index_rows(X)
    spelled, triplets, weights = reference.landmark_comparisons(
        rows, Y8, np.ones(N, dtype=bool), N_CENTERS
    )
    twin = HDSL(2.0, prior=1.0, norm=None, oracle="exact", step="corrective", tol=1e-7,
                max_iter=3000, random_state=0)  # fmt: skip
    twin.fit(spelled, triplets=triplets, sample_weight=weights)
    assert learned.objective_ == pytest.approx(twin.objective_, abs=2e-7)


# --- means ----------------------------------------------------------------------------------------


@given(
    n=st.integers(4, 50),
    n_classes=st.integers(1, 4),
    share=st.sampled_from([0.3, 1.0]),
    seed=st.integers(0, 500),
)
def test_no_row_is_in_the_mean_of_its_own_landmarks(n, n_classes, share, seed):
    rng = np.random.default_rng(seed)
    rows = sp.csr_array(np.eye(n))  # the columns of a mean are the rows that it is made of
    codes = rng.integers(n_classes, size=n)
    is_landmark = rng.random(n) < share
    is_landmark[0] = True
    weights = rng.integers(1, 4, size=n) * 1.0
    means = LandmarkMeans.of(rows, codes, is_landmark, weights)
    dense = means.rows.toarray()
    assert_array_equal(means.whole, np.unique(codes[is_landmark]))
    for row in range(n):
        of_class = np.flatnonzero(is_landmark & (codes == codes[row]))
        others = np.setdiff1d(of_class, [row])
        if len(others) == 0:
            assert means.own[row] == -1
            continue
        used = np.flatnonzero(dense[means.own[row]])
        assert set(used) <= set(others)
        if not is_landmark[row] or len(of_class) <= N_GROUPS:
            assert_array_equal(used, others)
        else:  # its group is left out: about a tenth
            assert len(used) >= len(of_class) - -(-len(of_class) // N_GROUPS)
        assert_allclose(dense[means.own[row], used], weights[used] / weights[used].sum())


def test_equal_rows_of_a_class_are_left_out_together():
    rows = sp.csr_array(np.repeat(np.eye(3), 2, axis=0))
    means = LandmarkMeans.of(rows, np.zeros(6, int), np.ones(6, bool))
    own = (rows.toarray() * means.rows.toarray()[means.own]).sum(axis=1)
    assert_array_equal(own, np.zeros(6))


def test_a_weight_of_two_is_a_row_twice():
    twice = np.concatenate([np.arange(N), [3, 8]])
    weights = np.bincount(twice)
    one = model(scale=2.0, prior=1.0).fit(X, Y8, sample_weight=weights)
    two = model(scale=2.0, prior=1.0).fit(X[twice], Y8[twice])
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-10)
    assert_array_equal(one.atoms_, two.atoms_)


# --- drawing --------------------------------------------------------------------------------------


@given(
    n=st.integers(2, 60), n_classes=st.integers(1, 5), wanted=st.integers(1, 80),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_every_class_gives_its_share(n, n_classes, wanted, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_classes, size=n)
    weights = (rng.random(n) < 0.8) + 0.0
    weights[0] = 1.0
    drawn = draw_landmarks(wanted, codes, weights, rng)
    assert not drawn[weights == 0].any()
    there = np.bincount(codes[weights > 0], minlength=n_classes)
    counts = np.bincount(codes[drawn], minlength=n_classes)
    share = wanted * there / there.sum()
    assert (counts >= np.minimum(np.maximum(np.floor(share), 2), there)).all()
    assert (counts <= np.maximum(share + 1e-6, np.minimum(2, there))).all()


# --- around it ------------------------------------------------------------------------------------


def test_the_model_is_saved_and_resumed(tmp_path):
    for landmarks, again in (("all", "all"), (20, 20), (np.arange(30), "all")):
        learned = model(landmarks=landmarks).fit(X, Y8)
        learned.save(tmp_path / "model.hdsl")
        loaded = load(tmp_path / "model.hdsl")
        assert loaded.objective == "classification"
        assert loaded.landmarks == again  # numbers of rows belong to rows that are not in the file
        assert_array_equal(loaded.weights_, learned.weights_)


@pytest.mark.filterwarnings("ignore:Early stopping holds out")
@pytest.mark.parametrize("landmarks", ["all", 16, np.arange(30)])
def test_landmarks_work_with_validation_early_stopping_and_folds(landmarks):
    given = model(landmarks=landmarks).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    stopped = model(landmarks=landmarks, early_stopping=True).fit(X, Y)
    search = HDSLCV(estimator=model(landmarks=landmarks), cv=2, scales=[1.0, 10.0]).fit(X, Y)
    for fitted in (given, stopped, search):
        assert fitted.transform(X_VAL).shape[0] == len(Y_VAL)
    chosen = search.best_estimator_
    twin = model(landmarks=landmarks, scale=chosen.scale_, prior=chosen.prior_,
                 max_iter=chosen.n_iter_).fit(X, Y)  # fmt: skip
    assert_array_equal(chosen.weights_, twin.weights_)


@pytest.mark.parametrize("value", ["some", 0, -1, True, 1.5, None, [], [0.5], [[1]], [-1]])
def test_other_landmarks_are_refused(value):
    with pytest.raises(ValueError, match="landmarks' parameter of HDSL must be 'all', an int"):
        model(landmarks=value).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "data", "message"),
    [
        ({"objective": "svm"}, {"y": Y}, "'objective' parameter of HDSL must be one of"),
        ({}, {"triplets": T}, "compares rows with the landmarks of classes: pass labels"),
        ({}, {"y": Y, "triplets": T}, "compares rows with the landmarks of classes"),
        ({"mining": "random"}, {"y": Y}, "'mining' parameter of HDSL has no meaning with"),
        ({"class_centers": "rows"}, {"y": Y}, "'class_centers' parameter of HDSL has no meaning"),
        ({"mine_every": 5}, {"y": Y}, "'mine_every' parameter of HDSL has no meaning"),
        ({"landmarks": [0, N]}, {"y": Y}, f"names row {N}, but X has {N} rows"),
        ({"landmarks": np.flatnonzero(Y)}, {"y": Y}, "landmarks of two classes are needed"),
    ],
)
def test_what_cannot_be_done_is_said(parameters, data, message):
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(X, **data)
