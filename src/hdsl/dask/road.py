"""The road of a fit on a cluster, as in ``fit.road``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..cpu.workers import Workers
from ..files.checkpoint import digest
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
from .blocks import is_in_blocks
from .build import build_layout
from .cluster import ClusterError, find_client, gather, send
from .comparisons import (
    WIDTHS,
    ComparisonBlock,
    load_compared,
    summarize,
    with_anchors,
)
from .mining import compare
from .rows import Rows

#: Most rows, and anchors of comparisons, that the prior is chosen on: they go to the
#: client.
CHOICE_ROWS = 20_000
CHOICE_ANCHORS = 5_000


def learn(
    model: Any,
    X: Any,
    supervision: dict[str, Any],
    validation: tuple[Any, ...],
    continues: bool,
) -> Any:
    """Fit a model to blocks; parameters are those of ``fit.road.learn``."""
    run = prepare(model, X, supervision, validation, continues)
    with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
        try:
            laid_out = lay_out(model, run, workers, progress)
            outcome = solve(model, run, laid_out, progress)
        except Exception as error:
            if run.rows.client.status == "running" or isinstance(error, ClusterError):
                raise
            raise ClusterError(
                f"The Dask client was lost during the fit: {error}"
            ) from error
        store(run.learned, outcome)
        replace_fitted(model, run.learned)
        progress.say(summary(model))
    keep_checkpoint(model, run.checkpoint)
    return model


# --- what a fit begins with -----------------------------------------------------------


@dataclass(frozen=True)
class ClusterInput(CheckedInput):
    """Checked input of a fit on a cluster."""

    rows: Rows  # as they are compared
    compared: list[Any]  # blocks of comparisons, where there are no labels


def prepare(
    model: Any,
    X: Any,
    supervision: dict[str, Any],
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
    rows = load_rows(model, learned, X, continues=earlier is not None)
    data, compared = supervise(rows, supervision)
    present = rows
    if data.weights is not None:
        present = rows.keep(np.flatnonzero(data.weights))
    outline = present.outline(model.norm)
    learned.norm_, learned.columns_ = row_norm(model, outline, earlier is not None)
    if model.norm is not None:
        client = rows.client
        at_unit_length = client.map(unit_rows, rows.blocks, pure=False)
        rows = Rows.from_futures(client, at_unit_length)
        data = replace(data, X=rows)
    held = data.check_validation(learned, *validation)
    if held is not None and model.norm is not None:
        held = replace(held, X=unit_rows(held.X, learned.columns_))
    if checkpoint is not None:
        fingerprint = replace(data, X=digests(rows, compared))
        checkpoint.begin(rng, identity_of_run(model, fingerprint, held, earlier))
    return ClusterInput(data, held, rng, earlier, checkpoint, learned, rows, compared)


def load_rows(model: Any, learned: Any, X: Any, *, continues: bool) -> Rows:
    """Return the rows of a fit; `learned` then knows how many features they have."""
    client = find_client(model.client)
    if not is_in_blocks(X):
        X = check_matrix(learned, X, reset=not continues)
    rows = Rows.load(client, X)
    if continues and rows.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the path so far has "
            f"{model.n_features_in_}."
        )
    learned.n_features_in_ = rows.shape[1]
    return rows


def supervise(rows: Rows, supervision: dict[str, Any]) -> tuple[Supervision, list[Any]]:
    """Return labels, checked, or blocks of judgements."""
    shaped: Any = rows  # a supervision asks rows for their shape alone
    kind = kind_in_blocks(supervision)
    if kind is not None:
        weights = supervision["sample_weight"]
        blocks = load_compared(rows, supervision[f"{kind}s"], weights, kind)
        return Supervision(shaped), blocks
    in_memory = dict(supervision)
    for name in ("y", "sample_weight"):
        if hasattr(supervision[name], "compute"):
            in_memory[name] = supervision[name].compute()
    data = Supervision.check("HDSL", shaped, **in_memory)
    if isinstance(data.y, LabelSets):
        raise ValueError(
            "On a cluster a row has one label, but y has several per row: make "
            "comparisons with hdsl.triplets.shared_label_triplets and pass triplets= "
            "and sample_weight=."
        )
    if not data.is_judged:
        return data, []
    block = ComparisonBlock(data.compared, data.compared_weights)
    return Supervision(shaped), [send(rows.client, block)]


def kind_in_blocks(supervision: dict[str, Any]) -> str | None:
    """Return the kind of comparisons that come in blocks; None where none do."""
    kinds = [kind for kind in WIDTHS if supervision[f"{kind}s"] is not None]
    if len(kinds) == 1 and is_in_blocks(supervision[f"{kinds[0]}s"]):
        return kinds[0]
    return None


def digests(rows: Rows, compared: list[Any]) -> Any:
    """Return a fingerprint of each block of rows and of comparisons."""
    client = rows.client
    of_rows = client.map(digest_of_rows, rows.blocks, pure=False)
    of_comparisons = client.map(digest_of_comparisons, compared, pure=False)
    return np.array(gather(client, [*of_rows, *of_comparisons]))


def digest_of_rows(block: sp.csr_array) -> str:
    """Return a fingerprint of a block of rows."""
    return digest(block)["sha256"]


def digest_of_comparisons(block: ComparisonBlock) -> str:
    """Return a fingerprint of a block of comparisons."""
    return digest(block.compared, block.weights)["sha256"]


# --- what it solves -------------------------------------------------------------------


def lay_out(
    model: Any, run: ClusterInput, workers: Workers, progress: Progress
) -> LaidOutRun:
    """Choose what is left open, make comparisons, and lay them out."""
    rows = run.rows
    compared = run.compared
    make_data = partial(choice_data, run)
    choice = choose_open_settings(model, run, make_data, workers, progress)
    if not run.data.is_judged:
        progress.stage("making comparisons")
        rows, compared = compare(Mining.of(model), run.data, rows, run.rng)
    progress.stage("building shards")
    columns = None
    if run.earlier is not None:
        columns = np.unique(run.earlier.atoms[:, :2])
    min_rows = least_rows(model, rows.shape[0])
    layout = build_layout(rows, compared, columns, min_rows)
    no_comparisons = Supervision(sp.csr_array((0, 0)))
    return LaidOutRun(layout, choice, no_comparisons, longest_row_like(rows))


def longest_row_like(rows: Rows) -> sp.csr_array:
    """Return a row whose dot product with itself no two rows exceed."""
    return sp.csr_array(np.full((1, rows.longest_row), rows.largest_value))


# --- the data that the prior is chosen on ---------------------------------------------


def choice_data(run: ClusterInput, rng: np.random.Generator) -> Supervision:
    """Return rows to choose the prior on, on the client: all where there are few, else a sample."""
    if run.data.is_judged:
        return sample_of_comparisons(run, rng)
    return sample_of_labels(run, rng)


def sample_of_labels(run: ClusterInput, rng: np.random.Generator) -> Supervision:
    """Return labelled rows."""
    data = run.data
    rows = sample_rows(Mining(max_anchors=CHOICE_ROWS), data, rng)
    if rows is None:
        rows = np.arange(run.rows.shape[0])
    weights = None
    if data.weights is not None:
        weights = data.weights[rows]
    return Supervision(run.rows.fetch(rows), data.y[rows], weights)


def sample_of_comparisons(run: ClusterInput, rng: np.random.Generator) -> Supervision:
    """Return all comparisons of a sample of the anchors, and the rows that they name."""
    client = run.rows.client
    anchors = summarize(client, run.compared).anchors
    if len(anchors) > CHOICE_ANCHORS:
        anchors = rng.choice(anchors, CHOICE_ANCHORS, replace=False)
    chosen = client.map(with_anchors, run.compared, anchors=anchors, pure=False)
    block = ComparisonBlock.join(gather(client, chosen))
    n_rows = run.rows.shape[0]
    rows = np.arange(n_rows)
    if n_rows > CHOICE_ROWS:
        rows = np.unique(block.compared)
    return Supervision(
        run.rows.fetch(rows),
        compared=np.searchsorted(rows, block.compared),
        compared_weights=block.weights,
    )
