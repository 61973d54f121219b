"""Classification by similarities to landmarks: a sparse linear classifier on top."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, l1_min_c
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from hdsl import search
from hdsl.class_scores.training import columns_with_values, stratified_folds
from hdsl.input.estimators import TakesSparse
from hdsl.input.labels import check_classes, check_several_classes, check_weights
from hdsl.input.matrices import check_matrix, check_names
from hdsl.input.parameters import check_number, check_word
from hdsl.labels import ranks
from hdsl.rows import unit_rows
from hdsl.similarity import FixedPart, Similarity
from hdsl.similarity.cosine import LearnedCosine, Rewriter, as_rewriter
from hdsl.similarity.products import products
from hdsl.solver.atoms import NOTHING
from hdsl.triplets.mining import row_keys

#: Losses, and what `l1_min_c` calls them.
LOSSES = {"squared_hinge": "squared_hinge", "log_loss": "log"}

#: What C="cv" chooses from: multiples of the least C with a weight that is not 0.
FACTORS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)

#: Used where no fold can choose.
FALLBACK = 100.0

#: Where the solver stops.
TOL = 1e-3

#: Classes other than its own that a row is compared with.
N_CLASSES = 5

#: Groups that the landmarks of a class are dealt into. A landmark is compared with
#: those of the other groups: up to so many landmarks of a class it is the only one left
#: out.
N_GROUPS = 10

#: Fewest landmarks to draw of a class that has as many rows.
FEWEST = 2


def _gives_probabilities(classifier: SimilarityClassifier) -> bool:
    if classifier.loss != "log_loss":
        raise AttributeError(
            "predict_proba needs loss='log_loss': the scores of other losses are not "
            "calibrated."
        )
    return True


class _Scaled(NamedTuple):
    """Similarities to landmarks with a mean of 0 and a root mean square of 1.

    They were `size` · features + `mean`.
    """

    features: np.ndarray
    mean: np.ndarray
    size: float


def _scaled(features: np.ndarray, drawn: np.ndarray, weights: np.ndarray) -> _Scaled:
    """Return similarities of rows to landmarks, the rows `drawn`, as a solver likes them.

    With means of 0 it needs fewer passes. They are of the other rows: a landmark's
    similarity to itself is like no other. With a root mean square of 1 a C means the
    same for any scale and prior.
    """
    self_similarity = features[drawn, np.arange(len(drawn))]
    others = np.maximum(weights.sum() - weights[drawn], weights.min())
    mean = (weights @ features - weights[drawn] * self_similarity) / others
    features = features - mean
    mean_square = np.average(np.square(features).mean(axis=1), weights=weights)
    size = float(np.sqrt(mean_square)) or 1.0
    return _Scaled(features / size, mean, size)


class _Solution(NamedTuple):
    """Weights and intercepts of each class against the rest, and passes of the solver."""

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: int

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return the number of the class of each row."""
        return _decide(features @ self.coef.T + self.intercept)


class _Training(NamedTuple):
    """What the weights of landmarks are learned from.

    Attributes
    ----------
    features : ndarray of shape (n_rows, n_landmarks)
    codes : ndarray of shape (n_rows,)
        Numbers of the classes: 0, 1, … without a gap.
    weights : ndarray of shape (n_rows,)
    seed : int
    """

    features: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    seed: int

    def least_penalty(self, loss: str) -> float:
        """Return the least C that gives any landmark a weight."""
        ones = np.ones(len(self.codes))
        with_ones = self.weights[:, None] * np.column_stack([self.features, ones])
        return float(l1_min_c(with_ones, self.codes, loss=loss, fit_intercept=False))

    def fold(
        self, train: np.ndarray, held_out: np.ndarray, landmarks: np.ndarray
    ) -> _Fold:
        """Return rows to learn from and rows held out, with some of the landmarks."""
        classes, codes = np.unique(self.codes[train], return_inverse=True)
        inside = self._replace(
            features=self.features[np.ix_(train, landmarks)],
            codes=codes,
            weights=self.weights[train],
        )
        return _Fold(
            training=inside,
            classes=classes,
            features=self.features[np.ix_(held_out, landmarks)],
            codes=self.codes[held_out],
            weights=self.weights[held_out],
        )


class _Fold(NamedTuple):
    """What a fold learns from, with its classes, and rows that it holds out."""

    training: _Training
    classes: np.ndarray
    features: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    def n_wrong(self, solution: _Solution) -> float:
        """Return the weight of the rows held out that a solution gets wrong."""
        predicted = self.classes[solution.decide(self.features)]
        return self.weights[predicted != self.codes].sum()


class SimilarityClassifier(TakesSparse, ClassifierMixin, BaseEstimator):
    """Sparse linear classifier on the similarities to some landmarks.

    The score of a class is Σ coef·S(x, landmark) + intercept. An ℓ1 penalty sets many
    of the weights to 0. If S is good, so that most rows are more similar to landmarks
    of their own class than to those of others, a few are enough: the theory has a
    bound. More than two classes are told apart one against the rest.

    Parameters
    ----------
    similarity : HDSL, Similarity or None, default=None
        A fitted similarity is used as it is; it can be any object with ``rewrite(X)``.
        A model that is not fitted is cloned and learns from the rows and labels given
        to ``fit``; so is a fitted one that was cloned, as in a grid search. None is the
        dot product of rows at unit length; columns that no training row has do not
        count in the length.
    comparisons : {"landmarks", "rows"}, default="landmarks"
        What a model that is not fitted learns from: comparisons of rows with the mean
        landmarks of classes, see `landmark_triplets`, which is what this classifier
        goes by; or what its own ``fit(X, y)`` compares.
    landmarks : "all" or int, default=500
        All training rows, or so many in all, drawn from each class by its share, at
        least 2. Those without a weight in any class are dropped.
    cosine : bool, default=False
        Compare by S(x, y) / sqrt(S(x, x) S(y, y)).
    loss : {"squared_hinge", "log_loss"}, default="squared_hinge"
        "log_loss" is logistic regression, and has ``predict_proba``.
    C : float > 0 or "cv", default="cv"
        Inverse strength of the penalty, for similarities with a mean of 0 per landmark
        and a root mean square of 1 over all. "cv" chooses from 10 to 3,000 times the
        least C that gives any landmark a weight, by folds of the training rows; of
        equals the smallest. Landmarks among the rows that a fold holds out are left out
        there. A similarity that learned from all rows has seen those held out: to
        choose as for new rows, put an unfitted one and C in a grid search.
    cv : int, default=3
        Number of folds.
    max_iter : int, default=1000
        Most passes of the solver, liblinear. Reaching it is a normal end: with more
        landmarks than are needed, the last passes hardly change the scores.
    random_state : int, RandomState or None, default=None
        Draws landmarks and folds, and is passed to the solver.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks,)
        Numbers of the training rows that have a weight in some class.
    coef_ : ndarray of shape (n_classes or 1, n_landmarks)
        Weights of the similarities to these rows.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    C_ : float
        The value used.
    n_iter_ : int
        Passes of the solver.
    similarity_ : Rewriter
        The similarity used.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    Examples
    --------
    >>> from hdsl import HDSL
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [1, 0, 1], [0, 2, 1], [0, 1, 2], [0, 1, 1]])
    >>> y = ["a", "a", "a", "b", "b", "b"]
    >>> classifier = SimilarityClassifier(HDSL(prior=1.0), C=10.0, random_state=0).fit(X, y)
    >>> classifier.predict([[0, 1, 0], [1, 0, 0]]).tolist()
    ['b', 'a']
    >>> len(classifier.landmarks_) < 6
    True
    """

    def __init__(
        self,
        similarity: Any = None,
        *,
        comparisons: str = "landmarks",
        landmarks: Any = 500,
        cosine: bool = False,
        loss: str = "squared_hinge",
        C: float | str = "cv",
        cv: int = 3,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.similarity = similarity
        self.comparisons = comparisons
        self.landmarks = landmarks
        self.cosine = cosine
        self.loss = loss
        self.C = C
        self.cv = cv
        self.max_iter = max_iter
        self.random_state = random_state

    # --- fitting ----------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SimilarityClassifier:
        """Learn the similarity, if it is not fitted, and the weights of landmarks.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Class labels.
        sample_weight : array-like of shape (n_rows,), default=None
            Weight of each row in the loss, in the folds that choose C and, where it
            takes weights, for the similarity that is learned here. A row of weight 0
            counts as absent.

        Returns
        -------
        self
        """
        name = type(self).__name__
        check_number(
            name, "landmarks", self.landmarks, low=1, integer=True, words=("all",)
        )
        check_word(name, "comparisons", self.comparisons, ("landmarks", "rows"))
        check_word(name, "loss", self.loss, LOSSES)
        check_number(name, "C", self.C, low=0, strict=True, words=("cv",))
        check_number(name, "cv", self.cv, low=2, integer=True)
        check_number(name, "max_iter", self.max_iter, low=1, integer=True)
        learned = copy(self)  # self changes at the end, all at once
        check_names(self.similarity, X)
        X = check_matrix(learned, X, reset=True)
        y = check_classes(name, y, X.shape[0])
        weights = check_weights(sample_weight, len(y), "row of X")
        present = np.arange(len(y))
        row_weights = np.ones(len(y))
        if weights is not None:
            present = np.flatnonzero(weights)
            weights = weights[present]
            row_weights = weights
        if len(present) < len(y):
            X = X[present]
            y = y[present]
        learned.classes_, codes = np.unique(y, return_inverse=True)
        check_several_classes(name, learned.classes_)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        drawn = _draw(self.landmarks, codes, seed)
        learned.similarity_ = self._similarity(X, y, weights)
        queries, index = learned._sides(X)
        index = index[drawn]
        scaled = _scaled(products(queries, index), drawn, row_weights)
        training = _Training(scaled.features, codes, row_weights, seed)
        learned.C_ = self._penalty(training, drawn)
        solution = self._solve(training, learned.C_)
        learned.n_iter_ = solution.n_iter
        coef = solution.coef / scaled.size
        used = np.flatnonzero(coef.any(axis=0))
        # In the order of a file: sums over another order of the same numbers may round
        # otherwise.
        learned.landmarks_ = present[drawn[used]]
        learned.coef_ = np.ascontiguousarray(coef[:, used])
        learned.intercept_ = solution.intercept - coef @ scaled.mean
        self.__dict__ = {**vars(learned), "_index": index[used]}
        return self

    def _similarity(
        self, X: Any, y: np.ndarray, weights: np.ndarray | None
    ) -> Rewriter:
        """Return the similarity, learned here if it is not fitted."""
        model = self.similarity
        if model is None:
            cosine = FixedPart("prior", 1.0, "l2", columns_with_values(X))
            return Similarity(*NOTHING, 1.0, (cosine,), X.shape[1])
        if hasattr(model, "fit") and not hasattr(model, "similarity_"):
            if self.comparisons == "landmarks":
                return learn_from_landmarks(clone(model), X, y, weights)
            options = {}
            if weights is not None and has_fit_parameter(model, "sample_weight"):
                options["sample_weight"] = weights
            model = clone(model).fit(X, y, **options)
        name = f"The 'similarity' parameter of {type(self).__name__}"
        return as_rewriter(model, X.shape[1], name)

    def _penalty(self, training: _Training, drawn: np.ndarray) -> float:
        """Return C as given, or the one with the fewest errors in folds.

        Landmarks, the rows `drawn`, are left out of a fold that holds them out.
        """
        if self.C != "cv":
            return float(self.C)
        least = training.least_penalty(LOSSES[self.loss])
        wrong = np.zeros(len(FACTORS))
        n_judged = 0
        rng = np.random.RandomState(training.seed)
        for train, held_out in stratified_folds(training.codes, self.cv, rng):
            kept = np.flatnonzero(~np.isin(drawn, held_out))
            fold = training.fold(train, held_out, kept)
            if not len(kept) or len(fold.classes) < 2:
                continue
            n_judged += len(held_out)
            for k, factor in enumerate(FACTORS):
                solution = self._solve(fold.training, factor * least)
                wrong[k] += fold.n_wrong(solution)
        if n_judged == 0:
            return least * FALLBACK
        return least * FACTORS[int(np.argmin(wrong))]

    def _solve(self, training: _Training, C: float) -> _Solution:
        """Return the weights of each class against the rest, of the second of two."""
        options: dict[str, Any] = {
            "C": C,
            "tol": TOL,
            "max_iter": self.max_iter,
            "random_state": training.seed,
        }
        if self.loss == "squared_hinge":
            solver = LinearSVC(penalty="l1", dual=False, **options)
        elif LogisticRegression().penalty == "deprecated":
            # scikit-learn 1.8 has a new name for the penalty.
            solver = LogisticRegression(solver="liblinear", l1_ratio=1.0, **options)
        else:
            solver = LogisticRegression(solver="liblinear", penalty="l1", **options)
        targets = list(range(training.codes.max() + 1))
        if len(targets) == 2:
            targets = targets[1:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # n_iter_ says it
            models = [
                clone(solver).fit(
                    training.features,
                    training.codes == target,
                    sample_weight=training.weights,
                )
                for target in targets
            ]
        return _Solution(
            coef=np.vstack([model.coef_ for model in models]),
            intercept=np.concatenate([np.ravel(model.intercept_) for model in models]),
            n_iter=int(max(np.max(model.n_iter_) for model in models)),
        )

    # --- what was learned -------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            Of two classes, the score of the second.
        """
        scores = self._scores(X)
        if len(self.coef_) == 1:
            return scores[:, 0]
        return scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, shape (n_rows,)."""
        scores = self._scores(X)
        return self.classes_[_decide(scores)]

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape (n_rows, n_classes).

        It needs ``loss="log_loss"``. Of more than two classes they are those of each
        against the rest, divided by their sum.
        """
        shares = expit(self._scores(X))
        if len(self.coef_) == 1:
            return np.hstack([1.0 - shares, shares])
        total = shares.sum(axis=1, keepdims=True)
        even = np.full_like(shares, 1.0 / shares.shape[1])
        return np.divide(shares, total, out=even, where=total > 0)

    def _scores(self, X: Any) -> np.ndarray:
        """Return a score per class, of two classes one."""
        check_is_fitted(self, "coef_")
        X = check_matrix(self, X, reset=False)
        queries, _ = self._sides(X)
        return products(queries, self._index) @ self.coef_.T + self.intercept_

    def _sides(self, X: Any) -> tuple[Any, Any]:
        """Return both sides of the similarity: S is dot products of rows of the two."""
        X = X.astype(np.float64, copy=False)
        similarity = self.similarity_
        if self.cosine:
            similarity = LearnedCosine(similarity)
        return similarity.rewrite(X), similarity.index_rows(X)


def _decide(scores: np.ndarray) -> np.ndarray:
    """Return the number of the class with the largest score.

    Of two classes there is one score, that of the second.
    """
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.int64)
    return scores.argmax(axis=1)


# --- landmarks, and comparisons with them ---------------------------------------------


def _draw(landmarks: int | str, codes: np.ndarray, seed: int) -> np.ndarray:
    """Return the numbers of the rows that are landmarks."""
    if isinstance(landmarks, str):
        return np.arange(len(codes))
    sizes = np.bincount(codes)
    wanted = np.floor(int(landmarks) * sizes / len(codes) + 1e-9).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(codes))
    return np.flatnonzero(ranks(codes, order) < np.maximum(wanted, FEWEST)[codes])


class LandmarkTriplets(NamedTuple):
    """Rows, comparisons of them, and weights, as ``HDSL(norm=None).fit`` takes them.

    Parameters
    ----------
    rows : csr_array of shape (n_rows + n_means, n_features)
        Those of X, then means of rows of one class.
    triplets : ndarray of shape (n_triplets, 3)
        A row of X, a mean of its class, the mean of another class.
    weights : ndarray of shape (n_triplets,)
        The comparisons of a row weigh as much in sum as the row.
    """

    rows: sp.csr_array
    triplets: np.ndarray
    weights: np.ndarray


def landmark_triplets(X: Any, y: Any, sample_weight: Any = None) -> LandmarkTriplets:
    """Return comparisons of rows with the means of their class and of the nearest others.

    The mean similarity to the landmarks of a class is the similarity to their mean,
    since S is linear in a row; here all rows are landmarks. Each row is compared with
    its class and with each of the 5 nearest others. A row does not count in the mean of
    its own class, nor does one that is equal to it: the rows of a class are dealt into
    10 groups, and a row is compared with the mean of the other groups. A row whose
    class has no other row is left out.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
        Rows as they are compared: at unit length as a rule.
    y : array-like of shape (n_rows,)
        Class labels.
    sample_weight : array-like of shape (n_rows,), default=None
        All > 0.

    Returns
    -------
    LandmarkTriplets
        ``rows``, ``triplets``, ``weights``.

    Examples
    --------
    >>> X = np.array([[1.0, 0], [1, 0.5], [0, 1], [0.5, 1]])
    >>> rows, triplets, weights = landmark_triplets(X, ["a", "a", "b", "b"])
    >>> rows.toarray()[triplets[0]].tolist()
    [[1.0, 0.0], [1.0, 0.5], [0.25, 1.0]]
    """
    X = sp.csr_array(X).astype(np.float64, copy=False)
    n = X.shape[0]
    y = check_classes("landmark_triplets", y, n)
    classes, codes = np.unique(y, return_inverse=True)
    weights = check_weights(sample_weight, n, "row of X")
    if weights is None:
        weights = np.ones(n)
    group = _groups(X, codes)
    # A row is in the mean of each group of its class but its own, and in that of the
    # whole class.
    k, row = np.nonzero(np.arange(N_GROUPS + 1)[:, None] != group)
    mean = k * len(classes) + codes[row]
    total = np.bincount(mean, weights[row], minlength=(N_GROUPS + 1) * len(classes))
    average = sp.csr_array(
        (weights[row] / total[mean], (mean, row)), shape=(len(total), n)
    )
    mean_of_row = group * len(classes) + codes
    anchors = np.flatnonzero(total[mean_of_row])
    whole = N_GROUPS * len(classes)
    class_means = average[whole:] @ X
    nearest = search.top_k(X[anchors], class_means, N_CLASSES + 1).rows
    is_other = (nearest >= 0) & (nearest != codes[anchors][:, None])
    is_other &= np.cumsum(is_other, axis=1) <= N_CLASSES
    number, column = np.nonzero(is_other)
    if not len(number):
        raise ValueError(
            "No comparison can be made: two classes are needed, and a class with two "
            f"different rows. Got n_rows={n} of n_classes={len(classes)}, with "
            f"n_features={X.shape[1]}."
        )
    anchor = anchors[number]
    other = whole + nearest[number, column]
    ends = np.column_stack([mean_of_row[anchor], other])
    used, ends = np.unique(ends, return_inverse=True)
    triplets = np.column_stack([anchor, n + ends.reshape(-1, 2)])
    rows = sp.csr_array(sp.vstack([X, average[used] @ X]))
    n_triplets = np.bincount(number)[number]
    return LandmarkTriplets(rows, triplets, weights[anchor] / n_triplets)


def _groups(X: sp.csr_array, codes: np.ndarray) -> np.ndarray:
    """Return the group of each row within its class; equal rows are in one group."""
    keyed = np.column_stack([codes.astype(np.uint64), row_keys(X)])
    points, point = np.unique(keyed, axis=0, return_inverse=True)
    class_of_point = points[:, 0].astype(np.int64)
    rank = ranks(class_of_point, np.arange(len(points)))
    return (rank % N_GROUPS)[point.ravel()]


def learn_from_landmarks(
    model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None
) -> Similarity:
    """Return what a model learns from comparisons of rows with means of classes.

    Means are compared as they are, so rows are brought to unit length here, where the
    norm of the model says so.
    """
    if not hasattr(model, "norm"):
        raise ValueError(
            "comparisons='landmarks' are for HDSL: take comparisons='rows' with "
            f"{type(model).__name__}."
        )
    norm = model.norm
    columns = None
    if norm == "l2":
        columns = columns_with_values(X)
        X = unit_rows(X, columns)
    compared = landmark_triplets(X, y, weights)
    with warnings.catch_warnings():
        # Means are shorter than rows.
        warnings.filterwarnings("ignore", "Rows differ in length")
        model.set_params(norm=None).fit(
            compared.rows,
            triplets=compared.triplets,
            sample_weight=compared.weights,
        )
    learned = model.similarity_
    (prior,) = learned.fixed
    fixed = (replace(prior, norm=norm, length_columns=columns),)
    return replace(learned, fixed=fixed)
