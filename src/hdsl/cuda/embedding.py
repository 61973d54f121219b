"""Atoms s·uuᵀ inside the embedding of rows, on a card: similarities, margins and scores.

Products of tall matrices are those of cuBLAS.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..solver.directions import Directions
from .comparisons import CardData
from .pulls import Pulls
from .runtime import Array

#: Rows that are multiplied by a matrix at a time: as many as this, or an equal share of
#: all where that is more.
LEAST_ROWS = 1 << 16
MOST_SHARES = 16

#: Bytes of a number in single and in double precision.
SINGLE = 4
NUMBER = 8

#: Directions whose numbers per row are there at a time.
AT_ONCE = 32


class EmbeddedRows:
    """The embedding of rows on a card, and directions in it.

    Parameters
    ----------
    card : CardData
        Of rows with an embedding.
    directions : Directions
    scale : float
        s of the atoms s·uuᵀ.
    """

    def __init__(self, card: CardData, directions: Directions, scale: float) -> None:
        assert card.rows.dense is not None
        self.card = card
        self.device = card.device
        self.directions = directions
        self.scale = scale
        self._dense = card.rows.dense
        n_rows = card.rows.n
        size = rows_at_once(n_rows)
        bounds = [*range(0, n_rows, size), n_rows]
        self._shares = list(pairwise(bounds))

    def queue_similarities(
        self, numbers: np.ndarray, factors: np.ndarray, out: Array
    ) -> None:
        """Queue Σ_k factor_k (u_k·z_a)(u_k·z_b) of each pair of rows, added to `out`."""
        pairs = self.card.comparisons.pairs
        n_pairs = self.card.comparisons.n_pairs
        for first in range(0, len(numbers), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            self.device.run(
                "add_direction_products",
                n_pairs,
                n_pairs=n_pairs,
                width=len(numbers[some]),
                a=pairs.a,
                b=pairs.b,
                along=self._along(numbers[some]),
                factors=self.device.upload(factors[some].astype(np.float64)),
                out=out,
            )

    def queue_sample(
        self,
        numbers: np.ndarray,
        sample: dict[str, Any],
        ratio: float,
        left: int,
        V: Array,
    ) -> None:
        """Queue what directions add to the margins of a sample, in columns from `left` on.

        `sample` are arguments of the kernel that does so for pairs of features.
        """
        for first in range(0, len(numbers), AT_ONCE):
            some = numbers[first : first + AT_ONCE]
            self.device.run(
                "sample_directions",
                sample["n"],
                **sample,
                width=len(some),
                along=self._along(some),
                ratio=ratio,
                left=left + first,
                V=V,
            )

    def gradient_block(self, pulls: Pulls) -> np.ndarray:
        """Return G = Σ_s w_s (z_a z_bᵀ + z_b z_aᵀ) / 2 over the pairs s = {a, b}."""
        width = self._dense.shape[1]
        links = self.card.comparisons.links
        pulls.own_links()
        sums = self.device.empty((len(self._shares), width, width), np.float32)
        longest = self._shares[0][1]
        neighbors = self.device.empty((longest, width), np.float32)
        for number, (first, last) in enumerate(self._shares):
            self.device.run(
                "sum_neighbors",
                last - first,
                per_block=1,
                first=first,
                n=last - first,
                width=width,
                ptr=links.ptr,
                neighbor=links.idx,
                weight=self.card.workspace.link_weights,
                dense=self._dense,
                out=neighbors,
            )
            rows = self._dense[first:last]
            self.device.multiply(rows.T, neighbors[: last - first], sums[number])
        G = self.device.download(sums).sum(axis=0, dtype=np.float64)
        return 0.25 * (G + G.T)

    def _along(self, numbers: np.ndarray) -> Array:
        """Return how far rows lie along directions; in float64, so that steps add up."""
        vectors = self.device.upload(self.directions.take(numbers))
        out = self.device.empty((self.card.rows.n, len(numbers)))
        for first, last in self._shares:
            rows = self.device.doubled(self._dense[first:last])
            self.device.multiply(rows, vectors.T, out[first:last])
        return out


def rows_at_once(n_rows: int) -> int:
    """Return how many rows are multiplied by a matrix at a time."""
    return max(LEAST_ROWS, -(-n_rows // MOST_SHARES))


def bytes_taken(n_rows: int, width: int) -> int:
    """Return the bytes that an embedding takes on a card, and what is learned in it."""
    at_once = min(n_rows, rows_at_once(n_rows))
    for_rows = SINGLE * n_rows * width + NUMBER * n_rows * AT_ONCE
    for_products = (SINGLE + NUMBER) * at_once * width
    return for_rows + for_products + MOST_SHARES * SINGLE * width**2
