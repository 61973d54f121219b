"""What HDSLCV chooses from the surface, and the model that it fits there."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from hdsl import HDSLCV, memory, path
from hdsl.monitor import Estimate
from hdsl.surface import Cell, Surface
from searches import LEARN, ONE, PRIORS, SCALES, SPLITS, all_kinds, along, search, small
from small_fits import LABELS as Y
from small_fits import ROWS as X
from small_fits import X_VAL, assert_same_model


@pytest.mark.parametrize("mining", ["neighbors", "random"])
def test_of_equals_the_automatic_values_and_the_longest_run_are_chosen(mining):
    base = small(mining=mining, scoring=lambda *_: 0.5, n_iter_no_change=None)
    searched = HDSLCV(estimator=base, cv=2).fit(X, Y)
    assert searched.best_params_["n_iter"] == 30
    assert_same_model(searched.best_estimator_, small(mining=mining).fit(X, Y))
    half = HDSLCV(estimator=base, cv=2, priors=[0.0, 0.1]).fit(X, Y)
    assert half.best_params_ == searched.best_params_ | {"prior": 0.0}


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
    from hdsl.cpu import layout

    make, calls = layout.CPULayout, []

    def counted(*args, **kwargs):
        calls.append(1)
        return make(*args, **kwargs)

    monkeypatch.setattr(layout, "CPULayout", counted)
    search(small(max_iter=2)).fit(X, Y)
    assert len(calls) == 2 + 1  # the folds and the refit


def test_a_refit_without_memory_is_refused_before_the_grid_or_given_up_after_it(monkeypatch):
    from hdsl.cpu import memory as estimates

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
