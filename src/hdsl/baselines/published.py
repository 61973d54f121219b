"""The paper's own model, and what it compares with that other libraries have: SVMs, projections."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import Pipeline
from sklearn.random_projection import GaussianRandomProjection
from sklearn.svm import SVC, LinearSVC

from .. import checks
from ..hdsl import HDSL
from .dense import OASIS

#: The grid of λ that the paper chooses from on validation rows: 1, 10, …, 10⁹.
PAPER_SCALES = tuple(10.0**e for e in range(10))

#: The paper's model and algorithm: no prior, rows as they are, a domain without 0, the smoothed
#: hinge, its heuristic search, away steps, 3 targets and 5 impostors per row.
PAPER_MODEL: dict[str, Any] = {
    "prior": 0.0, "norm": None, "init": "oracle", "loss": "smoothed_hinge", "oracle": "heuristic",
    "step": "away", "n_targets": 3, "n_impostors": 5, "max_iter": 1000, "tol": 0.0,
}  # fmt: skip


def paper_hdsl(scale: float, **changes: Any) -> HDSL:
    """Return HDSL with the paper's model and algorithm.

    No prior, rows as they are (the paper divides each feature by its largest value beforehand),
    weights that sum to 1, the first atom from the oracle, the heuristic search, away steps, and for
    labels 3 × 5 neighbour triplets per row. The paper chooses `scale` in `PAPER_SCALES` and the
    number of iterations by the error of 3 nearest neighbours on validation rows. It does not say
    how long its runs are: up to 1,000 iterations here, and no early end at a small gap.

    Parameters
    ----------
    scale : float > 0
        λ.
    **changes
        Other parameters of `HDSL`, such as ``random_state``; on dexter the paper has
        ``mining="random", n_targets=4``.

    Returns
    -------
    HDSL
        Not fitted.

    Examples
    --------
    Each λ gives a path; validation rows choose the path and the iteration, as in the paper.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.random((60, 8)) * (rng.random((60, 8)) < 0.5)
    >>> X[:, 0] = y                                      # the one feature that tells classes apart
    >>> from hdsl.evaluate import knn_error
    >>> paths = [
    ...     paper_hdsl(scale, max_iter=20, random_state=0).fit(X[:40], y[:40])
    ...     for scale in PAPER_SCALES[:3]
    ... ]
    >>> models = [path.at(k) for path in paths for k in range(1, path.n_iter_ + 1)]
    >>> best = min(models, key=lambda at: knn_error(at, X[:40], y[:40], X[40:], y[40:]))
    >>> best.prior_, float(best.weights_.sum().round(6)), 0 in best.atoms_[:, :2]
    (0.0, 1.0, True)
    """
    return HDSL(scale, **{**PAPER_MODEL, **changes})


# --- support vector machines ----------------------------------------------------------------------


def linear_svm(
    penalty: str = "l2", C: float = 1.0, *, max_iter: int = 10_000, random_state: Any = None
) -> OneVsOneClassifier:
    """Return a linear SVM by liblinear: squared hinge loss, one against one.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
    C : float, default=1.0
        The inverse of the strength of the penalty.
    max_iter : int, default=10_000
    random_state : int, RandomState or None, default=None

    Returns
    -------
    OneVsOneClassifier

    Examples
    --------
    >>> model = linear_svm("l1", C=10).fit(np.eye(4)[:, :3], [0, 0, 1, 1])
    >>> n_active_features(model) <= 3
    True
    """
    checks.check_word("linear_svm", "penalty", penalty, ("l1", "l2"))
    return OneVsOneClassifier(
        LinearSVC(
            penalty=penalty, C=C, dual=False if penalty == "l1" else "auto", max_iter=max_iter,
            random_state=random_state,
        )
    )  # fmt: skip


def poly_svm(degree: int = 2, C: float = 1.0, *, gamma: Any = 1.0, coef0: float = 1.0) -> SVC:
    """Return an SVM by libsvm with the kernel (gamma·⟨x, x'⟩ + coef0)^degree, one against one.

    Parameters
    ----------
    degree : int, default=2
    C : float, default=1.0
    gamma : float, "scale" or "auto", default=1.0
        1 suits rows of length 1.
    coef0 : float, default=1.0
        1 includes the products of fewer features than `degree`, 0 has only those of `degree`.

    Returns
    -------
    SVC

    Examples
    --------
    >>> poly_svm(3, C=10).fit(np.eye(4), [0, 0, 1, 1]).predict(np.eye(4)).tolist()
    [0, 0, 1, 1]
    """
    return SVC(kernel="poly", degree=degree, C=C, gamma=gamma, coef0=coef0)


def n_active_features(model: OneVsOneClassifier) -> int:
    """Return the number of features with a non-zero weight in a fitted `linear_svm`."""
    return int(np.count_nonzero(np.any([part.coef_ != 0 for part in model.estimators_], axis=0)))


# --- projections, and OASIS after them ------------------------------------------------------------


def rp_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return the pipeline of ``GaussianRandomProjection`` ("project") and `OASIS` ("oasis").

    ``fit(X, y)`` makes triplets from the projected rows. To learn from triplets of the rows
    themselves, as the other methods do, pass them: ``fit(X, oasis__triplets=T)``.

    Parameters
    ----------
    n_components : int
    C : float > 0, default=0.1
    random_state : int, RandomState or None, default=None
        For both steps.
    **more
        Other parameters of `OASIS`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> pipeline = rp_oasis(2, n_steps=10, random_state=0)
    >>> X = np.eye(5)
    >>> pipeline = pipeline.fit(X, oasis__triplets=[[0, 1, 2]])
    >>> pipeline[-1].similarity_.pairwise(pipeline[:-1].transform(X)).shape
    (5, 5)
    """
    projection = GaussianRandomProjection(n_components, random_state=random_state)
    return _with_oasis(projection, C, more)


def pca_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return the pipeline of ``PCA`` ("project") and `OASIS` ("oasis"), else as `rp_oasis`.

    Examples
    --------
    >>> pca_oasis(50, C=0.01, n_steps=1000).named_steps["oasis"]
    OASIS(C=0.01, n_steps=1000)
    """
    return _with_oasis(PCA(n_components, random_state=random_state), C, more)


def _with_oasis(project: Any, C: float, more: dict[str, Any]) -> Pipeline:
    oasis = OASIS(C, random_state=project.random_state, **more)
    return Pipeline([("project", project), ("oasis", oasis)])
