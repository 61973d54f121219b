"""HDSLCV: the surface is that of separate fits, the best model answers, bad input is refused."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from hdsl import HDSL, HDSLCV, SimilarityKNeighborsClassifier, load
from hdsl.triplets import PointKFold
from searches import LEARN, ONE, PRIORS, SCALES, SPLITS, T, all_kinds, along, search, small
from sklearn_checks import every_check
from small_fits import LABELS as Y
from small_fits import ROWS as X
from small_fits import X_VAL, Y_VAL, as_quadruplets, assert_same_model, frame, scored

# scikit-learn's checks have small classes.
pytestmark = pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")


# --- scikit-learn's own checks -------------------------------------------------------------------


@every_check(HDSLCV([1.0, 100.0], priors=[0.1], estimator=HDSL(max_iter=5), cv=2))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- the surface ---------------------------------------------------------------------------------


def test_the_surface_is_that_of_separate_fits(found):
    assert_array_equal(found.scales_, SCALES)
    assert_array_equal(found.priors_, PRIORS)
    assert found.scores_.shape == (2, 3, len(found.iterations_), 2)
    assert found.status_ == "complete"
    marks, lengths = set(), set()
    for p, prior in enumerate(PRIORS):
        for s, scale in enumerate(SCALES):
            for f, (train, held) in enumerate(SPLITS):
                model = small(scale=scale, prior=prior)
                model.fit(X[train], Y[train], X_val=X[held], y_val=Y[held])
                assert_array_equal(found.scores_[p, s, :, f], along(model, found.iterations_))
                marks |= set(scored(model))
                lengths.add(len(model.trace_))
    assert found.iterations_.tolist() == sorted(marks)
    assert len(lengths) > 1, "some runs end before others"


@pytest.mark.parametrize(
    ("kind", "cv"),
    [("triplets", 2), ("triplets", PointKFold(2, shuffle=True, random_state=0)),
     ("quadruplets", np.int64(2))],
)  # fmt: skip
def test_the_surface_of_judgements(kind, cv):
    learn, _ = LEARN[kind]
    searched = search(cv=cv, priors=[0.0]).fit(X, **learn)
    folds = PointKFold(2, shuffle=True, random_state=0).split_triplets(learn[kind], len(X))
    for f, (train, held) in enumerate(folds):
        assert not set(train.rows) & set(held.rows)
        for s, scale in enumerate(SCALES):
            model = small(scale=scale, prior=0.0).fit(
                X[train.rows], **{kind: train.triplets}, X_val=X[held.rows],
                triplets_val=held.triplets,
            )  # fmt: skip
            assert_array_equal(searched.scores_[0, s, :, f], along(model, searched.iterations_))
    assert searched.best_estimator_.n_iter_ == searched.best_params_["n_iter"]
    assert searched.best_estimator_.n_triplets_ == len(T)


def test_an_int_makesstratified_folds():
    order = np.argsort(Y, kind="stable")  # sorted labels must not matter
    seen = []

    def scoring(model, rows, truth):
        seen.append(np.bincount(truth, minlength=2))
        return 0.0

    search(small(scoring=scoring, max_iter=1), cv=3, **ONE).fit(X[order], Y[order])
    assert (np.abs(np.array(seen) - np.bincount(Y) / 3) < 1).all()


def test_runs_of_the_grid_mine_again():
    given = {"X_val": X_VAL, "y_val": Y_VAL}
    searched = search(small(mine_every=5), **ONE).fit(X, Y, **given)
    model = small(scale=1.0, prior=0.0, mine_every=5).fit(X, Y, **given)
    assert_array_equal(searched.scores_.ravel(), along(model, searched.iterations_))
    assert searched.best_estimator_.n_triplets_ == model.n_triplets_


def test_a_run_has_no_score_before_its_first():
    def scoring(model, rows, truth):
        first = len(model.weights_) == 1
        return np.nan if first and model.scale_ == SCALES[1] else float(len(model.weights_))

    searched = search(small(scoring=scoring, tol=0.0), scales=SCALES[:2]).fit(X, Y)
    assert searched.iterations_[0] == 0
    assert np.isnan(searched.scores_[:, 1, 0]).all()
    assert np.isfinite(searched.scores_[:, 1, 1:]).all()


def test_scores_that_are_never_numbers_are_refused():
    with pytest.raises(ValueError, match="No model of the grid has a score that is a number"):
        search(small(scoring=lambda *_: np.nan), **ONE).fit(X, Y)


def test_automatic_grids_are_multiples_of_the_automatic_values():
    searched = HDSLCV(estimator=small(max_iter=1)).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    model = small(max_iter=1).fit(X, Y)
    assert_array_equal(searched.scales_, model.scale_ * np.array([0.3, 1, 3]))
    assert_array_equal(searched.priors_, [model.prior_])
    assert searched.scores_.shape[:2] == (1, 3)


@all_kinds
def test_weights_are_split_with_their_rows_or_judgements(kind):
    learn, _ = LEARN[kind]
    n = len(next(iter(learn.values())))
    weights = np.random.default_rng(0).integers(1, 5, size=n).astype(float)
    one, same, plain = (
        search(**ONE).fit(X, **learn, sample_weight=given) for given in (weights, 8 * weights, None)
    )
    assert_array_equal(one.scores_, same.scores_)
    assert one.best_estimator_.objective_ != plain.best_estimator_.objective_


# --- the best model's own ------------------------------------------------------------------------


def test_the_best_model_answers(found):
    best = found.best_estimator_
    for name in ("transform", "rewrite", "similarity"):
        assert_array_equal(getattr(found, name)(X_VAL), getattr(best, name)(X_VAL))
        with pytest.raises(NotFittedError):
            getattr(search(), name)(X)
    with pytest.raises(NotFittedError):
        search().get_feature_names_out()
    assert_array_equal(found.pair_score(X[:20], X_VAL), best.pair_score(X[:20], X_VAL))
    assert found.get_feature_names_out().tolist() == best.get_feature_names_out().tolist()
    assert_array_equal(found.similarity_.weights, best.weights_)
    assert found.n_features_in_ == best.n_features_in_ == X.shape[1]
    of_rank = search(small(n_components=1), **ONE).fit(sp.csr_array(X), Y)
    assert of_rank.transform(X).shape == (len(X), 1)


def test_in_a_pipeline_through_pickle_and_skops(found):
    pipeline = make_pipeline(search(), SimilarityKNeighborsClassifier(3)).fit(frame(X), Y)
    assert_same_model(pipeline[0].best_estimator_, found.best_estimator_)
    assert pipeline[0].feature_names_in_.tolist() == [f"word{i}" for i in range(X.shape[1])]
    stored = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(stored.predict(frame(X_VAL)), pipeline.predict(frame(X_VAL)))
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(found)
    untrusted = skops.get_untrusted_types(data=data)
    assert set(untrusted) == {"hdsl.hdsl.HDSL", "hdsl.cv.HDSLCV"}
    stored = skops.loads(data, trusted=untrusted)
    assert_array_equal(stored.transform(X_VAL), found.transform(X_VAL))
    assert_array_equal(stored.scores_, found.scores_)


def test_the_best_model_can_be_saved_and_a_fit_without_names_drops_them(tmp_path):
    searched = search(**ONE).fit(frame(X), Y)
    searched.best_estimator_.save(tmp_path / "best.hdsl")
    stored = load(tmp_path / "best.hdsl")
    assert_same_model(stored, searched.best_estimator_)
    assert stored.feature_names_in_.tolist() == searched.feature_names_in_.tolist()
    assert not hasattr(searched.fit(X, Y), "feature_names_in_")
    assert not hasattr(searched.best_estimator_, "feature_names_in_")


def test_parameters_are_unchanged(found):
    estimator = small()
    searched = search(estimator)
    before = searched.get_params()
    searched.fit(X, Y)
    assert searched.get_params() == before
    assert not hasattr(estimator, "atoms_")
    assert_same_model(searched.best_estimator_, found.best_estimator_)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "low"), [("scales", "> 0"), ("priors", ">= 0")])
def test_bad_grids_are_refused(name, low):
    bad = [
        [],
        1.0,
        None,
        "grid",
        [[1.0]],
        ["auto"],
        [1.0, -1.0],
        [np.nan],
        [np.inf],
        [True],
        [None],
    ]
    message = f"The '{name}' parameter of HDSLCV must be a list of finite floats {low}, or 'auto'."
    for values in bad if name == "priors" else [*bad, [0.0, 1.0]]:
        with pytest.raises(ValueError, match=re.escape(message)):
            search(**{name: values}).fit(X, Y)


def test_bad_estimators_are_refused():
    for estimator in (SimilarityKNeighborsClassifier(), HDSL, "hdsl", HDSLCV()):
        with pytest.raises(ValueError, match="'estimator' parameter of HDSLCV must be an HDSL"):
            HDSLCV(estimator=estimator).fit(X, Y)
    with pytest.raises(ValueError, match="The 'max_iter' parameter of HDSL"):
        search(small(max_iter=0)).fit(X, Y)
    with pytest.raises(ValueError, match="makes many runs, and a checkpoint is of one"):
        search(small(checkpoint="run.ckpt")).fit(X, Y)


def test_bad_folds_are_refused():
    for cv in (1, "five", 61, []):
        with pytest.raises(ValueError, match=r"folds|splits|cv"):
            search(cv=cv).fit(X, Y)
    message = r"Fold 0 of cv has no triplet.*\d+ to train on, 0 to validate on.*Use fewer folds"
    with pytest.raises(ValueError, match=message):
        search(cv=60).fit(X, triplets=T)
    with pytest.raises(ValueError, match="has no triplet of positive weight on one side: 0 to"):
        search(cv=[([0, 1], range(2, 60))]).fit(X, triplets=T)


@all_kinds
def test_folds_that_validate_on_weight_0_alone_are_refused(kind):
    (train, held), (learn, _) = SPLITS[0], LEARN[kind]
    if kind == "labels":
        weights = np.isin(np.arange(len(X)), train).astype(float)
    else:
        weights = 1.0 - np.isin(learn[kind], held).all(axis=1)
    with pytest.raises(ValueError, match="Fold 0 of cv"):
        search(cv=[(train, held)]).fit(X, **learn, sample_weight=weights)


def test_bad_data_are_refused():
    for data, message in [
        ({}, "HDSLCV requires y to be passed"),
        ({"triplets": T, "quadruplets": as_quadruplets(T)}, "but got both"),
        ({"y": Y, "X_val": X_VAL}, r"Got X_val\."),
        ({"triplets": T, "X_val": X_VAL, "y_val": Y_VAL}, "y_val needs labels of X"),
        ({"y": Y, "X_val": X_VAL[:, :5], "y_val": Y_VAL}, "X_val has 5 features"),
    ]:
        with pytest.raises(ValueError, match=message):
            search().fit(X, **data)
