"""One fit with regions: make comparisons and regions, solve, and score the path."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import checks
from .arrays import csr_from_arrays, csr_to_arrays
from .callbacks import Tasks
from .files.checkpoint import digest
from .fitting import Fit, Learned, Stage, all_of, check_memory, chosen_sizes, with_similarity
from .linear import check_array
from .local_regions import make_regions
from .local_similarity import Centers, LocalSimilarity, Predicted
from .monitor import Monitor, Score
from .path import store_run, take_record, take_scores
from .progress import LocalProgress, Progress
from .refit import Refit
from .similarity import Similarity
from .solver import atoms as atoms_module
from .solver import losses, oracle, steps
from .solver.blocks import ProductOptions
from .solver.product import product_frank_wolfe, replay_product
from .solver.snapshot import Arrays, part_of

if TYPE_CHECKING:
    from .cpu.workers import Workers
    from .local import LocalHDSL

#: Atoms and weights of one model.
Block = tuple[np.ndarray, np.ndarray]


class Local(NamedTuple):
    """What a fit found besides M."""

    scale: float
    regions: Centers | Predicted
    sizes: np.ndarray
    numbers: np.ndarray  # the region of each block after the first

    def parts(self, blocks: Sequence[Block]) -> list[Block]:
        """Return atoms and weights of every region; one without comparisons has no block."""
        parts = [(atoms_module.as_array([]), np.empty(0)) for _ in range(self.regions.n_regions)]
        for number, block in zip(self.numbers.tolist(), blocks[1:], strict=True):
            if number >= 0:
                parts[number] = block
        return parts

    def similarity(
        self, blocks: Sequence[Block], scale: float, prior: float, n_features: int
    ) -> LocalSimilarity:
        """Return the similarity of the models of a path, of rows that are normalised already."""
        parts = [Similarity(*part, self.scale, 0.0, n_features) for part in self.parts(blocks)]
        return LocalSimilarity(
            Similarity(*blocks[0], scale, prior, n_features), parts, self.regions
        )


@dataclass
class LocalStage(Stage):
    """What a run with regions goes by."""

    local_scale: float = np.nan
    regions: Centers | Predicted | None = None
    assigned: np.ndarray | None = None

    def snapshot(self) -> Arrays:
        """Return the stage as arrays."""
        arrays = {
            **super().snapshot(),
            "local_scale": np.array([self.local_scale]),
            "assigned": np.frombuffer(digest(self.assigned)["sha256"].encode(), np.uint8),
        }
        if isinstance(self.regions, Centers):  # k-means may round otherwise on other threads
            arrays |= csr_to_arrays(self.regions.centers, "centers")
        return arrays

    def restore(self, arrays: Arrays, shape: tuple[int, int]) -> None:
        """Become the stage of a snapshot; raise ValueError where the arrays are not one."""
        super().restore(arrays, shape)
        self.local_scale = float(check_array(arrays, "local_scale", "f", (1,))[0])
        if not 0.0 < self.local_scale < math.inf:
            raise ValueError("local_scale must be a finite number > 0.")
        if "centers" in arrays:
            self.regions = Centers(csr_from_arrays(arrays, "centers", shape[1]))

    def check_assigned(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless rows are in the regions where they were in a snapshot."""
        if arrays["assigned"].tobytes() != digest(self.assigned)["sha256"].encode():
            raise ValueError("`regions` gave other regions than when the run began.")


class LocalMonitor(Monitor):
    """A monitor of runs of several models at once.

    Parameters
    ----------
    score : callable
        From a LocalSimilarity to an Estimate.
    make_similarity : callable
        From the blocks of a state to a LocalSimilarity.
    patience : int or None
    """

    def __init__(
        self,
        score: Score,
        make_similarity: Callable[[Sequence[Block]], LocalSimilarity],
        patience: int | None,
    ) -> None:
        super().__init__(score, np.nan, np.nan, 0, patience)
        self._make_similarity = make_similarity

    def add_model(self, found: Any) -> None:
        """Score the models of a state or a result, unless they have a score."""
        self.add_similarity(found.n_iter, lambda: self._make_similarity(found.blocks))


class LocalFit(Fit):
    """The fit of a LocalHDSL to checked data; parameters and attributes are those of `Fit`."""

    model: Any

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Mine, make regions and solve."""
        from .cpu.regions import RegionLayout  # compiled code is loaded by the first fit

        model, data = self.model, self.supervision
        stage = LocalStage(*self.mine(data, self.rng), None)
        arrays = None if self.found is None else part_of(self.found, "stage")
        regions, assigned = self.place(stage, arrays, seed=int(self.rng.integers(2**31 - 1)))
        check_memory(model, data.X, stage.compared)
        n_regions = regions.n_regions
        layout = RegionLayout(
            data.X, stage.compared, stage.weights, workers=workers,
            regions=assigned if n_regions else None,
        )  # fmt: skip
        if arrays is None:
            stage.scale, stage.prior = chosen_sizes(model.scale, model.prior, layout)
            stage.local_scale = (
                stage.scale / math.sqrt(max(n_regions, 1))
                if isinstance(model.local_scale, str)
                else float(model.local_scale)
            )
        checks.check_margins(data.X, stage.scale + stage.local_scale, stage.prior)
        sizes = np.bincount(assigned[assigned >= 0], minlength=n_regions)
        local = Local(stage.local_scale, regions, sizes, layout.numbers)
        scores = self.make_local_monitor(stage, local)
        loss = losses.checked(losses.get(model.loss))
        shown: Any = progress.follow(max(self.limit, 1), scores)
        callback: Any = all_of(scores, shown, model.callback)
        with self.damage_explained():
            result: Any = product_frank_wolfe(
                layout.problem(loss, stage.scale, stage.local_scale, stage.prior),
                oracle.ORACLES[model.oracle],
                steps.RULES[model.step],
                ProductOptions(model.order, self.limit, model.tol),
                rng=self.rng,
                callback=callback,
                snapshots=self.snapshots(
                    None if self.found is None else part_of(self.found, "run"), stage, scores
                ),
            )
        try:
            if scores is not None:
                scores.add_model(result)
        except KeyboardInterrupt:
            result = replace(result, status="interrupted")
        return Learned(result, scores, stage.scale, stage.prior, len(stage.compared), local=local)

    def place(
        self, stage: LocalStage, arrays: Arrays | None, seed: int
    ) -> tuple[Centers | Predicted, np.ndarray]:
        """Return the regions of a stage, made or those of the snapshot that it begins with."""
        model, data = self.model, self.supervision
        given = model.regions if data.regions is None else data.regions
        regions: Centers | Predicted | None = None
        if arrays is not None and self.checkpoint is not None:
            with self.checkpoint.explain_damage():
                stage.restore(arrays, data.X.shape)
            if isinstance(given, str):
                regions = stage.regions
        if regions is None:
            made = make_regions(given, model.n_regions, data.X, data.weights, seed)
        else:
            made = regions, regions.assign(data.X)
        stage.regions, stage.assigned = made
        if arrays is not None and self.checkpoint is not None:
            with self.checkpoint.explain_damage():
                stage.check_assigned(arrays)
        return made

    def make_local_monitor(self, stage: LocalStage, local: Local) -> LocalMonitor | None:
        """Return what scores the models of the path, None where there is no validation."""
        if self.validation is None:
            return None
        n_features = self.supervision.X.shape[1]
        scores = LocalMonitor(
            self.score(),
            lambda blocks: local.similarity(blocks, stage.scale, stage.prior, n_features),
            self.model.n_iter_no_change,
        )
        self.resume_scores(scores)
        return scores

    def scored_model(self, similarity: Any) -> Any:
        """Return a copy of the model that has learned this similarity, for ``scoring``."""
        shared, local = similarity.shared, similarity.local
        model: Any = with_similarity(self.model, shared)
        model.regions_, model.n_regions_ = similarity.regions, similarity.regions.n_regions
        model.local_scale_ = local[0].scale if local else shared.scale
        model.local_atoms_ = [part.atoms for part in local]
        model.local_weights_ = [part.weights for part in local]
        return model


def learn_local(fit: LocalFit | Refit, checked: LocalHDSL) -> None:
    """Run a fit and give its model the fitted attributes, through a copy that knows X."""
    from .cpu.workers import Workers  # compiled code is loaded by the first fit

    model: Any = fit.model
    with Workers(model.n_jobs) as workers, LocalProgress(model.verbose) as progress:
        found = fit.run(workers, progress, Tasks(model))
        try:
            _store(checked, found)
        except KeyboardInterrupt:
            _store(checked, found._replace(result=replace(found.result, status="interrupted")))
        checks.replace_fitted(model, checked)
        progress.end(model)


def _store(model: Any, learned: Learned) -> None:
    """Give a model the fitted attributes of a run: with scores, those of the chosen iteration."""
    result: Any = learned.result
    local: Local = learned.local
    model.local_scale_, model.region_sizes_ = local.scale, local.sizes
    model.regions_, model.n_regions_ = local.regions, local.regions.n_regions
    model.atoms_, model.weights_ = result.blocks[0]
    parts = local.parts(result.blocks)
    model.local_atoms_ = [atoms for atoms, _ in parts]
    model.local_weights_ = [weights for _, weights in parts]
    store_run(model, learned)
    model.trace_ = result.trace.copy()
    block = model.trace_["block"]
    block[:] = np.concatenate([[0], 1 + local.numbers])[block]  # as if all had comparisons
    take_scores(model, learned, go_to)


def go_to(model: Any, n_iter: int) -> None:
    """Give a model the fitted attributes that it had after `n_iter` iterations."""
    if n_iter == model.n_iter_:
        return
    first, *local = replay_product(model.trace_, n_iter, 1 + model.n_regions_, model.corrections_)
    model.atoms_, model.weights_ = first.atoms, first.weights
    model.local_atoms_ = [own.atoms for own in local]
    model.local_weights_ = [own.weights for own in local]
    take_record(model, n_iter)
