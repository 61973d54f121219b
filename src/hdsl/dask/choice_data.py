"""The data that the prior is chosen on: a sample that goes to the client."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..supervision.compared_rows import ComparedRows, Miner
from ..supervision.labeled_rows import LabeledRows, sample_rows
from .cluster import gather
from .comparisons import ComparisonBlock, summarize, with_anchors
from .rows import ClusterRows

#: Most rows.
MOST_ROWS = 20_000

#: Most anchors of comparisons.
MOST_ANCHORS = 5_000


def sample_labels(
    X: ClusterRows, data: LabeledRows, rng: np.random.Generator
) -> LabeledRows:
    """Return labeled rows, of many a sample in which each class has its share."""
    rows = np.arange(X.shape[0])
    if len(rows) > MOST_ROWS:
        n_targets = Miner().n_targets
        sample = sample_rows(data.codes, data.weights, MOST_ROWS, n_targets, rng)
        if sample is not None:
            rows = sample
    weights = None
    if data.weights is not None:
        weights = data.weights[rows]
    groups = None
    if data.groups is not None:
        groups = data.groups[rows]
    return LabeledRows(X.fetch(rows), data.y[rows], weights, groups=groups)


def sample_comparisons(
    X: ClusterRows, blocks: list[Any], rng: np.random.Generator
) -> ComparedRows:
    """Return all comparisons of a sample of the anchors, and the rows that they name."""
    client = X.client
    anchors = summarize(client, blocks).anchors
    if len(anchors) > MOST_ANCHORS:
        anchors = rng.choice(anchors, MOST_ANCHORS, replace=False)
    chosen = client.map(with_anchors, blocks, anchors=anchors, pure=False)
    block = ComparisonBlock.join(gather(client, chosen))
    n_rows = X.shape[0]
    rows = np.arange(n_rows)
    if n_rows > MOST_ROWS:
        rows = np.unique(block.compared)
    compared = np.searchsorted(rows, block.compared)
    return ComparedRows(X.fetch(rows), compared, block.weights)
