"""HDSLCV against separate fits: the surface, the choice, the refit, and what stops it."""

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import hypothesis.strategies as st
import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import strategies
from hdsl import HDSL, HDSLCV, SimilarityKNeighborsClassifier, load, memory
from hdsl.estimators import path
from hdsl.estimators.monitor import Estimate
from hdsl.estimators.surface import Cell, Surface
from hdsl.triplets import PointKFold
from small_fits import LABELS as Y
from small_fits import ROWS as X
from small_fits import (
    T_VAL,
    X_VAL,
    Y_VAL,
    as_quadruplets,
    assert_same_model,
    frame,
    scored,
    without_interrupt,
)
from small_fits import small as smallest

# scikit-learn's checks have small classes.
pytestmark = pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")

T = strategies.random_arrays(0, len(X), T=400)[1]
SPLITS = list(StratifiedKFold(2).split(X, Y))
SCALES, PRIORS = [0.3, 3.0, 30.0], [0.0, 0.05]
ONE = {"scales": [1.0], "priors": [0.0]}
LEARN = {
    "labels": ({"y": Y}, {"y_val": Y_VAL}),
    "triplets": ({"triplets": T}, {"triplets_val": T_VAL}),
    "quadruplets": (
        {"quadruplets": as_quadruplets(T)[:, [1, 0, 2, 3]]},
        {"triplets_val": as_quadruplets(T_VAL)},
    ),
}
all_kinds = pytest.mark.parametrize("kind", LEARN)


def small(**parameters):
    given = {"scale": "auto", "prior": "auto", "max_iter": 30, "tol": 1e-2, "n_iter_no_change": 15}
    return smallest(**{**given, **parameters})


def search(estimator=None, **parameters):
    estimator = small() if estimator is None else estimator
    return HDSLCV(**{"scales": SCALES, "priors": PRIORS, "estimator": estimator, "cv": SPLITS,
                     **parameters})  # fmt: skip


@pytest.fixture(scope="module")
def found():
    """Return a search by labels; tests do not change it."""
    return search().fit(X, Y)


def along(model, iterations):
    """Return the score at each iteration; after the end of the run, the last."""
    scores = scored(model)
    return [scores[max(known for known in scores if known <= k)] for k in iterations]


# --- scikit-learn's own checks -------------------------------------------------------------------


def as_list(mark):
    """Give pytest a list, which it asks for; scikit-learn 1.6 makes a generator."""
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)


CHECKED = HDSLCV([1.0, 100.0], priors=[0.1], estimator=HDSL(max_iter=5), cv=2)


@as_list(parametrize_with_checks([CHECKED]))
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


@pytest.mark.parametrize("mining", ["neighbors", "random"])
def test_of_equals_the_automatic_values_and_the_longest_run_are_chosen(mining):
    base = small(mining=mining, scoring=lambda *_: 0.5, n_iter_no_change=None)
    searched = HDSLCV(estimator=base, cv=2).fit(X, Y)
    assert searched.best_params_["n_iter"] == 30
    assert_same_model(searched.best_estimator_, small(mining=mining).fit(X, Y))
    half = HDSLCV(estimator=base, cv=2, priors=[0.0, 0.1]).fit(X, Y)
    assert half.best_params_ == searched.best_params_ | {"prior": 0.0}


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


# --- the choice ----------------------------------------------------------------------------------


@st.composite
def surfaces(draw):
    """Finished runs of a grid, perhaps with a run missing in the last fold, and a preference."""
    n_priors, n_scales, n_folds = (draw(st.integers(1, n)) for n in (2, 3, 3))
    marks = [0, 10, 20, 30]
    cells = []
    for place in np.ndindex(n_folds, n_priors, n_scales):
        last = draw(st.integers(1, 4))
        numbers = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2)),
                                min_size=last, max_size=last))  # fmt: skip
        scores = {k: Estimate(v / 8, e / 8) for k, (v, e) in zip(marks, numbers, strict=False)}
        cells.append(Cell(*place, None, scores, 1.0))
    if n_folds > 1 and draw(st.booleans()):
        cells.pop()
    preference = [draw(st.integers(0, 2)) for _ in range(n_priors * n_scales)]
    return cells, (n_priors, n_scales, n_folds), np.reshape(preference, (n_priors, n_scales))


@given(surfaces())
def test_the_choice_is_the_slow_one(case):
    cells, (n_priors, n_scales, n_folds), preference = case
    runs = {cell[:3]: cell.scores for cell in cells}
    grid = list(np.ndindex(n_priors, n_scales))
    folds = [f for f in range(n_folds) if all((f, *cell) in runs for cell in grid)]
    marks = sorted({k for scores in runs.values() for k in scores})
    points = {}
    for cell in grid:
        for k in marks:
            known = [runs[f, *cell][max(n for n in runs[f, *cell] if n <= k)] for f in folds]
            values, errors = np.transpose(known)
            over_folds = values.std(ddof=1) / len(folds) ** 0.5 if len(folds) > 1 else 0.0
            points[*cell, k] = (
                values.mean(),
                max(over_folds, np.sqrt((errors**2).sum()) / len(folds)),
            )
    mean, error = max(points.values(), key=lambda point: point[0])  # the first of equals
    close = {point for point, (value, _) in points.items() if value >= mean - error - 1e-12}
    highest = {cell: max(points[*cell, k][0] for k in marks) for cell in grid}
    wanted = max(
        (cell for cell in grid if any(point[:2] == cell for point in close)),
        key=lambda cell: (preference[cell], round(highest[cell], 9)),
    )
    surface = Surface.of(cells, n_priors, n_scales, n_folds)
    chosen = surface.choose(preference)
    assert chosen[:2] == wanted
    assert surface.iterations[chosen.iteration] == max(
        k for *cell, k in close if (*cell,) == wanted
    )
    assert surface.folds.tolist() == folds


def test_the_chosen_point_is_fitted_on_all_rows(found):
    chosen = found.best_params_
    p, s = PRIORS.index(chosen["prior"]), SCALES.index(chosen["scale"])
    mean = found.scores_.mean(axis=-1)
    k = found.iterations_.tolist().index(chosen["n_iter"])
    assert found.best_score_ == pytest.approx(mean[p, s, k], abs=1e-12)
    model = small(scale=chosen["scale"], prior=chosen["prior"], max_iter=chosen["n_iter"])
    assert_same_model(found.best_estimator_, model.fit(X, Y))


def test_the_comparisons_of_a_fold_are_laid_out_once(monkeypatch):
    from hdsl.backends.cpu import layout

    make, calls = layout.CPULayout, []

    def counted(*args, **kwargs):
        calls.append(1)
        return make(*args, **kwargs)

    monkeypatch.setattr(layout, "CPULayout", counted)
    search(small(max_iter=2)).fit(X, Y)
    assert len(calls) == 2 + 1  # the folds and the refit


def test_a_refit_without_memory_is_refused_before_the_grid_or_given_up_after_it(monkeypatch):
    from hdsl.backends.cpu import memory as estimates

    of = estimates.estimate
    big = memory.NotEnoughMemory("To fit", 2**40, 2**30, is_limit=True, options=())

    def estimate(rows, *args, **kwargs):
        need = of(rows, *args, **kwargs)
        return need._replace(products=2**50) if rows.shape[0] == len(X) else need

    with monkeypatch.context() as patched:
        patched.setattr(estimates, "estimate", estimate)
        searched = search(small(memory_limit=1.0, callback=lambda state: pytest.fail("too late")))
        with pytest.raises(memory.NotEnoughMemory):
            searched.fit(X, Y)
    learn = path.learn

    def fails(fit, *args):
        if fit.validation is None:
            raise big
        return learn(fit, *args)

    monkeypatch.setattr(path, "learn", fails)
    searched = search(**ONE)
    with pytest.warns(
        UserWarning, match=r"The refit on all rows was given up.*the model of a fold"
    ):
        searched.fit(X, Y)
    assert searched.status_ == "not_refitted"
    assert len(searched.cv_results_["mean_test_score"]) == 1
    assert searched.transform(X).shape[0] == len(X)


def test_the_first_cell_of_equals_and_its_longest_run_are_chosen():
    def scoring(model, rows, truth):
        return float(model.prior_ > 0 and len(model.weights_) > 1)

    searched = search(small(scoring=scoring, tol=0.0)).fit(X, Y)
    assert searched.best_params_ == {"scale": SCALES[0], "prior": PRIORS[1], "n_iter": 30}
    assert searched.best_score_ == 1.0
    assert_array_equal(searched.cv_results_["rank_test_score"], [4, 4, 4, 1, 1, 1])


def test_the_starting_atom_may_be_the_best():
    searched = search(small(scoring=lambda m, rows, truth: -len(m.weights_)), **ONE).fit(X, Y)
    assert searched.best_params_["n_iter"] == searched.best_estimator_.n_iter_ == 0


def test_the_table_has_a_line_per_scale_and_prior(found):
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
    assert {len(column) for column in table.values()} == {6}


@all_kinds
def test_validation_data_choose_a_model_of_the_path(kind):
    learn, validate = LEARN[kind]
    searched = search().fit(X, **learn, X_val=X_VAL, **validate)
    assert searched.scores_.shape[-1] == 1
    fits = [
        small(scale=scale, prior=prior).fit(X, **learn, X_val=X_VAL, **validate)
        for prior in PRIORS
        for scale in SCALES
    ]
    chosen, point = searched.best_estimator_, searched.best_params_
    (same,) = (m for m in fits if (m.scale_, m.prior_) == (point["scale"], point["prior"]))
    n_iter = min(point["n_iter"], len(same.trace_) - 1)
    assert_same_model(chosen, same.at(n_iter))
    assert chosen.validation_score_ == searched.best_score_ == along(same, [n_iter])[0]


def test_without_refit_the_best_model_is_that_of_a_fold(found):
    searched = search(refit=False).fit(X, Y)
    assert_array_equal(searched.scores_, found.scores_)
    best, chosen = searched.best_estimator_, searched.best_params_
    assert (best.scale_, best.prior_) == (chosen["scale"], chosen["prior"])
    model = small(scale=best.scale_, prior=best.prior_)
    fits = [
        clone(model).fit(X[train], Y[train], X_val=X[held], y_val=Y[held]) for train, held in SPLITS
    ]
    assert any(
        np.array_equal(best.atoms_, fit.at(best.n_iter_).atoms_)
        for fit in fits
        if len(fit.trace_) > best.n_iter_
    )


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
    assert set(untrusted) == {"hdsl.estimators.hdsl.HDSL", "hdsl.estimators.cv.HDSLCV"}
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


# --- many runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("refit", [True, False])
def test_runs_side_by_side_change_nothing(refit):
    one = search(refit=refit).fit(X, Y)
    with joblib.parallel_config("threading"):  # runs end in any order
        two = search(refit=refit, n_jobs=2).fit(X, Y)
    assert_array_equal(one.scores_, two.scores_)
    assert one.best_params_ == two.best_params_
    assert_same_model(one.best_estimator_, two.best_estimator_)
    for name in set(one.cv_results_) - {"mean_fit_time"}:
        assert_array_equal(one.cv_results_[name], two.cv_results_[name])


def test_verbose_prints_a_line_per_run(capsys):
    searched = search(small(verbose=1), verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert all(len(line) < 80 for line in err.splitlines())
    lines, (chosen, *refit) = err.splitlines()[:12], err.splitlines()[12:]
    assert [line.split()[1] for line in lines] == [f"{k}/12" for k in range(1, 13)]
    for words in ("scale 0.3", "prior 0.05", "fold 1", "score ", " at ", "s left"):
        assert any(words in line for line in lines)
    best = max(float(re.search(r"score (\S+)", line)[1]) for line in lines)
    assert f"best {best:.4f}" in lines[-1]
    assert f"best mean {searched.best_score_:.4f}: scale " in chosen
    assert refit[-1].startswith(f"{searched.best_estimator_.n_iter_} iterations in ")
    assert searched.best_estimator_.verbose == 1
    search(small(verbose=1), **ONE).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert capsys.readouterr() == ("", "")


class InterruptsRun:
    """A callback that interrupts the n-th run at some iteration, or ends it by another error."""

    def __init__(self, run, n_iter, error=KeyboardInterrupt):
        self.run, self.n_iter, self.error, self.n_runs = run, n_iter, error, 0

    def __call__(self, state):
        self.n_runs += state.n_iter == 0
        if (self.n_runs, state.n_iter) == (self.run, self.n_iter):
            raise self.error

    def __sklearn_clone__(self):
        return self


@pytest.mark.parametrize(("run", "n_iter"), [(7, 3), (8, 0), (12, 7)])
def test_after_an_interrupt_only_whole_folds_are_compared(found, run, n_iter):
    searched = search(small(callback=InterruptsRun(run, n_iter)))
    without_interrupt(searched.fit, X, Y)
    assert searched.status_ == "interrupted"
    finished = np.moveaxis(np.arange(12).reshape(2, 2, 3, 1), 0, -1) < run - 1
    at = np.isin(found.iterations_, searched.iterations_)
    expected = np.where(finished, found.scores_, np.nan)[:, :, at]
    assert_array_equal(searched.scores_, expected)
    first = expected[..., 0].reshape(6, -1)  # the fold with all its runs
    assert_array_equal(searched.cv_results_["mean_test_score"], first.max(axis=1))
    assert searched.best_score_ in first
    best, chosen = searched.best_estimator_, searched.best_params_
    assert (best.scale_, best.prior_) == (chosen["scale"], chosen["prior"])
    assert best.n_iter_ <= chosen["n_iter"]
    assert searched.transform(X).shape[0] == len(X)
    assert searched.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("once", [True, False])
def test_interrupt_while_scoring(once):
    n_calls, runs = 0, [None]

    def scoring(model, rows, truth):
        nonlocal n_calls
        if runs[-1] != (model.scale_, model.prior_):
            runs.append((model.scale_, model.prior_))
        late = len(runs) > 9  # in the second fold
        n_calls += late
        if late and (n_calls == 1 or not once):
            raise KeyboardInterrupt
        return model.similarity(rows).sum()

    searched = search(small(scoring=scoring))
    without_interrupt(searched.fit, X, Y)
    assert searched.status_ == "interrupted"
    missing = np.isnan(searched.scores_).any(axis=2)
    assert_array_equal(missing.sum(axis=(0, 1)), [0, 4])
    assert searched.best_estimator_.scale_ == searched.best_params_["scale"]


@pytest.mark.parametrize("run", [1, 6])
def test_interrupt_before_a_fold_is_finished_is_an_error(run):
    searched = search(small(callback=InterruptsRun(run, 3)))
    message = f"interrupted after {run - 1} of 12 runs, before any fold was finished"
    with pytest.raises(RuntimeError, match=message) as raised:
        without_interrupt(searched.fit, X, Y)
    finished = ~np.isnan(raised.value.surface.seconds)
    assert finished.sum() == run - 1  # their scores are not lost
    assert not finished[..., 1].any()


@pytest.mark.parametrize("error", [MemoryError(), OSError("disk"), BrokenProcessPool("killed")])
def test_scores_of_whole_folds_outlast_an_error(found, error):
    searched = search(small(callback=InterruptsRun(8, 2, error)))
    with pytest.warns(UserWarning, match=r"ended after 7 of 12 runs: .* are compared, 1 of 2\."):
        searched.fit(X, Y)
    assert searched.status_ == "interrupted"
    at = np.isin(found.iterations_, searched.iterations_)
    assert_array_equal(searched.scores_[..., 0], found.scores_[:, :, at, 0])
    first = found.scores_[:, :, at, 0].reshape(6, -1)
    assert_array_equal(searched.cv_results_["mean_test_score"], first.max(axis=1))
    with pytest.raises(type(error)):  # nothing to compare
        search(small(callback=InterruptsRun(3, 2, error))).fit(X, Y)


def test_scores_outlast_any_error_in_the_refit():
    searched = search(small(callback=InterruptsRun(3, 1, ZeroDivisionError())), **ONE)
    with pytest.warns(UserWarning, match=r"given up: ZeroDivisionError\. best_estimator_ is"):
        searched.fit(X, Y)
    assert searched.status_ == "not_refitted"
    assert not np.isnan(searched.scores_).all()


def test_processes_count_in_the_memory_of_a_grid():
    """Each process holds the libraries, its data and its run: 395 MiB were once taken for 31."""
    model, limit = small(), 0.3  # GiB
    search(clone(model).set_params(memory_limit=limit), n_jobs=1, **ONE).fit(X, Y)
    refused = search(clone(model).set_params(memory_limit=limit), n_jobs=2, **ONE)
    with pytest.raises(memory.NotEnoughMemory, match=r"2 folds, 2 at a time, needs.*Lower n_jobs"):
        refused.fit(X, Y)


def test_interrupt_in_the_refit_is_in_the_status():
    estimator = small(callback=InterruptsRun(3, 2), scoring=lambda m, rows, truth: len(m.weights_))
    searched = search(estimator, scales=[3.0], priors=[0.0])
    without_interrupt(searched.fit, X, Y)
    assert searched.best_params_["n_iter"] > 2
    assert (searched.best_estimator_.n_iter_, searched.status_) == (2, "interrupted")
    assert searched.transform(X).shape[0] == len(X)


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
import numpy as np, scipy.sparse as sp
from hdsl import HDSL, HDSLCV
X = sp.random(200, 100, density=0.1, random_state=0, format="csr")
y = np.arange(200) % 2
base = HDSL(max_iter=200, tol=0.0, n_iter_no_change=None)
search = HDSLCV([1.0, 10.0], priors=[0.0], cv=80, estimator=base, n_jobs=2, verbose=1)
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
        lines = [run.stderr.readline() for _ in range(3)]
        assert all("/160 " in line and "left" in line for line in lines)
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
    assert int(n_rows) == 200


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
