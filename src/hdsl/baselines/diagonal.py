"""One weight per feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..solver import losses
from .learner import COUNT, BilinearSimilarity, TripletLearner, Weights

#: Iterations between two checks of the optimality conditions. A check costs half an iteration.
CHECK_EVERY = 10

#: Triplets whose differences of products are formed at a time.
CHUNK = 2**16


class DiagonalSimilarity(TripletLearner):
    """Similarity Σ_j w_j x_j x'_j: one weight per feature, of any sign.

    Minimises (1/T) Σ_t ℓ(margin_t) + alpha·Ω(w), Ω = ‖w‖₁ or ‖w‖₂², by accelerated proximal
    gradient with restarts. The products of rows that triplets compare are computed once.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
    alpha : float >= 0, default=1e-4
        Weight of the penalty. The best one depends on the lengths of the rows. The paper tries
        1e-9, 1e-8, …, 1e8.
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"}
        Loss of a triplet's margin S(x, y) - S(x, z).
    mining, n_targets, n_impostors
        How ``fit(X, y)`` makes triplets, as in `HDSL`.
    max_iter : int, default=2000
    tol : float >= 0, default=1e-3
        Stop when no feature violates the optimality conditions by more than this times the
        largest derivative of the loss at w = 0. An alpha below that product has little effect:
        early stopping regularises instead.
    warm_start : bool, default=False
        Let ``fit`` start from the weights of the previous fit: a grid of alphas, the largest first,
        then costs little more than one fit.
    random_state : int, RandomState or None, default=None
        For the triplets, where they are drawn.
    n_jobs : int or None, default=None
        Threads to make triplets and products with.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features_in_,)
    n_active_features_ : int
        Number of non-zero weights.
    objective_ : float
        Mean loss plus penalty.
    n_iter_ : int
    similarity_ : BilinearSimilarity
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    References
    ----------
    X. Gao, S. C. H. Hoi, Y. Zhang, J. Wan and J. Li. SOML: sparse online metric learning with
    application to image retrieval. AAAI, 2014.

    Examples
    --------
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> model = DiagonalSimilarity("l1", alpha=0.01, n_targets=1, n_impostors=1)
    >>> model.fit(X, [0, 0, 1, 1]).weights_[:2].round(2).tolist()
    [0.49, 0.49]
    """

    numbers = {"alpha": {"low": 0}, "max_iter": COUNT, "tol": {"low": 0}}  # noqa: RUF012
    words = {"penalty": ("l1", "l2"), "loss": losses.LOSSES}  # noqa: RUF012

    def __init__(
        self,
        penalty: str = "l2",
        *,
        alpha: float = 1e-4,
        loss: str = "smoothed_hinge",
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 3,
        n_impostors: int = 5,
        max_iter: int = 2000,
        tol: float = 1e-3,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.alpha = alpha
        self.loss = loss
        self.mining = mining
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _learn(
        self, X: sp.csr_array, triplets: np.ndarray, weights: Weights, rng: np.random.Generator
    ) -> None:
        start = getattr(self, "weights_", None) if self.warm_start else None
        objective = _DiagonalObjective(X, triplets, weights, self)
        w = np.zeros(X.shape[1]) if start is None else start
        w, self.n_iter_, violation = objective.minimize(w, self.max_iter, self.tol)
        if violation > self.tol:
            self._warn_not_converged("a violation of", violation)
        self.weights_, self.objective_ = w, objective(w)
        active = np.flatnonzero(w)
        self.n_active_features_ = len(active)
        matrix = sp.csr_array(sp.diags_array(w[active]))
        self.similarity_ = BilinearSimilarity(matrix, active, 0.0, X.shape[1])


class _DiagonalObjective:
    """Mean loss plus penalty, as a function of the feature weights w.

    Margins are differences of Zw, Z the products x_a ∘ x_b of the pairs of rows that are compared.
    Frequent features move margins more than rare ones. So the solver's unknowns are v = w / size,
    which move them about equally, and the penalty of w weighs each v_j differently.
    """

    def __init__(
        self, X: sp.csr_array, triplets: np.ndarray, weights: Weights, model: DiagonalSimilarity
    ) -> None:
        self.penalty, self.alpha = model.penalty, float(model.alpha)
        self.loss = losses.get(model.loss)
        a, p, q = triplets.T
        n, n_triplets = X.shape[0], len(triplets)
        pairs, place = np.unique(np.append(a * n + p, a * n + q), return_inverse=True)
        self.Z = sp.csr_array(X[pairs // n] * X[pairs % n])
        self.positive, self.negative = place[:n_triplets], place[n_triplets:]
        omega = np.ones(n_triplets) if weights is None else weights
        self.omega = omega / omega.sum()
        squares = np.zeros(X.shape[1])
        for t in range(0, n_triplets, CHUNK):
            chunk = slice(t, t + CHUNK)
            differences = self.Z[self.positive[chunk]] - self.Z[self.negative[chunk]]
            squares += differences.power(2).T @ self.omega[chunk]
        # A feature that never makes a difference has size 0 and no weight.
        self.size = 1.0 / np.sqrt(np.where(squares > 0, squares, np.inf))
        self.strength = self.alpha * (self.size if self.penalty == "l1" else self.size**2)

    def __call__(self, w: np.ndarray) -> float:
        norm = np.abs(w).sum() if self.penalty == "l1" else w @ w
        return self.value(self.margins(w)) + self.alpha * float(norm)

    def value(self, margins: np.ndarray) -> float:
        """Return the mean loss."""
        return float(self.omega @ self.loss.value(margins))

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return the margins of the triplets."""
        scores = self.Z @ w
        return scores[self.positive] - scores[self.negative]

    def gradient(self, margins: np.ndarray) -> np.ndarray:
        """Return the derivatives of the mean loss with respect to the weights."""
        slopes = self.omega * self.loss.derivative(margins)
        n_pairs = self.Z.shape[0]
        of_pairs = np.bincount(self.positive, slopes, n_pairs)
        of_pairs -= np.bincount(self.negative, slopes, n_pairs)
        return np.where(self.size > 0, self.Z.T @ of_pairs, 0.0)

    def violation(self, w: np.ndarray, gradient: np.ndarray) -> float:
        """Return the distance of 0 from the subdifferential, for the worst feature."""
        if self.penalty == "l2":
            return float(np.abs(gradient + 2.0 * self.alpha * w).max())
        at_zero = np.maximum(np.abs(gradient) - self.alpha, 0.0)
        elsewhere = np.abs(gradient + self.alpha * np.sign(w))
        return float(np.where(w == 0, at_zero, elsewhere).max())

    def prox(self, v: np.ndarray, L: float) -> np.ndarray:
        """Return the minimiser of penalty + L/2 ‖· - v‖²."""
        if self.penalty == "l2":
            return v / (1.0 + 2.0 * self.strength / L)
        return np.sign(v) * np.maximum(np.abs(v) - self.strength / L, 0.0)

    def minimize(self, w: np.ndarray, max_iter: int, tol: float) -> tuple[np.ndarray, int, float]:
        """Return the weights, the number of iterations and the relative violation that is left."""
        unit = float(np.abs(self.gradient(np.zeros(len(self.omega)))).max())
        if unit == 0:  # no triplet tells two rows apart
            return np.zeros_like(w), 0, 0.0
        v = np.divide(w, self.size, out=np.zeros_like(w), where=self.size > 0)
        m = self.margins(w)
        ahead, m_ahead, t, L = v, m, 1.0, 1.0
        for n_iter in range(max_iter + 1):
            if n_iter % CHECK_EVERY == 0 or n_iter == max_iter:
                violation = self.violation(v * self.size, self.gradient(m)) / unit
                if violation <= tol:
                    break
            if n_iter == max_iter:
                break
            new, m_new, L = self._proximal_step(ahead, m_ahead, L)
            if (new - ahead) @ (new - v) < 0:  # momentum points uphill: restart, longer steps
                t, L = 1.0, 0.5 * L
            t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            momentum = (t - 1.0) / t_next
            ahead, m_ahead = new + momentum * (new - v), m_new + momentum * (m_new - m)
            v, m, t = new, m_new, t_next
        return v * self.size + 0.0, n_iter, violation  # + 0.0: no weight is -0

    def _proximal_step(
        self, ahead: np.ndarray, m_ahead: np.ndarray, L: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the next v, its margins and the L, doubled where it was too small for the step."""
        here, gradient = self.value(m_ahead), self.size * self.gradient(m_ahead)
        while True:
            new = self.prox(ahead - gradient / L, L)
            step = new - ahead
            m_new = self.margins(new * self.size)
            room = 0.5 * L * (step @ step)
            if self.value(m_new) <= here + gradient @ step + room:
                return new, m_new, L
            # Values of short steps differ by rounding; derivatives do not, and bound them.
            slopes = self.loss.derivative(m_new) - self.loss.derivative(m_ahead)
            if (self.omega * slopes) @ (m_new - m_ahead) <= room:
                return new, m_new, L
            L *= 2.0
