"""Rows and comparisons laid out on the machine of a model, and fits that share a layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import scipy.sparse as sp

from .. import memory
from ..cuda import runtime
from ..input.errors import warn
from ..input.matrices import used_columns
from ..rows import Rows, sparse_block
from ..similarity import Similarity
from ..similarity.fixed import parts_of_rows
from ..solver import losses, oracle, steps
from ..solver.loop import Callback, Options, Result, frank_wolfe
from ..solver.protocols import Layout
from ..supervision.compared_rows import ComparedRows
from .parameters import own_similarity
from .path import LearnedParts

if TYPE_CHECKING:
    from ..cpu.workers import Workers


#: Rows differ in length if the 95th percentile is this many times the 5th.
SPREAD = 3.0


#: Rounding that moves the objective by this share of it is visible.
VISIBLE_DRIFT = 1e-6


def row_norm(
    model: Any, X: sp.csr_array | Rows, continues: bool
) -> tuple[str | None, np.ndarray | None]:
    """Return the norm of a model that learns from X, and the columns that count in it."""
    X = sparse_block(X)
    if model.norm is None:
        warn_of_lengths(X)
        return None, None
    columns = used_columns(X)
    if continues:
        if model.columns_ is None:
            return model.norm, None
        columns = np.union1d(columns, model.columns_)
    if len(columns) == X.shape[1]:
        return model.norm, None
    return model.norm, columns


def warn_of_lengths(X: sp.csr_array) -> None:
    """Warn of rows of very different length that are compared as they are."""
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if not squares.any():
        return
    low, high = np.sqrt(np.percentile(squares[squares > 0], [5, 95]))
    if high > SPREAD * low:
        warn(
            f"Rows differ in length: 5 % are shorter than {low:.3g} and 5 % longer "
            f"than {high:.3g}. Long rows then look similar to everything: use "
            "norm='l2', or scale X."
        )


def make_layout(
    model: Any,
    data: ComparedRows,
    workers: Workers,
    *,
    columns: np.ndarray | None = None,
) -> Layout:
    """Return rows and their comparisons laid out for the fits of a model.

    `columns` are features although they may be rare or empty. NotEnoughMemory is raised
    before the work.
    """
    options: dict[str, Any] = {"workers": workers, "columns": columns}
    n_rows = data.X.shape[0]
    least = model.least_rows(n_rows)
    if least > 1:
        options["min_rows"] = least
    layout: Layout
    if model.device == "cpu":
        from ..cpu.layout import CPULayout  # compiled code is loaded by the first fit

        check_memory(model, data.X, data.compared)
        layout = CPULayout(data.X, data.compared, data.weights, **options)
    else:
        from ..cuda.layout import CUDALayout

        device = runtime.get_device(model.device)
        check_card(model, device, data.X, data.compared)
        layout = CUDALayout(
            data.X, data.compared, data.weights, device=device, **options
        )
    if layout.n_features < 2 and not isinstance(data.X, Rows):
        raise ValueError(
            "At least 2 features with a non-zero value are needed, as an atom pairs "
            f"two. The {n_rows} training rows have {layout.n_features}: give more "
            "rows."
        )
    return layout


# --- memory --------------------------------------------------------------------------


def estimate_fit(model: Any, X: sp.csr_array, compared: np.ndarray) -> Any:
    """Return the memory that a fit of a model to these comparisons takes."""
    from ..cpu.memory import estimate

    return estimate(
        sparse_block(X),
        compared,
        batch_size=model.batch_size,
        min_rows=model.least_rows(X.shape[0]),
        n_threads=int(joblib.effective_n_jobs(model.n_jobs)),
    )


def embedding_bytes(X: Any) -> int:
    """Return the bytes of an embedding at unit length, and of one times its weight."""
    if isinstance(X, Rows):
        return 2 * int(X.dense.nbytes)
    return 0


def check_memory(model: Any, X: sp.csr_array, compared: np.ndarray) -> None:
    """Refuse what cannot fit, before the work."""
    if model.memory_limit is None:
        return
    memory.check_fits(
        f"To fit {len(compared)} triplets of {X.shape[0]} rows with "
        f"{sparse_block(X).nnz} values, "
        f"{model.owner}",
        estimate_fit(model, X, compared).total + embedding_bytes(X),
        model.memory_limit,
        ("fit fewer triplets", "pass memory_limit=None to continue anyway"),
    )


def check_card(
    model: Any, device: runtime.Device, X: sp.csr_array, compared: np.ndarray
) -> None:
    """Refuse what a card has no room for, before the work."""
    from ..cuda.memory import estimate

    if model.memory_limit is None:
        return
    memory.check_fits(
        "The fit on the GPU",
        estimate(X, compared, corrects=model.step == "corrective"),
        model.memory_limit,
        ("give fewer comparisons or rows", "take device='cpu'"),
        device.free(),
    )


# --- solved --------------------------------------------------------------------------


def inside_embedding(scale: float, weight: float | None) -> dict[str, float]:
    """Return the option of a problem whose rows have an embedding times the root of its weight.

    `scale` is s for an embedding without a weight. There is no option where nothing is
    learned inside one.
    """
    if not scale or not weight:
        return {}
    return {"direction_scale": scale / weight}


def run_solver(
    problem: Any,
    model: Any,
    max_iter: int,
    *,
    are_mined: bool,
    forbidden: np.ndarray | None = None,
    **options: Any,
) -> Result:
    """Return the path of a problem up to iteration `max_iter`, as the parameters of a model say.

    Options are those of `frank_wolfe`.
    """
    limits = Options(
        model.init,
        model.batch_size,
        max_iter,
        model.tol,
        are_mined,
        forbidden=forbidden,
    )
    result = frank_wolfe(
        problem,
        oracle.ORACLES[model.oracle](),
        steps.RULES[model.step],
        limits,
        **options,
    )
    warn_of_rounding(result)
    return result


def warn_of_rounding(result: Result) -> None:
    """Warn where the model has another objective than the steps that led to it say."""
    is_close = math.isclose(
        result.objective_by_steps,
        result.objective,
        rel_tol=VISIBLE_DRIFT,
        abs_tol=1e-12,
    )
    if is_close or result.status == "interrupted":
        return
    warn(
        f"Rounding hides the objective: {result.objective_by_steps:.9g} by the steps, "
        f"{result.objective:.9g} by the model they led to. The values of X differ too "
        "much in size for the scale: give rows of like length "
        "(sklearn.preprocessing.normalize) or a smaller scale."
    )


class PartFitter:
    """Fits to one part of the data, which share a layout; what `choose` asks for.

    Attributes
    ----------
    unit : float
        The mean ‖x‖² of the anchors.
    learns : bool
        Whether a prior learns anything: there are features to pair, or a bound is given.
    can_learn_inside : bool
        Whether there is an embedding whose bound is open.
    """

    def __init__(
        self,
        model: Any,
        data: ComparedRows,
        rng: np.random.Generator,
        workers: Workers,
        embedding_weight: float | None = None,
    ) -> None:
        self.model = model
        self.data = data
        self.rng = rng
        self.workers = workers
        self.layout: Any = make_layout(model, data, workers)
        statistics = self.layout.statistics()
        self.scale = model.scale_for(statistics)
        self.unit = own_similarity(statistics)
        self.has_pairs = self.layout.n_features > 1
        self.can_learn_inside = isinstance(data.X, Rows) and model.is_scale_open
        self.embedding_weight = embedding_weight
        self.given_scale = 0.0
        if embedding_weight and model.embedding_scale != "auto":
            self.given_scale = float(model.embedding_scale) / embedding_weight
        self.learns = self.has_pairs or self.given_scale > 0.0
        self.loss = losses.checked(losses.get(model.loss))

    def with_data(self, data: ComparedRows) -> PartFitter:
        """Return the fits to other data."""
        return PartFitter(
            self.model, data, self.rng, self.workers, self.embedding_weight
        )

    def solve(
        self,
        prior: float,
        max_iter: int,
        earlier: Result | None,
        callback: Callback | None,
        inside: float = 0.0,
    ) -> Result:
        """Return the path of a prior, perhaps from the model of another one.

        With `inside` it learns inside the embedding too, up to so many times the prior.
        """
        options = {}
        if inside or self.given_scale:
            options["direction_scale"] = self.given_scale or inside * prior
        problem = self.layout.problem(self.loss, self.scale, prior, **options)
        return self.follow(problem, max_iter, earlier, callback)

    def follow(
        self,
        problem: Any,
        max_iter: int,
        earlier: Result | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the path of a problem of this layout; an interrupt is raised."""
        result = run_solver(
            problem,
            self.model,
            max_iter,
            are_mined=self.data.is_mined,
            rng=self.rng,
            earlier=earlier,
            callback=callback,
        )
        if result.status == "interrupted":  # there is no model of the user's data yet
            raise KeyboardInterrupt
        return result

    def similarity(
        self,
        atoms: np.ndarray,
        weights: np.ndarray,
        prior: float,
        vectors: np.ndarray | None = None,
        inside: float = 0.0,
    ) -> Similarity:
        """Return what a run of this prior has learned; `vectors` are those of directions."""
        fixed = parts_of_rows(self.data.X, prior)
        scale = self.given_scale or inside * prior
        parts = LearnedParts.of(atoms, weights, vectors, scale)
        return Similarity(
            parts.atoms,
            parts.weights,
            self.scale,
            fixed,
            self.data.X.shape[1],
            parts.directions,
        )
