"""The road of a fit on a cluster: that of one machine, but for where the rows are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..files.checkpoint import digest
from ..fit.layouts import row_norm
from ..fit.parameters import FitParameters
from ..fit.path import identity_of_run
from ..fit.road import Fit, FitInput, rows_as_compared, weighed
from ..input.embeddings import check_rows, take_pair_widths
from ..input.parameters import check_word
from ..progress import Progress
from ..rows import Rows
from ..settings import Mining
from ..supervision.compared_rows import ComparedRows, Miner
from ..supervision.labeled_rows import LabeledRows, LabelSetRows, sample_rows
from .cluster import ClusterError, find_client, gather, send
from .comparisons import (
    WIDTHS,
    ComparisonBlock,
    compare,
    load_compared,
    summarize,
    with_anchors,
)
from .layout import build_layout
from .rows import ClusterRows, is_in_blocks, is_pair

if TYPE_CHECKING:
    from ..cpu.workers import Workers


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


#: Stands for comparisons that are in blocks on the cluster.
NO_TRIPLETS = np.empty((0, 3), dtype=np.int64)


class ClusterFit(Fit):
    """A fit whose rows are in blocks on the workers of a cluster.

    Its data have these rows as X, which they ask for their shape alone.

    Attributes
    ----------
    rows : ClusterRows
        As they are compared.
    blocks : list of Future
        Of comparisons; none with labels.
    """

    rows: ClusterRows
    blocks: list[Any]

    def find(self, workers: Workers, progress: Progress) -> None:
        """Choose, lay out and solve."""
        try:
            self.weigh_embedding(progress)
            self.lay_out(workers, progress)
            self.solve(progress)
        except Exception as error:
            is_lost = self.rows.client.status != "running"
            if not is_lost or isinstance(error, ClusterError):
                raise
            raise ClusterError(
                f"The Dask client was lost during the fit: {error}"
            ) from error
        self.fitted.memory_ = None

    # --- checked ----------------------------------------------------------------------

    def check_parameters(self) -> FitParameters:
        """Return what the fit goes by; raise ValueError for what needs one machine."""
        check_word("hdsl.dask.HDSL", "device", self.model.device, ("cpu",))
        if callable(Mining.of(self.model.mining).how):
            raise ValueError(
                "A function for `mining` needs all rows of X as one matrix, which no "
                "machine of a cluster has. Pass triplets= instead, in blocks if "
                "there are many."
            )
        return super().check_parameters()

    def check_data(self) -> Any:
        """Return what is learned from, checked; `fitted` learns the features and the norm."""
        continues = self.earlier is not None
        rows = load_rows(self.model, self.fitted, self.given.X, continues=continues)
        data, self.blocks = load_supervision(rows, self.given)
        norm, columns = norm_of(self.model, rows, data.weights, continues=continues)
        self.fitted.norm_ = norm
        self.fitted.columns_ = columns
        if norm is not None or rows.embedding_width:
            rows = rows.map(rows_as_compared, norm=norm)
        self.rows = rows
        return replace(data, X=rows)

    def identity(self) -> dict[str, Any]:
        """Return all that the end of the run depends on, data by their digests."""
        digests = replace(self.data, X=digests_of(self.rows, self.blocks))
        return identity_of_run(
            self.parameters,
            digests,
            self.validation,
            self.earlier,
            self.forbidden_pairs,
        )

    @property
    def has_embedding(self) -> bool:
        """Whether rows have an embedding beside their features."""
        return self.rows.embedding_width > 0

    @property
    def has_embedding_alone(self) -> bool:
        """Whether rows are an embedding without features."""
        return self.has_embedding and not self.rows.n_features

    @property
    def is_judged(self) -> bool:
        """Whether comparisons are given, not labels."""
        return isinstance(self.data, ComparedRows)

    # --- chosen -----------------------------------------------------------------------

    def data_to_choose_on(self, rng: np.random.Generator) -> LabeledRows | ComparedRows:
        """Return rows to choose on, on the client: all if there are few, else a sample."""
        if self.is_judged:
            return sample_comparisons(self.rows, self.blocks, rng)
        return sample_labels(self.rows, self.data, rng)

    def take_weight(self, weight: float) -> None:
        """Give the embedding a weight, on the workers."""
        self.rows = self.rows.map(weighed, weight=weight)
        self.data = replace(self.data, X=self.rows)
        self.weigh_validation(weight)

    # --- laid out ---------------------------------------------------------------------

    def lay_out(self, workers: Workers, progress: Progress) -> None:
        """Choose what is left open, make comparisons, lay them out, settle the numbers."""
        choice = self.choose(workers, progress)
        rows = self.rows
        blocks = self.blocks
        if not self.is_judged:
            progress.stage("making comparisons")
            miner = Miner.of(self.parameters)
            rows, blocks = compare(miner, self.data, rows, self.rng)
        progress.stage("building shards")
        min_rows = self.parameters.least_rows(rows.shape[0])
        self.layout = build_layout(rows, blocks, self.earlier_columns(), min_rows)
        self.compared = None
        self.settle(choice, rows.one_like_the_longest())


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
    if fit_input.groups is not None and fit_input.y is None:
        raise ValueError(
            "On a cluster groups are of rows with labels, but fit was given "
            "comparisons: leave groups out."
        )
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
