"""A learned similarity of rows that may have class scores beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..explain.tables import CLASS
from ..rows import Rows
from ..similarity.cosine import COSINE

#: The weight of an embedding that the plain cosine leaves out, and class scores or a
#: learned part see: too small for any sum of products, and enough to know its direction.
UNSEEN_WEIGHT = 1e-12


def weight_beside_words(similarity: Any, scores: Any = None) -> float:
    """Return the weight of embeddings in rows without scores, which may need them.

    Parameters
    ----------
    similarity : Similarity
    scores : object, default=None
        The class scores, with ``embedding_width_``.
    """
    if similarity.embedding_weight:
        return float(similarity.embedding_weight)
    is_scored = scores is not None and scores.embedding_width_ > 0
    if is_scored or similarity.has_directions:
        return UNSEEN_WEIGHT
    return 0.0


class Scored:
    """A learned similarity over rows, with class scores beside them or without.

    ``rewrite`` and ``index_rows`` take rows without scores, so a model with scores is
    compared with the cosine of the rows as they are.

    Parameters
    ----------
    similarity : Similarity
    scores : object, default=None
        With ``transform``, ``classes_`` and ``n_features_in_``.
    ranking : {"cosine", "product"}, default="cosine"
        How rows are ranked: by the learned cosine, or by S as it is.
    """

    def __init__(
        self, similarity: Any, scores: Any = None, ranking: str = COSINE
    ) -> None:
        self.similarity = similarity
        self.scores = scores
        self.ranking = ranking

    @property
    def n_scores(self) -> int:
        """The number of class scores beside a row."""
        if self.scores is None:
            return 0
        return len(self.scores.classes_)

    @property
    def n_features(self) -> int:
        """The number of columns of a row without scores, those of an embedding included."""
        return int(self.similarity.n_features) - self.n_scores

    @property
    def n_words(self) -> int:
        """The number of features of a row without scores and embedding."""
        return self.n_features - self.embedding_width

    @property
    def embedding_width(self) -> int:
        """The number of columns of the embedding, 0 without one."""
        return int(self.similarity.n_features - self.similarity.n_paired)

    def rows(self, X: Any) -> Any:
        """Return rows as the model was learned on, with their class scores.

        Of rows with an embedding the scores stand before it.
        """
        if self.scores is None:
            return X
        scored = self.scores.transform(X)
        if isinstance(scored, Rows):
            return scored
        return sp.csr_array(scored)

    def names(self, names: np.ndarray | None) -> np.ndarray | None:
        """Return the names of the features, then ``class:LABEL`` for each score."""
        if self.scores is None:
            return names
        if names is None:
            feature_names = [f"x{k}" for k in range(self.n_words)]
        else:
            feature_names = names.tolist()
        class_names = [f"{CLASS}{label}" for label in self.scores.classes_]
        return np.array([*feature_names, *class_names], dtype=object)

    def rewrite(self, X: Any) -> Any:
        """Return the query side of the learned similarity."""
        return self.similarity.rewrite(self.rows(X))

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""
        return self.similarity.index_rows(self.rows(X))
