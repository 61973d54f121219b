"""Earlier records as later ones search them, prepared when they are first searched."""

from __future__ import annotations

import numpy as np

from ..files.container import Arrays
from ..files.tables import get_array, get_strings, pack_strings
from ..hdsl import HDSL
from .layered_index import LayeredIndex
from .layers import LayeredRows
from .records import RecordFeatures
from .searched import SearchedRecords
from .similarity import learned_layer


class EarlierRecords:
    """Records among which later ones are searched.

    Parameters
    ----------
    searched : SearchedRecords
    model : HDSL or None
        The learned similarity; None: it is the cosine.
    lone_features : dict of str to int, default=None
        The record of each feature that no other has; None looks for them when they are
        needed.
    """

    def __init__(
        self,
        searched: SearchedRecords,
        model: HDSL | None,
        lone_features: dict[str, int] | None = None,
    ) -> None:
        self.searched = searched
        self._model = model
        self._lone_features = lone_features

    def index(self, side: str) -> LayeredIndex:
        """Return the index of the records among which those of a side are searched."""
        return self.searched.sides.index(side)

    def layered(self, records: RecordFeatures) -> LayeredRows:
        """Return other records by the same similarities."""
        layered = LayeredRows.of_records(records)
        if self._model is None:
            return layered
        return layered.with_layer(learned_layer(self._model, records))

    @property
    def lone_features(self) -> dict[str, int]:
        """The record of each feature that no other has."""
        if self._lone_features is None:
            self._lone_features = self.searched.lone_features()
        return self._lone_features

    def to_arrays(self) -> Arrays:
        """Return the lone features if they are known: to look for them takes seconds."""
        if self._lone_features is None:
            return {}
        records = np.array([*self._lone_features.values()], dtype=np.int64)
        return pack_strings("names", [*self._lone_features]) | {"records": records}

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, searched: SearchedRecords, model: HDSL | None
    ) -> EarlierRecords:
        """Return records, and what `to_arrays` returned of them."""
        if not arrays:
            return cls(searched, model)
        names = get_strings(arrays, "names").tolist()
        records = get_array(arrays, "records", "iu", (len(names),))
        if (
            records.size
            and not 0 <= records.min() <= records.max() < searched.n_records
        ):
            raise ValueError("lone features number records that are not there")
        return cls(searched, model, dict(zip(names, records.tolist(), strict=True)))

    def grown(
        self, searched: SearchedRecords, lone_features: dict[str, int]
    ) -> EarlierRecords:
        """Return these records and more."""
        return EarlierRecords(searched, self._model, lone_features)
