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
    """Return how well a learned M ranks features and feature pairs of the true M.

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
    features = _auc(_row_norms(truth) > 0, _row_norms(learned), np.ones(d))
    upper = sp.triu(learned, k=1, format="coo")
    true_upper = sp.triu(truth, k=1, format="coo")
    all_keys = np.append(_pair_keys(upper), _pair_keys(true_upper))
    keys, number = np.unique(all_keys, return_inverse=True)
    # The last number stands for all pairs that neither has.
    n_numbers = len(keys) + 1
    scores = np.bincount(number[: upper.nnz], np.abs(upper.data), n_numbers)
    true_counts = np.bincount(number[upper.nnz :], true_upper.data != 0, n_numbers)
    weights = np.append(np.ones(len(keys)), d * (d - 1) // 2 - len(keys))
    return RecoveryAUC(features, _auc(true_counts > 0, scores, weights))


def _row_norms(M: sp.csr_array) -> np.ndarray:
    """Return the L1 norm of each row."""
    return np.asarray(abs(M).sum(axis=1)).ravel()


def _pair_keys(M: sp.coo_array) -> np.ndarray:
    """Return a number per entry of a matrix, that of its row and column."""
    return M.row * np.int64(M.shape[0]) + M.col


def _auc(is_true: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    """Return the area under the ROC curve, NaN where all are true or none is."""
    counts = weights > 0
    labels = is_true[counts]
    if len(set(labels)) < 2:
        return float("nan")
    auc = roc_auc_score(labels, scores[counts], sample_weight=weights[counts])
    return float(auc)
