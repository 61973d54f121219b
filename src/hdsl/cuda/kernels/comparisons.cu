// Comparisons: margins of atoms, slopes, the line search, and one number per pair of rows.
//
// `omega` holds the weights of the comparisons; one number where all are equal: omega_step is 0.

// --- the line search -----------------------------------------------------------------------------
//
// Newton's method inside a bracket, as ``solver.line_search``; one evaluation per launch. A launch
// after the end returns at once.

enum {
    STEP, SLOPE, CURVATURE, LOW, LOW_SLOPE, HIGH, HIGH_SLOPE, TINY, LIMIT, MOVED, DONE_, RESULT,
    COUNT, VALUE, ANY_SLOPE
};

__device__ inline void finish_search(double* s) {
    double size = s[STEP];
    if (!(fabs(s[SLOPE]) <= s[TINY] || isnan(s[HIGH_SLOPE])))
        size = -s[LOW_SLOPE] < s[HIGH_SLOPE] ? s[LOW] : s[HIGH];
    s[RESULT] = size;
    s[DONE_] = 1.0;
}

__device__ inline void propose(double* s) {
    double low = s[LOW], high = s[HIGH];
    bool open = isnan(s[HIGH_SLOPE]);
    double guess = s[CURVATURE] > 0.0 ? s[STEP] - s[SLOPE] / s[CURVATURE] : INF;
    if (guess >= high && open) {
        guess = high;  // is the far end still downhill?
    } else if (!(low < guess && guess < high)) {
        if (open) {
            guess = 0.5 * (low + high);
        } else {
            double share = s[LOW_SLOPE] / (s[LOW_SLOPE] - s[HIGH_SLOPE]);
            share = share > 0.05 ? share : 0.05;
            guess = low + (share < 0.95 ? share : 0.95) * (high - low);
        }
    }
    bool none_left = !(low < guess && guess <= high) || (guess == high && !open);
    if (none_left || s[COUNT] >= 200.0) {
        finish_search(s);
        return;
    }
    s[MOVED] = fabs(guess - s[STEP]);
    s[STEP] = guess;
    s[COUNT] += 1.0;
}

// Takes the derivatives at s[STEP], and moves on.
__device__ inline void continue_search(double* s, double slope, double curvature) {
    s[SLOPE] = slope;
    s[CURVATURE] = curvature;
    if (s[COUNT] == 0.0) {
        if (!(slope < 0.0) || s[LIMIT] <= 0.0) {
            s[RESULT] = 0.0;
            s[DONE_] = 1.0;
            return;
        }
        s[TINY] = 1e-13 * -slope;
        s[LOW] = 0.0;
        s[LOW_SLOPE] = slope;
        s[HIGH] = s[LIMIT];
        s[HIGH_SLOPE] = nan("");
        propose(s);
        return;
    }
    if (slope < 0.0) {
        s[LOW] = s[STEP];
        s[LOW_SLOPE] = slope;
        if (s[STEP] == s[LIMIT]) {
            s[RESULT] = s[LIMIT];
            s[DONE_] = 1.0;
            return;
        }
    } else {
        s[HIGH] = s[STEP];
        s[HIGH_SLOPE] = slope;
    }
    if (fabs(slope) <= s[TINY] || s[MOVED] <= 1e-16 * s[STEP]) finish_search(s);
    else propose(s);
}

// --- margins along a move ------------------------------------------------------------------------

// Writes u = X[:, i] + sign X[:, j] for the rows of either (X as CSC), or zeros there without `val`.
__device__ inline void scatter_atom(
    const i64* atom, const i64* ptr, const int* idx, const double* val, double* u
) {
    i64 i = atom[0], j = atom[1];
    if (i < 0) return;
    double sign = (double)atom[2];
    i64 n_i = ptr[i + 1] - ptr[i], n_j = ptr[j + 1] - ptr[j];
    EACH(q, n_i + n_j) {
        bool first = q < n_i;
        i64 k = first ? ptr[i] + q : ptr[j] + q - n_i;
        int row = idx[k];
        if (val == nullptr) {
            u[row] = 0.0;
            continue;
        }
        // The same row in the other column; a row of both belongs to the first.
        i64 end = first ? ptr[j + 1] : ptr[i + 1];
        i64 at = place_of(idx, first ? ptr[j] : ptr[i], end, row);
        bool both = at < end && idx[at] == row;
        if (first) u[row] = both ? val[k] + sign * val[at] : val[k];
        else if (!both) u[row] = sign * val[k];
    }
}

// Unfolds two atoms (i, j, sign), atoms[0:3] in u and atoms[4:7] in v, or takes them back. An i of -1 is
// no atom. The rest of u and v is zeros.
KERNEL scatter_atoms(
    const i64* atoms, const i64* ptr, const int* idx, const double* val, double* u, double* v
) {
    scatter_atom(atoms, ptr, idx, val, u);
    scatter_atom(atoms + 4, ptr, idx, val, v);
}

// The margin of one comparison under the matrix of u: a triplet where d is not there.
__device__ inline double margin_of(
    const double* u, const int* a, const int* b, const int* c, const int* d, i64 t
) {
    double at = u[a[t]];
    if (d == nullptr) return at == 0.0 ? 0.0 : at * (u[b[t]] - u[c[t]]);
    return at * u[b[t]] - u[c[t]] * u[d[t]];
}

// The slope and the curvature of one comparison's loss, times its weight. PLAIN is the smoothed hinge
// with equal weights, which are left to the end of a chunk: few registers, so more threads at once.
template <bool PLAIN>
__device__ inline void add_slopes(
    i64 code, double m, double x, const double* omega, i64 at, double& first, double& second
) {
    if (PLAIN) {
        first += x * loss_slope(SMOOTHED_HINGE, m);
        second += m >= 0.0 && m <= 1.0 ? x * x : 0.0;
    } else {
        double weighted = omega[at] * x;
        first += weighted * loss_slope(code, m);
        second += weighted * x * loss_curvature(code, m);
    }
}

template <bool PLAIN>
__device__ inline void end_chunk(
    i64 chunk, i64 n_chunks, double first, double second, const double* omega, double* chunk_sums
) {
    first = block_sum(first);
    second = block_sum(second);
    if (threadIdx.x == 0) {
        chunk_sums[chunk] = PLAIN ? first * omega[0] : first;
        chunk_sums[n_chunks + chunk] = PLAIN ? second * omega[0] : second;
    }
}

// Writes how margins change along a move, and begins the line search.
//
// move: factors of the margins (with the prior's taken off), of u and of v; the largest step. Without u
// the direction is there, and is followed.
template <bool PLAIN>
__device__ inline void begin_move_of(
    i64 code, i64 n, const int* __restrict__ a, const int* __restrict__ b,
    const int* __restrict__ c, const int* __restrict__ d, const double* __restrict__ u,
    const double* __restrict__ v, const double* __restrict__ margins,
    const double* __restrict__ offset, const double* __restrict__ move,
    const double* __restrict__ omega, i64 omega_step, double* __restrict__ direction, double* chunk_sums,
    unsigned* ticket, double* search
) {
    double of_margins = move[0], of_u = move[1], of_v = move[2];
    EACH_CHUNK(chunk, n) {
        double first = 0.0, second = 0.0;
#pragma unroll 4
        EACH_OF_CHUNK(t, chunk, n) {
            double m = margins[t], x = 0.0;
            if (u == nullptr) x = direction[t];
            if (of_margins != 0.0) x = of_margins * (offset == nullptr ? m : m - offset[t]);
            if (of_u != 0.0) x += of_u * margin_of(u, a, b, c, d, t);
            if (of_v != 0.0) x += of_v * margin_of(v, a, b, c, d, t);
            if (u != nullptr) direction[t] = x;
            add_slopes<PLAIN>(code, m, x, omega, t * omega_step, first, second);
        }
        end_chunk<PLAIN>(chunk, CHUNKS(n), first, second, omega, chunk_sums);
    }
    if (!is_last_block(ticket)) return;
    double first = sum_parts(chunk_sums, CHUNKS(n)), second = sum_parts(chunk_sums + CHUNKS(n), CHUNKS(n));
    if (threadIdx.x != 0) return;
    search[STEP] = search[COUNT] = search[DONE_] = search[MOVED] = search[RESULT] = 0.0;
    search[LIMIT] = move[3];
    continue_search(search, first, second);
}

VARIANTS(
    begin_move,
    (i64 code, i64 n, const int* a, const int* b, const int* c, const int* d, const double* u,
     const double* v, const double* margins, const double* offset, const double* move,
     const double* omega, i64 omega_step, double* direction, double* chunk_sums, unsigned* ticket,
     double* search),
    (code, n, a, b, c, d, u, v, margins, offset, move, omega, omega_step, direction, chunk_sums, ticket,
     search)
)

// Takes the derivatives at the point where the line search is, and moves it on.
template <bool PLAIN>
__device__ inline void search_on_of(
    i64 code, i64 n, const double* __restrict__ margins, const double* __restrict__ direction,
    const double* __restrict__ omega, i64 omega_step, double* chunk_sums, unsigned* ticket, double* search
) {
    if (search[DONE_] != 0.0) return;
    double step = search[STEP];
    EACH_CHUNK(chunk, n) {
        double first = 0.0, second = 0.0;
#pragma unroll 4
        EACH_OF_CHUNK(t, chunk, n) {
            double x = direction[t];
            add_slopes<PLAIN>(
                code, margins[t] + step * x, x, omega, t * omega_step, first, second
            );
        }
        end_chunk<PLAIN>(chunk, CHUNKS(n), first, second, omega, chunk_sums);
    }
    if (!is_last_block(ticket)) return;
    double first = sum_parts(chunk_sums, CHUNKS(n)), second = sum_parts(chunk_sums + CHUNKS(n), CHUNKS(n));
    if (threadIdx.x == 0) continue_search(search, first, second);
}

VARIANTS(
    search_on,
    (i64 code, i64 n, const double* margins, const double* direction, const double* omega,
     i64 omega_step, double* chunk_sums, unsigned* ticket, double* search),
    (code, n, margins, direction, omega, omega_step, chunk_sums, ticket, search)
)

// Writes margins + step * direction, with the step that the search ended with, and measures them:
// the mean loss, and whether any slope is not 0. Without a direction the margins are measured only.
// Nothing is written where the search has not ended, or at 0.
template <bool PLAIN>
__device__ inline void advance_of(
    i64 code, i64 n, const double* __restrict__ margins, const double* __restrict__ direction,
    const double* __restrict__ omega, i64 omega_step, double* __restrict__ out, double* chunk_sums,
    unsigned* ticket, double* search
) {
    double step = direction == nullptr ? 0.0 : search[RESULT];
    if (direction != nullptr && (search[DONE_] == 0.0 || !(step > 0.0))) return;
    EACH_CHUNK(chunk, n) {
        double value = 0.0, any = 0.0;
#pragma unroll 4
        EACH_OF_CHUNK(t, chunk, n) {
            double m = margins[t];
            if (direction != nullptr) {
                m = m + step * direction[t];
                out[t] = m;
            }
            double w = PLAIN ? 1.0 : omega[t * omega_step];
            value += w * loss_value(PLAIN ? SMOOTHED_HINGE : code, m);
            any = w * loss_slope(PLAIN ? SMOOTHED_HINGE : code, m) != 0.0 ? 1.0 : any;
        }
        value = block_sum(value);
        any = block_max(any);
        if (threadIdx.x == 0) {
            chunk_sums[chunk] = PLAIN ? value * omega[0] : value;
            chunk_sums[CHUNKS(n) + chunk] = any;
        }
    }
    if (!is_last_block(ticket)) return;
    double value = sum_parts(chunk_sums, CHUNKS(n)), any = max_parts(chunk_sums + CHUNKS(n), CHUNKS(n));
    if (threadIdx.x == 0) {
        search[VALUE] = value;
        search[ANY_SLOPE] = any;
    }
}

VARIANTS(
    advance,
    (i64 code, i64 n, const double* margins, const double* direction, const double* omega,
     i64 omega_step, double* out, double* chunk_sums, unsigned* ticket, double* search),
    (code, n, margins, direction, omega, omega_step, out, chunk_sums, ticket, search)
)

// --- pulls ---------------------------------------------------------------------------------------

// Writes the inner product of the pulls -omega * loss'(margin) with other margins less an offset, and
// whether there is any pull.
KERNEL dot_pulls(
    i64 code, i64 n, const double* margins, const double* omega, i64 omega_step,
    const double* other_margins, const double* offset, double* chunk_sums, unsigned* ticket, double* out
) {
    EACH_CHUNK(chunk, n) {
        double total = 0.0, any = 0.0;
        EACH_OF_CHUNK(t, chunk, n) {
            double pull = -omega[t * omega_step] * loss_slope(code, margins[t]);
            total += pull * (offset == nullptr ? other_margins[t] : other_margins[t] - offset[t]);
            any = pull != 0.0 ? 1.0 : any;
        }
        total = block_sum(total);
        any = block_max(any);
        if (threadIdx.x == 0) {
            chunk_sums[chunk] = total;
            chunk_sums[CHUNKS(n) + chunk] = any;
        }
    }
    if (!is_last_block(ticket)) return;
    double total = sum_parts(chunk_sums, CHUNKS(n)), any = max_parts(chunk_sums + CHUNKS(n), CHUNKS(n));
    if (threadIdx.x == 0) {
        out[0] = total;
        out[1] = any;
    }
}

// Writes w: per pair of rows, the pulls of the comparisons that it is to win less those of the ones
// that it is to lose. Term k of pair s names a comparison t, or ~t where the pair is to lose it.
template <bool PLAIN>
__device__ inline void pull_pairs_of(
    i64 code, i64 n_pairs, const i64* __restrict__ signed_ptr, const int* __restrict__ signed_comparison,
    const double* __restrict__ margins, const double* __restrict__ omega, i64 omega_step,
    double* __restrict__ w
) {
    EACH(s, n_pairs) {
        double total = 0.0;
#pragma unroll 4
        for (i64 k = signed_ptr[s]; k < signed_ptr[s + 1]; k++) {
            int t = signed_comparison[k];
            i64 at = t < 0 ? ~t : t;
            double pull = PLAIN ? -omega[0] * loss_slope(SMOOTHED_HINGE, margins[at])
                                : -omega[at * omega_step] * loss_slope(code, margins[at]);
            total = t < 0 ? total - pull : total + pull;
        }
        w[s] = total;
    }
}

VARIANTS(
    pull_pairs,
    (i64 code, i64 n_pairs, const i64* signed_ptr, const int* signed_comparison, const double* margins,
     const double* omega, i64 omega_step, double* w),
    (code, n_pairs, signed_ptr, signed_comparison, margins, omega, omega_step, w)
)

// Writes w, or |w - other| where there is another, in the order of the links.
KERNEL link_weights(
    i64 n_links, const int* link_pair, const double* w, const double* other, double* out
) {
    EACH(e, n_links) {
        int s = link_pair[e];
        out[e] = other == nullptr ? w[s] : fabs(w[s] - other[s]);
    }
}

// Writes the weights of a batch, zero elsewhere: out[batch[k]] = omega / total.
KERNEL batch_weights(
    i64 n, const i64* batch, const double* omega, i64 omega_step, double total, double* out
) {
    EACH(k, n) out[batch[k]] = (omega_step ? omega[batch[k]] : 1.0) / total;
}

// Sum of absolute values.
KERNEL absolute_sum(i64 n, const double* values, double* chunk_sums, unsigned* ticket, double* out) {
    EACH_CHUNK(chunk, n) {
        double total = 0.0;
        EACH_OF_CHUNK(t, chunk, n) total += fabs(values[t]);
        total = block_sum(total);
        if (threadIdx.x == 0) chunk_sums[chunk] = total;
    }
    if (!is_last_block(ticket)) return;
    double total = sum_parts(chunk_sums, CHUNKS(n));
    if (threadIdx.x == 0) out[0] = total;
}
