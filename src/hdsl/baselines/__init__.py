"""The methods that the paper compares with: feature weights, OASIS, COMET, projections, SVMs.

Each that learns a similarity has it as ``similarity_``, a plain value: one k-NN serves all::

    knn_error(None, X, y, X_test, y_test)                       DOT
    knn_error(DiagonalSimilarity("l1").fit(X, y), X, y, ...)    DIAG
    knn_error(None, Z, y, Z_test, y_test)                       RP, PCA;   Z = project.transform(X)
    knn_error(pipeline[-1], Z, y, Z_test, y_test)               with OASIS; Z of pipeline[:-1]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import Pipeline
from sklearn.random_projection import GaussianRandomProjection
from sklearn.svm import SVC, LinearSVC

from .. import memory, user_input
from ..core import losses
from ..estimators.hdsl import HDSL, MINING
from ..estimators.supervision import Supervision

if TYPE_CHECKING:
    from ..backends.cpu.problem import TripletProblem

PENALTIES = ("l1", "l2")

#: Iterations between two looks at the optimality conditions, each of which costs half an iteration.
CHECK_EVERY = 10

#: Triplets whose differences of products are formed at a time.
CHUNK = 2**16

#: Triplets that OASIS takes at a time; wide enough for BLAS, far less than the features.
BLOCK = 256

#: Steps of conjugate gradients for the direction of one feature of COMET.
CG_STEPS = 10


# --- what was learned ----------------------------------------------------------------------------


@dataclass(frozen=True)
class BilinearSimilarity:
    """S(x, x') = xᵀWx', W a matrix on some features and a multiple of the identity on the rest.

    Parameters
    ----------
    matrix : ndarray or sparse array of shape (n_listed, n_listed)
        W on the listed features. It need be neither symmetric nor positive.
    features : ndarray of shape (n_listed,)
        Their numbers.
    rest : float
        Diagonal of W elsewhere.
    n_features : int

    Examples
    --------
    >>> similarity = BilinearSimilarity(np.array([[0.0, 2], [1, 0]]), np.array([0, 2]), 3.0, 3)
    >>> similarity.rewrite(np.array([[1.0, 1, 0]])).tolist()
    [[0.0, 3.0, 2.0]]
    """

    matrix: Any
    features: np.ndarray
    rest: float
    n_features: int

    def rewrite(self, X: Any) -> Any:
        """Return XW, the query side: its dot products with rows y are S(x, y)."""
        listed = X[:, self.features]
        if not sp.issparse(X):
            out = self.rest * np.asarray(X, dtype=np.float64)
            out[:, self.features] = listed @ self.matrix
            return out
        shape = (len(self.features), self.n_features)
        k = np.arange(shape[0])
        place = sp.csr_array((np.ones(shape[0]), (k, self.features)), shape=shape)
        out = sp.csr_array(listed @ self.matrix) @ place
        return out if self.rest == 0 else sp.csr_array(out + self.rest * (X - listed @ place))

    def pairwise(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return S between all rows of X and all rows of Y (X where None), dense."""
        product = self.rewrite(X) @ (X if Y is None else Y).T
        return product.toarray() if sp.issparse(product) else np.asarray(product)

    def pair_score(self, X: Any, Y: Any) -> np.ndarray:
        """Return S(x, y) for the rows of X and Y side by side, shape (n_rows,)."""
        queries = sp.csr_array(self.rewrite(X))
        return np.asarray(queries.multiply(sp.csr_array(Y)).sum(axis=1)).ravel()


# --- learning it ---------------------------------------------------------------------------------


class _TripletLearner(BaseEstimator):
    """What the methods share: the gate, and triplets made as HDSL makes them."""

    mining: str | Callable[..., np.ndarray]
    n_targets: int
    n_impostors: int
    random_state: Any
    n_jobs: int | None
    warm_start = False

    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> Any:
        """Learn the similarity from labels or from triplets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Labels, to make triplets from; not needed where `triplets` is given.
        triplets : array-like of int of shape (n_triplets, 3), default=None
            Row numbers of X: the first is more like the second than like the third.

        Returns
        -------
        self
        """
        self._check_parameters()
        rng = user_input.generator(self.random_state)
        goes_on = self.warm_start and hasattr(self, "similarity_")
        X = user_input.check_matrix(self, X, reset=not goes_on)
        X = user_input.as_problem_matrix(X)
        supervision = Supervision.check(type(self).__name__, X, y, triplets, None)
        self._check_memory(X)
        miner = HDSL(
            mining=self.mining, n_targets=self.n_targets, n_impostors=self.n_impostors,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        triplets, weights = miner._mine(supervision, rng)
        self._learn(X, triplets, weights, rng)
        return self

    def _check_parameters(self) -> None:
        name = type(self).__name__
        if not callable(self.mining):
            user_input.check_word(
                name, "mining", self.mining, MINING, also=" or a callable (X, y, rng)"
            )
        for parameter in ("n_targets", "n_impostors", "max_iter", "n_steps"):
            if hasattr(self, parameter):
                value = getattr(self, parameter)
                user_input.check_number(name, parameter, value, low=1, integer=True)
        if hasattr(self, "loss"):
            user_input.check_word(name, "loss", self.loss, losses.LOSSES)
        if hasattr(self, "tol"):
            user_input.check_number(name, "tol", self.tol, low=0)

    def _check_memory(self, X: sp.csr_array) -> None:
        """Refuse what cannot fit, before the work."""

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _refuse_too_many_features(
    owner: Any, X: sp.csr_array, n_matrices: int, memory_limit: str | float | None
) -> None:
    """Raise MemoryError where so many d × d matrices do not fit."""
    name = type(owner).__name__
    user_input.check_number(name, "memory_limit", memory_limit, low=0, words=("auto", None))
    if memory_limit is None:
        return
    auto = memory_limit == "auto"
    limit = memory.available() if auto else float(memory_limit) * 2**30
    d = len(np.unique(X.indices))
    need = 8 * n_matrices * d**2
    if limit is not None and need > limit:
        there = "are free on this machine" if auto else "are allowed by memory_limit"
        raise MemoryError(
            f"{name} needs about {memory.format_bytes(need)} for {n_matrices} dense matrices of "
            f"{d} x {d} features, but only {memory.format_bytes(limit)} {there}. Project the rows "
            "first (random_projection and pca of hdsl.baselines, rp_oasis and pca_oasis), or pass "
            "memory_limit=None to go on anyway."
        )


def _warn_not_converged(owner: Any, what: str, value: float) -> None:
    warnings.warn(
        f"{type(owner).__name__} stopped at max_iter={owner.max_iter} with {what} {value:.1e} > "
        f"tol={owner.tol:.0e}. Raise max_iter or tol.",
        ConvergenceWarning,
        stacklevel=4,
    )


# --- a weight a feature --------------------------------------------------------------------------


class DiagonalSimilarity(_TripletLearner):
    """Similarity Σ_j w_j x_j x'_j: one weight a feature, of any sign.

    Minimises (1/T) Σ_t ℓ(margin_t) + alpha·Ω(w), Ω = ‖w‖₁ or ‖w‖₂², by accelerated proximal
    gradient with restarts. The products of rows that triplets compare are computed once.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
    alpha : float >= 0, default=1e-4
        Weight of the penalty. The best one depends on the size of the rows; the paper tries
        1e-9, 1e-8, …, 1e8.
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"}
        Loss of a triplet's margin S(x, y) - S(x, z).
    mining, n_targets, n_impostors
        How ``fit(X, y)`` makes triplets, as in `HDSL`.
    max_iter : int, default=2000
    tol : float >= 0, default=1e-3
        Stop when no feature violates the optimality conditions by more than this times the
        largest derivative of the loss at w = 0. An alpha below that product hardly matters:
        what regularises then is to stop.
    warm_start : bool, default=False
        Let ``fit`` start from the weights of the fit before: a grid of alphas, the largest first,
        is then little more than one fit.
    random_state : int, RandomState or None, default=None
        For the triplets, where they are drawn.
    n_jobs : int or None, default=None
        Threads to make triplets and products with.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features_in_,)
    n_active_features_ : int
        Weights that are not 0.
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name = type(self).__name__
        user_input.check_word(name, "penalty", self.penalty, PENALTIES)
        user_input.check_number(name, "alpha", self.alpha, low=0)

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:
        from ..backends.cpu.problem import TripletData, TripletProblem
        from ..backends.cpu.workers import Workers

        with Workers(self.n_jobs) as workers:
            data = TripletData(X, triplets, workers)
            triplet_problem = TripletProblem(data, losses.get(self.loss), 1.0, weights=weights)
            problem = _Weighting(triplet_problem, self.penalty, float(self.alpha))
            start = getattr(self, "weights_", None) if self.warm_start else None
            w = np.zeros(data.n_features) if start is None else start[data.features]
            w, self.n_iter_, violation = problem.solve(w, self.max_iter, self.tol)
            self.objective_ = problem.objective(w)
        if violation > self.tol:
            _warn_not_converged(self, "a violation of", violation)
        self.weights_ = np.zeros(X.shape[1])
        self.weights_[data.features] = w
        active = np.flatnonzero(self.weights_)
        self.n_active_features_ = len(active)
        matrix = sp.csr_array(sp.diags_array(self.weights_[active]))
        self.similarity_ = BilinearSimilarity(matrix, active, 0.0, X.shape[1])


class _Weighting:
    """Mean loss and penalty of a weighting of the features.

    Margins are differences of Zw, Z the products x_a ∘ x_b of the pairs of rows that are compared.
    Features differ in how much they move margins as they do in frequency, so the solver's unknowns
    are v = w / size, which are alike in this; a penalty of w weighs each v_j its own way.
    """

    def __init__(self, problem: TripletProblem, penalty: str, alpha: float) -> None:
        self.problem, self.penalty, self.alpha = problem, penalty, alpha
        data = problem.data
        pair, ptr, feature, product = data.products
        rows = np.repeat(pair, np.diff(ptr))
        shape = (data.n_pairs, data.n_features)
        self.Z = sp.csr_array(sp.coo_array((product, (rows, feature)), shape=shape))
        self.omega = np.broadcast_to(problem.omega, data.n_triplets)
        squares = np.zeros(data.n_features)
        for t in range(0, data.n_triplets, CHUNK):
            chunk = slice(t, t + CHUNK)
            differences = self.Z[data.positive_pair[chunk]] - self.Z[data.negative_pair[chunk]]
            squares += differences.power(2).T @ self.omega[chunk]
        # A feature that never makes a difference has size 0 and no weight.
        self.size = 1.0 / np.sqrt(np.where(squares > 0, squares, np.inf))
        self.strength = alpha * (self.size if penalty == "l1" else self.size**2)

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return the margins of the weights, in the order of the data's triplets."""
        scores = self.Z @ w
        return scores[self.problem.data.positive_pair] - scores[self.problem.data.negative_pair]

    def gradient(self, margins: np.ndarray) -> np.ndarray:
        """Return the derivatives of the mean loss by the weights."""
        return np.where(self.size > 0, -self.problem.gradient(margins).diagonal, 0.0)

    def objective(self, w: np.ndarray) -> float:
        """Return mean loss plus penalty."""
        size = np.abs(w).sum() if self.penalty == "l1" else w @ w
        return self.problem.value(self.margins(w)) + self.alpha * float(size)

    def violation(self, w: np.ndarray, gradient: np.ndarray) -> float:
        """Return how far 0 is from the subdifferential, by the worst feature."""
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

    def solve(self, w: np.ndarray, max_iter: int, tol: float) -> tuple[np.ndarray, int, float]:
        """Return the weights, the iterations made and the relative violation that is left."""
        unit = float(np.abs(self.gradient(np.zeros(self.problem.n_triplets))).max())
        if unit == 0:  # no triplet tells two rows apart
            return np.zeros_like(w), 0, 0.0
        v = np.divide(w, self.size, out=np.zeros_like(w), where=self.size > 0)
        m = self.margins(w)
        ahead, m_ahead, t, L, loss = v, m, 1.0, 1.0, self.problem.loss
        for n_iter in range(max_iter + 1):
            if n_iter % CHECK_EVERY == 0 or n_iter == max_iter:
                violation = self.violation(v * self.size, self.gradient(m)) / unit
                if violation <= tol:
                    break
            if n_iter == max_iter:
                break
            here, gradient = self.problem.value(m_ahead), self.size * self.gradient(m_ahead)
            while True:
                new = self.prox(ahead - gradient / L, L)
                step = new - ahead
                m_new = self.margins(new * self.size)
                room = 0.5 * L * (step @ step)
                if self.problem.value(m_new) <= here + gradient @ step + room:
                    break
                # Values of short steps differ by rounding; derivatives do not, and bound them.
                slopes = loss.derivative(m_new) - loss.derivative(m_ahead)
                if (self.omega * slopes) @ (m_new - m_ahead) <= room:
                    break
                L *= 2.0
            if step @ (new - v) < 0:  # momentum points uphill: start anew, with longer steps
                t, L = 1.0, 0.5 * L
            t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            momentum = (t - 1.0) / t_next
            ahead, m_ahead = new + momentum * (new - v), m_new + momentum * (m_new - m)
            v, m, t = new, m_new, t_next
        return v * self.size + 0.0, n_iter, violation  # + 0.0: no weight is -0


# --- OASIS ---------------------------------------------------------------------------------------


class OASIS(_TripletLearner):
    """Bilinear similarity xᵀWx' learned online, one triplet a step, from W = I.

    Passive-aggressive steps on the hinge loss: W ← W + τV, V = x(y - z)ᵀ,
    τ = min(C, max(0, 1 - S(x, y) + S(x, z)) / ‖V‖²), for triplets drawn at random. W has a row and
    a column for every feature that occurs, and a step costs its square: project rows of many
    features first, with `rp_oasis` or `pca_oasis`.

    Parameters
    ----------
    C : float > 0, default=0.1
        Aggressiveness: the longest step. The paper tries 1e-9, 1e-8, …, 1e2.
    n_steps : int, default=100_000
        Triplets drawn, with replacement.
    mining, n_targets, n_impostors
        How ``fit(X, y)`` makes triplets, as in `HDSL`.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads to make triplets with. Steps run on the threads that BLAS is set to.
    memory_limit : "auto", float or None, default="auto"
        GiB that W may take; "auto" is what the system has left. A fit that would take more is
        refused before the work. None goes on anyway.

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
        super()._check_parameters()
        user_input.check_number(type(self).__name__, "C", self.C, low=0, strict=True)

    def _check_memory(self, X: sp.csr_array) -> None:
        _refuse_too_many_features(self, X, 2, self.memory_limit)

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:
        if weights is None:
            drawn = rng.integers(len(triplets), size=self.n_steps)
        else:
            drawn = rng.choice(len(triplets), size=self.n_steps, p=weights / weights.sum())
        features = np.unique(X.indices)
        W, self.n_updates_ = _passive_aggressive(X[:, features], triplets[drawn], float(self.C))
        self.similarity_ = BilinearSimilarity(W, features, 1.0, X.shape[1])


def _passive_aggressive(X: sp.csr_array, triplets: np.ndarray, C: float) -> tuple[np.ndarray, int]:
    """Return W after a step for each triplet in turn, and the number of steps of length > 0.

    The scores that a block of steps needs are those of W at its start, plus what its own earlier
    steps add, τ_s ⟨V_s, V_t⟩. So W is read and written once a block, by matrix products.
    """
    W, n_updates = np.eye(X.shape[1]), 0
    for first in range(0, len(triplets), BLOCK):
        a, p, q = triplets[first : first + BLOCK].T
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


# --- COMET ---------------------------------------------------------------------------------------


class COMET(_TripletLearner):
    """Bilinear similarity xᵀWx' with W positive definite, learned one feature at a time.

    Minimises (1/T) Σ_t ℓ(margin_t) - barrier·log det W + (ridge/2)·‖W‖², the dense form of the
    method. A step moves one row and column of W, toward the minimum as conjugate gradients see it;
    how far it may go before W ceases to be positive definite is known in closed form from W⁻¹,
    which is kept up to date. A step costs the square of the number of features that occur, and so
    does memory: for thousands of features, not for more.

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
        Stop after a pass that brought no more than this share of what all of them have brought.
    random_state : int, RandomState or None, default=None
        Of the order of the features, and of the triplets, where they are drawn.
    n_jobs : int or None, default=None
        Threads to make triplets with.
    memory_limit : "auto", float or None, default="auto"
        GiB that W, its inverse and work may take; "auto" is what the system has left. A fit that
        would take more is refused before the work. None goes on anyway.

    Attributes
    ----------
    similarity_ : BilinearSimilarity
        W is ``similarity_.matrix``, on the columns ``similarity_.features`` of X.
    objective_ : float
        Of the features that occur.
    n_iter_ : int
        Passes made.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    References
    ----------
    Y. Atzmon, U. Shalit and G. Chechik. Learning sparse metrics, one feature at a time. Journal of
    Machine Learning Research: Workshop and Conference Proceedings 44, 2015.

    Examples
    --------
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> model = COMET(n_targets=1, n_impostors=1).fit(X, [0, 0, 1, 1])
    >>> bool((np.linalg.eigvalsh(model.similarity_.matrix) > 0).all())
    True
    """

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for parameter in ("barrier", "ridge"):
            value = getattr(self, parameter)
            user_input.check_number(type(self).__name__, parameter, value, low=0, strict=True)

    def _check_memory(self, X: sp.csr_array) -> None:
        _refuse_too_many_features(self, X, 4, self.memory_limit)

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:
        features = np.unique(X.indices)
        weights = np.ones(len(triplets)) if weights is None else weights
        state = _PositiveDefinite(
            X[:, features], triplets, weights / weights.sum(), losses.get(self.loss),
            float(self.barrier), float(self.ridge),
        )  # fmt: skip
        start = state.objective
        for n_iter in range(1, self.max_iter + 1):
            before = state.objective
            for k in rng.permutation(len(features)):
                state.step(k)
            state.refresh()
            self.n_iter_, self.objective_ = n_iter, state.objective
            if before - state.objective <= self.tol * (start - state.objective):
                break
        else:
            _warn_not_converged(
                self,
                "the last pass bringing",
                (before - state.objective) / (start - state.objective),
            )
        rest = float(np.sqrt(self.barrier / self.ridge))
        self.similarity_ = BilinearSimilarity(state.W, features, rest, X.shape[1])


class _PositiveDefinite:
    """W, its inverse P and the margins, and the step that changes one row and column of W.

    The step adds e_k vᵀ + v e_kᵀ. With p = P e_k, det W then grows by the factor
    (1 + p·v)² - p_k vᵀPv, and it stays positive definite as long as this stays positive on the way.
    """

    def __init__(
        self, X: sp.csr_array, triplets: np.ndarray, omega: np.ndarray, loss: losses.Loss,
        barrier: float, ridge: float,
    ) -> None:  # fmt: skip
        self.X, self.columns, self.triplets = X, X.tocsc(), triplets
        self.omega, self.loss, self.barrier, self.ridge = omega, loss, barrier, ridge
        scale = np.sqrt(barrier / ridge)
        a, p, q = triplets.T
        self.W = scale * np.eye(X.shape[1])
        self.margins = scale * np.asarray(X[a].multiply(X[p] - X[q]).sum(axis=1)).ravel()
        self.refresh()

    def refresh(self) -> None:
        """Compute the inverse anew, as errors of its updates add up, and the objective."""
        factor = scipy.linalg.cholesky(self.W, lower=True)
        self.P = scipy.linalg.cho_solve((factor, True), np.eye(len(self.W)))
        self.objective = float(
            self.omega @ self.loss.value(self.margins)
            - 2.0 * self.barrier * np.log(np.diag(factor)).sum()
            + 0.5 * self.ridge * np.vdot(self.W, self.W)
        )

    def step(self, k: int) -> None:
        """Lower the objective by row and column k of W."""
        X, P, n = self.X, self.P, self.X.shape[0]
        column = self.columns[:, [k]].toarray().ravel()
        touched = np.flatnonzero((column != 0)[self.triplets].any(axis=1))
        a, p, q = self.triplets[touched].T
        margins, omega = self.margins[touched], self.omega[touched]
        left, right = column[a], column[p] - column[q]

        def change(v: np.ndarray) -> np.ndarray:
            """Return how the margins change along v."""
            u = X @ v
            return left * (u[p] - u[q]) + right * u[a]

        def pull(slopes: np.ndarray) -> np.ndarray:
            """Return Σ_t slope_t ∂margin_t / ∂v."""
            ends, start = np.concatenate([p, q]), slopes * left
            rows = np.bincount(ends, np.concatenate([start, -start]), n)
            return X.T @ (rows + np.bincount(a, slopes * right, n))

        def hessian(v: np.ndarray) -> np.ndarray:
            out = pull(curvature * change(v)) + 2.0 * self.ridge * v
            out[k] += 2.0 * self.ridge * v[k]
            return out + 2.0 * self.barrier * (inverse * (inverse @ v) + inverse[k] * (P @ v))

        w, inverse = self.W[k], P[k]
        curvature = omega * self.loss.curvature(margins)
        gradient = pull(omega * self.loss.derivative(margins))
        gradient += 2.0 * (self.ridge * w - self.barrier * inverse)
        operator = LinearOperator(P.shape, matvec=hessian, dtype=np.float64)
        v, _ = cg(operator, -gradient, rtol=0.1, maxiter=CG_STEPS)
        Pv = P @ v
        linear, root = inverse @ v, np.sqrt(inverse[k] * max(v @ Pv, 0.0))
        along, squared = w @ v, v @ v + v[k] ** 2
        moves = change(v)

        def value(step: float) -> float:
            loss = omega @ self.loss.value(margins + step * moves)
            log_det = np.log1p(step * (linear + root)) + np.log1p(step * (linear - root))
            ridge = 2.0 * step * along + step**2 * squared
            return float(loss - self.barrier * log_det + self.ridge * ridge)

        step, before, slope = 1.0, value(0.0), gradient @ v
        if root > linear:
            step = min(step, 0.99 / (root - linear))
        while value(step) > before + 1e-4 * step * slope:
            step *= 0.5
            if step < 1e-10:  # rounding is all that is left to gain
                return
        self.margins[touched] += step * moves
        self.W[k] += step * v
        self.W[:, k] += step * v
        # The inverse of a matrix plus one of rank two (Woodbury).
        U = np.column_stack([inverse, Pv])
        cross = 1.0 / step + linear
        middle = np.linalg.inv([[inverse[k], cross], [cross, v @ Pv]])
        self.P -= U @ (middle @ U.T)


# --- projections ---------------------------------------------------------------------------------


def random_projection(n_components: int, *, random_state: Any = None) -> GaussianRandomProjection:
    """Return the transformer x → Rᵀx / sqrt(r), entries of R drawn from N(0, 1).

    Parameters
    ----------
    n_components : int
        r. The columns of R take 8·r·n_features bytes.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    GaussianRandomProjection

    Examples
    --------
    >>> random_projection(2, random_state=0).fit_transform(sp.eye_array(5, format="csr")).shape
    (5, 2)
    """
    return GaussianRandomProjection(n_components, random_state=random_state)


def pca(n_components: int, *, random_state: Any = None) -> PCA:
    """Return principal component analysis; sparse rows are centred without being made dense.

    Parameters
    ----------
    n_components : int
        Of sparse rows, less than the number of rows and of features.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    PCA

    Examples
    --------
    >>> pca(2, random_state=0).fit_transform(sp.eye_array(5, format="csr")).shape
    (5, 2)
    """
    return PCA(n_components, random_state=random_state)


def rp_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return the pipeline of `random_projection` ("project") and `OASIS` ("oasis").

    Labels make triplets of projected rows. To use those of the rows themselves, as for the other
    methods, give them: ``fit(X, oasis__triplets=T)``.

    Parameters
    ----------
    n_components : int
    C : float > 0, default=0.1
    random_state : int, RandomState or None, default=None
        Of both steps.
    **more
        Other parameters of `OASIS`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> pipeline = rp_oasis(2, n_steps=10, random_state=0)
    >>> X = sp.eye_array(5, format="csr")
    >>> pipeline = pipeline.fit(X, oasis__triplets=[[0, 1, 2]])
    >>> pipeline[-1].similarity_.pairwise(pipeline[:-1].transform(X)).shape
    (5, 5)
    """
    return _with_oasis(random_projection(n_components, random_state=random_state), C, more)


def pca_oasis(
    n_components: int, C: float = 0.1, *, random_state: Any = None, **more: Any
) -> Pipeline:
    """Return the pipeline of `pca` ("project") and `OASIS` ("oasis"); all else as in `rp_oasis`.

    Examples
    --------
    >>> pca_oasis(50, C=0.01, n_steps=1000).named_steps["oasis"]
    OASIS(C=0.01, n_steps=1000)
    """
    return _with_oasis(pca(n_components, random_state=random_state), C, more)


def _with_oasis(project: Any, C: float, more: dict[str, Any]) -> Pipeline:
    oasis = OASIS(C, random_state=project.random_state, **more)
    return Pipeline([("project", project), ("oasis", oasis)])


# --- support vector machines ---------------------------------------------------------------------


def linear_svm(
    penalty: str = "l2", C: float = 1.0, *, max_iter: int = 10_000, random_state: Any = None
) -> OneVsOneClassifier:
    """Return a linear SVM by liblinear, squared hinge loss, one against one.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
    C : float, default=1.0
        The inverse of the strength of the penalty.
    max_iter : int, default=10_000
    random_state : int, RandomState or None, default=None

    Returns
    -------
    OneVsOneClassifier

    Examples
    --------
    >>> model = linear_svm("l1", C=10).fit(np.eye(4)[:, :3], [0, 0, 1, 1])
    >>> n_active_features(model) <= 3
    True
    """
    user_input.check_word("linear_svm", "penalty", penalty, PENALTIES)
    return OneVsOneClassifier(
        LinearSVC(
            penalty=penalty, C=C, dual=False if penalty == "l1" else "auto", max_iter=max_iter,
            random_state=random_state,
        )
    )  # fmt: skip


def poly_svm(degree: int = 2, C: float = 1.0, *, gamma: Any = 1.0, coef0: float = 1.0) -> SVC:
    """Return an SVM by libsvm with the kernel (gamma·⟨x, x'⟩ + coef0)^degree, one against one.

    Parameters
    ----------
    degree : int, default=2
    C : float, default=1.0
    gamma : float, "scale" or "auto", default=1.0
        1 suits rows of length 1.
    coef0 : float, default=1.0
        1 keeps the products of fewer features than `degree`, 0 those of `degree` features alone.

    Returns
    -------
    SVC

    Examples
    --------
    >>> poly_svm(3, C=10).fit(np.eye(4), [0, 0, 1, 1]).predict(np.eye(4)).tolist()
    [0, 0, 1, 1]
    """
    return SVC(kernel="poly", degree=degree, C=C, gamma=gamma, coef0=coef0)


def n_active_features(model: OneVsOneClassifier) -> int:
    """Return how many features have a weight other than 0 in a fitted `linear_svm`."""
    return int(np.count_nonzero(np.any([part.coef_ != 0 for part in model.estimators_], axis=0)))
