"""HDSL, the estimator: parameters in, fitted attributes out."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from . import _memory, _validation, losses
from . import atoms as atoms_module
from . import triplets as triplets_module
from .similarity import Similarity

if TYPE_CHECKING:
    from .problem import TripletData
    from .solver import Result, State

MINING = ("neighbors", "random")
STEP_SIZES = ("line_search", "2/(k+2)")
INITS = ("oracle", "random")

#: prior="auto" makes the typical margin of the plain dot product this large; the loss asks for 1.
AUTO_PRIOR_MARGIN = 0.2

#: scale="auto" is this many times the automatic prior.
AUTO_SCALE_TO_PRIOR = 1000.0


class HDSL(TransformerMixin, BaseEstimator):
    """Similarity learning for sparse, very high-dimensional data.

    Learns S(x, x') = prior·⟨x, x'⟩ + xᵀMx' from triplets "x is more like y than like z", with M a
    convex combination of atoms λ(e_i ± e_j)(e_i ± e_j)ᵀ, by a Frank-Wolfe method that adds one pair
    of features a step. M is positive semi-definite, extremely sparse and readable; the cost depends
    on the non-zeros of X, not on the number of features. One run is a whole path of models, and
    stopping early is the regulariser.

    Parameters
    ----------
    scale : float > 0 or "auto", default="auto"
        λ, the size of the learned part: the trace of M is 2λ. "auto" is 200 divided by the mean
        absolute margin |⟨x, y - z⟩| of the plain dot product.
    prior : float >= 0 or "auto", default="auto"
        Weight of the plain dot product under the learned part. 0 is the paper's model; "auto" is
        0.2 divided by the same mean.
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
    max_iter : int, default=1000
        Most iterations. Reaching it is a normal end: the status says so.
    tol : float >= 0, default=1e-3
        Stop when the duality gap is at most this. With an oracle other than "exact" an exact
        search confirms it first, where that search costs no more than 2e11 multiplications (a few
        minutes at worst, milliseconds as a rule); a refusal doubles the wait before the next, so a
        run of k iterations makes at most log2(k) + 2 of them.
    callback : callable or None, default=None
        Called as callback(state) before each step, with ``n_iter``, ``objective``, ``gap``,
        ``atoms``, ``weights``, ``margins`` and ``seconds``; True stops the run.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads. Results do not depend on their number.
    verbose : int, default=0
        1 prints a line about every second.
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
        where ``gap_is_exact_``. NaN after a lazy blended step that did not need it.
    gap_is_exact_ : bool
    n_iter_ : int
    n_triplets_ : int
    status_ : str
        Why the run ended: "optimal" (gap below tol, certified), "gap_not_certified" (below tol by a
        heuristic oracle, too dear to check), "no_violation" (no triplet pulls any more),
        "max_iter", "callback", "interrupted", "stalled" (no step of positive length was found).
    trace_ : structured ndarray of shape (n_iter_ + 1,)
        The model after k iterations and the step that led to it: objective, gap, kind, step_size,
        atom, n_atoms, n_features, seconds. ``pandas.DataFrame(model.trace_)`` reads it.
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
        max_iter: int = 1000,
        tol: float = 1e-3,
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
        self.max_iter = max_iter
        self.tol = tol
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.memory_limit = memory_limit

    # --- fitting ---------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, *, triplets: Any = None, sample_weight: Any = None
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

        Returns
        -------
        self
        """
        # The compiled part of the library is loaded by the first fit, not by the import.
        from . import problem, solver
        from ._workers import Workers

        self._check_parameters()
        rng = _validation.generator(self.random_state)
        checked = copy(self)  # takes the number and names of the features; self waits till the end
        X = _validation.as_problem_matrix(_validation.check_matrix(checked, X, reset=True))
        triplets, weights = self._triplets(X, y, triplets, sample_weight, rng)
        self._check_memory(X, triplets)
        with Workers(self.n_jobs) as workers:
            data = problem.TripletData(X, triplets, workers)
            scale, prior = self._scale_and_prior(data, weights)
            result = solver.frank_wolfe(
                problem.TripletProblem(data, losses.get(self.loss), scale, prior, weights),
                oracle=self.oracle,
                step=self.step,
                step_size=self.step_size,
                init=self.init,
                batch_size=self.batch_size,
                max_iter=self.max_iter,
                tol=self.tol,
                callback=self._callback(),
                rng=rng,
            )
        self._keep(result, scale, prior, len(triplets))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(checked, name):
                setattr(self, name, getattr(checked, name))
            elif hasattr(self, name):
                delattr(self, name)
        return self

    def _check_parameters(self) -> None:
        from .oracle import ORACLES
        from .solver import STEPS

        name = type(self).__name__
        number, word = _validation.check_number, _validation.check_word
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
        number(name, "tol", self.tol, low=0)
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
        if self.step_size != "line_search" and self.step != "forward":
            raise ValueError(
                f"The 'step_size' parameter of {name} can be {self.step_size!r} with "
                f"step='forward' only. Got step={self.step!r}: use step_size='line_search'."
            )
        if self.callback is not None and not callable(self.callback):
            raise ValueError(
                f"The 'callback' parameter of {name} must be a callable or None. Got "
                f"{self.callback!r} instead."
            )

    def _triplets(
        self, X: sp.csr_array, y: Any, triplets: Any, sample_weight: Any, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return triplets, given or made from labels, and their weights."""
        n_rows = X.shape[0]
        if triplets is not None:
            triplets = _validation.check_triplets(triplets, n_rows)
            return triplets, _validation.check_weights(sample_weight, len(triplets), "triplet")
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Give "
                "labels, fit(X, y), or judgements, fit(X, triplets=T)."
            )
        labels = _validation.check_labels(y, n_rows)
        weights = _validation.check_weights(sample_weight, n_rows, "row of X")
        if callable(self.mining):
            made = _validation.check_triplets(self.mining(X, np.asarray(y), rng), n_rows)
            return made, _of_anchors(weights, made)
        if self.mining == "random":
            rows = np.arange(n_rows) if weights is None else np.flatnonzero(weights)
            made = rows[
                triplets_module.random_triplets(
                    np.asarray(y)[rows],
                    self.n_targets * self.n_impostors,
                    random_state=int(rng.integers(2**31 - 1)),
                )
            ]
            return made, _of_anchors(weights, made)
        # Equal rows are one point that counts so many times: as neighbours of each other they
        # would crowd out the others and say nothing.
        rows, weight = triplets_module.distinct_rows(X, labels, weights)
        made = triplets_module.neighbor_triplets(
            X[rows], np.asarray(y)[rows], self.n_targets, self.n_impostors, n_jobs=self.n_jobs
        )
        weight = weight[made[:, 0]]
        return rows[made], None if (weight == weight[0]).all() else weight

    def _check_memory(self, X: sp.csr_array, triplets: np.ndarray) -> None:
        """Refuse what cannot fit, before the work."""
        if self.memory_limit is None:
            return
        auto = self.memory_limit == "auto"
        limit = _memory.available() if auto else float(self.memory_limit) * 2**30
        need = _memory.estimate(X, triplets, batch_size=self.batch_size, prior=self.prior != 0)
        if limit is not None and need.total > limit:
            there = "are free on this machine" if auto else "are allowed by memory_limit"
            raise MemoryError(
                f"{type(self).__name__} needs about {need} to fit {len(triplets)} triplets of "
                f"{X.shape[0]} rows with {X.nnz} values, but only {_memory.format_bytes(limit)} "
                f"{there}. Fit fewer triplets, set batch_size= (no products are stored then), or "
                "pass memory_limit=None to go on anyway."
            )

    def _scale_and_prior(
        self, data: TripletData, weights: np.ndarray | None
    ) -> tuple[float, float]:
        """Return the two numbers as given, or from the typical margin of the dot product."""
        scale, prior = self.scale, self.prior
        if scale == "auto" or prior == "auto":
            ordered = None if weights is None else weights[data.order]
            typical = float(np.average(np.abs(data.dot_margins), weights=ordered))
            if typical == 0.0:  # no triplet's dot products differ; go by the size of the rows
                typical = float(data.row_val @ data.row_val) / data.n_rows
            scale = AUTO_SCALE_TO_PRIOR * AUTO_PRIOR_MARGIN / typical if scale == "auto" else scale
            prior = AUTO_PRIOR_MARGIN / typical if prior == "auto" else prior
        return float(scale), float(prior)

    def _callback(self) -> Callable[[State], bool | None] | None:
        if not self.verbose:
            return self.callback
        return _Printer(self.max_iter, self.callback)

    def _keep(self, result: Result, scale: float, prior: float, n_triplets: int) -> None:
        self.atoms_, self.weights_ = result.atoms, result.weights
        self.scale_, self.prior_ = scale, prior
        self.objective_, self.gap_ = result.objective, result.gap
        self.gap_is_exact_, self.status_ = result.gap_is_exact, result.status
        self.n_iter_, self.trace_ = result.n_iter, result.trace
        self.n_triplets_ = n_triplets

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
            From 0, the starting atom, to ``n_iter_``.

        Returns
        -------
        HDSL
            A fitted model; its ``status_`` is "at".
        """
        from .solver import replay

        check_is_fitted(self, "atoms_")
        if (
            isinstance(n_iter, bool)
            or not isinstance(n_iter, int | np.integer)
            or not (0 <= n_iter <= self.n_iter_)
        ):
            raise ValueError(
                f"n_iter must be an int from 0 to n_iter_ = {self.n_iter_}. Got {n_iter!r}."
            )
        model = copy(self)
        model.atoms_, model.weights_ = replay(self.trace_, n_iter)
        model.trace_ = self.trace_[: n_iter + 1]
        last = model.trace_[-1]
        model.objective_, model.gap_ = float(last["objective"]), float(last["gap"])
        model.gap_is_exact_, model.n_iter_ = bool(last["gap_is_exact"]), int(n_iter)
        model.status_ = "at"
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
            The atoms' components, then sqrt(prior)·X where prior > 0.
        """
        check_is_fitted(self, "atoms_")
        Z = self.similarity_.transform(_validation.check_matrix(self, X, reset=False))
        return _validation.as_user_sparse(Z) if sp.issparse(Z) else Z

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + XM: queries whose dot products with untouched rows y are S(x, y)."""
        check_is_fitted(self, "atoms_")
        Z = self.similarity_.rewrite(_validation.check_matrix(self, X, reset=False))
        return _validation.as_user_sparse(Z) if sp.issparse(Z) else Z

    def similarity(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return S between all rows of X and all rows of Y (X where None), dense."""
        check_is_fitted(self, "atoms_")
        X = _validation.check_matrix(self, X, reset=False)
        return self.similarity_.pairwise(
            X, None if Y is None else _validation.check_matrix(self, Y, reset=False, name="Y")
        )

    def pair_score(self, X: Any, Y: Any) -> np.ndarray:
        """Return S(x, y) of the rows of X and Y side by side, shape (n_rows,)."""
        check_is_fitted(self, "atoms_")
        X = _validation.check_matrix(self, X, reset=False)
        Y = _validation.check_matrix(self, Y, reset=False, name="Y")
        if X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows and Y has {Y.shape[0]}: pair_score scores them side by "
                "side. Use similarity(X, Y) for all pairs."
            )
        return self.similarity_.pair_score(X, Y)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``: ``wordA+wordB`` or ``wordA-wordB``."""
        check_is_fitted(self, "atoms_")
        features = self._feature_names(input_features)
        atoms = atoms_module.names(self.atoms_, features)
        return np.concatenate([atoms, features]) if self.prior_ > 0 else atoms

    def _feature_names(self, input_features: Any) -> np.ndarray:
        own = getattr(self, "feature_names_in_", None)
        if input_features is None:
            if own is not None:
                return np.asarray(own, dtype=object)
            return np.array([f"x{i}" for i in range(self.n_features_in_)], dtype=object)
        given = np.asarray(input_features, dtype=object)
        if own is not None and not np.array_equal(given, own):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(given)}"
            )
        return given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


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


class _Printer:
    """A callback that prints a line about every second, then asks the user's own callback."""

    def __init__(
        self, max_iter: int, callback: Callable[[State], bool | None] | None, every: float = 1.0
    ) -> None:
        self.max_iter, self.callback, self.every = max_iter, callback, every
        self.printed = -np.inf

    def __call__(self, state: State) -> bool | None:
        now = time.perf_counter()
        if now - self.printed >= self.every or state.n_iter == self.max_iter:
            self.printed = now
            print(  # noqa: T201 - asked for by verbose
                f"iteration {state.n_iter:6d}  objective {state.objective:.6f}  "
                f"gap {state.gap:.2e}  atoms {len(state.weights)}  {state.seconds:.1f} s",
                flush=True,
            )
        return self.callback(state) if self.callback is not None else None
