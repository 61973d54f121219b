"""HDSL, the estimator: parameters in, fitted attributes out."""

from __future__ import annotations

import html
import numbers
import os
import platform
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import explain as explain_module
from .. import memory, user_input
from .. import triplets as triplets_module
from ..backends.cpu import memory as cpu_memory
from ..core import atoms as atoms_module
from ..core import losses
from ..files import model_file
from ..files.checkpoint import Checkpoint, digest
from ..similarity import Similarity
from . import monitor
from .monitor import Monitor
from .progress import CallbackSupportMixin, Progress, Tasks
from .supervision import Supervision

if TYPE_CHECKING:
    from ..backends.cpu.problem import TripletData
    from ..backends.cpu.workers import Workers
    from ..core.solver import Result, State

MINING = ("neighbors", "random")
STEP_SIZES = ("line_search", "2/(k+2)")
INITS = ("oracle", "random")

#: Parameters that the model at the end of a run does not depend on.
WITHOUT_EFFECT = {
    "callback", "checkpoint", "memory_limit", "n_components", "n_jobs", "verbose", "warm_start"
}  # fmt: skip

#: Parameters that tell how a run is to be made on a machine, and nothing of the model.
NOT_SAVED = {"checkpoint", "memory_limit", "n_jobs", "verbose"}

#: prior="auto" makes the typical margin of the plain dot product this large; the loss asks for 1.
AUTO_PRIOR_MARGIN = 1.0

#: scale="auto" makes the learned part this many times as large, for one anchor. It grows with the
#: root of the number of anchors, as the excess risk grows with scale / sqrt(rows), and with the
#: number of values that a row rests on where these are many, as they share the margin of the dot
#: product.
AUTO_SCALE_MARGIN = 10.0
AUTO_SCALE_VALUES = 80.0


class HDSL(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Similarity learning for sparse, very high-dimensional data.

    Learns S(x, x') = prior·⟨x, x'⟩ + xᵀMx' from triplets "x is more like y than like z", with M a
    convex combination of atoms λ(e_i ± e_j)(e_i ± e_j)ᵀ, by a Frank-Wolfe method that adds one pair
    of features a step. M is positive semi-definite, extremely sparse and readable; the cost depends
    on the non-zeros of X, not on the number of features. One run is a whole path of models, and
    stopping early is the regulariser.

    Parameters
    ----------
    scale : float > 0 or "auto", default="auto"
        λ, the size of the learned part: the trace of M is 2λ. "auto" is 10 √n max(1, s/80) / m: n
        anchors, which rest on s = (Σx²)² / Σx⁴ values in the mean, and m the mean absolute margin
        |⟨x, y - z⟩| of the dot product.
    prior : float >= 0 or "auto", default="auto"
        Weight of the plain dot product under the learned part. 0 is the paper's model; "auto" is
        1 / m.
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"}
        Loss of a triplet's margin S(x, y) - S(x, z).
    oracle : {"ascent", "heuristic", "exact"}
        How the next atom is found: alternating maximisation from several starts, the paper's
        heuristic, or a search of all pairs of features.
    step : {"away", "forward", "pairwise", "blended"}
        Which Frank-Wolfe step is taken: the paper's (forward or away, whichever is steeper), plain
        forward steps, pairwise steps, or lazy blended pairwise steps.
    step_size : {"line_search", "2/(k+2)"}, default="line_search"
        The second, the classic decreasing step, goes with ``step="forward"`` only.
    init : {"oracle", "random"}, default="oracle"
        Start from the atom that the oracle picks at M = 0, or from a random one.
    batch_size : int or None, default=None
        Triplets that the directions are chosen by, drawn anew in each iteration without
        replacement; None is all of them.
    mining : {"neighbors", "random"} or callable, default="neighbors"
        How ``fit(X, y)`` makes triplets: target neighbours times impostors by dot product, or
        at random by label; or a function (X, y, rng) -> array of shape (n_triplets, 3).
    n_targets, n_impostors : int, default=3 and 5
        Of "neighbors"; "random" draws n_targets * n_impostors triplets a row.
    mine_every : int or None, default=None
        Where `mining` is "neighbors", mine them again, under the similarity learned so far, after
        so many iterations; the new triplets join the old ones. None mines once, by dot product.
    max_iter : int, default=1000
        Most iterations. Reaching it is a normal end: the status says so.
    tol : float >= 0, default=1e-3
        Stop when the duality gap is at most this. With an oracle other than "exact" an exact
        search confirms it first, where that search costs no more than 2e11 multiplications (a few
        minutes at worst, milliseconds as a rule); a refusal doubles the wait before the next, so a
        run of k iterations makes at most log2(k) + 2 of them.
    early_stopping : bool, default=False
        Keep the model of the path that scores best on validation data: those given to ``fit``
        (which alone turn early stopping on), else rows held out.
    validation_fraction : float, default=0.1
        Share of the rows held out where ``fit`` is given no validation data: with labels by
        class; with triplets, those of a held-out anchor validate, and those without a held-out
        row train.
    n_iter_no_change : int or None, default=300
        Stop after so many iterations without a better validation score; None goes on to the end.
        Paths are scored every 10 iterations, and from 100 on when they are a tenth longer.
    scoring : callable or None, default=None
        Called as scoring(model, X_val, y_val), the larger the better; y_val is the validation
        triplets where there are no labels. None is the accuracy of 3 nearest neighbours, or the
        share of triplets judged right.
    warm_start : bool, default=False
        Let ``fit`` continue the path of the fit before, with up to `max_iter` more iterations and
        the same scale and prior.
    checkpoint : str, path-like or None, default=None
        A file to keep the run in, written every half minute. Where it is there already, left by a
        process that was killed or interrupted, the fit goes on from it and ends in the same model,
        to the last bit; data or parameters other than it was begun with are refused. ``save``
        deletes it when the model of a complete run is written. A function given as `mining`,
        `scoring` or `callback` must be the same, which cannot be checked, and remember nothing.
    n_components : int or None, default=None
        Columns of ``transform`` for the learned part: the leading eigenvectors of M, times the
        roots of their eigenvalues. None is one column an atom, which is exact.
    callback : callable or None, default=None
        Called as callback(state) before each step, with ``n_iter``, ``objective``, ``gap``,
        ``atoms``, ``weights``, ``margins`` and ``seconds``; True stops the run.
    random_state : int, RandomState or None, default=None
        Every random choice comes from it. None takes a seed from NumPy's global state, as in
        scikit-learn; an int leaves that alone.
    n_jobs : int or None, default=None
        Threads, no more than NUMBA_NUM_THREADS where that is set, as it is in joblib's processes.
        Results do not depend on their number.
    verbose : int, default=0
        1 shows a live line in a terminal or a notebook, on stderr, and elsewhere a line every 10
        seconds; 2 a line every second there.
    memory_limit : "auto", float or None, default="auto"
        GiB that the fit may take beyond X and the triplets; "auto" is what the system has left. A
        fit that would take more is refused before the work, with the figure. None goes on anyway.

    Attributes
    ----------
    atoms_ : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign), i < j.
    weights_ : ndarray of shape (n_atoms,)
        Positive, summing to 1.
    scale_, prior_ : float
        As used.
    components_ : sparse array of shape (n_atoms, n_features)
        sqrt(λ·weight)(e_i ± e_j).
    objective_ : float
        Mean loss of the triplets.
    gap_ : float
        Duality gap of the last iterate; an upper bound of how far the objective is from the best
        over the features that occur in X where ``gap_is_exact_``. NaN after a lazy blended step
        that did not need it, or an interrupt.
    gap_is_exact_ : bool
    n_iter_ : int
        Iterations that led to this model; with early stopping the run went further.
    n_triplets_ : int
    status_ : str
        Why the run ended: "optimal" (gap below tol, certified), "gap_not_certified" (below tol by a
        heuristic oracle, too dear to check), "no_violation" (no triplet pulls any more),
        "max_iter", "no_change" (early stopping), "callback", "interrupted", "stalled" (no step of
        positive length was found).
    trace_ : structured ndarray, one record a model of the path
        The model after k iterations and the step that led to it: objective, gap, kind, step_size,
        atom, n_atoms, n_features, seconds, validation_score (NaN where none was taken).
        ``pandas.DataFrame(model.trace_)`` reads it.
    validation_score_ : float
        Of this model, where there was early stopping.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    References
    ----------
    K. Liu and A. Bellet. Escaping the curse of dimensionality in similarity learning: efficient
    Frank-Wolfe algorithm and generalization bounds. Neurocomputing, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from hdsl import HDSL
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> model = HDSL(scale=1.0, prior=0.0, n_targets=1, n_impostors=1).fit(X, [0, 0, 1, 1])
    >>> model.get_feature_names_out().tolist()
    ['x0-x1']
    >>> model.similarity(X).round(1).tolist()[0]
    [4.0, 2.0, -4.0, -2.0]
    """

    def __init__(
        self,
        scale: float | str = "auto",
        *,
        prior: float | str = "auto",
        loss: str = "smoothed_hinge",
        oracle: str = "ascent",
        step: str = "away",
        step_size: str = "line_search",
        init: str = "oracle",
        batch_size: int | None = None,
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 3,
        n_impostors: int = 5,
        mine_every: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 300,
        scoring: Callable[..., float] | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_components: int | None = None,
        callback: Callable[[State], bool | None] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        memory_limit: str | float | None = "auto",
    ) -> None:
        self.scale = scale
        self.prior = prior
        self.loss = loss
        self.oracle = oracle
        self.step = step
        self.step_size = step_size
        self.init = init
        self.batch_size = batch_size
        self.mining = mining
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.mine_every = mine_every
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scoring = scoring
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.n_components = n_components
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.memory_limit = memory_limit

    # --- fitting ---------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        triplets_val: Any = None,
    ) -> HDSL:
        """Learn the similarity from labels or from triplets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Labels, to make triplets from; not needed where `triplets` is given.
        triplets : array-like of int of shape (n_triplets, 3), default=None
            Row numbers of X: the first is more like the second than like the third.
        sample_weight : array-like, default=None
            One weight a triplet where `triplets` is given; else one a row, which its triplets as
            anchor get. Weight 0 is absence, weight 2 is repetition.
        X_val : array-like or sparse matrix of shape (n_val, n_features), default=None
            Rows to choose the best model of the path by; needs `y_val` or `triplets_val`.
        y_val : array-like of shape (n_val,), default=None
            Their labels; rows of X vote for them.
        triplets_val : array-like of int of shape (n_triplets_val, 3), default=None
            Judgements of the rows of X_val.

        Returns
        -------
        self
        """
        earlier = self._result() if self.warm_start and hasattr(self, "atoms_") else None
        return self._fit(X, y, triplets, sample_weight, (X_val, y_val, triplets_val), earlier)

    def partial_fit(
        self, X: Any, y: Any = None, *, triplets: Any = None, sample_weight: Any = None
    ) -> HDSL:
        """Go on with the path on new rows and triplets, for up to `max_iter` more iterations.

        The first call is a fit. Later ones start from the atoms and weights there are, keep
        ``scale_`` and ``prior_``, and minimise the loss of the triplets they are given: pass old
        ones along where they should still count. There is no early stopping.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The same columns as before.
        y, triplets, sample_weight
            As in ``fit``.

        Returns
        -------
        self
        """
        earlier = self._result() if hasattr(self, "atoms_") else None
        return self._fit(X, y, triplets, sample_weight, earlier=earlier, validate=False)

    def _fit(
        self,
        X: Any,
        y: Any,
        triplets: Any,
        sample_weight: Any,
        given: tuple[Any, Any, Any] = (None, None, None),
        earlier: Result | None = None,
        *,
        validate: bool = True,
    ) -> HDSL:
        self._check_parameters()
        if earlier is not None:
            self._check_same_path()
        rng = user_input.generator(self.random_state)
        kept = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        if kept is not None:
            kept.begin(rng)
        checked = copy(self)  # takes what is found out; self changes at the end, in one stroke
        X = user_input.check_matrix(checked, X, reset=earlier is None)
        X = user_input.as_problem_matrix(X)
        supervision = Supervision.check(type(self).__name__, X, y, triplets, sample_weight)
        validation = None
        if any(part is not None for part in given):
            validation = supervision.check_validation(checked, *given)
        elif self.early_stopping and validate:
            supervision, validation = supervision.hold_out(self.validation_fraction, rng)
        if kept is not None:
            kept.check(self._run_of(supervision, validation, earlier))
        self._learn(supervision, validation, rng, earlier, kept, checked)
        self.__dict__.pop("_kept_in", None)
        if kept is not None and self.status_ != "interrupted":
            self._kept_in = kept.kept
        return self

    def _learn(
        self,
        supervision: Supervision,
        validation: Supervision | None,
        rng: np.random.Generator,
        earlier: Result | None = None,
        kept: Checkpoint | None = None,
        checked: HDSL | None = None,
    ) -> None:
        """Learn from checked data; what validates chooses the model of the path."""
        # The compiled part of the library is loaded by the first fit, not by the import.
        from ..backends.cpu.workers import Workers

        with Workers(self.n_jobs) as workers, Progress(self.verbose) as shown, Tasks(self) as tasks:
            tasks.begin(supervision)
            found = self._run(supervision, validation, workers, rng, earlier, kept, shown, tasks)
            learned = copy(self) if checked is None else checked
            try:
                learned._keep(*found)
            except KeyboardInterrupt:
                learned._keep(replace(found[0], status="interrupted"), *found[1:])
            user_input.replace_fitted(self, learned)
            shown.end(self)
            tasks.end()

    def _run(
        self,
        supervision: Supervision,
        validation: Supervision | None,
        workers: Workers,
        rng: np.random.Generator,
        earlier: Result | None,
        kept: Checkpoint | None,
        shown: Progress,
        tasks: Tasks,
    ) -> tuple[Result, Monitor | None, float, float, int]:
        """Mine and solve, again and again where `mine_every` says so."""
        from ..backends.cpu import problem
        from ..core import solver

        X, mines = supervision.X, self.mining == "neighbors" and not supervision.is_judged
        n_before = 0 if earlier is None else earlier.n_iter
        limit = n_before + self.max_iter
        stage, place = _Stage(*self._mine(supervision, rng), earlier), None
        if kept is not None:
            place = stage.go_on(kept, X.shape)
        data = self._data(X, stage.triplets, workers, stage.result)
        if place is not None:
            scale, prior = stage.scale, stage.prior
        elif earlier is None:
            scale, prior = self._scale_and_prior(data, stage.weights)
        else:
            scale, prior = self.scale_, self.prior_
        stage.scale, stage.prior = scale, prior
        user_input.check_margins(X, scale, prior)
        scores = None
        if validation is not None:
            score = self._score(supervision, validation)
            scores = Monitor(score, scale, prior, X.shape[1], self.n_iter_no_change)
            if place is not None:
                stage.go_on_scoring(kept, scores)
            elif earlier is not None:
                scores.add(earlier.n_iter, earlier.atoms, earlier.weights)
        keep = None if kept is None else stage.keeper(kept, scores)
        result = None
        try:
            while True:
                stop = limit
                if self.mine_every is not None and mines:
                    n_iter = 0 if stage.result is None else stage.result.n_iter
                    stop = min(limit, n_iter + self.mine_every)
                task = problem.TripletProblem(
                    data, losses.get(self.loss), scale, prior, stage.weights
                )
                if kept is not None and place is not None:
                    with kept.damage_told():
                        n_done = 0 if stage.result is None else stage.result.n_iter
                        solver.check_place(place, task, self.oracle, n_done)
                result = solver.frank_wolfe(
                    task,
                    oracle=self.oracle,
                    step=self.step,
                    step_size=self.step_size,
                    init=self.init,
                    batch_size=self.batch_size,
                    max_iter=stop,
                    tol=self.tol,
                    callback=self._callback(
                        scores, shown.follow(limit, scores), tasks.follow(scale, prior)
                    ),
                    rng=rng,
                    earlier=stage.result,
                    keep=keep,
                    place=place,
                )
                place = None
                if stop == limit or result.status not in ("max_iter", "optimal", "no_violation"):
                    break
                try:
                    model = Similarity(result.atoms, result.weights, scale, prior, X.shape[1])
                    mined = self._mine(supervision, rng, model)
                    more = _added(stage.triplets, stage.weights, *mined)
                    if len(more[0]) == len(stage.triplets) and result.status != "max_iter":
                        break
                    data = self._data(X, more[0], workers, result)
                except MemoryError as error:  # what is learned is kept
                    warnings.warn(f"Mining again was given up: {error}", UserWarning, stacklevel=5)
                    break
                stage.triplets, stage.weights = more
                stage.result, stage.is_first = result, False
            if scores is not None:
                scores.add(result.n_iter, result.atoms, result.weights)
        except KeyboardInterrupt:
            if result is None:  # nothing is learned yet
                raise
            result = replace(result, status="interrupted")
        return result, scores, scale, prior, len(stage.triplets)

    def _run_of(
        self, supervision: Supervision, validation: Supervision | None, earlier: Result | None
    ) -> dict[str, Any]:
        """Return what makes a run the run it is: all that its end depends on."""
        params = self.get_params(deep=False)
        named = {
            name: _called(value)
            for name, value in sorted(params.items())
            if name not in WITHOUT_EFFECT
        }

        def told(data: Supervision | None) -> dict[str, str]:
            if data is None:
                return digest(None)
            return digest(data.y, data.weights, data.triplets, data.triplet_weights)

        path = (None,) if earlier is None else (earlier.atoms, earlier.weights, earlier.n_iter)
        return {
            **named,
            "X": digest(supervision.X),
            "labels, triplets or weights": told(supervision),
            "validation rows": digest(None if validation is None else validation.X),
            "validation labels or triplets": told(validation),
            "path so far": digest(*path),
            "version of hdsl": version("hdsl"),
        }

    def _data(
        self, X: sp.csr_array, triplets: np.ndarray, workers: Workers, result: Result | None
    ) -> TripletData:
        """Return what a run computes with, if it fits; features of a path so far are kept."""
        from ..backends.cpu.problem import TripletData

        self._check_memory(X, triplets)
        keep = None if result is None else np.unique(result.atoms[:, :2])
        data = TripletData(X, triplets, workers, keep, store_products=self.batch_size is None)
        if data.n_features < 2:
            raise ValueError(
                f"The {X.shape[0]} rows to learn from have {data.n_features} feature(s) with a "
                "non-zero value, but an atom pairs two: hold out other rows, or fewer."
            )
        return data

    def _check_parameters(self) -> None:
        from ..core.oracle import ORACLES
        from ..core.solver import STEPS

        name = type(self).__name__
        number, word = user_input.check_number, user_input.check_word
        number(name, "scale", self.scale, low=0, strict=True, words=("auto",))
        number(name, "prior", self.prior, low=0, words=("auto",))
        word(name, "loss", self.loss, losses.LOSSES)
        word(name, "oracle", self.oracle, ORACLES)
        word(name, "step", self.step, STEPS)
        word(name, "step_size", self.step_size, STEP_SIZES)
        word(name, "init", self.init, INITS)
        if not callable(self.mining):
            word(name, "mining", self.mining, MINING, also=" or a callable (X, y, rng)")
        number(name, "batch_size", self.batch_size, low=1, integer=True, words=(None,))
        for parameter in ("n_targets", "n_impostors", "max_iter"):
            number(name, parameter, getattr(self, parameter), low=1, integer=True)
        for parameter in ("mine_every", "n_iter_no_change", "n_components"):
            number(name, parameter, getattr(self, parameter), low=1, integer=True, words=(None,))
        number(name, "tol", self.tol, low=0)
        number(name, "validation_fraction", self.validation_fraction, low=0, strict=True, high=1)
        for parameter in ("scoring", "callback"):
            value = getattr(self, parameter)
            if value is not None and not callable(value):
                raise ValueError(
                    f"The {parameter!r} parameter of {name} must be a callable or None. Got "
                    f"{value!r} instead."
                )
        if self.n_jobs is not None and (
            isinstance(self.n_jobs, bool)
            or not isinstance(self.n_jobs, numbers.Integral)
            or self.n_jobs == 0
        ):
            raise ValueError(
                f"The 'n_jobs' parameter of {name} must be an int other than 0, or None. Got "
                f"{self.n_jobs!r} instead."
            )
        number(name, "memory_limit", self.memory_limit, low=0, words=("auto", None))
        if not isinstance(self.checkpoint, str | os.PathLike | None) or self.checkpoint == "":
            raise ValueError(
                f"The 'checkpoint' parameter of {name} must be the path of a file, or None. Got "
                f"{self.checkpoint!r} instead."
            )
        if self.step_size != "line_search" and self.step != "forward":
            raise ValueError(
                f"The 'step_size' parameter of {name} can be {self.step_size!r} with "
                f"step='forward' only. Got step={self.step!r}: use step_size='line_search'."
            )

    def _check_same_path(self) -> None:
        """Raise where a path would go on with another scale or prior: a path has one of each."""
        for name in ("scale", "prior"):
            value, used = getattr(self, name), getattr(self, name + "_")
            if value != "auto" and value != used:
                raise ValueError(
                    f"The path so far has {name} {used:g}, but the {name!r} parameter is "
                    f"{value!r}. Set {name}={used!r} to go on with it, or start anew: fit with "
                    "warm_start=False."
                )

    def _mine(
        self,
        supervision: Supervision,
        rng: np.random.Generator,
        similarity: Similarity | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return triplets, given or made from labels, and their weights."""
        X, y, weights = supervision.X, supervision.y, supervision.weights
        if supervision.triplets is not None and similarity is None:
            return supervision.triplets, supervision.triplet_weights
        if callable(self.mining):
            made = user_input.check_triplets(self.mining(X, y, rng), X.shape[0])
            return made, _of_anchors(weights, made)
        if self.mining == "random":
            rows = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
            made = rows[
                triplets_module.random_triplets(
                    y[rows],
                    self.n_targets * self.n_impostors,
                    random_state=int(rng.integers(2**31 - 1)),
                )
            ]
            return made, _of_anchors(weights, made)
        # Equal rows are one point that counts so many times: as neighbours of each other they
        # would crowd out the others and say nothing.
        rows, weight = triplets_module.distinct_rows(X, supervision.codes, weights)
        made = triplets_module.neighbor_triplets(
            X[rows], y[rows], self.n_targets, self.n_impostors,
            similarity=similarity, n_jobs=self.n_jobs,
        )  # fmt: skip
        weight = weight[made[:, 0]]
        return rows[made], None if (weight == weight[0]).all() else weight

    def _score(self, supervision: Supervision, validation: Supervision) -> monitor.Score:
        """Return what models are scored by: the user's function, 3-NN or triplets."""
        if self.scoring is not None:
            truth = validation.triplets if validation.is_judged else validation.y

            def score(similarity: Similarity) -> float:
                return self.scoring(self._with(similarity), validation.X, truth)  # type: ignore[misc]

            return score
        if validation.is_judged:
            return monitor.triplet_accuracy(
                validation.X, validation.triplets, validation.triplet_weights
            )
        # Equal rows of a label are one point, as in mining; a row of weight 0 is not there.
        rows, _ = triplets_module.distinct_rows(
            supervision.X, supervision.codes, supervision.weights
        )
        return monitor.knn_accuracy(
            supervision.X[rows], supervision.y[rows], validation.X, validation.y,
            validation.weights, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _with(self, similarity: Similarity) -> HDSL:
        """Return a model that has learned this similarity, for scorers."""
        model = copy(self)
        model.atoms_, model.weights_ = similarity.atoms, similarity.weights
        model.scale_, model.prior_ = similarity.scale, similarity.prior
        model.n_features_in_ = similarity.n_features
        model.__dict__.pop("feature_names_in_", None)  # the rows that it is given have none
        return model

    def _check_memory(self, X: sp.csr_array, triplets: np.ndarray) -> None:
        """Refuse what cannot fit, before the work."""
        if self.memory_limit is None:
            return
        auto = self.memory_limit == "auto"
        limit = memory.available() if auto else float(self.memory_limit) * 2**30
        need = cpu_memory.estimate(X, triplets, batch_size=self.batch_size, prior=self.prior != 0)
        if limit is not None and need.total > limit:
            there = "are free on this machine" if auto else "are allowed by memory_limit"
            raise MemoryError(
                f"{type(self).__name__} needs about {need} to fit {len(triplets)} triplets of "
                f"{X.shape[0]} rows with {X.nnz} values, but only {memory.format_bytes(limit)} "
                f"{there}. Fit fewer triplets, set batch_size= (no products are stored then), or "
                "pass memory_limit=None to go on anyway."
            )

    def _scale_and_prior(
        self, data: TripletData, weights: np.ndarray | None
    ) -> tuple[float, float]:
        """Return the two numbers as given, or from the typical margin of the dot product."""
        scale, prior = self.scale, self.prior
        if scale == "auto" or prior == "auto":
            ordered = None if weights is None else weights[data.order] / weights.max()
            margins = np.abs(data.dot_margins)
            margins[margins <= data.dot_rounding] = 0.0
            typical = float(np.average(margins, weights=ordered))
            if typical == 0.0:  # no triplet's dot products differ; go by the size of the rows
                typical = float(np.square(data.row_val).sum()) / data.n_rows
            if scale == "auto":
                anchors = data.triplets[0]
                n_values = np.average(_n_values(data)[anchors], weights=ordered)
                counted = anchors if ordered is None else anchors[ordered > 0]
                n_anchors = np.count_nonzero(np.bincount(counted))
                many = max(1.0, float(n_values) / AUTO_SCALE_VALUES)
                scale = AUTO_SCALE_MARGIN * float(np.sqrt(n_anchors)) * many / typical
            prior = AUTO_PRIOR_MARGIN / typical if prior == "auto" else prior
        return float(scale), float(prior)

    def _automatic(self, supervision: Supervision) -> tuple[float, float]:
        """Return the scale and the prior that "auto" stands for, of data with triplets."""
        from ..backends.cpu import problem
        from ..backends.cpu.workers import Workers

        auto = copy(self)
        auto.scale = auto.prior = "auto"
        with Workers(self.n_jobs) as workers:
            data = problem.TripletData(supervision.X, supervision.triplets, workers)
            return auto._scale_and_prior(data, supervision.triplet_weights)

    def _callback(
        self, *listeners: Callable[[State], bool | None] | None
    ) -> Callable[[State], bool | None] | None:
        parts = [part for part in (*listeners, self.callback) if part is not None]
        if not parts:
            return None

        def call(state: State) -> bool:
            ends = [part(state) for part in parts]  # all are called, also when one ends the run
            return any(ends)

        return call

    def _result(self) -> Result:
        """Return the fit so far as what a run continues."""
        from ..core.solver import Result

        trace = self.trace_[: self.n_iter_ + 1]  # with early stopping the run went further
        return Result(
            self.atoms_, self.weights_, self.objective_, self.gap_, self.gap_is_exact_,
            self.n_iter_, self.status_, trace, 0,
        )  # fmt: skip

    def _keep(
        self, result: Result, scores: Monitor | None, scale: float, prior: float, n_triplets: int
    ) -> None:
        self.atoms_, self.weights_ = result.atoms, result.weights
        self.scale_, self.prior_ = scale, prior
        self.objective_, self.gap_ = result.objective, result.gap
        self.gap_is_exact_, self.status_ = result.gap_is_exact, result.status
        self.n_iter_, self.trace_ = result.n_iter, result.trace
        self.n_triplets_ = n_triplets
        self.__dict__.pop("validation_score_", None)
        if scores is None or not scores.scores:  # interrupted before the first score
            return
        for n_iter, score in scores.scores.items():
            self.trace_["validation_score"][n_iter] = score
        if result.status == "callback" and scores.gave_up:
            self.status_ = "no_change"
        self._go_to(scores.best_n_iter)
        self.validation_score_ = scores.scores[scores.best_n_iter]

    def _go_to(self, n_iter: int) -> None:
        """Become the model after `n_iter` iterations of the path."""
        from ..core.solver import replay

        if n_iter == self.n_iter_:
            return
        self.atoms_, self.weights_ = replay(self.trace_, n_iter)
        then = self.trace_[n_iter]
        self.__dict__.pop("validation_score_", None)
        if not np.isnan(then["validation_score"]):
            self.validation_score_ = float(then["validation_score"])
        self.objective_, self.gap_ = float(then["objective"]), float(then["gap"])
        self.gap_is_exact_, self.n_iter_ = bool(then["gap_is_exact"]), int(n_iter)

    # --- what was learned ------------------------------------------------------------------------

    @property
    def similarity_(self) -> Similarity:
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "atoms_")
        return Similarity(self.atoms_, self.weights_, self.scale_, self.prior_, self.n_features_in_)

    @property
    def components_(self) -> sp.csr_array:
        """Rows sqrt(λ·weight)(e_i ± e_j), shape (n_atoms, n_features)."""
        return self.similarity_.components

    def matrix(self) -> sp.csr_array:
        """Return M as a sparse array of shape (n_features, n_features)."""
        return self.similarity_.matrix()

    def at(self, n_iter: int) -> HDSL:
        """Return the model as it was after `n_iter` iterations, from the trace, without a refit.

        Parameters
        ----------
        n_iter : int
            From 0, the starting atom, to the last of the path, ``len(trace_) - 1``.

        Returns
        -------
        HDSL
            A fitted model; its ``status_`` is "at".
        """
        check_is_fitted(self, "atoms_")
        last = len(self.trace_) - 1
        if (
            isinstance(n_iter, bool)
            or not isinstance(n_iter, int | np.integer)
            or not (0 <= n_iter <= last)
        ):
            raise ValueError(f"n_iter must be an int from 0 to {last}. Got {n_iter!r}.")
        model = copy(self)
        model._go_to(int(n_iter))
        model.trace_ = self.trace_[: n_iter + 1]
        model.status_ = "at"
        model.__dict__.pop("_kept_in", None)  # the whole path is not saved with this model
        return model

    # --- using it --------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return rows whose dot products are the similarity.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        array or sparse matrix, as X, of shape (n_rows, n_atoms) or (n_rows, n_atoms + n_features)
            The atoms' components, then sqrt(prior)·X where prior > 0. With `n_components` so many
            dense columns stand for the atoms, the best approximation of M of that rank.
        """
        check_is_fitted(self, "atoms_")
        X = user_input.check_matrix(self, X, reset=False)
        Z = self.similarity_.transform(X, n_components=self.n_components)
        return user_input.as_user_sparse(Z) if sp.issparse(Z) else Z

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + XM: queries whose dot products with untouched rows y are S(x, y)."""
        check_is_fitted(self, "atoms_")
        Z = self.similarity_.rewrite(user_input.check_matrix(self, X, reset=False))
        return user_input.as_user_sparse(Z) if sp.issparse(Z) else Z

    def similarity(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return S between all rows of X and all rows of Y (X where None), dense."""
        check_is_fitted(self, "atoms_")
        X = user_input.check_matrix(self, X, reset=False)
        return self.similarity_.pairwise(
            X, None if Y is None else user_input.check_matrix(self, Y, reset=False, name="Y")
        )

    def pair_score(self, X: Any, Y: Any) -> np.ndarray:
        """Return S(x, y) of the rows of X and Y side by side, shape (n_rows,)."""
        check_is_fitted(self, "atoms_")
        X = user_input.check_matrix(self, X, reset=False)
        Y = user_input.check_matrix(self, Y, reset=False, name="Y")
        if X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows and Y has {Y.shape[0]}: pair_score scores them side by "
                "side. Use similarity(X, Y) for all pairs."
            )
        return self.similarity_.pair_score(X, Y)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``: ``wordA+wordB`` or ``wordA-wordB``.

        With `n_components` the learned ones are ``hdsl0``, ``hdsl1``, …
        """
        check_is_fitted(self, "atoms_")
        features = self._feature_names(input_features)
        if features is None:
            features = np.array([f"x{i}" for i in range(self.n_features_in_)], dtype=object)
        if self.n_components is None:
            atoms = atoms_module.names(self.atoms_, features)
        else:
            n = self.similarity_.n_directions(self.n_components)
            atoms = np.array([f"hdsl{k}" for k in range(n)], dtype=object)
        return np.concatenate([atoms, features]) if self.prior_ > 0 else atoms

    def _feature_names(self, input_features: Any) -> np.ndarray | None:
        """Return the names given to ``fit`` or to this; None where there are none."""
        own = getattr(self, "feature_names_in_", None)
        if input_features is None:
            return None if own is None else np.asarray(own, dtype=object)
        given = np.asarray(input_features, dtype=object)
        if own is not None and not np.array_equal(given, own):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(given)}"
            )
        return given

    # --- reading it -------------------------------------------------------------------------------

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        by: str = "pair",
        feature_names: Any = None,
        top: int | None = 10,
    ) -> explain_module.Explanation:
        """Return the exact additive parts of S(x, y), or why x is more like y than like z.

        Parameters
        ----------
        x, y : array-like, sparse matrix or DataFrame of shape (n_features,) or (1, n_features)
        rather_than : array-like, sparse matrix or DataFrame, default=None
            One row z: then the parts are those of S(x, y) - S(x, z).
        by : {"pair", "atom"}, default="pair"
            Parts a pair of features, M_ij (x_i y_j + x_j y_i), or parts an atom; with either, parts
            of the prior a feature.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``, or x0, x1, …
        top : int or None, default=10
            How many parts are shown; the object has all.

        Returns
        -------
        hdsl.explain.Explanation
            ``total``, ``parts``, ``to_frame()``, ``to_dict()``; it prints as text and as HTML.

        Examples
        --------
        >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
        >>> model = HDSL(scale=1.0, prior=0.5, n_targets=1, n_impostors=1).fit(X, [0, 0, 1, 1])
        >>> model.explain(X[0], X[1], rather_than=X[2], feature_names=["cat", "dog", "pet"])
        S(x, y) - S(x, z) = 7.5, learned +6, prior +1.5
          cat ~ dog     +4 |++++++++++++++++++++
          cat           +2 |++++++++++
          cat (prior)   +1 |+++++
          pet (prior) +0.5 |++
        """
        check_is_fitted(self, "atoms_")
        rows = {"x": x, "y": y, "rather_than": rather_than}
        checked = {
            name: user_input.check_matrix(self, explain_module.one_row(z), reset=False, name=name)
            for name, z in rows.items()
            if z is not None
        }
        names = self._feature_names(feature_names)
        return explain_module.explain(
            self.similarity_, **checked, by=by, feature_names=names, top=top
        )

    def importance(
        self, X: Any = None, *, feature_names: Any = None, top: int | None = 10
    ) -> explain_module.Importance:
        """Return the weights of features and pairs of features in M, the heaviest first.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features), default=None
            Data to count in how many rows they occur.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``, or x0, x1, …
        top : int or None, default=10
            How many are shown; the object has all.

        Returns
        -------
        hdsl.explain.Importance
            ``features``, ``pairs``, ``to_frame()``, ``to_dict()``; it prints as text and as HTML.
        """
        check_is_fitted(self, "atoms_")
        if X is not None:
            X = user_input.check_matrix(self, X, reset=False)
        names = self._feature_names(feature_names)
        return explain_module.importance(self.similarity_, X, feature_names=names, top=top)

    # Notebooks ask for these two; scikit-learn answers with a picture of the parameters.
    @property
    def _repr_html_(self) -> Callable[[], str]:
        draw = super()._repr_html_  # not there where scikit-learn is set to display text
        return lambda: draw() + self._summary_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    def _summary_html(self) -> str:
        """Return what was learned in one line; nothing before the fit."""
        if not hasattr(self, "status_"):
            return ""
        return (
            f"<p>{len(self.weights_)} pairs of {atoms_module.n_features(self.atoms_)} features "
            f"(of {self.n_features_in_}), scale {self.scale_:.4g}, prior {self.prior_:.4g}; "
            f"objective {self.objective_:.4g} after {self.n_iter_} iterations, "
            f"status {html.escape(self.status_)}</p>"
        )

    def report(
        self,
        path: Any,
        X: Any = None,
        y: Any = None,
        *,
        X_test: Any = None,
        y_test: Any = None,
        texts: Any = None,
        feature_names: Any = None,
        title: str | None = None,
        max_items: int = 200,
    ) -> None:
        """Write one HTML page that shows what was learned; it needs nothing from outside.

        Its readers can go through all models of the path, search the pairs, see their network, and
        see why two rows of X match.

        Parameters
        ----------
        path : str or path-like
            By convention ``*.html``; written whole or not at all.
        X : array-like or sparse matrix of shape (n_rows, n_features), default=None
            Rows to count the pairs in, and to compare.
        y : array-like of shape (n_rows,), default=None
            Their labels.
        X_test, y_test : as X and y, default=None
            Rows whose error by 3 nearest neighbours among those of X is measured, by plain dot
            product and as learned. Without them no error is told.
        texts : sequence of str of length n_rows, default=None
            What the rows of X were made of, to be shown.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``, or x0, x1, …
        title : str, default=None
        max_items : int, default=200
            Most rows of X, spread evenly, that the page carries to be compared; long rows make
            them fewer. The page of a text set with them is smaller than 1 MB as a rule.
        """
        from .. import report  # rarely needed

        text = report.page(
            self, X, y, X_test=X_test, y_test=y_test, texts=texts, feature_names=feature_names,
            title=title, max_items=max_items,
        )  # fmt: skip
        report.write(path, text)

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, whole or not at all; `hdsl.load` reads it.

        The file is safetensors with a JSON header: atoms, weights, scale, prior, names, parameters,
        versions and the trace. There is no code in it. Parameters that are functions are left out.

        The same data and parameters make the same bytes. What belongs to one run on one machine is
        left out for that: `n_jobs`, `verbose`, `memory_limit` and `checkpoint`, and the seconds in
        the trace, which are NaN in a model that was loaded. The checkpoint of the run is deleted.

        Parameters
        ----------
        path : str or path-like
            By convention ``*.hdsl``.
        """
        model_file.write(path, *model_file.model_to_arrays(self._state()))
        kept_in = self.__dict__.pop("_kept_in", None)
        if kept_in is not None:
            kept_in.remove()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_kept_in", None)  # the file is this object's to delete, not its copies'
        return state

    def _state(self) -> dict[str, Any]:
        """Return all that a model file keeps of a fitted model."""
        check_is_fitted(self, "atoms_")
        state = {
            name: getattr(self, name + "_")
            for name in (
                "atoms", "weights", "scale", "prior", "objective", "gap", "gap_is_exact", "status",
                "n_iter", "n_triplets", "n_features_in", "trace",
            )
        }  # fmt: skip
        params = self.get_params(deep=False)
        state["params"] = {k: v for k, v in params.items() if k not in NOT_SAVED}
        state["trace"] = self.trace_.copy()
        state["trace"]["seconds"] = np.nan
        state["feature_names_in"] = getattr(self, "feature_names_in_", None)
        state["versions"] = {
            "hdsl": version("hdsl"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        }
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def load(path: Any) -> HDSL:
    """Return the model that ``HDSL.save`` wrote; nothing in the file is ever executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    HDSL

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of a newer format.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.hdsl")
    ...     model.save(path)
    ...     load(path).atoms_.tolist()
    [[0, 1, -1]]
    """
    state = model_file.model_from_arrays(*model_file.read(path), path=path)
    known = HDSL().get_params()
    left_out = state.pop("params_left_out")
    params = state.pop("params").items()
    given = known.keys() - NOT_SAVED - set(left_out)  # no file says what this machine is to do
    model = HDSL(**{name: v for name, v in params if name in given})
    for name in ("versions", "extra"):
        state.pop(name)
    for name, value in state.items():
        if value is not None:
            setattr(model, name + "_", value)
    if "validation_score" in (model.trace_.dtype.names or ()):
        score = float(model.trace_["validation_score"][model.n_iter_])
        if not np.isnan(score):
            model.validation_score_ = score
    return model


def _of_anchors(weights: np.ndarray | None, triplets: np.ndarray) -> np.ndarray | None:
    """Return the weights of the triplets' anchors, which must not all be zero."""
    if weights is None:
        return None
    weights = weights[triplets[:, 0]]
    if not weights.any():
        raise ValueError(
            "All triplets have an anchor of weight 0: give a positive sample_weight to some row "
            "that has a neighbour of its own class."
        )
    return weights


def _added(
    triplets: np.ndarray,
    weights: np.ndarray | None,
    more: np.ndarray,
    more_weights: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the triplets and those of `more` that are not among them."""
    both = np.concatenate([triplets, more])
    _, first = np.unique(both, axis=0, return_index=True)
    new = np.sort(first[first >= len(triplets)])
    if weights is not None or more_weights is not None:
        old = np.ones(len(triplets)) if weights is None else weights
        others = np.ones(len(more)) if more_weights is None else more_weights
        weights = np.concatenate([old, others[new - len(triplets)]])
    return np.concatenate([triplets, both[new]]), weights


def _n_values(data: TripletData) -> np.ndarray:
    """Return how many values each row rests on, (Σx²)² / Σx⁴: all where they are alike, shape (n,).

    Sizes are taken relative to the row's largest, whose fourth power may not be a number.
    """
    row = np.repeat(np.arange(data.n_rows), np.diff(data.row_ptr))
    largest = np.zeros(data.n_rows)
    np.maximum.at(largest, row, np.abs(data.row_val))
    squares = np.square(data.row_val / np.where(largest > 0, largest, 1.0)[row])
    second, fourth = (np.bincount(row, part, data.n_rows) for part in (squares, squares**2))
    return np.divide(second**2, fourth, out=np.zeros(data.n_rows), where=fourth > 0)


def _called(value: Any) -> Any:
    """Return a number or a word as it is, and of a function or an object what it is called."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


@dataclass
class _Stage:
    """What the loop of a fit goes by from one mining to the next, and may be kept on the disk."""

    triplets: np.ndarray
    weights: np.ndarray | None
    result: Result | None
    scale: float = np.nan
    prior: float = np.nan
    is_first: bool = True  # its triplets are mined by whoever goes on, and so is what it is made of

    @cached_property
    def mined(self) -> str:
        """What the first triplets are, in short."""
        return digest(self.triplets, self.weights)["sha256"]

    def keeper(
        self, kept: Checkpoint, scores: Monitor | None
    ) -> Callable[[Callable[[], dict[str, np.ndarray]]], None]:
        """Return what keeps the places of a run, with all that is around them."""
        mined = np.frombuffer(self.mined.encode(), np.uint8)

        def arrays(place: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
            parts = {"run": place(), "stage": {"mined": mined, **self._arrays()}}
            if scores is not None:
                parts["scores"] = scores.snapshot()
            return {f"{part}.{k}": v for part, found in parts.items() for k, v in found.items()}

        return lambda place: kept.keep(lambda: arrays(place))

    def _arrays(self) -> dict[str, np.ndarray]:
        found = {"size": np.array([self.scale, self.prior])}
        if not self.is_first and self.result is not None:
            found |= {
                "triplets": self.triplets,
                "atoms": self.result.atoms,
                "atom_weights": self.result.weights,
                "trace": self.result.trace,
                "n_iter": np.array(self.result.n_iter),
            }
            if self.weights is not None:
                found["weights"] = self.weights
        return found

    def go_on(self, kept: Checkpoint, shape: tuple[int, int]) -> dict[str, np.ndarray] | None:
        """Become the stage that was kept, and return the place in it; None where none was."""
        if kept.found is None:
            return None
        found = _under(kept.found, "stage")
        with kept.damage_told():
            if found["mined"].tobytes() != self.mined.encode():
                raise ValueError("`mining` gave other triplets than when the run was begun.")
            size = found["size"]
            if size.shape != (2,) or not (np.isfinite(size) & (size >= 0)).all() or size[0] == 0:
                raise ValueError("scale and prior are no numbers that a run can have.")
            self.scale, self.prior = size.tolist()
            if "triplets" in found:
                self._become(found, shape)
        return _under(kept.found, "run")

    def _become(self, found: dict[str, np.ndarray], shape: tuple[int, int]) -> None:
        from ..core.solver import Result
        from ..core.trace import TRACE_DTYPE, check_trace

        self.triplets = user_input.check_triplets(found["triplets"], shape[0])
        self.weights = user_input.check_weights(found.get("weights"), len(self.triplets), "triplet")
        if found["n_iter"].shape != () or found["n_iter"].dtype != np.int64:
            raise ValueError("'n_iter' is not a number of iterations.")
        n_iter, trace = int(found["n_iter"]), found["trace"]
        atoms_module.check_atoms(found["atoms"], found["atom_weights"], shape[1])
        check_trace(trace, n_iter, shape[1])
        if trace.dtype != TRACE_DTYPE or len(trace) != n_iter + 1:
            raise ValueError("the trace is not that of a run.")
        self.is_first = False
        self.result = Result(
            found["atoms"], found["atom_weights"], np.nan, np.nan, False, n_iter, "max_iter",
            trace, 0,
        )  # fmt: skip

    def go_on_scoring(self, kept: Checkpoint | None, scores: Monitor) -> None:
        """Let a monitor know the scores that were kept."""
        assert kept is not None
        assert kept.found is not None
        with kept.damage_told():
            scores.restore(_under(kept.found, "scores"))


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    start = prefix + "."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
