// Searches: the largest diagonal entries, the best partners of features, and the ascent.

// Most features that a search of the largest returns.
#define MOST_LARGEST 8

// The state of an ascent: a query, and then
enum { N_SEEN = 16, IS_FIRST, BEST_I, BEST_J, BEST_SIGN, N_ROUNDS, SEEN = 32, MOST_SEEN = 1024 };

struct Place {
    double value;
    i64 place;
};

__device__ inline void take_place(Place& best, double value, i64 place) {
    if (place >= 0 && (best.place < 0 || is_better(value, place, best.value, best.place))) {
        best.value = value;
        best.place = place;
    }
}

// The best place of a block, to every thread; place -1 is none.
__device__ inline Place best_place(Place best) {
    __shared__ double value[WARPS];
    __shared__ i64 place[WARPS];
    for (int k = 16; k > 0; k >>= 1) {
        double other = __shfl_down_sync(FULL, best.value, k);
        i64 at = __shfl_down_sync(FULL, best.place, k);
        take_place(best, other, at);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        value[threadIdx.x / 32] = best.value;
        place[threadIdx.x / 32] = best.place;
    }
    __syncthreads();
    best.value = value[0];
    best.place = place[0];
    for (int k = 1; k < WARPS; k++) take_place(best, value[k], place[k]);
    return best;
}

// Whether a candidate comes after the last one found.
__device__ inline bool is_after(const Place& last, double value, i64 place) {
    return last.place < 0 || is_better(last.value, last.place, value, place);
}

// Writes the places of the `count` largest of n values, largest first, the first of equals first.
KERNEL largest_places(
    i64 n, i64 count, const double* x, double* tile_value, i64* tile_place, unsigned* ticket,
    i64* out
) {
    i64 n_tiles = (n + CHUNK - 1) / CHUNK;
    for (i64 tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        double own[CHUNK / THREADS];
        i64 first = tile * CHUNK + threadIdx.x;
#pragma unroll
        for (int k = 0; k < CHUNK / THREADS; k++)
            own[k] = first + k * THREADS < n ? x[first + k * THREADS] : 0.0;
        Place last = {0.0, -1};
        for (i64 r = 0; r < count; r++) {
            Place best = {0.0, -1};
#pragma unroll
            for (int k = 0; k < CHUNK / THREADS; k++) {
                i64 j = first + k * THREADS;
                if (j < n && is_after(last, own[k], j)) take_place(best, own[k], j);
            }
            Place found = best_place(best);
            if (threadIdx.x == 0) {
                tile_value[tile * MOST_LARGEST + r] = found.value;
                tile_place[tile * MOST_LARGEST + r] = found.place;
            }
            if (found.place < 0) {  // the tile has no more
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
    Place last = {0.0, -1};
    for (i64 r = 0; r < count; r++) {
        Place best = {0.0, -1};
        for (i64 tile = threadIdx.x; tile < n_tiles; tile += THREADS)
            for (i64 k = 0; k <= r; k++) {  // of r + 1 found so far, at most r come from one tile
                i64 at = tile * MOST_LARGEST + k;
                if (fresh_place[at] < 0) break;
                if (is_after(last, fresh_value[at], fresh_place[at])) {
                    take_place(best, fresh_value[at], fresh_place[at]);
                    break;
                }
            }
        last = best_place(best);
        if (threadIdx.x == 0) out[r] = last.place;
        if (last.place < 0) {
            for (i64 rest = r + threadIdx.x; rest < count; rest += THREADS) out[rest] = -1;
            break;
        }
    }
}

// Adds a feature to a short sorted list where it is not in it.
__device__ inline void add_sorted(i64* list, i64& n, i64 feature) {
    for (i64 k = 0; k < n; k++)
        if (list[k] == feature) return;
    if (n >= LANES) return;
    i64 at = n++;
    for (; at > 0 && list[at - 1] > feature; at--) list[at] = list[at - 1];
    list[at] = feature;
}

// Asks for the features of a list, which then are seen.
__device__ inline void ask_for(i64* climb, const i64* list, i64 n, i64 n_seen) {
    if (n_seen + n > MOST_SEEN) n = 0;
    climb[0] = n;
    climb[N_SEEN] = n_seen + n;
    for (i64 k = 0; k < n; k++) climb[1 + k] = climb[SEEN + n_seen + k] = list[k];
}

// Starts an ascent from the largest diagonal entries and from given features: `starts` holds how
// many of each, and the features.
KERNEL begin_climb(const i64* largest, const i64* starts, i64* climb) {
    __shared__ i64 given[2 * LANES], list[LANES];
    int t = threadIdx.x;
    if (blockIdx.x != 0) return;
    i64 n_largest = starts[0], n_starts = starts[1], n = 0;
    if (t < LANES) given[t] = t < n_largest ? largest[t] : -1;
    else if (t < 2 * LANES) given[t] = t - LANES < n_starts ? starts[2 + t - LANES] : -1;
    __syncthreads();
    if (t != 0) return;
    for (int k = 0; k < 2 * LANES; k++)
        if (given[k] >= 0) add_sorted(list, n, given[k]);
    climb[N_ROUNDS] = 0;
    climb[IS_FIRST] = 1;
    climb[BEST_I] = climb[BEST_J] = -1;
    climb[BEST_SIGN] = 0;
    ask_for(climb, list, n, 0);
}

// Takes the partners of the features that were asked for, and asks for the next ones. All threads of
// a block call it; thread c has the best partner of feature c.
__device__ inline void climb_on(
    const Best& best, const double* diagonal, double scale, i64* climb, double* best_score
) {
    __shared__ i64 from[LANES], to[LANES], list[LANES];
    __shared__ double entry[LANES], scores[LANES];
    __shared__ int is_seen[LANES];
    int t = threadIdx.x;
    i64 n = climb[0], n_seen = climb[N_SEEN];
    if (t < n) {
        from[t] = climb[1 + t];
        to[t] = best.partner;
        entry[t] = best.entry;
        is_seen[t] = 0;
        if (to[t] >= 0)
            scores[t] = scale * (diagonal[from[t]] + diagonal[to[t]] + fabs(best.entry));
    }
    __syncthreads();
    for (i64 k = t; k < n_seen; k += THREADS)
        for (i64 c = 0; c < n; c++)
            if (climb[SEEN + k] == to[c]) is_seen[c] = 1;
    __syncthreads();
    if (t != 0) return;
    i64 chosen = -1, i = 0, j = 0, sign = 0;
    for (i64 c = 0; c < n; c++) {
        if (to[c] < 0) continue;
        i64 low = from[c] < to[c] ? from[c] : to[c], high = from[c] < to[c] ? to[c] : from[c];
        i64 own = entry[c] < 0.0 ? -1 : 1;
        bool before = low < i || (low == i && (high < j || (high == j && own > sign)));
        if (chosen < 0 || scores[c] > scores[chosen] || (scores[c] == scores[chosen] && before)) {
            chosen = c;
            i = low;
            j = high;
            sign = own;
        }
    }
    bool is_first = climb[IS_FIRST] != 0, is_higher = false;
    if (chosen >= 0) {
        i64 b_i = climb[BEST_I], b_j = climb[BEST_J];
        bool before = i < b_i || (i == b_i && (j < b_j || (j == b_j && sign > climb[BEST_SIGN])));
        double score = scores[chosen], top = best_score[0];
        is_higher = is_first || score > top || (score == top && before);
        if (is_higher) {
            best_score[0] = score;
            climb[BEST_I] = i;
            climb[BEST_J] = j;
            climb[BEST_SIGN] = sign;
        }
    }
    i64 n_next = 0;
    for (i64 c = 0; c < n; c++)
        if (to[c] >= 0 && !is_seen[c] && (is_first || (is_higher && c == chosen)))
            add_sorted(list, n_next, to[c]);
    climb[IS_FIRST] = 0;
    climb[N_ROUNDS]++;
    ask_for(climb, list, n_next, n_seen);
}

template <int W>
__device__ inline void partners_of(
    const i64* query, i64 after, const Matrix& of, const double* source, const double* slots,
    const double* diagonal, double* S, const Found& room, unsigned* ticket, const Found& out,
    double scale, i64* climb, double* best_score
) {
    Best best;
    if (!best_partners<W>(query, after, of, source, slots, diagonal, S, room, ticket, best)) return;
    if (threadIdx.x < W && threadIdx.x < query[0]) {
        out.value[threadIdx.x] = best.value;
        out.partner[threadIdx.x] = best.partner;
        out.entry[threadIdx.x] = best.entry;
    }
    __syncthreads();  // all have read the query
    if (climb != nullptr) climb_on(best, diagonal, scale, climb, best_score);
}

// Finds for each feature i of a query the j that maximises C_jj + |S_ij|, the smallest of equals; of
// those after i where asked. Writes S too where it is there; goes on with an ascent where one is.
KERNEL gather_partners(
    const i64* query, i64 after, i64 n, const i64* ptr, i64 limit, const int* long_of,
    const i64* long_ptr, const int* idx, const double* val, const double* source,
    const double* slots, const double* diagonal, double* S, double* block_value,
    double* block_entry, i64* block_partner, unsigned* ticket, double* value, i64* partner,
    double* entry, double scale, i64* climb, double* best_score
) {
    Matrix of = {n, ptr, limit, long_of, long_ptr, idx, val};
    Found room = {block_value, block_entry, block_partner}, out = {value, entry, partner};
    switch (width_of(query)) {
#define CASE(W) \
    case W: \
        partners_of<W>( \
            query, after, of, source, slots, diagonal, S, room, ticket, out, scale, climb, \
            best_score \
        ); \
        break;
        CASE(1) CASE(2) CASE(4) CASE(8)
#undef CASE
    }
}

// --- entries of S for listed feature pairs -------------------------------------------------------
//
// S_ij = Σ_s w_s v_s with a sparse v that depends on i and j alone. The terms of a feature pair are
// stored as a run, cut into chunks; runs are only ever added.

enum { USED, N_CHUNKS, N_RUNS, RUN_FIRST };

// Links of row `a` whose other row has a value in v; writes the terms where there is room for them.
__device__ inline i64 terms_of_row(
    int a, double x, const i64* link_ptr, const int* neighbor, const int* pair, const double* v,
    int* out_pair, double* out_value
) {
    i64 n = 0;
    for (i64 e = link_ptr[a]; e < link_ptr[a + 1]; e++) {
        double y = v[neighbor[e]];
        if (y == 0.0) continue;
        if (out_pair != nullptr) {
            out_pair[n] = pair[e];
            out_value[n] = x * y;
        }
        n++;
    }
    return n;
}

// The sum of the counts of the threads before this one; the total of the block goes to `total`.
__device__ inline i64 block_offset(i64 count, i64* total) {
    __shared__ i64 warps[WARPS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 upto = count;
    for (int k = 1; k < 32; k <<= 1) {
        i64 other = __shfl_up_sync(FULL, upto, k);
        if (lane >= k) upto += other;
    }
    __syncthreads();
    if (lane == 31) warps[warp] = upto;
    __syncthreads();
    i64 before = 0;
    *total = 0;
    for (int k = 0; k < WARPS; k++) {
        if (k < warp) before += warps[k];
        *total += warps[k];
    }
    return before + upto - count;
}

// Counts the terms of a feature pair, lead first, and lists a run for them; v is X[:, other].
// A lead of -1: there is nothing to do.
KERNEL count_terms(
    const i64* lead, const i64* ptr, const int* idx, const i64* link_ptr, const int* neighbor,
    const double* v, i64* tile_first, unsigned* ticket, i64* table, i64* run_features,
    i64* run_chunks, i64* chunk_first
) {
    if (lead[0] < 0) return;
    i64 first = ptr[lead[0]], last = ptr[lead[0] + 1], n_tiles = (last - first + THREADS - 1) / THREADS;
    for (i64 tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        i64 k = first + tile * THREADS + threadIdx.x, total;
        i64 count = k < last
            ? terms_of_row(idx[k], 0.0, link_ptr, neighbor, nullptr, v, nullptr, nullptr)
            : 0;
        block_offset(count, &total);
        if (threadIdx.x == 0) tile_first[tile] = total;
    }
    if (!is_last_block(ticket)) return;
    volatile i64* fresh = tile_first;
    i64 start = table[USED], done = 0;
    for (i64 round = 0; round < n_tiles; round += THREADS) {
        i64 tile = round + threadIdx.x, total;
        i64 count = tile < n_tiles ? fresh[tile] : 0;
        i64 before = block_offset(count, &total);
        if (tile < n_tiles) tile_first[tile] = start + done + before;
        done += total;
    }
    i64 chunk = table[N_CHUNKS], n_chunks = (done + CHUNK - 1) / CHUNK, run = table[N_RUNS];
    for (i64 c = threadIdx.x; c < n_chunks; c += THREADS) {
        chunk_first[2 * (chunk + c)] = start + c * CHUNK;
        chunk_first[2 * (chunk + c) + 1] = (c + 1) * CHUNK < done ? start + (c + 1) * CHUNK : start + done;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        run_features[2 * run] = lead[0];
        run_features[2 * run + 1] = lead[1];
        run_chunks[run] = chunk;
        run_chunks[run + 1] = chunk + n_chunks;
        table[USED] = start + done;
        table[N_CHUNKS] = chunk + n_chunks;
        table[N_RUNS] = run + 1;
    }
}

// Writes the terms that were counted.
KERNEL fill_terms(
    const i64* lead, const i64* ptr, const int* idx, const double* val, const i64* link_ptr,
    const int* neighbor, const int* pair, const double* v, const i64* tile_first, int* term_pair,
    double* term_value
) {
    if (lead[0] < 0) return;
    i64 first = ptr[lead[0]], last = ptr[lead[0] + 1], n_tiles = (last - first + THREADS - 1) / THREADS;
    for (i64 tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
        i64 k = first + tile * THREADS + threadIdx.x, total;
        bool is_there = k < last;
        i64 count = is_there
            ? terms_of_row(idx[k], 0.0, link_ptr, neighbor, nullptr, v, nullptr, nullptr)
            : 0;
        i64 at = tile_first[tile] + block_offset(count, &total);
        if (is_there)
            terms_of_row(
                idx[k], val[k], link_ptr, neighbor, pair, v, term_pair + at, term_value + at
            );
    }
}

// Writes C_ii + C_jj and S_ij of the feature pair of every run.
KERNEL score_runs(
    const i64* table, const i64* run_features, const i64* run_chunks, const i64* chunk_first,
    const int* term_pair, const double* term_value, const double* w, const double* diagonal,
    double* part, unsigned* ticket, double* out
) {
    i64 n_chunks = table[N_CHUNKS], n_runs = table[N_RUNS];
    for (i64 chunk = blockIdx.x; chunk < n_chunks; chunk += gridDim.x) {
        double total = 0.0;
        i64 end = chunk_first[2 * chunk + 1];
#pragma unroll 4
        for (i64 k = chunk_first[2 * chunk] + threadIdx.x; k < end; k += THREADS)
            total += w[term_pair[k]] * term_value[k];
        total = block_sum(total);
        if (threadIdx.x == 0) part[chunk] = total;
    }
    if (!is_last_block(ticket)) return;
    const volatile double* fresh = part;
    for (i64 run = threadIdx.x; run < n_runs; run += THREADS) {
        double total = 0.0;
        for (i64 chunk = run_chunks[run]; chunk < run_chunks[run + 1]; chunk++)
            total += fresh[chunk];
        out[2 * run] = diagonal[run_features[2 * run]] + diagonal[run_features[2 * run + 1]];
        out[2 * run + 1] = total;
    }
}
