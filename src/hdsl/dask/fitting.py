"""One fit on a cluster: shards are built, the solver runs, and lost workers are replaced."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import monitor
from ..callbacks import Tasks
from ..files.checkpoint import Checkpoint, digest
from ..fitting import (
    Learned,
    all_of,
    check_pairs_of_features,
    chosen_sizes,
    stored_sizes,
    with_similarity,
)
from ..memory import format_bytes
from ..monitor import Monitor
from ..parameters import recorded_parameters
from ..progress import Progress
from ..similarity import Similarity
from ..solver import losses, oracle, steps
from ..solver.atoms import check_atoms
from ..solver.loop import Options, Result, State, frank_wolfe, stored_result
from ..solver.snapshot import (
    Arrays,
    SnapshotError,
    Snapshots,
    generator_state,
    nested,
    part_of,
    set_generator_state,
)
from ..supervision import Supervision
from . import cluster, stages
from .blocks import Blocks, RowBlocks
from .building import Builder, number_columns
from .comparing import Comparisons
from .mining import distinct
from .problem import DaskLayout
from .scoring import ComparisonPoints, LabelShares
from .sources import Source
from .tasks import Storage
from .team import Team, Traffic, WorkerLost

if TYPE_CHECKING:
    from ..cpu.workers import Workers
    from .estimator import HDSL

#: Iterations between two snapshots: a lost worker costs no more of them.
SNAPSHOT_EVERY = 10

#: A fit gives up after so many losses.
MOST_LOSSES = 100


class ClusterFit:
    """The fit of a model to blocks on a cluster, as ``estimators.fitting.Fit`` on one machine.

    Parameters
    ----------
    model : HDSL
        Holds the parameters; it is not changed.
    given : RowBlocks
        All rows of the user, checked and normalised.
    supervision : Supervision
        Its X are rows on the cluster: all of them, or those that are not held out.
    validation : Supervision or None
        Chooses the model of the path; its X is on the client or on the cluster.
    rng : numpy.random.Generator
    compared : Source, default=None
        Judgements in blocks; None where there are labels.
    earlier : Result, default=None
        The path to continue.
    checkpoint : Checkpoint, default=None

    Attributes
    ----------
    report : dict
        What the fit did with the cluster.
    limit, found, saved_too
        As those of ``Fit``.
    """

    n_runs = 1

    def __init__(
        self,
        model: HDSL,
        given: RowBlocks,
        supervision: Supervision,
        validation: Supervision | None,
        rng: np.random.Generator,
        *,
        compared: Source | None = None,
        earlier: Result | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.model, self.given, self.rng = model, given, rng
        self.supervision, self.validation = supervision.draw(rng), validation
        self.compared, self.earlier, self.checkpoint = compared, earlier, checkpoint
        self.limit = model.max_iter + (0 if earlier is None else earlier.n_iter)
        self.found = None if checkpoint is None else checkpoint.arrays
        self.saved_too: dict[str, Arrays] = {}
        self.report: dict[str, Any] = {}

    @property
    def mines_again(self) -> bool:
        """Whether more triplets are mined under the models of the path."""
        model, is_labelled = self.model, self.compared is None
        return model.mine_every is not None and model.mining == "neighbors" and is_labelled

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Mine and solve, again and again where `mine_every` says so."""
        try:
            return self._run(progress, tasks)
        finally:
            self._tell_all()

    def _run(self, progress: Progress, tasks: Tasks) -> Learned:
        comparisons = Comparisons(self.model, self.supervision, self.compared, self.rng)
        stage = Stage(self.earlier)
        if self.found is not None and self.checkpoint is not None:
            with self.checkpoint.explain_damage():
                stage.restore(part_of(self.found, "stage"), self.given.shape[1])
            for atoms, weights in stage.mined:
                comparisons.mine_again(self._similarity(stage, atoms, weights))
        builder, learned = self._plan(comparisons, stage), None
        try:
            while True:
                learned = self._solve(builder, stage, progress, tasks)
                result, is_last = learned.result, self._stop(stage) == self.limit
                if is_last or result.status not in ("max_iter", "optimal", "no_violation"):
                    break
                comparisons.mine_again(self._similarity(stage, result.atoms, result.weights))
                stage = stage.after(result)
                more = self._planned_again(comparisons, stage)
                n_before = builder.places.n_comparisons
                has_new = more is not None and more.places.n_comparisons > n_before
                if more is None or not (has_new or result.status == "max_iter"):
                    break
                builder, self.found = more, None
            if learned.scores is not None:
                learned.scores.add(result.n_iter, result.atoms, result.weights)
        except KeyboardInterrupt:
            if learned is None:  # nothing is learned yet
                raise
            interrupted = replace(learned.result, status="interrupted")
            learned = learned._replace(result=interrupted)
        return learned

    def _stop(self, stage: Stage) -> int:
        """Return the iteration to mine again after, or the last one."""
        if not self.mines_again or self.model.mine_every is None:
            return self.limit
        return min(self.limit, stage.n_iter + self.model.mine_every)

    def _similarity(self, stage: Stage, atoms: np.ndarray, weights: np.ndarray) -> Similarity:
        return Similarity(atoms, weights, stage.scale, stage.prior, self.given.shape[1])

    def _plan(self, comparisons: Comparisons, stage: Stage) -> Builder:
        """Deal out the comparisons, and check that the shards fit."""
        model, rows, result = self.model, comparisons.rows, stage.result
        also = None if result is None else np.unique(result.atoms[:, :2])
        features = number_columns(rows.counts, also)
        check_pairs_of_features(len(features), rows.shape[0])
        stores = model.batch_size is None and model.device == "cpu" and not model.shards_on_disk
        builder = Builder(
            rows.source, rows.starts, comparisons.source, features, rows.mean_square(),
            storage=Storage(stores, model.device, model.shards_on_disk), timeout=model.timeout,
        )  # fmt: skip
        builder.plan(model.n_shards)
        if model.step == "corrective":
            builder.sample()
        with stages.stage("estimate the memory of a worker"):
            self.report["bytes_per_worker"] = cluster.check_room(
                builder, model.memory_limit, batch_size=model.batch_size, prior=model.prior != 0
            )
        return builder

    def _planned_again(self, comparisons: Comparisons, stage: Stage) -> Builder | None:
        """Return what builds the shards with more comparisons; None where they do not fit."""
        try:
            return self._plan(comparisons, stage)
        except MemoryError as error:  # what is learned stays
            warnings.warn(f"Mining again was given up: {error}", UserWarning, stacklevel=6)
            return None

    def _solve(self, builder: Builder, stage: Stage, progress: Progress, tasks: Tasks) -> Learned:
        """Build the shards and solve, up to the end or to the next mining."""
        team = Team(builder.client, builder.places.n_shards, timeout=self.model.timeout)
        try:
            layout = builder.layout(team)
            if np.isnan(stage.scale):
                stage.scale, stage.prior = self._sizes(builder, team, layout)
            self._check_margins(stage.scale, stage.prior)
            scores = stage.scores = stage.scores or self._monitor(stage)
            once = Once(
                all_of(
                    scores,
                    progress.follow(max(self.limit, 1), scores),
                    tasks.follow(stage.scale, stage.prior),
                    self.model.callback,
                )
            )
            keeper = Keeper(self.checkpoint, stage, self.saved_too)
            keeper.latest = None if self.found is None else part_of(self.found, "run")
            result = self._walk_on(builder, team, layout, stage, once, keeper)
        finally:
            self._tell(builder, team)
            team.close()
        return Learned(result, scores, stage.scale, stage.prior, builder.places.n_comparisons)

    def _walk_on(
        self,
        builder: Builder,
        team: Team,
        layout: DaskLayout,
        stage: Stage,
        once: Once,
        keeper: Keeper,
    ) -> Result:
        """Run the solver, again from the last snapshot where workers are lost."""
        begin, loss = generator_state(self.rng), losses.checked(losses.get(self.model.loss))
        before = team.traffic.copy()
        while True:
            try:
                result = self._walk(layout, loss, stage, once, keeper)
                break
            except WorkerLost:
                if team.n_lost >= MOST_LOSSES:
                    raise
                self._recover(builder, team)
                if keeper.latest is None:
                    set_generator_state(self.rng, begin)
        traffic = self.report.setdefault("traffic", Traffic())
        self.report["traffic"] = traffic.plus(team.traffic.since(before))
        self.report["n_iter"] = max(1, result.n_iter)
        return result

    def _walk(
        self, layout: DaskLayout, loss: Any, stage: Stage, once: Once, keeper: Keeper
    ) -> Result:
        """Run the solver from the last snapshot."""
        model, stop = self.model, self._stop(stage)
        size = steps.STEP_SIZES[model.step_size]
        try:
            return frank_wolfe(
                layout.problem(loss, stage.scale, stage.prior),
                oracle.ORACLES[model.oracle](),
                steps.RULES[model.step],
                Options(size, model.init, model.batch_size, stop, model.tol),
                rng=self.rng,
                callback=once,
                earlier=stage.result,
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

    def _sizes(self, builder: Builder, team: Team, layout: DaskLayout) -> tuple[float, float]:
        """Return scale and prior: of the path so far, given or automatic."""
        model = self.model
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
        largest = 1.0 if self.given.norm == "l2" else self.given.largest
        bound = largest * (8.0 * scale + 2.0 * prior * self.given.longest) * largest
        if not bound < 1e150:
            raise ValueError(
                f"Margins may be as large as {bound:.3g}, but must be below 1e+150: lower scale "
                "and prior, or scale X."
            )

    # --- scores along the path -------------------------------------------------------------------

    def _monitor(self, stage: Stage) -> Monitor | None:
        """Return what scores the models of the path, None where there is no validation."""
        if self.validation is None:
            return None
        n_features, patience = self.given.shape[1], self.model.n_iter_no_change
        scores = Monitor(self.score(), stage.scale, stage.prior, n_features, patience)
        if self.found is not None and self.checkpoint is not None:
            with self.checkpoint.explain_damage():
                scores.restore(part_of(self.found, "scores"))
        elif self.earlier is not None:
            scores.add(self.earlier.n_iter, self.earlier.atoms, self.earlier.weights)
        return scores

    def score(self) -> monitor.Score:
        """Return what models are scored by: the user's function, labels or comparisons."""
        of, model, train = self.validation, self.model, self.supervision
        assert of is not None
        if model.scoring is not None:
            scoring, truth = model.scoring, of.compared if of.is_judged else of.y
            return lambda found: monitor.Estimate(
                float(scoring(with_similarity(model, found), of.X, truth))
            )
        if of.is_judged and not isinstance(of.X, Blocks):
            return monitor.triplet_score(of.X, of.compared, of.compared_weights)
        if of.is_judged:
            points = ComparisonPoints(of.X, of.compared)
            anchors, weights = of.compared[:, 0], of.compared_weights
            return lambda found: monitor.mean_estimate(points(found), weights, anchors)
        # Equal rows of a label are one point, as in mining; a row of weight 0 counts as absent.
        rows, queries = train.X, of.X
        if not isinstance(queries, Blocks):
            source, starts = Source(rows.client, [queries]), np.array([0, queries.shape[0]])
            queries = Blocks(source, starts, rows.n_columns, rows.timeout)
        kept, _ = distinct(rows.digests, train.codes, train.weights)
        shares = LabelShares(rows, kept, train.y[kept], queries, of.y, monitor.N_NEIGHBORS)
        return lambda found: monitor.mean_estimate(shares(found), of.weights)

    def identity(self, given: dict[str, Any], held: Supervision | None) -> dict[str, Any]:
        """Return all that the end of the run depends on, data by their digests."""
        earlier = self.earlier
        path = (None,) if earlier is None else (earlier.atoms, earlier.weights, earlier.n_iter)
        chosen = self.supervision.landmarks
        of: tuple = (None,)  # rows that are held out follow from the others
        if held is not None and not isinstance(held.X, Blocks):
            of = (held.X, held.compared, held.y)
        return {
            **recorded_parameters(self.model),
            "X": digest(np.frombuffer(self.given.digest, np.uint8)),
            "labels, triplets or weights": digest(*given.values()),
            "landmarks": digest(chosen if isinstance(chosen, np.ndarray) else None),
            "validation": digest(*of),
            "path so far": digest(*path),
            "version of hdsl": version("hdsl"),
        }

    def _tell(self, builder: Builder, team: Team) -> None:
        """Note what the fit did with the cluster."""
        self.report["n_shards"] = builder.places.n_shards
        self.report["n_workers"] = len(team.seats)
        self.report["n_lost"] = self.report.get("n_lost", 0) + team.n_lost
        if builder.n_held:
            self.report["times_held"] = builder.times_held

    def _tell_all(self) -> None:
        """Count per iteration; with `verbose` a line says what went over the wire."""
        traffic, report = self.report.pop("traffic", None), self.report
        if traffic is not None:
            n = report.pop("n_iter")
            for name in ("rounds", "down", "up", "between"):
                report[f"{name}_per_iteration"] = getattr(traffic, name) / n
            if self.model.verbose:
                print(described(report), file=sys.stderr)  # noqa: T201


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


class Stage:
    """What a run goes by from one mining to the next.

    Comparisons are not saved, as they are on the cluster, but the models that they were mined
    under: whoever resumes mines them again.

    Parameters
    ----------
    result : Result or None
        The run that this one continues.

    Attributes
    ----------
    scale, prior : float
    scores : Monitor or None
    mined : list of (ndarray, ndarray)
        Atoms and weights of the models that comparisons were mined under.
    """

    def __init__(self, result: Result | None) -> None:
        self.result = result
        self.scale, self.prior = np.nan, np.nan
        self.scores: Monitor | None = None
        self.mined: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def n_iter(self) -> int:
        """Number of iterations so far."""
        return 0 if self.result is None else self.result.n_iter

    def after(self, result: Result) -> Stage:
        """Return the stage that follows a run."""
        stage = Stage(result)
        stage.scale, stage.prior, stage.scores = self.scale, self.prior, self.scores
        stage.mined = [*self.mined, (result.atoms, result.weights)]
        return stage

    def snapshot(self) -> Arrays:
        """Return the stage as arrays."""
        arrays = {"size": np.array([self.scale, self.prior])}
        if not self.mined or self.result is None:
            return arrays
        number = np.repeat(np.arange(len(self.mined)), [len(atoms) for atoms, _ in self.mined])
        atoms, weights = (np.concatenate(part) for part in zip(*self.mined, strict=True))
        return arrays | {
            "n_mined": np.array(len(self.mined)),
            "mined": np.column_stack([number, atoms]),
            "mined_weights": weights,
            "atoms": self.result.atoms,
            "weights": self.result.weights,
            "trace": self.result.trace,
            "n_iter": np.array(self.result.n_iter),
            "corrections": self.result.corrections,
        }

    def restore(self, arrays: Arrays, n_features: int) -> None:
        """Become the stage of a snapshot; raise ValueError where the arrays are not one."""
        self.scale, self.prior = stored_sizes(arrays)
        if "n_mined" not in arrays:
            return
        mined = arrays["mined"]
        for name in ("n_mined", "n_iter"):
            if arrays[name].shape != () or arrays[name].dtype != np.int64:
                raise ValueError(f"{name!r} is not a number.")
        n_mined, n_iter = int(arrays["n_mined"]), int(arrays["n_iter"])
        if mined.ndim != 2 or mined.shape[1] != 4 or mined.dtype != np.int64:
            raise ValueError("'mined' has not the expected shape.")
        if not ((mined[:, 0] >= 0) & (mined[:, 0] < n_mined)).all() or n_mined > n_iter + 1:
            raise ValueError("'mined' names a model that does not exist.")
        self.result = stored_result(
            arrays["atoms"],
            arrays["weights"],
            arrays["trace"],
            arrays["corrections"],
            n_iter,
            n_features,
        )
        if arrays["mined_weights"].shape != (len(mined),):
            raise ValueError("'mined_weights' has not the expected length.")
        for k in range(n_mined):
            own = mined[:, 0] == k
            atoms, weights = mined[own, 1:], arrays["mined_weights"][own]
            check_atoms(atoms, weights, n_features)
            self.mined.append((atoms, weights))


class Keeper:
    """The last snapshot of a run, in memory and in a file.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    stage : Stage
    saved_too : dict of str to dict of str to ndarray
        Parts that snapshots in the file hold besides.

    Attributes
    ----------
    latest : dict of str to ndarray or None
    """

    def __init__(
        self, checkpoint: Checkpoint | None, stage: Stage, saved_too: dict[str, Arrays]
    ) -> None:
        self.latest: Arrays | None = None
        self._checkpoint, self._stage, self._too, self._left = checkpoint, stage, saved_too, 0

    def save(self, snapshot: Callable[[], Arrays]) -> None:
        """Take a snapshot if it is due."""
        if self._left == 0:
            self.latest = snapshot()
            self._left = SNAPSHOT_EVERY
        self._left -= 1
        if self._checkpoint is not None:
            self._checkpoint.write_if_due(lambda: self._arrays(snapshot()))

    def _arrays(self, run: Arrays) -> Arrays:
        parts = {"run": run, "stage": self._stage.snapshot(), **self._too}
        scores = self._stage.scores
        return nested(**parts if scores is None else {**parts, "scores": scores.snapshot()})
