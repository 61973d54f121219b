"""HDSLCV against separate fits: the surface, the choice, the refit, and what stops it."""

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import strategies
from hdsl import HDSL, HDSLCV, SimilarityKNeighborsClassifier
from hdsl.estimators import cv as model_selection
from hdsl.triplets import PointKFold

# scikit-learn's checks have small classes.
pytestmark = pytest.mark.filterwarnings("ignore:Too few rows:UserWarning")


def labelled_rows(seed=3, n=60, d=12):
    """Rows whose label is the larger of two features."""
    rng = np.random.default_rng(seed)
    A = rng.integers(1, 24, size=(n, d)) / 8 * (rng.random((n, d)) < 0.5)
    A[:, :2] += 1 / 8
    return A, (A[:, 0] > A[:, 1]).astype(int)


X, Y = labelled_rows()
X_VAL, Y_VAL = labelled_rows(seed=4, n=20)
T, T_VAL = (strategies.random_arrays(seed, n, T=400)[1] for seed, n in ((0, 60), (1, 20)))
SPLITS = list(StratifiedKFold(2).split(X, Y))
SCALES, PRIORS = [0.3, 3.0, 30.0], [0.0, 0.05]


def small(**parameters):
    return HDSL(**{"max_iter": 50, "tol": 1e-2, "random_state": 0, "n_targets": 2, "n_impostors": 2,
                   "n_iter_no_change": 20, **parameters})  # fmt: skip


def search(estimator=None, **parameters):
    estimator = small() if estimator is None else estimator
    return HDSLCV(**{"scales": SCALES, "priors": PRIORS, "estimator": estimator, "cv": SPLITS,
                     **parameters})  # fmt: skip


def frame(A):
    return pytest.importorskip("pandas").DataFrame(A).add_prefix("word")


def scored(model):
    scores = model.trace_["validation_score"]
    return {int(k): float(scores[k]) for k in np.flatnonzero(~np.isnan(scores))}


def along(model, iterations):
    """Return the score at each iteration; after the end of the run, the last."""
    scores = scored(model)
    return [scores[max(known for known in scores if known <= k)] for k in iterations]


def assert_same_model(one, other):
    assert_array_equal(one.atoms_, other.atoms_)
    assert_array_equal(one.weights_, other.weights_)
    assert (one.scale_, one.prior_, one.n_iter_) == (other.scale_, other.prior_, other.n_iter_)
    assert one.objective_ == other.objective_


# --- scikit-learn's own checks -------------------------------------------------------------------


def as_list(mark):
    """Give pytest a list, as it wants it; scikit-learn 1.6 makes a generator."""
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)


CHECKED = parametrize_with_checks(
    [HDSLCV([1.0, 100.0], priors=[0.0, 0.1], estimator=HDSL(max_iter=10), cv=2)]
)


@as_list(CHECKED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- the surface ---------------------------------------------------------------------------------


def test_the_surface_is_that_of_separate_fits():
    found = search().fit(X, Y)
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


@pytest.mark.parametrize("cv", [2, PointKFold(2, shuffle=True, random_state=0)])
def test_the_surface_of_triplets(cv):
    found = search(cv=cv, priors=[0.0]).fit(X, triplets=T)
    folds = PointKFold(2, random_state=0).split_triplets(T, len(X))
    for f, (train, held) in enumerate(folds):
        assert not set(train.rows) & set(held.rows)
        for s, scale in enumerate(SCALES):
            model = small(scale=scale, prior=0.0)
            model.fit(
                X[train.rows],
                triplets=train.triplets,
                X_val=X[held.rows],
                triplets_val=held.triplets,
            )
            assert_array_equal(found.scores_[0, s, :, f], along(model, found.iterations_))
    assert found.best_estimator_.n_iter_ == found.best_params_["n_iter"]
    assert found.best_estimator_.n_triplets_ == len(T)


def test_an_int_makes_stratified_folds():
    order = np.argsort(Y, kind="stable")  # sorted labels must not matter
    seen = []

    def scoring(model, rows, truth):
        seen.append(np.bincount(truth, minlength=2))
        return 0.0

    search(small(scoring=scoring, max_iter=1), cv=3, scales=[1.0], priors=[0.0]).fit(
        X[order], Y[order]
    )
    assert (np.abs(np.array(seen) - np.bincount(Y) / 3) < 1).all()


def test_an_int_of_numpy_is_an_int():
    one, other = (search(cv=cv, priors=[0.0]).fit(X, Y).scores_ for cv in (3, np.int64(3)))
    assert_array_equal(one, other)


def test_runs_of_the_grid_mine_again():
    found = search(small(mine_every=5), scales=[1.0], priors=[0.0])
    found.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    model = small(scale=1.0, prior=0.0, mine_every=5).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert_array_equal(found.scores_.ravel(), along(model, found.iterations_))
    assert found.best_estimator_.n_triplets_ == model.n_triplets_


def test_a_run_has_no_score_before_its_first():
    def scoring(model, rows, truth):
        first = len(model.weights_) == 1
        return np.nan if first and model.scale_ == SCALES[1] else float(len(model.weights_))

    found = search(small(scoring=scoring)).fit(X, Y)
    assert found.iterations_[0] == 0
    assert np.isnan(found.scores_[:, 1, 0]).all()
    assert np.isfinite(found.scores_[:, 1, 1:]).all()


def test_automatic_grids_are_multiples_of_the_automatic_values():
    found = HDSLCV(estimator=small(max_iter=2)).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    model = small(max_iter=2).fit(X, Y)
    assert_allclose(found.scales_, model.scale_ * np.array([0.1, 0.3, 1, 3, 10]), rtol=1e-12)
    assert_allclose(found.priors_, model.prior_ * np.array([0, 0.3, 1, 3]), rtol=1e-12)
    assert found.scores_.shape[:2] == (4, 5)


def test_weights_of_rows_and_of_triplets_are_shared_out():
    for kind, n in (({"y": Y}, len(X)), ({"triplets": T}, len(T))):
        weights = np.random.default_rng(0).integers(1, 5, size=n).astype(float)
        found = search(scales=[1.0], priors=[0.0]).fit(X, **kind, sample_weight=weights)
        same = search(scales=[1.0], priors=[0.0]).fit(X, **kind, sample_weight=8 * weights)
        plain = search(scales=[1.0], priors=[0.0]).fit(X, **kind)
        assert_array_equal(found.scores_, same.scores_)
        assert found.best_estimator_.objective_ != plain.best_estimator_.objective_


# --- the choice ----------------------------------------------------------------------------------


def test_the_best_of_the_mean_is_chosen_and_fitted_on_all_rows():
    found = search().fit(X, Y)
    mean = found.scores_.mean(axis=-1)
    p, s, k = np.unravel_index(mean.argmax(), mean.shape)  # the first of equals
    n_iter = int(found.iterations_[k])
    assert n_iter > 0
    assert found.best_params_ == {"scale": SCALES[s], "prior": PRIORS[p], "n_iter": n_iter}
    assert found.best_score_ == pytest.approx(mean.max(), abs=1e-12)
    model = small(scale=SCALES[s], prior=PRIORS[p], max_iter=n_iter).fit(X, Y)
    assert_same_model(found.best_estimator_, model)


def test_the_first_of_equals_is_chosen():
    def scoring(model, rows, truth):
        return float(model.prior_ > 0 and len(model.weights_) > 1)

    found = search(small(scoring=scoring, tol=0.0)).fit(X, Y)
    assert found.best_params_ == {"scale": SCALES[0], "prior": PRIORS[1], "n_iter": 10}
    assert found.best_score_ == 1.0
    assert_array_equal(found.cv_results_["rank_test_score"], [4, 4, 4, 1, 1, 1])


def test_the_starting_atom_may_be_the_best():
    found = search(small(tol=0.0, scoring=lambda m, rows, truth: -len(m.weights_))).fit(X, Y)
    assert found.best_params_["n_iter"] == 0
    assert found.best_estimator_.n_iter_ == 0


def test_the_table_has_a_line_a_pair():
    found = search().fit(X, Y)
    table = found.cv_results_
    assert_array_equal(table["param_prior"], np.repeat(PRIORS, 3))
    assert_array_equal(table["param_scale"], np.tile(SCALES, 2))
    mean = found.scores_.mean(axis=-1).reshape(6, -1)
    assert_allclose(table["mean_test_score"], mean.max(axis=1), rtol=1e-12)
    assert_array_equal(table["n_iter"], found.iterations_[mean.argmax(axis=1)])
    at_best = found.scores_.reshape(6, -1, 2)[np.arange(6), mean.argmax(axis=1)]
    assert_array_equal(table["split0_test_score"], at_best[:, 0])
    assert_array_equal(table["split1_test_score"], at_best[:, 1])
    assert_allclose(table["std_test_score"], at_best.std(axis=1), rtol=1e-12)
    better = (mean.max(axis=1) > mean.max(axis=1)[:, None]).sum(axis=1)
    assert_array_equal(table["rank_test_score"], 1 + better)
    assert (table["mean_fit_time"] > 0).all()
    pandas = pytest.importorskip("pandas")
    assert len(pandas.DataFrame(table)) == 6


@pytest.mark.parametrize("kind", ["labels", "triplets"])
def test_validation_data_choose_a_model_of_the_path(kind):
    given = {"y_val": Y_VAL} if kind == "labels" else {"triplets_val": T_VAL}
    learn = {"y": Y} if kind == "labels" else {"triplets": T}
    found = search().fit(X, **learn, X_val=X_VAL, **given)
    assert found.scores_.shape[-1] == 1
    fits = [
        small(scale=scale, prior=prior).fit(X, **learn, X_val=X_VAL, **given)
        for prior in PRIORS
        for scale in SCALES
    ]
    best = max(fits, key=lambda model: model.validation_score_)  # the first of equals
    assert_same_model(found.best_estimator_, best)
    assert found.best_estimator_.validation_score_ == found.best_score_ == best.validation_score_
    assert len(found.best_estimator_.trace_) == len(best.trace_)
    assert found.best_params_ == {
        "scale": best.scale_,
        "prior": best.prior_,
        "n_iter": best.n_iter_,
    }


def test_without_refit_the_model_of_a_fold_is_kept():
    found = search(refit=False).fit(X, Y)
    assert_array_equal(found.scores_, search().fit(X, Y).scores_)
    best, chosen = found.best_estimator_, found.best_params_
    assert (best.scale_, best.prior_) == (chosen["scale"], chosen["prior"])
    fits = [
        small(scale=best.scale_, prior=best.prior_).fit(
            X[train], Y[train], X_val=X[held], y_val=Y[held]
        )
        for train, held in SPLITS
    ]
    same = [np.array_equal(best.atoms_, fit.at(best.n_iter_).atoms_) for fit in fits
            if len(fit.trace_) > best.n_iter_]  # fmt: skip
    assert any(same)


def test_without_refit_the_order_in_which_runs_end_does_not_matter(monkeypatch):
    def fit():
        estimator = small(scoring=lambda *_: 0.0, tol=0.0)
        return search(estimator, refit=False, scales=[1.0], priors=[0.0]).fit(X, Y)

    forward, in_order = fit().best_estimator_, model_selection._results
    monkeypatch.setattr(model_selection, "_results", lambda *args: reversed(list(in_order(*args))))
    assert_same_model(fit().best_estimator_, forward)


def test_the_best_model_answers():
    found = search().fit(sp.csr_array(X), Y)
    best = found.best_estimator_
    for name in ("transform", "rewrite", "similarity"):
        assert_array_equal(getattr(found, name)(X_VAL), getattr(best, name)(X_VAL))
    assert_array_equal(found.pair_score(X[:20], X_VAL), best.pair_score(X[:20], X_VAL))
    assert found.get_feature_names_out().tolist() == best.get_feature_names_out().tolist()
    assert_array_equal(found.similarity_.weights, best.weights_)
    assert found.n_features_in_ == best.n_features_in_ == X.shape[1]


def test_nothing_answers_before_fit():
    for name in ("transform", "rewrite", "similarity"):
        with pytest.raises(NotFittedError):
            getattr(search(), name)(X)
    with pytest.raises(NotFittedError):
        search().get_feature_names_out()


def test_in_a_pipeline_and_through_pickle():
    pipeline = make_pipeline(search(), SimilarityKNeighborsClassifier(3)).fit(frame(X), Y)
    assert_same_model(pipeline[0].best_estimator_, search().fit(X, Y).best_estimator_)
    assert pipeline[0].feature_names_in_.tolist() == [f"word{i}" for i in range(X.shape[1])]
    stored = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(stored.predict(frame(X_VAL)), pipeline.predict(frame(X_VAL)))


def test_through_skops():
    skops = pytest.importorskip("skops.io")
    found = search().fit(X, Y)
    data = skops.dumps(found)
    untrusted = skops.get_untrusted_types(data=data)
    assert set(untrusted) == {"hdsl.estimators.hdsl.HDSL", "hdsl.estimators.cv.HDSLCV"}
    stored = skops.loads(data, trusted=untrusted)
    assert_array_equal(stored.transform(X_VAL), found.transform(X_VAL))
    assert_array_equal(stored.scores_, found.scores_)


def test_the_best_model_can_be_saved(tmp_path):
    from hdsl import load

    found = search().fit(frame(X), Y)
    found.best_estimator_.save(tmp_path / "best.hdsl")
    stored = load(tmp_path / "best.hdsl")
    assert_same_model(stored, found.best_estimator_)
    assert stored.feature_names_in_.tolist() == found.feature_names_in_.tolist()


def test_parameters_are_left_alone():
    estimator = small()
    found = search(estimator)
    before = found.get_params()
    found.fit(X, Y)
    assert found.get_params() == before
    assert not hasattr(estimator, "atoms_")
    assert_same_model(clone(found).fit(X, Y).best_estimator_, found.best_estimator_)


def test_a_fit_without_names_forgets_those_before():
    found = search().fit(frame(X), Y)
    assert not hasattr(found.fit(X, Y), "feature_names_in_")
    assert not hasattr(found.best_estimator_, "feature_names_in_")


# --- many runs -----------------------------------------------------------------------------------


def test_processes_change_nothing():
    one, two = (search(n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2))
    assert_array_equal(one.scores_, two.scores_)
    assert one.best_params_ == two.best_params_
    assert_same_model(one.best_estimator_, two.best_estimator_)
    for name in set(one.cv_results_) - {"mean_fit_time"}:
        assert_array_equal(one.cv_results_[name], two.cv_results_[name])


def test_verbose_prints_a_line_a_run(capsys):
    found = search(verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert all(len(line) < 80 for line in err.splitlines())
    lines, (chosen, *refit) = err.splitlines()[:12], err.splitlines()[12:]
    assert [line.split()[1] for line in lines] == [f"{k}/12" for k in range(1, 13)]
    for words in ("scale 0.3", "prior 0.05", "fold 1", "score ", " at ", "s left"):
        assert any(words in line for line in lines)
    best = max(float(re.search(r"score (\S+)", line)[1]) for line in lines)
    assert f"best {best:.4f}" in lines[-1]
    assert f"best mean {found.best_score_:.4f}: scale " in chosen
    assert refit[-1].startswith(f"{found.best_estimator_.n_iter_} iterations in ")
    assert found.best_estimator_.verbose == 0
    quiet = search(small(verbose=1)).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert capsys.readouterr() == ("", "")
    assert quiet.status_ == found.status_ == "complete"


def fit_interrupted(found, *args, **kwargs):
    """Fit; an interrupt that came out would end pytest itself."""
    try:
        return found.fit(*args, **kwargs)
    except KeyboardInterrupt:
        pytest.fail("the interrupt came out of fit")


class InterruptsRun:
    """A callback or a scoring that interrupts the n-th run, at some iteration."""

    def __init__(self, run, n_iter):
        self.run, self.n_iter, self.n_runs = run, n_iter, 0

    def __call__(self, state):
        self.n_runs += state.n_iter == 0
        if (self.n_runs, state.n_iter) == (self.run, self.n_iter):
            raise KeyboardInterrupt

    def __sklearn_clone__(self):
        return self


@pytest.mark.parametrize("n_iter", [0, 7])
@pytest.mark.parametrize("run", [2, 4, 5, 12])
def test_interrupt_keeps_the_best_of_the_finished_runs(run, n_iter):
    whole = search(refit=False).fit(X, Y)
    found = search(small(callback=InterruptsRun(run, n_iter)))
    fit_interrupted(found, X, Y)
    assert found.status_ == "interrupted"
    finished = np.arange(12).reshape(2, 3, 1, 2) < run - 1
    at = np.isin(whole.iterations_, found.iterations_)
    expected = np.where(finished, whole.scores_, np.nan)[:, :, at]
    assert_array_equal(found.scores_, expected)
    mean = np.nanmean(expected.reshape(6, -1, 2)[: run // 2], axis=-1)
    assert found.best_score_ == pytest.approx(mean.max(), abs=1e-12)
    assert len(found.cv_results_["mean_test_score"]) == run // 2
    best, chosen = found.best_estimator_, found.best_params_
    assert (best.scale_, best.prior_) == (chosen["scale"], chosen["prior"])
    assert best.n_iter_ <= chosen["n_iter"]
    assert found.transform(X).shape[0] == len(X)
    assert found.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("once", [True, False])
def test_interrupt_while_scoring(once):
    n_calls, models = 0, set()

    def scoring(model, rows, truth):
        nonlocal n_calls
        models.add((model.scale_, model.prior_))
        late = len(models) > 2
        n_calls += late
        if late and (n_calls == 1 or not once):
            raise KeyboardInterrupt
        return model.similarity(rows).sum()

    found = fit_interrupted(search(small(scoring=scoring)), X, Y)
    assert found.status_ == "interrupted"
    assert_array_equal(np.isnan(found.scores_).any(axis=(2, 3))[0], [False, False, True])
    assert found.best_params_["prior"] == PRIORS[0]
    assert found.best_estimator_.scale_ == found.best_params_["scale"]


def test_interrupt_before_a_run_is_finished():
    with pytest.raises(RuntimeError, match="interrupted before any run was finished"):
        fit_interrupted(search(small(callback=InterruptsRun(1, 3))), X, Y)


def test_interrupt_in_the_refit_is_told():
    estimator = small(callback=InterruptsRun(3, 2), scoring=lambda m, rows, truth: len(m.weights_))
    found = fit_interrupted(search(estimator, scales=[3.0], priors=[0.0]), X, Y)
    assert found.best_params_["n_iter"] > 2
    assert found.best_estimator_.n_iter_ == 2
    assert found.status_ == "interrupted"
    assert found.transform(X).shape[0] == len(X)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [],
        1.0,
        None,
        "grid",
        [[1.0]],
        ["auto"],
        [1.0, -1.0],
        [np.nan],
        [1.0, np.inf],
        [True],
        [None],
    ],
    ids=repr,
)
@pytest.mark.parametrize(("name", "low"), [("scales", "> 0"), ("priors", ">= 0")])
def test_grids_that_are_none(name, low, values):
    message = f"The '{name}' parameter of HDSLCV must be a list of finite floats {low}, or 'auto'."
    with pytest.raises(ValueError, match=re.escape(message)):
        search(**{name: values}).fit(X, Y)


def test_zero_is_a_prior_but_no_scale():
    with pytest.raises(ValueError, match="'scales' parameter"):
        search(scales=[0.0, 1.0]).fit(X, Y)
    assert search(priors=[0.0], scales=[1.0]).fit(X, Y).priors_.tolist() == [0.0]


@pytest.mark.parametrize("estimator", [SimilarityKNeighborsClassifier(), HDSL, "hdsl", HDSLCV()])
def test_estimators_that_are_none(estimator):
    with pytest.raises(ValueError, match="'estimator' parameter of HDSLCV must be an HDSL"):
        HDSLCV(estimator=estimator).fit(X, Y)


def test_the_parameters_of_the_estimator_are_checked_at_once():
    with pytest.raises(ValueError, match="The 'max_iter' parameter of HDSL"):
        search(small(max_iter=0)).fit(X, Y)


@pytest.mark.parametrize("cv", [1, "five", 61, []])
def test_folds_that_are_none(cv):
    with pytest.raises(ValueError, match=r"folds|splits|cv"):
        search(cv=cv).fit(X, Y)


def test_folds_without_triplets():
    message = r"Fold 0 of cv has no triplet.*\d+ to train on, 0 to validate on.*Use fewer folds"
    with pytest.raises(ValueError, match=message):
        search(cv=60).fit(X, triplets=T)
    with pytest.raises(
        ValueError, match="Fold 0 of cv has no triplet of positive weight on one side: 0 to"
    ):
        search(cv=[([0, 1], range(2, 60))]).fit(X, triplets=T)


@pytest.mark.parametrize("kind", ["labels", "triplets"])
def test_folds_that_validate_on_weight_0_alone(kind):
    train, held = SPLITS[0]
    if kind == "labels":
        given = {"y": Y, "sample_weight": np.isin(np.arange(len(X)), train).astype(float)}
    else:
        given = {"triplets": T, "sample_weight": 1.0 - np.isin(T, held).all(axis=1)}
    with pytest.raises(ValueError, match="Fold 0 of cv"):
        search(cv=[(train, held)]).fit(X, **given)


def test_data_that_are_refused():
    with pytest.raises(ValueError, match="HDSLCV requires y to be passed"):
        search().fit(X)
    with pytest.raises(ValueError, match=r"Got X_val\."):
        search().fit(X, Y, X_val=X_VAL)
    with pytest.raises(ValueError, match="y_val needs labels of X"):
        search().fit(X, triplets=T, X_val=X_VAL, y_val=Y_VAL)
    with pytest.raises(ValueError, match="X_val has 5 features"):
        search().fit(X, Y, X_val=X_VAL[:, :5], y_val=Y_VAL)


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
import numpy as np, scipy.sparse as sp
from hdsl import HDSL, HDSLCV
X = sp.random(400, 300, density=0.05, random_state=0, format="csr")
y = np.arange(400) % 2
base = HDSL(max_iter=400, tol=0.0, n_iter_no_change=None)
search = HDSLCV(np.logspace(0, 3, 200), priors=[0.0, 1.0], estimator=base, n_jobs=2, verbose=1)
search.fit(X, y)
print(search.status_, search.best_score_, search.transform(X).shape[0], flush=True)
"""


def test_ctrl_c_with_two_processes():
    """A real SIGINT to all processes, as the terminal sends it, while both cores work."""
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        lines = [run.stderr.readline() for _ in range(5)]
        assert all("/2000 " in line and "left" in line for line in lines)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    assert run.returncode == 0, err
    status, score, n_rows = out.splitlines()[-1].split()
    assert status == "interrupted"
    assert 0.0 < float(score) <= 1.0
    assert int(n_rows) == 400
