"""One fit: make comparisons, solve, score the path, and mine again where asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import joblib
import numpy as np
import scipy.sparse as sp

from . import automatic, checks, memory, monitor
from . import triplets as triplets_module
from .callbacks import Tasks
from .cuda import runtime
from .files.checkpoint import Checkpoint, digest
from .mining import Compared, Mining, joined
from .monitor import Monitor
from .parameters import recorded_parameters
from .progress import Progress
from .rows import stored_rows
from .similarity import Similarity
from .solver import losses, oracle, steps
from .solver.loop import Callback, Options, Result, State, frank_wolfe, stored_result
from .solver.protocols import Layout
from .solver.snapshot import Arrays, SnapshotError, Snapshots, nested, part_of
from .solver.trace import NO_CORRECTIONS
from .supervision import Supervision

if TYPE_CHECKING:
    from .cpu.memory import MemoryEstimate
    from .cpu.regions import RegionLayout
    from .cpu.workers import Workers
    from .hdsl import HDSL


class Learned(NamedTuple):
    """What a fit found."""

    result: Result
    scores: Monitor | None
    scale: float
    prior: float
    n_comparisons: int
    is_refit: bool = False  # the scores are those of a run on fewer rows, which chose the length
    local: Any = None  # what a fit with regions found besides M


@dataclass
class Stage:
    """What a run goes by from one mining to the next."""

    compared: np.ndarray
    weights: np.ndarray | None
    result: Result | None  # the run that this one continues
    scale: float = np.nan
    prior: float = np.nan
    is_first: bool = True  # its comparisons are made anew by whoever resumes

    @cached_property
    def mined(self) -> str:
        """A digest of the first comparisons."""
        return digest(self.compared, self.weights)["sha256"]

    @property
    def n_iter(self) -> int:
        """Number of iterations so far."""
        return 0 if self.result is None else self.result.n_iter

    def snapshot(self) -> Arrays:
        """Return the stage as arrays."""
        arrays = {
            "mined": np.frombuffer(self.mined.encode(), np.uint8),
            "size": np.array([self.scale, self.prior]),
        }
        if self.is_first or self.result is None:
            return arrays
        arrays |= {
            "triplets": self.compared,
            "atoms": self.result.atoms,
            "atom_weights": self.result.weights,
            "trace": self.result.trace,
            "n_iter": np.array(self.result.n_iter),
        }
        if len(self.result.corrections):
            arrays["corrections"] = self.result.corrections
        return arrays if self.weights is None else {**arrays, "weights": self.weights}

    def restore(self, arrays: Arrays, shape: tuple[int, int]) -> None:
        """Become the stage of a snapshot; raise ValueError where the arrays are not one."""
        if arrays["mined"].tobytes() != self.mined.encode():
            raise ValueError("`mining` gave other triplets than when the run began.")
        self.scale, self.prior = stored_sizes(arrays)
        if "triplets" not in arrays:
            return
        n_rows, n_features = shape
        self.compared = checks.check_triplets(arrays["triplets"], n_rows)
        n_compared = len(self.compared)
        self.weights = checks.check_weights(arrays.get("weights"), n_compared, "triplet")
        if arrays["n_iter"].shape != () or arrays["n_iter"].dtype != np.int64:
            raise ValueError("'n_iter' is not a number of iterations.")
        self.result = stored_result(
            arrays["atoms"],
            arrays["atom_weights"],
            arrays["trace"],
            arrays.get("corrections", NO_CORRECTIONS),
            int(arrays["n_iter"]),
            n_features,
        )
        self.is_first = False


class Fit:
    """The fit of a model to checked data.

    Parameters
    ----------
    model : HDSL
        Holds the parameters; it is not changed.
    supervision : Supervision
    validation : Supervision or None
        Chooses the model of the path.
    rng : numpy.random.Generator
    earlier : Result, default=None
        The path to continue.
    checkpoint : Checkpoint, default=None
    layout : Layout, default=None
        The rows and comparisons laid out, where several fits share them.

    Attributes
    ----------
    limit : int
        The last iteration.
    found : dict of str to ndarray or None
        The snapshot to resume from.
    saved_too : dict of str to dict of str to ndarray
        Parts that snapshots hold besides those of the run.
    """

    n_runs = 1

    def __init__(
        self,
        model: HDSL,
        supervision: Supervision,
        validation: Supervision | None,
        rng: np.random.Generator,
        *,
        earlier: Result | None = None,
        checkpoint: Checkpoint | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.model, self.supervision, self.validation = model, supervision.draw(rng), validation
        self.rng, self.earlier, self.checkpoint = rng, earlier, checkpoint
        self.mine = Mining.of(model)
        is_labelled = not supervision.is_judged
        self.mines_again = (
            model.mine_every is not None and model.mining == "neighbors" and is_labelled
        )
        self.shared_layout = layout
        self.limit = model.max_iter + (0 if earlier is None else earlier.n_iter)
        self.found = None if checkpoint is None else checkpoint.arrays
        self.saved_too: dict[str, Arrays] = {}

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Mine and solve, again and again where `mine_every` says so."""
        stage = Stage(*self.mine(self.supervision, self.rng), self.earlier)
        found = self.found
        if self.checkpoint is not None and found is not None:
            with self.checkpoint.explain_damage():
                stage.restore(part_of(found, "stage"), self.supervision.rows.shape)
        layout = self.shared_layout
        if layout is None:
            layout = self.layout(stage.compared, stage.weights, stage.result, workers)
        if found is None:
            stage.scale, stage.prior = self.scale_and_prior(layout)
        checks.check_margins(self.supervision.rows, stage.scale, stage.prior)
        scores = self.make_monitor(stage)
        resume_from = None if found is None else part_of(found, "run")
        loss, result = losses.checked(losses.get(self.model.loss)), None
        try:
            while True:
                problem = layout.problem(loss, stage.scale, stage.prior)
                stop = self.limit
                if self.mines_again and self.model.mine_every is not None:
                    stop = min(self.limit, stage.n_iter + self.model.mine_every)
                with self.damage_explained():
                    result = frank_wolfe(
                        problem,
                        oracle.ORACLES[self.model.oracle](),
                        steps.RULES[self.model.step],
                        self.options(stop),
                        rng=self.rng,
                        callback=all_of(
                            scores,
                            progress.follow(max(self.limit, 1), scores),
                            tasks.follow(stage.scale, stage.prior),
                            self.model.callback,
                        ),
                        earlier=stage.result,
                        snapshots=self.snapshots(resume_from, stage, scores),
                    )
                resume_from = None
                if stop == self.limit:
                    break
                more = self.mine_again(stage, result, workers)
                if more is None:
                    break
                layout, stage.compared, stage.weights = more
                stage.result, stage.is_first = result, False
            if scores is not None:
                scores.add_model(result)
        except KeyboardInterrupt:
            if result is None:  # nothing is learned yet
                raise
            result = replace(result, status="interrupted")
        return Learned(result, scores, stage.scale, stage.prior, len(stage.compared))

    def options(self, max_iter: int) -> Options:
        """Return how the solver runs up to an iteration."""
        model = self.model
        size = steps.STEP_SIZES[model.step_size]
        return Options(size, model.init, model.batch_size, max_iter, model.tol)

    def scale_and_prior(self, layout: Layout) -> tuple[float, float]:
        """Return the two numbers as given, of the path so far, or the automatic ones."""
        model = self.model
        if self.earlier is not None:
            return model.scale_, model.prior_
        return chosen_sizes(model.scale, model.prior, layout)

    def layout(
        self,
        compared: np.ndarray,
        weights: np.ndarray | None,
        result: Result | None,
        workers: Workers,
    ) -> Layout:
        """Return the rows and comparisons laid out, with the features of the path so far."""
        columns = None if result is None else np.unique(result.atoms[:, :2])
        data = replace(self.supervision, compared=compared, compared_weights=weights)
        return make_layout(self.model, data, workers, columns)

    def mine_again(
        self, stage: Stage, result: Result, workers: Workers
    ) -> tuple[Layout, np.ndarray, np.ndarray | None] | None:
        """Return the comparisons with new ones, mined under the model so far; None to stop."""
        if result.status not in ("max_iter", "optimal", "no_violation"):
            return None
        n_features = self.supervision.X.shape[1]
        model = Similarity(result.atoms, result.weights, stage.scale, stage.prior, n_features)
        try:
            mined = self.mine(self.supervision, self.rng, model)
            compared: Compared = joined((stage.compared, stage.weights), mined)
            if len(compared[0]) == len(stage.compared) and result.status != "max_iter":
                return None
            return self.layout(*compared, result, workers), *compared
        except (MemoryError, runtime.BrokenDeviceError) as error:  # what is learned stays
            warnings.warn(f"Mining again was given up: {error}", UserWarning, stacklevel=6)
            return None

    # --- scores along the path -------------------------------------------------------------------

    def make_monitor(self, stage: Stage) -> Monitor | None:
        """Return what scores the models of the path, None where there is no validation."""
        if self.validation is None:
            return None
        n_features = self.supervision.X.shape[1]
        patience = self.model.n_iter_no_change
        scores = Monitor(self.score(), stage.scale, stage.prior, n_features, patience)
        if not self.resume_scores(scores) and self.earlier is not None:
            scores.add_model(self.earlier)
        return scores

    def resume_scores(self, scores: Monitor) -> bool:
        """Give a monitor the scores of the snapshot that the run begins with, if there is one."""
        if self.checkpoint is None or self.found is None:
            return False
        with self.checkpoint.explain_damage():
            scores.restore(part_of(self.found, "scores"))
        return True

    def score(self) -> monitor.Score:
        """Return what models are scored by: the user's function, labels or comparisons."""
        validation, supervision = self.validation, self.supervision
        assert validation is not None
        if self.model.scoring is not None:
            scoring = self.model.scoring
            truth = validation.compared if validation.is_judged else validation.y
            return lambda found: monitor.Estimate(
                float(scoring(self.scored_model(found), validation.X, truth))
            )
        if validation.is_judged:
            return monitor.triplet_score(
                validation.X, validation.compared, validation.compared_weights
            )
        # Equal rows of a label are one point, as in mining; a row of weight 0 counts as absent.
        rows, _ = triplets_module.distinct_rows(
            supervision.X, supervision.codes, supervision.weights
        )
        return monitor.label_score(
            supervision.X[rows], supervision.y[rows], validation.X, validation.y,
            validation.weights, n_jobs=self.model.n_jobs, device=self.model.device,
        )  # fmt: skip

    def scored_model(self, similarity: Similarity) -> HDSL:
        """Return a copy of the model that has learned this similarity, for ``scoring``."""
        return with_similarity(self.model, similarity)

    # --- checkpoints -----------------------------------------------------------------------------

    def snapshots(
        self, resume_from: Arrays | None, stage: Stage, scores: Monitor | None
    ) -> Snapshots | None:
        """Return where the solver resumes, and what saves the run with all that is around it."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            return None

        def arrays(snapshot: Callable[[], Arrays]) -> Arrays:
            parts = {"run": snapshot(), "stage": stage.snapshot(), **self.saved_too}
            return nested(**parts if scores is None else {**parts, "scores": scores.snapshot()})

        def save(snapshot: Callable[[], Arrays]) -> None:
            checkpoint.write_if_due(lambda: arrays(snapshot))

        return Snapshots(resume_from, save)

    @contextmanager
    def damage_explained(self) -> Iterator[None]:
        """Let an error about a snapshot name the file that it comes from."""
        try:
            yield
        except SnapshotError as error:
            assert self.checkpoint is not None
            with self.checkpoint.explain_damage():
                raise ValueError(str(error)) from None


def with_similarity(model: HDSL, similarity: Similarity) -> HDSL:
    """Return a copy of a model that has learned this similarity."""
    copied = copy(model)
    copied.atoms_, copied.weights_ = similarity.atoms, similarity.weights
    copied.scale_, copied.prior_ = similarity.scale, similarity.prior
    copied.n_features_in_ = similarity.n_features
    copied.norm_, copied.columns_ = similarity.norm, similarity.columns
    copied.__dict__.pop("feature_names_in_", None)  # the rows that it is given have none
    return copied


def make_layout(
    model: HDSL, data: Supervision, workers: Workers, columns: np.ndarray | None = None
) -> Layout:
    """Return rows and their comparisons laid out for the fits of a model.

    `columns` are features although they may be empty. NotEnoughMemory is raised before the work.
    """
    X = stored_rows(data.rows, model.storage)
    given = X, data.compared, data.compared_weights
    layout: Layout
    if model.device == "cpu":
        from .cpu.layout import CPULayout  # compiled code is loaded by the first fit

        check_memory(model, X, data.compared)
        has_products = model.batch_size is None
        layout = CPULayout(*given, workers=workers, columns=columns, store_products=has_products)
    else:
        from .cuda.layout import CUDALayout

        device = runtime.get_device(model.device)
        check_card(model, device, X, data.compared)
        layout = CUDALayout(
            *given, device=device, workers=workers, columns=columns, storage=model.storage
        )
    check_pairs_of_features(layout.n_features, X.shape[0])
    return layout


def check_pairs_of_features(n_features: int, n_rows: int) -> None:
    """Raise ValueError where the rows to learn from have no two features."""
    if n_features < 2:
        raise ValueError(
            "At least 2 features with a non-zero value are needed, as an atom pairs two. The "
            f"{n_rows} rows to learn from have {n_features}: hold out other rows, or fewer."
        )


def chosen_sizes(
    scale: float | str, prior: float | str, layout: Layout | RegionLayout
) -> tuple[float, float]:
    """Return scale and prior as numbers; "auto" is what suits the data."""
    if scale == "auto" or prior == "auto":
        statistics = layout.statistics()
        scale = automatic.automatic_scale(statistics) if scale == "auto" else scale
        prior = automatic.automatic_prior(statistics) if prior == "auto" else prior
    return float(scale), float(prior)


def stored_sizes(arrays: Arrays) -> tuple[float, float]:
    """Return scale and prior from the arrays of a stage; raise ValueError where no run has them."""
    size = arrays["size"]
    if size.shape != (2,) or not (np.isfinite(size) & (size >= 0)).all() or size[0] == 0:
        raise ValueError("scale and prior are not numbers that a run can have.")
    scale, prior = size.tolist()
    return scale, prior


def identity_of_run(
    model: HDSL,
    supervision: Supervision,
    validation: Supervision | None,
    earlier: Result | None,
) -> dict[str, Any]:
    """Return all that the end of a run depends on, data by their digests."""

    def of(data: Supervision | None) -> dict[str, str]:
        if data is None:
            return digest(None)
        landmarks = data.landmarks if isinstance(data.landmarks, np.ndarray) else None
        regions = () if data.regions is None else (data.regions,)
        return digest(
            data.y, data.weights, data.compared, data.compared_weights, landmarks, *regions
        )

    path = (None,) if earlier is None else (earlier.atoms, earlier.weights, earlier.n_iter)
    return {
        **recorded_parameters(model),
        "X": digest(supervision.X),
        "labels, triplets or weights": of(supervision),
        "validation rows": digest(None if validation is None else validation.X),
        "validation labels or triplets": of(validation),
        "path so far": digest(*path),
        "version of hdsl": version("hdsl"),
    }


def estimate_fit(model: HDSL, X: sp.csr_array, compared: np.ndarray) -> MemoryEstimate:
    """Return the memory that a fit of a model to these comparisons takes."""
    from .cpu.memory import estimate

    return estimate(
        X, compared, batch_size=model.batch_size, prior=model.prior != 0,
        automatic="auto" in (model.scale, model.prior), max_iter=model.max_iter,
        n_threads=int(joblib.effective_n_jobs(model.n_jobs)),
    )  # fmt: skip


def check_memory(model: HDSL, X: sp.csr_array, compared: np.ndarray) -> None:
    """Refuse what cannot fit, before the work."""
    if model.memory_limit is None or model.device != "cpu":  # a card is asked when it is known
        return
    need = estimate_fit(model, X, compared)
    products = memory.format_bytes(need.products)
    memory.check_fits(
        f"To fit {len(compared)} triplets of {X.shape[0]} rows with {X.nnz} values, "
        f"{type(model).__name__}",
        need.total,
        model.memory_limit,
        (
            "fit fewer triplets",
            f"set batch_size= (the products, {products}, are not stored then)",
            "pass memory_limit=None to go on anyway",
        ),
    )


def check_card(model: HDSL, device: runtime.Device, X: sp.csr_array, compared: np.ndarray) -> None:
    """Refuse what a card has no room for, before the work."""
    from .cuda.memory import estimate

    if model.memory_limit is None:
        return
    need = estimate(X, compared, model.storage, corrects=model.step == "corrective")
    device.check_fits(
        "The fit on the GPU",
        need.total,
        model.memory_limit,
        ("give fewer comparisons or rows", "take device='cpu'"),
    )


def all_of(*listeners: Callable[[State], bool | None] | None) -> Callback | None:
    """Return one callback for several; all are called, also when one ends the run."""
    parts = [part for part in listeners if part is not None]
    if not parts:
        return None

    def call(state: State) -> bool:
        ends = [part(state) for part in parts]
        return any(ends)

    return call
