"""The runs of HDSLCV: side by side, printed, interrupted, ended by errors."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from hdsl import memory
from searches import ONE, search, small
from small_fits import LABELS as Y
from small_fits import ROWS as X
from small_fits import X_VAL, Y_VAL, assert_same_model, without_interrupt


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
