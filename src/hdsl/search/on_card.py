"""Rows of an index that stay on a graphics card from one search to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..neighbor_lists import NeighborLists
from ..wide_matrices import is_wide, take_columns


class CardIndex:
    """Rows on one card, with what searches of them leave there.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    device_name : str
        Such as "cuda:1". An error is raised where there is no such card.
    """

    def __init__(self, X: Any, device_name: str) -> None:
        from ..cuda import runtime
        from ..cuda import search as card_search

        self.device_name = device_name
        self._device = runtime.get_device(device_name)
        self._rows = sp.csr_array(X, dtype=np.float64)
        self._columns: np.ndarray | None = None  # None is all
        if is_wide(self._rows):
            self._columns = _used_columns(self._rows)
            self._rows = take_columns(self._rows, self._columns)
        self._kept = card_search.Kept()

    def fill_lists(
        self,
        queries: Any,
        lists: NeighborLists,
        memory_limit: float | str | None,
    ) -> None:
        """Fill the lists; None as queries stands for the rows themselves."""
        from ..cuda import search as card_search

        if queries is None:
            query_rows = self._rows
        else:
            query_rows = sp.csr_array(queries, dtype=np.float64)
            if self._columns is not None:  # columns that only queries have add nothing
                query_rows = take_columns(query_rows, self._columns)
        card_search.fill_lists(
            self._device, query_rows, self._rows, lists, memory_limit, self._kept
        )
        self._device.release()  # others may want what the queries took


def _used_columns(X: sp.csr_array) -> np.ndarray:
    """Return the columns that have a value; column 0 where none has."""
    if X.nnz == 0:
        return np.zeros(1, dtype=np.int64)
    return np.unique(X.indices)
