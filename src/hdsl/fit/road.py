"""The road of a fit: checked, chosen, laid out, solved, and stored."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate.choose import (
    Choice,
    EmbeddingChoice,
    choose,
    choose_embedding_weight,
    joined_table,
)
from ..files.checkpoint import Checkpoint
from ..files.container import nested
from ..input.embeddings import check_rows
from ..input.estimators import replace_fitted
from ..input.matrices import as_problem_matrix, check_margins
from ..input.parameters import generator
from ..model_arrays import choice_from
from ..printable import Columns
from ..progress import Progress
from ..rows import Rows, unit_rows
from ..solver import losses
from ..solver.atoms import are_directions
from ..solver.loop import RestartError, Result, State
from ..solver.protocols import Layout
from ..supervision.check import check_supervision, check_validation
from ..supervision.compared_rows import ComparedRows, Miner, Supervision
from ..triplets import Judgements
from .callbacks import FitTasks, all_of
from .edits import forbidden_pairs
from .layouts import (
    PartFitter,
    check_memory,
    inside_embedding,
    make_layout,
    row_norm,
    run_solver,
)
from .parameters import (
    FitParameters,
    Settings,
    table_as_used,
    weight_in_checkpoint,
)
from .path import (
    FITTED,
    LearnedParts,
    check_same_path,
    checkpoint_hooks,
    identity_of_run,
    keep_checkpoint,
    path_so_far,
    recorded_loss,
    set_parts,
    summary,
)
from .remembered import JudgedQueries

if TYPE_CHECKING:
    from ..cpu.workers import Workers

#: The argument of ``fit`` for comparisons of so many rows.
TRIPLETS_BY_WIDTH = {3: "triplets", 4: "quadruplets"}


@dataclass(frozen=True)
class FitInput:
    """The arguments of ``fit``, ``partial_fit`` or ``score``, as they came.

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

    def __post_init__(self) -> None:
        if not isinstance(self.X, Judgements):
            return
        if self.X.X is None:
            raise ValueError(
                "These judgements have no rows: pass the rows too, fit(X, "
                "triplets=judgements)."
            )
        others = (self.y, self.triplets, self.quadruplets)
        if any(value is not None for value in others):
            raise ValueError(
                "Judgements with rows stand alone: do not pass y, triplets or "
                "quadruplets with them."
            )
        width = self.X.triplets.shape[1]
        object.__setattr__(self, TRIPLETS_BY_WIDTH[width], self.X)
        object.__setattr__(self, "X", self.X.X)

    def comparisons(self, method: str) -> Any:
        """Return the triplets or quadruplets, None with labels; ValueError without either."""
        self.check_one_kind(method)
        if self.triplets is not None and self.quadruplets is not None:
            raise ValueError(f"{method} takes triplets or quadruplets, but got both.")
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
        """Return validation data, checked, as `model` compares rows; None without them."""
        if self.X_val is None and self.triplets_val is not None:
            raise ValueError(
                "Validation data are X_val with y_val, or X_val with triplets_val. "
                "Got triplets_val. Its numbers refer to rows of X_val: pass X_val=X "
                "if they refer to rows of X."
            )
        validation = check_validation(
            data, model, self.X_val, self.y_val, self.triplets_val
        )
        if validation is None:
            return None
        X = rows_as_compared(validation.X, model.norm_, model.columns_)
        return replace(validation, X=X)


class Fit:
    """A fit on its road: what it is given, checked, then what each step finds.

    A subclass has its rows elsewhere, such as on a cluster.

    Parameters
    ----------
    model : HDSL
        Its fitted attributes change at the end, all at once, also at an interrupt or an
        error.
    given : FitInput
    continues : bool
        Whether the path of the model so far, if there is one, goes on.
    tasks : FitTasks or None
        What scikit-learn's callbacks hear.

    Attributes
    ----------
    parameters : FitParameters
    fitted : HDSL
        A copy of the model that takes the fitted attributes.
    data, validation : Supervision or None
        What is learned from, and what is chosen on.
    earlier : Result or None
        The path to continue.
    embedding : EmbeddingChoice or None
        The weight that the embedding has in the rows; None without one.
    layout : Layout
    compared : ComparedRows or None
        What is laid out; None if no single machine has it.
    settings : Settings
    table : dict of str to ndarray or None
        What was tried.
    result : Result
    """

    layout: Layout
    compared: ComparedRows | None
    settings: Settings
    table: dict[str, np.ndarray] | None
    result: Result

    def __init__(
        self,
        model: Any,
        given: FitInput,
        *,
        continues: bool,
        tasks: FitTasks | None = None,
    ) -> None:
        self.model = model
        self.given = given
        self.tasks = tasks
        self.parameters = self.check_parameters()
        self.earlier: Result | None = None
        if continues and hasattr(model, "atoms_"):
            check_same_path(model, self.parameters)
            self.earlier = path_so_far(model)
        self.fitted = copy(model)
        self.data = self.check_data()
        self.validation = given.check_validation(self.data, self.fitted)
        self.rng = generator(self.parameters.random_state)
        self.checkpoint: Any = None
        if self.parameters.checkpoint is not None:
            self.checkpoint = Checkpoint(self.parameters.checkpoint)
            self.checkpoint.begin(self.rng, self.identity())
        self.embedding: EmbeddingChoice | None = None

    def learn(self) -> Any:
        """Choose, lay out, solve and store; return the model."""
        from ..cpu.workers import Workers  # compiled code is loaded by the first fit

        with (
            Workers(self.parameters.n_jobs) as workers,
            Progress(self.parameters.verbose) as progress,
        ):
            self.find(workers, progress)
            self.store()
            progress.say(summary(self.model))
        keep_checkpoint(self.model, self.checkpoint)
        return self.model

    def find(self, workers: Workers, progress: Progress) -> None:
        """Choose, lay out and solve."""
        self.weigh_embedding(progress)
        judged = JudgedQueries.of(self)
        self.lay_out(workers, progress)
        self.solve(progress)
        self.fitted.memory_ = judged.remember(self, progress)

    # --- checked ----------------------------------------------------------------------

    def check_parameters(self) -> FitParameters:
        """Return what the fit goes by: parameters of the model and of the call, checked."""
        return FitParameters.of(
            self.model,
            checkpoint=self.given.checkpoint,
            callback=self.given.callback,
            memory_limit=self.given.memory_limit,
        )

    def check_data(self) -> Any:
        """Return what is learned from, checked; `fitted` learns the features and the norm."""
        continues = self.earlier is not None
        X = check_rows(self.fitted, self.given.X, reset=not continues)
        X = as_problem_matrix(X)
        requests = self.model.get_metadata_routing().fit.requests
        routes = any(requests.get(name) is True for name in TRIPLETS_BY_WIDTH.values())
        data = self.given.check_supervision(
            self.parameters.owner, X, routes_judgements=routes
        )
        # A function that makes triplets takes all rows, whatever they weigh.
        counted = X if callable(self.parameters.mining) else data.rows_that_count()
        self.fitted.norm_, self.fitted.columns_ = row_norm(
            self.model, counted, continues
        )
        return replace(data, X=rows_as_compared(X, self.fitted.norm_))

    def identity(self) -> dict[str, Any]:
        """Return all that the end of the run depends on, data by their digests."""
        return identity_of_run(
            self.parameters,
            self.data,
            self.validation,
            self.earlier,
            self.forbidden_pairs,
        )

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

    # --- chosen -----------------------------------------------------------------------

    def data_to_choose_on(self, rng: np.random.Generator) -> Supervision:
        """Return the data that something is chosen on: all."""
        data: Supervision = self.data
        return data

    def weigh_embedding(self, progress: Progress) -> None:
        """Make features and embedding one, by a weight; nothing without an embedding.

        The weight is that of the path that goes on, that of the checkpoint, given or
        chosen.
        """
        if not self.has_embedding:
            return
        given = self.parameters.embedding_weight
        if self.earlier is not None:
            choice = EmbeddingChoice(self.model.embedding_weight_, "as before")
        elif self.is_resumed:
            with self.checkpoint.explain_damage():
                weight = weight_in_checkpoint(self.checkpoint.arrays)
            choice = EmbeddingChoice(weight, "as before")
        elif given != "auto":
            choice = EmbeddingChoice(float(given), "as given")
        elif self.has_embedding_alone:
            choice = EmbeddingChoice(1.0, "there is nothing beside it")
        else:
            # The prior is then chosen on the same parts of the data.
            rng = np.random.default_rng(deepcopy(self.rng).integers(2**62, size=2))
            data = self.data_to_choose_on(rng)
            choice = choose_embedding_weight(
                self.parameters, data, self.validation, rng, progress
            )
            progress.say(choice.reason)
        self.embedding = choice
        self.take_weight(choice.weight)

    def take_weight(self, weight: float) -> None:
        """Give the embedding a weight: dot products are ⟨x, x'⟩ + weight·⟨z, z'⟩."""
        self.data = replace(self.data, X=weighed(self.data.X, weight))
        self.weigh_validation(weight)

    def weigh_validation(self, weight: float) -> None:
        """Give the embedding of validation rows a weight."""
        if self.validation is not None:
            X = weighed(self.validation.X, weight)
            self.validation = replace(self.validation, X=X)

    @property
    def embedding_weight(self) -> float | None:
        """The weight of the embedding; None without one."""
        if self.embedding is None:
            return None
        return self.embedding.weight

    def choose(self, workers: Workers, progress: Progress) -> Choice | None:
        """Return what is chosen on held-out data; None if nothing is open."""
        rng = np.random.default_rng(self.rng.integers(2**62, size=2))
        parameters = self.parameters
        is_open = parameters.prior == "auto" or (
            parameters.max_iter == "auto" and self.validation is not None
        )
        is_open = is_open or (self.has_embedding_alone and parameters.is_scale_open)
        if self.earlier is not None or self.is_resumed or not is_open:
            return None
        data = self.data_to_choose_on(rng)

        def start(part: ComparedRows) -> PartFitter:
            return PartFitter(parameters, part, rng, workers, self.embedding_weight)

        choice = choose(parameters, data, self.validation, rng, start, progress)
        progress.say(choice.reason)
        return choice

    # --- laid out ---------------------------------------------------------------------

    def lay_out(self, workers: Workers, progress: Progress) -> None:
        """Choose what is left open, make comparisons, lay them out, settle the numbers."""
        parameters = self.parameters
        if isinstance(self.data, ComparedRows) and parameters.device == "cpu":
            check_memory(parameters, self.data.X, self.data.compared)
        choice = self.choose(workers, progress)
        progress.stage("making comparisons")
        self.compared = self.data.compare(Miner.of(parameters), self.rng)
        _say_which_rows(self.data, self.compared, progress)
        progress.stage("laying out rows and comparisons")
        self.layout = make_layout(
            parameters, self.compared, workers, columns=self.earlier_columns()
        )
        self.settle(choice, self.compared.X)

    def earlier_columns(self) -> np.ndarray | None:
        """Return the features of the path that goes on, or None."""
        if self.earlier is None:
            return None
        is_paired = ~are_directions(self.earlier.atoms)
        return np.unique(self.earlier.atoms[is_paired, :2])

    @property
    def forbidden_pairs(self) -> np.ndarray | None:
        """The pairs that are not to be learned: those taken from the path that goes on."""
        if self.earlier is None:
            return None
        return forbidden_pairs(self.model)

    def settle(self, choice: Choice | None, margin_rows: Any) -> None:
        """Settle the numbers that the fit goes by, checked with rows that are laid out.

        They are those of the path that it continues, those of its checkpoint, or new
        ones.
        """
        if self.earlier is not None:
            self.settings = Settings.continued(self.model, self.parameters)
            self.table = getattr(self.model, "choice_", None)
        elif self.is_resumed:
            arrays = self.checkpoint.arrays
            with self.checkpoint.explain_damage():
                self.settings = Settings.in_checkpoint(arrays, self.compared)
                self.check_margins(margin_rows)
            self.table = choice_from(arrays)
            return
        else:
            statistics = self.layout.statistics()
            weight = self.embedding_weight or 0.0
            self.settings = Settings.new(self.parameters, statistics, choice, weight)
            if not self.layout.n_features and not self.settings.embedding_scale:
                # There is nothing to learn.
                self.settings = self.settings._replace(max_iter=0)
            table = table_as_used(self.parameters, statistics, choice, weight)
            self.table = joined_table(self.embedding, table)
        self.check_margins(margin_rows)

    def check_margins(self, rows: Any) -> None:
        """Raise ValueError if the margins of rows may overflow."""
        check_margins(rows, self.settings.scale, self.settings.prior)

    # --- solved -----------------------------------------------------------------------

    def solve(self, progress: Progress) -> None:
        """Solve the problem."""
        settings = self.settings
        inside = settings.embedding_scale
        if not self.layout.n_features:
            inside = inside or 1.0  # a domain has atoms, also where no step is taken
        problem = self.layout.problem(
            losses.checked(losses.get(self.parameters.loss)),
            settings.scale,
            settings.prior,
            **inside_embedding(inside, self.embedding_weight),
        )
        n_before = 0 if self.earlier is None else self.earlier.n_iter
        follow = progress.follow("learning", n_before, settings.max_iter)
        are_mined = not isinstance(self.data, ComparedRows)
        listener = None
        if self.tasks is not None:
            listener = self.tasks.follow(self._attributes_at)
        try:
            self.result = run_solver(
                problem,
                self.parameters,
                settings.max_iter,
                are_mined=are_mined,
                forbidden=self.forbidden_pairs,
                rng=self.rng,
                earlier=self.earlier,
                restarts=checkpoint_hooks(self.checkpoint, self._saved()),
                callback=all_of(follow, self.parameters.callback, listener),
            )
        except RestartError as error:
            with self.checkpoint.explain_damage():
                raise ValueError(str(error)) from None
        self.fitted.n_triplets_ = problem.n_comparisons

    def _saved(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint holds beside the run."""
        saved = {"size": self.settings.as_array(self.compared)}
        saved |= nested(choice=self.table or {})
        if self.embedding is not None:
            saved |= {"embedding_weight": np.array([self.embedding.weight])}
        return saved

    def _attributes_at(self, state: State) -> dict[str, Any]:
        """Return the fitted attributes that a model has at a state of the run."""
        fitted = {
            name: value for name, value in vars(self.fitted).items() if name[-1] == "_"
        }
        parts = LearnedParts.of(
            state.atoms, state.weights, state.directions, self.settings.embedding_scale
        )
        return fitted | {
            "atoms_": parts.atoms,
            "weights_": parts.weights,
            "directions_": parts.directions,
            "scale_": self.settings.scale,
            "prior_": self.settings.prior,
            "embedding_weight_": self.embedding_weight,
            "n_iter_": state.n_iter,
        }

    # --- stored -----------------------------------------------------------------------

    def store(self) -> None:
        """Replace the fitted attributes of the model, all at once, also at an interrupt."""
        try:
            self.write()
        except KeyboardInterrupt:
            self.result = replace(self.result, status="interrupted")
            self.write()
        replace_fitted(self.model, self.fitted)

    def write(self) -> None:
        """Write what was found into the fitted attributes of `fitted`."""
        fitted = self.fitted
        for name in FITTED:
            setattr(fitted, name + "_", getattr(self.result, name))
        fitted.scale_ = self.settings.scale
        fitted.prior_ = self.settings.prior
        fitted.ranking_ = self.settings.ranking
        fitted.embedding_weight_ = self.embedding_weight
        fitted.embedding_scale_ = None
        if self.embedding is not None:
            fitted.embedding_scale_ = self.settings.embedding_scale
        fitted.path_directions_ = self.result.directions
        set_parts(fitted, self.result.atoms, self.result.weights)
        fitted.choice_ = None
        if self.table is not None:
            fitted.choice_ = Columns(self.table)
        fitted.loss_ = recorded_loss(self.parameters.loss)
        fitted.forbidden_pairs_ = self.forbidden_pairs


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


def _say_which_rows(
    data: Supervision, compared: ComparedRows, progress: Progress
) -> None:
    """Say how many rows are compared, where not all are."""
    n_all = data.X.shape[0]
    n_compared = compared.X.shape[0]
    if n_compared == n_all:
        return
    n_weighted = n_all
    if data.weights is not None:
        n_weighted = np.count_nonzero(data.weights)
    why = "max_anchors" if n_compared < n_weighted else "sample_weight"
    progress.say(f"{n_compared} of {n_all} rows are compared: {why}")
