"""Rows that a model is evaluated on."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..input.embeddings import check_rows
from ..input.matrices import as_rows, check_matrix
from ..rows import features_as_float64, has_embedding
from ..similarity import Similarity


def checked_rows(model: Any, X: Any) -> Any:
    """Return X as a CSR array of float64, with the features of the model if it has any.

    With an embedding they are `hdsl.Rows`.
    """
    if compares_embeddings(model):
        if isinstance(model, BaseEstimator):
            X = check_rows(model, X, reset=False)
        return features_as_float64(similarity_of(model).in_blocks(X))
    if has_embedding(X):
        return features_as_float64(as_rows(X))
    if isinstance(model, BaseEstimator):
        X = check_matrix(model, X, reset=False)
    else:
        X = check_matrix(BaseEstimator(), X, reset=True)
    return sp.csr_array(X, dtype=np.float64)


def compares_embeddings(model: Any) -> bool:
    """Return whether a model compares rows by an embedding too."""
    similarity = similarity_of(model)
    if not isinstance(similarity, Similarity):
        return False
    return similarity.n_paired < similarity.n_features


def similarity_of(model: Any) -> Any:
    """Return the similarity of a model, where it has one."""
    similarity = getattr(model, "similarity_", model)
    if isinstance(similarity, Similarity):
        return similarity
    return None
