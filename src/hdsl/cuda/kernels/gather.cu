// Segmented sums: out[q] = Σ val[k] * source[idx[k]] over the segments q of a sparse matrix, for up
// to 8 columns of `source` side by side. Columns of X, links of rows and products of pairs are such
// segments.
//
// Eight threads own a segment. A segment above `limit` is cut into chunks, which come first and
// leave their sums in slots; blocks of source stay in the cache while their chunks are summed.
// A query holds the number of columns (0: there is nothing to do) and the features they are for.

#define LANES 8

// Columns that are stored side by side for so many features.
__device__ inline int width_of(const i64* query) {
    if (query == nullptr) return 1;
    i64 n = query[0];
    return n <= 0 ? 0 : n == 1 ? 1 : n == 2 ? 2 : n <= 4 ? 4 : 8;
}

// Writes X[:, f] of the features of a query side by side, or zeros there without `val` (X as CSC).
KERNEL scatter_features(
    const i64* query, const i64* ptr, const int* idx, const double* val, double* U
) {
    i64 n = query[0], n_blocks = gridDim.x;
    int width = width_of(query);
    if (n <= 0) return;
    // Blocks take turns: each has one feature, or several where blocks are fewer than features.
    for (i64 c = blockIdx.x % n; c < n; c += n_blocks) {
        i64 f = query[1 + c], share = n_blocks < n ? 1 : (n_blocks - c + n - 1) / n;
        for (i64 k = ptr[f] + blockIdx.x / n * THREADS + threadIdx.x; k < ptr[f + 1];
             k += share * THREADS)
            U[(i64)idx[k] * width + c] = val == nullptr ? 0.0 : val[k];
    }
}

// The share of one thread in the sum over [first, last).
template <int W>
__device__ inline double gather_part(
    i64 first, i64 last, const int* __restrict__ idx, const double* __restrict__ val,
    const double* __restrict__ source, bool absolute, int lane
) {
    double x = 0.0;
    const double* column = source + lane % W;
    if (absolute) {
        for (i64 k = first + lane / W; k < last; k += LANES / W)
            x += fabs(val[k]) * column[(i64)idx[k] * W];
        return x;
    }
#pragma unroll 4
    for (i64 k = first + lane / W; k < last; k += LANES / W)
        x += val[k] * column[(i64)idx[k] * W];
    return x;
}

// Adds the shares of the threads that have the same column; every thread gets the sum.
template <int W> __device__ inline double add_lanes(double x) {
    for (int k = W; k < LANES; k <<= 1) x += __shfl_xor_sync(FULL, x, k);
    return x;
}

template <int W>
__device__ inline void gather_chunks_of(
    i64 n_chunks, const i64* chunk_first, const i64* chunk_last, const int* chunk_slot,
    const int* idx, const double* val, const double* source, bool absolute, double* slots
) {
    int lane = threadIdx.x % LANES;
    i64 n_rounds = (n_chunks + THREADS / LANES - 1) / (THREADS / LANES);
    for (i64 round = blockIdx.x; round < n_rounds; round += gridDim.x) {
        i64 chunk = round * (THREADS / LANES) + threadIdx.x / LANES;
        bool is_there = chunk < n_chunks;
        double x = 0.0;
        if (is_there)
            x = gather_part<W>(
                chunk_first[chunk], chunk_last[chunk], idx, val, source, absolute, lane
            );
        x = add_lanes<W>(x);
        if (is_there && lane < W) slots[(i64)chunk_slot[chunk] * W + lane] = x;
    }
}

// Sums the chunks of long segments.
KERNEL gather_chunks(
    const i64* query, i64 n_chunks, const i64* chunk_first, const i64* chunk_last,
    const int* chunk_slot, const int* idx, const double* val, const double* source, i64 absolute,
    double* slots
) {
    switch (width_of(query)) {
#define CASE(W) \
    case W: \
        gather_chunks_of<W>( \
            n_chunks, chunk_first, chunk_last, chunk_slot, idx, val, source, absolute, slots \
        ); \
        break;
        CASE(1) CASE(2) CASE(4) CASE(8)
#undef CASE
    }
}

// A sparse matrix by segments; those above `limit` have slots.
struct Segments {
    i64 n;
    const i64* ptr;
    i64 limit;
    const int* long_of;
    const i64* slot_ptr;
    const int* idx;
    const double* val;
};

// The sum of a whole segment, where the slots of long ones are filled; all threads must call it.
template <int W>
__device__ inline double segment_sum(
    i64 q, const Segments& segments, const double* source, bool absolute, const double* slots
) {
    int lane = threadIdx.x % LANES;
    double x = 0.0;
    if (q < segments.n) {
        i64 first = segments.ptr[q], last = segments.ptr[q + 1];
        if (last - first <= segments.limit) {
            x = gather_part<W>(first, last, segments.idx, segments.val, source, absolute, lane);
        } else {
            i64 end = segments.slot_ptr[segments.long_of[q] + 1];
#pragma unroll 4
            for (i64 slot = segments.slot_ptr[segments.long_of[q]] + lane / W; slot < end; slot += LANES / W)
                x += slots[slot * W + lane % W];
        }
    }
    return add_lanes<W>(x);
}

template <int W>
__device__ inline void gather_segments_of(
    const Segments& segments, const double* source, bool absolute, const double* slots, double* out
) {
    int lane = threadIdx.x % LANES;
    i64 n_rounds = (segments.n + THREADS / LANES - 1) / (THREADS / LANES);
    for (i64 round = blockIdx.x; round < n_rounds; round += gridDim.x) {
        i64 q = round * (THREADS / LANES) + threadIdx.x / LANES;
        double x = segment_sum<W>(q, segments, source, absolute, slots);
        if (q < segments.n && lane < W) out[q * W + lane] = x;
    }
}

// Writes the sums of all segments.
KERNEL gather_segments(
    const i64* query, i64 n, const i64* ptr, i64 limit, const int* long_of, const i64* slot_ptr,
    const int* idx, const double* val, const double* source, i64 absolute, const double* slots,
    double* out
) {
    Segments segments = {n, ptr, limit, long_of, slot_ptr, idx, val};
    switch (width_of(query)) {
        case 1: gather_segments_of<1>(segments, source, absolute, slots, out); break;
        case 2: gather_segments_of<2>(segments, source, absolute, slots, out); break;
        case 4: gather_segments_of<4>(segments, source, absolute, slots, out); break;
        case 8: gather_segments_of<8>(segments, source, absolute, slots, out);
    }
}

// --- the best partner of each feature ------------------------------------------------------------

// The best j so far: value C_jj + |S_ij|, then the smallest j; none is -1.
struct Best {
    double value, entry;
    i64 partner;
};

__device__ inline void take_better(Best& best, double value, i64 partner, double entry) {
    if (partner >= 0 && (best.partner < 0 || is_better(value, partner, best.value, best.partner))) {
        best.value = value;
        best.partner = partner;
        best.entry = entry;
    }
}

// Returns to each thread the best of all threads of the block that have the same column.
template <int W> __device__ inline Best best_of_block(Best best) {
    __shared__ Best found[WARPS * LANES];
    for (int k = 16; k >= W; k >>= 1) {
        double value = __shfl_down_sync(FULL, best.value, k);
        double entry = __shfl_down_sync(FULL, best.entry, k);
        take_better(best, value, __shfl_down_sync(FULL, best.partner, k), entry);
    }
    int lane = threadIdx.x % 32;
    __syncthreads();
    if (lane < W) found[threadIdx.x / 32 * W + lane] = best;
    __syncthreads();
    best = found[lane % W];
    for (int k = 1; k < WARPS; k++) {
        const Best& other = found[k * W + lane % W];
        take_better(best, other.value, other.partner, other.entry);
    }
    return best;
}

// Room for the best of each block.
struct Found {
    double* value;
    double* entry;
    i64* partner;
};

// Returns in the threads of the last block the best partners of all, and whether it is that block.
template <int W>
__device__ inline bool best_partners(
    const i64* query, i64 after, const Segments& segments, const double* source, const double* slots,
    const double* diagonal, const Found& room, unsigned* ticket, Best& best
) {
    int c = threadIdx.x % W;
    i64 feature = c < query[0] ? query[1 + c] : -1;
    best = {-INF, 0.0, -1};
    i64 n_rounds = (segments.n + THREADS / LANES - 1) / (THREADS / LANES);
    for (i64 round = blockIdx.x; round < n_rounds; round += gridDim.x) {
        i64 j = round * (THREADS / LANES) + threadIdx.x / LANES;
        double x = segment_sum<W>(j, segments, source, false, slots);
        if (j >= segments.n || feature < 0) continue;
        if (after ? j > feature : j != feature) take_better(best, diagonal[j] + fabs(x), j, x);
    }
    best = best_of_block<W>(best);
    if (threadIdx.x < W) {
        room.value[blockIdx.x * LANES + c] = best.value;
        room.entry[blockIdx.x * LANES + c] = best.entry;
        room.partner[blockIdx.x * LANES + c] = best.partner;
    }
    if (!is_last_block(ticket)) return false;
    const volatile double *value = room.value, *entry = room.entry;
    const volatile i64* partner = room.partner;
    best = {-INF, 0.0, -1};
    for (i64 b = threadIdx.x / W; b < gridDim.x; b += THREADS / W)
        take_better(best, value[b * LANES + c], partner[b * LANES + c], entry[b * LANES + c]);
    best = best_of_block<W>(best);
    return true;
}
