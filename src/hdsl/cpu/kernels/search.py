"""Compiled loops of the search for the largest inner products; arrays in, arrays out.

Matrices come as their CSR or CSC arrays, and the caller allocates and has validated.

Queries and rows of the index carry labels. Each query has two lists: the best rows of its own label
and the best rows of other labels. `lists` are query_labels, labels, own, same, other. `own` says
that query r is row r of the index, which is then no candidate. `same` and `other` are want, scores,
rows, size: query r wants want[r] rows and has size[r] so far; a list that wants nothing is left as
it is. Of equal scores the smaller row number comes first.
"""

import numpy as np

from .compiled import kernel

# --- one list -------------------------------------------------------------------------------------


@kernel()
def push(scores, rows, size, score, row):
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
    """Sort a heap of `push` by falling score, then rising row: its worst is always on top."""
    for end in range(scores.size - 1, 0, -1):
        score, row = scores[end], rows[end]
        scores[end], rows[end] = scores[0], rows[0]
        push(scores[:end], rows[:end], end, score, row)


# --- the search -----------------------------------------------------------------------------------


@kernel()
def _fill_lists(r, sums, lists):
    """Fill both lists of query r from its inner products with all rows, in one pass."""
    query_labels, labels, own, of_same, of_other = lists
    want_same, same_scores, same_rows, same_size = of_same
    want_other, other_scores, other_rows, other_size = of_other
    skip = r if own else -1
    label = query_labels[r]
    same, other = same_scores[r, : want_same[r]], other_scores[r, : want_other[r]]
    n_same, n_other = np.int64(0), np.int64(0)
    # The score that a row must be above; until a list is full, all rows enter it.
    beat_same = -np.inf if same.size else np.inf
    beat_other = -np.inf if other.size else np.inf
    low = min(beat_same, beat_other)
    for b in range(sums.size):
        score = sums[b]
        if score <= low or b == skip:
            continue  # most rows end here; an equal score in the list has the smaller row
        if labels[b] == label:
            if score > beat_same:
                n_same = push(same, same_rows[r], n_same, score, b)
                if n_same == same.size:
                    beat_same = same[0]
                    low = min(beat_same, beat_other)
        elif score > beat_other:
            n_other = push(other, other_rows[r], n_other, score, b)
            if n_other == other.size:
                beat_other = other[0]
                low = min(beat_same, beat_other)
    if same.size:
        same_size[r] = n_same
        _best_first(same[:n_same], same_rows[r, :n_same])
    if other.size:
        other_size[r] = n_other
        _best_first(other[:n_other], other_rows[r, :n_other])


@kernel()
def top_of_sums(start, stop, sums, first, lists):
    """Find the largest of each row [start, stop) of `sums`; row 0 is that of query `first`."""
    for r in range(first + start, first + stop):
        _fill_lists(r, sums[r - first], lists)


@kernel()
def top_by_columns(start, stop, queries, columns, lists):
    """Find the rows of largest inner product with queries [start, stop); the index as CSC.

    A query's inner products with all rows are summed from the columns of its features: cheap where
    most rows share no feature.
    """
    (query_ptr, query_idx, query_val), (ptr, idx, val) = queries, columns
    sums = np.zeros(lists[1].size)
    for r in range(start, stop):
        for k in range(query_ptr[r], query_ptr[r + 1]):
            j, x = query_idx[k], query_val[k]
            for q in range(ptr[j], ptr[j + 1]):
                sums[np.uint32(idx[q])] += x * val[q]  # unsigned: no test for negative numbers
        _fill_lists(r, sums, lists)
        sums[:] = 0.0
