"""Kernels from pairs of rows to rows of S = C + Cᵀ, and to the best partners of features.

The best partner j of a feature i has the largest C_jj + |S_ij|; of equals it is the
smallest.
"""

import numpy as np

from .compiled import LINE, add, kernel, lift, put, reaches, zeros


@kernel()
def _first_from(start, idx, low, high):
    """Return the first place in [low, high) whose row is not before `start`, else `high`."""
    while low < high:
        middle = (low + high) // 2
        if idx[middle] < start:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def unfold_atom(start, stop, i, j, sign, columns, u):
    """Write X e_i ± X e_j for the rows [start, stop)."""
    ptr, idx, val = columns
    for a in range(start, stop):
        u[a] = 0.0
    for end in range(2):
        feature, factor = (j, sign) if end else (i, 1.0)
        last = ptr[feature + 1]
        k = _first_from(start, idx, ptr[feature], last)
        while k < last and idx[k] < stop:
            u[np.uint32(idx[k])] += factor * val[k]
            k += 1


@kernel()
def unfold(start, stop, features, columns, U, marked):
    """Mark the rows [start, stop) of X that have some features; write them, row a as U[a + 1]."""
    ptr, idx, val = columns
    U_first = U.ctypes.data
    nothing = zeros()
    for a in range(start, stop):
        marked[a] = 0
    for c in range(features.size):
        last = ptr[features[c] + 1]
        k = _first_from(start, idx, ptr[features[c]], last)
        while k < last and idx[k] < stop:
            a = idx[k]
            if not marked[a]:
                marked[a] = 1
                put(nothing, U_first + LINE * (np.int64(a) + 1))
            U[a + 1, c] = val[k]
            k += 1


@kernel()
def spread(start, stop, bounds, links, w, marked, U, R, largest):
    """Write R = (W + Wᵀ) U[1:], n × WIDTH, by parts [start, stop). Rows not marked are not read.

    U[0] stands for these, all zeros: a test of marks would guess wrong too often.
    `largest` gets the largest sizes of numbers in each column of each part.
    """
    ptr, neighbor, pair = links
    U_first = U.ctypes.data
    R_first = R.ctypes.data
    for part in range(start, stop):
        most = zeros()
        for b in range(bounds[part], bounds[part + 1]):
            line = zeros()
            at = R_first + LINE * b
            for e in range(np.uint64(ptr[b]), np.uint64(ptr[b + 1])):
                a = np.uint32(neighbor[e])
                is_marked = marked[a]
                x = w[np.uint32(pair[e]) * np.uint32(is_marked)]
                add(line, x, U_first + LINE * ((np.int64(a) + 1) * np.int64(is_marked)))
            put(line, at)
            lift(most, at)
        put(most, largest.ctypes.data + LINE * part)


@kernel()
def gather(start, stop, columns, R, out):
    """Write S[j, :] = X[:, j]ᵀ R, WIDTH numbers, for the features j in [start, stop) (X as CSC)."""
    ptr, idx, val = columns
    R_first = R.ctypes.data
    out_first = out.ctypes.data
    for j in range(start, stop):
        line = zeros()
        for k in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
            add(line, val[k], R_first + LINE * np.int64(idx[k]))
        put(line, out_first + LINE * j)


@kernel()
def best_of_rows(
    start, stop, bounds, features, after, diagonal, columns, sizes, R, limits, room
):
    """Find the best partners of up to WIDTH features among parts [start, stop) of the features.

    Each part has lines of its own in `room`: S_ij, and the best value so far, infinite
    where there is no feature, with its partner and entry. No |S_ij| is above the sum of
    |X[:, j]|, its size, times the largest |R[:, i]|: a feature that can be nobody's
    best is passed over, as most rare ones.
    """
    ptr, idx, val = columns
    R_first = R.ctypes.data
    (S, best, partner, entry) = (room[0], room[1], room[2], room[3])
    limit = zeros()
    lift(limit, limits.ctypes.data)
    for part in range(start, stop):
        top = best.ctypes.data + LINE * part
        for j in range(bounds[part], bounds[part + 1]):
            if not reaches(limit, diagonal[j], sizes[j], top):
                continue
            line = zeros()
            for k in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
                add(line, val[k], R_first + LINE * np.int64(idx[k]))
            if not reaches(line, diagonal[j], 1.0, top):
                continue
            put(line, S.ctypes.data + LINE * part)
            for c in range(features.size):
                i = features[c]
                value = diagonal[j] + abs(S[part, c])
                is_better = value > best[part, c]
                is_better |= value == best[part, c] and j < partner[part, c]
                if is_better and (j > i or (j < i and not after)):
                    best[part, c] = value
                    partner[part, c] = j
                    entry[part, c] = S[part, c]


@kernel()
def _reach(i, columns, rows, links, w, r, is_reached, reached):
    """Add (W + Wᵀ) X[:, i] to r; list the rows that it reaches.

    Returns how many there are, and how many entries they have.
    """
    ptr, idx, val = columns
    link_ptr, neighbor, pair = links
    row_ptr = rows[0]
    n = 0
    n_entries = 0
    for k in range(ptr[i], ptr[i + 1]):
        for e in range(np.uint64(link_ptr[idx[k]]), np.uint64(link_ptr[idx[k] + 1])):
            x = w[np.uint32(pair[e])]
            if x != 0.0:
                b = np.uint32(neighbor[e])
                if not is_reached[b]:
                    is_reached[b] = True
                    reached[n] = b
                    n += 1
                    n_entries += row_ptr[b + 1] - row_ptr[b]
                r[b] += x * val[k]
    return n, n_entries


@kernel()
def _list_features(b, rows, d, is_seen, seen, n):
    """List the features of row b that are not seen yet after the first n; return how many."""
    ptr, idx, _ = rows
    for q in range(np.uint64(ptr[b]), np.uint64(ptr[b + 1])):
        j = idx[q]
        if j < d and not is_seen[j]:
            is_seen[j] = True
            seen[n] = j
            n += 1
    return n


@kernel()
def add_rows(
    start, stop, n_parts, places, features, columns, rows, links, w, rooms, out
):
    """Add the rows of S of features[places] to those of `out`, one at a time, by parts."""
    row_ptr, row_idx, row_val = rows
    for part in range(start, stop):
        r = rooms[0][part]
        reached = rooms[2][part]
        is_reached = rooms[4][part]
        for f in range(part, places.size, n_parts):
            at = np.uint64(places[f])
            n, _ = _reach(features[at], columns, rows, links, w, r, is_reached, reached)
            for k in range(n):
                b = np.uint32(reached[k])
                x = r[b]
                r[b] = 0.0
                is_reached[b] = False
                for q in range(np.uint64(row_ptr[b]), np.uint64(row_ptr[b + 1])):
                    if row_idx[q] < out.shape[1]:
                        out[at, np.uint32(row_idx[q])] += row_val[q] * x


@kernel()
def scatter(
    start,
    stop,
    n_parts,
    features,
    other,
    after,
    columns,
    rows,
    links,
    w,
    diagonal,
    rooms,
    found,
):
    """Write value, partner and entry of features, one row of S at a time, by parts [start, stop).

    A part has every n_parts-th feature, and lines of its own in the rooms, left as
    zeros but for the last sum, that of columns that are no features. It visits only the
    rows of X that a feature reaches, so this is the cheaper way for rare features. A
    partner that shares no pair with the feature has S_ij = 0: `other` is the best such,
    or -1.
    """
    row_ptr, row_idx, row_val = rows
    d = diagonal.size
    for part in range(start, stop):
        r = rooms[0][part]
        s = rooms[1][part]
        reached = rooms[2][part]
        seen = rooms[3][part]
        is_reached = rooms[4][part]
        is_seen = rooms[5][part]
        for f in range(part, features.size, n_parts):
            i = features[f]
            n_seen = np.int64(0)
            n_reached, n_entries = _reach(
                i, columns, rows, links, w, r, is_reached, reached
            )
            # Few entries are noted one by one; after many, it is quicker to look at
            # every feature.
            is_short = 4 * n_entries < d
            for k in range(n_reached):
                b = np.uint32(reached[k])
                x = r[b]
                r[b] = 0.0
                is_reached[b] = False
                if is_short:
                    n_seen = _list_features(b, rows, d, is_seen, seen, n_seen)
                for q in range(np.uint64(row_ptr[b]), np.uint64(row_ptr[b + 1])):
                    j = row_idx[q]
                    s[np.uint32(j if j < d else d)] += row_val[q] * x
            best = -np.inf
            partner = -1
            entry = 0.0
            if other[f] >= 0:
                partner = other[f]
                best = diagonal[partner] + abs(s[partner])
                entry = s[partner]
            for k in range(n_seen if is_short else d):
                j = seen[k] if is_short else k
                value = diagonal[j] + abs(s[j])
                is_allowed = j > i or (j < i and not after)
                if is_allowed and (value > best or (value == best and j < partner)):
                    best = value
                    partner = j
                    entry = s[j]
                is_seen[j] = False
                s[j] = 0.0
            found[f, 0] = best
            found[f, 1] = partner
            found[f, 2] = entry
