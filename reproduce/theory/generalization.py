"""How well what was learned generalises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hdsl.input.parameters import check_number, check_word

from .convergence import convergence_bound
from .inputs import as_number, check_counts
from .sizes import NORMS, domain_bound

FORMS = ("data", "printed")


def rademacher_bound(
    n: Any,
    scale: float,
    *,
    d: int | None = None,
    k: Any = None,
    B_X: float = 1.0,
    norm: str = "max",
    form: str = "data",
) -> Any:
    """Return a bound on the Rademacher complexity of the losses of all models (Lemma 1).

    8λ B_X sqrt(2 log N / ⌊n/3⌋) in the norm "max", where N is 2d(d - 1) in the form
    "data" and k in the form "printed". In another norm 8λ B_X is 2 B_X B_D.

    A linear function of M is largest at an atom, even if M may use only one. So the
    complexity is that of all atoms, whatever their number k in M. There are d(d - 1)
    distinct ones. With 0 as one more vertex of the domain they are still no more than
    2d(d - 1).

    Parameters
    ----------
    n : int or array-like of int, at least 3
        Number of rows.
    scale : float
        λ.
    d : int, default=None
        Number of features; needed by the form "data".
    k : int or array-like of int, default=None
        Number of atoms; needed by the form "printed".
    B_X : float, default=1.0
        Largest ‖x(x' - x'')ᵀ‖, see `data_bound`; 1 is for values in [0, 1] and the norm
        "max".
    norm : {"max", "fro", "l1"}, default="max"
    form : {"data", "printed"}, default="data"
        "printed" does not hold.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> rademacher_bound(90, scale=1.0, k=1, form="printed")
    0.0
    >>> round(rademacher_bound(90, scale=1.0, d=20), 2)
    5.32
    """
    owner = "rademacher_bound"
    n, log_n_atoms, size = _check(
        owner, n, scale, d=d, k=k, B_X=B_X, norm=norm, form=form
    )
    return as_number(_rademacher(n, log_n_atoms, size))


def deviation_bound(
    n: Any,
    scale: float,
    *,
    d: int | None = None,
    k: Any = None,
    delta: float = 0.05,
    B_X: float = 1.0,
    norm: str = "max",
    loss_at_zero: float = 0.5,
    form: str = "data",
) -> Any:
    """Return a bound on risk minus empirical risk of all models at once (Theorem 1).

    2R + 3B sqrt(2 log(2/δ) / n) with R of `rademacher_bound`, and with B = B_X B_D in
    the form "printed", max(B_X B_D, ¾(ℓ(0) + B_X B_D)) in the form "data". It fails
    with probability at most δ. A risk is the mean loss over all choices of three rows.
    The loss is 0 for three rows that make no triplet: the positive has another label
    than the anchor, or the negative the same.

    Parameters
    ----------
    n, scale, d, k, B_X, norm, form
        As in `rademacher_bound`.
    delta : float in (0, 1), default=0.05
        Probability of failure.
    loss_at_zero : float, default=0.5
        ℓ(0), the largest loss of M = 0, for the form "data": 1/2 for the smoothed
        hinge, log 2 for the logistic loss; with a prior add prior·sup |⟨x, x' - x''⟩|.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(deviation_bound(10**6, scale=1.0, d=20_000), 3)
    0.21
    """
    # A change of one row changes 3(n - 1)(n - 2) of the n(n - 1)(n - 2) losses. Losses
    # are in [0, ℓ(0) + B_X B_D], so McDiarmid's inequality gives 3(ℓ(0) + B_X B_D)
    # sqrt(log(1/δ) / 2n). The paper has 2 B_X B_D for the width of that interval, too
    # little where B_X B_D < ℓ(0).
    owner = "deviation_bound"
    n, log_n_atoms, size = _check(
        owner, n, scale, d=d, k=k, B_X=B_X, norm=norm, form=form
    )
    _check_delta(owner, delta)
    loss_size = _loss_size(owner, size, loss_at_zero, form)
    confidence = 3.0 * loss_size * np.sqrt(2.0 * math.log(2.0 / delta) / n)
    return as_number(2.0 * _rademacher(n, log_n_atoms, size) + confidence)


def excess_risk_bound(
    n: Any,
    k: Any,
    scale: float,
    lipschitz: float,
    *,
    d: int | None = None,
    delta: float = 0.05,
    B_X: float = 1.0,
    norm: str = "max",
    loss_at_zero: float = 0.5,
    form: str = "data",
) -> Any:
    """Return a bound on the risk after k iterations minus the least risk (Corollary 1).

    16Lλ²/(k + 2) + 2R + 5B sqrt(log(4/δ) / n), R and B as in `deviation_bound`. It
    fails with probability at most δ, for a run as in `convergence_bound` on all
    triplets of the n rows.

    Parameters
    ----------
    n, scale, d, delta, B_X, norm, loss_at_zero, form
        As in `deviation_bound`.
    k : int or array-like of int, at least 1
        Iterations.
    lipschitz : float
        L, see `lipschitz_constant`.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> excess_risk_bound(10**6, [10, 1000], 1.0, 0.5, d=20_000).round(3)
    array([0.886, 0.227])
    """
    # Three parts: deviation of the model found (δ/2), its distance from the best on the
    # sample, and deviation of the best model, one fixed M (δ/2). By Hoeffding's
    # inequality for a U-statistic of order 3 the last is at most (ℓ(0) + B_X B_D)
    # sqrt(log(2/δ) / 2⌊n/3⌋); the paper has n in place of ⌊n/3⌋. As n ≤ 5⌊n/3⌋, this
    # and the first part's 3(ℓ(0) + B_X B_D) sqrt(log(2/δ) / 2n) make at most (3 +
    # √5)/√2 < 5·¾ times (ℓ(0) + B_X B_D) sqrt(log(2/δ) / n).
    owner = "excess_risk_bound"
    n, log_n_atoms, size = _check(
        owner, n, scale, d=d, k=k, B_X=B_X, norm=norm, form=form
    )
    _check_delta(owner, delta)
    loss_size = _loss_size(owner, size, loss_at_zero, form)
    confidence = 5.0 * loss_size * np.sqrt(math.log(4.0 / delta) / n)
    deviation = 2.0 * _rademacher(n, log_n_atoms, size) + confidence
    return as_number(convergence_bound(k, scale, lipschitz) + deviation)


def sufficient_triplets(
    accuracy: float,
    scale: float,
    *,
    d: int,
    delta: float = 0.05,
    B_X: float = 1.0,
    norm: str = "max",
    loss_at_zero: float = 0.5,
) -> int:
    """Return the number of random triplets that can stand for all triplets of some rows.

    Draw so many uniformly from all, with or without replacement. With probability 1 -
    δ, the mean loss of the drawn triplets differs from that of all by at most
    `accuracy`, for every model of the domain at once. The result does not depend on the
    number of all triplets.

    It is ((2 B_X B_D sqrt(2 log 2d(d - 1)) + (ℓ(0) + B_X B_D) sqrt(log(2/δ) / 2)) /
    accuracy)². For the accuracy of the rows themselves, `deviation_bound`, it is below
    n. This is the paper's remark that O(n) triplets suffice, with its constant.

    Parameters
    ----------
    accuracy : float
    scale, d, delta, B_X, norm, loss_at_zero
        As in `deviation_bound`.

    Returns
    -------
    int

    Examples
    --------
    >>> n = 10**6
    >>> sufficient_triplets(deviation_bound(n, 1.0, d=20_000), 1.0, d=20_000) < n / 10
    True
    """
    # Given the rows, m triplets drawn with replacement are independent, and their mean
    # loss is right on average. Symmetrise, contract (the loss is 1-Lipschitz) and apply
    # Massart's lemma to the vectors of the atoms' margins, of length B_X B_D sqrt(m) at
    # most: the largest deviation to one side is on average at most 2 B_X B_D sqrt(2 log
    # 2d(d - 1) / m). One triplet moves it by (ℓ(0) + B_X B_D) / m at most, so
    # McDiarmid's inequality, with δ/2 for each side, adds (ℓ(0) + B_X B_D)
    # sqrt(log(2/δ) / 2m). It rests on the mean of the exponential of the largest
    # deviation, a convex function of the drawn losses' sums, and such a mean is no
    # larger without replacement (Hoeffding, 1963): the same holds.
    owner = "sufficient_triplets"
    check_number(owner, "accuracy", accuracy, low=0, strict=True)
    _, log_n_atoms, size = _check(
        owner, 3, scale, d=d, k=None, B_X=B_X, norm=norm, form="data"
    )
    check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    _check_delta(owner, delta)
    complexity = 2.0 * size * math.sqrt(2.0 * log_n_atoms)
    confidence = (loss_at_zero + size) * math.sqrt(math.log(2.0 / delta) / 2.0)
    return math.ceil(((complexity + confidence) / accuracy) ** 2)


def _check(
    owner: str,
    n: Any,
    scale: float,
    *,
    d: Any,
    k: Any,
    B_X: float,
    norm: str,
    form: str,
) -> tuple[Any, Any, float]:
    """Return n, the log of the number of atoms that count, and B_X B_D."""
    n = check_counts(owner, "n", n, low=3)
    check_number(owner, "scale", scale, low=0, strict=True)
    check_number(owner, "B_X", B_X, low=0)
    check_word(owner, "norm", norm, NORMS)
    check_word(owner, "form", form, FORMS)
    if form == "data" and d is None:
        raise ValueError(
            f"{owner} needs d=, the number of features, for form={form!r}."
        )
    if form == "printed" and k is None:
        raise ValueError(f"{owner} needs k=, the number of atoms, for form={form!r}.")
    if d is not None:
        check_number(owner, "d", d, low=2, integer=True)
    if k is not None:
        k = check_counts(owner, "k", k, low=1)
    size = B_X * domain_bound(scale, norm=norm)
    if form == "data":
        return n, math.log(2 * d * (d - 1)), size
    return n, np.log(k), size


def _rademacher(n: Any, log_n_atoms: Any, size: float) -> Any:
    return 2.0 * size * np.sqrt(2.0 * log_n_atoms / (n // 3))


def _loss_size(owner: str, size: float, loss_at_zero: float, form: str) -> float:
    """Return B, the bound of the loss."""
    check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    if form == "printed":
        return size
    return max(size, 0.75 * (loss_at_zero + size))


def _check_delta(owner: str, delta: float) -> None:
    check_number(owner, "delta", delta, low=0, strict=True, high=1)
