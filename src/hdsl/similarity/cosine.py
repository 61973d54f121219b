"""The cosine of a similarity: S(x, y) / sqrt(S(x, x) S(y, y))."""

from typing import Any, Protocol

import numpy as np

from ..rows import divide_rows, features_as_float64, lengths_from_squares, unit_rows
from .products import check_result, products, row_products
from .similarity import Similarity


class Rewriter(Protocol):
    """What a search needs of a similarity: S(x, y) is a dot product of two rewritten rows."""

    def rewrite(self, X: Any) -> Any:
        """Return the query side."""

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""


#: How rows are ranked: by the learned cosine, or by S as it is.
COSINE = "cosine"

PRODUCT = "product"

RANKINGS = (COSINE, PRODUCT)


def ranked_by(ranking: str, similarity: Rewriter) -> Rewriter:
    """Return what ranks rows: the learned cosine of a similarity, or S itself."""
    if ranking == COSINE:
        return LearnedCosine(similarity)
    return similarity


def ranking_of(model: Any) -> str:
    """Return how a model ranks rows; a similarity that does not say it ranks by cosine."""
    ranking = getattr(model, "ranking_", None) or getattr(model, "ranking", COSINE)
    return str(ranking)


def ranking_with(model: Any, cosine: bool | None) -> str:
    """Return how rows are ranked: as the model says, unless `cosine` is given."""
    if cosine is None:
        return ranking_of(model)
    if cosine:
        return COSINE
    return PRODUCT


class PlainCosine:
    """The cosine before anything is learned: of words and embedding as a model weighs them.

    Parameters
    ----------
    model : object, default=None
        A model or a similarity. Rows of others, and for None, are compared as they are.
    """

    #: Rows are at unit length already.
    ranking = PRODUCT

    def __init__(self, model: Any = None) -> None:
        similarity = getattr(model, "similarity_", model)
        self._blended_rows = getattr(similarity, "blended_rows", None)

    def rewrite(self, X: Any) -> Any:
        """Return the rows at unit length, in float64."""
        if self._blended_rows is not None:
            X = self._blended_rows(X)
        return unit_rows(features_as_float64(X))

    def index_rows(self, X: Any) -> Any:
        """Return the other side, which is the same."""
        return self.rewrite(X)


class LearnedCosine:
    """S(x, y) / sqrt(S(x, x) S(y, y)): every row is most similar to itself.

    Parameters
    ----------
    similarity : Rewriter
    """

    def __init__(self, similarity: Rewriter) -> None:
        self.similarity = similarity

    def rewrite(self, X: Any) -> Any:
        """Return the query side."""
        queries = self.similarity.rewrite(X)
        return divide_rows(queries, self.lengths(X, queries))

    def index_rows(self, X: Any) -> Any:
        """Return the other side: each row of X divided by one number, its learned length."""
        return divide_rows(self.similarity.index_rows(X), self.lengths(X))

    def lengths(self, X: Any, queries: Any = None) -> np.ndarray:
        """Return the learned length sqrt(S(x, x)) of each row, 1 for a row without.

        `queries` are the rewritten rows, where they are known.
        """
        if isinstance(self.similarity, Similarity):
            return self.similarity.own_lengths(X)
        if queries is None:
            queries = self.similarity.rewrite(X)
        squares = row_products(queries, self.similarity.index_rows(X))
        return lengths_from_squares(squares)


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
