// Searches: the largest diagonal entries, and the best partners of features.

// Most features that a search of the largest returns.
#define MOST_LARGEST 8

// Whether a candidate comes after the last one found.
__device__ inline bool is_after(const Best& last, double value, i64 place) {
    return last.partner < 0 || is_better(last.value, last.partner, value, place);
}

// Writes the places of the `count` largest of n values, largest first, the first of equals first.
KERNEL largest_places(
    i64 n, i64 count, const double* values, double* tile_value, i64* tile_place, unsigned* ticket,
    i64* out
) {
    i64 n_tiles = (n + CHUNK - 1) / CHUNK;
    for (i64 tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        double own[CHUNK / THREADS];
        i64 first = tile * CHUNK + threadIdx.x;
#pragma unroll
        for (int k = 0; k < CHUNK / THREADS; k++)
            own[k] = first + k * THREADS < n ? values[first + k * THREADS] : 0.0;
        Best last = {0.0, 0.0, -1};
        for (i64 r = 0; r < count; r++) {
            Best best = {0.0, 0.0, -1};
#pragma unroll
            for (int k = 0; k < CHUNK / THREADS; k++) {
                i64 j = first + k * THREADS;
                if (j < n && is_after(last, own[k], j)) take_better(best, own[k], j, 0.0);
            }
            Best found = best_of_block<1>(best);
            if (threadIdx.x == 0) {
                tile_value[tile * MOST_LARGEST + r] = found.value;
                tile_place[tile * MOST_LARGEST + r] = found.partner;
            }
            if (found.partner < 0) {  // the tile has no more
                for (i64 rest = r + threadIdx.x; rest < count; rest += THREADS)
                    tile_place[tile * MOST_LARGEST + rest] = -1;
                break;
            }
            last = found;
        }
    }
    if (!is_last_block(ticket)) return;
    // Each thread merges the lists of its own tiles: the best that comes after the last one found.
    const volatile double* fresh_value = tile_value;
    const volatile i64* fresh_place = tile_place;
    Best last = {0.0, 0.0, -1};
    for (i64 r = 0; r < count; r++) {
        Best best = {0.0, 0.0, -1};
        for (i64 tile = threadIdx.x; tile < n_tiles; tile += THREADS)
            for (i64 k = 0; k <= r; k++) {  // of r + 1 found so far, at most r come from one tile
                i64 at = tile * MOST_LARGEST + k;
                if (fresh_place[at] < 0) break;
                if (is_after(last, fresh_value[at], fresh_place[at])) {
                    take_better(best, fresh_value[at], fresh_place[at], 0.0);
                    break;
                }
            }
        last = best_of_block<1>(best);
        if (threadIdx.x == 0) out[r] = last.partner;
        if (last.partner < 0) {
            for (i64 rest = r + threadIdx.x; rest < count; rest += THREADS) out[rest] = -1;
            break;
        }
    }
}

// --- the best partner of each feature ------------------------------------------------------------

template <int W>
__device__ inline void partners_of(
    const i64* query, i64 after, const Segments& segments, const double* source, const double* slots,
    const double* diagonal, const Found& room, unsigned* ticket, double* answers
) {
    Best best;
    if (!best_partners<W>(query, after, segments, source, slots, diagonal, room, ticket, best)) return;
    int c = threadIdx.x;
    if (c >= W || c >= query[0]) return;
    answers[c] = best.value;
    answers[LANES + c] = (double)best.partner;
    answers[2 * LANES + c] = best.entry;
    answers[3 * LANES + c] = diagonal[query[1 + c]];
    answers[4 * LANES + c] = best.partner < 0 ? 0.0 : diagonal[best.partner];
}

// Finds for each feature i of a query the j that maximises C_jj + |S_ij|, the smallest of equals; of
// those after i where asked. Writes C_jj + |S_ij|, j, S_ij, C_ii and C_jj, each for up to 8 features.
KERNEL gather_partners(
    const i64* query, i64 after, i64 n, const i64* ptr, i64 limit, const int* long_of,
    const i64* slot_ptr, const int* idx, const double* val, const double* source,
    const double* slots, const double* diagonal, double* block_value, double* block_entry,
    i64* block_partner, unsigned* ticket, double* answers
) {
    Segments segments = {n, ptr, limit, long_of, slot_ptr, idx, val};
    Found room = {block_value, block_entry, block_partner};
    switch (width_of(query)) {
#define CASE(W) \
    case W: partners_of<W>(query, after, segments, source, slots, diagonal, room, ticket, answers); break;
        CASE(1) CASE(2) CASE(4) CASE(8)
#undef CASE
    }
}

// --- what to search for --------------------------------------------------------------------------

// Adds a feature to a query that has not got it.
__device__ inline void ask_for(i64* query, i64 feature) {
    for (i64 k = 1; k <= query[0]; k++)
        if (query[k] == feature) return;
    if (feature >= 0) query[++query[0]] = feature;
}

// Writes the query of the first features of `largest` and of those told.
KERNEL first_query(const i64* starts, i64 n_largest, const i64* largest, i64* query) {
    if (threadIdx.x != 0) return;
    query[0] = 0;
    for (i64 k = 0; k < n_largest; k++) ask_for(query, largest[k]);
    for (i64 k = 1; k <= starts[0]; k++) ask_for(query, starts[k]);
}

// Writes the query of the partners found that were not asked for.
KERNEL next_query(const i64* query, const double* answers, i64* next) {
    if (threadIdx.x != 0) return;
    next[0] = 0;
    for (i64 k = 0; k < query[0]; k++) {
        i64 partner = (i64)answers[LANES + k];
        bool is_new = true;
        for (i64 q = 1; q <= query[0]; q++) is_new = is_new && query[q] != partner;
        if (is_new) ask_for(next, partner);
    }
}
