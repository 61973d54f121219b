"""Records in layers of features: by spelling, by cosine, and as learned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cpu.kernels.layers import LayerRows
from .records import RecordFeatures
from .rows import Rows


class Layer(NamedTuple):
    """The features of records in one layer, a scale and a factor of each record."""

    rows: Rows
    scales: np.ndarray
    factors: np.ndarray

    @classmethod
    def of_rows(cls, rows: Rows) -> Layer:
        """Return rows as they are: scales and factors are 1."""
        return cls(rows, np.ones(rows.n_rows), np.ones(rows.n_rows))

    @property
    def n_features(self) -> int:
        """The largest number of a feature, and one."""
        return 1 + int(self.rows.arrays.indices.max(initial=-1))

    def take(self, records: np.ndarray) -> Layer:
        """Return some of the records."""
        return Layer(
            self.rows.take(records), self.scales[records], self.factors[records]
        )

    def followed_by(self, later: Layer) -> Layer:
        """Return these records and later ones."""
        return Layer(
            self.rows.followed_by(later.rows),
            np.concatenate([self.scales, later.scales]),
            np.concatenate([self.factors, later.factors]),
        )

    def arrays(self) -> LayerRows:
        """Return what the kernels take."""
        return LayerRows(
            arrays=self.rows.arrays,
            scales=np.ascontiguousarray(self.scales),
            factors=np.ascontiguousarray(self.factors),
        )


class LayeredRows(NamedTuple):
    """Rows of records in layers of features, each of which makes one more similarity.

    The similarity of two records by a layer is that by the layer before, times the
    factors of both, plus the inner product of their features of the layer, times the
    scales of both.
    """

    layers: tuple[Layer, ...]

    @classmethod
    def of_records(cls, records: RecordFeatures) -> LayeredRows:
        """Return records by spelling and by cosine."""
        grams = records.grams
        gram_factors, word_scales = records.cosine_factors.T
        by_spelling = Layer(grams.rows, grams.inverse_lengths, gram_factors)
        by_cosine = Layer(records.words.rows, word_scales, gram_factors)
        return cls((by_spelling, by_cosine))

    @property
    def n_layers(self) -> int:
        """Similarities."""
        return len(self.layers)

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return self.layers[0].rows.n_rows

    @property
    def n_entries(self) -> int:
        """Features of all records and layers."""
        return sum(len(layer.rows.arrays.data) for layer in self.layers)

    def with_layer(self, layer: Layer) -> LayeredRows:
        """Return the records with one more similarity."""
        return LayeredRows((*self.layers, layer))

    def take(self, records: np.ndarray) -> LayeredRows:
        """Return some of the records."""
        return LayeredRows(tuple(layer.take(records) for layer in self.layers))

    def followed_by(self, later: LayeredRows) -> LayeredRows:
        """Return these records and later ones."""
        pairs = zip(self.layers, later.layers, strict=True)
        return LayeredRows(tuple(first.followed_by(second) for first, second in pairs))

    def arrays(self) -> tuple[LayerRows, ...]:
        """Return what the kernels take."""
        return tuple(layer.arrays() for layer in self.layers)

    def similarities(self, pairs: np.ndarray, n_jobs: int | None) -> list[np.ndarray]:
        """Return the similarities of pairs of records by each layer."""
        similarities = []
        similarity = np.zeros(len(pairs))
        for layer in self.layers:
            products = layer.rows.products(pairs, n_jobs)
            products *= layer.scales[pairs].prod(axis=1)
            similarity = similarity * layer.factors[pairs].prod(axis=1) + products
            similarities.append(similarity)
        return similarities
