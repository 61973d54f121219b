"""Lists of nearest records into which others come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cpu.kernels.lists import ListEntries, merge_lists
from .nearest import DEPTH


class Entries(NamedTuple):
    """Records that come into lists: the row of each list, the record and its score."""

    rows: np.ndarray
    numbers: np.ndarray
    scores: np.ndarray


def merge_into(
    neighbors: np.ndarray,
    scores: np.ndarray,
    is_unsorted: np.ndarray,
    entries: Entries,
) -> None:
    """Write entries into lists, and sort these and the unsorted ones, best first.

    Parameters
    ----------
    neighbors, scores : ndarray of shape (n_lists, depth)
        Records and their scores; -1 and -inf where there is none. Written in place.
    is_unsorted : ndarray of bool of shape (n_lists,)
    entries : Entries
        No record comes into a list that has it.
    """
    order = np.argsort(entries.rows, kind="stable")
    n_entries = np.bincount(entries.rows, minlength=len(neighbors))
    ends = np.concatenate([[0], np.cumsum(n_entries)])
    opened = np.flatnonzero(is_unsorted | (n_entries > 0))
    grouped = ListEntries(
        indptr=ends.astype(np.int64),
        numbers=entries.numbers[order].astype(np.int64),
        scores=entries.scores[order],
    )
    merge_lists(0, len(opened), opened, neighbors, scores, grouped, DEPTH)
