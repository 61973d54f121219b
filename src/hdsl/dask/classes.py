"""Rows that stand for classes, from rows on a cluster: sums over blocks, added on the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..similarity import unit_rows
from ..triplets.classes import Anchors, ClassRows, class_comparisons
from ..triplets.rows import row_keys
from .blocks import Blocks
from .sources import Source, held
from .tasks import Compared

if TYPE_CHECKING:
    from ..landmarks import LandmarkMeans
    from ..supervision import Supervision

# --- on the workers ------------------------------------------------------------------------------


def times_block(block: sp.csr_array, factors: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """Return factors times the rows of a block, and times their lengths."""
    lengths = np.sqrt(np.asarray(block.multiply(block).sum(axis=1)).ravel())
    return sp.csr_array(factors @ block), factors @ lengths


def compare_block(
    block: sp.csr_array, of: ClassRows, rows: np.ndarray, anchors: Anchors, total: np.ndarray
) -> Compared:
    """Return the comparisons of some rows of a block with rows that stand for classes.

    `total` is what the comparisons of each anchor weigh in sum.
    """
    if not len(rows):
        return np.empty((0, 3), dtype=np.int64), np.empty(0)
    made, place, share = class_comparisons(sp.csr_array(block)[rows], anchors, of)
    return made, (share * total)[place]


def anchor_totals(block: Compared) -> tuple[np.ndarray, np.ndarray]:
    """Return the anchors of a block of comparisons, and the sum of the weights of each."""
    compared, weights = block
    anchors, place = np.unique(compared[:, 0], return_inverse=True)
    return anchors, np.bincount(place, weights)


# --- on the client -------------------------------------------------------------------------------


def times_rows(factors: sp.csr_array, rows: Blocks) -> tuple[sp.csr_array, np.ndarray]:
    """Return factors times all rows, and times their lengths; blocks are added in their order."""
    columns = sp.csc_array(factors)
    cuts = zip(rows.starts[:-1], rows.starts[1:], strict=True)
    each = [(sp.csr_array(columns[:, a:b]),) for a, b in cuts]
    (product, lengths), *others = rows.of_each(times_block, each)
    for more, longer in others:
        product, lengths = product + more, lengths + longer
    return sp.csr_array(product), lengths


def centers(rows: Blocks, of: Supervision) -> sp.csr_array:
    """Return the mean row of each class, as long as its rows are in the mean."""
    means, lengths = times_rows(of.averages, rows)
    return sp.csr_array(unit_rows(means).multiply(lengths[:, None]))


def landmark_means(rows: Blocks, of: Supervision) -> LandmarkMeans:
    """Return the means of the landmarks of each class."""
    keys = np.concatenate(rows.of_each(row_keys))
    return of.means_from(keys, lambda average: times_rows(average, rows)[0])


def class_blocks(
    rows: Blocks, of: ClassRows, codes: np.ndarray, own: np.ndarray, total: np.ndarray
) -> Source:
    """Return comparisons of the rows of positive weight with rows that stand for classes.

    Parameters
    ----------
    rows : Blocks
    of : ClassRows
    codes, own, total : ndarray of shape (n_rows,)
        Class of each row, what stands for it, and what its comparisons weigh in sum.
    """
    client, each = rows.client, []
    anchors = np.flatnonzero(total)
    for first, part in zip(rows.starts[:-1], rows.cut(anchors), strict=True):
        here = first + part
        each.append((part, Anchors(here, codes[here], own[here]), total[here]))
    return Source(client, rows.source, compare_block, (held(client, of),), each)
