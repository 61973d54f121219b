"""How well a learned matrix ranks the features and the feature pairs of the true one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score


class RecoveryAUC(NamedTuple):
    """Areas under the ROC curve for active features and for active feature pairs."""

    features: float
    entries: float


def recovery_auc(learned: sp.csr_array, truth: sp.csr_array) -> RecoveryAUC:
    """Return how well a learned M ranks the features and the feature pairs of the true M.

    Features are ranked by the L1 norm of their row and pairs i < j by |M_ij|. Those
    with a non-zero true value should come first. A tie counts one half.

    Parameters
    ----------
    learned, truth : sparse arrays of shape (n_features, n_features)

    Returns
    -------
    RecoveryAUC

    Examples
    --------
    >>> truth = sp.csr_array(np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 0]]))
    >>> recovery_auc(truth, truth)
    RecoveryAUC(features=1.0, entries=1.0)
    """
    d = truth.shape[0]
    norms, true_norms = (
        np.asarray(abs(M).sum(axis=1)).ravel() for M in (learned, truth)
    )
    found, true = (sp.triu(M, k=1, format="coo") for M in (learned, truth))
    keys = np.concatenate([M.row * np.int64(d) + M.col for M in (found, true)])
    keys, place = np.unique(keys, return_inverse=True)
    # The last one stands for all pairs that neither has.
    at_found = place[: found.nnz]
    at_true = place[found.nnz :]
    scores = np.bincount(at_found, np.abs(found.data), len(keys) + 1)
    is_true = np.bincount(at_true, true.data != 0, len(keys) + 1) > 0
    weights = np.append(np.ones(len(keys)), d * (d - 1) // 2 - len(keys))
    features = _auc(true_norms > 0, norms, np.ones(d))
    return RecoveryAUC(features, _auc(is_true, scores, weights))


def _auc(is_true: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    """Return the area under the ROC curve, NaN where all are true or none is."""
    there = weights > 0
    if len(set(is_true[there])) < 2:
        return float("nan")
    return float(
        roc_auc_score(is_true[there], scores[there], sample_weight=weights[there])
    )
