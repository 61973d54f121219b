"""Kernels of corrections: many atoms at once, by the pairs of rows that they have in common.

An atom adds λ u_a u_b, u = x_i ± x_j, to the similarity of the rows a and b of a pair: the term of
the pair. Few pairs have one, and a margin is the difference of two of them.
"""

import numpy as np

from .compiler import kernel


@kernel()
def atom_terms(i, j, sign, ptr, idx, val, link_ptr, neighbor, pair, u, out_pair, out_value):
    """Write u[a] * u[b] of the pairs {a, b} where it is not zero; return how many there are.

    u = X[:, i] + sign * X[:, j], X as CSC. `u` is a work vector of zeros and is left as zeros.
    """
    for k in range(ptr[i], ptr[i + 1]):
        u[idx[k]] += val[k]
    for k in range(ptr[j], ptr[j + 1]):
        u[idx[k]] += sign * val[k]
    n = 0
    k, q = ptr[i], ptr[j]
    while k < ptr[i + 1] or q < ptr[j + 1]:
        # The next row of the two columns merged.
        if q == ptr[j + 1] or (k < ptr[i + 1] and idx[k] <= idx[q]):
            a = idx[k]
            if q < ptr[j + 1] and idx[q] == a:
                q += 1
            k += 1
        else:
            a = idx[q]
            q += 1
        if u[a] == 0.0:
            continue
        for e in range(link_ptr[a], link_ptr[a + 1]):
            b = neighbor[e]
            # A row with itself is listed twice in a row, and counts once.
            if b < a or u[b] == 0.0 or (b == a and e > link_ptr[a] and pair[e - 1] == pair[e]):
                continue
            out_pair[n] = pair[e]
            out_value[n] = u[a] * u[b]
            n += 1
    for k in range(ptr[i], ptr[i + 1]):
        u[idx[k]] = 0.0
    for k in range(ptr[j], ptr[j + 1]):
        u[idx[k]] = 0.0
    return n


@kernel()
def add_terms(factor, pair, value, out):
    """Add factor times the terms of an atom to a number per pair."""
    for q in range(pair.size):
        out[pair[q]] += factor * value[q]


@kernel()
def differences(start, stop, by_pair, positive_pair, negative_pair, out):
    """Write how much the pair that is to win exceeds the other, for comparisons [start, stop)."""
    for t in range(start, stop):
        out[t] = by_pair[positive_pair[t]] - by_pair[negative_pair[t]]


@kernel()
def count_terms(pair, number, ptr):
    """Count the terms of an atom at the numbers of its pairs, one further on; -1 is left out."""
    for q in range(pair.size):
        s = number[pair[q]]
        if s >= 0:
            ptr[s + 1] += 1


@kernel()
def place_terms(k, pair, value, number, at, atom_of, value_of):
    """Write the terms of atom k where `at` says, by pairs, and advance it."""
    for q in range(pair.size):
        s = number[pair[q]]
        if s >= 0:
            atom_of[at[s]] = k
            value_of[at[s]] = value[q]
            at[s] += 1


@kernel()
def sum_per_pair(group_ptr, winner, loser, bend, out):
    """Add the curvature of each comparison to both of its pairs, but for those that are alone."""
    for g in range(winner.size):
        first, last = group_ptr[g], group_ptr[g + 1]
        if _only_one(bend, first, last) >= 0:
            continue
        for t in range(first, last):
            out[winner[g]] += bend[t]
            out[loser[t]] += bend[t]


@kernel()
def group_rows(start, stop, ptr, atom, value, group_ptr, winner, loser, bend, out):
    """Add to the rows [start, stop) of a matrix K what groups of comparisons add to it.

    With terms v_s, one number per atom, and curvatures b_t, second derivatives are
    Σ_t b_t (v_p - v_q)(v_p - v_q)ᵀ = K + Kᵀ over comparisons t of a winner p and a loser q, where
    K = Σ_s b_s v_s v_sᵀ / 2 - Σ_p v_p (Σ_t b_t v_q)ᵀ. Comparisons come in groups with the same
    winner, and the second sum is added here. A comparison that is alone in its group is added as it
    is, and has no part in the first sum: see `own_rows`. Each row of K is summed in the same order
    whatever the range.
    """
    n = out.shape[1]
    work, difference = np.zeros(n), np.empty(n)
    touched = np.empty(n, dtype=np.int64)
    seen = np.zeros(n, dtype=np.bool_)
    for g in range(winner.size):
        only = _only_one(bend, group_ptr[g], group_ptr[g + 1])
        if only >= 0:
            m = _subtract(winner[g], loser[only], ptr, atom, value, touched, difference)
            _add_square(start, stop, bend[only], touched[:m], difference, out)
            continue
        first, last = _within(atom, ptr[winner[g]], ptr[winner[g] + 1], start, stop)
        if first == last:
            continue
        m = 0
        for t in range(group_ptr[g], group_ptr[g + 1]):
            if bend[t] == 0.0:
                continue
            for q in range(ptr[loser[t]], ptr[loser[t] + 1]):
                k = atom[q]
                if not seen[k]:
                    seen[k] = True
                    touched[m] = k
                    m += 1
                work[k] += bend[t] * value[q]
        for q in range(first, last):
            row = out[atom[q]]
            for z in range(m):
                row[touched[z]] -= value[q] * work[touched[z]]
        for z in range(m):
            seen[touched[z]] = False
            work[touched[z]] = 0.0


@kernel()
def _only_one(bend, first, last):
    """Return the comparison of a group that has a curvature; -1 where none or several have."""
    only = -1
    for t in range(first, last):
        if bend[t] != 0.0:
            if only >= 0:
                return -1
            only = t
    return only


@kernel()
def _subtract(p, q, ptr, atom, value, out_atom, out_value):
    """Write the terms of pair p less those of pair q, by rising atoms; return how many."""
    k, k_end, z, z_end = ptr[p], ptr[p + 1], ptr[q], ptr[q + 1]
    n = 0
    while k < k_end or z < z_end:
        if z == z_end or (k < k_end and atom[k] < atom[z]):
            out_atom[n], out_value[n] = atom[k], value[k]
            k += 1
        elif k == k_end or atom[z] < atom[k]:
            out_atom[n], out_value[n] = atom[z], -value[z]
            z += 1
        else:
            out_atom[n], out_value[n] = atom[k], value[k] - value[z]
            k += 1
            z += 1
        n += 1
    return n


@kernel()
def own_rows(start, stop, ptr, atom, value, by_pair, out):
    """Add Σ_s b_s v_s v_sᵀ / 2 to the rows [start, stop) of K; b_s as `sum_per_pair` adds it up.

    It is added to entries below the diagonal in full, and to those above it not at all.
    """
    for s in range(by_pair.size):
        if by_pair[s] != 0.0:
            first, last = ptr[s], ptr[s + 1]
            _add_square(start, stop, by_pair[s], atom[first:last], value[first:last], out)


@kernel()
def _add_square(start, stop, factor, atom, value, out):
    """Add factor * v vᵀ / 2 to the rows [start, stop) of K; as in `own_rows`, to its lower half."""
    for q in range(atom.size):
        if start <= atom[q] < stop:
            row, own = out[atom[q]], factor * value[q]
            for z in range(q):
                row[atom[z]] += own * value[z]
            row[atom[q]] += 0.5 * own * value[q]


@kernel()
def _within(atom, first, last, start, stop):
    """Return the part of a rising run of atoms that is in [start, stop)."""
    while first < last and atom[first] < start:
        first += 1
    while first < last and atom[last - 1] >= stop:
        last -= 1
    return first, last
