"""One data set on a card: its rows, its comparisons, and arrays to work in."""

import numpy as np
import scipy.sparse as sp

from ..layout.feature_numbers import compared_rows
from ..rows import Rows, sparse_block
from .comparisons import Comparisons
from .rows import CardRows
from .runtime import Device
from .workspace import Workspace


class CardData:
    """Rows and comparisons on a card, and the arrays that work on them needs.

    Parameters are those of ``CUDALayout``.

    Attributes
    ----------
    device : Device
    rows : CardRows
    comparisons : Comparisons
    workspace : Workspace
    """

    def __init__(
        self,
        X: sp.csr_array | Rows,
        compared: np.ndarray,
        weights: np.ndarray | None,
        device: Device,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        self.device = device
        is_compared = compared_rows(compared, weights, X.shape[0])
        self.rows = CardRows(sparse_block(X), device, is_compared, columns, min_rows)
        if isinstance(X, Rows):
            self.rows.dense = device.upload(X.dense.astype(np.float32, copy=False))
        self.comparisons = Comparisons(self.rows, compared, weights)
        self.workspace = Workspace(self.rows, self.comparisons)
