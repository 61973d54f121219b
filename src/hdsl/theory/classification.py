"""How well classifiers on a learned similarity generalise.

Two classes, y = ±1, and rows drawn independently, with values in an interval of width W that
contains 0 and a length of at most r. g_M(x) = S_M(x, μ₊ - μ₋) compares the mean similarities of a
row to the landmarks of each class, and a row is classified rightly if y·g_M(x) > 0. The loss is
convex, falling and 1-Lipschitz: the share of wrong rows is at most the mean loss over ℓ(0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import user_input
from .inputs import as_number, check_counts


def goodness(S: Any, y: Any, y_landmarks: Any, gamma: float = 1.0) -> float:
    """Return ε, with which a similarity is (ε, γ, τ)-good on a sample: a mean hinge loss.

    It is the mean of max(0, 1 - y·g(x)/γ), where g(x) is the mean similarity of x to landmarks of
    the second class minus that to landmarks of the first. τ, the share of rows that may be
    landmarks, is that of the landmarks given.

    Parameters
    ----------
    S : array-like of shape (n_rows, n_landmarks)
        Similarities to landmarks that are not among the rows.
    y, y_landmarks : array-like of shape (n_rows,) and (n_landmarks,)
        Two classes.
    gamma : float, default=1.0
        The margin.

    Returns
    -------
    float

    References
    ----------
    M.-F. Balcan, A. Blum and N. Srebro. Improved guarantees for learning via similarity functions.
    COLT, 2008.

    Examples
    --------
    >>> goodness([[1.0, 0.0], [0.5, 0.0]], [0, 1], [0, 1])
    0.75
    """
    user_input.check_number("goodness", "gamma", gamma, low=0, strict=True)
    classes = np.unique(y_landmarks)
    if len(classes) != 2 or not np.isin(y, classes).all():
        raise ValueError(f"goodness is of two classes, but landmarks have {len(classes)}.")
    S, is_second = np.asarray(S, dtype=np.float64), np.asarray(y_landmarks) == classes[1]
    g = S[:, is_second].mean(axis=1) - S[:, ~is_second].mean(axis=1)
    sign = np.where(np.asarray(y) == classes[1], 1.0, -1.0)
    return float(np.maximum(0.0, 1.0 - sign * g / gamma).mean())


def landmark_bound(
    n_landmarks: Any,
    scale: float,
    *,
    d: int,
    prior: float = 0.0,
    width: float = 1.0,
    length: float = 1.0,
    delta: float = 0.05,
) -> Any:
    """Return a bound on the error of mean similarities to landmarks, for all rows and models.

    η = 8λW² sqrt(log(8d/δ) / 2m) + 2 prior r²(1 + sqrt(2 log(4/δ))) / sqrt(m): the mean
    similarities of any row to m landmarks of each class differ from those to all rows of the
    classes by at most η, in their difference g, for every model of the domain at once. It fails
    with probability at most δ.

    Parameters
    ----------
    n_landmarks : int or array-like of int
        m, landmarks per class.
    scale : float
        λ.
    d : int
        Number of features.
    prior : float, default=0.0
    width : float, default=1.0
        W: values lie in an interval of this width that contains 0.
    length : float, default=1.0
        r, the largest length of a row; it matters with a prior.
    delta : float in (0, 1), default=0.05
        Probability of failure.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> landmark_bound([100, 10_000], 0.1, d=20_000).round(3)
    array([0.219, 0.022])
    """
    # |xᵀM(Δ̂ - Δ)| ≤ ‖M‖₁ ‖x‖_∞ ‖Δ̂ - Δ‖_∞, and ‖M‖₁ ≤ 4λ. By Hoeffding's inequality for d features
    # of 2 classes, both sides, each mean is within W sqrt(log(8d/δ) / 2m) but for a probability of
    # δ/2 in all. For the prior, ‖μ̂ - μ‖₂ is r/sqrt(m) on average at most, and a landmark moves it
    # by 2r/m: McDiarmid's inequality with δ/4 for each class.
    owner = "landmark_bound"
    m = check_counts(owner, "n_landmarks", n_landmarks, low=1)
    _check(owner, scale, d, prior, width, length, delta)
    learned = 8.0 * scale * width**2 * np.sqrt(math.log(8.0 * d / delta) / (2.0 * m))
    plain = 2.0 * prior * length**2 * (1.0 + math.sqrt(2.0 * math.log(4.0 / delta))) / np.sqrt(m)
    return as_number(learned + plain)


def goodness_bound(
    n: Any,
    n_landmarks: Any,
    scale: float,
    *,
    d: int,
    prior: float = 0.0,
    width: float = 1.0,
    length: float = 1.0,
    loss_at_zero: float = 0.5,
    delta: float = 0.05,
) -> Any:
    """Return a bound on risk minus empirical risk of the classification objective, of all models.

    2·4λW² sqrt(2 log 2d(d - 1) / n) + B sqrt(log(2/δ) / 2n) + 2η, with B = ℓ(0) + 4λW² + 2 prior r²
    and η of `landmark_bound` for δ/2. The landmarks may be the rows themselves. The share of new
    rows that are classified wrongly is at most (empirical risk + bound) / ℓ(0). It fails with
    probability at most δ.

    Parameters
    ----------
    n : int or array-like of int
        Number of rows.
    n_landmarks, scale, d, prior, width, length, delta
        As in `landmark_bound`.
    loss_at_zero : float, default=0.5
        ℓ(0).

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(goodness_bound(10**6, 10**6 // 2, 1.0, d=20_000), 3)
    0.121
    """
    # With the true means of the classes in place of the landmarks' the margins y·xᵀMΔ are linear in
    # M, and rows are independent: symmetrise, contract, and apply Massart's lemma to the vectors of
    # the atoms' margins and 0. McDiarmid's inequality with δ/2 adds the second term. The margins
    # with the landmarks' means are within η, once for the risk and once for the empirical risk.
    owner = "goodness_bound"
    n = check_counts(owner, "n", n, low=1)
    _check(owner, scale, d, prior, width, length, delta)
    user_input.check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    size = 4.0 * scale * width**2
    complexity = size * np.sqrt(2.0 * math.log(2 * d * (d - 1)) / n)
    loss_size = loss_at_zero + size + 2.0 * prior * length**2
    apart = landmark_bound(
        n_landmarks, scale, d=d, prior=prior, width=width, length=length, delta=delta / 2.0
    )
    confidence = loss_size * np.sqrt(math.log(2.0 / delta) / (2.0 * n))
    return as_number(2.0 * complexity + confidence + 2.0 * apart)


def classifier_bound(
    n: Any,
    n_landmarks: int,
    size: float,
    scale: float,
    *,
    d: int,
    prior: float = 0.0,
    width: float = 1.0,
    length: float = 1.0,
    loss_at_zero: float = 0.5,
    delta: float = 0.05,
) -> Any:
    """Return a bound on risk minus empirical risk of linear classifiers on similarities.

    f(x) = Σ coef·S_M(x, landmark) + intercept. The bound is for all models of the domain and all
    weights with a sum of absolute values, the intercept's with them, of at most A:
    2AB sqrt(2 log(4(L + 1)d(d - 1)) / n) + (ℓ(0) + AB) sqrt(log(1/δ) / 2n), with
    B = max(1, 4λW² + prior r²). So to learn the similarity as well costs log d, and to choose among
    L landmarks log L. It fails with probability at most δ.

    Parameters
    ----------
    n : int or array-like of int
        Number of rows, without the landmarks.
    n_landmarks : int
        L, landmarks to choose from.
    size : float
        A.
    scale, d, prior, width, length, delta
        As in `landmark_bound`.
    loss_at_zero : float, default=0.5
        ℓ(0); log 2 for ``SimilarityClassifier(loss="log_loss")``.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(classifier_bound(10**6, 500, 1.0, 1.0, d=20_000), 3)
    0.065
    """
    # f is linear in the weights and in M, so it is largest at an atom or 0, for one landmark: the
    # largest of (d(d - 1) + 1)·2L + 2 values. Then as in `goodness_bound`, the landmarks given.
    owner = "classifier_bound"
    n = check_counts(owner, "n", n, low=1)
    user_input.check_number(owner, "n_landmarks", n_landmarks, low=1, integer=True)
    user_input.check_number(owner, "size", size, low=0)
    _check(owner, scale, d, prior, width, length, delta)
    user_input.check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    bound = size * max(1.0, 4.0 * scale * width**2 + prior * length**2)
    n_values = 4.0 * (n_landmarks + 1) * d * (d - 1)
    complexity = bound * np.sqrt(2.0 * math.log(n_values) / n)
    confidence = (loss_at_zero + bound) * np.sqrt(math.log(1.0 / delta) / (2.0 * n))
    return as_number(2.0 * complexity + confidence)


def _check(
    owner: str, scale: float, d: Any, prior: float, width: float, length: float, delta: float
) -> None:
    user_input.check_number(owner, "scale", scale, low=0, strict=True)
    user_input.check_number(owner, "d", d, low=2, integer=True)
    for name, value in (("prior", prior), ("width", width), ("length", length)):
        user_input.check_number(owner, name, value, low=0)
    user_input.check_number(owner, "delta", delta, low=0, strict=True, high=1)
