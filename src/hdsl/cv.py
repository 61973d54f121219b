"""HDSLCV: scale, prior and number of iterations chosen together, on validation data."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from . import checks, memory, path
from .callbacks import CallbackSupportMixin, task_data, with_callbacks
from .cuda.runtime import BrokenDeviceError
from .fitting import Fit, check_memory, chosen_sizes, estimate_fit, make_layout
from .folds import refuse_checkpoint, row_folds
from .hdsl import HDSL
from .mining import Mining
from .model import SimilarityModel
from .parameters import check_parameters, class_rows
from .progress import GridProgress
from .rows import RowNorm
from .similarity import Similarity
from .supervision import Supervision
from .surface import Cell, Surface, Unfinished, describe

#: Bytes of a process with the libraries and the compiled code, before its first run.
PROCESS = 300 * 2**20

#: What "auto" tries, as multiples of HDSL's own automatic values.
AUTO_SCALES = (0.3, 1.0, 3.0)
AUTO_PRIORS = (1.0,)


class HDSLCV(CallbackSupportMixin, SimilarityModel):
    """HDSL with scale, prior and number of iterations chosen by cross-validation.

    Every pair of a prior and a scale is learned on the training part of each fold, and every path
    is scored along the way on the other part, so that a grid of runs shows a whole surface: score
    by prior, scale and iteration. Points within one standard error of the best mean count as
    equally good. Among these the automatic scale and prior go first, then those of the best mean,
    and of their iterations the last. The chosen point is then fitted to all rows. The standard
    error is that over folds, or that of the validation rows where it is larger.

    The runs of a fold share their comparisons. Each run starts from nothing: a path that started
    from that of another scale would have no early models to choose from.

    Parameters
    ----------
    scales : array-like of float or "auto", default="auto"
        "auto" is 0.3, 1 and 3 times the automatic scale of HDSL for all rows.
    priors : array-like of float or "auto", default="auto"
        "auto" is the automatic prior of HDSL for all rows.
    estimator : HDSL or None, default=None
        Carries all other parameters; None is ``HDSL()``.
    cv : int, splitter or iterable, default=3
        As in scikit-learn; stratified for labels. With triplets an int splits the rows, so that
        none is on both sides, and judgements across the sides are left out.
    refit : bool, default=True
        Fit the best on all rows at the end. Its memory and that of the grid with all its processes
        are checked before the first run. Not done
        where ``fit`` is given validation data: the best model has seen all training rows already.
    n_jobs : int or None, default=None
        Processes, at most one per fold; more than the folds are threads of each run. Results do not
        depend on it.
    verbose : int, default=0
        1 shows a live line in a terminal or a notebook, on stderr, and elsewhere a line per
        finished run; with several processes the lines of a fold come together.

    Attributes
    ----------
    best_estimator_ : HDSL
    best_params_ : dict
        scale, prior and n_iter.
    best_score_ : float
        Mean validation score at `best_params_`; the score is that of HDSL or the estimator's
        ``scoring``.
    scales_, priors_, iterations_ : ndarrays
        The axes of the surface.
    scores_ : ndarray of shape (n_priors, n_scales, n_iterations, n_folds)
        A run that ended before an iteration counts with its last score; NaN where a run is missing
        because of an interrupt.
    cv_results_ : dict of ndarrays
        One line per pair of prior and scale at its best iteration, as in scikit-learn.
    status_ : str
        "complete"; "interrupted" (Ctrl-C, no memory, or a lost process): only folds with all their
        runs finished are compared, and `best_estimator_` is a model of such a fold, or the refit so
        far; or "not_refitted": the refit failed, for example for want of memory, and
        `best_estimator_` is the model of a fold.
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
        cv: Any = 3,
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
        X = checks.as_problem_matrix(checks.check_matrix(checked, X, reset=True))
        rows = RowNorm.of(base, X, continues=False)
        whole = Supervision.check(
            type(self).__name__, rows.apply(X), y, triplets=triplets, quadruplets=quadruplets,
            sample_weight=sample_weight, **class_rows(base),
        )  # fmt: skip
        validation = (X_val, y_val, triplets_val)
        is_fixed = any(part is not None for part in validation)
        refits = self.refit and not is_fixed
        refit_rng = checks.generator(base.random_state)
        if is_fixed:
            held = whole.check_validation(checked, *validation)
            parts = [(whole, replace(held, X=rows.apply(held.X)))]
        else:
            parts = list(row_folds(whole, self.cv, way_out="Use fewer folds, or pass X_val."))
            if not parts:
                raise ValueError("cv has no fold: give an int, a splitter, or at least one split.")
        whole = _mined(base, whole, refit_rng)
        if refits:  # before the work of the grid
            check_memory(base, whole.rows, whole.compared)
        rng = checks.generator(base.random_state)
        folds = [(whole if is_fixed else _mined(base, part, rng), held) for part, held in parts]
        self._check_memory(base, folds, whole if refits else None)
        learned = copy(self)  # self changes at the end, in one stroke
        learned.priors_, learned.scales_, preference = self._grid(base, whole)
        shape = len(learned.priors_), len(learned.scales_), len(folds)
        n_runs = math.prod(shape)
        root = None
        if hasattr(self, "_skl_callbacks") or hasattr(base, "_skl_callbacks"):
            root = self._init_callback_context(
                max_subtasks=n_runs + refits, sequential_subtasks=False
            )
            root.call_on_fit_task_begin(estimator=self, **task_data(whole))
        with GridProgress(self.verbose, n_runs) as shown:
            cells, error = self._run(base, folds, learned.priors_, learned.scales_, shown, root)
            surface = Surface.of(cells, *shape)
            if not len(surface.folds):
                if error is not None:
                    raise error
                raise Unfinished(len(cells), n_runs, surface)
            if error is not None:
                warnings.warn(
                    f"HDSLCV ended after {len(cells)} of {n_runs} runs: {describe(error)} Only the "
                    f"folds with all their runs finished are compared, {len(surface.folds)} of "
                    f"{len(folds)}.",
                    UserWarning,
                    stacklevel=3,
                )
            learned._set_choice(cells, surface, preference)
            chosen = "scale {scale:.4g}, prior {prior:.4g}, {n_iter} iterations"
            shown.end(learned.best_score_, chosen.format(**learned.best_params_))
        learned.status_ = "complete" if len(cells) == n_runs else "interrupted"
        if refits and learned.status_ == "complete":
            task = None if root is None else root.subcontext(task_name="refit", task_id=n_runs)
            learned.status_ = learned._refit(base, whole, refit_rng, task)
        best = learned.best_estimator_
        best.norm_, best.columns_ = rows.norm, rows.columns
        learned.__dict__.pop("feature_names_in_", None)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(checked, name):
                setattr(learned, name, getattr(checked, name))
                setattr(learned.best_estimator_, name, getattr(checked, name))
        checks.replace_fitted(self, learned)
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
        refuse_checkpoint(name, base)
        return base

    def _grid(self, base: HDSL, data: Supervision) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the priors and scales to try, and how many values of each cell are automatic."""
        scales, priors = self.scales, self.priors
        is_auto_scale = is_auto_prior = np.zeros(1, dtype=bool)
        if isinstance(scales, str) or isinstance(priors, str):
            scale, prior = _automatic(base, data)
            if isinstance(scales, str):
                scales, is_auto_scale = np.multiply(scale, AUTO_SCALES), np.equal(AUTO_SCALES, 1.0)
            if isinstance(priors, str):
                priors, is_auto_prior = np.multiply(prior, AUTO_PRIORS), np.equal(AUTO_PRIORS, 1.0)
        shape = len(priors), len(scales)
        preference = np.broadcast_to(is_auto_prior[:, None].astype(int) + is_auto_scale, shape)
        return np.asarray(priors, dtype=float), np.asarray(scales, dtype=float), preference

    def _run(
        self,
        base: HDSL,
        folds: Sequence[tuple[Supervision, Supervision]],
        priors: np.ndarray,
        scales: np.ndarray,
        shown: GridProgress,
        root: Any,
    ) -> tuple[list[Cell], Exception | None]:
        """Return the finished runs, and the error that ended the others; so does an interrupt."""
        n_runs = len(priors) * len(scales)
        tasks: list[Any] = [None] * (n_runs * len(folds))
        if root is not None:  # all made before a process gets one: each knows the others
            tasks = [root.subcontext(task_name="run", task_id=k) for k in range(len(tasks))]
        n_jobs = joblib.effective_n_jobs(self.n_jobs)
        n_processes = min(n_jobs, len(folds)) if base.device == "cpu" else 1  # one for the card
        base = clone(base).set_params(n_jobs=n_jobs // n_processes, verbose=0)
        caller = None if root is None else self
        jobs = [
            Fold(base, k, *parts, priors, scales, tasks[k * n_runs : (k + 1) * n_runs], caller)
            for k, parts in enumerate(folds)
        ]
        cells: list[Cell] = []
        try:
            for cell in _results(jobs, n_processes):
                if cell.model.status_ == "interrupted":
                    break
                cells.append(cell)
                shown.add(cell.model, cell.fold)
        except KeyboardInterrupt:
            pass
        except (MemoryError, OSError, BrokenExecutor, BrokenDeviceError) as error:
            # A process may be killed.
            return cells, error
        return cells, None

    def _check_memory(
        self,
        base: HDSL,
        folds: Sequence[tuple[Supervision, Supervision]],
        whole: Supervision | None,
    ) -> None:
        """Refuse a grid that cannot fit, before its work."""
        if base.memory_limit is None or base.device != "cpu":
            return
        n_jobs = joblib.effective_n_jobs(self.n_jobs)
        n_processes = min(n_jobs, len(folds))
        runner = clone(base).set_params(n_jobs=n_jobs // n_processes)
        memory.check_fits(
            f"{type(self).__name__} on {len(folds)} folds, {n_processes} at a time,",
            search_memory(runner, folds, whole, n_processes),
            base.memory_limit,
            ("lower n_jobs", "use fewer folds", "set batch_size= of the estimator",
             "pass memory_limit=None to go on anyway"),
        )  # fmt: skip

    def _set_choice(self, cells: list[Cell], surface: Surface, preference: np.ndarray) -> None:
        """Set the attributes of the search; the best model is that of a fold until the refit."""
        point = surface.choose(preference)
        n_iter = int(surface.iterations[point.iteration])
        self.iterations_, self.scores_ = surface.iterations, surface.scores
        self.best_score_ = float(surface.mean[point])
        self.best_params_ = {
            "scale": float(self.scales_[point.scale]),
            "prior": float(self.priors_[point.prior]),
            "n_iter": n_iter,
        }
        self.cv_results_ = surface.table(self.priors_, self.scales_)
        fold = surface.folds[surface.scores[point][surface.folds].argmax()]
        best = next(cell.model for cell in cells if cell[:3] == (fold, *point[:2]))
        n_iter = min(n_iter, len(best.trace_) - 1)
        self.best_estimator_ = best.at(n_iter) if n_iter != best.n_iter_ else best
        self.best_estimator_.validation_score_ = float(surface.scores[point][fold])

    def _refit(self, base: HDSL, data: Supervision, rng: np.random.Generator, task: Any) -> str:
        """Fit the best to all rows; return the status."""
        chosen = self.best_params_
        best = clone(base).set_params(
            scale=chosen["scale"], prior=chosen["prior"], max_iter=max(chosen["n_iter"], 1),
            n_jobs=self.n_jobs, verbose=max(base.verbose, self.verbose),
        )  # fmt: skip
        fit = Fit(best, data, None, rng)
        fit.limit = int(chosen["n_iter"])
        try:
            with _followed(task, self, best, data):
                path.learn(fit)
        except KeyboardInterrupt:  # before it has learned: the best of the runs stays
            return "interrupted"
        except Exception as error:  # whatever it is, the scores of the grid stay
            warnings.warn(
                f"The refit on all rows was given up: {describe(error)} best_estimator_ is the "
                "model of a fold.",
                UserWarning,
                stacklevel=5,
            )
            return "not_refitted"
        best.verbose = base.verbose
        self.best_estimator_ = best
        return "interrupted" if best.status_ == "interrupted" else "complete"

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


def search_memory(
    base: HDSL,
    folds: Sequence[tuple[Supervision, Supervision]],
    whole: Supervision | None,
    n_processes: int,
) -> int:
    """Return the bytes that a grid takes at most, in all processes together.

    `whole` has all rows, for the refit; None where there is none.
    """

    def held(parts: tuple[Supervision, Supervision]) -> int:
        return sum(12 * part.X.nnz + 8 * np.size(part.compared) for part in parts)

    data = sum(map(held, folds))
    largest = max(folds, key=lambda parts: parts[0].X.nnz)
    run = estimate_fit(base, largest[0].rows, largest[0].compared).total
    refit = 0 if whole is None else estimate_fit(base, whole.rows, whole.compared).total
    if n_processes == 1:
        return data + max(run, refit)
    return data + refit + n_processes * (PROCESS + held(largest) + run)


def _automatic(base: HDSL, data: Supervision) -> tuple[float, float]:
    """Return the automatic scale and prior for data with their comparisons."""
    from .cpu.workers import Workers

    with Workers(base.n_jobs) as workers:
        return chosen_sizes("auto", "auto", make_layout(base, data, workers))


def _mined(base: HDSL, data: Supervision, rng: np.random.Generator) -> Supervision:
    """Return the data with their triplets."""
    data = data.draw(rng)
    compared, weights = Mining.of(base)(data, rng)
    return replace(data, compared=compared, compared_weights=weights)


class Fold(NamedTuple):
    """The runs of a fold, which share their comparisons and the layout of these."""

    base: HDSL
    number: int
    train: Supervision
    held: Supervision
    priors: np.ndarray
    scales: np.ndarray
    tasks: list[Any]
    caller: HDSLCV | None

    def cells(self) -> Iterator[Cell]:
        """Fit every prior and scale, each scored along its path; an interrupt ends it."""
        from .cpu.workers import Workers

        with Workers(self.base.n_jobs) as workers:
            layout = make_layout(self.base, self.train, workers)
            grid = product(enumerate(self.priors), enumerate(self.scales))
            for task, ((p, prior), (s, scale)) in zip(self.tasks, grid, strict=True):
                began = time.perf_counter()
                model = clone(self.base).set_params(scale=float(scale), prior=float(prior))
                model.n_features_in_ = self.train.X.shape[1]
                rng = checks.generator(model.random_state)
                with _followed(task, self.caller, model, self.train):
                    found = path.learn(Fit(model, self.train, self.held, rng, layout=layout))
                assert found.scores is not None
                scores = {k: v for k, v in found.scores.scores.items() if not np.isnan(v.value)}
                yield Cell(self.number, p, s, model, scores, time.perf_counter() - began)
                if model.status_ == "interrupted":
                    return


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


def _results(folds: list[Fold], n_processes: int) -> Iterator[Cell]:
    """Run the folds, here or in other processes, and yield results as they come."""
    if n_processes == 1:
        for fold in folds:
            yield from fold.cells()
        return
    jobs = (joblib.delayed(_cells)(fold) for fold in folds)
    for cells in joblib.Parallel(n_jobs=n_processes, return_as="generator_unordered")(jobs):
        yield from cells


def _cells(fold: Fold) -> list[Cell]:
    return list(fold.cells())
