"""hdsl.dask.HDSL: the fit of one machine, on shards of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import hdsl as hdsl_module
from ..cpu.workers import Workers
from ..files.digests import digest
from ..fit.layouts import row_norm
from ..fit.path import store, summary
from ..fit.resume import identity_of_run, keep_checkpoint
from ..fit.road import CheckedInput, LaidOutRun, choose_open_settings, solve, start_run
from ..fit.sizes import least_rows
from ..input.estimators import replace_fitted
from ..input.matrices import check_matrix
from ..input.parameters import check_word
from ..labels import LabelSets
from ..progress import Progress
from ..similarity.rows import unit_rows
from ..supervision.mining import Mining, sample_rows
from ..supervision.supervision import Supervision
from . import data as data_module
from .data import Compared, Rows, build, compared_blocks, held
from .mining import compare
from .problem import ClusterError, gather

#: Most rows, and anchors of comparisons, that the prior is chosen on: they go to the
#: client.
CHOICE_ROWS = 20_000
CHOICE_ANCHORS = 5_000


# --- the road of a fit, as in ``fit.road`` --------------------------------------------


def learn(
    model: HDSL,
    X: Any,
    given: dict[str, Any],
    validation: tuple[Any, ...],
    continues: bool,
) -> HDSL:
    """Fit a model to blocks; parameters are those of ``fit.road.learn``."""
    run = prepare(model, X, given, validation, continues)
    with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
        try:
            found = solve(model, run, lay_out(model, run, workers, progress), progress)
        except Exception as error:
            if run.rows.client.status == "running" or isinstance(error, ClusterError):
                raise
            raise ClusterError(
                f"The Dask client was lost during the fit: {error}"
            ) from error
        store(run.learned, found)
        replace_fitted(model, run.learned)
        progress.say(summary(model))
    keep_checkpoint(model, run.checkpoint)
    return model


@dataclass(frozen=True)
class ClusterInput(CheckedInput):
    """Checked input of a fit on a cluster."""

    rows: Rows  # as they are compared
    compared: list[Any]  # blocks of comparisons, where there are no labels


def prepare(
    model: HDSL,
    X: Any,
    given: dict[str, Any],
    validation: tuple[Any, ...],
    continues: bool,
) -> ClusterInput:
    """Check what a fit is given."""
    check_word("hdsl.dask.HDSL", "device", model.device, ("cpu",))
    if callable(model.mining):
        raise ValueError(
            "A function for `mining` is given all rows of X as one matrix, which no "
            "machine of a cluster has. Pass triplets= instead, in blocks where they "
            "are many."
        )
    earlier, rng, checkpoint, learned = start_run(model, continues)
    client = data_module.find_client(model.client)
    if not data_module.is_in_blocks(X):
        X = check_matrix(learned, X, reset=earlier is None)
    rows = Rows.load(client, X)
    if earlier is not None and rows.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the path so far has "
            f"{model.n_features_in_}."
        )
    learned.n_features_in_ = rows.shape[1]
    data, compared = supervise(rows, given)
    present = rows if data.weights is None else rows.keep(np.flatnonzero(data.weights))
    outline = present.outline(model.norm)
    learned.norm_, learned.columns_ = row_norm(model, outline, earlier is not None)
    if model.norm is not None:
        rows = Rows.of(client, client.map(unit_rows, rows.blocks, pure=False))
        data = replace(data, X=rows)
    held = data.check_validation(learned, *validation)
    if held is not None and model.norm is not None:
        held = replace(held, X=unit_rows(held.X, learned.columns_))
    if checkpoint is not None:
        told = gather(
            client, client.map(block_digest, rows.blocks + compared, pure=False)
        )
        known: Any = replace(data, X=np.array(told))
        checkpoint.begin(rng, identity_of_run(model, known, held, earlier))
    return ClusterInput(data, held, rng, earlier, checkpoint, learned, rows, compared)


def supervise(rows: Rows, given: dict[str, Any]) -> tuple[Supervision, list[Any]]:
    """Return labels, checked, or blocks of judgements."""
    shaped: Any = rows  # only its shape is asked for
    judged = [name for name in ("triplets", "quadruplets") if given[name] is not None]
    if len(judged) == 1 and data_module.is_in_blocks(given[judged[0]]):
        width = 3 if judged == ["triplets"] else 4
        made = compared_blocks(rows, given[judged[0]], given["sample_weight"], width)
        return Supervision(shaped), made
    for name in ("y", "sample_weight"):
        if hasattr(given[name], "compute"):
            given = {**given, name: given[name].compute()}
    data = Supervision.check("HDSL", shaped, **given)
    if isinstance(data.y, LabelSets):
        raise ValueError(
            "On a cluster a row has one label, but y has several per row: make "
            "comparisons with hdsl.triplets.shared_label_triplets and pass triplets= "
            "and sample_weight=."
        )
    if not data.is_judged:
        return data, []
    return Supervision(shaped), [
        held(rows.client, (data.compared, data.compared_weights))
    ]


def block_digest(block: Any) -> str:
    """Return a fingerprint of a block of rows or of comparisons."""
    return digest(*(block if isinstance(block, tuple) else (block,)))["sha256"]


def lay_out(
    model: HDSL, run: ClusterInput, workers: Workers, progress: Progress
) -> LaidOutRun:
    """Choose what is left open, make comparisons, and lay them out."""
    earlier = run.earlier
    rows = run.rows
    compared = run.compared
    choice = choose_open_settings(
        model, run, partial(choice_data, run), workers, progress
    )
    if not run.data.is_judged:
        progress.stage("making comparisons")
        rows, compared = compare(Mining.of(model), run.data, rows, run.rng)
    progress.stage("building shards")
    columns = None if earlier is None else np.unique(earlier.atoms[:, :2])
    least = least_rows(model, rows.shape[0])
    layout = build(rows, compared, columns, least)
    nothing = Supervision(sp.csr_array((0, 0)))
    longest = max(facts.longest for facts in rows.facts)
    like = sp.csr_array(np.full((1, longest), rows.largest))
    return LaidOutRun(layout, choice, nothing, like)


def choice_data(run: ClusterInput, rng: np.random.Generator) -> Supervision:
    """Return rows to choose the prior on, on the client: all where there are few, else a sample."""
    rows = run.rows
    data = run.data
    client = run.rows.client
    chosen: Any = np.arange(rows.shape[0])
    if not data.is_judged:
        sample = sample_rows(Mining(max_anchors=CHOICE_ROWS), data, rng)
        chosen = chosen if sample is None else sample
        weights = None if data.weights is None else data.weights[chosen]
        return Supervision(rows.fetch(chosen), data.y[chosen], weights)
    told = gather(client, client.map(data_module.summarise, run.compared, pure=False))
    anchors = np.unique(np.concatenate([part.anchors for part in told]))
    if len(anchors) > CHOICE_ANCHORS:
        anchors = rng.choice(anchors, CHOICE_ANCHORS, replace=False)
    parts = gather(
        client, client.map(of_anchors, run.compared, anchors=anchors, pure=False)
    )
    compared = np.concatenate([part for part, _ in parts])
    weights = (
        None if parts[0][1] is None else np.concatenate([given for _, given in parts])
    )
    chosen = chosen if len(chosen) <= CHOICE_ROWS else np.unique(compared)
    compared = np.searchsorted(chosen, compared)
    return Supervision(rows.fetch(chosen), compared=compared, compared_weights=weights)


def of_anchors(block: Compared, anchors: np.ndarray) -> Compared:
    """Return the comparisons that start from some rows."""
    compared, weights = block
    chosen = np.isin(compared[:, 0], anchors)
    return compared[chosen], None if weights is None else weights[chosen]


_PLAIN = signature(hdsl_module.HDSL.__init__)
_CLIENT = Parameter("client", Parameter.KEYWORD_ONLY, default=None)
#: The parameters of one machine, and the client.
_SIGNATURE = _PLAIN.replace(parameters=[*_PLAIN.parameters.values(), _CLIENT])


class HDSL(hdsl_module.HDSL):
    """HDSL on a Dask cluster, for rows and comparisons that one machine does not hold.

    ``fit`` takes X as a ``dask.array`` of sparse or dense blocks of rows, a list of
    blocks (CSR matrices, delayed objects or futures), or one matrix; triplets and
    quadruplets likewise, labels and weights as one array. The result has the fitted
    attributes of `hdsl.HDSL` and does all that it does; ``local()`` is the same model
    without the cluster.

    The model is the same for any number of workers, to the last bit on processors of
    one kind, and that of `hdsl.HDSL` up to rounding. What dies with a worker is
    computed again.

    Parameters
    ----------
    scale, prior, norm, loss, oracle, step, init, batch_size, mining, n_targets, \
    n_impostors, min_rows, max_anchors, max_iter, tol, validation_fraction, \
    warm_start, checkpoint, callback, random_state, verbose
        As in `hdsl.HDSL`. `mining` is "neighbors" or "random": a function would need
        all rows in one place. An automatic prior is chosen on a sample of the rows, on
        the client.
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

    _learn = staticmethod(learn)

    def __init__(
        self, scale: float | str = "auto", *, client: Any = None, **params: Any
    ) -> None:
        super().__init__(scale, **params)
        self.client = client

    __init__.__signature__ = _SIGNATURE  # type: ignore[attr-defined]

    def local(self) -> hdsl_module.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        names = hdsl_module.HDSL().get_params()
        model = hdsl_module.HDSL(**{name: getattr(self, name) for name in names})
        replace_fitted(model, self)
        model.__dict__.pop(
            "checkpoint_file_", None
        )  # that file is this object's to delete
        return model

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "client": None,
        }  # a connection is this process's own
