"""OASIS: a dense bilinear similarity, learned online."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .learner import TripletLearner, Weights, check_dense_memory
from .similarity import BilinearSimilarity

#: Triplets of a block: wide enough for BLAS, far fewer than the features.
BLOCK = 256


class OASIS(TripletLearner):
    """Bilinear similarity xᵀWx' learned online, one triplet per step, from W = I.

    Passive-aggressive steps on the hinge loss: W ← W + τV, V = x(y - z)ᵀ,
    τ = min(C, max(0, 1 - S(x, y) + S(x, z)) / ‖V‖²), for triplets drawn at random. W has a row and
    a column for every feature that occurs, and a step costs the square of their number. Project
    rows with many features first, with `rp_oasis` or `pca_oasis`.

    Parameters
    ----------
    C : float > 0, default=0.1
        Aggressiveness: the longest step. The paper tries 1e-9, 1e-8, …, 1e2.
    n_steps : int, default=100_000
        Number of triplets drawn, with replacement.
    mining, n_targets, n_impostors
        How ``fit(X, y)`` makes triplets, as in `HDSL`.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads to make triplets with. Steps use the threads of BLAS.
    memory_limit : "auto", float or None, default="auto"
        GiB that W may take; "auto" is the free memory. A fit that needs more raises MemoryError at
        once. None never raises.

    Attributes
    ----------
    similarity_ : BilinearSimilarity
        W is ``similarity_.matrix``, on the columns ``similarity_.features`` of X.
    n_updates_ : int
        Steps that changed W.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    References
    ----------
    G. Chechik, V. Sharma, U. Shalit and S. Bengio. Large scale online learning of image similarity
    through ranking. Journal of Machine Learning Research, 2010.

    Examples
    --------
    >>> X = np.array([[1.0, 0], [0, 1], [1, 1]])
    >>> OASIS(n_steps=1).fit(X, triplets=[[0, 1, 2]]).similarity_.matrix.tolist()
    [[0.9, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        C: float = 0.1,
        *,
        n_steps: int = 100_000,
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 3,
        n_impostors: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: str | float | None = "auto",
    ) -> None:
        self.C = C
        self.n_steps = n_steps
        self.mining = mining
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit

    def _check_parameters(self) -> None:
        self._check_number("C", low=0, strict=True)
        self._check_number("n_steps", low=1, integer=True)

    def _check_memory(self, X: sp.csr_array) -> None:
        check_dense_memory(type(self).__name__, X, 2, self.memory_limit)

    def _learn(
        self, X: sp.csr_array, triplets: np.ndarray, weights: Weights, rng: np.random.Generator
    ) -> None:
        if weights is None:
            drawn = rng.integers(len(triplets), size=self.n_steps)
        else:
            drawn = rng.choice(len(triplets), size=self.n_steps, p=weights / weights.sum())
        features = np.unique(X.indices)
        W, self.n_updates_ = passive_aggressive(X[:, features], triplets[drawn], float(self.C))
        self.similarity_ = BilinearSimilarity(W, features, 1.0, X.shape[1])


def passive_aggressive(
    X: sp.csr_array, triplets: np.ndarray, C: float, block: int = BLOCK
) -> tuple[np.ndarray, int]:
    """Return W after one step per triplet, and the number of steps of length > 0.

    The scores that a block of steps needs are those of W at its start, plus what its own earlier
    steps add, τ_s ⟨V_s, V_t⟩. So W is read and written once per block, by matrix products.
    """
    W, n_updates = np.eye(X.shape[1]), 0
    for first in range(0, len(triplets), block):
        a, p, q = triplets[first : first + block].T
        A, B = X[a].toarray(), (X[p] - X[q]).toarray()
        scores = np.einsum("ij,ij->i", A @ W, B)
        inner = (A @ A.T) * (B @ B.T)  # ⟨V_s, V_t⟩
        tau = np.zeros(len(a))
        for t in range(len(a)):
            hinge = 1.0 - scores[t] - inner[t, :t] @ tau[:t]
            if hinge > 0 and inner[t, t] > 0:
                tau[t] = min(C, hinge / inner[t, t])
        moved = np.flatnonzero(tau)
        W += A[moved].T @ (tau[moved, None] * B[moved])
        n_updates += len(moved)
    return W, n_updates
