"""HDSL, the estimator: parameters in, fitted attributes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import model_arrays
from .evaluate import knn_error, triplet_accuracy
from .fit.callbacks import FitTasks, TakesCallbacks, with_callbacks
from .fit.edits import with_pairs, without
from .fit.path import fixed_parts, model_at
from .fit.road import Fit, FitInput
from .input.errors import ParameterError
from .input.parameters import check_number
from .model import SimilarityModel
from .settings import FORMER, NESTED, Mining, Solver, without_former_names
from .similarity import Similarity
from .similarity.cosine import COSINE
from .triplets import Judgements

if TYPE_CHECKING:
    from .solver.loop import State
    from .solver.protocols import Loss

#: Number of neighbours that vote in ``score``.
N_NEIGHBORS = 3


class HDSL(TakesCallbacks, SimilarityModel):
    """Similarity learning for sparse, very high-dimensional data.

    Learns S(x, x') = prior·⟨x, x'⟩ + xᵀMx' from comparisons "x is more like y than like
    z". M is a convex combination of 0 and atoms λ(e_i ± e_j)(e_i ± e_j)ᵀ, found by a
    Frank-Wolfe method. M is positive semi-definite, extremely sparse and readable. The
    cost depends on the non-zeros of X, not on the number of features. One run is a
    whole path of models, from none to many pairs.

    Parameters
    ----------
    scale : float > 0 or "auto", default="auto"
        λ, a bound of the learned part: the trace of M is at most 2λ. "auto" is 9 √n
        max(1, s/80) / m for n anchors that rest on s = (Σx²)² / Σx⁴ values on average,
        with m the mean absolute margin |⟨x, y - z⟩| of the dot product.
    prior : float >= 0 or "auto", default="auto"
        Weight of the plain dot product under the learned part. 0 is the paper's model.
        "auto" compares nothing learned with 64, 32, 16, 8, 4, 2 and 1 over the mean
        ‖x‖² on held-out rows, comparisons or queries, by the measure of the goal, and
        takes the candidate with the largest expected gain. If all are expected to lose,
        nothing is learned; a warning says so unless the goal is "neighbors".
        ``choice_`` has the details. The prior is 64 if too little can be held out.
    goal : {"auto", "neighbors", "comparisons", "search"}, default="auto"
        What the model is for: parameters that are "auto" are chosen on held-out data by
        the errors of nearest neighbours, the share of comparisons that hold, or the
        quality of a search with judged or clicked queries. "auto" follows the
        supervision: labels, comparisons, or judged queries and clicks.
    norm : {"l2", None}, default="l2"
        "l2" scales rows to unit length, in every method: the dot product is then the
        cosine. Columns that are empty in the training data are ignored when the length
        of a row is computed. None, the paper's choice, takes rows as they are.
    embedding : "auto", int, slice, list of str or None, default="auto"
        The last columns of X that are a dense embedding of the rows: their number, a
        slice such as ``slice(-384, None)``, or their names. ``fit(Rows(X, Z), y)``
        needs none of these. "auto" treats a dense X of 32 to 4,096 columns as an
        embedding if nearly every value is non-zero and nearly every column has both
        signs; None means that X has no embedding. Columns of an embedding are never
        paired: their learned part is W, see `embedding_scale`.
    embedding_weight : float >= 0 or "auto", default="auto"
        w, the weight of the embedding beside the features. "auto" is chosen from 0,
        1/4, 1, 4, 16 and 64, before anything is learned, on the same rows or anchors as
        the prior: the candidate with the best score on those data. It is 1 if too
        little can be held out.
    embedding_scale : float >= 0 or "auto", default="auto"
        s, a bound of the part learned inside the embedding: S has zᵀWz', W positive
        semi-definite with trace at most s. 0 leaves the embedding as it is. "auto" is
        chosen with the prior, 0 among the candidates; it is 0 if the prior is a number.
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"} or object
        Loss of a margin S(x, y) - S(x, z). An object has the methods ``value(margin)``,
        ``derivative(margin)`` and ``curvature(margin)``, from arrays to arrays.
    solver : Solver or None, default=None
        How the problem is solved: step, oracle, init, batch_size, max_iter and tol of
        `hdsl.Solver`. None is ``Solver()``.
    mining : Mining, {"neighbors", "random"}, callable or None, default=None
        How ``fit(X, y)`` makes triplets: `hdsl.Mining`. A word or a function (X, y, rng)
        -> array of shape (n_triplets, 3) is short for ``Mining(how)``. None is
        ``Mining()``.
    min_rows : int or "auto", default="auto"
        Features in fewer rows are not paired, but count in the dot product. "auto" is
        the eighth root of the number of rows: 2 for 300 rows, 3 for 10,000. The two
        most frequent features, and those as frequent as the second, are always paired.
    validation_fraction : float, default=1/3
        Share of the rows, or of the anchors of comparisons, to hold out for a choice if
        ``fit`` gets no validation data. There are 1 / validation_fraction splits,
        rounded, with different rows held out in each, until 1,000 rows have been held
        out.
    warm_start : bool, default=False
        Let ``fit`` continue the path of the previous fit, for up to ``max_iter`` more
        iterations with the same scale and prior, without a choice.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        Where neighbours are mined and the solver runs: on the processor or on a GPU,
        which needs ``hdsl[cuda]``. Both take the same path up to rounding, and a run
        can be continued on another device. A GPU is faster from a few hundred thousand
        comparisons on.
    random_state : int, RandomState or None, default=None
        Source of every random choice. None takes a seed from NumPy's global state, as
        in scikit-learn; an int leaves that state alone.
    n_jobs : int or None, default=None
        Number of threads. Results do not depend on it.
    verbose : int, default=0
        1 shows the progress on stderr, and what was chosen and why; 2 shows it more
        often in a log.

    Attributes
    ----------
    atoms_ : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign), i < j.
    weights_ : ndarray of shape (n_atoms,)
        Positive, with a sum of at most 1; the rest is the weight of M = 0. The sum is 1
        in the paper's domain.
    scale_, prior_ : float
        The values used.
    choice_ : dict of str to ndarray, or None
        All candidates: prior (inf is nothing learned), n_iter (0 if the model starts
        from that of the next larger prior), score on held-out data with its standard
        error, gain over nothing learned with its 95 % interval (for the chosen
        candidate on units that were not used to choose it), number of units, other
        measures, which are not used to choose, with the interval of their gain
        (neighbors, comparisons, search, known_rows, as the data allow), the weight of
        the embedding if there is one, and which was chosen. It prints as a table, and
        ``pandas.DataFrame(model.choice_)`` reads it. None if nothing was chosen.
    ranking_ : {"cosine", "product"}
        The better ranking by the measure of the goal: the learned cosine, or S itself,
        without dividing rows by their learned lengths. ``cosine=None`` of measures and
        neighbours, ``rewrite(X, cosine=model.ranking_ == "cosine")`` and the command
        line follow it. It is "cosine" if nothing was measured.
    memory_ : hdsl.evaluate.QueryMemory or None
        The documents judged relevant, or clicked, for known queries, if the goal is
        "search": they are ranked higher for similar queries, if that helps held-out
        queries. ``memory_.top_k`` searches with it, ``memory_.forget`` deletes a
        judgement, and ``partial_fit`` adds the judgements of its data.
    embedding_weight_ : float or None
        The value used; None without an embedding.
    directions_ : ndarray of shape (n_directions, embedding_width_) or None
        V of the part W = VᵀV learned inside the embedding: orthogonal rows, the longest
        first; None if W is 0.
    embedding_scale_ : float or None
        The value used; None without an embedding.
    path_directions_ : ndarray of shape (n, embedding_width_) or None
        Unit vectors that the steps of ``trace_`` and ``corrections_`` refer to by
        number; None if nothing is learned inside an embedding.
    embedding_width_ : int
        Number of columns, the last of X, that are an embedding; 0 without one.
    forbidden_pairs_ : ndarray of shape (n_pairs, 2) or None
        Pairs of features that `without` has removed and ``partial_fit`` never learns
        again; None if there are none.
    norm_ : {"l2", None}
        The value used.
    loss_ : str
        The loss of the path; your own loss is given by its class and a digest of its
        values.
    columns_ : ndarray or None
        With ``norm_="l2"``, the columns that count in the length of a row; None is all.
    components_ : sparse array of shape (n_atoms, n_features)
        sqrt(λ·weight)(e_i ± e_j).
    objective_ : float
        Mean loss of the comparisons.
    gap_ : float
        Duality gap of the last model, over the last batch with `batch_size`. If
        ``gap_is_exact_``, it bounds the distance of the objective from its minimum over
        the features that are paired. NaN after an interrupt, or after a lazy blended
        step that did not need it.
    gap_is_exact_ : bool
    n_iter_ : int
        Iterations that led to this model.
    n_triplets_ : int
        Number of comparisons.
    status_ : str
        Why the run ended: "optimal" (gap below tol, certified), "gap_not_certified"
        (below tol by a heuristic oracle, too expensive to check), "no_violation" (every
        comparison holds with enough margin), "max_iter", "callback", "interrupted",
        "stalled" (no step of positive size was found), "at" or "edited".
    trace_ : structured ndarray, one record per model of the path
        The model after k iterations and the step that led to it: objective, gap, kind,
        step_size, atom, n_atoms, n_features, seconds.
        ``pandas.DataFrame(model.trace_)`` reads it.
    corrections_ : structured ndarray
        With ``step="corrective"``, the new weight of each atom that an iteration
        changed: n_iter, i, j, sign, weight; (-1, -1, 1) is M = 0. Empty for other
        steps. ``at`` reads it.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X has string column names.

    References
    ----------
    K. Liu and A. Bellet. Escaping the curse of dimensionality in similarity learning:
    efficient Frank-Wolfe algorithm and generalization bounds. Neurocomputing, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from hdsl import HDSL, Mining
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> model = HDSL(scale=1.0, prior=0.0, mining=Mining(n_targets=1, n_impostors=1))
    >>> model = model.fit(X, [0, 0, 1, 1])
    >>> model.get_feature_names_out().tolist()
    ['x0-x1']
    >>> model.similarity(X).round(1).tolist()[0]
    [0.8, 0.4, -0.8, -0.4]
    """

    _fit_kind: type[Fit] = Fit  # a cluster has its own

    @without_former_names
    def __init__(
        self,
        scale: float | str = "auto",
        *,
        prior: float | str = "auto",
        goal: str = "auto",
        norm: str | None = "l2",
        embedding: int | slice | Sequence[str] | str | None = "auto",
        embedding_weight: float | str = "auto",
        embedding_scale: float | str = "auto",
        loss: str | Loss = "smoothed_hinge",
        solver: Solver | None = None,
        mining: Mining | str | Callable[..., np.ndarray] | None = None,
        min_rows: int | str = "auto",
        validation_fraction: float = 1 / 3,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.scale = scale
        self.prior = prior
        self.goal = goal
        self.norm = norm
        self.embedding = embedding
        self.embedding_weight = embedding_weight
        self.embedding_scale = embedding_scale
        self.loss = loss
        self.solver = solver
        self.mining = mining
        self.min_rows = min_rows
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep` those of solver and mining too.

        If a parameter is None, they are the defaults: ``solver__max_iter`` is 15.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for name, kind in NESTED.items():
                with suppress(ParameterError):  # fit refuses it
                    nested = kind.of(params[name]).get_params(deep=False)
                    params |= {f"{name}__{key}": value for key, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> HDSL:
        """Set parameters by name, such as ``scale`` or ``solver__max_iter``; return self."""
        for name in params:
            if name in FORMER:
                raise ValueError(
                    f"HDSL has no parameter {name!r}: pass {FORMER[name]}."
                )
        outer = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**outer)
        for name, kind in NESTED.items():
            if any(key.startswith(name + "__") for key in params):
                # A copy: models that `at` returns have the same Solver.
                setattr(self, name, copy(kind.of(getattr(self, name))))
        inner = {name: value for name, value in params.items() if "__" in name}
        super().set_params(**inner)
        return self

    # --- fitting ----------------------------------------------------------------------

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        triplets_val: Any = None,
        checkpoint: Any = None,
        callback: Callable[[State], bool | None] | None = None,
        memory_limit: str | float | None = "auto",
    ) -> HDSL:
        """Learn the similarity from labels, triplets or quadruplets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Or a pair (features, embedding) of a matrix and a dense array; or
            `hdsl.triplets.Judgements` with rows, without other data.
        y : array-like of shape (n_rows,), default=None
            Labels to make triplets from; not needed with `triplets` or `quadruplets`.
            Several labels per row are an array or a sparse matrix of shape (n_rows,
            n_labels) of 0 and 1, or a list of labels per row: rows that share more
            labels are more alike, and the weight of a comparison is the difference of
            the two F1 scores of their labels.
        triplets : array-like of int of shape (n_triplets, 3), default=None
            Row numbers of X: the first is more like the second than like the third.
            Or `hdsl.triplets.Judgements`, with their weights and groups.
        quadruplets : array-like of int of shape (n_quadruplets, 4), default=None
            Row numbers (a, b, c, d) of X: a and b are more alike than c and d.
        sample_weight : array-like, default=None
            One weight per triplet or quadruplet, if these are given. Otherwise one per
            row, for the triplets whose anchor it is. A row of weight 0 counts as absent
            and one of weight 2 as two copies, except for `min_rows`, random mining and
            the choice of the prior, which count rows.
        groups : array-like, default=None
            One value per row with labels, or per comparison, such as a user, a visit or
            a site: a group is held out as a whole.
        X_val : array-like or sparse matrix of shape (n_val, n_features), default=None
            Validation rows for the choice, instead of a part of X (1,500 of them are
            drawn if there are more); needs `y_val` or `triplets_val`.
        y_val : array-like of shape (n_val,), default=None
            Their labels; rows of X vote for them.
        triplets_val : array-like of int of shape (n_val, 3) or (n_val, 4), default=None
            Triplets or quadruplets, as row numbers of X_val.
        checkpoint : str, path-like or None, default=None
            A file that the run is saved to, at most every half minute: after every 4
            corrective iterations, or 64 others. If the file exists, left by a killed or
            interrupted process, the fit continues from it, without the choice, and ends
            in the same model, to the last bit. The fit is refused if data or parameters
            differ from those of the saved run. ``save`` deletes the file when it has
            written the model of a complete run. A function passed as `mining` or
            `callback` must be the same, which cannot be checked, and must not keep
            state.
        callback : callable or None, default=None
            Called as callback(state) before each step; the state has ``n_iter``,
            ``objective``, ``gap``, ``atoms``, ``weights`` and ``seconds``. True stops
            the run. From scikit-learn 1.9 on, ``set_callbacks`` takes its callbacks
            too; each iteration is a task.
        memory_limit : "auto", float or None, default="auto"
            GiB that the fit may use in addition to X and the comparisons, of the GPU's
            memory if it runs there; "auto" is the free memory. A fit that needs more is
            refused before it starts, with the figure. None never refuses.

        Returns
        -------
        self
        """
        given = FitInput(
            X=X,
            y=y,
            triplets=triplets,
            quadruplets=quadruplets,
            sample_weight=sample_weight,
            groups=groups,
            X_val=X_val,
            y_val=y_val,
            triplets_val=triplets_val,
            checkpoint=checkpoint,
            callback=callback,
            memory_limit=memory_limit,
        )
        tasks = self._begin_tasks(given.X, y)
        self._fit_kind(self, given, continues=self.warm_start, tasks=tasks).learn()
        if tasks is not None:
            tasks.end()
        return self

    def _begin_tasks(self, X: Any, y: Any) -> FitTasks | None:
        """Return the tasks of scikit-learn's callbacks; None without callbacks."""
        if not vars(self).get("_skl_callbacks"):
            return None
        max_subtasks = None
        max_iter = Solver.of(self.solver).max_iter
        if isinstance(max_iter, int):
            max_subtasks = max_iter + 1
        context = self._init_callback_context(max_subtasks=max_subtasks)
        return FitTasks(self, context, X, y)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        callback: Callable[[State], bool | None] | None = None,
        memory_limit: str | float | None = "auto",
    ) -> HDSL:
        """Continue the path on new rows and comparisons, for up to `max_iter` more iterations.

        The first call is a fit. Later calls start from the current atoms and weights,
        use ``scale_`` and ``prior_``, and minimise the loss of the new comparisons
        alone: pass old ones too if they should still count. Nothing is chosen. With a
        norm, columns that were empty before count in the length of rows from now on,
        also in ``at``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The same columns as before.
        y, triplets, quadruplets, sample_weight, checkpoint, callback, memory_limit
            As in ``fit``.

        Returns
        -------
        self
        """
        given = FitInput(
            X=X,
            y=y,
            triplets=triplets,
            quadruplets=quadruplets,
            sample_weight=sample_weight,
            checkpoint=checkpoint,
            callback=callback,
            memory_limit=memory_limit,
        )
        self._fit_kind(self, given, continues=True).learn()
        return self

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the share of rows, or of comparisons, that the model gets right.

        ``GridSearchCV(HDSL(), {"solver__max_iter": [5, 15]}).fit(X, y)`` goes by it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            As in ``fit``, also `hdsl.triplets.Judgements` with rows, without other
            data.
        y : array-like of shape (n_rows,), default=None
            Labels: each row gets the vote of its 3 nearest neighbours in X. With
            several labels per row, the score is the F1 of the labels that win.
        triplets, quadruplets : array-like of int, default=None
            As in ``fit``: the score is the share that holds. A tie counts one half.
        sample_weight : array-like, default=None
            One weight per triplet or quadruplet.

        Returns
        -------
        float
        """
        check_is_fitted(self, "atoms_")
        judged = FitInput(X, y, triplets, quadruplets, sample_weight)
        comparisons = judged.comparisons("score")
        rows = self._check(judged.X)
        is_cosine = self.ranking_ == COSINE
        if comparisons is not None:
            weights = judged.sample_weight
            if isinstance(comparisons, Judgements):
                weights = comparisons.weights
                comparisons = comparisons.triplets
            return triplet_accuracy(
                self.similarity_,
                rows,
                comparisons,
                sample_weight=weights,
                cosine=is_cosine,
            )
        if judged.sample_weight is not None:
            raise ValueError("score takes a sample_weight per triplet or quadruplet.")
        n_neighbors = max(1, min(N_NEIGHBORS, len(y) - 1))
        error = knn_error(
            self.similarity_,
            rows,
            y,
            n_neighbors=n_neighbors,
            cosine=is_cosine,
            n_jobs=self.n_jobs,
        )
        return 1.0 - error

    # --- what was learned -------------------------------------------------------------

    @property
    def similarity_(self) -> Similarity:
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "atoms_")
        return Similarity(
            self.atoms_,
            self.weights_,
            self.scale_,
            fixed_parts(self),
            self.n_features_in_,
            self.directions_,
        )

    def at(self, n_iter: int) -> HDSL:
        """Return the model as it was after `n_iter` iterations, from the trace, without a refit.

        Parameters
        ----------
        n_iter : int
            From 0, the start of the path, to ``len(trace_) - 1``, its end.

        Returns
        -------
        HDSL
            A fitted model; its ``status_`` is "at".
        """
        check_is_fitted(self, "atoms_")
        n = len(self.trace_)
        check_number("HDSL.at", "n_iter", n_iter, low=0, integer=True, high=n)
        return model_at(self, int(n_iter))

    def without(self, pairs: Any, *, feature_names: Any = None) -> HDSL:
        """Return the model without some pairs of features, at once and without data.

        The learned weight of each pair is removed, and the rest stays as it is. Nothing
        is measured again. ``partial_fit`` of the returned model, on the same rows and
        comparisons, continues from there and never learns the pairs again; ``fit`` may
        learn them.

        Parameters
        ----------
        pairs : sequence of pairs of str or int, or of str
            Names or numbers of features, or texts such as ``"cat ~ dog"``, as
            explanations print them.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``.

        Returns
        -------
        HDSL
            A fitted model, whose path begins anew; its ``status_`` is "edited", and
            ``forbidden_pairs_`` has the pairs.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
        >>> model = HDSL(scale=1.0, prior=0.0).fit(X, triplets=[[0, 1, 2], [2, 3, 0]])
        >>> model.without([(0, 1)]).similarity(X[:1])
        array([[0.]])
        """
        check_is_fitted(self, "atoms_")
        return without(self, pairs, self._names_of_features(feature_names))

    def with_pairs(
        self, pairs: Any, weight: float | None = None, *, feature_names: Any = None
    ) -> HDSL:
        """Return the model with pairs of features that always count.

        For each pair i and j, S(x, x') gets weight·(x_i + x_j)(x'_i + x'_j): with the
        default weight a row with i matches one with j as if both had the same feature.
        The rest stays as it is. A later ``partial_fit`` may remove the weight.

        Parameters
        ----------
        pairs : sequence of pairs of str or int, or of str
            As in `without`.
        weight : float > 0, default=None
            None is ``prior_``, or 1 if that is 0.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``.

        Returns
        -------
        HDSL
            A fitted model, whose path begins anew; its ``status_`` is "edited".

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
        >>> model = HDSL(scale=1.0, prior=0.0).fit(X, triplets=[[0, 1, 2], [2, 3, 0]])
        >>> forced = model.without([(0, 1)]).with_pairs([(0, 2)])
        >>> forced.similarity([[1.0, 0, 0]], [[0, 0, 1.0]])
        array([[1.]])
        """
        check_is_fitted(self, "atoms_")
        return with_pairs(self, pairs, self._names_of_features(feature_names), weight)

    def _names_of_features(self, feature_names: Any) -> np.ndarray | None:
        """Return names of features; None means those of the fit."""
        if feature_names is None:
            return getattr(self, "feature_names_in_", None)
        return np.asarray(feature_names, dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # The file is this object's to delete, not its copies'.
        state.pop("checkpoint_file_", None)
        return state

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> Any:
        """Return the fitted model as arrays, and a header with everything else."""
        return model_arrays.model_to_arrays(self)

    @classmethod
    def from_arrays(cls, arrays: Any, header: Any) -> HDSL:
        """Return the model from the result of `to_arrays`."""
        return model_arrays.model_from_arrays(cls, arrays, header)
