"""Kernels over atoms: with Z = X U, U the vectors e_i ± e_j, the terms of a pair are z_a ∘ z_b.

Rows of Z are short. An atom adds λ z_a z_b to the similarity of the rows a and b, and a margin is
the difference of two similarities.
"""

import numpy as np

from .compiled import kernel

#: Comparisons of one row from which on their second derivatives are summed together.
GROUP = 6


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
def _add_terms(factor, a, b, Z, x, v, is_used, used, m):
    """Add factor * z_a ∘ z_b to v; list the atoms that it uses after the first m, return how many.

    `x` is a work vector of zeros, and is left as zeros.
    """
    ptr, atom, value = Z
    for k in range(ptr[a], ptr[a + 1]):
        x[atom[k]] = factor * value[k]
    for k in range(ptr[b], ptr[b + 1]):
        z = atom[k]
        if x[z] != 0.0:
            if not is_used[z]:
                is_used[z] = True
                used[m] = z
                m += 1
            v[z] += x[z] * value[k]
    for k in range(ptr[a], ptr[a + 1]):
        x[atom[k]] = 0.0
    return m


@kernel()
def _add_one(bend, t, sides, Z, work, out):
    """Add bend * v vᵀ / 2 of one comparison to one half of `out`; `work` is left as zeros."""
    a, b, c, d = sides
    x, v, used, is_used = work
    m = _add_terms(1.0, a[t], b[t], Z, x, v, is_used, used, np.int64(0))
    m = _add_terms(-1.0, c[t], d[t], Z, x, v, is_used, used, m)
    for k in range(m):
        row, pull = out[used[k]], bend * v[used[k]]
        for z in range(k):
            row[used[z]] += pull * v[used[z]]
        row[used[k]] += 0.5 * pull * v[used[k]]
    for k in range(m):
        is_used[used[k]], v[used[k]] = False, 0.0


@kernel()
def _list_rows(chosen, bend, b, d, slot):
    """Return the rows that comparisons name, each once, and write their numbers to `slot`."""
    rows, n = np.empty(2 * chosen.size, np.int64), 0
    for q in range(chosen.size):
        if bend[q] != 0.0:
            for row in (b[chosen[q]], d[chosen[q]]):
                if slot[row] < 0:
                    slot[row], rows[n] = n, row
                    n += 1
    return rows[:n]


@kernel()
def _terms_with(own, rows, Z, place):
    """Return z_own ∘ z_b of each row b, of the atoms of `own` alone, which `place` numbers."""
    ptr, atom, value = Z
    first = ptr[own]
    P = np.zeros((rows.size, ptr[own + 1] - first))
    for s in range(rows.size):
        for k in range(ptr[rows[s]], ptr[rows[s] + 1]):
            if place[atom[k]] >= 0:
                P[s, place[atom[k]]] = value[first + place[atom[k]]] * value[k]
    return P


@kernel()
def _lower_products(P, Q):
    """Return the lower half of the symmetric PᵀQ."""
    m = P.shape[1]
    B = np.zeros((m, m))
    for s in range(len(P)):
        for k in range(m):
            x = P[s, k]
            if x != 0.0:
                for z in range(k + 1):
                    B[k, z] += x * Q[s, z]
    return B


@kernel()
def _add_group(chosen, bend, sides, Z, place, slot, out):
    """Add the same of comparisons that start from one row.

    With p_b = z_a ∘ z_b for the rows b that it is compared with, and q_b = Σ ± bend_t v_t over the
    comparisons that name b, the sum is Σ_b p_b q_bᵀ: rows are fewer than comparisons. `place` and
    `slot` are -1 everywhere, and are left so.
    """
    a, b, _, d = sides
    own = a[chosen[0]]
    atoms = Z[1][Z[0][own] : Z[0][own + 1]]
    for k in range(atoms.size):
        place[atoms[k]] = k
    rows = _list_rows(chosen, bend, b, d, slot)
    P = _terms_with(own, rows, Z, place)
    Q = np.zeros_like(P)
    for q in range(chosen.size):
        if bend[q] != 0.0:
            more, less = slot[b[chosen[q]]], slot[d[chosen[q]]]
            for k in range(atoms.size):
                pull = bend[q] * (P[more, k] - P[less, k])
                Q[more, k] += pull
                Q[less, k] -= pull
    B = _lower_products(P, Q)
    for k in range(atoms.size):
        row = out[atoms[k]]
        for z in range(k):
            row[atoms[z]] += B[k, z]
        row[atoms[k]] += 0.5 * B[k, k]
    for k in range(atoms.size):
        place[atoms[k]] = -1
    for s in range(rows.size):
        slot[rows[s]] = -1


@kernel()
def curvatures(start, stop, bounds, chosen, bend, sides, Z, out):
    """Write matrices K with K + Kᵀ = Σ_t bend_t v_t v_tᵀ, one per part [start, stop).

    The sum is over the comparisons chosen[bounds[part] : bounds[part + 1]], and
    v_t = z_a ∘ z_b - z_c ∘ z_d. Several in a row that start from one row are summed together.
    """
    a, c, n = sides[0], sides[2], out.shape[1]
    work = np.zeros(n), np.zeros(n), np.empty(n, np.int64), np.zeros(n, np.bool_)
    place, slot = np.full(n, -1), np.full(Z[0].size, -1)
    for part in range(start, stop):
        q = bounds[part]
        while q < bounds[part + 1]:
            t, end = chosen[q], q + 1
            if a[t] == c[t]:
                while end < bounds[part + 1] and a[chosen[end]] == c[chosen[end]] == a[t]:
                    end += 1
            if end - q >= GROUP:
                _add_group(chosen[q:end], bend[q:end], sides, Z, place, slot, out[part])
            else:
                for k in range(q, end):
                    if bend[k] != 0.0:
                        _add_one(bend[k], chosen[k], sides, Z, work, out[part])
            q = end
