"""What is held out as one: rows of a group, and equal rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..triplets.grades import group_numbers


def groups_and_equals(groups: np.ndarray | None, keys: np.ndarray) -> np.ndarray:
    """Return numbers of units that are held out as one: those of a group, and equal ones.

    Examples
    --------
    >>> groups_and_equals(np.array([0, 0, 1, 2]), np.array([7, 8, 8, 9])).tolist()
    [0, 0, 0, 1]
    """
    _, equals = np.unique(keys, return_inverse=True)
    if groups is None:
        return group_numbers(equals)
    n_groups = int(groups.max(initial=-1)) + 1
    n_nodes = n_groups + int(equals.max(initial=-1)) + 1
    ones = np.ones(len(groups))
    links = sp.coo_array((ones, (groups, n_groups + equals)), shape=(n_nodes, n_nodes))
    _, component = connected_components(links, directed=False)
    return group_numbers(component[groups])
