"""An order of the rows in which compared ones are near each other, for the caches."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .comparisons import sides_of

#: Fewer rows keep their order: what is looked up by row fits in the caches anyway.
LEAST_ROWS = 50_000

#: Comparisons per row that the order is made from; more say little more.
PER_ROW = 4


def near_order(compared: np.ndarray, n_rows: int) -> np.ndarray | None:
    """Return the rows in an order with compared ones near each other; None where it does not pay.

    It is the reverse Cuthill-McKee order of the graph of compared rows.

    Parameters
    ----------
    compared : ndarray of shape (n, 3) or (n, 4)
    n_rows : int

    Returns
    -------
    ndarray of shape (n_rows,) or None
    """
    if n_rows < LEAST_ROWS:
        return None
    some = compared[:: max(1, len(compared) // (PER_ROW * n_rows))]
    a, b = np.concatenate(sides_of(some.T), axis=1).astype(np.int32)
    edges = np.ones(2 * len(a), dtype=np.int8), (np.append(a, b), np.append(b, a))
    graph = sp.coo_array(edges, shape=(n_rows, n_rows)).tocsr()
    return reverse_cuthill_mckee(graph, symmetric_mode=True)
