"""hdsl.dask.HDSL: the fit of one machine, on shards of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import checks, choosing, fitting, supervision
from .. import hdsl as hdsl_module
from ..cpu.workers import Workers
from ..files import checkpoint as checkpoint_module
from ..files.checkpoint import Checkpoint, digest
from ..progress import Progress
from ..similarity import unit_rows
from ..solver import losses
from ..solver.loop import Arrays, Rests, Result, State
from ..supervision import Mining, Supervision
from . import data as blocks
from .data import Compared, Rows, build, compared_blocks, held
from .mining import compare
from .problem import DaskLayout, gather

if TYPE_CHECKING:
    from ..solver.protocols import Loss

#: Most rows, and anchors of comparisons, that the prior is chosen on: they go to the client.
CHOICE_ROWS, CHOICE_ANCHORS = 20_000, 5_000

#: A fit gives up after so many times that Dask gave up a task.
MOST_LOSSES = 20


class HDSL(hdsl_module.HDSL):
    """HDSL on a Dask cluster, for rows and comparisons that one machine does not hold.

    ``fit`` takes X as a ``dask.array`` of sparse or dense blocks of rows, a list of blocks (CSR
    matrices, delayed objects or futures), or one matrix; triplets and quadruplets likewise, labels
    and weights as one array. The result has the fitted attributes of `hdsl.HDSL` and does all that
    it does; ``local()`` is the same model without the cluster.

    The model is the same for any number of workers, to the last bit on processors of one kind, and
    that of `hdsl.HDSL` up to rounding. What dies with a worker is computed again.

    Parameters
    ----------
    scale, prior, norm, loss, oracle, step, init, batch_size, mining, n_targets, n_impostors, \
min_rows, max_anchors, max_iter, tol, validation_fraction, warm_start, checkpoint, callback, \
random_state, verbose
        As in `hdsl.HDSL`. `mining` is "neighbors" or "random": a function would need all rows in
        one place. An automatic prior is chosen on a sample of the rows, on the client.
    device : "cpu"
    n_jobs : int, default=None
        Threads of the client. Workers use those that they were started with.
    memory_limit : "auto", float or None, default="auto"
        Not used: workers have limits of their own.
    client : distributed.Client, default=None
        None is the current client.

    See Also
    --------
    hdsl.HDSL : All other parameters and attributes.

    Examples
    --------
    >>> from distributed import Client
    >>> import numpy as np, scipy.sparse as sp
    >>> from hdsl.dask import HDSL
    >>> blocks = [sp.csr_array(np.eye(4)), sp.csr_array(np.eye(4) + 1)]
    >>> triplets = np.array([[0, 4, 1], [1, 5, 2]])
    >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
    ...     model = HDSL(scale=1.0, prior=1.0).fit(blocks, triplets=triplets)
    >>> model.n_features_in_
    4
    """

    def __init__(
        self,
        scale: float | str = "auto",
        *,
        prior: float | str = "auto",
        norm: str | None = "l2",
        loss: str | Loss = "smoothed_hinge",
        oracle: str = "ascent",
        step: str = "corrective",
        init: str = "zero",
        batch_size: int | None = None,
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 10,
        n_impostors: int = 10,
        min_rows: int | str = "auto",
        max_anchors: int | None = 20_000,
        max_iter: int | str = "auto",
        tol: float = 1e-3,
        validation_fraction: float = 0.3,
        warm_start: bool = False,
        checkpoint: Any = None,
        callback: Callable[[State], bool | None] | None = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        memory_limit: str | float | None = "auto",
        client: Any = None,
    ) -> None:
        super().__init__(
            scale, prior=prior, norm=norm, loss=loss, oracle=oracle, step=step, init=init,
            batch_size=batch_size, mining=mining, n_targets=n_targets, n_impostors=n_impostors,
            min_rows=min_rows, max_anchors=max_anchors, max_iter=max_iter, tol=tol,
            validation_fraction=validation_fraction, warm_start=warm_start, checkpoint=checkpoint,
            callback=callback, device=device, random_state=random_state, n_jobs=n_jobs,
            verbose=verbose, memory_limit=memory_limit,
        )  # fmt: skip
        self.client = client

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        triplets_val: Any = None,
    ) -> HDSL:
        """Learn the similarity from blocks; parameters are those of ``hdsl.HDSL.fit``."""
        given = _given(y, triplets, quadruplets, sample_weight)
        return learn(self, X, given, (X_val, y_val, triplets_val), continues=self.warm_start)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
    ) -> HDSL:
        """Continue the path; parameters are those of ``hdsl.HDSL.partial_fit``."""
        given = _given(y, triplets, quadruplets, sample_weight)
        return learn(self, X, given, (None, None, None), continues=True)

    def local(self) -> hdsl_module.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        model = hdsl_module.HDSL()
        names = model.get_params()
        model.set_params(**{k: v for k, v in self.get_params().items() if k in names})
        checks.replace_fitted(model, self)
        model.__dict__.pop("checkpoint_file_", None)  # that file is this object's to delete
        return model

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}  # a connection is this process's own


def _given(y: Any, triplets: Any, quadruplets: Any, sample_weight: Any) -> dict[str, Any]:
    """Return what was given, labels and weights as objects of the client."""
    y, sample_weight = (
        part.compute() if hasattr(part, "__dask_graph__") else part for part in (y, sample_weight)
    )
    return {
        "y": y,
        "triplets": triplets,
        "quadruplets": quadruplets,
        "sample_weight": sample_weight,
    }


# --- the road of a fit, as in ``fitting`` --------------------------------------------------------


def learn(
    model: HDSL, X: Any, given: dict[str, Any], validation: tuple[Any, ...], *, continues: bool
) -> HDSL:
    """Fit a model to blocks; parameters are those of ``fitting.learn``."""
    run = prepare(model, X, given, validation, continues=continues)
    with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
        found = follow_path(model, run, workers, progress)
        fitting.store(run.learned, found)
        checks.replace_fitted(model, run.learned)
        progress.say(fitting.summary(model))
    fitting.keep_checkpoint(model, run.checkpoint)
    return model


@dataclass(frozen=True)
class Prepared:
    """What a fit begins with, checked."""

    rows: Rows  # as they are compared
    data: Supervision  # of these rows, if it has labels
    compared: list[Any]  # blocks of comparisons; none where there are labels
    held: Supervision | None  # validation data
    rng: np.random.Generator
    earlier: Result | None
    checkpoint: Checkpoint | None
    learned: Any


def prepare(
    model: HDSL, X: Any, given: dict[str, Any], validation: tuple[Any, ...], *, continues: bool
) -> Prepared:
    """Check what a fit is given."""
    check_possible(model)
    earlier = None
    if continues and hasattr(model, "atoms_"):
        fitting.check_same_path(model)
        earlier = fitting.path_so_far(model)
    rng = checks.generator(model.random_state)
    checkpoint = checkpoint_module.begin(model.checkpoint, rng)
    learned, client = copy(model), blocks.find_client(model.client)
    blocks.check_versions(client)
    if not blocks.is_in_blocks(X):
        X = checks.check_matrix(learned, X, reset=earlier is None)
    rows = Rows.load(client, X)
    if earlier is not None and rows.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but HDSL is expecting {model.n_features_in_} "
            "features as input."
        )
    learned.n_features_in_ = rows.shape[1]
    learned.norm_, learned.columns_ = row_norm(model, rows, earlier is not None)
    if model.norm is not None:
        rows = rows.at_unit_length()
    data, compared = supervise(rows, given)
    held = data.check_validation(learned, *validation)
    if held is not None and model.norm is not None:
        held = replace(held, X=unit_rows(held.X, learned.columns_))
    if checkpoint is not None:
        checkpoint.check(identity_of_run(model, rows, data, compared, held, earlier))
    return Prepared(rows, data, compared, held, rng, earlier, checkpoint, learned)


def check_possible(model: HDSL) -> None:
    """Raise ValueError for parameters that are wrong, or that a cluster has not."""
    fitting.check_parameters(model)
    checks.check_word("hdsl.dask.HDSL", "device", model.device, ("cpu",))
    if callable(model.mining):
        raise ValueError(
            "A function for `mining` is given all rows of X as one matrix, which no machine of a "
            "cluster has. Make the triplets yourself and pass triplets=, in blocks where they are "
            "many."
        )


def row_norm(model: HDSL, rows: Rows, continues: bool) -> tuple[str | None, np.ndarray | None]:
    """Return the norm of a model, and the columns that count in it, as on one machine."""
    columns = rows.columns()[0]
    like = sp.csr_array((np.ones(len(columns)), columns, [0, len(columns)]), (1, rows.shape[1]))
    if model.norm is None:
        like = sp.csr_array(
            np.sqrt(np.concatenate([facts.squares for facts in rows.facts]))[:, None]
        )
    return fitting.row_norm(model, like, continues)


def supervise(rows: Rows, given: dict[str, Any]) -> tuple[Supervision, list[Any]]:
    """Return labels, checked, and blocks of judgements where these are given."""
    listed = {name: given[name] for name in ("triplets", "quadruplets") if given[name] is not None}
    in_blocks = [name for name, value in listed.items() if blocks.is_in_blocks(value)]
    shape: Any = rows  # only the number of rows is looked at
    if len(listed) == 1 and in_blocks:
        ((name, value),) = listed.items()
        width = 3 if name == "triplets" else 4
        return Supervision(shape), compared_blocks(rows, value, given["sample_weight"], width)
    data = Supervision.check("HDSL", shape, **given)
    if not data.is_judged:
        return data, []
    return Supervision(shape), [held(rows.client, (data.compared, data.compared_weights))]


def identity_of_run(
    model: HDSL,
    rows: Rows,
    data: Supervision,
    compared: list[Any],
    validation: Supervision | None,
    earlier: Result | None,
) -> dict[str, Any]:
    """Return all that the end of a run depends on, data by their digests."""
    parts = [rows.client.map(block_digest, part, pure=False) for part in (rows.blocks, compared)]
    of_rows, of_compared = ("".join(told) for told in gather(rows.client, parts))
    nothing: Any = np.empty(0)
    known = fitting.identity_of_run(model, replace(data, X=nothing), validation, earlier)
    return {**known, "X": of_rows, "triplets": of_compared}


def block_digest(block: Any) -> str:
    """Return a fingerprint of a block."""
    return digest(*(block if isinstance(block, tuple) else (block,)))["sha256"]


def follow_path(
    model: HDSL, run: Prepared, workers: Workers, progress: Progress
) -> fitting.Learned:
    """Choose what is left open, make comparisons, and solve."""
    found = None if run.checkpoint is None else run.checkpoint.arrays
    rng, earlier, rows, compared = run.rng, run.earlier, run.rows, run.compared
    own, choice = np.random.default_rng(rng.integers(2**62, size=2)), None
    if earlier is None and found is None and fitting.is_open(model, run.held):
        choice = choosing.choose(
            model, choice_data(run, own), run.held, own,
            lambda part: fitting.Fits(model, part, own, workers), progress,
        )  # fmt: skip
        progress.say(choice.reason)
    if not run.data.is_judged:
        progress.stage("making comparisons")
        chosen = supervision.sample_rows(Mining.of(model), run.data, rng)
        y, weights = run.data.y, run.data.weights
        if chosen is not None:
            rows, y = rows.keep(chosen), y[chosen]
            weights = None if weights is None else weights[chosen]
        compared = compare(Mining.of(model), rows, y, weights, rng)
    progress.stage("building shards")
    columns = None if earlier is None else np.unique(earlier.atoms[:, :2])
    make = lambda: build(rows, compared, columns, fitting.least_rows(model, rows.shape[0]))  # noqa: E731
    layout, nothing = make(), Supervision(sp.csr_array((0, 0)))
    table: Arrays | None = None
    if earlier is not None:
        n_iter = earlier.n_iter + fitting.n_steps(model)
        size, table = fitting.Size(model.scale_, model.prior_, n_iter), model.choice_
    elif run.checkpoint is not None and found is not None:
        with run.checkpoint.explain_damage():
            size = fitting.Size.restored(found, nothing)
            table = fitting.part_of(found, "choice") or None
    else:
        size, table = fitting.Size.chosen(model, layout.statistics(), choice)
    longest = max(facts.longest for facts in rows.facts)
    like = sp.csr_array(np.full((1, longest), rows.largest))
    checks.check_margins(like, size.scale, size.prior)
    saved = {"size": size.as_array(nothing), **fitting.nested(choice=table or {})}
    first = 0 if earlier is None else earlier.n_iter
    with fitting.damage_explained(run.checkpoint):
        result = solve(
            model, run, layout, make, size, saved, progress.follow("learning", first, size.max_iter)
        )
    n = layout.places.n_comparisons
    return fitting.Learned(result, size.scale, size.prior, n, table)


def choice_data(run: Prepared, rng: np.random.Generator) -> Supervision:
    """Return rows to choose the prior on, on the client: all where there are few, else a sample."""
    rows, data, client = run.rows, run.data, run.rows.client
    everything = np.arange(rows.shape[0])
    if not data.is_judged:
        chosen = supervision.sample_rows(Mining(max_anchors=CHOICE_ROWS), data, rng)
        chosen = everything if chosen is None else chosen
        weights = None if data.weights is None else data.weights[chosen]
        return Supervision(rows.fetch(chosen), data.y[chosen], weights)
    told = gather(client, client.map(blocks.summarise, run.compared, pure=False))
    anchors = np.unique(np.concatenate([part.anchors for part in told]))
    if len(anchors) > CHOICE_ANCHORS:
        anchors = np.sort(rng.choice(anchors, CHOICE_ANCHORS, replace=False))
    parts = gather(client, client.map(of_anchors, run.compared, anchors=anchors, pure=False))
    compared = np.concatenate([part for part, _ in parts])
    weights = None if parts[0][1] is None else np.concatenate([own for _, own in parts])
    if len(everything) <= CHOICE_ROWS:
        return Supervision(rows.fetch(everything), compared=compared, compared_weights=weights)
    named, numbers = np.unique(compared, return_inverse=True)
    compared = numbers.reshape(compared.shape)
    return Supervision(rows.fetch(named), compared=compared, compared_weights=weights)


def of_anchors(block: Compared, anchors: np.ndarray) -> Compared:
    """Return the comparisons that start from some rows."""
    compared, weights = block
    chosen = np.isin(compared[:, 0], anchors)
    return compared[chosen], None if weights is None else weights[chosen]


def solve(
    model: HDSL,
    run: Prepared,
    layout: DaskLayout,
    make: Callable[[], DaskLayout],
    size: fitting.Size,
    saved: Arrays,
    show: Callable[[State], None] | None,
) -> Result:
    """Run the solver; from the last rest, on new shards, where Dask gives up a task.

    Dask computes again what dies with a worker. A task that it gives up was at work when several
    workers died.
    """
    from distributed import KilledWorker

    rests, loss = fitting.rests(run.checkpoint, saved), losses.checked(losses.get(model.loss))
    latest = None if rests is None else rests.latest
    begin, seen = deepcopy(run.rng.bit_generator.state), -1

    def save(arrays: Callable[[], Arrays]) -> None:
        nonlocal latest
        latest = arrays()
        if rests is not None:
            rests.save(lambda: latest)

    def once(state: State) -> bool:
        nonlocal seen
        if state.n_iter <= seen:  # it is computed again
            return False
        seen = state.n_iter
        return bool(callback is not None and callback(state))

    callback = fitting.all_of(show, model.callback)
    for attempt in range(MOST_LOSSES):
        try:
            return fitting.solve(
                model, layout.problem(loss, size.scale, size.prior), run.rng,
                max_iter=size.max_iter, earlier=run.earlier, rests=Rests(latest, save),
                callback=once,
            )  # fmt: skip
        except KilledWorker:
            if attempt == MOST_LOSSES - 1:
                raise
            layout = make()
            if latest is None:
                run.rng.bit_generator.state = begin
    raise AssertionError
