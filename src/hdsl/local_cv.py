"""LocalHDSLCV: the number of regions and the local scale, chosen on folds."""

from __future__ import annotations

from copy import copy
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from . import checks, monitor
from .folds import refuse_checkpoint, row_folds
from .local import LocalHDSL
from .local_similarity import LocalSimilarity
from .model import SimilarityModel
from .progress import GridProgress
from .supervision import Supervision


class Candidate(NamedTuple):
    """A number of regions and a local scale."""

    n_regions: int
    local_scale: float | str

    def __str__(self) -> str:
        if self.n_regions == 0:
            return "no regions"
        return f"{self.n_regions} regions, local scale {self.local_scale}"


class LocalHDSLCV(SimilarityModel):
    """LocalHDSL with the number of regions and the local scale chosen by cross-validation.

    Candidates within one standard error of the best mean count as equally good. Among these the
    one with the fewest regions is chosen, then the first local scale. So no regions are chosen
    where they do not help. The chosen one is then fitted to all rows.

    Parameters
    ----------
    n_regions : array-like of int, default=(0, 2, 4, 8)
    local_scales : sequence of float or "auto", default=("auto",)
        Local scales to try, the preferred one first.
    estimator : LocalHDSL or None, default=None
        Carries all other parameters; None is ``LocalHDSL()``. Its scale is that of M.
    cv : int, splitter or iterable, default=3
        As in `HDSLCV`.
    verbose : int, default=0
        As in `HDSLCV`: a live line, or a line per finished run.

    Attributes
    ----------
    best_estimator_ : LocalHDSL
    best_params_ : dict
        n_regions and local_scale.
    best_score_ : float
        Mean score of the chosen candidate: the share of the 10 nearest rows that have the label, or
        the share of triplets that hold.
    cv_results_ : dict of ndarrays
        One line per candidate: ``param_n_regions``, ``param_local_scale``, ``mean_test_score``,
        ``error_test_score`` (its standard error) and ``split0_test_score``, …
    n_features_in_ : int

    Examples
    --------
    >>> from hdsl import LocalHDSLCV
    >>> from hdsl.datasets import make_recovery
    >>> X, triplets, *_ = make_recovery(60, 80, n_triplets=4000, density=0.1, n_atoms=4,
    ...                                 block_size=8, random_state=0)
    >>> search = LocalHDSLCV([0, 2], estimator=LocalHDSL(max_iter=30, random_state=0), cv=2)
    >>> search.fit(X, triplets=triplets).best_params_["n_regions"]  # one hidden similarity
    0
    """

    def __init__(
        self,
        n_regions: Any = (0, 2, 4, 8),
        *,
        local_scales: Any = ("auto",),
        estimator: LocalHDSL | None = None,
        cv: Any = 3,
        verbose: int = 0,
    ) -> None:
        self.n_regions = n_regions
        self.local_scales = local_scales
        self.estimator = estimator
        self.cv = cv
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, triplets: Any = None, sample_weight: Any = None
    ) -> LocalHDSLCV:
        """Choose by folds, and fit the choice to all rows; parameters are those of `LocalHDSL`."""
        candidates = self._candidates()
        estimator = LocalHDSL() if self.estimator is None else self.estimator
        if not isinstance(estimator.regions, str) and not hasattr(estimator.regions, "predict"):
            raise ValueError(
                "LocalHDSLCV makes regions of each fold: the 'regions' parameter of its estimator "
                "must be 'kmeans' or a clusterer, not an array."
            )
        refuse_checkpoint(type(self).__name__, estimator)
        checked = copy(self)
        rows = checks.as_problem_matrix(checks.check_matrix(checked, X, reset=True))
        whole = Supervision.check(
            type(self).__name__, rows, y, triplets=triplets, sample_weight=sample_weight
        )
        models = [clone(estimator).set_params(**one._asdict(), verbose=0) for one in candidates]
        folds = list(row_folds(whole, self.cv))
        found = np.empty((len(folds), len(models), 2))
        with GridProgress(self.verbose, len(folds) * len(models)) as shown:
            for fold, sides in enumerate(folds):
                for k, model in enumerate(models):
                    fitted, found[fold, k] = _score(model, *sides)
                    shown.add_local(fitted, fold, found[fold, k, 0])
            scores, errors = np.moveaxis(found, -1, 0)  # each (n_folds, n_candidates)
            mean, error = scores.mean(axis=0), np.sqrt(np.square(errors).sum(axis=0)) / len(folds)
            if len(folds) > 1:  # the scores of a few folds may agree by chance
                error = np.maximum(error, scores.std(axis=0, ddof=1) / np.sqrt(len(folds)))
            best = int(mean.argmax())
            chosen = int(np.flatnonzero(mean >= mean[best] - error[best])[0])  # the simplest first
            shown.end(float(mean[chosen]), str(candidates[chosen]))
        checked.cv_results_ = {
            "param_n_regions": np.array([one.n_regions for one in candidates]),
            "param_local_scale": np.array([one.local_scale for one in candidates], dtype=object),
            "mean_test_score": mean,
            "error_test_score": error,
            **{f"split{k}_test_score": own for k, own in enumerate(scores)},
        }
        model = models[chosen].set_params(verbose=max(estimator.verbose, self.verbose))
        model.fit(X, y, triplets=triplets, sample_weight=sample_weight)
        checked.best_estimator_ = model.set_params(verbose=estimator.verbose)
        checked.best_params_ = candidates[chosen]._asdict()
        checked.best_score_ = float(mean[chosen])
        checks.replace_fitted(self, checked)
        return self

    def _candidates(self) -> list[Candidate]:
        """Return what to try, the simplest first; without regions there is no local scale."""
        name = type(self).__name__
        counts = sorted(set(np.atleast_1d(np.asarray(self.n_regions)).tolist()))
        for count in counts:
            checks.check_number(name, "n_regions", count, low=0, integer=True)
        scales = list(self.local_scales)
        for scale in scales:
            checks.check_number(name, "local_scales", scale, low=0, strict=True, words=("auto",))
        if not counts or not scales:
            raise ValueError(f"{name} needs at least one of n_regions and one of local_scales.")
        first = [Candidate(0, "auto")] if counts[0] == 0 else []
        return first + [Candidate(*pair) for pair in product(filter(None, counts), scales)]

    @property
    def similarity_(self) -> LocalSimilarity:  # type: ignore[override]
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.similarity_

    def matrix(self, region: int | None = None) -> Any:
        """Return M, or M + N_r of a region, as ``LocalHDSL.matrix``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.matrix(region)

    def transform(self, X: Any, *, region: int | None = None) -> Any:  # type: ignore[override]
        """Return rows whose dot products are the similarity, as ``LocalHDSL.transform``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(X, region=region)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.get_feature_names_out(input_features)

    def explain(self, x: Any, y: Any, **options: Any) -> Any:
        """Return the exact additive parts of S(x, y), as ``LocalHDSL.explain``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.explain(x, y, **options)

    def importance(self, X: Any = None, **options: Any) -> Any:
        """Return features and feature pairs by their effect, as ``LocalHDSL.importance``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.importance(X, **options)


def _score(
    model: LocalHDSL, train: Supervision, held: Supervision
) -> tuple[LocalHDSL, monitor.Estimate]:
    """Return a model that is fitted on one side, and its score on the other one."""
    if train.is_judged:
        fitted = clone(model).fit(
            train.X, triplets=train.compared, sample_weight=train.compared_weights
        )
        score = monitor.triplet_score(held.X, held.compared, held.compared_weights)
    else:
        fitted = clone(model).fit(train.X, train.y, sample_weight=train.weights)
        score = monitor.label_score(
            train.X, train.y, held.X, held.y, held.weights, n_jobs=model.n_jobs
        )
    return fitted, score(fitted.similarity_)
