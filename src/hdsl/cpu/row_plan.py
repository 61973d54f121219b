"""Which rows of S = C + Cᵀ are made side by side, and which one at a time."""

from typing import NamedTuple

import numpy as np

from .kernels.lines import WIDTH
from .pairs import Pairs
from .workers import GRAIN


class RowPlan(NamedTuple):
    """How the rows of S of some features are made.

    Attributes
    ----------
    groups : list of ndarray
        Positions of features whose rows are made side by side, up to WIDTH in each.
    singles : ndarray
        Positions of features whose rows are made one at a time.
    n_shares : int
        Every n_shares-th of these is made by the same thread.
    """

    groups: list[np.ndarray]
    singles: np.ndarray
    n_shares: int


def plan_rows(features: np.ndarray, pairs: Pairs) -> RowPlan:
    """Return how rows of S are made in the least time.

    Several rows share a pass over X where that is the cheaper way. Of a small X all do:
    the other way is not worth the time to compile it.
    """
    rows = pairs.rows
    positions = np.arange(len(features))
    if rows.is_small:
        groups = [positions[k : k + WIDTH] for k in positions[::WIDTH]]
        return RowPlan(groups, singles=positions[:0], n_shares=1)
    # The share of X that a feature reaches, in the mean.
    reach = rows.lengths[features] * (pairs.cost / max(rows.nnz, 1) ** 2)
    reach = np.minimum(reach, 1.0)
    order = np.argsort(-reach, kind="stable")
    groups = []
    while len(order) and reach[order[:WIDTH]].sum() >= pairs.side_by_side:
        groups.append(order[:WIDTH])
        order = order[WIDTH:]
    n_shares = 1
    if reach[order].sum() * rows.nnz > GRAIN:
        n_shares = min(len(order), rows.workers.n_threads)
    # The first shares have one feature more: the longest rows go to the last ones.
    singles = order.copy()
    singles[:n_shares] = order[:n_shares][::-1]
    return RowPlan(groups, singles, n_shares)
