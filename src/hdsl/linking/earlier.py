"""Earlier records as later ones search them, prepared when they are first searched."""

from __future__ import annotations

from functools import cached_property

from .layers import LayeredIndex
from .searched import Rewrite, SearchedRecords


class EarlierRecords:
    """Records among which later ones are searched.

    Parameters
    ----------
    searched : SearchedRecords
    rewrite : callable or None
        Returns rows whose dot products are the learned similarity; None: it is the
        cosine.
    """

    def __init__(self, searched: SearchedRecords, rewrite: Rewrite | None) -> None:
        self.searched = searched
        self.rewrite = rewrite
        self._indexes: dict[str, LayeredIndex] = {}

    def index(self, side: str) -> LayeredIndex:
        """Return the index of the records among which those of a side are searched."""
        if side not in self._indexes:
            self._indexes[side] = self.searched.side_index(side)
        return self._indexes[side]

    @cached_property
    def lone_features(self) -> dict[str, int]:
        """The record of each feature that no other has."""
        return self.searched.lone_features()
