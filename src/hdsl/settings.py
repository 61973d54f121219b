"""Solver and Mining: parameters of `hdsl.HDSL` that belong together."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np
from sklearn.base import BaseEstimator

from .input.errors import ParameterError

Parameters = ParamSpec("Parameters")


class Solver(BaseEstimator):
    """How the problem of a fit is solved: ``HDSL(solver=Solver(max_iter=30))``.

    A grid search reaches each parameter by its name, such as ``solver__max_iter``.

    Parameters
    ----------
    step : {"corrective", "away", "forward", "pairwise", "blended"}, default="corrective"
        The kind of Frank-Wolfe step. A corrective step adds up to a few hundred atoms
        and changes all weights at once. The others change one or two weights: "away" is
        the paper's (forward or away, whichever is steeper), "forward" has forward steps
        only, "pairwise" moves weight between two atoms, and "blended" has lazy blended
        pairwise steps. They need hundreds of iterations: set `max_iter`.
    oracle : {"ascent", "heuristic", "exact"}, default="ascent"
        How the next atom is found: alternating maximisation from several starts, the
        paper's heuristic, or a search of all feature pairs.
    init : {"zero", "oracle", "random"}, default="zero"
        Start of the path. "zero" starts at M = 0, the prior alone; weights sum to at
        most 1, so that the scale is an upper bound of the learned part. The others use
        the paper's domain, with weights that sum to 1: the path starts from the atom
        that the oracle picks at M = 0, or from a random one.
    batch_size : int or None, default=None
        Number of comparisons, drawn anew in each iteration without replacement, that
        the next atoms are chosen by. None uses all.
    max_iter : int or "auto", default=15
        Maximum number of iterations. To reach it is normal; ``status_`` says so. "auto"
        is chosen after the prior from 5, 10, 15, 20 and 30: the smallest within one
        standard error of the best. It is 15 if the prior is given and there are no
        validation data.
    tol : float >= 0, default=1e-3
        Stop when the duality gap is at most this. If the oracle is not "exact", an
        exact search confirms the gap first, unless it costs more than 2e11
        multiplications (minutes at worst, milliseconds as a rule). Each failed check
        doubles the wait before the next.
    """

    def __init__(
        self,
        step: str = "corrective",
        *,
        oracle: str = "ascent",
        init: str = "zero",
        batch_size: int | None = None,
        max_iter: int | str = 15,
        tol: float = 1e-3,
    ) -> None:
        self.step = step
        self.oracle = oracle
        self.init = init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol

    @classmethod
    def of(cls, value: Solver | None) -> Solver:
        """Return the ``solver`` parameter of a model as a Solver: None is the default."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        raise ParameterError("HDSL", "solver", "a Solver", repr(value), " or None")


class Mining(BaseEstimator):
    """How ``fit(X, y)`` makes triplets from labels: ``HDSL(mining=Mining(n_targets=3))``.

    A grid search reaches each parameter by its name, such as ``mining__n_targets``.

    Parameters
    ----------
    how : {"neighbors", "random"} or callable, default="neighbors"
        Target neighbours times impostors by dot product, random ones by label, or a
        function (X, y, rng) -> array of shape (n_triplets, 3).
    n_targets, n_impostors : int, default=10
        Neighbours per row for "neighbors"; "random" draws n_targets * n_impostors
        triplets per row.
    max_anchors : int or None, default=20000
        Maximum number of rows to make triplets from. Larger data are sampled,
        stratified by class. None uses all rows.
    """

    def __init__(
        self,
        how: str | Callable[..., np.ndarray] = "neighbors",
        *,
        n_targets: int = 10,
        n_impostors: int = 10,
        max_anchors: int | None = 20_000,
    ) -> None:
        self.how = how
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.max_anchors = max_anchors

    @classmethod
    def of(cls, value: Mining | str | Callable[..., np.ndarray] | None) -> Mining:
        """Return the ``mining`` parameter of a model as a Mining: None is the default."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        is_word_or_function = isinstance(value, str) or callable(value)
        if is_word_or_function and not isinstance(value, type):
            return cls(value)
        wanted = "'neighbors', 'random', a callable (X, y, rng), a Mining"
        raise ParameterError("HDSL", "mining", wanted, repr(value), " or None")


#: The parameters of `HDSL` that hold a Solver or a Mining.
NESTED: dict[str, Any] = {"solver": Solver, "mining": Mining}


def flat_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of a model and of its solver and mining side by side.

    ``Mining.how`` has the name "mining". A model file has these names.
    """
    flat: dict[str, Any] = model.get_params(deep=False)
    solver = Solver.of(flat.pop("solver"))
    mining = Mining.of(flat.pop("mining")).get_params(deep=False)
    flat |= solver.get_params(deep=False)
    flat["mining"] = mining.pop("how")
    return flat | mining


def nested_parameters(**flat: Any) -> dict[str, Any]:
    """Return flat parameters as those of `HDSL`; the opposite of `flat_parameters`.

    Examples
    --------
    >>> nested_parameters(prior=2.0, max_iter=5, mining="random")
    {'prior': 2.0, 'solver': Solver(max_iter=5), 'mining': Mining(how='random')}
    """
    nested = dict(flat)
    of_solver = _take(nested, Solver)
    if "mining" in nested:
        nested["how"] = nested.pop("mining")
    of_mining = _take(nested, Mining)
    if of_solver:
        nested["solver"] = Solver(**of_solver)
    if of_mining:
        nested["mining"] = Mining(**of_mining)
    return nested


def _take(parameters: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Take the parameters of a class out of others."""
    names = kind().get_params(deep=False)
    return {name: parameters.pop(name) for name in names if name in parameters}


# --- former names ---------------------------------------------------------------------

#: Former parameters of `HDSL`, and what to pass now.
FORMER = {
    **{
        name: f"{group}={kind.__name__}({name}=...), or in a grid {group}__{name}"
        for group, kind in (("solver", Solver), ("mining", Mining))
        for name in kind().get_params()
    },
    **{name: f"{name}= to fit" for name in ("checkpoint", "callback", "memory_limit")},
}


def without_former_names(
    init: Callable[Parameters, None],
) -> Callable[Parameters, None]:
    """Return a constructor of a model that says where a former parameter went."""

    @wraps(init)
    def checked(*args: Parameters.args, **parameters: Parameters.kwargs) -> None:
        for name in parameters:
            if name in FORMER:
                raise TypeError(f"HDSL has no parameter {name!r}: pass {FORMER[name]}.")
        init(*args, **parameters)

    return checked
