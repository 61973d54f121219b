"""HDSLCV: scale, prior and number of iterations chosen together, on validation data."""

from __future__ import annotations

import numbers
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from .. import user_input
from ..similarity import Similarity
from ..triplets import PointKFold
from . import path
from .callbacks import CallbackSupportMixin, task_data, with_callbacks
from .fitting import Fit, chosen_sizes
from .hdsl import HDSL
from .mining import Mining
from .model import SimilarityModel
from .parameters import check_parameters
from .progress import GridProgress
from .rows import RowNorm
from .supervision import Supervision

#: What "auto" tries, as multiples of HDSL's own automatic values; priors also try 0.
AUTO_SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)
AUTO_PRIORS = (0.3, 1.0, 3.0)


class Cell(NamedTuple):
    """One run: which, the fitted model, the scores along its path, and its seconds."""

    prior: int
    scale: int
    fold: int
    model: HDSL
    scores: dict[int, float]
    seconds: float


class HDSLCV(CallbackSupportMixin, SimilarityModel):
    """HDSL with scale, prior and number of iterations chosen by cross-validation.

    Every pair of a prior and a scale is learned on the training part of each fold, and every path
    is scored along the way on the other part, so that a grid of runs shows a whole surface: score
    by prior, scale and iteration. The best point of the mean surface is then fitted on all rows.
    Runs start from nothing: a path that started from that of another scale would have no early
    models to choose from.

    Parameters
    ----------
    scales : array-like of float or "auto", default="auto"
        "auto" is 0.1, 0.3, 1, 3 and 10 times the automatic scale of HDSL.
    priors : array-like of float or "auto", default="auto"
        "auto" is 0 and 0.3, 1 and 3 times the automatic prior of HDSL.
    estimator : HDSL or None, default=None
        Carries all other parameters; None is ``HDSL()``.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; stratified for labels. With triplets an int splits the rows, so that
        none is on both sides, and judgements across the sides are left out.
    refit : bool, default=True
        Fit the best on all rows at the end. Not done where ``fit`` is given validation data: the
        best model has seen all training rows already.
    n_jobs : int or None, default=None
        Processes for the runs of the grid; each run takes one thread.
    verbose : int, default=0
        1 shows a live line in a terminal or a notebook, on stderr, and elsewhere a line a finished
        run.

    Attributes
    ----------
    best_estimator_ : HDSL
    best_params_ : dict
        scale, prior and n_iter.
    best_score_ : float
        Mean validation score of the best: accuracy of 3-NN, of triplets, or the estimator's
        ``scoring``.
    scales_, priors_, iterations_ : ndarrays
        The axes of the surface.
    scores_ : ndarray of shape (n_priors, n_scales, n_iterations, n_folds)
        A run that ended before an iteration counts with its last score; NaN where a run is missing
        because of an interrupt.
    cv_results_ : dict of ndarrays
        One line a pair of prior and scale at its best iteration, as in scikit-learn.
    status_ : str
        "complete", or "interrupted" (Ctrl-C): then the best of the finished runs is kept as it is.
    n_features_in_ : int

    Examples
    --------
    >>> from hdsl import HDSLCV
    >>> from hdsl.datasets import make_recovery
    >>> X, triplets, *_ = make_recovery(60, 80, n_triplets=2000, density=0.1, n_atoms=4,
    ...                                 block_size=8, random_state=0)
    >>> search = HDSLCV(scales=[1, 10], priors=[0.0], cv=2, estimator=HDSL(max_iter=50))
    >>> search.fit(X, triplets=triplets).scores_.shape[:2]
    (1, 2)
    """

    def __init__(
        self,
        scales: Any = "auto",
        *,
        priors: Any = "auto",
        estimator: HDSL | None = None,
        cv: Any = 5,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.scales = scales
        self.priors = priors
        self.estimator = estimator
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- fitting ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        triplets_val: Any = None,
    ) -> HDSLCV:
        """Run the grid, choose, and fit the best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y, triplets, quadruplets, sample_weight
            As in ``HDSL.fit``.
        X_val, y_val, triplets_val
            Choose on these instead of on folds.

        Returns
        -------
        self
        """
        base = self._base()
        checked = copy(base)
        X = user_input.as_problem_matrix(user_input.check_matrix(checked, X, reset=True))
        rows = RowNorm.of(base, X, continues=False)
        whole = Supervision.check(
            type(self).__name__, rows.apply(X), y, triplets=triplets, quadruplets=quadruplets,
            sample_weight=sample_weight,
        )  # fmt: skip
        validation = (X_val, y_val, triplets_val)
        fixed = any(part is not None for part in validation)
        if fixed:
            held = whole.check_validation(checked, *validation)
            folds = [(whole, replace(held, X=rows.apply(held.X)))]
        else:
            folds = list(self._folds(whole))
            if not folds:
                raise ValueError("cv has no fold: give an int, a splitter, or at least one split.")
        rng = user_input.generator(base.random_state)
        mined = [(_mined(base, train, rng), held) for train, held in folds]
        scales, priors = self._grid(base, mined[0][0])
        n_runs, refits = len(priors) * len(scales) * len(folds), self.refit and not fixed
        root = None
        if hasattr(self, "_skl_callbacks") or hasattr(base, "_skl_callbacks"):
            root = self._init_callback_context(
                max_subtasks=n_runs + refits, sequential_subtasks=False
            )
            root.call_on_fit_task_begin(estimator=self, **task_data(whole))
        with GridProgress(self.verbose, n_runs) as shown:
            cells, complete = self._run(base, mined, scales, priors, shown, root)
            if not cells:
                raise RuntimeError(
                    "HDSLCV was interrupted before any run was finished: there is no model yet."
                )
            learned = copy(self)  # self changes at the end, in one stroke
            learned._keep(sorted(cells, key=lambda cell: cell[:3]), len(folds), scales, priors)
            shown.end(learned.best_score_, learned.best_params_)
        if complete and refits:
            best = clone(base).set_params(**learned._refit_parameters())
            best.verbose = max(base.verbose, self.verbose)
            task = None if root is None else root.subcontext(task_name="refit", task_id=n_runs)
            try:
                with _followed(task, self, best, whole):
                    path.learn(Fit(best, whole, None, user_input.generator(base.random_state)))
            except KeyboardInterrupt:  # before it has learned: the best of the runs stays
                complete = False
            else:
                best.verbose = base.verbose
                learned.best_estimator_ = best
                if best.n_iter_ > learned.best_params_["n_iter"]:
                    learned.best_estimator_ = best.at(learned.best_params_["n_iter"])
                complete = best.status_ != "interrupted"
        learned.status_ = "complete" if complete else "interrupted"
        best = learned.best_estimator_
        best.norm_, best.columns_ = rows.norm, rows.columns
        learned.__dict__.pop("feature_names_in_", None)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(checked, name):
                setattr(learned, name, getattr(checked, name))
                setattr(learned.best_estimator_, name, getattr(checked, name))
        user_input.replace_fitted(self, learned)
        if root is not None:
            root.call_on_fit_task_end(estimator=self, **task_data(whole))
        return self

    def _base(self) -> HDSL:
        name = type(self).__name__
        if self.estimator is not None and not isinstance(self.estimator, HDSL):
            raise ValueError(
                f"The 'estimator' parameter of {name} must be an HDSL or None. Got "
                f"{self.estimator!r} instead."
            )
        for parameter, low in (("scales", "> 0"), ("priors", ">= 0")):
            values = getattr(self, parameter)
            if isinstance(values, str) and values == "auto":
                continue
            given = np.asarray(values)
            good = given.ndim == 1 and given.size > 0 and given.dtype.kind in "iuf"
            good = good and bool(np.isfinite(given).all())
            if not good or not ((given > 0) if low == "> 0" else (given >= 0)).all():
                raise ValueError(
                    f"The {parameter!r} parameter of {name} must be a list of finite floats "
                    f"{low}, or 'auto'. Got {values!r} instead."
                )
        base = clone(self.estimator) if self.estimator is not None else HDSL()
        check_parameters(base)
        if base.checkpoint is not None:
            raise ValueError(
                f"{name} makes many runs, and a checkpoint is of one: leave checkpoint=None here, "
                "and set it in the fit of the HDSL with the chosen parameters."
            )
        return base

    def _folds(self, whole: Supervision) -> Iterator[tuple[Supervision, Supervision]]:
        """Split by rows; none is on both sides."""
        counted = isinstance(self.cv, numbers.Integral)
        if whole.is_judged and counted:
            splits = PointKFold(int(self.cv), shuffle=True, random_state=0).split(whole.X)
        else:
            splitter = check_cv(self.cv, whole.y, classifier=not whole.is_judged)
            if counted:
                splitter.shuffle, splitter.random_state = True, 0  # rows may come sorted
            splits = splitter.split(whole.X, whole.y)
        for k, (train, held) in enumerate(splits):
            sides = (np.asarray(rows, dtype=np.int64) for rows in (train, held))
            parts = whole.take(next(sides)), whole.take(next(sides))
            if not all(part.counts() for part in parts):
                what = "triplet" if whole.is_judged else "row"
                n = [len(part.compared if whole.is_judged else part.y) for part in parts]
                across = " (judgements across the sides are left out)" if whole.is_judged else ""
                raise ValueError(
                    f"Fold {k} of cv has no {what} of positive weight on one side: {n[0]} to train "
                    f"on, {n[1]} to validate on{across}. Use fewer folds, or pass X_val."
                )
            yield parts

    def _grid(self, base: HDSL, train: Supervision) -> tuple[np.ndarray, np.ndarray]:
        """Return the scales and priors to try."""
        scales, priors = self.scales, self.priors
        if isinstance(scales, str) or isinstance(priors, str):
            scale, prior = _automatic(base, train)
            scales = np.multiply(scale, AUTO_SCALES) if isinstance(scales, str) else scales
            if isinstance(priors, str):
                priors = [0.0, *np.multiply(prior, AUTO_PRIORS)]
        return np.asarray(scales, dtype=float), np.asarray(priors, dtype=float)

    def _run(
        self,
        base: HDSL,
        folds: Sequence[tuple[Supervision, Supervision]],
        scales: np.ndarray,
        priors: np.ndarray,
        shown: GridProgress,
        root: Any,
    ) -> tuple[list[Cell], bool]:
        """Return the finished runs, and whether that is all; an interrupt leaves the rest out."""
        places = list(product(range(len(priors)), range(len(scales)), range(len(folds))))
        tasks: list[Any] = [None] * len(places)
        if root is not None:  # all made before a process gets one: each knows the others
            tasks = [root.subcontext(task_name="run", task_id=k) for k in range(len(places))]
        caller = None if root is None else self
        jobs = (
            joblib.delayed(_cell)(
                base, *folds[fold], scales[scale], priors[prior], place, task, caller
            )
            for place, task in zip(places, tasks, strict=True)
            for prior, scale, fold in [place]
        )
        n_jobs = joblib.effective_n_jobs(self.n_jobs)
        cells: list[Cell] = []
        with suppress(KeyboardInterrupt):
            for cell in _results(jobs, n_jobs):
                if cell.model.status_ == "interrupted":
                    break
                cells.append(cell)
                shown.add(cell.model, cell.fold)
        return cells, len(cells) == len(places)

    def _keep(
        self, cells: list[Cell], n_folds: int, scales: np.ndarray, priors: np.ndarray
    ) -> None:
        iterations = np.array(sorted({k for cell in cells for k in cell.scores}))
        if not len(iterations):
            raise ValueError("No model of the grid has a score that is a number: check scoring.")
        scores = np.full((len(priors), len(scales), len(iterations), n_folds), np.nan)
        seconds = np.full((len(priors), len(scales), n_folds), np.nan)
        for cell in cells:
            known = np.array(list(cell.scores))
            at = np.searchsorted(known, iterations, side="right") - 1
            along = np.array([*cell.scores.values(), np.nan])[at]  # -1: before its first score
            scores[cell.prior, cell.scale, :, cell.fold] = along
            seconds[cell.prior, cell.scale, cell.fold] = cell.seconds
        there = ~np.isnan(scores).all(axis=(2, 3))
        known = ~np.isnan(scores).all(axis=-1)
        mean = np.full(scores.shape[:3], -np.inf)
        mean[known] = np.nanmean(scores[known], axis=-1)
        prior, scale, k = (int(at) for at in np.unravel_index(mean.argmax(), mean.shape))
        self.scales_, self.priors_, self.iterations_ = scales, priors, iterations
        self.scores_, self.best_score_ = scores, float(mean[prior, scale, k])
        self.best_params_ = {
            "scale": float(scales[scale]),
            "prior": float(priors[prior]),
            "n_iter": int(iterations[k]),
        }
        own = [cell for cell in cells if (cell.prior, cell.scale) == (prior, scale)]
        best = max(own, key=lambda cell: cell.model.validation_score_).model
        n_iter = min(int(iterations[k]), len(best.trace_) - 1)
        self.best_estimator_ = best.at(n_iter) if n_iter != best.n_iter_ else best
        self.cv_results_ = self._table(mean, seconds, there)

    def _table(
        self, mean: np.ndarray, seconds: np.ndarray, there: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return one line a pair of prior and scale, at its best iteration."""
        prior, scale = np.nonzero(there)
        best = mean[prior, scale].argmax(axis=1)
        at_best = self.scores_[prior, scale, best]
        values = mean[prior, scale, best]
        table = {
            "param_prior": self.priors_[prior],
            "param_scale": self.scales_[scale],
            "n_iter": self.iterations_[best],
            "mean_test_score": values,
            "std_test_score": np.nanstd(at_best, axis=1),
            "rank_test_score": 1 + (values[None, :] > values[:, None]).sum(axis=1),
            "mean_fit_time": np.nanmean(seconds[prior, scale], axis=1),
        }
        for fold in range(at_best.shape[1]):
            table[f"split{fold}_test_score"] = at_best[:, fold]
        return table

    def _refit_parameters(self) -> dict[str, Any]:
        chosen = {"scale": self.best_params_["scale"], "prior": self.best_params_["prior"]}
        return {**chosen, "max_iter": max(self.best_params_["n_iter"], 1), "n_jobs": self.n_jobs}

    # --- the best model's own ---------------------------------------------------------------------

    @property
    def similarity_(self) -> Similarity:
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.similarity_

    @property
    def n_components(self) -> int | None:  # type: ignore[override]
        """Columns of ``transform`` for the learned part, as the estimator has them."""
        return self.best_estimator_.n_components


def _automatic(base: HDSL, train: Supervision) -> tuple[float, float]:
    """Return the automatic scale and prior for data with their comparisons."""
    from ..backends.cpu.layout import CPULayout
    from ..backends.cpu.workers import Workers

    with Workers(base.n_jobs) as workers:
        layout = CPULayout(train.X, train.compared, train.compared_weights, workers=workers)
        return chosen_sizes("auto", "auto", layout)


def _mined(base: HDSL, train: Supervision, rng: np.random.Generator) -> Supervision:
    """Return the data with their triplets, made once for all runs of a fold."""
    mine = Mining(base.mining, base.n_targets, base.n_impostors, base.n_jobs)
    compared, weights = mine(train, rng)
    return replace(train, compared=compared, compared_weights=weights)


def _cell(
    base: HDSL,
    train: Supervision,
    held: Supervision,
    scale: float,
    prior: float,
    place: tuple[int, int, int],
    task: Any,
    caller: HDSLCV | None,
) -> Cell:
    """Fit one point of the grid, scored along its path."""
    began = time.perf_counter()
    model = clone(base).set_params(scale=float(scale), prior=float(prior), n_jobs=1, verbose=0)
    model.n_features_in_ = train.X.shape[1]
    with _followed(task, caller, model, train):
        path.learn(Fit(model, train, held, user_input.generator(model.random_state)))
    along = model.trace_["validation_score"]
    scores = {int(k): float(along[k]) for k in np.flatnonzero(~np.isnan(along))}
    return Cell(*place, model, scores, time.perf_counter() - began)


@contextmanager
def _followed(
    task: Any, caller: HDSLCV | None, model: HDSL, supervision: Supervision
) -> Iterator[None]:
    """Let scikit-learn's callbacks follow the fit of a model as a task of its caller's."""
    if task is None:
        yield
        return
    with task.propagate_callback_context(model):
        task.call_on_fit_task_begin(estimator=caller, **task_data(supervision))
        yield
        task.call_on_fit_task_end(estimator=caller, **task_data(supervision))


def _results(jobs: Iterable[Any], n_jobs: int) -> Iterator[Cell]:
    """Run the jobs, here or in other processes, and yield results as they come."""
    if n_jobs == 1:
        for function, args, kwargs in jobs:
            yield function(*args, **kwargs)
        return
    yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
