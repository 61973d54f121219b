"""What a fit on a cluster is given, checked."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files.digests import digest
from ..fit.inputs import CheckedInput, FitInput, earlier_path, open_checkpoint
from ..fit.layouts import row_norm
from ..fit.parameters import check_parameters
from ..fit.resume import identity_of_run
from ..input.matrices import check_matrix
from ..input.parameters import check_word, generator
from ..mixed_rows import is_pair
from ..similarity.rows import unit_rows
from ..supervision.compared_rows import ComparedRows
from ..supervision.label_set_rows import LabelSetRows
from ..supervision.labeled_rows import LabeledRows
from .blocks import is_in_blocks
from .cluster import find_client, gather, send
from .comparisons import WIDTHS, ComparisonBlock, load_compared
from .rows import Rows

#: Stands for comparisons that are in blocks on the cluster.
NO_TRIPLETS = np.empty((0, 3), dtype=np.int64)

#: What a cluster says of an embedding.
NO_EMBEDDING = (
    "hdsl.dask.HDSL learns from sparse rows alone: leave the embedding out, or fit "
    "hdsl.HDSL to a sample of the rows."
)


@dataclass(frozen=True)
class ClusterInput(CheckedInput):
    """What a fit on a cluster begins with, checked.

    Its data have these rows as X, which they ask for their shape alone.

    Parameters
    ----------
    rows : Rows
        As they are compared.
    blocks : list of Future
        Of comparisons; none where there are labels.
    """

    rows: Rows
    blocks: list[Any]

    @property
    def is_judged(self) -> bool:
        """Whether comparisons are given, not labels."""
        return isinstance(self.data, ComparedRows)


def check_cluster_input(
    model: Any, fit_input: FitInput, continues: bool
) -> ClusterInput:
    """Check what a fit is given; `continues` is whether the path so far goes on."""
    check_cluster_parameters(model)
    check_parameters(model)
    earlier = earlier_path(model, continues)
    learned = copy(model)
    rows = load_rows(model, learned, fit_input.X, continues=earlier is not None)
    data, blocks = load_supervision(rows, fit_input)
    norm, columns = norm_of(model, rows, data.weights, continues=earlier is not None)
    learned.norm_ = norm
    learned.columns_ = columns
    if norm is not None:
        rows = at_unit_length(rows)
        data = replace(data, X=rows)
    validation = fit_input.check_validation(data, learned)
    rng = generator(model.random_state)
    checkpoint = open_checkpoint(model)
    if checkpoint is not None:
        digests = replace(data, X=digests_of(rows, blocks))
        checkpoint.begin(rng, identity_of_run(model, digests, validation, earlier))
    return ClusterInput(
        data=data,
        validation=validation,
        rng=rng,
        earlier=earlier,
        checkpoint=checkpoint,
        learned=learned,
        tasks=fit_input.tasks,
        rows=rows,
        blocks=blocks,
    )


def check_cluster_parameters(model: Any) -> None:
    """Raise ValueError for parameters that need one machine."""
    check_word("hdsl.dask.HDSL", "device", model.device, ("cpu",))
    if model.embedding is not None:
        raise ValueError(NO_EMBEDDING)
    if callable(model.mining):
        raise ValueError(
            "A function for `mining` is given all rows of X as one matrix, which no "
            "machine of a cluster has. Pass triplets= instead, in blocks where they "
            "are many."
        )


# --- rows -----------------------------------------------------------------------------


def load_rows(model: Any, learned: Any, X: Any, *, continues: bool) -> Rows:
    """Return the rows of a fit; `learned` then knows how many features they have."""
    if is_pair(X) and X[0].shape[1] != X[1].shape[1]:  # else two blocks
        raise ValueError(NO_EMBEDDING)
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
    learned.embedding_width_ = 0
    return rows


def norm_of(
    model: Any, rows: Rows, weights: np.ndarray | None, *, continues: bool
) -> tuple[str | None, np.ndarray | None]:
    """Return the norm of a model, and the columns that count in it; rows of weight 0 are absent."""
    if weights is not None:
        rows = rows.keep(np.flatnonzero(weights))
    return row_norm(model, rows.outline(model.norm), continues)


def at_unit_length(rows: Rows) -> Rows:
    """Return the rows at unit length."""
    blocks = rows.client.map(unit_rows, rows.blocks, pure=False)
    return Rows.from_futures(rows.client, blocks)


# --- labels or comparisons ------------------------------------------------------------


def load_supervision(
    rows: Rows, fit_input: FitInput
) -> tuple[LabeledRows | ComparedRows, list[Any]]:
    """Return labels, checked, or blocks of comparisons and what stands for them."""
    X: Any = rows
    judged = ComparedRows(X, NO_TRIPLETS)
    kind = kind_in_blocks(fit_input)
    if kind is not None:
        compared = getattr(fit_input, f"{kind}s")
        return judged, load_compared(rows, compared, fit_input.sample_weight, kind)
    data = on_client(fit_input).check_supervision("HDSL", X)
    if isinstance(data, LabelSetRows):
        raise ValueError(
            "On a cluster a row has one label, but y has several per row: make "
            "comparisons with hdsl.triplets.shared_label_triplets and pass triplets= "
            "and sample_weight=."
        )
    if isinstance(data, LabeledRows):
        return data, []
    block = ComparisonBlock(data.compared, data.weights)
    return judged, [send(rows.client, block)]


def kind_in_blocks(fit_input: FitInput) -> str | None:
    """Return the kind of comparisons that come in blocks; None where none do."""
    kinds = [kind for kind in WIDTHS if getattr(fit_input, f"{kind}s") is not None]
    if len(kinds) == 1 and is_in_blocks(getattr(fit_input, f"{kinds[0]}s")):
        return kinds[0]
    return None


def on_client(fit_input: FitInput) -> FitInput:
    """Return the input with labels and weights that are arrays of the client."""
    y = fit_input.y
    if hasattr(y, "compute"):
        y = y.compute()
    sample_weight = fit_input.sample_weight
    if hasattr(sample_weight, "compute"):
        sample_weight = sample_weight.compute()
    return replace(fit_input, y=y, sample_weight=sample_weight)


# --- fingerprints ---------------------------------------------------------------------


def digests_of(rows: Rows, blocks: list[Any]) -> Any:
    """Return a fingerprint of each block of rows and of comparisons."""
    client = rows.client
    of_rows = client.map(digest_of_rows, rows.blocks, pure=False)
    of_comparisons = client.map(digest_of_comparisons, blocks, pure=False)
    return np.array(gather(client, [*of_rows, *of_comparisons]))


def digest_of_rows(block: sp.csr_array) -> str:
    """Return a fingerprint of a block of rows."""
    return digest(block)["sha256"]


def digest_of_comparisons(block: ComparisonBlock) -> str:
    """Return a fingerprint of a block of comparisons."""
    return digest(block.compared, block.weights)["sha256"]
