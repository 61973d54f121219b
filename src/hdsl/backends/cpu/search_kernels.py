"""Compiled loops of the search for the largest inner products; arrays in, arrays out.

Conventions are those of ``kernels``: matrices come as their CSR or CSC arrays, and the caller
allocates and has validated.

Queries and rows of the index carry labels. Each query has two lists: the best rows of its own label
and the best rows of other labels. A list may have width 0. `own` says that query r is row r of the
index, which is then no candidate. Of equal scores the smaller row number comes first.
"""

import numpy as np

from .kernels.compiler import WIDTH, kernel
from .kernels.gradient import aligned_zeros, gather_column

# --- one list -------------------------------------------------------------------------------------


@kernel()
def _push(scores, rows, size, score, row):
    """Offer (score, row) to a heap topped by the worst: lowest score, then largest row."""
    if size < scores.size:
        at = size
        scores[at], rows[at] = score, row
        while at > 0:
            up = (at - 1) // 2
            if scores[at] < scores[up] or (scores[at] == scores[up] and rows[at] > rows[up]):
                scores[at], scores[up] = scores[up], scores[at]
                rows[at], rows[up] = rows[up], rows[at]
                at = up
            else:
                break
        return size + 1
    if scores.size == 0 or score < scores[0] or (score == scores[0] and row > rows[0]):
        return size
    at = 0
    scores[0], rows[0] = score, row
    while True:
        down = 2 * at + 1
        if down >= size:
            return size
        other = down + 1
        if other < size and (
            scores[other] < scores[down]
            or (scores[other] == scores[down] and rows[other] > rows[down])
        ):
            down = other
        if scores[down] < scores[at] or (scores[down] == scores[at] and rows[down] > rows[at]):
            scores[at], scores[down] = scores[down], scores[at]
            rows[at], rows[down] = rows[down], rows[at]
            at = down
        else:
            return size


@kernel()
def _best_first(scores, rows):
    """Sort a heap of `_push` by falling score, then rising row: its worst is always on top."""
    for end in range(scores.size - 1, 0, -1):
        score, row = scores[end], rows[end]
        scores[end], rows[end] = scores[0], rows[0]
        _push(scores[:end], rows[:end], end, score, row)


@kernel()
def _best_of(sums, labels, label, same, skip, scores, rows):
    """Write the largest of `sums` whose label is `label`, or is not, all but number `skip`.

    Returns how many there are.
    """
    if scores.size == 0:
        return 0
    n = 0
    worst = np.nan  # no comparison with it holds: all candidates enter until the list is full
    for b in range(sums.size):
        score = sums[b]
        if score <= worst:
            continue  # most rows end here; an equal score in the list has the smaller row
        if b != skip and (labels[b] == label) == same:
            n = _push(scores, rows, n, score, b)
            if n == scores.size:
                worst = scores[0]
    _best_first(scores[:n], rows[:n])
    return n


@kernel()
def _score_to_beat(same_scores, n_same, other_scores, n_other):
    """Return the score above which a row enters one of two heaps; -inf where one is not full."""
    if n_same < same_scores.size or n_other < other_scores.size:
        return -np.inf
    score = np.inf
    if n_same:
        score = same_scores[0]
    if n_other:
        score = min(score, other_scores[0])
    return score


# --- the search -----------------------------------------------------------------------------------


@kernel()
def _fill_lists(
    r, sums, query_labels, labels, own,
    same_scores, same_rows, same_size, other_scores, other_rows, other_size,
):  # fmt: skip
    """Fill both lists of query r from its inner products with all rows."""
    skip = r if own else -1
    label = query_labels[r]
    same_size[r] = _best_of(sums, labels, label, True, skip, same_scores[r], same_rows[r])
    other_size[r] = _best_of(sums, labels, label, False, skip, other_scores[r], other_rows[r])


@kernel()
def top_of_sums(
    start, stop, sums, first, query_labels, labels, own,
    same_scores, same_rows, same_size, other_scores, other_rows, other_size,
):  # fmt: skip
    """Find the largest of each row [start, stop) of `sums`; row 0 is that of query `first`."""
    for r in range(first + start, first + stop):
        _fill_lists(
            r, sums[r - first], query_labels, labels, own,
            same_scores, same_rows, same_size, other_scores, other_rows, other_size,
        )  # fmt: skip


@kernel()
def _add_products(r, query_ptr, query_idx, query_val, ptr, idx, val, sums):
    """Add to `sums` the inner products of query r with all rows of the index, given as CSC."""
    for k in range(query_ptr[r], query_ptr[r + 1]):
        j = query_idx[k]
        x = query_val[k]
        for q in range(ptr[j], ptr[j + 1]):
            sums[np.uint32(idx[q])] += x * val[q]  # unsigned: no test for negative numbers


@kernel()
def top_by_columns(
    start, stop, query_ptr, query_idx, query_val, query_labels, ptr, idx, val, labels, own,
    same_scores, same_rows, same_size, other_scores, other_rows, other_size,
):  # fmt: skip
    """Find the rows of largest inner product with the queries [start, stop); the index as CSC.

    A query's inner products with all rows are summed from the columns of its features: the cheaper
    way where most rows share no feature.
    """
    sums = np.zeros(labels.size)
    for r in range(start, stop):
        _add_products(r, query_ptr, query_idx, query_val, ptr, idx, val, sums)
        _fill_lists(
            r, sums, query_labels, labels, own,
            same_scores, same_rows, same_size, other_scores, other_rows, other_size,
        )  # fmt: skip
        sums[:] = 0.0


@kernel()
def top_by_rows(
    start, stop, query_ptr, query_idx, query_val, query_labels, ptr, idx, val, labels, own,
    n_features, same_scores, same_rows, same_size, other_scores, other_rows, other_size,
):  # fmt: skip
    """Find the same for blocks [start, stop) of WIDTH queries each; the index as CSR.

    A block is spread out over the features and meets each row of the index once: the cheaper way
    where most rows share some feature.
    """
    Q = aligned_zeros(n_features)
    s = np.empty(WIDTH)
    to_beat = np.empty(WIDTH)
    for block in range(start, stop):
        first = block * WIDTH
        width = min(WIDTH, query_labels.size - first)
        for c in range(width):
            for k in range(query_ptr[first + c], query_ptr[first + c + 1]):
                Q[query_idx[k], c] = query_val[k]
        to_beat[:width] = -np.inf
        to_beat[width:] = np.inf
        for b in range(labels.size):
            if not gather_column(idx, val, Q, ptr[b], ptr[b + 1], 0.0, to_beat, s):
                continue  # the row enters no list, since no |score| is large enough
            for c in range(width):
                r = first + c
                if s[c] <= to_beat[c] or (own and b == r):
                    continue
                if labels[b] == query_labels[r]:
                    same_size[r] = _push(same_scores[r], same_rows[r], same_size[r], s[c], b)
                else:
                    other_size[r] = _push(other_scores[r], other_rows[r], other_size[r], s[c], b)
                to_beat[c] = _score_to_beat(
                    same_scores[r], same_size[r], other_scores[r], other_size[r]
                )
        for c in range(width):
            r = first + c
            _best_first(same_scores[r, : same_size[r]], same_rows[r, : same_size[r]])
            _best_first(other_scores[r, : other_size[r]], other_rows[r, : other_size[r]])
            for k in range(query_ptr[r], query_ptr[r + 1]):
                Q[query_idx[k], c] = 0.0


# --- columns --------------------------------------------------------------------------------------


@kernel()
def keep_columns(ptr, idx, val, position, out_ptr, out_idx, out_val):
    """Write the CSR arrays of the columns that have a new position; -1 drops a column."""
    n = 0
    out_ptr[0] = 0
    for r in range(ptr.size - 1):
        for k in range(ptr[r], ptr[r + 1]):
            j = position[idx[k]]
            if j >= 0:
                out_idx[n] = j
                out_val[n] = val[k]
                n += 1
        out_ptr[r + 1] = n
