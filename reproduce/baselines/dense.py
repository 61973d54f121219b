"""Dense bilinear similarities: OASIS learns triplet by triplet, COMET by feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from hdsl.solver import losses

from .learner import COUNT, POSITIVE, BilinearSimilarity, TripletLearner, Weights

#: Triplets of a block of OASIS: wide enough for BLAS, far fewer than the features.
BLOCK = 256

#: Steps of conjugate gradients for the direction of one feature of COMET.
CG_STEPS = 10

#: What memory_limit may be.
MEMORY: dict[str, Any] = {"low": 0, "words": ("auto", None)}


class OASIS(TripletLearner):
    """Bilinear similarity xᵀWx' learned online, one triplet per step, from W = I.

    Passive-aggressive steps on the hinge loss: W ← W + τV, V = x(y - z)ᵀ, τ = min(C,
    max(0, 1 - S(x, y) + S(x, z)) / ‖V‖²), for triplets drawn at random. W has a row and
    a column for every feature that occurs, and a step costs the square of their number.
    Project rows with many features first, with `rp_oasis` or `pca_oasis`.

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
        GiB that W may take; "auto" is the free memory. A fit that needs more raises
        MemoryError at once. None never raises.

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
    G. Chechik, V. Sharma, U. Shalit and S. Bengio. Large scale online learning of image
    similarity through ranking. Journal of Machine Learning Research, 2010.

    Examples
    --------
    >>> X = np.array([[1.0, 0], [0, 1], [1, 1]])
    >>> OASIS(n_steps=1).fit(X, triplets=[[0, 1, 2]]).similarity_.matrix.tolist()
    [[0.9, 0.0], [0.0, 1.0]]
    """

    numbers = {"C": POSITIVE, "n_steps": COUNT, "memory_limit": MEMORY}  # noqa: RUF012
    n_matrices = 2

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

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: Weights,
        rng: np.random.Generator,
    ) -> None:
        n_triplets = len(triplets)
        if weights is None:
            drawn = rng.integers(n_triplets, size=self.n_steps)
        else:
            shares = weights / weights.sum()
            drawn = rng.choice(n_triplets, size=self.n_steps, p=shares)
        features = np.unique(X.indices)
        W, self.n_updates_ = passive_aggressive(
            X[:, features], triplets[drawn], float(self.C)
        )
        self.similarity_ = BilinearSimilarity(W, features, 1.0, X.shape[1])


def passive_aggressive(
    X: sp.csr_array, triplets: np.ndarray, C: float, block: int = BLOCK
) -> tuple[np.ndarray, int]:
    """Return W after one step per triplet, and the number of steps of length > 0.

    The scores that a block of steps needs are those of W at its start, plus what its
    own earlier steps add, τ_s ⟨V_s, V_t⟩. So W is read and written once per block, by
    matrix products.
    """
    W = np.eye(X.shape[1])
    n_updates = 0
    for first in range(0, len(triplets), block):
        anchor, positive, negative = triplets[first : first + block].T
        A = X[anchor].toarray()
        B = (X[positive] - X[negative]).toarray()
        scores = np.einsum("ij,ij->i", A @ W, B)
        inner = (A @ A.T) * (B @ B.T)  # ⟨V_s, V_t⟩
        tau = np.zeros(len(anchor))
        for t in range(len(anchor)):
            hinge = 1.0 - scores[t] - inner[t, :t] @ tau[:t]
            if hinge > 0 and inner[t, t] > 0:
                tau[t] = min(C, hinge / inner[t, t])
        moved = np.flatnonzero(tau)
        W += A[moved].T @ (tau[moved, None] * B[moved])
        n_updates += len(moved)
    return W, n_updates


class COMET(TripletLearner):
    """Bilinear similarity xᵀWx', W positive definite, learned one feature at a time.

    Minimises (1/T) Σ_t ℓ(margin_t) - barrier·log det W + (ridge/2)·‖W‖², the dense form
    of the method. A step moves one row and column of W along a direction found by
    conjugate gradients. W⁻¹, updated at each step, gives in closed form how far the
    step can go before W ceases to be positive definite. Time per step and memory grow
    with the square of the number of features that occur: thousands of features are
    possible, more are not.

    Parameters
    ----------
    barrier, ridge : float > 0, default=0.01 and 0.01
        Weights of the two regularisers. Without data W is sqrt(barrier / ridge)·I.
    loss : {"squared_hinge", "smoothed_hinge", "logistic", "exponential"}
        Loss of a triplet's margin S(x, y) - S(x, z).
    mining, n_targets, n_impostors
        How ``fit(X, y)`` makes triplets, as in `HDSL`.
    max_iter : int, default=10
        Passes over the features.
    tol : float >= 0, default=1e-3
        Stop after a pass that lowered the objective by at most this share of the whole
        decrease.
    random_state : int, RandomState or None, default=None
        For the order of the features, and for the triplets, where they are drawn.
    n_jobs : int or None, default=None
        Threads to make triplets with.
    memory_limit : "auto", float or None, default="auto"
        GiB that W, its inverse and work arrays may take; "auto" is the free memory. A
        fit that needs more raises MemoryError at once. None never raises.

    Attributes
    ----------
    similarity_ : BilinearSimilarity
        W is ``similarity_.matrix``, on the columns ``similarity_.features`` of X.
    objective_ : float
        Over the features that occur.
    n_iter_ : int
        Number of passes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    References
    ----------
    Y. Atzmon, U. Shalit and G. Chechik. Learning sparse metrics, one feature at a time.
    Journal of Machine Learning Research: Workshop and Conference Proceedings 44, 2015.

    Examples
    --------
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> model = COMET(n_targets=1, n_impostors=1).fit(X, [0, 0, 1, 1])
    >>> bool((np.linalg.eigvalsh(model.similarity_.matrix) > 0).all())
    True
    """

    numbers = {  # noqa: RUF012
        "barrier": POSITIVE,
        "ridge": POSITIVE,
        "max_iter": COUNT,
        "tol": {"low": 0},
        "memory_limit": MEMORY,
    }
    words = {"loss": losses.LOSSES}  # noqa: RUF012
    n_matrices = 4

    def __init__(
        self,
        barrier: float = 0.01,
        ridge: float = 0.01,
        *,
        loss: str = "squared_hinge",
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 3,
        n_impostors: int = 5,
        max_iter: int = 10,
        tol: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: str | float | None = "auto",
    ) -> None:
        self.barrier = barrier
        self.ridge = ridge
        self.loss = loss
        self.mining = mining
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: Weights,
        rng: np.random.Generator,
    ) -> None:
        features = np.unique(X.indices)
        if weights is None:
            weights = np.ones(len(triplets))
        state = PositiveDefinite(
            X[:, features],
            triplets,
            weights / weights.sum(),
            losses.get(self.loss),
            float(self.barrier),
            float(self.ridge),
        )
        start = state.objective
        for n_iter in range(1, self.max_iter + 1):
            before = state.objective
            for k in rng.permutation(len(features)):
                state.step(k)
            state.refresh()
            self.n_iter_ = n_iter
            self.objective_ = state.objective
            if before - state.objective <= self.tol * (start - state.objective):
                break
        else:
            share = (before - state.objective) / (start - state.objective)
            self._warn_not_converged("a last decrease of", share)
        rest = float(np.sqrt(self.barrier / self.ridge))
        self.similarity_ = BilinearSimilarity(state.W, features, rest, X.shape[1])


class PositiveDefinite:
    """W, its inverse P and the margins; a step changes one row and column of W.

    The step adds e_k vᵀ + v e_kᵀ. With p = P e_k, it multiplies det W by (1 + p·v)² -
    p_k vᵀPv. W stays positive definite as long as this factor stays positive along the
    step.
    """

    def __init__(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        omega: np.ndarray,
        loss: losses.Loss,
        barrier: float,
        ridge: float,
    ) -> None:
        self.X = X
        self.columns = X.tocsc()
        self.triplets = triplets
        self.omega = omega
        self.loss = loss
        self.barrier = barrier
        self.ridge = ridge
        scale = np.sqrt(barrier / ridge)
        anchor, positive, negative = triplets.T
        differences = X[positive] - X[negative]
        self.W = scale * np.eye(X.shape[1])
        self.margins = scale * X[anchor].multiply(differences).sum(axis=1)
        self.refresh()

    def refresh(self) -> None:
        """Compute the objective, and the inverse anew: errors of its updates add up."""
        factor = scipy.linalg.cholesky(self.W, lower=True)
        self.P = scipy.linalg.cho_solve((factor, True), np.eye(len(self.W)))
        self.objective = float(
            self.omega @ self.loss.value(self.margins)
            - 2.0 * self.barrier * np.log(np.diag(factor)).sum()
            + 0.5 * self.ridge * np.vdot(self.W, self.W)
        )

    def step(self, k: int) -> None:
        """Lower the objective by changing row and column k of W."""
        touched = _Touched(self, k)
        margins = self.margins[touched.numbers]
        omega = self.omega[touched.numbers]
        gradient = touched.pull(omega * self.loss.derivative(margins))
        gradient += 2.0 * (self.ridge * self.W[k] - self.barrier * self.P[k])
        curvature = omega * self.loss.curvature(margins)
        v = self._direction(k, touched, gradient, curvature)
        line = _Line(self, k, v, touched)
        step = line.search(slope=gradient @ v)
        if step == 0.0:  # only rounding errors are left
            return
        self.margins[touched.numbers] += step * line.moves
        self.W[k] += step * v
        self.W[:, k] += step * v
        self._update_inverse(line, step)

    def _direction(
        self,
        k: int,
        touched: _Touched,
        gradient: np.ndarray,
        curvature: np.ndarray,
    ) -> np.ndarray:
        """Return a Newton direction for row k, by a few conjugate gradients."""
        inverse = self.P[k]

        def hessian(v: np.ndarray) -> np.ndarray:
            product = touched.pull(curvature * touched.change(v)) + 2.0 * self.ridge * v
            product[k] += 2.0 * self.ridge * v[k]
            of_log_det = inverse * (inverse @ v) + inverse[k] * (self.P @ v)
            return product + 2.0 * self.barrier * of_log_det

        operator = LinearOperator(self.P.shape, matvec=hessian, dtype=np.float64)
        direction, _ = cg(operator, -gradient, rtol=0.1, maxiter=CG_STEPS)
        return direction

    def _update_inverse(self, line: _Line, step: float) -> None:
        """Make P the inverse of W after a step: W plus one of rank two (Woodbury)."""
        U = np.column_stack([line.inverse, line.Pv])
        cross = 1.0 / step + line.linear
        middle = np.linalg.inv(
            [[line.inverse[line.k], cross], [cross, line.v @ line.Pv]]
        )
        self.P -= U @ (middle @ U.T)


class _Touched:
    """The triplets whose margins depend on row and column k of W.

    A change v of row and column k changes the margin of a triplet (x, y, z) by
    x_k ⟨v, y - z⟩ + (y_k - z_k) ⟨v, x⟩.
    """

    def __init__(self, problem: PositiveDefinite, k: int) -> None:
        self.X = problem.X
        column = problem.columns[:, [k]].toarray().ravel()
        has_feature = (column != 0)[problem.triplets]
        self.numbers = np.flatnonzero(has_feature.any(axis=1))
        self.anchor, self.positive, self.negative = problem.triplets[self.numbers].T
        self.anchor_values = column[self.anchor]
        self.differences = column[self.positive] - column[self.negative]

    def change(self, v: np.ndarray) -> np.ndarray:
        """Return the change of the margins along v."""
        u = self.X @ v
        change = self.anchor_values * (u[self.positive] - u[self.negative])
        return change + self.differences * u[self.anchor]

    def pull(self, slopes: np.ndarray) -> np.ndarray:
        """Return Σ_t slope_t ∂margin_t / ∂v."""
        n_rows = self.X.shape[0]
        ends = np.concatenate([self.positive, self.negative])
        at_ends = slopes * self.anchor_values
        by_row = np.bincount(ends, np.concatenate([at_ends, -at_ends]), n_rows)
        by_row += np.bincount(self.anchor, slopes * self.differences, n_rows)
        return self.X.T @ by_row


class _Line:
    """The objective along a change v of row and column k of W."""

    def __init__(
        self, problem: PositiveDefinite, k: int, v: np.ndarray, touched: _Touched
    ) -> None:
        self.problem = problem
        self.k = k
        self.v = v
        self.margins = problem.margins[touched.numbers]
        self.omega = problem.omega[touched.numbers]
        self.moves = touched.change(v)
        self.inverse = problem.P[k]
        self.Pv = problem.P @ v
        # det W is multiplied by (1 + step (linear + root)) (1 + step (linear - root)).
        self.linear = self.inverse @ v
        self.root = np.sqrt(self.inverse[k] * max(v @ self.Pv, 0.0))
        # ‖W‖² grows by 4 step · along + 2 step² · squared.
        self.along = problem.W[k] @ v
        self.squared = v @ v + v[k] ** 2

    def value(self, step: float) -> float:
        """Return the objective at a step, up to a constant."""
        problem = self.problem
        loss = self.omega @ problem.loss.value(self.margins + step * self.moves)
        log_det = np.log1p(step * (self.linear + self.root))
        log_det += np.log1p(step * (self.linear - self.root))
        growth = 2.0 * step * self.along + step**2 * self.squared
        return float(loss - problem.barrier * log_det + problem.ridge * growth)

    def search(self, slope: float) -> float:
        """Return a step that lowers the objective enough (Armijo), or 0."""
        step = 1.0
        if self.root > self.linear:  # further on W is not positive definite
            step = min(step, 0.99 / (self.root - self.linear))
        before = self.value(0.0)
        while self.value(step) > before + 1e-4 * step * slope:
            step *= 0.5
            if step < 1e-10:
                return 0.0
        return step
