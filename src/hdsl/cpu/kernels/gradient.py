"""Kernels from pairs of rows to features: the parts of the gradient."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .comparisons import pull_pairs
from .compiler import REORDERED, WIDTH, kernel
from .pairs import unfold
from .team import JIT_IS_OFF, finish, gather, part, take, wait

#: Features whose parts of the diagonal are added up in one task.
FEATURE_BLOCK = 2048


@kernel()
def _diagonal_part(first, last, pair, ptr, feature, product, w, pulled, out):
    """Write the diagonal of C from the runs [first, last) of products; `pulled` is a work list."""
    out[:] = 0.0
    for start in range(first, last, pulled.size):
        n = 0
        for r in range(start, min(start + pulled.size, last)):
            pulled[n] = r
            n += w[pair[r]] != 0.0
        for p in range(n):
            r = pulled[p]
            x = w[pair[r]]
            for k in range(ptr[r], ptr[r + 1]):
                out[np.uint32(feature[k])] += x * product[k]


@kernel()
def _diagonal(board, phase, bounds, pair, ptr, feature, product, w, parts, out):
    """Write the diagonal of C from stored products, on a team, in two phases.

    Run r holds the products of pair[r], from ptr[r] on. Runs come sorted by length, so that the
    ends of the loops are predicted, and pairs that nothing pulls at are skipped. The runs between
    bounds[p:p + 2] are summed in parts[p], and then the parts in their order.
    """
    n_parts = bounds.size - 1
    pulled = np.empty(1024, np.int64)
    part = take(board, phase)
    while part < n_parts:
        own = out if n_parts == 1 else parts[part]
        _diagonal_part(bounds[part], bounds[part + 1], pair, ptr, feature, product, w, pulled, own)
        part = finish(board, phase)
    wait(board, phase, n_parts)
    if n_parts == 1:
        return
    n_blocks = (out.size + FEATURE_BLOCK - 1) // FEATURE_BLOCK
    block = take(board, phase + 1)
    while block < n_blocks:
        first, last = block * FEATURE_BLOCK, min((block + 1) * FEATURE_BLOCK, out.size)
        out[first:last] = parts[0, first:last]
        for part in range(1, n_parts):
            for j in range(first, last):
                out[j] += parts[part, j]
        block = finish(board, phase + 1)
    wait(board, phase + 1, n_blocks)


@kernel()
def pairs_and_diagonal(
    who, lobby, board, code, margins, omega, omega_step, term_ptr, term, bounds, pair, ptr, feature,
    product, parts, pulls, w, out,
):  # fmt: skip
    """Write the pulls of the comparisons, their sums per pair of rows, and the diagonal of C."""
    gather(who, lobby)
    pull_pairs(board, 0, code, margins, omega, omega_step, term_ptr, term, pulls, w)
    _diagonal(board, 2, bounds, pair, ptr, feature, product, w, parts, out)
    part(who, lobby)


@kernel()
def diagonal(who, lobby, board, bounds, pair, ptr, feature, product, w, parts, out):
    """Write the diagonal of C alone."""
    gather(who, lobby)
    _diagonal(board, 0, bounds, pair, ptr, feature, product, w, parts, out)
    part(who, lobby)


@kernel()
def diagonal_directly(row_a, row_b, ptr, idx, val, w, out):
    """Add the diagonal of C to `out` without stored products (X as CSR)."""
    x = np.zeros(out.size)
    for s in range(row_a.size):
        unfold(s, 0, row_a, ptr, idx, val, x)
        for k in range(ptr[row_b[s]], ptr[row_b[s] + 1]):
            out[idx[k]] += w[s] * (x[idx[k]] * val[k])


def zeros_in_lines(n: int) -> np.ndarray:
    """Return zeros of shape (n, WIDTH) whose rows are cache lines: none takes two loads."""
    room = np.zeros((n + 1) * WIDTH)
    first = -(room.ctypes.data // 8) % WIDTH
    return room[first : first + n * WIDTH].reshape((n, WIDTH))


#: The same inside kernels. Python calls the plain one: a compiled function that returns an array
#: and is also part of other kernels may be loaded from the cache without what makes its result.
aligned_zeros = kernel()(zeros_in_lines)


@kernel()
def spread(features, ptr, idx, val, link_ptr, neighbor, pair, w, R):
    """Write column c of R (n × WIDTH) as (W + Wᵀ) X[:, features[c]] (X as CSC), zeros after."""
    R[:] = 0.0
    for c in range(features.size):
        i = features[c]
        for k in range(ptr[i], ptr[i + 1]):
            a = idx[k]
            for e in range(link_ptr[a], link_ptr[a + 1]):
                R[np.uint32(neighbor[e]), c] += w[np.uint32(pair[e])] * val[k]


def _gather_column_plainly(idx, val, R, start, stop, shift, best, out):
    """Write the WIDTH sums of val[k] * R[idx[k], :] over k in [start, stop).

    Returns whether shift + |sum| is above `best` for any of them.
    """
    odd = np.zeros(WIDTH)
    out[:] = 0.0
    for k in range(start, stop):
        (odd if (k - start) % 2 else out)[:] += val[k] * R[idx[k]]
    out += odd
    return (shift + np.abs(out) > best).any()


@intrinsic
def _gather_column_in_registers(typing_context, idx, val, R, start, stop, shift, best, out):
    """Do the same with one vector register for the WIDTH sums.

    Numba does not make vectors of neighbouring scalars, so this says it in LLVM's words: eight rows
    of S for the price of one. Nothing is reordered or fused: the bits are those of the plain form.
    """

    def generate(context, builder, signature, args):
        int64, lane = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(ir.DoubleType(), WIDTH)
        undefined = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH)

        def pointer(k):
            return context.make_array(signature.args[k])(context, builder, args[k]).data

        def vector_at(pointer):
            return builder.bitcast(pointer, vector.as_pointer())

        def filled(value):
            first = builder.insert_element(undefined, value, ir.Constant(lane, 0))
            return builder.shuffle_vector(first, undefined, everywhere)

        idx_ptr, val_ptr, R_ptr, best_ptr, out_ptr = (pointer(k) for k in (0, 1, 2, 6, 7))

        def add_term(sums, k):
            row = builder.sext(builder.load(builder.gep(idx_ptr, [k])), int64)
            value = builder.load(builder.gep(val_ptr, [k]))
            place = builder.gep(R_ptr, [builder.mul(row, ir.Constant(int64, WIDTH))])
            term = builder.fmul(filled(value), builder.load(vector_at(place), align=8))
            builder.store(builder.fadd(builder.load(sums), term), sums)

        # Two running sums, of even and of odd places: a sum must not wait for its last addition.
        even, odd = (cgutils.alloca_once(builder, vector) for _ in range(2))
        for sums in (even, odd):
            builder.store(ir.Constant(vector, [0.0] * WIDTH), sums)
        start, stop = args[3], args[4]
        one, two = ir.Constant(int64, 1), ir.Constant(int64, 2)
        last = builder.sub(stop, one)
        with cgutils.for_range_slice(builder, start, last, two, int64) as (k, _):
            add_term(even, k)
            add_term(odd, builder.add(k, one))
        is_odd = builder.trunc(builder.sub(stop, start), ir.IntType(1))
        with builder.if_then(is_odd):
            add_term(even, last)
        total = builder.fadd(builder.load(even), builder.load(odd))
        builder.store(total, vector_at(out_ptr), align=8)
        negative = builder.fcmp_ordered("<", total, ir.Constant(vector, [0.0] * WIDTH))
        absolute = builder.select(negative, builder.fneg(total), total)
        reached = builder.fadd(filled(args[5]), absolute)
        above = builder.fcmp_ordered(">", reached, builder.load(vector_at(best_ptr), align=8))
        lanes = builder.bitcast(above, ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", lanes, ir.Constant(ir.IntType(WIDTH), 0))

    signature = types.boolean(idx, val, R, types.int64, types.int64, types.float64, best, out)
    return signature, generate


gather_column: Any = _gather_column_plainly if JIT_IS_OFF else _gather_column_in_registers


@kernel()
def gather_rows(start, stop, ptr, idx, val, R, out):
    """Write S[j, features] = X[:, j]ᵀ R for the features j in [start, stop) (X as CSC)."""
    for j in range(start, stop):
        gather_column(idx, val, R, ptr[j], ptr[j + 1], 0.0, R[0], out[j])


@kernel()
def gather_columns(start, stop, columns, ptr, idx, val, R, out):
    """Write the same for the features in [start, stop) of a list."""
    for k in range(start, stop):
        j = columns[k]
        gather_column(idx, val, R, ptr[j], ptr[j + 1], 0.0, R[0], out[k])


@kernel()
def gather_one(start, stop, columns, ptr, idx, val, r, out):
    """Write the sums of val[k] * r[idx[k]] over the features in [start, stop) of a list."""
    for c in range(start, stop):
        j = columns[c]
        even, odd = 0.0, 0.0
        for k in range(ptr[j], ptr[j + 1] - 1, 2):
            even += val[k] * r[idx[k]]
            odd += val[k + 1] * r[idx[k + 1]]
        if (ptr[j + 1] - ptr[j]) % 2:
            even += val[ptr[j + 1] - 1] * r[idx[ptr[j + 1] - 1]]
        out[c, 0] = even + odd


@kernel()
def list_reaching(first, diag, size, peak, floor, out):
    """List the j from `first` on with diag[j] + size[j] * peak not below any floor; return n."""
    n = 0
    for j in range(first, diag.size):
        for c in range(peak.size):
            if not diag[j] + size[j] * peak[c] < floor[c]:
                out[n] = j
                n += 1
                break
    return n


def _may_reach_plainly(diag, size, peak, floor):
    """Return whether diag + size * peak is not below the floor in any of the WIDTH columns."""
    return not (diag + size * peak < floor).all()


@intrinsic
def _may_reach_in_registers(typing_context, diag, size, peak, floor):
    """Do the same with vector registers."""

    def generate(context, builder, signature, args):
        vector, lane = ir.VectorType(ir.DoubleType(), WIDTH), ir.IntType(32)
        undefined = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH)

        def vector_of(k):
            data = context.make_array(signature.args[k])(context, builder, args[k]).data
            return builder.load(builder.bitcast(data, vector.as_pointer()), align=8)

        def filled(value):
            first = builder.insert_element(undefined, value, ir.Constant(lane, 0))
            return builder.shuffle_vector(first, undefined, everywhere)

        reach = builder.fadd(filled(args[0]), builder.fmul(filled(args[1]), vector_of(2)))
        below = builder.fcmp_ordered("<", reach, vector_of(3))
        lanes = builder.bitcast(below, ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 2**WIDTH - 1))

    return types.boolean(types.float64, types.float64, peak, floor), generate


_may_reach: Any = _may_reach_plainly if JIT_IS_OFF else _may_reach_in_registers


@kernel()
def note_partner(j, diag, s, features, after, best, partner, entry):
    """Note j as the partner of each of WIDTH features that it is the best of so far."""
    for c in range(WIDTH):
        value = diag + abs(s[c])
        i = features[c]
        if value > best[c] and (j > i if after else j != i):
            best[c] = value
            partner[c] = j
            entry[c] = s[c]


@kernel()
def partners_in(
    start, stop, features, after, ptr, idx, val, size, peak, R, diag, floor, best, partner, entry
):
    """Find the best partner j in [start, stop) of each of WIDTH features in one pass over X (CSC).

    Best is the largest C_jj + |S_ij|, then the smallest j; `after` asks for j > i, else j ≠ i.
    `best`, `partner` and `entry` (S_ij) hold what was found so far and are only improved.
    Padding has -1 for a feature and infinity for a best.

    |S_ij| is at most the sum of |X[:, j]|, which `size` holds, times the largest |R| of the column,
    its `peak`. A j that cannot come up to the `floor`, which others have reached, is left out.
    """
    s = np.empty(WIDTH)
    for j in range(start, stop):
        if _may_reach(diag[j], size[j], peak, floor) and gather_column(
            idx, val, R, ptr[j], ptr[j + 1], diag[j], best, s
        ):
            note_partner(j, diag[j], s, features, after, best, partner, entry)


@kernel()
def gather_blocks(
    start, stop, features, after, ptr, idx, val, size, link_ptr, neighbor, pair, w, diag,
    best, partner, entry,
):  # fmt: skip
    """Find the best partners of many features, WIDTH of them in a pass over X, block by block.

    -1 is padding, at the end.
    """
    R, peak = aligned_zeros(link_ptr.size - 1), np.empty(WIDTH)
    for block in range(start, stop):
        own = features[block * WIDTH : (block + 1) * WIDTH]
        n_own = 0
        while n_own < WIDTH and own[n_own] >= 0:
            n_own += 1
        spread(own[:n_own], ptr, idx, val, link_ptr, neighbor, pair, w, R)
        for c in range(WIDTH):
            peak[c] = np.abs(R[:, c]).max()
        partners_in(
            own[:n_own].min() + 1 if after else 0, diag.size, own, after, ptr, idx, val, size, peak,
            R, diag, best[block * WIDTH : (block + 1) * WIDTH],
            best[block * WIDTH : (block + 1) * WIDTH],
            partner[block * WIDTH : (block + 1) * WIDTH],
            entry[block * WIDTH : (block + 1) * WIDTH],
        )  # fmt: skip


@kernel()
def _reach(i, ptr, idx, val, link_ptr, neighbor, pair, w, r, reached, rows):
    """Add (W + Wᵀ) X[:, i] to `r`; list the rows that it reaches and return how many."""
    n_rows = 0
    for k in range(ptr[i], ptr[i + 1]):
        a = idx[k]
        for e in range(link_ptr[a], link_ptr[a + 1]):
            b = neighbor[e]
            if not reached[b]:
                reached[b] = True
                rows[n_rows] = b
                n_rows += 1
            r[b] += w[pair[e]] * val[k]
    return n_rows


@kernel()
def scatter_partner(
    i, after, other, ptr, idx, val, row_ptr, row_idx, row_val, link_ptr, neighbor, pair, w, diag,
    r, reached, rows, s, seen, touched,
):  # fmt: skip
    """Return C_jj + |S_ij|, j and S_ij of the best partner j of a feature i, from its row of S.

    Visits only the rows that the feature reaches, so it is the cheaper way for rare features.
    A partner that shares no pair with i has S_ij = 0: `other` is the best such, or -1. The last six
    arguments are work vectors of zeros, and are left as zeros where it matters.
    """
    n_rows = _reach(i, ptr, idx, val, link_ptr, neighbor, pair, w, r, reached, rows)
    n_touched = 0
    for b in rows[:n_rows]:
        x = r[b]
        r[b] = 0.0
        reached[b] = False
        if x == 0.0:
            continue
        for k in range(row_ptr[b], row_ptr[b + 1]):
            column = np.uint32(row_idx[k])
            if not seen[column]:
                seen[column] = True
                touched[n_touched] = column
                n_touched += 1
            s[column] += row_val[k] * x
    best, partner, entry = -np.inf, -1, 0.0
    if other >= 0:
        best, partner, entry = diag[other] + abs(s[other]), other, s[other]
    for t in range(n_touched):
        j = int(touched[t])
        if j > i if after else j != i:
            value = diag[j] + abs(s[j])
            if value > best or (value == best and j < partner):
                best, partner, entry = value, j, s[j]
        seen[j] = False
        s[j] = 0.0
    return best, partner, entry


@kernel()
def scatter_partners(
    start, stop, features, after, ptr, idx, val, row_ptr, row_idx, row_val, link_ptr, neighbor,
    pair, w, diag, last, first, second, best, partner, entry,
):  # fmt: skip
    """Find the best partner of each feature in [start, stop) of the list, one row of S at a time.

    `last[i]` is the j after i of largest diagonal; `first` and `second` are the largest of all.
    """
    n = row_ptr.size - 1
    r, reached, rows = np.zeros(n), np.zeros(n, np.bool_), np.empty(n, np.int32)
    s, seen = np.zeros(diag.size), np.zeros(diag.size, np.bool_)
    touched = np.empty(diag.size, np.int32)
    for f in range(start, stop):
        i = features[f]
        other = last[i] if after else (first if first != i else second)
        best[f], partner[f], entry[f] = scatter_partner(
            i, after, other, ptr, idx, val, row_ptr, row_idx, row_val, link_ptr, neighbor, pair, w,
            diag, r, reached, rows, s, seen, touched,
        )  # fmt: skip


@kernel()
def pair_drift(w, other, row_a, row_b, size, out):
    """Add |w - other| * size[b] to out[a], and the other way round, for each pair {a, b}."""
    for s in range(w.size):
        change = abs(w[s] - other[s])
        out[row_a[s]] += change * size[row_b[s]]
        out[row_b[s]] += change * size[row_a[s]]


@kernel(fastmath=REORDERED)
def absolute_sums(start, stop, ptr, idx, val, x, out):
    """Write the sum of |X[:, j]| * x for the features j in [start, stop) (X as CSC)."""
    for j in range(start, stop):
        total = 0.0
        for k in range(ptr[j], ptr[j + 1]):
            total += abs(val[k]) * x[idx[k]]
        out[j] = total


@kernel()
def largest_after(diag, out):
    """Write, for each i, which j > i has the largest diagonal (the first of them); -1 for the last.

    Returns the place of the largest of all and of the second largest of all.
    """
    d = diag.size
    out[d - 1] = -1
    j = d - 1
    for i in range(d - 2, -1, -1):
        if diag[i + 1] >= diag[j]:
            j = i + 1
        out[i] = j
    first = 0
    for i in range(d):
        if diag[i] > diag[first]:
            first = i
    second = 1 if first == 0 else 0
    for i in range(d):
        if i != first and diag[i] > diag[second]:
            second = i
    return first, second


@kernel()
def largest(values, out):
    """Write the places of the largest values, largest first, the first of equals first."""
    if out.size == 0:
        return
    n = 0
    for j in range(values.size):
        if n == out.size and not values[j] > values[out[n - 1]]:
            continue
        at = n if n < out.size else n - 1
        while at > 0 and values[j] > values[out[at - 1]]:
            if at < out.size:
                out[at] = out[at - 1]
            at -= 1
        out[at] = j
        n = min(n + 1, out.size)


@kernel()
def cross_terms(i, j, ptr, idx, val, link_ptr, neighbor, pair, v, out_pair, out_value):
    """List the pairs of rows with i on one side and j on the other, and their products.

    S_ij is the sum of w[out_pair] * out_value. `v` is a work vector of zeros, one number a row,
    and is left as zeros. Returns how many were found; the lists must hold the links of all rows
    that have feature i.
    """
    for k in range(ptr[j], ptr[j + 1]):
        v[idx[k]] = val[k]
    n = 0
    for k in range(ptr[i], ptr[i + 1]):
        a = idx[k]
        for e in range(link_ptr[a], link_ptr[a + 1]):
            x = v[neighbor[e]]
            if x != 0.0:
                out_pair[n] = pair[e]
                out_value[n] = val[k] * x
                n += 1
    for k in range(ptr[j], ptr[j + 1]):
        v[idx[k]] = 0.0
    return n


@kernel()
def entries_directly(start, stop, i, j, ptr, idx, val, link_ptr, neighbor, pair, w, out):
    """Write S_ij of the listed pairs of features [start, stop) without keeping their terms."""
    v = np.zeros(link_ptr.size - 1)
    for f in range(start, stop):
        for k in range(ptr[j[f]], ptr[j[f] + 1]):
            v[idx[k]] = val[k]
        total = 0.0
        for k in range(ptr[i[f]], ptr[i[f] + 1]):
            a = idx[k]
            for e in range(link_ptr[a], link_ptr[a + 1]):
                total += w[pair[e]] * (val[k] * v[neighbor[e]])
        for k in range(ptr[j[f]], ptr[j[f] + 1]):
            v[idx[k]] = 0.0
        out[f] = total


@kernel()
def sparse_dots(who, lobby, board, n_per_task, first, last, pair, value, w, out):
    """Write the inner product of w with each of the listed runs of (pair, value), on a team.

    Four sums side by side: a vector register would have to gather, which is slower.
    """
    gather(who, lobby)
    n_tasks = (out.size + n_per_task - 1) // n_per_task
    task = take(board, 0)
    while task < n_tasks:
        for f in range(task * n_per_task, min((task + 1) * n_per_task, out.size)):
            a = b = c = d = 0.0
            k, end = first[f], last[f]
            while k + 4 <= end:
                a += w[np.uint32(pair[k])] * value[k]
                b += w[np.uint32(pair[k + 1])] * value[k + 1]
                c += w[np.uint32(pair[k + 2])] * value[k + 2]
                d += w[np.uint32(pair[k + 3])] * value[k + 3]
                k += 4
            while k < end:
                a += w[pair[k]] * value[k]
                k += 1
            out[f] = (a + b) + (c + d)
        task = finish(board, 0)
    wait(board, 0, n_tasks)
    part(who, lobby)
