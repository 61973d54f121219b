"""Compiled loop of the search for all inner products from a threshold on.

Features are numbered from the most frequent to the rarest, and rows list them in this order. The
first features of a query, as many as add at most a share of the threshold to any inner product, are
skipped: ⟨q[≤j], x⟩ ≤ ‖q[≤j]‖ ‖x‖. The others are added up by columns, and only the rows whose sum
can still reach the threshold are computed.
"""

import numpy as np

from .compiled import kernel

#: Share of the threshold that skipped features may add.
SHARE = 0.6


@kernel()
def above(  # noqa: C901 - one pass per query
    start, stop, threshold, own, ptr, idx, val, col_ptr, col_rows, col_val, row_ptr, row_idx,
    row_val, norms,
):  # fmt: skip
    """Return numbers per query, rows and inner products of the queries [start, stop).

    `own` says that query r is row r of the index, which is left out. The inner product is summed
    in the order of the row's features.
    """
    n, largest = norms.size, norms.max()
    count = np.zeros(stop - start, np.int64)
    rows, scores = np.empty(1024, np.int64), np.empty(1024)
    sums, is_touched = np.zeros(n), np.zeros(n, np.bool_)
    touched, dense = np.empty(n, np.int64), np.zeros(col_ptr.size - 1)
    size = 0
    for r in range(start, stop):
        first, skipped2 = ptr[r], 0.0
        while first < ptr[r + 1]:
            more = skipped2 + val[first] * val[first]
            if np.sqrt(more) * largest > SHARE * threshold:
                break
            skipped2, first = more, first + 1
        skipped, n_touched = np.sqrt(skipped2), 0
        for k in range(first, ptr[r + 1]):
            for c in range(col_ptr[idx[k]], col_ptr[idx[k] + 1]):
                b = col_rows[c]
                if not is_touched[b]:
                    is_touched[b] = True
                    touched[n_touched] = b
                    n_touched += 1
                sums[b] += val[k] * col_val[c]
        for k in range(ptr[r], ptr[r + 1]):
            dense[idx[k]] = val[k]
        if size + n_touched > rows.size:
            more_rows, more_scores = (
                np.empty(2 * (size + n_touched), np.int64),
                np.empty(2 * (size + n_touched)),
            )
            more_rows[:size], more_scores[:size] = rows[:size], scores[:size]
            rows, scores = more_rows, more_scores
        begin = size
        for b in touched[:n_touched]:
            # Rounding is far below 1e-9 of the bound.
            if b != r or not own:
                bound = skipped * norms[b]
                if sums[b] + bound >= threshold - 1e-9 * (threshold + abs(sums[b]) + bound):
                    score = 0.0
                    for k in range(row_ptr[b], row_ptr[b + 1]):
                        score += dense[row_idx[k]] * row_val[k]
                    if score >= threshold:
                        rows[size], scores[size] = b, score
                        size += 1
            sums[b], is_touched[b] = 0.0, False
        order = np.argsort(rows[begin:size])
        rows[begin:size], scores[begin:size] = rows[begin:size][order], scores[begin:size][order]
        count[r - start] = size - begin
        for k in range(ptr[r], ptr[r + 1]):
            dense[idx[k]] = 0.0
    return count, rows[:size].copy(), scores[:size].copy()
