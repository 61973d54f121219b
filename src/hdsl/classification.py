"""Classification by similarities to landmarks: a sparse linear classifier on top."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any

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

from . import checks, saving
from .arrays import csr_from_arrays, csr_to_arrays, similarity_from_arrays, similarity_to_arrays
from .class_scores import columns_with_values, stratified_folds
from .files.model import plain_params
from .files.tables import (
    as_fixed_width,
    check_columns,
    get_strings,
    get_value,
    is_text,
    narrow,
    pack_columns,
    pack_strings,
    unpack_columns,
)
from .landmarks import check_landmarks, draw_landmarks
from .linear import LinearScorer, check_array
from .similarity import LearnedCosine, Rewriter, as_rewriter, unit_rows
from .solver.snapshot import nested, part_of

#: Losses, and what `l1_min_c` calls them.
LOSSES = {"squared_hinge": "squared_hinge", "log_loss": "log"}

#: What C="cv" chooses from: multiples of the least C with a weight that is not 0.
FACTORS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)

#: Where the solver stops.
TOL = 1e-3

#: Used where no fold can choose.
FALLBACK = 100.0


def _gives_probabilities(classifier: SimilarityClassifier) -> bool:
    if classifier.loss != "log_loss":
        raise AttributeError(
            "predict_proba needs loss='log_loss': the scores of other losses are not calibrated."
        )
    return True


class SimilarityClassifier(ClassifierMixin, BaseEstimator):
    """Sparse linear classifier on the similarities to some landmarks.

    The score of a class is Σ coef·S(x, landmark) + intercept. An ℓ1 penalty sets many of the
    weights to 0. If S is good, so that most rows are more similar to landmarks of their own class
    than to those of others, a few are enough: the theory has a bound. More than two classes
    are told apart one against the rest.

    Parameters
    ----------
    similarity : HDSL, Similarity or None, default=None
        A fitted similarity is used as it is; it can be any object with ``rewrite(X)``. A model that
        is not fitted, such as ``HDSL(objective="classification")``, is cloned and learns from the
        rows and labels given to ``fit``; so is a fitted one that was cloned, as in a grid search.
        None is the dot product of rows at unit length; columns that no training row has do not
        count in the length.
    landmarks : "all", int or array-like of int, default=500
        All training rows, so many in all, drawn from each class by its share, at least 2, or the
        rows with these numbers. Those without a weight in any class are dropped.
    cosine : bool, default=False
        Compare by S(x, y) / sqrt(S(x, x) S(y, y)).
    loss : {"squared_hinge", "log_loss"}, default="squared_hinge"
        "log_loss" is logistic regression, and has ``predict_proba``.
    C : float > 0 or "cv", default="cv"
        Inverse strength of the penalty, for similarities with a mean of 0 per landmark and a root
        mean square of 1 over all. "cv" chooses from 10 to 3,000 times the least C that gives any
        landmark a weight, by folds of the training rows; of equals the smallest. Landmarks among
        the rows that a fold holds out are left out there. A similarity that learned from all rows
        has seen those held out: to choose as for new rows, put an unfitted one and C in a grid
        search.
    cv : int, default=3
        Number of folds.
    max_iter : int, default=1000
        Most passes of the solver, liblinear. Reaching it is a normal end: with more landmarks than
        are needed, the last passes hardly change the scores.
    random_state : int, RandomState or None, default=None
        Draws landmarks and folds, and is passed to the solver.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks,)
        Numbers of the training rows that have a weight in some class.
    coef_ : ndarray of shape (n_classes, n_landmarks), or (1, n_landmarks) for two classes
        Weights of the similarities to these rows.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    C_ : float
        The value used.
    n_iter_ : int
        Passes of the solver.
    similarity_ : Rewriter or None
        The similarity used.
    columns_ : ndarray or None
        Columns that count in the length of a row without a similarity; None is all.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    Examples
    --------
    >>> from hdsl import HDSL, SimilarityClassifier
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [1, 0, 1], [0, 2, 1], [0, 1, 2], [0, 1, 1]])
    >>> y = ["a", "a", "a", "b", "b", "b"]
    >>> model = HDSL(objective="classification")
    >>> classifier = SimilarityClassifier(model, C=10.0, random_state=0).fit(X, y)
    >>> classifier.predict([[0, 1, 0], [1, 0, 0]]).tolist()
    ['b', 'a']
    >>> len(classifier.landmarks_) < 6
    True
    """

    def __init__(
        self,
        similarity: Any = None,
        *,
        landmarks: Any = 500,
        cosine: bool = False,
        loss: str = "squared_hinge",
        C: float | str = "cv",
        cv: int = 3,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.similarity = similarity
        self.landmarks = landmarks
        self.cosine = cosine
        self.loss = loss
        self.C = C
        self.cv = cv
        self.max_iter = max_iter
        self.random_state = random_state

    # --- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SimilarityClassifier:
        """Learn the similarity, if it is not fitted, and the weights of landmarks.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Class labels.
        sample_weight : array-like of shape (n_rows,), default=None
            Weight of each row in the loss, in the folds that choose C and, where it takes weights,
            for the similarity that is learned here. A row of weight 0 counts as absent.

        Returns
        -------
        self
        """
        name = type(self).__name__
        self._check_parameters(name)
        learned = copy(self)  # self changes at the end, all at once
        X = checks.check_matrix(learned, X, reset=True)
        y = checks.check_classes(name, y, X.shape[0])
        weights = checks.check_weights(sample_weight, X.shape[0], "row of X")
        kept, n_rows = np.arange(X.shape[0]), X.shape[0]
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            X, y, weights = X[kept], y[kept], weights[kept]
        learned.classes_, codes = np.unique(y, return_inverse=True)
        checks.check_several_classes(name, learned.classes_)
        learned.similarity_ = self._similarity(X, y, weights)
        learned.columns_ = columns_with_values(X)
        random_state = check_random_state(self.random_state)
        rng = np.random.default_rng(random_state.randint(2**31 - 1))
        drawn = self._drawn(codes, kept, n_rows, rng)
        queries, index = learned._sides(X)
        index = index[drawn]
        features = _products(queries, index)
        # With means of 0 the solver needs fewer passes. They are of the other rows: a landmark's
        # similarity to itself is like no other. With a root mean square of 1 a C means the same for
        # any scale and prior.
        own = features[drawn, np.arange(len(drawn))]
        if weights is None:
            mean = (features.sum(axis=0) - own) / max(len(features) - 1, 1)
        else:
            others = np.maximum(weights.sum() - weights[drawn], weights.min())
            mean = (weights @ features - weights[drawn] * own) / others
        features -= mean
        squares = np.square(features).mean(axis=1)
        size = float(np.sqrt(np.average(squares, weights=weights))) or 1.0
        features /= size
        seed = random_state.randint(2**31 - 1)
        learned.C_ = self._penalty(features, codes, drawn, weights, seed)
        coef, intercept, learned.n_iter_ = self._weights(features, codes, weights, learned.C_, seed)
        coef = coef / size
        used = np.flatnonzero(coef.any(axis=0))
        # In the order of a file: sums over another order of the same numbers may round otherwise.
        learned.landmarks_, learned.coef_ = kept[drawn[used]], np.ascontiguousarray(coef[:, used])
        learned.intercept_ = intercept - coef @ mean
        self.__dict__ = {**vars(learned), "_index": index[used]}
        return self

    def _check_parameters(self, name: str) -> None:
        check_landmarks(name, self.landmarks)
        checks.check_word(name, "loss", self.loss, LOSSES)
        checks.check_number(name, "C", self.C, low=0, strict=True, words=("cv",))
        checks.check_number(name, "cv", self.cv, low=2, integer=True)
        checks.check_number(name, "max_iter", self.max_iter, low=1, integer=True)

    def _drawn(
        self, codes: np.ndarray, kept: np.ndarray, n_rows: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the landmarks to choose from, as numbers of the rows that count."""
        if isinstance(self.landmarks, str | numbers.Integral) or len(kept) == n_rows:
            return np.flatnonzero(draw_landmarks(self.landmarks, codes, None, rng))
        every = np.zeros(n_rows, dtype=np.int64)
        every[kept] = codes
        drawn = np.flatnonzero(draw_landmarks(self.landmarks, every, None, rng)[kept])
        if not len(drawn):
            raise ValueError("All rows that landmarks names have weight 0: name other rows.")
        return drawn

    def _similarity(self, X: Any, y: np.ndarray, weights: np.ndarray | None) -> Rewriter | None:
        """Return the similarity, learned here if it is not fitted."""
        if self.similarity is None:
            return None
        model = self.similarity
        if hasattr(model, "fit") and not hasattr(model, "similarity_"):
            takes = weights is not None and has_fit_parameter(model, "sample_weight")
            model = clone(model).fit(X, y, **({"sample_weight": weights} if takes else {}))
        name = f"The 'similarity' parameter of {type(self).__name__}"
        return as_rewriter(model, X.shape[1], name)

    def _penalty(
        self,
        features: np.ndarray,
        codes: np.ndarray,
        drawn: np.ndarray,
        weights: np.ndarray | None,
        seed: int,
    ) -> float:
        """Return C as given, or the one with the fewest errors in folds."""
        if self.C != "cv":
            return float(self.C)
        given = np.ones(len(codes)) if weights is None else weights
        with_ones = given[:, None] * np.column_stack([features, np.ones(len(codes))])
        least = float(l1_min_c(with_ones, codes, loss=LOSSES[self.loss], fit_intercept=False))
        wrong = np.zeros(len(FACTORS))
        n_judged = 0
        for train, held in stratified_folds(codes, self.cv, np.random.RandomState(seed)):
            kept = np.flatnonzero(~np.isin(drawn, held))
            if not len(kept) or len(np.unique(codes[train])) < 2:
                continue
            n_judged += len(held)
            own, other = features[np.ix_(train, kept)], features[np.ix_(held, kept)]
            known, label = np.unique(codes[train], return_inverse=True)
            for k, factor in enumerate(FACTORS):
                coef, intercept, _ = self._weights(
                    own, label, None if weights is None else weights[train], factor * least, seed
                )
                predicted = known[_decide(other @ coef.T + intercept)]
                wrong[k] += given[held][predicted != codes[held]].sum()
        return least * (FACTORS[int(np.argmin(wrong))] if n_judged else FALLBACK)

    def _weights(
        self,
        features: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None,
        C: float,
        seed: int,
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the weights and intercepts of each class against the rest, of the second of two.

        The codes are 0, 1, … without a gap. The last number is that of the passes.
        """
        options: dict[str, Any] = {
            "C": C, "tol": TOL, "max_iter": self.max_iter, "random_state": seed
        }  # fmt: skip
        parts: list[Any]
        targets = [codes]
        if self.loss == "squared_hinge":
            parts = [LinearSVC(penalty="l1", dual=False, **options)]
        else:
            # scikit-learn 1.8 has a new name for the penalty.
            is_new = LogisticRegression().penalty == "deprecated"
            options |= {"l1_ratio": 1.0} if is_new else {"penalty": "l1"}
            if codes.max() > 1:
                targets = [(codes == k).astype(np.int64) for k in range(codes.max() + 1)]
            parts = [LogisticRegression(solver="liblinear", **options) for _ in targets]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # n_iter_ says it
            for part, target in zip(parts, targets, strict=True):
                part.fit(features, target, sample_weight=weights)
        coef = np.vstack([part.coef_ for part in parts])
        intercept = np.concatenate([np.ravel(part.intercept_) for part in parts])
        return coef, intercept, int(max(np.max(part.n_iter_) for part in parts))

    # --- what was learned ------------------------------------------------------------------------

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
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, shape (n_rows,)."""
        scores = self._scores(X)
        return self.classes_[_decide(scores)]

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape (n_rows, n_classes); with log_loss only.

        Of more than two classes the probabilities of each against the rest, divided by their sum.
        """
        shares = expit(self._scores(X))
        if len(self.coef_) == 1:
            return np.hstack([1.0 - shares, shares])
        total = shares.sum(axis=1, keepdims=True)
        even = np.full_like(shares, 1.0 / shares.shape[1])
        return np.divide(shares, total, out=even, where=total > 0)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "coef_")
        X = checks.check_matrix(self, X, reset=False)
        return _products(self._sides(X)[0], self._index) @ self.coef_.T + self.intercept_

    def _sides(self, X: Any) -> tuple[Any, Any]:
        """Return both sides of the similarity: its values are dot products of rows of the two."""
        X = X.astype(np.float64, copy=False)
        similarity = self.similarity_
        if similarity is None:
            rows = unit_rows(X, self.columns_)
            return rows, rows
        similarity = LearnedCosine(similarity) if self.cosine else similarity
        return similarity.rewrite(X), similarity.index_rows(X)

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted classifier to a file without code; `hdsl.load` reads it.

        The file holds landmarks, weights, classes and the similarity, and is written completely or
        not at all. A loaded classifier gives the same bits. Its parameter `similarity` is the
        learned similarity, and what JSON has no form for, such as `landmarks` as an array or a
        random state, has its default.

        Parameters
        ----------
        path : str or path-like
            By convention ``*.hdsl``.

        Raises
        ------
        ValueError
            The similarity is an object of your own, or its regions have no centers: joblib saves
            these.
        """
        saving.save(self, path)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what was learned as plain arrays, and a header of what is no array."""
        check_is_fitted(self, "coef_")
        params = self.get_params(deep=False)
        del params["similarity"]
        params["cosine"] = bool(self.cosine)
        if not isinstance(self.landmarks, str | numbers.Integral):
            params["landmarks"] = np.asarray(self.landmarks)  # they belong to their rows: left out
        self._check_parameters(type(self).__name__)
        plain, left_out = plain_params(params)
        header: dict[str, Any] = {
            "params": plain, "params_left_out": left_out, "C": float(self.C_),
            "n_iter": int(self.n_iter_), "n_features_in": int(self.n_features_in_),
            "feature_names": hasattr(self, "feature_names_in_"), "similarity": None,
        }  # fmt: skip
        arrays = LinearScorer(self.coef_, self.intercept_, self.classes_).to_arrays()
        classes = arrays.pop("classes")
        header["classes"] = self.classes_.dtype.newbyteorder("<").str
        if is_text(classes):
            arrays |= nested(classes=pack_strings(classes.tolist()))
        else:
            arrays["classes"] = classes
        arrays["landmarks"] = narrow(np.asarray(self.landmarks_, dtype=np.int64))
        index = self._index
        arrays |= csr_to_arrays(index, "rows") if sp.issparse(index) else {"rows": index}
        if self.columns_ is not None:
            arrays["columns"] = pack_columns(self.columns_, self.n_features_in_)
        if header["feature_names"]:
            arrays |= nested(feature_names=pack_strings(self.feature_names_in_.tolist()))
        if self.similarity_ is not None:
            parts, header["similarity"] = similarity_to_arrays(self.similarity_)
            arrays |= nested(similarity=parts)
        return arrays, header

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]
    ) -> SimilarityClassifier:
        """Return the classifier that `to_arrays` was called on.

        Raises
        ------
        ValueError
            Arrays and header are not those of a classifier; the first fault is named.
        """
        get = partial(get_value, header)
        n_features = get("n_features_in", int)
        if not 1 <= n_features < 2**63:
            raise ValueError("n_features_in must be an int >= 1")
        similarity = None
        if header.get("similarity") is not None:
            parts = part_of(arrays, "similarity")
            similarity = similarity_from_arrays(parts, get("similarity", dict), n_features)
        known = cls().get_params().keys() - set(get("params_left_out", dict)) - {"similarity"}
        params = {name: value for name, value in get("params", dict).items() if name in known}
        classifier = cls(similarity, **params)
        try:
            classifier._check_parameters(cls.__name__)
        except ValueError as error:
            raise ValueError(f"{error!s:.200}") from None  # it may repeat what the file holds
        if type(classifier.cosine) is not bool:
            raise ValueError("cosine must be true or false")
        classifier.similarity_, classifier.n_features_in_ = similarity, n_features
        classifier.C_, classifier.n_iter_ = get("C", float), get("n_iter", int)
        classifier._take_weights(arrays, get("classes", str))
        classifier.columns_ = None
        if "columns" in arrays:
            classifier.columns_ = unpack_columns(arrays["columns"], n_features)
            check_columns(classifier.columns_, n_features)
        if get("feature_names", bool):
            classifier.feature_names_in_ = get_strings(arrays, "feature_names")
            if len(classifier.feature_names_in_) != n_features:
                raise ValueError("feature_names must hold a name per feature")
        return classifier

    def _take_weights(self, arrays: Mapping[str, np.ndarray], code: str) -> None:
        """Take landmarks, classes and weights from a file; `code` is the dtype of the classes."""
        is_named = "classes" not in arrays
        classes = get_strings(arrays, "classes") if is_named else arrays["classes"]
        scorer = LinearScorer.from_arrays({**arrays, "classes": classes})
        self.classes_ = as_fixed_width(classes, code) if is_named else classes
        self.coef_, self.intercept_ = scorer.coef_, scorer.intercept_
        n, n_features = self.coef_.shape[1], self.n_features_in_
        self.landmarks_ = check_array(arrays, "landmarks", "i", (n,)).astype(np.int64)
        if n and (self.landmarks_[0] < 0 or (np.diff(self.landmarks_) <= 0).any()):
            raise ValueError("landmarks must hold rising row numbers")
        if "rows_indptr" in arrays:
            self._index = csr_from_arrays(arrays, "rows", n_features)
            if self._index.shape[0] != n:
                raise ValueError(f"there are {self._index.shape[0]} rows for {n} landmarks")
        else:
            self._index = check_array(arrays, "rows", "f", (n, n_features))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _products(queries: Any, index: Any) -> np.ndarray:
    """Return the dot products of the rows of both, dense."""
    product = queries @ index.T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


def _decide(scores: np.ndarray) -> np.ndarray:
    """Return the number of the class with the largest score; of two classes there is one score."""
    return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
