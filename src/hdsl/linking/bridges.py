"""Links that alone hold groups of records together."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from .entities import components


def pairs_held(links: np.ndarray, n_records: int) -> np.ndarray:
    """Return per link how many pairs of records are one thing by it alone.

    Without the link a group would fall into two parts: it holds as many pairs as there
    are records in one part times those in the other one. A link that other links make
    up for holds 0.

    Parameters
    ----------
    links : ndarray of shape (n_links, 2)
        Each once.
    n_records : int

    Examples
    --------
    >>> pairs_held(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), n_records=4).tolist()
    [0, 0, 0, 3]
    """
    group = components(links, n_records)
    sizes = np.bincount(group, minlength=1)
    neighbors: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, (first, second) in enumerate(links.tolist()):
        neighbors[first].append((second, number))
        neighbors[second].append((first, number))
    held = np.zeros(len(links), dtype=np.int64)
    walk = _Walk(neighbors)
    for root in neighbors:
        if root not in walk.order:
            n_records_of_group = int(sizes[group[root]])
            for number, n_below in walk.bridges(root):
                held[number] = n_below * (n_records_of_group - n_below)
    return held


class _Walk:
    """A depth-first walk along links, in which a link back makes up for those it spans.

    Parameters
    ----------
    neighbors : dict of int to list of (int, int)
        The records that each record is linked with, and the numbers of these links.
    """

    def __init__(self, neighbors: dict[int, list[tuple[int, int]]]) -> None:
        self._neighbors = neighbors
        #: When each record was reached.
        self.order: dict[int, int] = {}
        self._earliest: dict[int, int] = {}
        self._n_below: dict[int, int] = {}

    def bridges(self, root: int) -> list[tuple[int, int]]:
        """Return links that nothing makes up for, and the number of records behind each."""
        bridges = []
        self._reach(root)
        path = [(root, -1, iter(self._neighbors[root]))]
        while path:
            record, number, others = path[-1]
            step = next(others, None)
            if step is None:
                path.pop()
                if path:
                    parent, _, _ = path[-1]
                    self._return(record, parent)
                    if self._earliest[record] > self.order[parent]:
                        bridges.append((number, self._n_below[record]))
                continue
            other, link = step
            if link == number:
                continue
            if other in self.order:
                earliest = min(self._earliest[record], self.order[other])
                self._earliest[record] = earliest
            else:
                self._reach(other)
                path.append((other, link, iter(self._neighbors[other])))
        return bridges

    def _reach(self, record: int) -> None:
        self.order[record] = len(self.order)
        self._earliest[record] = self.order[record]
        self._n_below[record] = 1

    def _return(self, record: int, parent: int) -> None:
        """Tell the parent of a record what was seen behind it."""
        self._n_below[parent] += self._n_below[record]
        earliest = min(self._earliest[parent], self._earliest[record])
        self._earliest[parent] = earliest
