"""Records to search by several similarities at a time: by spelling, by cosine, as learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .records import RecordFeatures, resized
from .vocabulary import Vocabulary

#: Records whose scores are summed at a time: a number for each stays in the cache of a
#: core.
BLOCK_SIZE = 2**15

#: Time to look at one record by one similarity, where one product takes 1.
LOOK_COST = 0.5


class LayeredRows(NamedTuple):
    """Rows of records in layers of features, each of which makes one more similarity.

    The similarity of two records by a layer is that by the layer before, times the
    factors of both, plus the inner product of their features of the layer.

    Attributes
    ----------
    rows : csr_array of shape (n_records, n_features)
        The features of one layer come after those of the layer before.
    first_features : tuple of int
        The first feature of each layer.
    factors : ndarray of shape (n_layers, n_records)
    """

    rows: sp.csr_array
    first_features: tuple[int, ...]
    factors: np.ndarray

    @classmethod
    def of_records(
        cls,
        records: RecordFeatures,
        learned: sp.csr_array | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> LayeredRows:
        """Return records by spelling and by cosine, and as learned where that is not None.

        Parameters
        ----------
        records : RecordFeatures
        learned : csr_array of shape (n_records, n_pairs + n_features)
            Rows whose dot products are the learned cosine: their last features are
            those of the cosine, times one number per row.
        vocabulary : Vocabulary, default=None
            An earlier one, with fewer features: the rows have only these.
        """
        if vocabulary is None:
            vocabulary = records.vocabulary
        words = records.X[:, records.vocabulary.word_columns]
        parts = [
            resized(records.grams, len(vocabulary.gram_columns)),
            resized(words, len(vocabulary.word_columns)),
        ]
        factors = [_lengths(records.X[:, records.vocabulary.gram_columns])]
        if learned is not None:
            n_pairs = learned.shape[1] - records.X.shape[1]
            parts.append(learned[:, :n_pairs])
            factors.append(_lengths(learned[:, n_pairs:]))
        widths = [part.shape[1] for part in parts]
        first_features = np.cumsum([0, *widths[:-1]]).tolist()
        rows = sp.csr_array(sp.hstack(parts, format="csr"))
        rows.sort_indices()
        return cls(
            rows=rows,
            first_features=tuple(first_features),
            factors=np.stack([np.zeros(rows.shape[0]), *factors]),
        )

    @property
    def n_layers(self) -> int:
        """Similarities."""
        return len(self.first_features)

    def take(self, records: Any) -> LayeredRows:
        """Return some of the records, by a slice or by numbers."""
        return self._replace(rows=self.rows[records], factors=self.factors[:, records])

    def entry_ends(self) -> np.ndarray:
        """Return where the entries of each row and layer end, shape (n_records, n_layers)."""
        ends = [
            _upto(self.rows, first_feature) for first_feature in self.first_features[1:]
        ]
        return np.column_stack([*ends, self.rows.indptr[1:]]).astype(np.int64)


class LayeredIndex:
    """Records that are searched again and again, kept by the columns of their features.

    Parameters
    ----------
    layered : LayeredRows
    """

    def __init__(self, layered: LayeredRows) -> None:
        from ..cpu.kernels.search import Layers
        from ..cpu.rows import arrays_of

        self.n_records = layered.rows.shape[0]
        self._n_layers = layered.n_layers
        self._frequency = np.bincount(
            layered.rows.indices, minlength=layered.rows.shape[1]
        )
        no_ends = np.zeros((0, layered.n_layers), dtype=np.int64)
        self._blocks = []
        for first in range(0, self.n_records, BLOCK_SIZE):
            block = layered.take(slice(first, first + BLOCK_SIZE))
            columns = arrays_of(block.rows.tocsc())
            factors = np.ascontiguousarray(block.factors)
            self._blocks.append(Layers(columns, no_ends, factors))

    def top(
        self, queries: LayeredRows, k: int, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k records of largest similarity to each query, by each layer.

        Returns
        -------
        records, scores : ndarray of shape (n_layers, n_queries, k)
            Best first, of equal ones the first; -1 and -inf where there are fewer than
            k records.
        """
        from ..cpu.kernels.search import Layers, top_by_layers
        from ..cpu.rows import arrays_of
        from ..cpu.workers import Workers

        n_queries = queries.rows.shape[0]
        shape = (self._n_layers, n_queries, k)
        scores = np.full(shape, -np.inf)
        records = np.full(shape, -1)
        if n_queries == 0:
            return records, scores
        layers = Layers(
            arrays_of(queries.rows),
            queries.entry_ends(),
            np.ascontiguousarray(queries.factors),
        )
        n_products = self._frequency[queries.rows.indices].sum(dtype=np.float64)
        looks = LOOK_COST * self.n_records * self._n_layers
        cost = (n_products / n_queries + looks) / max(len(self._blocks), 1)

        def search(start: int, stop: int, columns: Layers, first: int) -> None:
            sums = np.empty(columns.factors.shape[1])
            top_by_layers(start, stop, layers, columns, first, scores, records, sums)

        with Workers(n_jobs) as workers:
            for number, columns in enumerate(self._blocks):
                first = number * BLOCK_SIZE
                workers.run_pieces(search, n_queries, cost, columns, first)
        order = np.lexsort((records, -scores))
        return (
            np.take_along_axis(records, order, axis=2),
            np.take_along_axis(scores, order, axis=2),
        )


def _lengths(X: sp.csr_array) -> np.ndarray:
    """Return the length of each row."""
    return np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())


def _upto(rows: sp.csr_array, feature: int) -> np.ndarray:
    """Return where the entries of each row that are before a feature end."""
    n_before = np.concatenate([[0], np.cumsum(rows.indices < feature)])
    return rows.indptr[:-1] + np.diff(n_before[rows.indptr])
