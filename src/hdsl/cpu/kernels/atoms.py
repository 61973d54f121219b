"""Kernels over atoms, whose features are the active ones: X has few values in these.

An atom adds λ z_a z_b to the similarity of the rows a and b, with z = x_i ± x_j; a
margin is the difference of two similarities. `active` are the rows of X in the active
features alone, numbered from 0. `graph` has, for each active feature, the other ends of
its atoms, and 2k for the first end of atom k, 2k + 1 for its second one.
"""

import numpy as np

from .compiled import fetch_ahead, kernel

#: Most comparisons of one row whose second derivatives are summed together.
GROUP = 128


@kernel()
def active_rows(start, stop, rows, place, at, idx, val):
    """Find the rows [start, stop) of X in the columns that have a place, which is not -1.

    Where `idx` is empty the entries are counted in at[row + 1]; else they are written
    from at[row] on, with their places as columns.
    """
    ptr, feature, value = rows
    for a in range(start, stop):
        if idx.size == 0:
            total = 0
            for k in range(np.uint64(ptr[a]), np.uint64(ptr[a + 1])):
                total += place[np.uint32(feature[k])] >= 0
            at[a + 1] = total
        else:
            k = ptr[a]
            n = at[a]
            last = at[a + 1]
            while n < last:  # no test that fails for every other entry
                column = place[np.uint32(feature[k])]
                idx[n] = column
                val[n] = value[k]
                n = n + (column >= 0)
                k = k + 1


@kernel()
def product_rows(start, stop, wanted, rows, M, place, at, idx, val):
    """Find the rows [start, stop) of X M, as CSR, that are wanted; `place` has -1 per column of M.

    They are counted or written as those of `active_rows`.
    """
    (ptr, feature, value) = rows
    (M_ptr, M_idx, M_val) = M
    is_count = idx.size == 0
    n = np.int64(0) if is_count else at[start]
    for a in range(start, stop):
        first = n
        for k in range(ptr[a], ptr[a + 1] if wanted[a] else ptr[a]):
            i = np.uint32(feature[k])
            for q in range(M_ptr[i], M_ptr[i + 1]):
                j = M_idx[q]
                if place[j] < first:  # not in this row yet
                    place[j] = n
                    if not is_count:
                        idx[n] = j
                        val[n] = 0.0
                    n += 1
                if not is_count:
                    val[place[j]] += value[k] * M_val[q]
        if is_count:
            at[a + 1] = n - first


@kernel()
def similarities(start, stop, pair_ptr, b, active, M, out, u):
    """Write x_aᵀ M x_b for the pairs {a, b} of the rows [start, stop), M on the active features.

    `u` is room for a number per active feature, of zeros.
    """
    (ptr, feature, value) = active
    (M_ptr, M_idx, M_val) = M
    for a in range(start, stop):
        first = np.uint64(ptr[a])
        last = np.uint64(ptr[a + 1])
        if pair_ptr[a] == pair_ptr[a + 1]:
            continue
        for k in range(first, last):
            x = value[k]
            i = np.uint32(feature[k])
            for q in range(np.uint64(M_ptr[i]), np.uint64(M_ptr[i + 1])):
                u[np.uint32(M_idx[q])] += x * M_val[q]
        for s in range(pair_ptr[a], pair_ptr[a + 1]):
            fetch_ahead(s, b, *active)
            total = 0.0
            if last > first:
                for k in range(np.uint64(ptr[b[s]]), np.uint64(ptr[b[s] + 1])):
                    total += u[np.uint32(feature[k])] * value[k]
            out[s] = total
        for c in range(u.size if last > first else 0):
            u[c] = 0.0


@kernel()
def scores(start, stop, bounds, pair_ptr, b, w, active, graph, squares, mixed, g):
    """Add to C_ii of the active features, and to S_ij of the atoms, for each part [start, stop).

    C = Σ_s w_s x_a x_bᵀ is summed over the pairs {a, b} of the rows of a part, and S =
    C + Cᵀ. `g` is room for a number per active feature, of zeros.
    """
    (ptr, feature, value) = active
    (graph_ptr, other, end) = graph
    for part in range(start, stop):
        for a in range(bounds[part], bounds[part + 1]):
            first = np.uint64(ptr[a])
            last = np.uint64(ptr[a + 1])
            if first == last:
                continue
            for s in range(pair_ptr[a], pair_ptr[a + 1]):
                fetch_ahead(s, b, *active)
                x = w[s]
                if x != 0.0:
                    for k in range(np.uint64(ptr[b[s]]), np.uint64(ptr[b[s] + 1])):
                        g[np.uint32(feature[k])] += x * value[k]
            for k in range(first, last):
                i = np.uint32(feature[k])
                x = value[k]
                squares[part, i] += x * g[i]
                for q in range(np.uint64(graph_ptr[i]), np.uint64(graph_ptr[i + 1])):
                    mixed[part, np.uint32(end[q] >> 1)] += x * g[np.uint32(other[q])]
            for c in range(g.size):
                g[c] = 0.0


@kernel()
def atom_terms(start, stop, bounds, u, v, pair_ptr, b, pair, value, counts):
    """List the pairs {a, b} where u[a] v[b] + v[a] u[b] is not zero, by parts of the rows a.

    Those of a part are listed from the place of its first pair on, and counted.
    """
    for part in range(start, stop):
        first = n = pair_ptr[bounds[part]]
        for a in range(bounds[part], bounds[part + 1]):
            is_empty = u[a] == 0.0 and v[a] == 0.0
            for s in range(pair_ptr[a], pair_ptr[a] if is_empty else pair_ptr[a + 1]):
                x = u[a] * v[np.uint32(b[s])] + v[a] * u[np.uint32(b[s])]
                if x != 0.0:
                    pair[n] = s
                    value[n] = x
                    n += 1
        counts[part] = n - first


@kernel()
def sum_terms(start, stop, first, last, pair, value, w, out):
    """Write Σ w[pair] * value of each piece of the terms, in four sums that need not wait."""
    for k in range(start, stop):
        p = pair[first[k] : last[k]]
        v = value[first[k] : last[k]]
        one = 0.0
        two = 0.0
        three = 0.0
        four = 0.0
        n = np.uint64(p.size)
        for q in range(np.uint64(0), n - n % np.uint64(4), np.uint64(4)):
            one += w[np.uint32(p[q])] * v[q]
            two += w[np.uint32(p[q + np.uint64(1)])] * v[q + np.uint64(1)]
            three += w[np.uint32(p[q + np.uint64(2)])] * v[q + np.uint64(2)]
            four += w[np.uint32(p[q + np.uint64(3)])] * v[q + np.uint64(3)]
        for q in range(n - n % np.uint64(4), n):
            one += w[np.uint32(p[q])] * v[q]
        out[k] = (one + two) + (three + four)


@kernel()
def direction(start, stop, share, margins, offset, factors, U, a, b, c, d, out):
    """Write how the comparisons [start, stop) change: share of the model, and factors of atoms.

    Row k of U is that of atom k: X e_i ± X e_j. An empty `offset` is 0.
    """
    for t in range(np.uint64(start), np.uint64(stop)):
        change = 0.0
        if share != 0.0:
            change = share * (margins[t] - offset[t] if offset.size > 0 else margins[t])
        for k in range(factors.size):
            x = U[k, np.uint32(a[t])]
            y = U[k, np.uint32(c[t])]
            if x != 0.0 or y != 0.0:
                z = x * U[k, np.uint32(b[t])] - y * U[k, np.uint32(d[t])]
                change += factors[k] * z
        out[t] = change


@kernel()
def _fill_terms(n, row, pairs, ends, Z, x, place, used, P):
    """Write z_a ∘ z_b of n pairs, of the atoms that some of them use alone; return their number.

    Most pairs have the same `row`. `x` is zero and `place` is -1 everywhere, and both
    are left so; P is zero.
    """
    ptr, atom, value = Z
    # row -1, from the end to the start, is empty
    m = 0
    last = np.int64(-1)
    for s in range(n + 1):
        a = b = np.int64(-1)
        if s < n:
            a = ends[0][pairs[s]]
            b = ends[1][pairs[s]]
            a, b = (b, a) if b == row else (a, b)
        if a != last:
            for k in range(np.uint64(ptr[last]), np.uint64(ptr[last + 1])):
                x[np.uint32(atom[k])] = 0.0
            for k in range(np.uint64(ptr[a]), np.uint64(ptr[a + 1])):
                x[np.uint32(atom[k])] = value[k]
            last = a
        for k in range(np.uint64(ptr[b]), np.uint64(ptr[b + 1])):
            z = np.uint32(atom[k])
            y = x[z]
            if y != 0.0:
                at = place[z]
                if at < 0:
                    place[z] = m
                    used[m] = z
                    at = m
                    m += 1
                P[s, np.uint32(at)] = y * value[k]
    for k in range(m):
        place[used[k]] = -1
    return m


@kernel()
def _add_products(n, m, P, Q, used, B, out):
    """Add one half of the symmetric PᵀQ, of n rows and m columns, to the entries of atoms.

    P, Q and B are left as zeros.
    """
    for s in range(n):
        for k in range(m):
            y = P[s, k]
            if y != 0.0:
                for z in range(k + 1):
                    B[k, z] += y * Q[s, z]
        for k in range(m):
            P[s, k] = 0.0
            Q[s, k] = 0.0
    for k in range(m):
        B[k, k] *= 0.5
        row = used[k]
        for z in range(k + 1):
            out[row, used[z]] += B[k, z]
            B[k, z] = 0.0


@kernel()
def curvatures(first, stop, chosen, bend, compared, ends, Z, rooms, out):
    """Add a matrix K with K + Kᵀ = Σ_t bend_t v_t v_tᵀ over the comparisons chosen[first:stop].

    v_t = p_s - p_r for the pairs s and r that it compares, p_s = z_a ∘ z_b. Those in a
    row that start from one row of X, up to GROUP, are summed together: it is Σ_s p_s
    q_sᵀ with q_s = Σ ± bend_t v_t over the comparisons of pair s, and there are fewer
    pairs than comparisons.
    """
    (anchor, winner, loser) = compared
    (x, place, used, pairs, at, P, Q, B) = rooms
    while first < stop:
        row = anchor[chosen[first]]
        last = first
        n = np.int64(0)
        while last < stop and last < first + GROUP and anchor[chosen[last]] == row:
            for side in range(
                2 if bend[last] != 0.0 else 0
            ):  # list the pairs, each once
                s = loser[chosen[last]] if side else winner[chosen[last]]
                k = 0
                while k < n and pairs[k] != s:
                    k += 1
                at[last - first, side] = k
                if k == n:
                    pairs[n] = s
                    n += 1
            last += 1
        m = _fill_terms(n, row, pairs, ends, Z, x, place, used, P)
        for q in range(first, last):
            y = bend[q]
            if y != 0.0:
                more = np.uint64(at[q - first, 0])
                less = np.uint64(at[q - first, 1])
                for k in range(m):
                    pull = y * (P[more, k] - P[less, k])
                    Q[more, k] += pull
                    Q[less, k] -= pull
        _add_products(n, m, P, Q, used, B, out)
        first = last
