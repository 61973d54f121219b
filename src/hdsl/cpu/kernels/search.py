"""Compiled loops of the search for the largest inner products; arrays in, arrays out.

Matrices come as their CSR or CSC arrays, and the caller allocates and has validated.

Queries and rows of the index carry labels. Each query has two lists: the best rows of its own label
and the best rows of other labels. `lists` are query_labels, labels, own, same, other. `own` says
that query r is row r of the index, which is then no candidate. `same` and `other` are want, scores
and rows: query r wants want[r] rows, no more than there are, and has scores of -inf to begin with.
Of equal scores the smaller row number comes first.
"""

import numpy as np

from .compiled import kernel


@kernel()
def _replace_worst(scores, rows, size, score, row):
    """Put (score, row) into a heap topped by the worst, lowest score, then largest row: it goes."""
    at, down = 0, 1
    while down < size:
        low, last = scores[down], rows[down]
        if down + 1 < size:
            other, after = scores[down + 1], rows[down + 1]
            if other < low or (other == low and after > last):
                down, low, last = down + 1, other, after
        if score < low or (score == low and row > last):
            break
        scores[at], rows[at] = low, last
        at, down = down, 2 * down + 1
    scores[at], rows[at] = score, row


@kernel()
def _best_first(scores, rows, size):
    """Sort a heap by falling score, then rising row: its worst is always on top."""
    for end in range(size - 1, 0, -1):
        score, row = scores[end], rows[end]
        scores[end], rows[end] = scores[0], rows[0]
        _replace_worst(scores, rows, end, score, row)


@kernel()
def _fill_lists(r, sums, lists, first, is_last):
    """Fill both lists of query r from its inner products with the rows from `first` on.

    Blocks of rows come one after the other; after the last one the lists are sorted.
    """
    query_labels, labels, own, of_same, of_other = lists
    n_same, same, same_rows = of_same[0][r], of_same[1][r], of_same[2][r]
    n_other, other, other_rows = of_other[0][r], of_other[1][r], of_other[2][r]
    skip, label = r - first if own else -1, query_labels[r]
    # The score that a row must be above; until a list is full, all rows enter it.
    beat_same = same[0] if n_same else np.inf
    beat_other = other[0] if n_other else np.inf
    low = beat_same if beat_same < beat_other else beat_other
    for b in range(sums.size):
        score = sums[b]
        if score <= low or b == skip:
            continue  # most rows end here; an equal score in the list has the smaller row
        if labels[first + b] == label:
            if score > beat_same:
                _replace_worst(same, same_rows, n_same, score, first + b)
                beat_same = same[0]
        elif score > beat_other:
            _replace_worst(other, other_rows, n_other, score, first + b)
            beat_other = other[0]
        low = beat_same if beat_same < beat_other else beat_other
    if is_last:
        _best_first(same, same_rows, n_same)
        _best_first(other, other_rows, n_other)


@kernel()
def top_of_sums(start, stop, sums, first, lists):
    """Find the largest of each row [start, stop) of `sums`; row 0 is that of query `first`."""
    for r in range(start, stop):
        _fill_lists(first + r, sums[r], lists, 0, True)


@kernel()
def top_by_columns(start, stop, queries, columns, lists, first, is_last, sums):
    """Find the rows of largest inner product with queries [start, stop) in a block of the index.

    The block, rows from `first` on, comes as CSC. A query's inner products with its rows are summed
    from the columns of the query's features: cheap where most rows share no feature. `sums` is room
    for them, of zeros.
    """
    (query_ptr, query_idx, query_val), (ptr, idx, val) = queries, columns
    for r in range(start, stop):
        for k in range(query_ptr[r], query_ptr[r + 1]):
            j, x = query_idx[k], query_val[k]
            for q in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
                sums[np.uint32(idx[q])] += x * val[q]  # unsigned: no test for negative numbers
        _fill_lists(r, sums, lists, first, is_last)
        for b in range(sums.size):
            sums[b] = 0.0
