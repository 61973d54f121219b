"""Compiled loops of the search for the largest inner products; arrays in, arrays out.

Matrices come as their CSR or CSC arrays, and the caller allocates and has validated.

Queries and rows of the index carry labels. Each query has two lists: the best rows of
its own label and the best rows of other labels. `lists` are query_labels, labels,
leaves_self, same, other. `leaves_self` says that query r is row r of the index, which
is then no candidate. `same` and `other` are want, scores and rows: query r wants
want[r] rows, no more than there are, and has scores of -inf to begin with. Of equal
scores the smaller row number comes first.
"""

import numpy as np

from .compiled import AHEAD, LINE, add, fetch, kernel, put, zeros

#: Float32 sums that are made, and compared with their limits, at a time in vector
#: registers.
PART = 4 * LINE // 4


@kernel()
def _replace_worst(scores, rows, size, score, row):
    """Put (score, row) into a heap topped by the worst, lowest score, then largest row: it goes."""
    at = 0
    down = 1
    while down < size:
        low = scores[down]
        last = rows[down]
        if down + 1 < size:
            other = scores[down + 1]
            after = rows[down + 1]
            if other < low or (other == low and after > last):
                down = down + 1
                low = other
                last = after
        if score < low or (score == low and row > last):
            break
        scores[at] = low
        rows[at] = last
        at = down
        down = 2 * down + 1
    scores[at] = score
    rows[at] = row


@kernel()
def _fill_lists(r, sums, lists, first):
    """Fill both lists of query r from its inner products with the rows from `first` on.

    Blocks of rows come one after the other.
    """
    query_labels, labels, leaves_self, of_same, of_other = lists
    n_same = of_same[0][r]
    same = of_same[1][r]
    same_rows = of_same[2][r]
    n_other = of_other[0][r]
    other = of_other[1][r]
    other_rows = of_other[2][r]
    skip = r - first if leaves_self else -1
    label = query_labels[r]
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


@kernel()
def top_of_sums(start, stop, sums, first, lists):
    """Find the largest of each row [start, stop) of `sums`; row 0 is that of query `first`."""
    for r in range(start, stop):
        _fill_lists(first + r, sums[r], lists, 0)


@kernel()
def add_products(queries, columns, out):
    """Add the inner products of all queries with all rows, which come as CSC."""
    (query_ptr, query_idx, query_val) = queries
    (ptr, idx, val) = columns
    for r in range(out.shape[0]):
        for k in range(query_ptr[r], query_ptr[r + 1]):
            j = query_idx[k]
            x = query_val[k]
            for q in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
                out[r, np.uint32(idx[q])] += x * val[q]


@kernel()
def top_by_columns(start, stop, chosen, queries, columns, lists, first, sums):
    """Find the rows of largest inner product with chosen queries in a block of the index.

    The queries are chosen[start], …, chosen[stop - 1]. The block, rows from `first` on,
    comes as CSC. A query's inner products with its rows are summed from the columns of
    the query's features: cheap where most rows share no feature. `sums` is room for
    them, of zeros.
    """
    (query_ptr, query_idx, query_val) = queries
    (ptr, idx, val) = columns
    for r in chosen[start:stop]:
        for k in range(query_ptr[r], query_ptr[r + 1]):
            j = query_idx[k]
            x = query_val[k]
            for q in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
                sums[np.uint32(idx[q])] += (
                    x * val[q]
                )  # unsigned: no test for negative numbers
        _fill_lists(r, sums, lists, first)
        for b in range(sums.size):
            sums[b] = 0.0


# --- rows that meet each other --------------------------------------------------------


@kernel()
def meet(start, stop, pairs, bounds, near, rows, lists, low, scale, room):
    """Have groups of rows meet: pairs[start], …, pairs[stop - 1], no group in two of them.

    Rows are searched for among themselves. Group g has rows bounds[g], …, bounds[g + 1]
    - 1. Inner products are summed in float32 first: `near` has rows with values in [0,
    1], features sorted by falling frequency. low[0, r] and low[1, r] are what a sum
    must be above to be of use to a list of row r, the least score of the list times
    `scale`. Few are, and these are computed from `rows`, for both rows at once. `room`
    is for a block of rows: columns of frequent features, parts × features × rows of a
    part; pointers, rows and values of the other columns; sums of some rows with the
    block; limits of its rows; and one row of X, zeros.
    """
    dense, ptr, idx, val, sums, limits, query = room
    n_blocks = -(-(bounds[1] - bounds[0] + 1) // limits.size)
    for t in range(start, stop):
        a, b = pairs[t]
        n = bounds[b + 1] - bounds[b]
        for block in range(n_blocks):
            first = bounds[b] + n * block // n_blocks
            size = bounds[b] + n * (block + 1) // n_blocks - first
            _lay_out(first, size, near, dense, ptr, idx, val)
            for c in range(limits.size):
                limits[c] = (
                    min(low[0, first + c], low[1, first + c]) if c < size else np.inf
                )
            last = bounds[a + 1] if a != b else first + size
            for r in range(bounds[a], last):
                q = (r - bounds[a]) % sums.shape[0]
                if q == 0:
                    _sum_dense(r, min(r + sums.shape[0], last), size, near, dense, sums)
                _add_others(r, q, near, dense.shape[1], ptr, idx, val, sums)
                _compare(
                    r,
                    q,
                    first,
                    size,
                    a == b,
                    rows,
                    lists,
                    low,
                    scale,
                    sums,
                    limits,
                    query,
                )


@kernel()
def _lay_out(first, size, near, dense, ptr, idx, val):
    """Write rows [first, first + size) by columns, those of frequent features dense."""
    row_ptr, row_idx, row_val = near
    n_dense = dense.shape[1]
    dense[:] = 0.0
    ptr[:] = 0
    for k in range(row_ptr[first], row_ptr[first + size]):
        if row_idx[k] >= n_dense:
            ptr[row_idx[k] - n_dense + 2] += 1
    for j in range(2, ptr.size):
        ptr[j] += ptr[j - 1]
    for c in range(size):
        for k in range(row_ptr[first + c], row_ptr[first + c + 1]):
            j = row_idx[k] - n_dense
            if j < 0:
                dense[c // PART, row_idx[k], c % PART] = row_val[k]
            else:
                idx[ptr[j + 1]] = c
                val[ptr[j + 1]] = row_val[k]
                ptr[j + 1] += 1


@kernel()
def _sum_dense(start, stop, size, near, dense, sums):
    """Write the inner products of rows [start, stop) with a block in the frequent features."""
    ptr, idx, val = near
    n_dense = dense.shape[1]
    for part in range(-(-size // PART)):
        dense_first = dense.ctypes.data + 4 * LINE * n_dense * part
        for r in range(start, stop):
            k = np.uint64(ptr[r])
            last = np.uint64(ptr[r + 1])
            line_0 = zeros()
            line_1 = zeros()
            line_2 = zeros()
            line_3 = zeros()
            while k < last and idx[k] < n_dense:  # features are sorted
                x = val[k]
                at = dense_first + 4 * LINE * np.int64(idx[k])
                add(line_0, x, at)
                add(line_1, x, at + LINE)
                add(line_2, x, at + 2 * LINE)
                add(line_3, x, at + 3 * LINE)
                k += np.uint64(1)
            at = sums.ctypes.data + 4 * (sums.shape[1] * (r - start) + PART * part)
            put(line_0, at)
            put(line_1, at + LINE)
            put(line_2, at + 2 * LINE)
            put(line_3, at + 3 * LINE)


@kernel()
def _add_others(r, q, near, n_dense, ptr, idx, val, sums):
    """Add inner products of row r with a block in the other features."""
    row_ptr, row_idx, row_val = near
    first = row_ptr[r]
    last = row_ptr[r + 1]
    while first < last and row_idx[first] < n_dense:
        first += 1
    for k in range(first, last):
        later = row_idx[min(k + 2 * AHEAD, last - 1)]
        soon = row_idx[min(k + AHEAD, last - 1)]
        fetch(ptr.ctypes.data + 4 * np.int64(later - n_dense))
        fetch(idx.ctypes.data + 2 * np.int64(ptr[soon - n_dense]))
        fetch(val.ctypes.data + 4 * np.int64(ptr[soon - n_dense]))
        j = np.uint32(row_idx[k] - n_dense)
        x = row_val[k]
        for i in range(np.uint32(ptr[j]), np.uint32(ptr[j + 1])):
            sums[q, idx[i]] += x * val[i]


@kernel()
def _compare(r, q, first, size, is_one, rows, lists, low, scale, sums, limits, query):
    """Offer row r to the rows of a block, and them to it; in its own group to later ones alone."""
    labels = lists[0]
    others = lists[1]
    (ptr, idx, val) = rows
    (want_same, same, same_rows), (want_other, other, other_rows) = lists[3:]
    is_held = False
    limit = min(low[0, r], low[1, r])
    for start in range(0, size, PART):
        if not _is_some_above(q, sums, limit, limits, np.uint64(start)):
            continue
        for c in range(
            max(start, r + 1 - first) if is_one else start, min(start + PART, size)
        ):
            if sums[q, c] <= limit and sums[q, c] <= limits[c]:
                continue
            s = first + c
            kind = 0 if labels[r] == others[s] else 1
            if sums[q, c] <= low[kind, r] and sums[q, c] <= low[kind, s]:
                continue
            if not is_held:
                for k in range(ptr[r], ptr[r + 1]):
                    query[idx[k]] = val[k]
                is_held = True
            score = 0.0
            for k in range(ptr[s], ptr[s + 1]):
                score += val[k] * query[np.uint32(idx[k])]
            if kind == 0:
                low[0, r] = scale * _offer(r, s, score, want_same, same, same_rows)
                low[0, s] = scale * _offer(s, r, score, want_same, same, same_rows)
            else:
                low[1, r] = scale * _offer(r, s, score, want_other, other, other_rows)
                low[1, s] = scale * _offer(s, r, score, want_other, other, other_rows)
            limit = min(low[0, r], low[1, r])
            limits[c] = min(low[0, s], low[1, s])
    if is_held:
        for k in range(ptr[r], ptr[r + 1]):
            query[idx[k]] = 0.0


@kernel()
def _is_some_above(q, sums, limit, limits, start):
    """Return whether one of PART sums is above the limit, or above its own one."""
    n = np.int32(0)
    for c in range(start, start + np.uint64(PART)):
        n |= np.int32((sums[q, c] > limit) | (sums[q, c] > limits[c]))
    return n != 0


@kernel()
def _offer(r, s, score, want, scores, rows):
    """Put row s into a list of row r if it is better than the worst there; return the worst."""
    if want[r] == 0:
        return np.inf
    if score > scores[r, 0] or (score == scores[r, 0] and s < rows[r, 0]):
        _replace_worst(scores[r], rows[r], want[r], score, s)
    return scores[r, 0]
