"""The paper's own model, and OASIS after projections."""

from typing import Any

from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.random_projection import GaussianRandomProjection

from hdsl import HDSL
from hdsl.settings import nested_parameters

from .dense import OASIS

#: The grid of λ that the paper chooses from on validation rows: 1, 10, …, 10⁹.
PAPER_SCALES = tuple(10.0**e for e in range(10))

#: The paper's model and algorithm: no prior, rows as they are, pairs of all features, a
#: domain without 0, the smoothed hinge, its heuristic search, away steps, 3 targets and
#: 5 impostors of every row.
PAPER_MODEL: dict[str, Any] = {
    "prior": 0.0,
    "norm": None,
    "init": "oracle",
    "loss": "smoothed_hinge",
    "oracle": "heuristic",
    "step": "away",
    "n_targets": 3,
    "n_impostors": 5,
    "max_iter": 1000,
    "tol": 0.0,
    "min_rows": 1,
    "max_anchors": None,
}


def paper_hdsl(scale: float, **changes: Any) -> HDSL:
    """Return HDSL with the paper's model and algorithm.

    No prior, rows as they are (the paper divides each feature by its largest value
    beforehand), pairs of all features, weights that sum to 1, the first atom from the
    oracle, the heuristic search, away steps, and for labels 3 × 5 neighbour triplets of
    every row. The paper chooses `scale` in `PAPER_SCALES` and the number of iterations
    by the error of 3 nearest neighbours on validation rows. It does not say how long
    its runs are: up to 1,000 iterations here, and no early end at a small gap.

    Parameters
    ----------
    scale : float > 0
        λ.
    **changes
        Other parameters of `HDSL`, such as ``random_state``, and of its solver and
        mining, by their own names; on dexter the paper has ``mining="random",
        n_targets=4``.

    Returns
    -------
    HDSL
        Not fitted.

    Examples
    --------
    Each λ gives a path; validation rows choose the path and the iteration, as in the
    paper.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.random((60, 8)) * (rng.random((60, 8)) < 0.5)
    >>> X[:, 0] = y  # the one feature that tells classes apart
    >>> from hdsl.evaluate import knn_error
    >>> paths = [
    ...     paper_hdsl(scale, max_iter=20, random_state=0).fit(X[:40], y[:40])
    ...     for scale in PAPER_SCALES[:3]
    ... ]
    >>> models = [path.at(k) for path in paths for k in range(1, path.n_iter_ + 1)]
    >>> def error(model):
    ...     return knn_error(model, X[:40], y[:40], X[40:], y[40:], cosine=False)
    >>> best = min(models, key=error)
    >>> best.prior_, float(best.weights_.sum().round(6)), 0 in best.atoms_[:, :2]
    (0.0, 1.0, True)
    """
    return HDSL(scale, **nested_parameters(**{**PAPER_MODEL, **changes}))


# --- projections, and OASIS after them ------------------------------------------------


def rp_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return a pipeline of a random projection and `OASIS`: "project" and "oasis".

    ``fit(X, y)`` makes triplets from the projected rows. To learn from triplets of the
    rows themselves, as the other methods do, pass them: ``fit(X, oasis__triplets=T)``.

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
    >>> import numpy as np
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
    """Return a pipeline of ``PCA`` and `OASIS`: "project" and "oasis".

    Parameters
    ----------
    n_components, C, random_state, **more
        As in `rp_oasis`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> pca_oasis(50, C=0.01, n_steps=1000).named_steps["oasis"]
    OASIS(C=0.01, n_steps=1000)
    """
    return _with_oasis(PCA(n_components, random_state=random_state), C, more)


def _with_oasis(projection: Any, C: float, more: dict[str, Any]) -> Pipeline:
    """Return the pipeline of a projection and `OASIS` with the same random state."""
    oasis = OASIS(C, random_state=projection.random_state, **more)
    return Pipeline([("project", projection), ("oasis", oasis)])
