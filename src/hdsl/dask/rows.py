"""Rows in blocks on a cluster, of which the client knows a summary per block."""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.matrices import (
    as_rows,
    canonical,
    check_largest,
    check_live_features,
    largest_value,
)
from .blocks import as_futures
from .cluster import gather

# --- tasks ----------------------------------------------------------------------------


class BlockSummary(NamedTuple):
    """What the client knows of a block of rows."""

    shape: tuple[int, int]
    columns: np.ndarray  # those with a value, rising
    counts: np.ndarray  # values of each of these columns
    largest_value: float
    longest_row: int
    squared_norms: np.ndarray  # ‖x‖² of each row


def check_block(block: Any, number: int) -> sp.csr_array:
    """Return a block as a canonical CSR array of float64, checked as rows of one machine are."""
    X = as_rows(block, f"Block {number} of X")
    return canonical(sp.csr_array(X)).astype(np.float64, copy=False)


def summarize_block(block: sp.csr_array) -> BlockSummary:
    """Return what the client needs to know of a block."""
    columns, counts = np.unique(block.indices, return_counts=True)
    return BlockSummary(
        shape=block.shape,
        columns=columns,
        counts=counts,
        largest_value=largest_value(block.data),
        longest_row=int(np.diff(block.indptr).max(initial=0)),
        squared_norms=np.asarray(block.multiply(block).sum(axis=1)).ravel(),
    )


# --- on the client --------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Rows in blocks on a cluster, checked.

    Parameters
    ----------
    client : distributed.Client
    blocks : list of Future
    summaries : list of BlockSummary
    """

    client: Any
    blocks: list[Any]
    summaries: list[BlockSummary]

    @classmethod
    def from_futures(cls, client: Any, blocks: list[Any]) -> Rows:
        """Return the rows of checked blocks."""
        summaries = client.map(summarize_block, blocks, pure=False)
        return cls(client, blocks, gather(client, summaries))

    @classmethod
    def load(cls, client: Any, X: Any) -> Rows:
        """Return rows as a user gives them; raise ValueError for what cannot be used."""
        blocks = as_futures(client, X)
        if not blocks:
            raise ValueError("X has no blocks: at least one block of rows is needed.")
        checked = client.map(check_block, blocks, range(len(blocks)), pure=False)
        rows = cls.from_futures(client, checked)
        widths = {summary.shape[1] for summary in rows.summaries}
        if len(widths) > 1:
            raise ValueError(
                f"Blocks of X have different numbers of features: {sorted(widths)}."
            )
        columns, _ = rows.count_columns()
        check_live_features(len(columns), rows.shape[1])
        check_largest(rows.largest_value)
        return rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.starts[-1]), self.summaries[0].shape[1]

    @property
    def starts(self) -> np.ndarray:
        """Number of the first row of each block, and of all rows at the end."""
        return np.cumsum([0, *(summary.shape[0] for summary in self.summaries)])

    @property
    def largest_value(self) -> float:
        """The largest absolute value."""
        return max(summary.largest_value for summary in self.summaries)

    @property
    def longest_row(self) -> int:
        """The most values of a row."""
        return max(summary.longest_row for summary in self.summaries)

    @property
    def mean_squared_norm(self) -> float:
        """‖x‖² of the rows, in the mean."""
        sums = [float(summary.squared_norms.sum()) for summary in self.summaries]
        return sum(sums) / self.shape[0]

    def outline(self, norm: str | None) -> sp.csr_array:
        """Return a matrix with the same lengths of rows, or with the same columns."""
        if norm is None:
            squares = [summary.squared_norms for summary in self.summaries]
            return sp.csr_array(np.sqrt(np.concatenate(squares))[:, None])
        columns, counts = self.count_columns()
        return sp.csr_array((counts, columns, [0, len(columns)]), (1, self.shape[1]))

    def count_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns with values, rising, and how many values each has."""
        columns, position = np.unique(
            np.concatenate([summary.columns for summary in self.summaries]),
            return_inverse=True,
        )
        counts = np.concatenate([summary.counts for summary in self.summaries])
        return columns.astype(np.int64), np.bincount(position, counts)

    def keep(self, rows: np.ndarray) -> Rows:
        """Return the rows of these numbers, which rise."""
        if len(rows) == self.shape[0]:
            return self
        starts = self.starts
        cuts = np.searchsorted(rows, starts)
        blocks = []
        numbers = []
        for k, block in enumerate(self.blocks):
            rows_of_block = rows[cuts[k] : cuts[k + 1]]
            if len(rows_of_block):
                blocks.append(block)
                numbers.append(rows_of_block - starts[k])
        kept = self.client.map(getitem, blocks, numbers, pure=False)
        return Rows.from_futures(self.client, kept)

    def fetch(self, rows: np.ndarray) -> sp.csr_array:
        """Return the rows of these numbers, which rise, on the client."""
        blocks = gather(self.client, self.keep(rows).blocks)
        return sp.csr_array(sp.vstack(blocks, format="csr"))
