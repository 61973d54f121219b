"""Compiled loops of the search for the largest inner products; arrays in, arrays out.

Conventions are those of ``kernels``: matrices come as their CSR or CSC arrays, and the caller
allocates and has validated.
"""

import numpy as np

from .kernels.compiler import WIDTH, kernel
from .kernels.gradient import aligned_zeros, gather_column

# --- search: the k largest inner products ---------------------------------------------------------


@kernel()
def _sift(scores, rows, size, score, row):
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
    """Sort a heap of `_sift` by falling score, then rising row: its worst is always on top."""
    for end in range(scores.size - 1, 0, -1):
        score, row = scores[end], rows[end]
        scores[end], rows[end] = scores[0], rows[0]
        _sift(scores[:end], rows[:end], end, score, row)


@kernel()
def _add_products(r, query_ptr, query_idx, query_val, ptr, idx, val, sums):
    """Add to `sums` the inner products of query r with all rows of the index, given as CSC."""
    for k in range(query_ptr[r], query_ptr[r + 1]):
        j = query_idx[k]
        x = query_val[k]
        for q in range(ptr[j], ptr[j + 1]):
            # Unsigned, so that no negative number has to be looked out for.
            sums[np.uint32(idx[q])] += x * val[q]


# Two ways to the same answer. Queries and index rows carry labels: candidates of the query's label
# and of other labels go to two lists. `own` says that query r is row r of the index, no candidate
# of its own.


@kernel()
def top_by_columns(
    start, stop, query_ptr, query_idx, query_val, query_labels, ptr, idx, val, labels, own,
    same_scores, same_rows, same_size, other_scores, other_rows, other_size,
):  # fmt: skip
    """Find the rows of largest inner product with the queries [start, stop); the index as CSC.

    A query's inner products with all rows are summed from the columns of its features: the cheaper
    way where most rows share no feature.
    """
    n = labels.size
    sums = np.zeros(n)
    for r in range(start, stop):
        _add_products(r, query_ptr, query_idx, query_val, ptr, idx, val, sums)
        n_same = 0
        n_other = 0
        for b in range(n):
            score = sums[b]
            sums[b] = 0.0
            if own and b == r:
                continue
            if labels[b] == query_labels[r]:
                n_same = _sift(same_scores[r], same_rows[r], n_same, score, b)
            else:
                n_other = _sift(other_scores[r], other_rows[r], n_other, score, b)
        _best_first(same_scores[r, :n_same], same_rows[r, :n_same])
        _best_first(other_scores[r, :n_other], other_rows[r, :n_other])
        same_size[r] = n_same
        other_size[r] = n_other


@kernel()
def top_by_rows(
    start, stop, query_ptr, query_idx, query_val, query_labels, ptr, idx, val, labels, own,
    n_features, same_scores, same_rows, same_size, other_scores, other_rows, other_size,
):  # fmt: skip
    """Do so for blocks of WIDTH queries, [start, stop) of the blocks; the index as CSR.

    A block is spread out over the features and meets each row of the index once: the cheaper way
    where most rows share some feature.
    """
    n = labels.size
    Q = aligned_zeros(n_features)
    s = np.empty(WIDTH)
    enough = np.empty(WIDTH)
    n_queries = query_labels.size
    for block in range(start, stop):
        first = block * WIDTH
        width = min(WIDTH, n_queries - first)
        for c in range(width):
            for k in range(query_ptr[first + c], query_ptr[first + c + 1]):
                Q[query_idx[k], c] = query_val[k]
        n_same = np.zeros(WIDTH, np.int64)
        n_other = np.zeros(WIDTH, np.int64)
        enough[:] = -np.inf
        enough[width:] = np.inf
        for b in range(n):
            if not gather_column(idx, val, Q, ptr[b], ptr[b + 1], 0.0, enough, s):
                continue  # |score| is no more than what both lists of every query have already
            for c in range(width):
                r = first + c
                if own and b == r:
                    continue
                if labels[b] == query_labels[r]:
                    n_same[c] = _sift(same_scores[r], same_rows[r], n_same[c], s[c], b)
                else:
                    n_other[c] = _sift(other_scores[r], other_rows[r], n_other[c], s[c], b)
                if n_same[c] == same_scores.shape[1] and n_other[c] == other_scores.shape[1]:
                    enough[c] = np.inf
                    if n_same[c]:
                        enough[c] = same_scores[r, 0]
                    if n_other[c]:
                        enough[c] = min(enough[c], other_scores[r, 0])
        for c in range(width):
            r = first + c
            _best_first(same_scores[r, : n_same[c]], same_rows[r, : n_same[c]])
            _best_first(other_scores[r, : n_other[c]], other_rows[r, : n_other[c]])
            same_size[r] = n_same[c]
            other_size[r] = n_other[c]
            for k in range(query_ptr[r], query_ptr[r + 1]):
                Q[query_idx[k], c] = 0.0


# --- search: the k largest inner products, whatever the label -------------------------------------


@kernel()
def keep_columns(ptr, idx, val, place, out_ptr, out_idx, out_val):
    """Write the CSR arrays of the columns that have a place, under that number; -1 is none."""
    n = 0
    out_ptr[0] = 0
    for r in range(ptr.size - 1):
        for k in range(ptr[r], ptr[r + 1]):
            j = place[idx[k]]
            if j >= 0:
                out_idx[n] = j
                out_val[n] = val[k]
                n += 1
        out_ptr[r + 1] = n


@kernel()
def _top_of(sums, skip, scores, rows):
    """Find the largest of `sums`, all but the one numbered `skip`; return how many there are."""
    n = 0
    worst = np.nan  # nothing is below it: all are let in until the list is full
    for b in range(sums.size):
        # An equal one in the list has the smaller number, so it stays.
        if not sums[b] <= worst and b != skip:
            n = _sift(scores, rows, n, sums[b], b)
            if n == scores.size:
                worst = scores[0]
    _best_first(scores[:n], rows[:n])
    return n


@kernel()
def top_k_of_sums(start, stop, sums, first, own, scores, rows, size):
    """Find the k largest of each row [start, stop) of `sums`; row 0 is that of query `first`.

    `own` says that query r is row r of the index, no candidate of its own; so below.
    """
    for r in range(first + start, first + stop):
        size[r] = _top_of(sums[r - first], r if own else -1, scores[r], rows[r])


@kernel()
def top_k_by_columns(
    start, stop, query_ptr, query_idx, query_val, ptr, idx, val, n_rows, own, scores, rows, size
):
    """Find the k rows of largest inner product with the queries [start, stop); the index as CSC."""
    sums = np.zeros(n_rows)
    for r in range(start, stop):
        _add_products(r, query_ptr, query_idx, query_val, ptr, idx, val, sums)
        size[r] = _top_of(sums, r if own else -1, scores[r], rows[r])
        sums[:] = 0.0


@kernel()
def top_k_by_rows(
    start, stop, query_ptr, query_idx, query_val, ptr, idx, val, n_features, own, scores, rows, size
):
    """Do so for blocks of WIDTH queries, [start, stop) of the blocks; the index as CSR."""
    n_queries, k = scores.shape
    Q = aligned_zeros(n_features)
    s = np.empty(WIDTH)
    worst = np.empty(WIDTH)
    for block in range(start, stop):
        first = block * WIDTH
        width = min(WIDTH, n_queries - first)
        for c in range(width):
            for q in range(query_ptr[first + c], query_ptr[first + c + 1]):
                Q[query_idx[q], c] = query_val[q]
        worst[:width] = -np.inf
        worst[width:] = np.inf
        for b in range(ptr.size - 1):
            if not gather_column(idx, val, Q, ptr[b], ptr[b + 1], 0.0, worst, s):
                continue
            for c in range(width):
                r = first + c
                if (s[c] > worst[c] or size[r] < k) and not (own and b == r):
                    size[r] = _sift(scores[r], rows[r], size[r], s[c], b)
                    if size[r] == k:
                        worst[c] = scores[r, 0]
        for c in range(width):
            r = first + c
            _best_first(scores[r, : size[r]], rows[r, : size[r]])
            for q in range(query_ptr[r], query_ptr[r + 1]):
                Q[query_idx[q], c] = 0.0
