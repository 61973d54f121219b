"""What a fit is given, as it came and checked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate.choose import EmbeddingChoice
from ..files.checkpoint import Checkpoint
from ..input.embeddings import check_rows
from ..input.matrices import as_problem_matrix
from ..input.parameters import generator
from ..progress import Progress
from ..rows import Rows, unit_rows
from ..solver.atoms import are_directions
from ..solver.loop import Result, State
from ..supervision.check import check_supervision, check_validation
from ..supervision.compared_rows import ComparedRows, Miner, Supervision
from ..triplets import Judgements
from .fit_tasks import FitTasks
from .layouts import LaidOut, make_layout, row_norm
from .memory import check_memory
from .parameters import FitParameters
from .path import check_same_path, path_so_far
from .resume import identity_of_run

if TYPE_CHECKING:
    from ..cpu.workers import Workers

#: The argument of ``fit`` for comparisons of so many rows.
TRIPLETS_BY_WIDTH = {3: "triplets", 4: "quadruplets"}


@dataclass(frozen=True)
class FitInput:
    """The arguments of ``fit`` or ``partial_fit``, as they came.

    Judgements that come whole are the rows, and the triplets or quadruplets.
    """

    X: Any
    y: Any = None
    triplets: Any = None
    quadruplets: Any = None
    sample_weight: Any = None
    groups: Any = None
    X_val: Any = None
    y_val: Any = None
    triplets_val: Any = None
    checkpoint: Any = None
    callback: Callable[[State], bool | None] | None = None
    memory_limit: float | str | None = "auto"
    tasks: FitTasks | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.X, Judgements):
            return
        if self.X.X is None:
            raise ValueError(
                "These judgements have no rows: pass them beside their rows, fit(X, "
                "triplets=judgements)."
            )
        others = (self.y, self.triplets, self.quadruplets)
        if any(value is not None for value in others):
            raise ValueError(
                "Judgements with rows are all that fit learns from: pass no y, "
                "triplets or quadruplets beside them."
            )
        width = self.X.triplets.shape[1]
        object.__setattr__(self, TRIPLETS_BY_WIDTH[width], self.X)
        object.__setattr__(self, "X", self.X.X)

    def parameters_of(self, model: Any) -> FitParameters:
        """Return what the fit of a model goes by, checked."""
        return FitParameters.of(
            model,
            checkpoint=self.checkpoint,
            callback=self.callback,
            memory_limit=self.memory_limit,
        )

    def comparisons(self, method: str) -> Any:
        """Return the triplets or quadruplets, None with labels; ValueError without either."""
        self.check_one_kind(method)
        if self.triplets is not None:
            return self.triplets
        if self.quadruplets is None and self.y is None:
            raise ValueError(f"{method} needs labels y, triplets or quadruplets.")
        return self.quadruplets

    def check_one_kind(self, method: str) -> None:
        """Raise ValueError for labels and judgements at once."""
        judgements = {"triplets": self.triplets, "quadruplets": self.quadruplets}
        passed = [name for name, value in judgements.items() if value is not None]
        if self.y is not None and passed:
            raise ValueError(
                f"{method} takes labels or judgements, but got y and "
                f"{' and '.join(passed)}: leave out y or {passed[0]}."
            )

    def check_supervision(
        self, estimator_name: str, X: Any, *, routes_judgements: bool = False
    ) -> Any:
        """Return labels or comparisons of the rows X, checked.

        A pipeline passes y to all its steps: beside judgements that are routed to this
        one it is for the others.
        """
        if not routes_judgements:
            self.check_one_kind("fit")
        return check_supervision(
            estimator_name,
            X,
            self.y,
            triplets=self.triplets,
            quadruplets=self.quadruplets,
            sample_weight=self.sample_weight,
            groups=self.groups,
        )

    def check_validation(self, data: Any, model: Any) -> Any:
        """Return validation data, checked, as `model` compares rows; None where there are none."""
        if self.X_val is None and self.triplets_val is not None:
            raise ValueError(
                "Validation data are X_val with y_val, or X_val with triplets_val. Got "
                "triplets_val. Its numbers are of rows of X_val: pass X_val=X where they "
                "are of rows of X."
            )
        validation = check_validation(
            data, model, self.X_val, self.y_val, self.triplets_val
        )
        if validation is None:
            return None
        X = rows_as_compared(validation.X, model.norm_, model.columns_)
        return replace(validation, X=X)


@dataclass(frozen=True)
class CheckedInput:
    """What a fit begins with, checked.

    Parameters
    ----------
    data : Supervision
    validation : Supervision or None
    rng : numpy.random.Generator
    earlier : Result or None
        The path to continue.
    checkpoint : Checkpoint or None
    learned : HDSL
        A copy of the model that knows the features of X, and takes what is learned.
    embedding : EmbeddingChoice or None
        The weight that the embedding has in the rows; None without an embedding.
    tasks : FitTasks or None
        What scikit-learn's callbacks hear; None where there are none.
    parameters : FitParameters
    """

    data: Any
    validation: Any
    rng: np.random.Generator
    earlier: Result | None
    checkpoint: Any
    learned: Any
    embedding: EmbeddingChoice | None = field(default=None, kw_only=True)
    tasks: FitTasks | None = field(default=None, kw_only=True)
    parameters: FitParameters = field(kw_only=True)

    def with_embedding(self, embedding: EmbeddingChoice) -> CheckedInput:
        """Return the same with rows whose embedding has its weight.

        Their dot products are ⟨x, x'⟩ + weight·⟨z, z'⟩.
        """
        data = replace(self.data, X=weighed(self.data.X, embedding.weight))
        validation = self.validation
        if validation is not None:
            X = weighed(validation.X, embedding.weight)
            validation = replace(validation, X=X)
        return replace(self, data=data, validation=validation, embedding=embedding)

    def choice_data(self, rng: np.random.Generator) -> Supervision:
        """Return what is known of rows on this machine, to choose by."""
        return self.data

    def explain_loss(self) -> AbstractContextManager[Any]:
        """Return a context in which an error says what was lost of the machines of a run."""
        return nullcontext()

    def check_memory(self) -> None:
        """Raise NotEnoughMemory before any work, where comparisons are known already."""
        if isinstance(self.data, ComparedRows) and self.parameters.device == "cpu":
            check_memory(self.parameters, self.data.X, self.data.compared)

    def lay_out(self, workers: Workers, progress: Progress) -> LaidOut:
        """Make comparisons, and lay them out."""
        progress.stage("making comparisons")
        data = self.data.compare(Miner.of(self.parameters), self.rng)
        self._say_which_rows(data, progress)
        progress.stage("laying out rows and comparisons")
        layout = make_layout(
            self.parameters, data, workers, columns=self.earlier_features
        )
        return LaidOut(layout, data, data.X)

    def _say_which_rows(self, compared: ComparedRows, progress: Progress) -> None:
        """Say how many rows are compared, where not all are."""
        n_all = self.data.X.shape[0]
        n_compared = compared.X.shape[0]
        if n_compared == n_all:
            return
        n_weighted = n_all
        if self.data.weights is not None:
            n_weighted = np.count_nonzero(self.data.weights)
        why = "max_anchors" if n_compared < n_weighted else "sample_weight"
        progress.say(f"{n_compared} of {n_all} rows are compared: {why}")

    @property
    def earlier_features(self) -> np.ndarray | None:
        """The features of the path that goes on, or None."""
        if self.earlier is None:
            return None
        is_paired = ~are_directions(self.earlier.atoms)
        return np.unique(self.earlier.atoms[is_paired, :2])

    @property
    def has_embedding(self) -> bool:
        """Whether rows have an embedding beside their features."""
        return isinstance(self.data.X, Rows)

    @property
    def has_embedding_alone(self) -> bool:
        """Whether rows are an embedding without features."""
        return self.has_embedding and not self.data.X.sparse.shape[1]

    @property
    def is_resumed(self) -> bool:
        """Whether the run goes on from a checkpoint."""
        return self.checkpoint is not None and self.checkpoint.arrays is not None


def _routes_judgements(model: Any) -> bool:
    """Whether `model` asks for judgements by ``set_fit_request``."""
    requests = model.get_metadata_routing().fit.requests
    return any(requests.get(name) is True for name in TRIPLETS_BY_WIDTH.values())


def check_input(model: Any, fit_input: FitInput, continues: bool) -> CheckedInput:
    """Check what a fit is given; `continues` is whether the path so far goes on."""
    parameters = fit_input.parameters_of(model)
    earlier = earlier_path(model, parameters, continues)
    learned = copy(model)
    X = as_problem_matrix(check_rows(learned, fit_input.X, reset=earlier is None))
    data = fit_input.check_supervision(
        type(model).__name__, X, routes_judgements=_routes_judgements(model)
    )
    # A function that makes triplets takes all rows, whatever they weigh.
    counted_rows = X if callable(parameters.mining) else data.rows_that_count()
    norm, columns = row_norm(model, counted_rows, earlier is not None)
    learned.norm_ = norm
    learned.columns_ = columns
    data = replace(data, X=rows_as_compared(X, norm))
    validation = fit_input.check_validation(data, learned)
    rng = generator(parameters.random_state)
    checkpoint = open_checkpoint(parameters)
    if checkpoint is not None:
        checkpoint.begin(rng, identity_of_run(parameters, data, validation, earlier))
    return CheckedInput(
        data,
        validation,
        rng,
        earlier,
        checkpoint,
        learned,
        tasks=fit_input.tasks,
        parameters=parameters,
    )


def rows_as_compared(
    X: Any, norm: str | None, columns: np.ndarray | None = None
) -> Any:
    """Return rows as a fit compares them; an embedding is at unit length in any case."""
    if isinstance(X, Rows):
        features = rows_as_compared(X.sparse, norm, columns)
        return Rows(features, unit_rows(X.dense))
    if norm is None:
        return X
    return unit_rows(X, columns)


def weighed(X: Rows, weight: float) -> Any:
    """Return rows with a weight of their embedding; one of weight 0 is left out."""
    if weight == 0.0:
        return X.sparse
    return X.with_embedding_weight(weight)


def earlier_path(
    model: Any, parameters: FitParameters, continues: bool
) -> Result | None:
    """Return the path to continue, checked; None where a path begins."""
    if not continues or not hasattr(model, "atoms_"):
        return None
    check_same_path(model, parameters)
    return path_so_far(model)


def open_checkpoint(parameters: FitParameters) -> Checkpoint | None:
    """Return the checkpoint that a fit names, or None."""
    if parameters.checkpoint is None:
        return None
    return Checkpoint(parameters.checkpoint)
