"""One fit on a cluster: shards are built, the solver runs, and lost workers are replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.dask.building import Builder, Source, Storage, number_columns
from ..backends.dask.problem import DaskLayout
from ..backends.dask.stages import stage
from ..backends.dask.team import Team, WorkerLost
from ..core import losses, oracle, steps
from ..core.snapshot import (
    Arrays,
    SnapshotError,
    Snapshots,
    generator_state,
    nested,
    part_of,
    set_generator_state,
)
from ..core.solver import Options, Result, State, frank_wolfe
from ..estimators import monitor
from ..estimators.callbacks import Tasks
from ..estimators.fitting import Learned, all_of, chosen_sizes, with_similarity
from ..estimators.monitor import Monitor
from ..estimators.parameters import recorded_parameters
from ..estimators.progress import Progress
from ..estimators.supervision import Supervision
from ..files.checkpoint import Checkpoint, digest
from ..memory import format_bytes
from . import cluster
from .blocks import RowBlocks

if TYPE_CHECKING:
    from ..backends.cpu.workers import Workers
    from .estimator import HDSL

#: Iterations between two snapshots: a lost worker costs no more of them.
SNAPSHOT_EVERY = 10

#: A fit gives up after so many losses.
MOST_LOSSES = 100


class ClusterFit:
    """The fit of a model to blocks on a cluster.

    Parameters
    ----------
    model : HDSL
        Holds the parameters; it is not changed.
    rows : RowBlocks
        Checked and normalised.
    compared : Source
        Blocks of comparisons and their weights.
    rng : numpy.random.Generator
    validation : Supervision, default=None
        Judgements on the client that choose the model of the path.
    earlier : Result, default=None
        The path to continue.
    checkpoint : Checkpoint, default=None

    Attributes
    ----------
    report : dict
        What the fit did with the cluster.
    """

    n_runs = 1

    def __init__(
        self,
        model: HDSL,
        rows: RowBlocks,
        compared: Source,
        rng: np.random.Generator,
        *,
        validation: Supervision | None = None,
        earlier: Result | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.model, self.rows, self.compared, self.rng = model, rows, compared, rng
        self.validation, self.earlier, self.checkpoint = validation, earlier, checkpoint
        self.supervision = Supervision(rows)
        self.limit = model.max_iter + (0 if earlier is None else earlier.n_iter)
        self.report: dict[str, Any] = {}

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Build the shards and solve."""
        model, rows = self.model, self.rows
        also = None if self.earlier is None else np.unique(self.earlier.atoms[:, :2])
        features = number_columns([facts.columns for facts in rows.facts], also)
        stores = model.batch_size is None and model.device == "cpu" and not model.shards_on_disk
        builder = Builder(
            rows.source, rows.starts, self.compared, features, rows.mean_square(),
            storage=Storage(stores, model.device, model.shards_on_disk), timeout=model.timeout,
        )  # fmt: skip
        places = builder.plan(model.n_shards)
        with stage("estimate the memory of a worker"):
            self.report["bytes_per_worker"] = cluster.check_room(
                builder, model.memory_limit, batch_size=model.batch_size, prior=model.prior != 0
            )
        team = Team(rows.client, places.n_shards, timeout=model.timeout)
        try:
            layout = builder.layout(team)
            return self._solve(builder, team, layout, progress, tasks)
        finally:
            self._tell(builder, team)
            team.close()

    def _solve(
        self, builder: Builder, team: Team, layout: DaskLayout, progress: Progress, tasks: Tasks
    ) -> Learned:
        found = None if self.checkpoint is None else self.checkpoint.arrays
        scale, prior = self._sizes(builder, team, layout, found)
        self._check_margins(scale, prior)
        scores = self._monitor(scale, prior, found)
        once = Once(
            all_of(
                scores,
                progress.follow(max(self.limit, 1), scores),
                tasks.follow(scale, prior),
                self.model.callback,
            )
        )
        keeper = Keeper(self.checkpoint, {"size": np.array([scale, prior])}, scores)
        keeper.latest = None if found is None else part_of(found, "run")
        begin, loss = generator_state(self.rng), losses.checked(losses.get(self.model.loss))
        before = team.traffic.copy()
        while True:
            try:
                result = self._walk(layout, loss, scale, prior, once, keeper)
                break
            except WorkerLost:
                if team.n_lost >= MOST_LOSSES:
                    raise
                self._recover(builder, team)
                if keeper.latest is None:
                    set_generator_state(self.rng, begin)
        self.report["traffic"] = team.traffic.since(before)
        self.report["n_iter"] = max(1, result.n_iter)
        if scores is not None:
            scores.add(result.n_iter, result.atoms, result.weights)
        return Learned(result, scores, scale, prior, builder.places.n_comparisons)

    def _walk(
        self,
        layout: DaskLayout,
        loss: Any,
        scale: float,
        prior: float,
        once: Once,
        keeper: Keeper,
    ) -> Result:
        """Run the solver from the last snapshot."""
        model = self.model
        options = Options(
            steps.STEP_SIZES[model.step_size], model.init, model.batch_size, self.limit, model.tol
        )
        try:
            return frank_wolfe(
                layout.problem(loss, scale, prior),
                oracle.ORACLES[model.oracle](),
                steps.RULES[model.step],
                options,
                rng=self.rng,
                callback=once,
                earlier=self.earlier,
                snapshots=Snapshots(keeper.latest, keeper.save),
            )
        except SnapshotError as error:
            if self.checkpoint is None:
                raise
            with self.checkpoint.explain_damage():
                raise ValueError(str(error)) from None

    def _recover(self, builder: Builder, team: Team) -> None:
        """Build the shards of lost workers elsewhere."""
        builder.settle(team)

    def _sizes(
        self, builder: Builder, team: Team, layout: DaskLayout, found: Arrays | None
    ) -> tuple[float, float]:
        """Return scale and prior: of the path so far, of the checkpoint, given or automatic."""
        model = self.model
        if found is not None and self.checkpoint is not None:
            with self.checkpoint.explain_damage():
                size = part_of(found, "stage")["size"]
                if size.shape != (2,) or not (np.isfinite(size) & (size >= 0)).all() or not size[0]:
                    raise ValueError("scale and prior are not numbers that a run can have.")
            return float(size[0]), float(size[1])
        if self.earlier is not None:
            return model.scale_, model.prior_
        while True:
            try:
                return chosen_sizes(model.scale, model.prior, layout)
            except WorkerLost:
                if team.n_lost >= MOST_LOSSES:
                    raise
                self._recover(builder, team)

    def _check_margins(self, scale: float, prior: float) -> None:
        largest = 1.0 if self.rows.norm == "l2" else self.rows.largest
        bound = largest * (8.0 * scale + 2.0 * prior * self.rows.longest) * largest
        if not bound < 1e150:
            raise ValueError(
                f"Margins may be as large as {bound:.3g}, but must be below 1e+150: lower scale "
                "and prior, or scale X."
            )

    def _monitor(self, scale: float, prior: float, found: Arrays | None) -> Monitor | None:
        """Return what scores the models of the path, None where there is no validation."""
        of, model = self.validation, self.model
        if of is None:
            return None
        score = monitor.triplet_score(of.X, of.compared, of.compared_weights)
        if model.scoring is not None:
            scoring, truth = model.scoring, of.compared if of.is_judged else of.y
            score = lambda found: monitor.Estimate(  # noqa: E731
                float(scoring(with_similarity(model, found), of.X, truth))
            )
        n_features = self.rows.shape[1]
        scores = Monitor(score, scale, prior, n_features, model.n_iter_no_change)
        if found is not None and self.checkpoint is not None:
            with self.checkpoint.explain_damage():
                scores.restore(part_of(found, "scores"))
        elif self.earlier is not None:
            scores.add(self.earlier.n_iter, self.earlier.atoms, self.earlier.weights)
        return scores

    def identity(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return all that the end of the run depends on, data by their digests."""
        earlier, of = self.earlier, self.validation
        path = (None,) if earlier is None else (earlier.atoms, earlier.weights, earlier.n_iter)
        return {
            **recorded_parameters(self.model),
            "X": digest(np.frombuffer(self.rows.digest, np.uint8)),
            "labels, triplets or weights": digest(*given.values()),
            "validation": digest(*((None,) if of is None else (of.X, of.compared, of.y))),
            "path so far": digest(*path),
            "version of hdsl": version("hdsl"),
        }

    def _tell(self, builder: Builder, team: Team) -> None:
        """Note what the fit did with the cluster."""
        self.report["n_shards"] = builder.places.n_shards
        self.report["n_workers"] = len(team.seats)
        self.report["n_lost"] = team.n_lost
        if builder.n_held:
            self.report["times_held"] = builder.times_held
        traffic = self.report.pop("traffic", None)
        if traffic is not None:
            n = self.report.pop("n_iter")
            for name in ("rounds", "down", "up", "between"):
                self.report[f"{name}_per_iteration"] = getattr(traffic, name) / n
        if self.model.verbose and traffic is not None:
            print(described(self.report), file=sys.stderr)  # noqa: T201


def described(report: dict[str, Any]) -> str:
    """Return what a fit did with the cluster, in one line."""
    size = {
        name: format_bytes(report[f"{name}_per_iteration"]) for name in ("down", "up", "between")
    }
    return (
        f"{report['n_shards']} shards on {report['n_workers']} workers, each row held "
        f"{report['times_held']:.2f} times; per iteration {report['rounds_per_iteration']:.1f} "
        f"rounds, {size['down']} down, {size['up']} up, {size['between']} between workers; "
        f"{report['n_lost']} workers lost"
    )


class Once:
    """A callback that sees each model once, also where a run goes back to a snapshot.

    Parameters
    ----------
    callback : callable or None
    """

    def __init__(self, callback: Callable[[State], bool | None] | None) -> None:
        self._callback, self._seen = callback, -1

    def __call__(self, state: State) -> bool:
        """Call the callback unless it has seen this model."""
        if self._callback is None or state.n_iter <= self._seen:
            return False
        self._seen = state.n_iter
        return bool(self._callback(state))


class Keeper:
    """The last snapshot of a run, in memory and in a file.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    stage : dict of str to ndarray
        What snapshots in the file hold besides.
    scores : Monitor or None

    Attributes
    ----------
    latest : dict of str to ndarray or None
    """

    def __init__(
        self, checkpoint: Checkpoint | None, stage: Arrays, scores: Monitor | None
    ) -> None:
        self.latest: Arrays | None = None
        self._checkpoint, self._stage, self._scores, self._left = checkpoint, stage, scores, 0

    def save(self, snapshot: Callable[[], Arrays]) -> None:
        """Take a snapshot if it is due."""
        if self._left == 0:
            self.latest = snapshot()
            self._left = SNAPSHOT_EVERY
        self._left -= 1
        if self._checkpoint is not None:
            self._checkpoint.write_if_due(lambda: self._arrays(snapshot()))

    def _arrays(self, run: Arrays) -> Arrays:
        parts = {"run": run, "stage": self._stage}
        return nested(
            **parts if self._scores is None else {**parts, "scores": self._scores.snapshot()}
        )
