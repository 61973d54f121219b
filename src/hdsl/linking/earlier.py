"""Earlier records as later ones search them, prepared when they are first searched."""

from __future__ import annotations

from functools import cached_property

from ..hdsl import HDSL
from .layers import LayeredIndex, LayeredRows
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
    """

    def __init__(self, searched: SearchedRecords, model: HDSL | None) -> None:
        self.searched = searched
        self._model = model

    def index(self, side: str) -> LayeredIndex:
        """Return the index of the records among which those of a side are searched."""
        return self.searched.sides.index(side)

    def layered(self, records: RecordFeatures) -> LayeredRows:
        """Return other records by the same similarities."""
        layered = LayeredRows.of_records(records)
        if self._model is None:
            return layered
        return layered.with_layer(learned_layer(self._model, records))

    @cached_property
    def lone_features(self) -> dict[str, int]:
        """The record of each feature that no other has."""
        return self.searched.lone_features()
