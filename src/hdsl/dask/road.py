"""The road of a fit on a cluster, as in ``fit.road``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..cpu.workers import Workers
from ..fit.automatic import least_rows
from ..fit.inputs import FitInput
from ..fit.path import summary
from ..fit.resume import keep_checkpoint
from ..fit.road import (
    LaidOutRun,
    choose_open_settings,
    keep_outcome,
    solve,
    weigh_embedding,
)
from ..progress import Progress
from ..rows import Rows
from ..supervision.compared_rows import Miner
from .build import build_layout
from .choice_data import choice_data
from .cluster import ClusterError
from .inputs import ClusterInput, check_cluster_input
from .mining import compare
from .rows import ClusterRows


def learn(model: Any, fit_input: FitInput, continues: bool) -> Any:
    """Fit a model to blocks; parameters are those of ``fit.road.learn``."""
    run = check_cluster_input(model, fit_input, continues)
    parameters = run.parameters
    with (
        Workers(parameters.n_jobs) as workers,
        Progress(parameters.verbose) as progress,
    ):
        try:
            run = weigh_embedding(
                model, run, partial(choice_data, run), workers, progress
            )
            laid_out = lay_out(run, workers, progress)
            outcome = solve(model, run, laid_out, progress)
        except Exception as error:
            if run.rows.client.status == "running" or isinstance(error, ClusterError):
                raise
            raise ClusterError(
                f"The Dask client was lost during the fit: {error}"
            ) from error
        keep_outcome(model, run, outcome)
        progress.say(summary(model))
    keep_checkpoint(model, run.checkpoint)
    return model


def lay_out(run: ClusterInput, workers: Workers, progress: Progress) -> LaidOutRun:
    """Choose what is left open, make comparisons, and lay them out."""
    make_data = partial(choice_data, run)
    choice = choose_open_settings(run, make_data, workers, progress)
    rows = run.rows
    blocks = run.blocks
    if not run.is_judged:
        progress.stage("making comparisons")
        rows, blocks = compare(Miner.of(run.parameters), run.data, rows, run.rng)
    progress.stage("building shards")
    columns = None
    if run.earlier is not None:
        columns = np.unique(run.earlier.atoms[:, :2])
    min_rows = least_rows(run.parameters, rows.shape[0])
    layout = build_layout(rows, blocks, columns, min_rows)
    return LaidOutRun(layout, choice, data=None, margin_rows=one_like_the_longest(rows))


def one_like_the_longest(rows: ClusterRows) -> sp.csr_array | Rows:
    """Return a row whose product with itself is as large as one of any two rows can be."""
    features = sp.csr_array(np.full((1, rows.longest_row), rows.largest_value))
    if not rows.embedding_width:
        return features
    shape = (1, rows.embedding_width)
    return Rows(features, np.full(shape, rows.largest_of_embedding))
