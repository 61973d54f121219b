"""Compiled loops of the search that leaves out most inner products; arrays in, arrays out.

Features are numbered from the most frequent to the rarest, and rows list them in this order. With
x[≤j] for the part of x up to feature j, ⟨q[≤j], x[≤j]⟩ ≤ ‖q[≤j]‖ ‖x[≤j]‖. A query adds up its
products with the rows from its rarest feature on. At feature j it skips every row where this bound
is at most `share` times the score to beat: what is left of such a row is no more than that. A row
whose sum so far is not above the rest of the score to beat cannot reach it, and only for the others
the inner product is computed. Frequent features, which most products come from, are hardly read.

Rows come in blocks, whose sums stay in the cache. The entries of a feature in a block are sorted by
the level of ‖x[≤j]‖, the highest first, so that a query stops at the first one that it can skip.
"""

import numpy as np

from .compiled import kernel
from .search import push

#: Most rows of a block: their numbers take two bytes, and their sums stay in the L2 cache.
BLOCK = 32768

#: Levels of ‖x[≤j]‖, as shares of the largest norm of a block.
LEVELS = 255

#: Sums of a block that are tested together.
STRIDE = 64

#: A rounding error of a sum of float32 terms is below this times the number of terms.
ROUNDING = 1.2e-7


@kernel()
def fill_blocks(start, stop, rows, bounds, index, blocks):
    """Write the blocks [start, stop) of the rows as columns, each sorted by falling level.

    Block b has rows[bounds[b] : bounds[b + 1]]. Its arrays are the size unit[b] of a level;
    columns[b], where each feature begins; and of each entry the number in the block, level, value.
    """
    (ptr, idx, val), (unit, columns, local, level, value) = index, blocks
    for b in range(start, stop):
        first, last = bounds[b], bounds[b + 1]
        count = columns[b]
        count[:] = 0
        total = 0
        by_level = np.zeros(LEVELS + 2, np.int64)
        for r in rows[first:last]:
            norm2 = 0.0
            for k in range(ptr[r], ptr[r + 1]):
                norm2 += val[k] * val[k]
                at = min(int(np.sqrt(norm2) / unit[b]) + 1, LEVELS)
                by_level[LEVELS - at + 1] += 1
                count[idx[k] + 1] += 1
                total += 1
        for j in range(1, count.size):
            count[j] += count[j - 1]
        for at in range(1, by_level.size):
            by_level[at] += by_level[at - 1]
        # All entries by falling level, and then, in this order, by feature.
        entry, owner = np.empty(total, np.int64), np.empty(total, np.uint16)
        for p in range(first, last):
            r = rows[p]
            norm2 = 0.0
            for k in range(ptr[r], ptr[r + 1]):
                norm2 += val[k] * val[k]
                at = LEVELS - min(int(np.sqrt(norm2) / unit[b]) + 1, LEVELS)
                entry[by_level[at]], owner[by_level[at]] = k, p - first
                by_level[at] += 1
        place = count[:-1].copy()
        at = 0
        for n in range(total):
            while n >= by_level[at]:
                at += 1
            k = entry[n]
            to = place[idx[k]]
            place[idx[k]] += 1
            local[b, to], level[b, to], value[b, to] = owner[n], LEVELS - at, val[k]


@kernel()
def _table_size(start, stop, chosen, ptr):
    """Return the size of a table for the entries of the longest of the rows chosen[start:stop]."""
    most = 1
    for r in chosen[start:stop]:
        most = max(most, ptr[r + 1] - ptr[r])
    size = 64
    while size < 4 * most:
        size *= 2
    return size


@kernel()
def _enter(r, queries, keys, values):
    """Enter query r into a table with a key per feature and -1 where it is free."""
    ptr, idx, val = queries
    mask = keys.size - 1
    for k in range(ptr[r], ptr[r + 1]):
        at = idx[k] & mask
        while keys[at] >= 0:
            at = (at + 1) & mask
        keys[at], values[at] = idx[k], val[k]


@kernel()
def _score_of(b, index, keys, values):
    """Return the inner product of row b with the query in the table, which is in the L1 cache."""
    ptr, idx, val = index
    mask = keys.size - 1
    score = 0.0
    for k in range(ptr[b], ptr[b + 1]):
        j = idx[k]
        at = j & mask
        while keys[at] >= 0:
            if keys[at] == j:
                score += values[at] * val[k]
                break
            at = (at + 1) & mask
    return score


@kernel()
def _push_scores(rows, index, keys, values, best, best_row):
    """Offer the inner products of rows with the query in the table to a heap; return its size.

    Rows that are listed twice count once.
    """
    n = 0
    for c in range(rows.size):
        if not (rows[:c] == rows[c]).any():
            score = _score_of(rows[c], index, keys, values)
            n = push(best, best_row, n, score, rows[c])
    return n


@kernel()
def first_scores(start, stop, budget, width, first_rare, rare, queries, index, lists, out):
    """Write for queries [start, stop) two scores that their lists are sure to beat or equal.

    `rare` are the columns of the features from `first_rare` on. Rows that share some with a query
    are tried, `width` times as many as a list wants. A score is -inf where they are too few, and
    inf where none is wanted.
    """
    (columns, rows, values), (query_ptr, query_idx, query_val) = rare, queries
    query_labels, labels, own, same, other = lists
    sums, seen = np.zeros(labels.size, np.float32), np.empty(budget, np.int32)
    size = _table_size(start, stop, np.arange(stop), query_ptr)
    keys, entries = np.full(size, -1, np.int32), np.zeros(size)
    most = width * max(same[0].max(), other[0].max(), 1)
    scores, found = np.empty(most), np.empty(most, np.int64)
    best, best_row = np.empty(most), np.empty(most, np.int64)
    for r in range(start, stop):
        n_seen = used = 0
        k = query_ptr[r + 1] - 1
        while k >= query_ptr[r] and query_idx[k] >= first_rare:
            j = query_idx[k] - first_rare
            used += columns[j + 1] - columns[j]
            if used > budget:
                break
            for q in range(columns[j], columns[j + 1]):
                b = rows[q]
                if sums[b] == 0.0:
                    seen[n_seen] = b
                    n_seen += 1
                sums[b] += np.float32(query_val[k]) * np.float32(values[q])
            k -= 1
        _enter(r, queries, keys, entries)
        for kind in range(2):
            want = other[0][r] if kind else same[0][r]
            if want == 0:
                out[kind, r] = np.inf
                continue
            n = 0
            room = scores[: width * want]
            for b in seen[:n_seen]:
                total = np.float64(sums[b])
                if n == room.size and total <= room[0]:
                    continue
                is_same = labels[b] == query_labels[r]
                if is_same == (kind == 0) and total != 0.0 and not (own and b == r):
                    n = push(room, found, n, total, b)
            n_best = _push_scores(found[:n], index, keys, entries, best[:want], best_row)
            out[kind, r] = best[0] if n_best == want else -np.inf
        for b in seen[:n_seen]:
            sums[b] = 0.0
        keys[:] = -1


@kernel()
def _limits(beat, share, norm, n_terms, unit):
    """Return the slack for rounding, what skipped features may add, and what others must."""
    slack = ROUNDING * (n_terms + 8) * norm * unit * LEVELS
    cut = share * (beat - slack)
    return slack, cut, (beat - slack) - cut


@kernel()
def _add_up(r, cut, norm, block, queries, sums, begins, ends):
    """Add the products of query r with the rows of a block, as far as the bound demands it.

    Lists where the entries of each feature begin and end. Returns the number of features and of
    entries; `norm` is that of the query.
    """
    (unit, columns, local, level, value), (ptr, idx, val) = block, queries
    n_used = n_entries = 0
    norm2 = norm**2
    for k in range(ptr[r + 1] - 1, ptr[r] - 1, -1):
        norm = np.sqrt(max(norm2, 0.0))
        norm2 -= val[k] * val[k]
        skip = LEVELS + 1 if norm == 0.0 else int(min(cut / (norm * unit), LEVELS + 1.0))
        if skip >= LEVELS:
            break  # every row is skipped from here on
        j = idx[k]
        low, high = columns[j], columns[j + 1]
        if low == high:
            continue
        first = low
        if level[high - 1] <= skip:  # find the first entry to skip
            while low < high:
                middle = (low + high) // 2
                if level[middle] > skip:
                    low = middle + 1
                else:
                    high = middle
        x = np.float32(val[k])
        for q in range(first, high):
            sums[local[q]] += x * value[q]
        begins[n_used], ends[n_used] = first, high
        n_used += 1
        n_entries += high - first
    return n_used, n_entries


@kernel()
def _offer(r, b, total, slack, beats, table, queries, index, lists, is_entered):
    """Compute the inner product of query r with row b where it may enter a list, and offer it.

    It is at most `total`. Returns whether the query is in the table.
    """
    query_labels, labels, own, same, other = lists
    is_same = labels[b] == query_labels[r]
    want, scores, rows, size = same if is_same else other
    if want[r] == 0 or (own and b == r):
        return is_entered
    if size[r] == want[r] and total <= scores[r, 0] - slack:
        return is_entered
    keys, values = table
    if not is_entered:
        _enter(r, queries, keys, values)
    score = _score_of(b, index, keys, values)
    if score >= beats[0 if is_same else 1, r]:
        size[r] = push(scores[r, : want[r]], rows[r], size[r], score, b)
    return True


@kernel()
def _above(sums, need, out):
    """List the places of the sums above `need`; return how many there are."""
    n = 0
    for first in range(0, sums.size, STRIDE):
        part = sums[first : first + STRIDE]
        found = 0
        for at in range(part.size):  # without a branch: it fills vector registers
            found += part[at] > need
        if found:
            for at in range(part.size):
                out[n] = first + at
                n += part[at] > need
    return n


@kernel()
def _to_beat(r, of_list, first):
    """Return the score that a row must beat or equal to enter a list; inf where none is wanted."""
    want, scores, _, size = of_list
    if want[r] == 0:
        return np.inf
    if size[r] == want[r]:
        return max(first, scores[r, 0])
    return first


@kernel()
def search_block(
    start, stop, chosen, share, beats, span, rows, block, norms, queries, index, lists
):  # fmt: skip
    """Offer the rows of a block to the lists of chosen[start:stop], as far as they may enter.

    The labels of the block are within `span`, so it may concern one of the lists only. `norms` are
    those of the queries.
    """
    low, high = span
    unit, local = block[0], block[2]
    query_ptr, query_labels = queries[0], lists[0]
    sums = np.zeros(rows.size, np.float32)
    size = _table_size(start, stop, chosen, query_ptr)
    keys = np.full(size, -1, np.int32)
    table = keys, np.zeros(size)
    begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    above = np.empty(rows.size + 1, np.int64)
    for r in chosen[start:stop]:
        same, other = _to_beat(r, lists[3], beats[0, r]), _to_beat(r, lists[4], beats[1, r])
        if query_labels[r] < low or query_labels[r] > high:
            same = np.inf
        elif low == high:
            other = np.inf
        beat = min(same, other)
        if beat == np.inf:
            continue
        n_terms = query_ptr[r + 1] - query_ptr[r]
        slack, cut, need = _limits(beat, share, norms[r], n_terms, unit)
        n_used, n_entries = _add_up(r, cut, norms[r], block, queries, sums, begins, ends)
        is_entered = False
        if 4 * n_entries < rows.size:
            for used in range(n_used):
                for q in range(begins[used], ends[used]):
                    at = local[q]
                    total = sums[at]
                    sums[at] = 0.0
                    if total > need:
                        is_entered = _offer(
                            r, rows[at], total + cut, slack, beats, table, queries, index, lists,
                            is_entered,
                        )  # fmt: skip
        else:
            n_above = _above(sums, need, above)
            for at in above[:n_above]:
                is_entered = _offer(
                    r, rows[at], sums[at] + cut, slack, beats, table, queries, index, lists,
                    is_entered,
                )  # fmt: skip
            sums[:] = 0.0
        if is_entered:
            keys[:] = -1


@kernel()
def count_work(start, stop, chosen, share, beats, n_rows, block, norms, queries, out):
    """Count the entries of a block that chosen[start:stop] read, and the rows that they compute.

    There is a line of `out` per query and a column of it per kind of work.
    """
    sums, query_ptr = np.zeros(n_rows, np.float32), queries[0]
    size = _table_size(start, stop, chosen, query_ptr)
    begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    for at in range(start, stop):
        r = chosen[at]
        n_terms = query_ptr[r + 1] - query_ptr[r]
        _, cut, need = _limits(beats[r], share, norms[r], n_terms, block[0])
        _, out[at, 0] = _add_up(r, cut, norms[r], block, queries, sums, begins, ends)
        out[at, 1] = (sums > need).sum()
        sums[:] = 0.0
