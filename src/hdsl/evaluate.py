"""How good a learned similarity is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class RecoveryAUC(NamedTuple):
    """Areas under the ROC curve: active features, and active pairs of features."""

    features: float
    entries: float


def recovery_auc(learned: sp.csr_array, truth: sp.csr_array) -> RecoveryAUC:
    """Return how well a learned M ranks the features and the pairs of features of the true one.

    Features are ranked by the L1 norm of their row, pairs i < j by |M_ij|; those with a non-zero
    true value should come first. Ties count one half, as usual.

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
    norms, active = (np.asarray(abs(M).sum(axis=1)).ravel() for M in (learned, truth))
    features = _auc(norms[active > 0], norms[active == 0], 0)
    upper, true_upper = (sp.triu(M, k=1, format="coo") for M in (learned, truth))
    active_pairs = true_upper.data != 0
    true_keys = (true_upper.row * np.int64(d) + true_upper.col)[active_pairs]
    keys = upper.row * np.int64(d) + upper.col
    inside = np.isin(keys, true_keys)
    found = np.abs(upper.data[inside])
    positive = np.concatenate([found, np.zeros(len(true_keys) - len(found))])
    negative = np.abs(upper.data[~inside])
    n_zero = d * (d - 1) // 2 - len(true_keys) - len(negative)
    return RecoveryAUC(features, _auc(positive, negative, n_zero))


def _auc(positive: np.ndarray, negative: np.ndarray, n_zero: int) -> float:
    """Return P(positive > negative) + P(equal)/2; `n_zero` more negatives are 0."""
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left") + n_zero * (positive > 0)
    upto = np.searchsorted(ranked, positive, side="right") + n_zero * (positive >= 0)
    n_pairs = len(positive) * (len(negative) + n_zero)
    return float((below + upto).sum() / 2.0 / n_pairs) if n_pairs else float("nan")
