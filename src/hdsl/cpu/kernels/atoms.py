"""Kernels over atoms: with Z = X U, U the vectors e_i ± e_j, the terms of a pair are z_a ∘ z_b.

Rows of Z are short. An atom adds λ z_a z_b to the similarity of the rows a and b, and a margin is
the difference of two similarities.
"""

import numpy as np

from .compiled import kernel

#: Most comparisons of one row whose second derivatives are summed together.
GROUP = 128


@kernel()
def place_of(idx, start, stop, row):
    """Return the first place in idx[start:stop], which rises, that is not below `row`."""
    while start < stop:
        middle = (start + stop) // 2
        if idx[middle] < row:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel()
def atom_rows(start, stop, i, j, sign, columns, at, atom, value):
    """Find the rows [start, stop) of Z from columns of X (CSC); feature -1 is a column of zeros.

    Where `atom` is empty their entries are counted in `at`; else they are written from at[row] on.
    """
    ptr, idx, val = columns
    for k in range(i.size):
        p = p_end = q = q_end = 0
        if i[k] >= 0:
            p_end = ptr[i[k] + 1]
            p = place_of(idx, ptr[i[k]], p_end, start)
        if j[k] >= 0:
            q_end = ptr[j[k] + 1]
            q = place_of(idx, ptr[j[k]], q_end, start)
        while True:
            first = idx[p] if p < p_end else stop
            second = idx[q] if q < q_end else stop
            row = min(first, second)
            if row >= stop:
                break
            x = 0.0
            if first == row:
                x += val[p]
                p += 1
            if second == row:
                x += sign[k] * val[q]
                q += 1
            if atom.size > 0:
                atom[at[row]], value[at[row]] = k, x
            at[row] += 1


@kernel()
def similarities(start, stop, pair_ptr, b, Z, factors, out):
    """Write Σ_k factors_k z_ak z_bk of the pairs {a, b} with a in [start, stop)."""
    ptr, atom, value = Z
    x = np.zeros(factors.size)
    for a in range(start, stop):
        for k in range(ptr[a], ptr[a + 1]):
            x[atom[k]] = factors[atom[k]] * value[k]
        for s in range(pair_ptr[a], pair_ptr[a + 1]):
            total = 0.0
            if ptr[a] < ptr[a + 1]:
                for k in range(ptr[b[s]], ptr[b[s] + 1]):
                    total += x[np.uint32(atom[k])] * value[k]
            out[s] = total
        for k in range(ptr[a], ptr[a + 1]):
            x[atom[k]] = 0.0


@kernel()
def scores(start, stop, bounds, pair_ptr, b, w, Z, out):
    """Write Σ_s w_s z_a ∘ z_b over the pairs {a, b} of each part [start, stop) of the rows."""
    ptr, atom, value = Z
    x = np.zeros(out.shape[1])
    for part in range(start, stop):
        total = out[part]
        for k in range(total.size):
            total[k] = 0.0
        for a in range(bounds[part], bounds[part + 1]):
            if ptr[a] == ptr[a + 1]:
                continue
            for k in range(ptr[a], ptr[a + 1]):
                x[atom[k]] = value[k]
            for s in range(pair_ptr[a], pair_ptr[a + 1]):
                pull = w[s]
                if pull != 0.0:
                    for k in range(ptr[b[s]], ptr[b[s] + 1]):
                        total[np.uint32(atom[k])] += pull * (x[np.uint32(atom[k])] * value[k])
            for k in range(ptr[a], ptr[a + 1]):
                x[atom[k]] = 0.0


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
