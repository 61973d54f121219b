"""How well classifiers on a learned similarity generalise.

C classes, and rows drawn independently. A row x of class y is compared with the mean
similarities to the landmarks of its own class and of each other class c: the margins
are g(x, c) = S_M(x, μ_y - μ_c), and x is nearest to its own class if all of them are
positive. The loss of a row is the mean of ℓ(g(x, c)) over the other classes. ℓ is
convex, falling and 1-Lipschitz, so the share of wrong rows is at most C - 1 times the
mean loss over ℓ(0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdsl.input.parameters import check_number

from .inputs import as_number, check_counts


@dataclass(frozen=True)
class Domain:
    """The similarities and the rows that a bound is for.

    Parameters
    ----------
    scale : float
        λ.
    d : int
        Number of features.
    prior : float, default=0.0
        Weight of the dot product.
    width : float, default=1.0
        W: values lie in an interval of this width that contains 0.
    length : float, default=1.0
        r, the largest length of a row; it matters with a prior.

    Examples
    --------
    >>> Domain(0.5, 20_000, prior=0.1).learned
    2.0
    """

    scale: float
    d: int
    prior: float = 0.0
    width: float = 1.0
    length: float = 1.0

    def __post_init__(self) -> None:
        check_number("Domain", "scale", self.scale, low=0, strict=True)
        check_number("Domain", "d", self.d, low=2, integer=True)
        for name in ("prior", "width", "length"):
            check_number("Domain", name, getattr(self, name), low=0)

    @property
    def learned(self) -> float:
        """4λW², the largest |xᵀM(x' - x'')| of rows."""
        return 4.0 * self.scale * self.width**2

    @property
    def plain(self) -> float:
        """prior·r², the largest part of the dot product in a similarity."""
        return self.prior * self.length**2

    @property
    def n_atoms(self) -> int:
        """2d(d - 1): each atom twice, which leaves room for 0."""
        return 2 * self.d * (self.d - 1)


def goodness(S: Any, y: Any, y_landmarks: Any, gamma: float = 1.0) -> float:
    """Return ε, with which a similarity is (ε, γ, τ)-good on a sample: a mean hinge loss.

    It is the mean of max(0, 1 - g(x, c)/γ) over rows and other classes c, where g(x, c)
    is the mean similarity of x to landmarks of its own class minus that to landmarks of
    c. τ, the share of rows that may be landmarks, is that of the landmarks given.

    Parameters
    ----------
    S : array-like of shape (n_rows, n_landmarks)
        Similarities to landmarks that are not among the rows.
    y, y_landmarks : array-like of shape (n_rows,) and (n_landmarks,)
        Two classes or more; each class of a row has landmarks.
    gamma : float, default=1.0
        The margin.

    Returns
    -------
    float

    References
    ----------
    M.-F. Balcan, A. Blum and N. Srebro. Improved guarantees for learning via similarity
    functions. COLT, 2008.

    Examples
    --------
    >>> goodness([[1.0, 0.0], [0.5, 0.0]], [0, 1], [0, 1])
    0.75
    """
    check_number("goodness", "gamma", gamma, low=0, strict=True)
    classes, codes = np.unique(y_landmarks, return_inverse=True)
    y = np.asarray(y)
    if len(classes) < 2 or not np.isin(y, classes).all():
        raise ValueError(
            "goodness needs landmarks of two classes or more, and of every class of "
            f"y. They have {len(classes)}."
        )
    S = np.asarray(S, dtype=np.float64)
    means = np.stack(
        [S[:, codes == c].mean(axis=1) for c in range(len(classes))], axis=1
    )
    is_own = y[:, None] == classes
    margins = (means[is_own][:, None] - means)[~is_own]
    return float(np.maximum(0.0, 1.0 - margins / gamma).mean())


def landmark_bound(
    n_landmarks: Any, domain: Domain, *, n_classes: int = 2, delta: float = 0.05
) -> Any:
    """Return a bound on the error of mean similarities to landmarks, for all rows and models.

    η = 8λW² sqrt(log(4Cd/δ) / 2m) + 2 prior r²(1 + sqrt(2 log(2C/δ))) / sqrt(m): the
    mean similarities of any row to m landmarks of each class differ from those to all
    rows of the classes by at most η, in the difference of any two classes, for every
    model of the domain at once. It fails with probability at most δ.

    Parameters
    ----------
    n_landmarks : int or array-like of int
        m, landmarks per class, the fewest of a class.
    domain : Domain
    n_classes : int, default=2
        C.
    delta : float in (0, 1), default=0.05
        Probability of failure.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> landmark_bound([100, 10_000], Domain(0.1, 20_000)).round(3)
    array([0.219, 0.022])
    """
    # |xᵀM(Δ̂ - Δ)| ≤ ‖M‖₁ ‖x‖_∞ ‖Δ̂ - Δ‖_∞, and ‖M‖₁ ≤ 4λ. By Hoeffding's inequality
    # for d features of C classes, both sides, each mean is within W sqrt(log(4Cd/δ) /
    # 2m) but for a probability of δ/2 in all. For the prior, ‖μ̂ - μ‖₂ is r/sqrt(m) on
    # average at most, and a landmark moves it by 2r/m: McDiarmid's inequality with δ/2C
    # for each class.
    owner = "landmark_bound"
    m = check_counts(owner, "n_landmarks", n_landmarks, low=1)
    _check(owner, domain, delta)
    check_number(owner, "n_classes", n_classes, low=2, integer=True)
    means = np.sqrt(math.log(4.0 * n_classes * domain.d / delta) / (2.0 * m))
    lengths = (1.0 + math.sqrt(2.0 * math.log(2.0 * n_classes / delta))) / np.sqrt(m)
    return as_number(2.0 * domain.learned * means + 2.0 * domain.plain * lengths)


def goodness_bound(
    n: Any,
    n_landmarks: Any,
    domain: Domain,
    *,
    n_classes: int = 2,
    loss_at_zero: float = 0.5,
    delta: float = 0.05,
) -> Any:
    """Return a bound on risk minus empirical risk of the classification objective, of all models.

    2·4λW² sqrt(2 log 2d(d - 1) / n) + B sqrt(log(2/δ) / 2n) + 2η, with B = ℓ(0) + 4λW²
    + 2 prior r² and η of `landmark_bound` for δ/2. The risk of a row is the mean loss
    over all other classes, and their number counts in η alone. The landmarks may be the
    rows themselves. The share of new rows that are nearest to another class is at most
    C - 1 times (empirical risk + bound) / ℓ(0). It fails with probability at most δ.

    Parameters
    ----------
    n : int or array-like of int
        Number of rows.
    n_landmarks, domain, n_classes, delta
        As in `landmark_bound`.
    loss_at_zero : float, default=0.5
        ℓ(0).

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(goodness_bound(10**6, 10**6 // 2, Domain(1.0, 20_000)), 3)
    0.121
    """
    # With the true means of the classes in place of the landmarks' the margins are
    # linear in M, and rows are independent: symmetrise, contract, and apply Massart's
    # lemma to the vectors of the atoms' margins and 0. Number the other classes of each
    # class: the supremum of a mean over them is at most the mean of the suprema, so the
    # complexity is that of two classes. McDiarmid's inequality with δ/2 adds the second
    # term. The margins with the landmarks' means are within η, once for the risk and
    # once for the empirical risk.
    owner = "goodness_bound"
    n = check_counts(owner, "n", n, low=1)
    _check(owner, domain, delta)
    check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    complexity = domain.learned * np.sqrt(2.0 * math.log(domain.n_atoms) / n)
    loss_size = loss_at_zero + domain.learned + 2.0 * domain.plain
    confidence = loss_size * np.sqrt(math.log(2.0 / delta) / (2.0 * n))
    apart = landmark_bound(n_landmarks, domain, n_classes=n_classes, delta=delta / 2.0)
    return as_number(2.0 * complexity + confidence + 2.0 * apart)


def classifier_bound(
    n: Any,
    n_landmarks: int,
    size: float,
    domain: Domain,
    *,
    loss_at_zero: float = 0.5,
    delta: float = 0.05,
) -> Any:
    """Return a bound on risk minus empirical risk of linear classifiers on similarities.

    f(x) = Σ coef·S_M(x, landmark) + intercept. The bound is for all models of the
    domain and all weights with a sum of absolute values, the intercept's with them, of
    at most A: 2AB sqrt(2 log(4(L + 1)d(d - 1)) / n) + (ℓ(0) + AB) sqrt(log(1/δ) / 2n),
    with B = max(1, 4λW² + prior r²). So to learn the similarity as well costs log d,
    and to choose among L landmarks log L. It fails with probability at most δ.

    For C classes, one against the rest, the risk is the mean loss of the C classifiers,
    and the bound is the same for any C. The share of new rows in which another class
    has the largest score is at most C/2 times (empirical risk + bound) / ℓ(0).

    Parameters
    ----------
    n : int or array-like of int
        Number of rows, without the landmarks.
    n_landmarks : int
        L, landmarks to choose from.
    size : float
        A, of each of the classifiers.
    domain, delta
        As in `landmark_bound`.
    loss_at_zero : float, default=0.5
        ℓ(0); log 2 for ``SimilarityClassifier(loss="log_loss")``.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(classifier_bound(10**6, 500, 1.0, Domain(1.0, 20_000)), 3)
    0.065
    """
    # f is linear in the weights and in M, so it is largest at an atom or 0, for one
    # landmark: the largest of (d(d - 1) + 1)·2L + 2 values. Then as in
    # `goodness_bound`, the landmarks given. The supremum of the mean of C losses is at
    # most the mean of C suprema, one per classifier.
    owner = "classifier_bound"
    n = check_counts(owner, "n", n, low=1)
    check_number(owner, "n_landmarks", n_landmarks, low=1, integer=True)
    check_number(owner, "size", size, low=0)
    _check(owner, domain, delta)
    check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    bound = size * max(1.0, domain.learned + domain.plain)
    complexity = bound * np.sqrt(
        2.0 * math.log(2.0 * (n_landmarks + 1) * domain.n_atoms) / n
    )
    confidence = (loss_at_zero + bound) * np.sqrt(math.log(1.0 / delta) / (2.0 * n))
    return as_number(2.0 * complexity + confidence)


def _check(owner: str, domain: Any, delta: float) -> None:
    if not isinstance(domain, Domain):
        raise TypeError(
            f"The 'domain' parameter of {owner} must be a reproduce.theory.Domain. Got "
            f"{domain!r} instead."
        )
    check_number(owner, "delta", delta, low=0, strict=True, high=1)
