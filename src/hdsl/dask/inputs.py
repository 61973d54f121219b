"""What a fit on a cluster is given, checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..cpu.workers import Workers
from ..evaluate.choose import EmbeddingChoice
from ..files.checkpoint import digest
from ..fit.automatic import least_rows
from ..fit.inputs import (
    CheckedInput,
    FitInput,
    earlier_path,
    open_checkpoint,
    rows_as_compared,
    weighed,
)
from ..fit.layouts import LaidOut, row_norm
from ..fit.parameters import FitParameters
from ..fit.resume import identity_of_run
from ..input.embeddings import check_rows, take_pair_widths
from ..input.parameters import check_word, generator
from ..progress import Progress
from ..rows import Rows
from ..supervision.compared_rows import ComparedRows, Miner
from ..supervision.labeled_rows import LabeledRows, LabelSetRows
from .blocks import is_in_blocks, is_pair
from .build import build_layout
from .choice_data import sample_comparisons, sample_labels
from .cluster import ClusterError, find_client, gather, send
from .comparisons import WIDTHS, ComparisonBlock, load_compared
from .mining import compare
from .rows import ClusterRows

#: Stands for comparisons that are in blocks on the cluster.
NO_TRIPLETS = np.empty((0, 3), dtype=np.int64)


@dataclass(frozen=True)
class ClusterInput(CheckedInput):
    """What a fit on a cluster begins with, checked.

    Its data have these rows as X, which they ask for their shape alone.

    Parameters
    ----------
    rows : ClusterRows
        As they are compared.
    blocks : list of Future
        Of comparisons; none where there are labels.
    """

    rows: ClusterRows
    blocks: list[Any]

    @property
    def has_embedding(self) -> bool:
        """Whether rows have an embedding beside their features."""
        return self.rows.embedding_width > 0

    @property
    def has_embedding_alone(self) -> bool:
        """Whether rows are an embedding without features."""
        return self.has_embedding and not self.rows.n_features

    def with_embedding(self, embedding: EmbeddingChoice) -> ClusterInput:
        """Return the same with rows whose embedding has its weight."""
        rows = self.rows.map(weighed, weight=embedding.weight)
        validation = self.validation
        if validation is not None:
            X = weighed(validation.X, embedding.weight)
            validation = replace(validation, X=X)
        return replace(
            self,
            data=replace(self.data, X=rows),
            validation=validation,
            embedding=embedding,
            rows=rows,
        )

    def choice_data(self, rng: np.random.Generator) -> LabeledRows | ComparedRows:
        """Return rows on the client to choose by: all where there are few, else a sample."""
        if self.is_judged:
            return sample_comparisons(self.rows, self.blocks, rng)
        return sample_labels(self.rows, self.data, rng)

    @contextmanager
    def explain_loss(self) -> Iterator[None]:
        """Say in an error that the client was lost, where it was."""
        try:
            yield
        except Exception as error:
            if self.rows.client.status == "running" or isinstance(error, ClusterError):
                raise
            raise ClusterError(
                f"The Dask client was lost during the fit: {error}"
            ) from error

    def check_memory(self) -> None:
        """Leave it to the workers, which have limits of their own."""

    def lay_out(self, workers: Workers, progress: Progress) -> LaidOut:
        """Make comparisons, and lay them out in shards."""
        rows = self.rows
        blocks = self.blocks
        if not self.is_judged:
            progress.stage("making comparisons")
            rows, blocks = compare(Miner.of(self.parameters), self.data, rows, self.rng)
        progress.stage("building shards")
        min_rows = least_rows(self.parameters, rows.shape[0])
        layout = build_layout(rows, blocks, self.earlier_features, min_rows)
        return LaidOut(layout, None, rows.one_like_the_longest())

    @property
    def is_judged(self) -> bool:
        """Whether comparisons are given, not labels."""
        return isinstance(self.data, ComparedRows)


def check_cluster_input(
    model: Any, fit_input: FitInput, continues: bool
) -> ClusterInput:
    """Check what a fit is given; `continues` is whether the path so far goes on."""
    parameters = fit_input.parameters_of(model)
    check_cluster_parameters(parameters)
    earlier = earlier_path(model, parameters, continues)
    learned = copy(model)
    rows = load_rows(model, learned, fit_input.X, continues=earlier is not None)
    data, blocks = load_supervision(rows, fit_input)
    norm, columns = norm_of(model, rows, data.weights, continues=earlier is not None)
    learned.norm_ = norm
    learned.columns_ = columns
    if norm is not None or rows.embedding_width:
        rows = rows.map(rows_as_compared, norm=norm)
        data = replace(data, X=rows)
    validation = fit_input.check_validation(data, learned)
    rng = generator(parameters.random_state)
    checkpoint = open_checkpoint(parameters)
    if checkpoint is not None:
        digests = replace(data, X=digests_of(rows, blocks))
        checkpoint.begin(rng, identity_of_run(parameters, digests, validation, earlier))
    return ClusterInput(
        data=data,
        validation=validation,
        rng=rng,
        earlier=earlier,
        checkpoint=checkpoint,
        learned=learned,
        tasks=fit_input.tasks,
        parameters=parameters,
        rows=rows,
        blocks=blocks,
    )


def check_cluster_parameters(model: FitParameters) -> None:
    """Raise ValueError for parameters that need one machine."""
    check_word("hdsl.dask.HDSL", "device", model.device, ("cpu",))
    if callable(model.mining):
        raise ValueError(
            "A function for `mining` is given all rows of X as one matrix, which no "
            "machine of a cluster has. Pass triplets= instead, in blocks where they "
            "are many."
        )


# --- rows -----------------------------------------------------------------------------


def load_rows(model: Any, learned: Any, X: Any, *, continues: bool) -> ClusterRows:
    """Return the rows of a fit; `learned` then knows how many features they have."""
    client = find_client(model.client)
    reset = not continues
    if is_pair(X):
        return load_pair(client, learned, X, reset)
    if not is_in_blocks(X):
        return ClusterRows.load(client, check_rows(learned, X, reset=reset))
    embedding = model.embedding
    if continues:
        embedding = model.embedding_width_ or None
    rows = ClusterRows.load(client, X, embedding)
    if continues and rows.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the path so far has "
            f"{model.n_features_in_}."
        )
    if reset:
        learned.n_features_in_ = rows.shape[1]
        learned.embedding_width_ = rows.embedding_width
        vars(learned).pop("feature_names_in_", None)
    return rows


def load_pair(client: Any, learned: Any, X: Any, reset: bool) -> ClusterRows:
    """Return rows that come as a pair (features, embedding), whole or in blocks."""
    features, embedding = X
    if sp.issparse(embedding):
        raise ValueError(
            "A tuple X is a pair (features, embedding), and its embedding must be "
            "dense. Give blocks of rows as a list."
        )
    if not is_in_blocks(features) and not is_in_blocks(embedding):
        return ClusterRows.load(client, check_rows(learned, X, reset=reset))
    rows = ClusterRows.load_pair(client, features, embedding)
    take_pair_widths(learned, rows.n_features, rows.embedding_width, reset)
    return rows


def norm_of(
    model: Any, rows: ClusterRows, weights: np.ndarray | None, *, continues: bool
) -> tuple[str | None, np.ndarray | None]:
    """Return the norm of a model, and the columns that count in it; rows of weight 0 are absent."""
    if weights is not None:
        rows = rows.keep(np.flatnonzero(weights))
    return row_norm(model, rows.outline(model.norm), continues)


# --- labels or comparisons ------------------------------------------------------------


def load_supervision(
    rows: ClusterRows, fit_input: FitInput
) -> tuple[LabeledRows | ComparedRows, list[Any]]:
    """Return labels, checked, or blocks of comparisons and what stands for them."""
    X: Any = rows
    judged = ComparedRows(X, NO_TRIPLETS)
    kind = kind_in_blocks(fit_input)
    if kind is not None:
        if fit_input.groups is not None:
            raise ValueError(
                "On a cluster groups are of rows with labels, but comparisons came in "
                "blocks: leave groups out."
            )
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


def digests_of(rows: ClusterRows, blocks: list[Any]) -> Any:
    """Return a fingerprint of each block of rows and of comparisons."""
    client = rows.client
    of_rows = client.map(digest_of_rows, rows.blocks, pure=False)
    of_comparisons = client.map(digest_of_comparisons, blocks, pure=False)
    return np.array(gather(client, [*of_rows, *of_comparisons]))


def digest_of_rows(block: sp.csr_array | Rows) -> str:
    """Return a fingerprint of a block of rows."""
    return digest(block)["sha256"]


def digest_of_comparisons(block: ComparisonBlock) -> str:
    """Return a fingerprint of a block of comparisons."""
    return digest(block.compared, block.weights)["sha256"]
