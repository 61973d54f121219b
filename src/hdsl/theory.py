"""The paper's constants and bounds as plain functions, and what they say of a run.

Letters are the paper's: n rows drawn independently, d features, k iterations or atoms, λ the
scale, δ the chance that a bound fails; Aᵗ = x(x' - x'')ᵀ of a triplet. The results on risks assume
a 1-Lipschitz loss, as the smoothed hinge and the logistic are. They come in two forms:

- ``"printed"``, as in the paper. Its log k counts k atoms fixed in advance, but a run picks its k
  atoms among all by looking at the data: Lemma 1 is then false (0 for k = 1). And the loss, taken
  to be at most B_X B_D, is ℓ(0) at M = 0, however small B_X B_D is.
- ``"data"``, the default, which holds: log 2d(d - 1), all atoms, in place of log k, and
  max(B_X B_D, ¾(ℓ(0) + B_X B_D)) in place of the paper's bound of the loss.

References
----------
K. Liu and A. Bellet. Escaping the curse of dimensionality in similarity learning: efficient
Frank-Wolfe algorithm and generalization bounds. Neurocomputing, 2019.

S. Clémençon, I. Colin and A. Bellet. Scaling-up empirical risk minimization: optimization of
incomplete U-statistics. Journal of Machine Learning Research, 2016.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import user_input
from .core import losses

#: Norms of Aᵗ, entry by entry: p, and the dual norm of an atom of scale 1. ‖xyᵀ‖ = ‖x‖_p ‖y‖_p.
NORMS = {"max": (np.inf, 4.0), "fro": (2, 2.0), "l1": (1, 1.0)}

FORMS = ("data", "printed")

#: Losses whose derivative is at most 1 in size, as the bounds on risks assume.
LIPSCHITZ_LOSSES = ("smoothed_hinge", "logistic")

#: Triplets whose rows are copied side by side at a time.
BLOCK = 1 << 13


# --- how fast the method converges ---------------------------------------------------------------


def lipschitz_constant(
    X: Any,
    triplets: Any,
    *,
    loss: str = "smoothed_hinge",
    sample_weight: Any = None,
    form: str = "sharp",
) -> float:
    """Return L of Proposition 1: how much the gradient of the objective can change.

    The printed L is the mean of ‖Aᵗ‖²_F = ‖x‖² ‖y‖², y = x' - x'', times the largest curvature of
    the loss (1 for the smoothed hinge). The sharp one is never larger and serves as well: the proof
    needs only that the mean of ⟨Aᵗ, B - B'⟩² is at most 8Lλ² for any two atoms B and B', whose
    distance is at most √8 λ. It is the smaller of two:

    - B - B' is symmetric, so only the symmetric part of Aᵗ counts: (‖x‖²‖y‖² + ⟨x, y⟩²)/2.
    - ⟨Aᵗ, B⟩ = λ(x_i ± x_j)(y_i ± y_j). By the inequalities of Cauchy-Schwarz and Minkowski its
      mean square is at most λ²(a_i + a_j)²(b_i + b_j)², where a_i and b_i are the fourth roots of
      the means of x_i⁴ and y_i⁴; that of ⟨Aᵗ, B - B'⟩ is at most 4 times the largest. So
      L = (a + a')²(b + b')²/2 with the two largest of each. It is small where features are rare.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    triplets : array-like of int of shape (n_triplets, 3)
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"}
        The exponential loss is as curved as it ever gets: its L is too large to be of use.
    sample_weight : array-like of shape (n_triplets,), default=None
    form : {"sharp", "printed"}, default="sharp"

    Returns
    -------
    float

    Examples
    --------
    >>> X, triplets = np.eye(4), [[0, 1, 2], [3, 2, 1]]
    >>> lipschitz_constant(X, triplets, form="printed"), lipschitz_constant(X, triplets)
    (2.0, 1.0)
    """
    owner = "lipschitz_constant"
    user_input.check_word(owner, "loss", loss, losses.LOSSES)
    user_input.check_word(owner, "form", form, ("sharp", "printed"))
    X = _matrix(X)
    triplets = user_input.check_triplets(triplets, X.shape[0])
    weights = user_input.check_weights(sample_weight, len(triplets), "triplet")
    weights = np.ones(len(triplets)) if weights is None else weights
    weights = weights / weights.sum()
    norms, symmetric = 0.0, 0.0
    anchors, others = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for start in range(0, len(triplets), BLOCK):
        a, p, q = triplets[start : start + BLOCK].T
        w = weights[start : start + BLOCK]
        x, y = X[a], X[p] - X[q]
        product = _squares(x) * _squares(y)
        norms += float(w @ product)
        symmetric += float(w @ (product + _row_sums(x * y) ** 2)) / 2
        anchors += w @ x.power(4)
        others += w @ y.power(4)
    curvature = losses.get(loss).smoothness
    if form == "printed":
        return curvature * norms
    moments = 0.5 * (_two_largest(anchors**0.25) * _two_largest(others**0.25)) ** 2
    return curvature * min(symmetric, moments)


def convergence_bound(k: Any, scale: float, lipschitz: float) -> Any:
    """Return 16Lλ²/(k + 2), the most that f(M) - min f can be after k iterations (Proposition 1).

    For forward steps with the exact oracle, over all triplets, with line search or 2/(k + 2). Away
    steps that drop an atom do not count as iterations. It holds with a prior as well.

    Parameters
    ----------
    k : int or array-like of int, at least 1
    scale : float
        λ.
    lipschitz : float
        L, see `lipschitz_constant`.

    Returns
    -------
    float or ndarray, as k

    Examples
    --------
    >>> convergence_bound([6, 14], scale=2.0, lipschitz=0.5)
    array([4., 2.])
    """
    owner = "convergence_bound"
    k = _counts(owner, "k", k, low=1)
    user_input.check_number(owner, "scale", scale, low=0, strict=True)
    user_input.check_number(owner, "lipschitz", lipschitz, low=0)
    return _plain(16.0 * lipschitz * scale**2 / (k + 2.0))


# --- sizes ---------------------------------------------------------------------------------------


def data_bound(X: Any, *, norm: str = "max") -> float:
    """Return a bound on ‖x(x' - x'')ᵀ‖ for any three rows of X: B_X, as far as the rows tell.

    The paper's B_X is over all rows that may ever come; where these have known limits, use them: it
    is 1 in the norm "max" if all values lie in [0, 1].

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    norm : {"max", "fro", "l1"}, default="max"
        The largest entry, the root of the sum of squares, or the sum of sizes. The spectral norm
        of xyᵀ is its "fro", and with its dual, the trace norm, the results are those of "fro".

    Returns
    -------
    float
        Tight for "max"; for the others ‖x' - x''‖ is bounded by the norms of x' and x''.

    Examples
    --------
    >>> data_bound([[0.0, 2], [1, -1], [0, 0]])
    6.0
    """
    user_input.check_word("data_bound", "norm", norm, NORMS)
    X = _matrix(X)
    if norm == "max":
        high, low = (np.ravel(part.toarray()) for part in (X.max(axis=0), X.min(axis=0)))
        return float(abs(X).max() * (high - low).max())
    p, _ = NORMS[norm]
    lengths = np.sort(_row_sums(abs(X).power(p)))[-2:]
    # Non-negative rows are at most at a right angle: ‖x' - x''‖² ≤ ‖x'‖² + ‖x''‖².
    root = 1.0 / p
    apart = lengths.sum() ** root if X.nnz == 0 or X.min() >= 0 else (lengths**root).sum()
    return float(lengths[-1] ** root * apart)


def domain_bound(scale: float, *, norm: str = "max") -> float:
    """Return B_D = sup ‖M‖ over the domain, in the dual of a norm: 4λ for the norm "max".

    The norm is convex, so it is largest at an atom λvvᵀ, v = e_i ± e_j, and the same at all: λ‖v‖²
    in the norm dual to that of the rows. It does not depend on the number of atoms.

    Parameters
    ----------
    scale : float
        λ.
    norm : {"max", "fro", "l1"}, default="max"
        Of the data, as in `data_bound`; its dual is "l1", "fro" or "max".

    Returns
    -------
    float

    Examples
    --------
    >>> [domain_bound(10.0, norm=norm) for norm in ("max", "fro", "l1")]
    [40.0, 20.0, 10.0]
    """
    user_input.check_number("domain_bound", "scale", scale, low=0, strict=True)
    user_input.check_word("domain_bound", "norm", norm, NORMS)
    return NORMS[norm][1] * float(scale)


# --- how well it generalises ---------------------------------------------------------------------


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

    8λ B_X sqrt(2 log N / ⌊n/3⌋) in the norm "max", where N is 2d(d - 1) in the form "data" and k in
    the form "printed". In another norm 8λ B_X is 2 B_X B_D.

    The largest of linear functions of M over convex combinations of atoms is at an atom, even if
    only one atom may be used: the complexity is that of all atoms, whatever their number k in M.

    Parameters
    ----------
    n : int or array-like of int, at least 3
        Rows.
    scale : float
        λ.
    d : int, default=None
        Features; needed by the form "data".
    k : int or array-like of int, default=None
        Atoms; needed by the form "printed".
    B_X : float, default=1.0
        Largest ‖x(x' - x'')ᵀ‖, see `data_bound`; 1 is for values in [0, 1] and the norm "max".
    norm : {"max", "fro", "l1"}, default="max"
    form : {"data", "printed"}, default="data"
        Only "data" holds.

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
    n, log_n_atoms, size = _check(owner, n, scale, d, k, B_X, norm, form)
    return _plain(_rademacher(n, log_n_atoms, size))


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

    2R + 3B sqrt(2 log(2/δ) / n) with R of `rademacher_bound`, and with B = B_X B_D in the form
    "printed", max(B_X B_D, ¾(ℓ(0) + B_X B_D)) in the form "data". It is exceeded with probability
    δ at most. Risks are means over three rows of the loss, which is 0 for three rows that make no
    triplet (another label than the anchor's for the positive, or the same for the negative).

    Parameters
    ----------
    n, scale, d, k, B_X, norm, form
        As in `rademacher_bound`.
    delta : float in (0, 1), default=0.05
        Probability of failure.
    loss_at_zero : float, default=0.5
        ℓ(0), the largest loss of M = 0, for the form "data": 1/2 for the smoothed hinge, log 2 for
        the logistic loss; with a prior add prior·sup |⟨x, x' - x''⟩|.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(deviation_bound(10**6, scale=1.0, d=20_000), 3)
    0.21
    """
    # A change of one row changes 3(n - 1)(n - 2) of the n(n - 1)(n - 2) losses. Losses are in
    # [0, ℓ(0) + B_X B_D], so McDiarmid's inequality gives 3(ℓ(0) + B_X B_D) sqrt(log(1/δ) / 2n).
    # The paper has 2 B_X B_D for the width of that interval, too little where B_X B_D < ℓ(0).
    owner = "deviation_bound"
    n, log_n_atoms, size = _check(owner, n, scale, d, k, B_X, norm, form)
    _check_delta(owner, delta)
    loss_size = _loss_size(owner, size, loss_at_zero, form)
    confidence = 3.0 * loss_size * np.sqrt(2.0 * math.log(2.0 / delta) / n)
    return _plain(2.0 * _rademacher(n, log_n_atoms, size) + confidence)


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

    16Lλ²/(k + 2) + 2R + 5B sqrt(log(4/δ) / n), R and B as in `deviation_bound`. It is exceeded with
    probability δ at most, for a run as in `convergence_bound` on all triplets of the n rows.

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
    # Three parts: deviation of the model found (δ/2), its distance from the best on the sample, and
    # deviation of the best model, one fixed M (δ/2). By Hoeffding's inequality for a U-statistic of
    # order 3 the last is at most (ℓ(0) + B_X B_D) sqrt(log(2/δ) / 2⌊n/3⌋); the paper has n in place
    # of ⌊n/3⌋. As n ≤ 5⌊n/3⌋, this and the first part's 3(ℓ(0) + B_X B_D) sqrt(log(2/δ) / 2n) make
    # at most (3 + √5)/√2 < 5·¾ times (ℓ(0) + B_X B_D) sqrt(log(2/δ) / n).
    owner = "excess_risk_bound"
    n, log_n_atoms, size = _check(owner, n, scale, d, k, B_X, norm, form)
    _check_delta(owner, delta)
    loss_size = _loss_size(owner, size, loss_at_zero, form)
    confidence = 5.0 * loss_size * np.sqrt(math.log(4.0 / delta) / n)
    deviation = 2.0 * _rademacher(n, log_n_atoms, size) + confidence
    return _plain(convergence_bound(k, scale, lipschitz) + deviation)


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
    """Return how many random triplets stand for all triplets of some rows.

    With so many, drawn uniformly from all, with or without replacement, the mean loss of the drawn
    and that of all differ by at most `accuracy` for every model of the domain at once, with
    probability 1 - δ. The number does not depend on that of all triplets.

    It is ((2 B_X B_D sqrt(2 log 2d(d - 1)) + (ℓ(0) + B_X B_D) sqrt(log(2/δ) / 2)) / accuracy)².
    Where the accuracy is that of the rows themselves, `deviation_bound`, it is below n: the paper's
    remark that O(n) triplets do, here with its constant.

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
    # Given the rows, m triplets drawn with replacement are independent, and their mean loss is
    # right on average. Symmetrise, contract (the loss is 1-Lipschitz) and apply Massart's lemma to
    # the vectors of the atoms' margins, of length B_X B_D sqrt(m) at most: the largest deviation to
    # one side is on average at most 2 B_X B_D sqrt(2 log 2d(d - 1) / m). One triplet moves it by
    # (ℓ(0) + B_X B_D) / m at most, so McDiarmid's inequality, with δ/2 for each side, adds
    # (ℓ(0) + B_X B_D) sqrt(log(2/δ) / 2m). It rests on the mean of the exponential of the largest
    # deviation, a convex function of the drawn losses' sums, and such a mean is no larger without
    # replacement (Hoeffding, 1963): the same holds.
    owner = "sufficient_triplets"
    user_input.check_number(owner, "accuracy", accuracy, low=0, strict=True)
    _, log_n_atoms, size = _check(owner, 3, scale, d, None, B_X, norm, "data")
    user_input.check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    _check_delta(owner, delta)
    complexity = 2.0 * size * math.sqrt(2.0 * log_n_atoms)
    confidence = (loss_at_zero + size) * math.sqrt(math.log(2.0 / delta) / 2.0)
    return math.ceil(((complexity + confidence) / accuracy) ** 2)


# --- beside a run --------------------------------------------------------------------------------


class GapPath(NamedTuple):
    """Mean losses along a path, on the triplets learned from and on others, and the bounds.

    Attributes
    ----------
    n_iter, n_atoms : ndarray of int of shape (n_models,)
    train_risk, test_risk : ndarray of shape (n_models,)
        Mean losses.
    bound, printed_bound : ndarray of shape (n_models,)
        `deviation_bound` in the forms "data" and "printed", the latter for so many atoms.
    """

    n_iter: np.ndarray
    n_atoms: np.ndarray
    train_risk: np.ndarray
    test_risk: np.ndarray
    bound: np.ndarray
    printed_bound: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Held-out risk minus the risk on the training triplets, shape (n_models,)."""
        return self.test_risk - self.train_risk


def gap_path(
    model: Any,
    X: Any,
    X_test: Any,
    triplets_test: Any,
    *,
    n_iter: Any = None,
    delta: float = 0.05,
    B_X: float | None = None,
    norm: str = "max",
) -> GapPath:
    """Return how much worse the models of a path do on new triplets, beside what theory allows.

    Risks here are means over triplets. The paper's also count, with loss 0, three rows that make
    no triplet, so its gap is this one times the share of those that do. Its bound is for rows drawn
    independently and triplets drawn uniformly; for mined triplets it is a yardstick, no guarantee.

    Parameters
    ----------
    model : HDSL
        Fitted with the loss "smoothed_hinge" or "logistic".
    X : array-like or sparse matrix of shape (n_rows, n_features)
        The rows it was fitted on.
    X_test : array-like or sparse matrix of shape (n_test, n_features)
    triplets_test : array-like of int of shape (n_triplets, 3)
        Row numbers of X_test.
    n_iter : array-like of int, default=None
        Which models of the path; None takes some 25, evenly spread on a log scale.
    delta : float in (0, 1), default=0.05
    B_X : float or None, default=None
        None is `data_bound` of the rows of both.
    norm : {"max", "fro", "l1"}, default="max"

    Returns
    -------
    GapPath

    Examples
    --------
    >>> from hdsl import HDSL
    >>> from hdsl.datasets import make_recovery
    >>> X, triplets, *_ = make_recovery(60, 40, n_triplets=200, density=0.3, n_atoms=4,
    ...                                 block_size=10, random_state=0)
    >>> model = HDSL(scale=10.0, prior=0.0, max_iter=20).fit(X, triplets=triplets[:100])
    >>> path = gap_path(model, X, X, triplets[100:], n_iter=[1, 20])
    >>> bool((path.gap < path.bound).all())
    True
    """
    owner = "gap_path"
    check_is_fitted(model, "atoms_")
    if model.loss not in LIPSCHITZ_LOSSES:
        raise ValueError(
            f"The bounds on risks are for a loss of {' or '.join(map(repr, LIPSCHITZ_LOSSES))}, "
            f"which change no faster than the margin. Got a model with loss={model.loss!r}: fit "
            "it with one of these."
        )
    X = _matrix(X, model)
    X_test = _matrix(X_test, model, name="X_test")
    triplets_test = user_input.check_triplets(triplets_test, X_test.shape[0])
    last = len(model.trace_) - 1
    if n_iter is None:
        n_iter = np.unique(np.geomspace(1, last, 25).round().astype(int)) if last else [0]
    n_iter = _counts(owner, "n_iter", np.atleast_1d(n_iter), low=0, high=last + 1)
    both = sp.vstack([X, X_test], format="csr")
    B_X = data_bound(both, norm=norm) if B_X is None else B_X
    loss = losses.get(model.loss)
    # |⟨x, x' - x''⟩| ≤ ‖x‖ ‖x' - x''‖
    offset = model.prior_ * data_bound(both, norm="fro") if model.prior_ else 0.0
    n_atoms = model.trace_["n_atoms"][n_iter]
    settings: dict[str, Any] = {
        "delta": delta,
        "B_X": B_X,
        "norm": norm,
        "loss_at_zero": float(loss.value(np.zeros(1))[0]) + offset,
    }
    n, scale, d = X.shape[0], model.scale_, model.n_features_in_
    bound = deviation_bound(n, scale, d=d, **settings)
    test_risk = [
        loss.value(_margins(model.at(k).similarity_, X_test, triplets_test)).mean()
        for k in n_iter.tolist()
    ]
    return GapPath(
        n_iter=n_iter,
        n_atoms=n_atoms,
        train_risk=model.trace_["objective"][n_iter],
        test_risk=np.array(test_risk),
        bound=np.full(len(n_iter), bound),
        printed_bound=deviation_bound(n, scale, k=n_atoms, form="printed", **settings),
    )


def plot_gap(path: GapPath, *, ax: Any = None) -> Any:
    """Draw the held-out gap along a path under its bounds, both axes logarithmic.

    Parameters
    ----------
    path : GapPath
        Models with a gap of 0 or less are left out.
    ax : matplotlib.axes.Axes, default=None
        None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plot_gap needs matplotlib, which is not installed: pip install 'hdsl[plots]'."
        ) from error
    if ax is None:
        _, ax = plt.subplots()
    shown = path.n_iter > 0
    for values, style, label in (
        (path.bound, "-", "bound, log 2d(d - 1)"),
        (path.printed_bound, "--", "bound as printed, log k"),
        (path.gap, "o-", "held-out risk - training risk"),
    ):
        ax.plot(path.n_iter[shown], np.where(values > 0, values, np.nan)[shown], style, label=label)
    ax.set(xscale="log", yscale="log", xlabel="iterations", ylabel="difference of mean losses")
    ax.legend()
    return ax


# --- what these share ----------------------------------------------------------------------------


def _check(
    owner: str, n: Any, scale: float, d: Any, k: Any, B_X: float, norm: str, form: str
) -> tuple[Any, Any, float]:
    """Return n, the log of the number of atoms that count, and B_X B_D."""
    n = _counts(owner, "n", n, low=3)
    user_input.check_number(owner, "scale", scale, low=0, strict=True)
    user_input.check_number(owner, "B_X", B_X, low=0)
    user_input.check_word(owner, "norm", norm, NORMS)
    user_input.check_word(owner, "form", form, FORMS)
    name, what = ("d", "features") if form == "data" else ("k", "atoms")
    if {"d": d, "k": k}[name] is None:
        raise ValueError(f"{owner} needs {name}=, the number of {what}, for form={form!r}.")
    if d is not None:
        user_input.check_number(owner, "d", d, low=2, integer=True)
    if k is not None:
        k = _counts(owner, "k", k, low=1)
    size = B_X * domain_bound(scale, norm=norm)
    return n, math.log(2 * d * (d - 1)) if form == "data" else np.log(k), size


def _rademacher(n: Any, log_n_atoms: Any, size: float) -> Any:
    return 2.0 * size * np.sqrt(2.0 * log_n_atoms / (n // 3))


def _loss_size(owner: str, size: float, loss_at_zero: float, form: str) -> float:
    """Return what stands for the size of the loss in a bound."""
    user_input.check_number(owner, "loss_at_zero", loss_at_zero, low=0)
    return size if form == "printed" else max(size, 0.75 * (loss_at_zero + size))


def _check_delta(owner: str, delta: float) -> None:
    user_input.check_number(owner, "delta", delta, low=0, strict=True, high=1)


def _counts(owner: str, name: str, values: Any, *, low: int, high: int | None = None) -> Any:
    """Return one or many whole numbers as an array, each of them checked."""
    for value in np.ravel(values).tolist():
        user_input.check_number(owner, name, value, low=low, high=high, integer=True)
    return np.asarray(values)


def _plain(values: Any) -> Any:
    """Return a number as a float, many as they are."""
    return float(values) if np.ndim(values) == 0 else values


def _matrix(X: Any, model: Any = None, name: str = "X") -> sp.csr_array:
    owner = BaseEstimator() if model is None else model
    X = user_input.check_matrix(owner, X, reset=model is None, name=name)
    return sp.csr_array(X, dtype=np.float64)


def _row_sums(X: sp.csr_array) -> np.ndarray:
    return np.asarray(X.sum(axis=1)).ravel()


def _squares(X: sp.csr_array) -> np.ndarray:
    return _row_sums(X.power(2))


def _two_largest(values: np.ndarray) -> float:
    return float(np.sort(values)[-2:].sum())


def _margins(similarity: Any, X: sp.csr_array, triplets: np.ndarray) -> np.ndarray:
    """Return S(x, x') - S(x, x'') of the triplets."""
    Z = sp.csr_array(similarity.transform(X))
    a, p, q = triplets.T
    return _row_sums(Z[a] * (Z[p] - Z[q]))
