"""ClassScores: the scores of a classifier as features beside the rows."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.model_selection import check_cv
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..explain.parts import one_row
from ..explain.tables import CLASS
from ..files.container import Arrays, get_value
from ..input.errors import ParameterError
from ..input.estimators import TakesSparse, numbered_names, replace_fitted
from ..input.labels import check_classes, check_several_classes, check_weights
from ..input.matrices import (
    as_checked_rows,
    as_user_sparse,
    check_matrix,
    narrow,
)
from ..input.parameters import check_number
from ..labels import LabelSets, label_sets
from ..model_arrays import names_to_arrays
from ..rows import Rows, has_embedding, unit_rows
from ..wide_matrices import is_wide, take_columns
from .scores import LinearScorer, Scores, with_words
from .training import (
    Training,
    columns_with_values,
    ended_early_on_purpose,
    limit_passes,
    n_affordable_rows,
    sample_rows,
    stratified_folds,
)

if TYPE_CHECKING:
    from ..explain import Explanation

#: The value of weight="auto". Errors on held-out training rows of four sets are the
#: same with 0.3, 0.6 and 1, but rows are found by half of their features less well with
#: 0.6, and 1 is worse.
AUTO_WEIGHT = 0.3

#: Most rows, and folds of them, on which a classifier that sees an embedding is compared
#: with one that does not.
MOST_TRIED = 5000

N_TRIAL_FOLDS = 3

#: Where LinearSVC stops by default. Its scores are squashed: more digits cost time and
#: add nothing.
TOL = 0.1


class ClassScores(Scores, TakesSparse, TransformerMixin, BaseEstimator):
    """Rows at unit length, then the scores that a classifier gives each class.

    Put it before `HDSL`: feature pairs of words and classes are then learned together.
    Each row becomes [x, weight·s(x)], where x is the row at unit length and s(x) has
    one value per class: the classifier's one-vs-rest score v as 1 / (1 + e^(-3v)),
    squared, of the largest few alone, at unit length.

    ``fit_transform`` is not ``fit`` and ``transform``. It scores each row by a
    classifier that has not seen it: the rows are divided into folds, and each fold is
    scored by a classifier that was fitted on the others (cross-fitting). A classifier
    is overconfident on the rows it was fitted on, so HDSL would learn to trust their
    scores alone. A pipeline calls the right method.

    Parameters
    ----------
    classifier : classifier or None, default=None
        Has ``decision_function``, or else ``predict_proba``; probabilities replace the
        squashed scores. None is ``LinearSVC(tol=0.1)``.
    weight : float >= 0 or "auto", default="auto"
        Length of the scores; the text has length 1. "auto" is 0.3. With a larger
        weight, rows of one class come closer together, so it is harder to find a single
        one.
    n_scores : int or None, default=5
        Number of scores per row, the largest; the others are 0. None keeps all.
    cv : int, splitter or iterable, default=3
        Number of folds in ``fit_transform``, with about the same share of each class;
        or other folds, as in scikit-learn, which must score each row exactly once.
    random_state : int, RandomState or None, default=None
        Source of the folds, and of ``LinearSVC`` if `classifier` is None.
    n_jobs : int or None, default=None
        Number of threads that fit the classifiers.
    max_rows : int, "auto" or None, default="auto"
        Maximum number of rows to fit a classifier on; larger data are sampled, with
        about the same share of each class. "auto" is as many as have 50 million values,
        counted once per class, and at least 20,000. None is all. All rows are scored.
    with_embedding : bool or "auto", default="auto"
        Whether the classifier of `hdsl.Rows` sees the embedding beside the features,
        both at unit length. "auto" is True if a classifier of both has fewer errors on
        rows that it has not seen.

    Attributes
    ----------
    classifier_ : classifier
        Fitted on all rows.
    classes_ : ndarray of shape (n_classes,)
    weight_ : float
        The value used.
    columns_ : ndarray or None
        The columns that are not empty in training; the others do not count in the
        length of a row. None is all.
    is_wide_ : bool
        Whether X has so many columns that the classifier sees only ``columns_``: more
        than 1000 and 4 per value.
    n_rows_fitted_ : int
        Number of rows that ``classifier_`` was fitted on.
    embedding_width_ : int
        Number of embedding columns that the classifier sees.
    n_features_in_ : int
        Without the columns of an embedding.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X has string column names.

    Notes
    -----
    A class may have fewer rows than there are folds. If all its rows are in one fold,
    the classifier for that fold does not know the class, and its score there is 0.

    Examples
    --------
    >>> from hdsl import ClassScores
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> scores = ClassScores(cv=2, random_state=0).fit(X, ["cat", "cat", "dog", "dog"])
    >>> scores.get_feature_names_out().tolist()
    ['x0', 'x1', 'x2', 'class:cat', 'class:dog']
    >>> scores.transform([[3, 0, 4]]).round(1).tolist()
    [[0.6, 0.0, 0.8, 0.3, 0.0]]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        weight: float | str = "auto",
        n_scores: int | None = 5,
        cv: Any = 3,
        random_state: Any = None,
        n_jobs: int | None = None,
        max_rows: int | str | None = "auto",
        with_embedding: bool | str = "auto",
    ) -> None:
        self.classifier = classifier
        self.weight = weight
        self.n_scores = n_scores
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.max_rows = max_rows
        self.with_embedding = with_embedding

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ClassScores:
        """Fit the classifier on all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Or `hdsl.Rows`: such a matrix, and a dense embedding beside it.
        y : array-like of shape (n_rows,)
            Class labels. Several per row are an indicator matrix or a list of labels
            per row: each label then has its own classifier, which must be linear.
        sample_weight : array-like of shape (n_rows,), default=None
            Passed to the classifier, which must take it.

        Returns
        -------
        self
        """
        checked, training, _ = self._check_fit(X, y, sample_weight)
        with ended_early_on_purpose(checked.n_rows_fitted_ < len(training.y)):
            checked.classifier_ = training.fit(np.arange(len(training.y)))
        replace_fitted(self, checked)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the rows with scores by classifiers that have not seen them.

        The result differs from ``fit(X, y, sample_weight).transform(X)``. With
        `hdsl.Rows` the scores stand beside the features, and the embedding stays as it
        is.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.

        Returns
        -------
        array or sparse matrix, as X, of shape (n_rows, n_features + n_classes)
            `hdsl.Rows` if X has an embedding.
        """
        checked, training, random_state = self._check_fit(X, y, sample_weight)
        folds = self._folds(training, random_state)
        tasks = [delayed(training.fit)(np.arange(len(training.y)))]
        for train, test in folds:
            tasks.append(delayed(training.fit_and_score)(train, test))
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        with ended_early_on_purpose(checked.n_rows_fitted_ < len(training.y)):
            checked.classifier_, *fold_scores = parallel(tasks)
        scores = np.empty((len(training.y), len(training.classes)))
        for (_, test), test_scores in zip(folds, fold_scores, strict=True):
            scores[test] = test_scores
        replace_fitted(self, checked)
        return _beside_embedding(self._join(training.rows, scores), X)

    def transform(self, X: Any) -> Any:
        """Return the rows with scores by the classifier fitted on all training rows.

        That classifier has seen the training rows: ``fit_transform`` is for them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Or `hdsl.Rows`, which are required if the classifier sees the embedding.

        Returns
        -------
        array or sparse matrix, as X, of shape (n_rows, n_features + n_classes)
            `hdsl.Rows` if X has an embedding.
        """
        check_is_fitted(self, "classifier_")
        if not has_embedding(X):
            rows = check_matrix(self, X, reset=False)
            return as_user_sparse(super().transform(rows))
        rows = as_checked_rows(X)
        check_matrix(self, rows.sparse, reset=False)
        return super().transform(rows)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of X, then ``class:LABEL`` for each class."""
        check_is_fitted(self, "classifier_")
        if input_features is None and not hasattr(self, "feature_names_in_"):
            names = numbered_names(self.n_features_in_, "Each column of X stays")
        else:
            names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        classes = [f"{CLASS}{label}" for label in self.classes_]
        return np.concatenate([names, np.array(classes, dtype=object)])

    # --- why --------------------------------------------------------------------------

    def explain(
        self,
        model: Any,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        feature_names: Any = None,
        top: int | None = 10,
    ) -> Explanation:
        """Return the parts of S(x, y) of a model, with the words behind classes.

        Parameters
        ----------
        model : HDSL
            Fitted on the output of this transformer.
        x, y, rather_than : array-like or sparse matrix of shape (1, n_features)
            Rows without scores.
        feature_names : array-like of str of shape (n_features,), default=None
            Names of the features without scores. None is ``feature_names_in_``, or x0,
            x1 and so on.
        top : int or None, default=10
            Number of parts to show.

        Returns
        -------
        hdsl.explain.Explanation
            As ``HDSL.explain`` returns it. If the classifier is linear, its ``words``
            has the features that add most to the score of each class in each row.
        """
        rows = {"x": one_row(x), "y": one_row(y)}
        if rather_than is not None:
            rows["rather_than"] = one_row(rather_than)
        names = self.get_feature_names_out(feature_names)
        scored_rows = {name: self.transform(row) for name, row in rows.items()}
        explanation = model.explain(**scored_rows, feature_names=names, top=top)
        return with_words(explanation, self, rows, names)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the fitted transformer as plain arrays, and a header with everything else.

        Raises
        ------
        ValueError
            The classifier is not linear.
        """
        check_is_fitted(self, "classifier_")
        arrays = LinearScorer.from_classifier(self.classifier_).to_arrays()
        if self.columns_ is not None:
            arrays["columns"] = self.columns_
        arrays |= names_to_arrays(self)
        header = {
            "weight": float(self.weight_),
            "n_scores": self.n_scores,
            "n_features": int(self.n_features_in_),
            "embedding_width": int(self.embedding_width_),
        }
        return arrays, header

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> ClassScores:
        """Return the fitted transformer from the result of `to_arrays`.

        Its ``classifier_`` is a `LinearScorer`. Parameters other than `weight` and
        `n_scores` are the defaults.

        Raises
        ------
        ValueError
            Arrays and header are not those of `to_arrays`; the first fault is named.
        """
        model = cls(
            weight=get_value(header, "weight", float), n_scores=header.get("n_scores")
        )
        model.restore(arrays, header)
        return model

    # --- inside -----------------------------------------------------------------------

    def _check_fit(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[ClassScores, Training, np.random.RandomState]:
        """Return a copy that has all but the classifier, its training, a generator."""
        self._check_parameters()
        name = type(self).__name__
        checked = copy(self)
        embedding = None
        if has_embedding(X):
            both = as_checked_rows(X)
            X = both.sparse
            embedding = both.dense
        if self.with_embedding is False:
            embedding = None
        X = check_matrix(checked, X, reset=True)
        sets = label_sets(y)
        if sets is None:
            y = check_classes(name, y, X.shape[0])
            checked.classes_ = np.unique(y)
        else:
            y = sets.check(X)
            checked.classes_ = y.classes
        check_several_classes(name, checked.classes_)
        checked.weight_ = AUTO_WEIGHT
        if self.weight != "auto":
            checked.weight_ = float(self.weight)
        checked.columns_ = columns_with_values(X)
        has_empty_columns = checked.columns_ is not None
        checked.is_wide_ = sp.issparse(X) and is_wide(X) and has_empty_columns
        random_state = check_random_state(self.random_state)
        classifier = self._check_classifier(random_state)
        weights = check_weights(sample_weight, len(y), "row")
        if weights is not None and not has_fit_parameter(classifier, "sample_weight"):
            raise ValueError(
                f"{type(classifier).__name__} takes no sample_weight: use another "
                "classifier, or leave sample_weight out."
            )
        rows = unit_rows(X, checked.columns_)
        seen = rows
        if checked.is_wide_:
            seen = take_columns(rows, checked.columns_)
        seen = narrow(seen)
        checked.embedding_width_ = 0
        if embedding is not None:
            embedding = unit_rows(embedding)
            seen = Rows(seen, embedding)
        training = Training(
            classifier=classifier,
            rows=rows,
            X=seen,
            y=y,
            sample_weight=weights,
            classes=checked.classes_,
        )
        if embedding is not None:
            if self._takes_embedding(training, random_state):
                checked.embedding_width_ = embedding.shape[1]
            else:
                training = replace(training, X=seen.sparse)
        n_rows = self._n_rows_to_fit(training)
        checked.n_rows_fitted_ = n_rows
        if n_rows < len(y):
            sample = sample_rows(y, n_rows, random_state, weights)
            training = training.on_sample(sample)
            checked.n_rows_fitted_ = len(sample)
            if self.classifier is None:
                limit_passes(classifier, training.X)
        return checked, training, random_state

    def _check_parameters(self) -> None:
        """Raise ParameterError for the first parameter that is not as it must be."""
        name = type(self).__name__
        check_number(name, "weight", self.weight, low=0, words=("auto",))
        check_number(
            name, "n_scores", self.n_scores, low=1, integer=True, words=(None,)
        )
        check_number(
            name, "max_rows", self.max_rows, low=2, integer=True, words=("auto", None)
        )
        if self.with_embedding not in (True, False, "auto"):
            raise ParameterError(
                name,
                "with_embedding",
                "True, False or 'auto'",
                repr(self.with_embedding),
            )

    def _takes_embedding(
        self, training: Training, random_state: np.random.RandomState
    ) -> bool:
        """Return whether a classifier of rows with an embedding is to see it."""
        if self.with_embedding != "auto":
            return True
        trial = training.on_rows(
            sample_rows(training.y, MOST_TRIED, random_state, training.sample_weight)
        )
        folds = stratified_folds(_codes(trial.y), N_TRIAL_FOLDS, random_state)
        features_alone = replace(trial, X=trial.X.sparse)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        tasks = [
            delayed(tried.count_errors)(train, test)
            for tried in (features_alone, trial)
            for train, test in folds
        ]
        with ended_early_on_purpose(True):
            errors = np.reshape(parallel(tasks), (2, len(folds))).sum(axis=1)
        return bool(errors[1] < errors[0])

    def _n_rows_to_fit(self, training: Training) -> int:
        """Return about how many rows a classifier is fitted on."""
        n_rows = len(training.y)
        if self.max_rows is None:
            return n_rows
        if self.max_rows == "auto":
            return n_affordable_rows(training.X, len(training.classes))
        return min(n_rows, int(self.max_rows))

    def _check_classifier(self, random_state: np.random.RandomState) -> Any:
        """Return the classifier to fit, raise ValueError if it gives no scores."""
        # Drawn in any case, so that the folds do not depend on the classifier.
        default = LinearSVC(tol=TOL, random_state=random_state.randint(2**31 - 1))
        if self.classifier is None:
            return default
        if not (
            hasattr(self.classifier, "decision_function")
            or hasattr(self.classifier, "predict_proba")
        ):
            raise ValueError(
                f"The 'classifier' parameter of {type(self).__name__} must have "
                "decision_function or predict_proba. Got "
                f"{self.classifier!r} instead."
            )
        return self.classifier

    def _folds(
        self, training: Training, random_state: np.random.RandomState
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return rows to fit on and rows to score, each row once among the latter."""
        y = _codes(training.y)
        if isinstance(self.cv, int | np.integer):
            check_number(type(self).__name__, "cv", self.cv, low=2, integer=True)
            return stratified_folds(y, int(self.cv), random_state)
        folds = list(check_cv(self.cv, y, classifier=True).split(training.X, y))
        scored = np.sort(np.concatenate([test for _, test in folds]))
        if not np.array_equal(scored, np.arange(len(y))):
            raise ValueError(
                f"The 'cv' parameter of {type(self).__name__} must score each row "
                "exactly once. Use the number of folds, or a splitter such as KFold."
            )
        return folds


def _codes(y: Any) -> np.ndarray:
    """Return one value per row that folds have about the same share of."""
    if isinstance(y, LabelSets):
        return y.codes
    return np.asarray(y)


def _beside_embedding(scored: Any, X: Any) -> Any:
    """Return scored features, beside its embedding where X has one."""
    if has_embedding(X):
        return Rows(scored, as_checked_rows(X).dense)
    return as_user_sparse(scored)
