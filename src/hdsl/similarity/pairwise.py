"""Scores of pairs of rows for any object that rewrites rows."""

from typing import Any

import numpy as np

from .cosine import LearnedCosine
from .products import check_result, products, row_products
from .rewriter import Rewriter


class Pairwise:
    """Scores of pairs for what has ``rewrite`` and ``index_rows``."""

    def index_rows(self, X: Any) -> Any:
        """Return the rows themselves."""
        return X

    def pairwise(
        self: Any, X: Any, Y: Any = None, *, cosine: bool = False
    ) -> np.ndarray:
        """Return S between all rows of X, the queries, and all rows of Y, or its cosine, dense."""
        if Y is None:
            Y = X
        similarity = _with_cosine(self, cosine)
        scores = products(similarity.rewrite(X), similarity.index_rows(Y))
        return check_result(scores, "The similarity")

    def pair_score(self: Any, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, for rows of X and Y with the same number."""
        similarity = _with_cosine(self, cosine)
        scores = row_products(similarity.rewrite(X), similarity.index_rows(Y))
        return check_result(scores, "The similarity")


def _with_cosine(similarity: Rewriter, cosine: bool) -> Rewriter:
    """Return a similarity or its cosine."""
    if cosine:
        return LearnedCosine(similarity)
    return similarity


class _Rewritten(Pairwise):
    """An object with ``rewrite`` alone: the other side is the rows themselves."""

    def __init__(self, model: Any) -> None:
        self.rewrite = model.rewrite
        if hasattr(model, "n_features"):
            self.n_features = model.n_features


def as_rewriter(model: Any, n_features: int, name: str) -> Rewriter:
    """Return the similarity of a model, which needs no column names.

    Parameters
    ----------
    model : HDSL, Similarity or other object with ``rewrite(X)``
    n_features : int
        Number of columns of the rows to compare.
    name : str
        What error messages call the model.
    """
    similarity = getattr(model, "similarity_", model)
    if hasattr(similarity, "rewrite") and not hasattr(similarity, "index_rows"):
        similarity = _Rewritten(similarity)
    if not hasattr(similarity, "rewrite"):
        raise ValueError(
            f"{name} must be a fitted HDSL, a Similarity or another object with "
            f"rewrite(X), or None for the dot product. Got {model!r} instead."
        )
    learned_on = getattr(similarity, "n_features", n_features)
    if learned_on != n_features:
        raise ValueError(
            f"X has {n_features} features, but the similarity was learned on "
            f"{learned_on}: use the same columns."
        )
    return similarity
