"""How well a learned M ranks the features and feature pairs of the true M."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class RecoveryAUC(NamedTuple):
    """Areas under the ROC curve for active features and for active feature pairs."""

    features: float
    entries: float


def recovery_auc(learned: sp.csr_array, truth: sp.csr_array) -> RecoveryAUC:
    """Return how well a learned M ranks the features and the feature pairs of the true M.

    Features are ranked by the L1 norm of their row and pairs i < j by |M_ij|. Those with a
    non-zero true value should come first. A tie counts one half.

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
    norms, true_norms = (np.asarray(abs(M).sum(axis=1)).ravel() for M in (learned, truth))
    features = _auc(norms[true_norms > 0], norms[true_norms == 0], 0)
    upper, true_upper = (sp.triu(M, k=1, format="coo") for M in (learned, truth))
    true_keys = (true_upper.row * np.int64(d) + true_upper.col)[true_upper.data != 0]
    keys = upper.row * np.int64(d) + upper.col
    is_true = np.isin(keys, true_keys)
    found = np.abs(upper.data[is_true])
    positive = np.concatenate([found, np.zeros(len(true_keys) - len(found))])
    negative = np.abs(upper.data[~is_true])
    n_zero = d * (d - 1) // 2 - len(true_keys) - len(negative)
    return RecoveryAUC(features, _auc(positive, negative, n_zero))


def _auc(positive: np.ndarray, negative: np.ndarray, n_zero: int) -> float:
    """Return P(positive > negative) + P(equal)/2, where `n_zero` more negatives are 0."""
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left") + n_zero * (positive > 0)
    upto = np.searchsorted(ranked, positive, side="right") + n_zero * (positive >= 0)
    n_pairs = len(positive) * (len(negative) + n_zero)
    return float((below + upto).sum() / 2.0 / n_pairs) if n_pairs else float("nan")
