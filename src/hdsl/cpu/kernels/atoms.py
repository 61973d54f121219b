"""Kernels over atoms, whose features are the active ones: X has few values in these.

An atom adds λ z_a z_b to the similarity of the rows a and b, with z = x_i ± x_j; a margin is the
difference of two similarities. `active` are the rows of X in the active features alone, numbered
from 0. `graph` has, for each active feature, the other ends of its atoms, and 2k for the first end
of atom k, 2k + 1 for its second one.
"""

import numpy as np

from .compiled import kernel

#: Most comparisons of one row whose second derivatives are summed together.
GROUP = 128


@kernel()
def active_rows(start, stop, rows, place, at, feature, value):
    """Find the entries of the rows [start, stop) in the active features; `place` numbers these.

    Where `feature` is empty they are counted in `at`; else they are written from at[row] on.
    """
    ptr, idx, val = rows
    for a in range(start, stop):
        if feature.size == 0:
            n = 0
            for q in range(ptr[a], ptr[a + 1]):
                n += place[np.uint32(idx[q])] >= 0
            at[a] = n
            continue
        n = at[a]
        for q in range(ptr[a], ptr[a + 1]):
            k = place[np.uint32(idx[q])]
            if k >= 0:
                feature[n], value[n] = k, val[q]
                n += 1


@kernel()
def similarities(start, stop, pair_ptr, b, active, M, out):
    """Write x_aᵀ M x_b for the pairs {a, b} of the rows [start, stop), M on the active features."""
    (ptr, feature, value), (M_ptr, M_idx, M_val) = active, M
    u = np.zeros(M_ptr.size - 1)
    for a in range(start, stop):
        if ptr[a] == ptr[a + 1] or pair_ptr[a] == pair_ptr[a + 1]:
            out[pair_ptr[a] : pair_ptr[a + 1]] = 0.0
            continue
        for k in range(ptr[a], ptr[a + 1]):
            for q in range(M_ptr[feature[k]], M_ptr[feature[k] + 1]):
                u[M_idx[q]] += value[k] * M_val[q]
        for s in range(pair_ptr[a], pair_ptr[a + 1]):
            total = 0.0
            for k in range(ptr[b[s]], ptr[b[s] + 1]):
                total += u[np.uint32(feature[k])] * value[k]
            out[s] = total
        u[:] = 0.0


@kernel()
def scores(start, stop, bounds, pair_ptr, b, w, active, graph, own, mixed):
    """Write C_ii of the active features, and S_ij of the atoms, for each part [start, stop).

    C = Σ_s w_s x_a x_bᵀ is summed over the pairs {a, b} of the rows of a part, and S = C + Cᵀ.
    """
    (ptr, feature, value), (graph_ptr, other, end) = active, graph
    g = np.zeros(own.shape[1])
    for part in range(start, stop):
        own[part], mixed[part] = 0.0, 0.0
        for a in range(bounds[part], bounds[part + 1]):
            if ptr[a] == ptr[a + 1]:
                continue
            for s in range(pair_ptr[a], pair_ptr[a + 1]):
                if w[s] != 0.0:
                    for k in range(ptr[b[s]], ptr[b[s] + 1]):
                        g[np.uint32(feature[k])] += w[s] * value[k]
            for k in range(ptr[a], ptr[a + 1]):
                i, x = feature[k], value[k]
                own[part, i] += x * g[i]
                for q in range(graph_ptr[i], graph_ptr[i + 1]):
                    mixed[part, end[q] // 2] += x * g[other[q]]
            g[:] = 0.0


@kernel()
def atom_rows(start, stop, wanted, active, graph, sign, at, atom, value):
    """Find z of the atoms, for those of the rows [start, stop) that are wanted.

    Where `atom` is empty they are counted in `at`; else they are written from at[row] on.
    """
    (ptr, feature, val), (graph_ptr, other, end) = active, graph
    u = np.zeros(graph_ptr.size)
    for a in range(start, stop):
        n = np.int64(0) if atom.size == 0 else at[a]
        if wanted[a]:
            for k in range(ptr[a], ptr[a + 1]):
                u[feature[k]] = val[k]
            for k in range(ptr[a], ptr[a + 1]):
                for q in range(graph_ptr[feature[k]], graph_ptr[feature[k] + 1]):
                    of, y = end[q] // 2, u[other[q]]
                    if y == 0.0 or feature[k] < other[q]:  # of two ends in a row one counts
                        if atom.size > 0:
                            is_second = end[q] % 2
                            z = sign[of] * val[k] + y if is_second else val[k] + sign[of] * y
                            atom[n], value[n] = of, z
                        n += 1
            for k in range(ptr[a], ptr[a + 1]):
                u[feature[k]] = 0.0
        if atom.size == 0:
            at[a] = n


@kernel()
def atom_terms(start, stop, bounds, rows, at, u, pair_ptr, b, pair, value, counts):
    """List the pairs {a, b} where u[a] u[b] is not zero, with a in parts [start, stop) of `rows`.

    Those of rows[k] are found from at[k] on at the latest; a part leaves no gaps, and is counted.
    """
    for part in range(start, stop):
        first = n = at[bounds[part]]
        for k in range(bounds[part], bounds[part + 1]):
            a = rows[k]
            for s in range(pair_ptr[a], pair_ptr[a + 1]):
                x = u[np.uint32(b[s])]
                if x != 0.0:
                    pair[n], value[n] = s, u[a] * x
                    n += 1
        counts[part] = n - first


@kernel()
def sum_terms(pair, value, w):
    """Return Σ w[pair] * value."""
    even, odd, n = 0.0, 0.0, pair.size
    for q in range(0, n - 1, 2):
        even += w[np.uint32(pair[q])] * value[q]
        odd += w[np.uint32(pair[q + 1])] * value[q + 1]
    if n % 2:
        even += w[np.uint32(pair[n - 1])] * value[n - 1]
    return even + odd


@kernel()
def direction(start, stop, share, margins, offset, factors, U, a, b, c, d, out):
    """Write how the comparisons [start, stop) change: share of the model, and factors of atoms.

    Row k of U is that of atom k: X e_i ± X e_j. An empty `offset` is 0.
    """
    for t in range(start, stop):
        model = margins[t] - offset[t] if offset.size > 0 else margins[t]
        out[t] = share * model if share != 0.0 else 0.0
    for k in range(factors.size):
        u, factor = U[k], factors[k]
        for t in range(start, stop):
            x, y = u[np.uint32(a[t])], u[np.uint32(c[t])]
            if x != 0.0 or y != 0.0:
                out[t] += factor * (x * u[np.uint32(b[t])] - y * u[np.uint32(d[t])])


@kernel()
def _list_pairs(first, last, chosen, bend, compared, pairs, at):
    """List the pairs of comparisons [first, last) that bend, each once, and where they stand."""
    n = 0
    for q in range(first, last):
        for side in range(2):
            s, k = compared[1 + side][chosen[q]], 0
            while k < n and pairs[k] != s:
                k += 1
            at[q - first, side] = k
            if k == n and bend[q] != 0.0:
                pairs[n] = s
                n += 1
    return n


@kernel()
def _fill_terms(n, pairs, ends, Z, x, place, used, P):
    """Write z_a ∘ z_b of n pairs, of the atoms that some of them use alone; return their number.

    `x` is zero and `place` is -1 everywhere, and both are left so; P is zero.
    """
    ptr, atom, value = Z
    m = 0
    for s in range(n):
        a, b = ends[0][pairs[s]], ends[1][pairs[s]]
        for k in range(ptr[a], ptr[a + 1]):
            x[atom[k]] = value[k]
        for k in range(ptr[b], ptr[b + 1]):
            z = atom[k]
            if x[z] != 0.0:
                if place[z] < 0:
                    place[z], used[m] = m, z
                    m += 1
                P[s, place[z]] = x[z] * value[k]
        for k in range(ptr[a], ptr[a + 1]):
            x[atom[k]] = 0.0
    for k in range(m):
        place[used[k]] = -1
    return m


@kernel()
def _add_products(n, m, P, Q, used, B, out):
    """Add one half of the symmetric PᵀQ, of n rows and m columns, to the entries of atoms.

    P and Q are left as zeros.
    """
    for k in range(m):
        B[k, : k + 1] = 0.0
    for s in range(n):
        for k in range(m):
            y = P[s, k]
            if y != 0.0:
                for z in range(k + 1):
                    B[k, z] += y * Q[s, z]
        P[s, :m], Q[s, :m] = 0.0, 0.0
    for k in range(m):
        row = out[used[k]]
        for z in range(k):
            row[used[z]] += B[k, z]
        row[used[k]] += 0.5 * B[k, k]


@kernel()
def curvatures(start, stop, bounds, chosen, bend, compared, ends, Z, rooms, out):
    """Write matrices K with K + Kᵀ = Σ_t bend_t v_t v_tᵀ, one per part [start, stop).

    The sum is over the comparisons chosen[bounds[part] : bounds[part + 1]], and v_t = p_s - p_r for
    the pairs s and r that it compares, p_s = z_a ∘ z_b. Those in a row that start from one row of
    X, up to GROUP, are summed together: it is Σ_s p_s q_sᵀ with q_s = Σ ± bend_t v_t over the
    comparisons of pair s, and there are fewer pairs than comparisons.
    """
    anchor = compared[0]
    for part in range(start, stop):
        x, place, used = rooms[0][part], rooms[1][part], rooms[2][part]
        pairs, at, P, Q = rooms[3][part], rooms[4][part], rooms[5][part], rooms[6][part]
        last = bounds[part]
        while last < bounds[part + 1]:
            first, last = last, last + 1
            end = min(first + GROUP, bounds[part + 1])
            while last < end and anchor[chosen[last]] == anchor[chosen[first]]:
                last += 1
            n = _list_pairs(first, last, chosen, bend, compared, pairs, at)
            m = _fill_terms(n, pairs, ends, Z, x, place, used, P)
            for q in range(first, last):
                if bend[q] != 0.0:
                    more, less = at[q - first]
                    for k in range(m):
                        pull = bend[q] * (P[more, k] - P[less, k])
                        Q[more, k] += pull
                        Q[less, k] -= pull
            _add_products(n, m, P, Q, used, rooms[7][part], out[part])
