"""Projections to few dimensions, and OASIS after them."""

from __future__ import annotations

from typing import Any

from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.random_projection import GaussianRandomProjection

from .oasis import OASIS


def random_projection(n_components: int, *, random_state: Any = None) -> GaussianRandomProjection:
    """Return the transformer x → Rᵀx / sqrt(r), entries of R drawn from N(0, 1).

    Parameters
    ----------
    n_components : int
        r. The columns of R take 8·r·n_features bytes.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    GaussianRandomProjection

    Examples
    --------
    >>> import numpy as np
    >>> random_projection(2, random_state=0).fit_transform(np.eye(5)).shape
    (5, 2)
    """
    return GaussianRandomProjection(n_components, random_state=random_state)


def pca(n_components: int, *, random_state: Any = None) -> PCA:
    """Return principal component analysis, which centres sparse rows without making them dense.

    Parameters
    ----------
    n_components : int
        For sparse rows, less than the number of rows and of features.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    PCA

    Examples
    --------
    >>> import numpy as np
    >>> pca(2, random_state=0).fit_transform(np.eye(5)).shape
    (5, 2)
    """
    return PCA(n_components, random_state=random_state)


def rp_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return the pipeline of `random_projection` ("project") and `OASIS` ("oasis").

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
    >>> import numpy as np
    >>> pipeline = rp_oasis(2, n_steps=10, random_state=0)
    >>> X = np.eye(5)
    >>> pipeline = pipeline.fit(X, oasis__triplets=[[0, 1, 2]])
    >>> pipeline[-1].similarity_.pairwise(pipeline[:-1].transform(X)).shape
    (5, 5)
    """
    return _with_oasis(random_projection(n_components, random_state=random_state), C, more)


def pca_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return the pipeline of `pca` ("project") and `OASIS` ("oasis"); all else as in `rp_oasis`.

    Examples
    --------
    >>> pca_oasis(50, C=0.01, n_steps=1000).named_steps["oasis"]
    OASIS(C=0.01, n_steps=1000)
    """
    return _with_oasis(pca(n_components, random_state=random_state), C, more)


def _with_oasis(project: Any, C: float, more: dict[str, Any]) -> Pipeline:
    oasis = OASIS(C, random_state=project.random_state, **more)
    return Pipeline([("project", project), ("oasis", oasis)])
