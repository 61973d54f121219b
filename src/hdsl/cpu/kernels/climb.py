"""Kernels that find the best partners of features, and the best feature pair, on a team."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiler import COMMON_BLOCK, ROW_BLOCK, WIDTH, kernel
from .gradient import largest, note_partner, partners_in, scatter_partner
from .pairs import place_of
from .team import JIT_IS_OFF, finish, gather, part, take, wait

#: Phases of a pass over X, and the most passes of one climb; the caller goes on from there.
PASS_PHASES, MOST_PASSES = 6, 24

GATHER, SCATTER = 0, 1


def _gather_links_plainly(neighbor, pair, w, marked, U, start, stop, out, peak):
    """Write the sums of w[pair[e]] * U[neighbor[e], :] over e in [start, stop) with marked rows.

    Raises `peak` to the absolute sums.
    """
    out[:] = 0.0
    for e in range(start, stop):
        if marked[neighbor[e]]:
            out[:] += w[pair[e]] * U[neighbor[e]]
    peak[:] = np.maximum(peak, np.abs(out))


@intrinsic
def _gather_links_in_registers(
    typing_context, neighbor, pair, w, marked, U, start, stop, out, peak
):
    """Do the same with one vector register for the WIDTH sums; the bits are the same."""

    def generate(context, builder, signature, args):
        int64, lane = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(ir.DoubleType(), WIDTH)
        undefined = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH)

        def pointer(k):
            return context.make_array(signature.args[k])(context, builder, args[k]).data

        def vector_at(place):
            return builder.bitcast(place, vector.as_pointer())

        def number_at(array, place):
            return builder.load(builder.gep(array, [place]))

        neighbor_ptr, pair_ptr, w_ptr, marked_ptr, U_ptr, out_ptr, peak_ptr = (
            pointer(k) for k in (0, 1, 2, 3, 4, 7, 8)
        )
        sums = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, [0.0] * WIDTH), sums)
        one = ir.Constant(int64, 1)
        with cgutils.for_range_slice(builder, args[5], args[6], one, int64) as (e, _):
            row = builder.sext(number_at(neighbor_ptr, e), int64)
            mark = number_at(marked_ptr, row)
            with builder.if_then(builder.icmp_unsigned("!=", mark, ir.Constant(mark.type, 0))):
                number = builder.sext(number_at(pair_ptr, e), int64)
                weight = builder.insert_element(
                    undefined, number_at(w_ptr, number), ir.Constant(lane, 0)
                )
                weights = builder.shuffle_vector(weight, undefined, everywhere)
                place = builder.gep(U_ptr, [builder.mul(row, ir.Constant(int64, WIDTH))])
                term = builder.fmul(weights, builder.load(vector_at(place), align=8))
                builder.store(builder.fadd(builder.load(sums), term), sums)
        total = builder.load(sums)
        builder.store(total, vector_at(out_ptr), align=8)
        negative = builder.fcmp_ordered("<", total, ir.Constant(vector, [0.0] * WIDTH))
        absolute = builder.select(negative, builder.fneg(total), total)
        before = builder.load(vector_at(peak_ptr), align=8)
        above = builder.fcmp_ordered(">", absolute, before)
        builder.store(builder.select(above, absolute, before), vector_at(peak_ptr), align=8)
        return context.get_dummy_value()

    signature = types.void(neighbor, pair, w, marked, U, types.int64, types.int64, out, peak)
    return signature, generate


_gather_links: Any = _gather_links_plainly if JIT_IS_OFF else _gather_links_in_registers


@kernel()
def _unfold_rows(first, last, features, n_own, ptr, idx, val, U, marked):
    """Write columns of X side by side for the rows [first, last), and mark those that have any."""
    U[first:last] = 0.0
    marked[first:last] = 0
    for c in range(n_own):
        k, end = ptr[features[c]], ptr[features[c] + 1]
        k = place_of(idx, k, end, first)
        while k < end and idx[k] < last:
            U[idx[k], c] = val[k]
            marked[idx[k]] = 1
            k += 1


@kernel()
def spread_on_team(
    board, phase, features, n_own, ptr, idx, val, link_ptr, neighbor, pair, w, U, marked, R, peaks
):
    """Write column c of R (n × WIDTH) as (W + Wᵀ) X[:, features[c]] (X as CSC), in two phases.

    Row b of `peaks` gets the largest |R| of each column in block b of the rows. The row after the
    last block is for the floor of ``gather_on_team``, where it starts.
    """
    n = link_ptr.size - 1
    n_blocks = (n + ROW_BLOCK - 1) // ROW_BLOCK
    block = take(board, phase)
    while block < n_blocks:
        first, last = block * ROW_BLOCK, min((block + 1) * ROW_BLOCK, n)
        _unfold_rows(first, last, features, n_own, ptr, idx, val, U, marked)
        peaks[block] = 0.0
        if block == 0:
            peaks[n_blocks, :n_own] = -np.inf
            peaks[n_blocks, n_own:] = np.inf  # padding is out of reach
        block = finish(board, phase)
    wait(board, phase, n_blocks)
    block = take(board, phase + 1)
    while block < n_blocks:
        for b in range(block * ROW_BLOCK, min((block + 1) * ROW_BLOCK, n)):
            _gather_links(
                neighbor, pair, w, marked, U, link_ptr[b], link_ptr[b + 1], R[b], peaks[block]
            )
        block = finish(board, phase + 1)
    wait(board, phase + 1, n_blocks)


@kernel()
def spread_rows(
    who, lobby, board, features, n_own, ptr, idx, val, link_ptr, neighbor, pair, w, U, marked, R,
    peaks,
):  # fmt: skip
    """Do this alone."""
    gather(who, lobby)
    spread_on_team(
        board, 0, features, n_own, ptr, idx, val, link_ptr, neighbor, pair, w, U, marked, R, peaks
    )
    part(who, lobby)


def _scatter_row_plainly(idx, val, start, stop, x, out):
    """Add val[k] * x to row idx[k] of `out` for k in [start, stop)."""
    for k in range(start, stop):
        out[idx[k]] += val[k] * x


@intrinsic
def _scatter_row_in_registers(typing_context, idx, val, start, stop, x, out):
    """Do the same with vector registers; the bits are the same."""

    def generate(context, builder, signature, args):
        int64, lane = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(ir.DoubleType(), WIDTH)
        undefined = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH)

        def pointer(k):
            return context.make_array(signature.args[k])(context, builder, args[k]).data

        def vector_at(place):
            return builder.bitcast(place, vector.as_pointer())

        idx_ptr, val_ptr, x_ptr, out_ptr = (pointer(k) for k in (0, 1, 4, 5))
        row = builder.load(vector_at(x_ptr), align=8)
        one = ir.Constant(int64, 1)
        with cgutils.for_range_slice(builder, args[2], args[3], one, int64) as (k, _):
            column = builder.sext(builder.load(builder.gep(idx_ptr, [k])), int64)
            value = builder.load(builder.gep(val_ptr, [k]))
            first = builder.insert_element(undefined, value, ir.Constant(lane, 0))
            values = builder.shuffle_vector(first, undefined, everywhere)
            offset = builder.mul(column, ir.Constant(int64, WIDTH))
            place = vector_at(builder.gep(out_ptr, [offset]))
            total = builder.fadd(builder.load(place, align=8), builder.fmul(values, row))
            builder.store(total, place, align=8)
        return context.get_dummy_value()

    signature = types.void(idx, val, types.int64, types.int64, x, out)
    return signature, generate


_scatter_row: Any = _scatter_row_plainly if JIT_IS_OFF else _scatter_row_in_registers


@kernel()
def common_partners(
    board, phase, bounds, features, n_own, after, row_ptr, row_idx, row_val, common_end, row_parts,
    sums, R, diag, floor, best, partner, entry,
):  # fmt: skip
    """Find the best partners of WIDTH features among the common ones, in two phases.

    The common features are the first, so many as ``sums`` has room for. Their entries come row by
    row (X as CSR, up to common_end[b] in row b), so that R is read once and in order: there are
    many rows. Rows between row_parts[p:p + 2] are summed in sums[p], and then the parts in order.
    """
    n_parts = row_parts.size - 1
    part = take(board, phase)
    while part < n_parts:
        own = sums[part]
        own[:] = 0.0
        for b in range(row_parts[part], row_parts[part + 1]):
            _scatter_row(row_idx, row_val, row_ptr[b], common_end[b], R[b], own)
        part = finish(board, phase)
    wait(board, phase, n_parts)
    n_blocks = _n_common_blocks(sums)
    s = np.empty(WIDTH)
    block = take(board, phase + 1)
    while block < n_blocks:
        best[block, :n_own] = -np.inf
        best[block, n_own:] = np.inf  # nothing is better than padding
        partner[block] = -1
        entry[block] = 0.0
        for j in range(bounds[block], bounds[block + 1]):
            s[:] = sums[0, j]
            for part in range(1, n_parts):
                for c in range(WIDTH):
                    s[c] += sums[part, j, c]
            note_partner(j, diag[j], s, features, after, best[block], partner[block], entry[block])
        for c in range(n_own):
            floor[c] = max(floor[c], best[block, c])
        block = finish(board, phase + 1)
    wait(board, phase + 1, n_blocks)


@kernel()
def _n_common_blocks(sums):
    """Return how many blocks of features are common ones."""
    return (sums.shape[1] + COMMON_BLOCK - 1) // COMMON_BLOCK


@kernel()
def gather_on_team(
    board, phase, bounds, features, n_own, after, ptr, idx, val, size, row_ptr, row_idx, row_val,
    common_end, row_parts, sums, R, peaks, diag, best, partner, entry,
):  # fmt: skip
    """Find the best partners of WIDTH features, for each block of partners by itself.

    The first `n_own` features count; the others are -1. Blocks are those between `bounds`. What one
    block has reached spares others the partners that cannot; it may be known late or not at all,
    since only those below the best of all are left out. Takes three phases.
    """
    n_blocks, n_common = bounds.size - 1, _n_common_blocks(sums)
    floor = peaks[peaks.shape[0] - 1]
    if n_common > 0:
        common_partners(
            board, phase, bounds, features, n_own, after, row_ptr, row_idx, row_val, common_end,
            row_parts, sums, R, diag, floor, best, partner, entry,
        )  # fmt: skip
    peak = np.zeros(WIDTH)
    for block in range(peaks.shape[0] - 1):
        for c in range(WIDTH):
            peak[c] = max(peak[c], peaks[block, c])
    block = n_common + take(board, phase + 2)
    while block < n_blocks:
        best[block, :n_own] = -np.inf
        best[block, n_own:] = np.inf
        partner[block] = -1
        entry[block] = 0.0
        partners_in(
            bounds[block], bounds[block + 1], features, after, ptr, idx, val, size, peak, R, diag,
            floor, best[block], partner[block], entry[block],
        )  # fmt: skip
        for c in range(n_own):
            floor[c] = max(floor[c], best[block, c])
        block = n_common + finish(board, phase + 2)
    wait(board, phase + 2, n_blocks - n_common)


@kernel()
def gather_partners(
    who, lobby, board, bounds, features, n_own, after, ptr, idx, val, size, row_ptr, row_idx,
    row_val, common_end, row_parts, sums, link_ptr, neighbor, pair, w, diag, U, marked, R, peaks,
    best, partner, entry,
):  # fmt: skip
    """Find the best partners of up to WIDTH features in one pass over X that a team shares."""
    gather(who, lobby)
    spread_on_team(
        board, 0, features, n_own, ptr, idx, val, link_ptr, neighbor, pair, w, U, marked, R, peaks
    )
    gather_on_team(
        board, 2, bounds, features, n_own, after, ptr, idx, val, size, row_ptr, row_idx, row_val,
        common_end, row_parts, sums, R, peaks, diag, best, partner, entry,
    )  # fmt: skip
    part(who, lobby)


@kernel()
def _insert(values, n, x):
    """Insert x into the rising values[:n] unless it is there; return how many there are."""
    at = 0
    while at < n and values[at] < x:
        at += 1
    if at < n and values[at] == x:
        return n
    for k in range(n, at, -1):
        values[k] = values[k - 1]
    values[at] = x
    return n + 1


@kernel()
def _comes_first(i, j, entry, other_i, other_j, other_entry):
    """Whether the atom of the first feature pair is the smaller (i, j, -sign)."""
    if min(i, j) != min(other_i, other_j):
        return min(i, j) < min(other_i, other_j)
    if max(i, j) != max(other_i, other_j):
        return max(i, j) < max(other_i, other_j)
    return entry >= 0.0 and other_entry < 0.0


@kernel()
def _choose_next(turn, scale, diag, row_cost, nnz, features, n_own, way, found, seen, ends, score):
    """Judge the partners found in a pass, and list the features of the next one.

    `found` holds the partner and S_ij of each feature of the pass; `score` S_ij and the score of
    the best feature pair; `ends` that pair, the number of features seen, whether there was a pass,
    and the two features of largest diagonal.
    """
    partner, entry = found
    m = n_own[turn]
    chosen, top = -1, 0.0
    for c in range(m):
        i, j = features[turn, c], partner[c]
        reached = scale * (diag[i] + diag[j] + abs(entry[c]))
        if chosen < 0 or reached > top:
            chosen, top = c, reached
        elif reached == top and _comes_first(
            i, j, entry[c], features[turn, chosen], partner[chosen], entry[chosen]
        ):
            chosen = c
    i, j = features[turn, chosen], partner[chosen]
    is_better = ends[0] < 0 or top > score[1]
    if not is_better and top == score[1]:
        is_better = _comes_first(i, j, entry[chosen], ends[0], ends[1], score[0])
    if is_better:
        ends[0], ends[1], score[0], score[1] = i, j, entry[chosen], top
    n_next = 0
    following = features[turn + 1]
    for c in range(m):
        if ends[3] == 0 or (is_better and c == chosen):
            is_new = True
            for k in range(ends[2]):
                is_new = is_new and seen[k] != partner[c]
            if is_new:
                n_next = _insert(following, n_next, partner[c])
    ends[3] = 1
    for c in range(n_next):
        seen[ends[2]] = following[c]
        ends[2] += 1
    n_own[turn + 1] = n_next
    way[turn + 1] = _way(following, n_next, row_cost, nnz)


@kernel()
def _way(features, n_own, row_cost, nnz):
    """Return how to find the partners of features: rare ones reach few rows."""
    total = 0
    for c in range(n_own):
        total += row_cost[features[c]]
    return SCATTER if 2 * total <= nnz else GATHER


@kernel()
def _begin(n_largest, row_cost, nnz, diag, features, n_own, way, seen, ends):
    """Add the features of largest diagonal to the first pass."""
    top = np.empty(min(max(n_largest, 2), diag.size), np.int64)
    largest(diag, top)
    for j in top[:n_largest]:
        n_own[0] = _insert(features[0], n_own[0], j)
    seen[: n_own[0]] = features[0, : n_own[0]]
    ends[2], ends[4], ends[5] = n_own[0], top[0], top[1]
    way[0] = _way(features[0], n_own[0], row_cost, nnz)


@kernel()
def _collect(m, best, block_partner, block_entry, partner, entry):
    """Write the best partner of each feature over all blocks, the first of equals."""
    for c in range(m):
        at = 0
        for block in range(1, best.shape[0]):
            if best[block, c] > best[at, c]:
                at = block
        partner[c], entry[c] = block_partner[at, c], block_entry[at, c]


@kernel()
def climb(
    who, lobby, board, scale, n_largest, bounds, row_cost, ptr, idx, val, size, row_ptr, row_idx,
    row_val, common_end, row_parts, sums, link_ptr, neighbor, pair, w, diag, U, marked, R, peaks,
    best, block_partner, block_entry, r, reached, rows, s, seen_feature, touched, features, n_own,
    way, partner, entry, seen, ends, score,
):  # fmt: skip
    """Alternating maximisation, as ``core.protocols.Gradient.climb`` says it, on a team.

    features : (MOST_PASSES + 1, WIDTH), the features of each pass; the first row holds n_own[0]
    given ones, to which the `n_largest` of largest diagonal are added. What a pass finds and what
    the next one is about to do is written once and never changed, for threads that come late.
    """
    gather(who, lobby)
    if take(board, MOST_PASSES * PASS_PHASES) == 0:
        if ends[3] == 0:
            _begin(n_largest, row_cost, row_idx.size, diag, features, n_own, way, seen, ends)
        finish(board, MOST_PASSES * PASS_PHASES)
    wait(board, MOST_PASSES * PASS_PHASES, 1)
    turn = 0
    while turn < MOST_PASSES and n_own[turn] > 0:
        own, m, phase = features[turn], n_own[turn], PASS_PHASES * turn
        if way[turn] == GATHER:
            spread_on_team(
                board, phase, own, m, ptr, idx, val, link_ptr, neighbor, pair, w, U, marked, R,
                peaks,
            )  # fmt: skip
            gather_on_team(
                board, phase + 2, bounds, own, m, False, ptr, idx, val, size, row_ptr, row_idx,
                row_val, common_end, row_parts, sums, R, peaks, diag, best, block_partner,
                block_entry,
            )  # fmt: skip
        else:
            task = take(board, phase + 2)
            while task < m:
                i = own[task]
                other = ends[4] if ends[4] != i else ends[5]
                _, partner[turn, task], entry[turn, task] = scatter_partner(
                    i, False, other, ptr, idx, val, row_ptr, row_idx, row_val, link_ptr, neighbor,
                    pair, w, diag, r[task], reached[task], rows[task], s[task], seen_feature[task],
                    touched[task],
                )  # fmt: skip
                task = finish(board, phase + 2)
            wait(board, phase + 2, m)
        if take(board, phase + 5) == 0:
            if way[turn] == GATHER:
                _collect(m, best, block_partner, block_entry, partner[turn], entry[turn])
            _choose_next(
                turn, scale, diag, row_cost, row_idx.size, features, n_own, way,
                (partner[turn], entry[turn]), seen, ends, score,
            )  # fmt: skip
            finish(board, phase + 5)
        wait(board, phase + 5, 1)
        turn += 1
    part(who, lobby)
