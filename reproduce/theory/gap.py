"""The held-out gap of a run, beside its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from hdsl.input.labels import check_comparisons
from hdsl.solver import losses

from .generalization import deviation_bound
from .inputs import check_counts, check_rows, row_sums
from .sizes import data_bound

if TYPE_CHECKING:
    from hdsl import HDSL

#: Losses whose derivative is at most 1 in size, as the bounds on risks assume.
LIPSCHITZ_LOSSES = ("smoothed_hinge", "logistic")


class GapPath(NamedTuple):
    """Mean losses along a path, on training and held-out triplets, and the bounds.

    Attributes
    ----------
    n_iter, n_atoms : ndarray of int of shape (n_models,)
    train_risk, test_risk : ndarray of shape (n_models,)
        Mean losses.
    bound, printed_bound : ndarray of shape (n_models,)
        `deviation_bound` in the forms "data" and "printed", the latter for k =
        `n_atoms`, and for k = 1 where there are no atoms.
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
    model: HDSL,
    X: Any,
    X_test: Any,
    triplets_test: Any,
    *,
    n_iter: Any = None,
    delta: float = 0.05,
    B_X: float | None = None,
    norm: str = "max",
) -> GapPath:
    """Return how much worse the models of a path do on new triplets, and the bounds on that gap.

    Risks here are means over triplets. The paper also counts, with loss 0, three rows
    that make no triplet, so its gap is this one times the share of those that do. Its
    bound is for rows drawn independently and triplets drawn uniformly. For mined
    triplets it guarantees nothing.

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
        Which models of the path; None takes about 25, evenly spread on a log scale.
    delta : float in (0, 1), default=0.05
    B_X : float or None, default=None
        None is `data_bound` of the rows of both, as the model compares them: at unit
        length with ``norm="l2"``.
    norm : {"max", "fro", "l1"}, default="max"
        Norm of `data_bound`, not that of the model.

    Returns
    -------
    GapPath

    Examples
    --------
    >>> from hdsl import HDSL, Solver
    >>> from reproduce.datasets import make_recovery
    >>> X, triplets, *_ = make_recovery(60, 40, n_triplets=200, density=0.3, n_atoms=4,
    ...                                 block_size=10, random_state=0)
    >>> model = HDSL(10.0, prior=0.0, solver=Solver("away", max_iter=20))
    >>> model = model.fit(X, triplets=triplets[:100])
    >>> path = gap_path(model, X, X, triplets[100:], n_iter=[0, 1, 10])
    >>> path.n_atoms[:2].tolist()
    [0, 1]
    >>> bool((path.gap < path.bound).all())
    True
    """
    owner = "gap_path"
    check_is_fitted(model, "atoms_")
    if model.loss not in LIPSCHITZ_LOSSES:
        raise ValueError(
            "gap_path needs a model with loss "
            f"{' or '.join(map(repr, LIPSCHITZ_LOSSES))}, which change no faster than "
            f"the margin. Got loss={model.loss!r}. Fit the model with one of these."
        )
    X = check_rows(X, model)
    X_test = check_rows(X_test, model, name="X_test")
    triplets_test = check_comparisons(triplets_test, X_test.shape[0], width=3)
    last = len(model.trace_) - 1
    if n_iter is None and last == 0:
        n_iter = [0]
    elif n_iter is None:
        n_iter = np.unique(np.geomspace(1, last, 25).round().astype(int))
    n_iter = check_counts(owner, "n_iter", np.atleast_1d(n_iter), low=0, high=last + 1)
    both = sp.csr_array(model.index_rows(sp.vstack([X, X_test], format="csr")))
    if B_X is None:
        B_X = data_bound(both, norm=norm)
    loss = losses.get(model.loss)
    offset = 0.0
    if model.prior_:  # |⟨x, x' - x''⟩| ≤ ‖x‖ ‖x' - x''‖
        offset = model.prior_ * data_bound(both, norm="fro")
    n_atoms = model.trace_["n_atoms"][n_iter]
    settings: dict[str, Any] = {
        "delta": delta,
        "B_X": B_X,
        "norm": norm,
        "loss_at_zero": float(loss.value(np.zeros(1))[0]) + offset,
    }
    n = X.shape[0]
    scale = model.scale_
    d = model.n_features_in_
    bound = deviation_bound(n, scale, d=d, **settings)
    test_risk = [
        loss.value(_margins(model.at(k), X_test, triplets_test)).mean()
        for k in n_iter.tolist()
    ]
    return GapPath(
        n_iter=n_iter,
        n_atoms=n_atoms,
        train_risk=model.trace_["objective"][n_iter],
        test_risk=np.array(test_risk),
        bound=np.full(len(n_iter), bound),
        printed_bound=deviation_bound(
            n, scale, k=np.maximum(n_atoms, 1), form="printed", **settings
        ),
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
            "plot_gap needs matplotlib, which is not installed: pip install "
            "'hdsl[plots]'."
        ) from error
    if ax is None:
        _, ax = plt.subplots()
    shown = path.n_iter > 0
    for values, style, label in (
        (path.bound, "-", "bound, log 2d(d - 1)"),
        (path.printed_bound, "--", "bound as printed, log k"),
        (path.gap, "o-", "held-out risk - training risk"),
    ):
        ax.plot(
            path.n_iter[shown],
            np.where(values > 0, values, np.nan)[shown],
            style,
            label=label,
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="iterations",
        ylabel="difference of mean losses",
    )
    ax.legend()
    return ax


def _margins(model: HDSL, X: sp.csr_array, triplets: np.ndarray) -> np.ndarray:
    """Return S(x, x') - S(x, x'') of the triplets."""
    Z = sp.csr_array(model.transform(X))
    a, p, q = triplets.T
    return row_sums(Z[a] * (Z[p] - Z[q]))
