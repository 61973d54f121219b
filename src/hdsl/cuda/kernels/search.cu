// The largest inner products of queries with rows: upper bounds of all products by chunks of rows,
// then the exact products of the few rows whose bound reaches a list.
//
// A chunk of rows is laid out by features: postings (row, value). One block takes a query, adds its
// features' postings into bounds in shared memory, and looks for bounds that reach its lists. Bounds
// are integers, so that their sums do not depend on an order; 1 unit is 2^-28 of the query's length
// times the longest row's. Each product is rounded up. Features that many rows have may be left out:
// the product of the lengths of what is left out bounds their share. Scores are exact: sums in
// double, in the order of the features.

#define SEARCH_ROWS 8192
#define SEARCH_TILE 256
#define SEARCH_LEVELS 8
#define CANDIDATES 256

// Postings from which on a whole block adds a feature.
#define LONG_POSTINGS 512

// A bound of rows that are not, or no longer, candidates.
#define NEVER (-2147483647 - 1)

// Beyond all bounds.
#define LARGEST_BOUND (1 << 30)

#define UNITS 268435456.0

// Bounds of what is left out may reach this share of the score to beat.
#define LEFT_OUT 0.5

// With more candidates in a chunk less is left out next time, with fewer more.
#define MANY 16
#define FEW 4

struct Posting {
    int row;
    float value;
};

// Counts the rows that have each feature.
KERNEL count_features(i64 n, const int* idx, int* counts) {
    EACH(k, n)
        atomicAdd(&counts[idx[k]], 1);
}

// Writes the first level at which a feature is left out: at level l those of 0.4 / 2^l of the rows.
KERNEL feature_levels(i64 n_features, i64 n_rows, const int* counts, int* feature_level) {
    EACH(j, n_features) {
        int l = 1;
        double least = 0.2 * (double)n_rows;
        while (l < SEARCH_LEVELS && counts[j] < least) {
            least *= 0.5;
            l++;
        }
        feature_level[j] = l;
    }
}

__device__ inline double warp_sum(double x) {
    for (int k = 16; k > 0; k >>= 1) x += __shfl_xor_sync(FULL, x, k);
    return x;
}

// Writes the length of each row; a warp owns a row.
KERNEL row_norms(i64 n, const i64* ptr, const double* val, double* norm) {
    int lane = threadIdx.x % 32;
    EACH_WARP(r, n) {
        double largest = 0.0, sum = 0.0;
        for (i64 k = ptr[r] + lane; k < ptr[r + 1]; k += 32)
            largest = fabs(val[k]) > largest ? fabs(val[k]) : largest;
        for (int k = 16; k > 0; k >>= 1) {
            double other = __shfl_xor_sync(FULL, largest, k);
            largest = other > largest ? other : largest;
        }
        if (largest > 0.0)
            for (i64 k = ptr[r] + lane; k < ptr[r + 1]; k += 32)
                sum += (val[k] / largest) * (val[k] / largest);
        sum = warp_sum(sum);
        if (lane == 0) norm[r] = largest * sqrt(sum);
    }
}

// Writes, for each level, the length of what is left out of a row, as a share of `scale` or, where
// that is 0, of the row's own length; rounded up. Row p is row place[p].
KERNEL lengths_left_out(
    i64 n, const int* place, const i64* ptr, const int* idx, const double* val, const int* feature_level,
    const double* norm, double scale, float* left_out
) {
    int lane = threadIdx.x % 32;
    EACH_WARP(p, n) {
        i64 r = place == nullptr ? p : (i64)place[p];
        double unit = scale > 0.0 ? scale : norm[r], sum[SEARCH_LEVELS];
        for (int l = 0; l < SEARCH_LEVELS; l++) sum[l] = 0.0;
        if (unit > 0.0)
            for (i64 k = ptr[r] + lane; k < ptr[r + 1]; k += 32) {
                double x = val[k] / unit;
                int first = feature_level[idx[k]];
#pragma unroll
                for (int l = 1; l < SEARCH_LEVELS; l++)
                    if (first <= l) sum[l] += x * x;
            }
#pragma unroll
        for (int l = 0; l < SEARCH_LEVELS; l++) {
            double x = warp_sum(sum[l]);
            if (lane == 0) left_out[l * n + p] = (float)(sqrt(x) * (1.0 + 1e-6));
        }
    }
}

// Counts the postings of each feature in a chunk of rows.
KERNEL count_postings(
    i64 first, i64 n_rows, const int* place, const i64* ptr, const int* idx, int* counts
) {
    EACH_WARP(p, n_rows) {
        i64 r = place[first + p];
        for (i64 k = ptr[r] + threadIdx.x % 32; k < ptr[r + 1]; k += 32)
            atomicAdd(&counts[idx[k]], 1);
    }
}

// Writes the postings of a chunk; takes all counts back to 0.
KERNEL fill_postings(
    i64 first, i64 n_rows, const int* place, const i64* ptr, const int* idx, const double* val,
    double scale, const i64* posting_end, int* counts, Posting* postings
) {
    EACH_WARP(p, n_rows) {
        i64 r = place[first + p];
        for (i64 k = ptr[r] + threadIdx.x % 32; k < ptr[r + 1]; k += 32) {
            int j = idx[k];
            i64 at = posting_end[j] - atomicAdd(&counts[j], -1);
            postings[at].row = (int)p;
            postings[at].value = (float)(val[k] / scale);
        }
    }
}

// Adds the upper bounds of products to the bounds of rows. Factors and product are rounded to 24
// bits, together by less than 2^-21 of the product.
__device__ inline void add_posting(int* bound, Posting posting, float value) {
    float product = value * posting.value;
    product *= product > 0.0f ? (float)(UNITS + 128.0) : (float)(UNITS - 128.0);
    atomicAdd(&bound[posting.row], __float2int_ru(product) + 1);
}

// The entries of a row, sorted by feature.
struct Entries {
    i64 begin, end;
    const int* idx;
    const double* val;
};

// The inner product of two rows, summed in the order of the features; all lanes of a warp get it.
__device__ inline double exact_product(const Entries& one, const Entries& other) {
    int lane = threadIdx.x % 32;
    double sum = 0.0;
    for (i64 k = one.begin; k < one.end; k += 32) {
        double product = 0.0;
        bool is_shared = false;
        if (k + lane < one.end) {
            int j = one.idx[k + lane];
            i64 low = other.begin, high = other.end;
            while (low < high) {
                i64 middle = (low + high) / 2;
                if (other.idx[middle] < j) low = middle + 1;
                else high = middle;
            }
            is_shared = low < other.end && other.idx[low] == j;
            if (is_shared) product = one.val[k + lane] * other.val[low];
        }
        unsigned left = __ballot_sync(FULL, is_shared);
        while (left) {
            sum += __shfl_sync(FULL, product, __ffs((int)left) - 1);
            left &= left - 1;
        }
    }
    return sum;
}

// A list of a query: the best first, `size` of the `want` that are wanted.
struct BestRows {
    double* scores;
    int* rows;
    int size, want;
};

// The score that a row must beat or equal, and the row of that score.
__device__ inline double score_to_beat(const BestRows& list) {
    return list.size < list.want ? -INF : list.scores[list.want - 1];
}

// Puts a row in its place of a list, by one warp; all its lanes know the list.
__device__ inline void insert(BestRows& list, double score, int row) {
    int lane = threadIdx.x % 32, before = 0;
    if (list.size == list.want &&
        !is_better(score, row, list.scores[list.want - 1], list.rows[list.want - 1]))
        return;
    for (int k = lane; k < list.size; k += 32)
        before += is_better(list.scores[k], list.rows[k], score, row);
    for (int k = 16; k > 0; k >>= 1) before += __shfl_xor_sync(FULL, before, k);
    int end = list.size < list.want ? list.size : list.want - 1;
    for (int top = end; top > before; top -= 32) {
        int k = top - 1 - lane, moved = 0;
        double x = 0.0;
        if (k >= before) {
            x = list.scores[k];
            moved = list.rows[k];
        }
        __syncwarp();
        if (k >= before) {
            list.scores[k + 1] = x;
            list.rows[k + 1] = moved;
        }
        __syncwarp();
    }
    __syncwarp();
    if (lane == 0) {
        list.scores[before] = score;
        list.rows[before] = row;
    }
    __syncwarp();
    if (list.size < list.want) list.size++;
}

// Which rows of a chunk a list may take: from `least` on; of those with bound `tied` only rows with
// smaller numbers than `before`.
struct Wanted {
    int low, high;  // rows of the query's label
    bool same;      // these, or all others
    int least, tied, before;
};

__device__ inline bool may_enter(const Wanted& wanted, int r, int bound, const int* number) {
    if (bound < wanted.least || bound == NEVER) return false;
    if ((r >= wanted.low && r < wanted.high) != wanted.same) return false;
    return bound != wanted.tied || number[r] < wanted.before;
}

// How many rows of the chunk may enter; every thread gets the number.
__device__ inline int count_candidates(
    const Wanted& wanted, const int* bound, int n_rows, const int* number
) {
    int n = 0;
    for (int r = threadIdx.x; r < n_rows; r += THREADS) n += may_enter(wanted, r, bound[r], number);
    return (int)block_sum((double)n);
}

// Raises the least bound until the candidates fit in their room, but leaves some where it can.
__device__ inline void raise_least(
    Wanted& wanted, const int* bound, int n_rows, const int* number
) {
    int low = wanted.least > -LARGEST_BOUND ? wanted.least : -LARGEST_BOUND;
    int high = LARGEST_BOUND, n_high = 0;
    while (high - low > 1 && n_high < CANDIDATES / 8) {
        wanted.least = low + (high - low) / 2;
        int n = count_candidates(wanted, bound, n_rows, number);
        if (n > CANDIDATES) {
            low = wanted.least;
        } else {
            high = wanted.least;
            n_high = n;
        }
    }
    wanted.least = n_high ? high : low;  // so many equal bounds: some of these
}

// Sets which rows may enter a list. Of rows with bound 0 where the score to beat is 0 only those can
// that have smaller numbers; all other scores to beat are rounded down.
__device__ inline void set_wanted(Wanted& wanted, const BestRows& list, double norm, double scale) {
    double beat = score_to_beat(list);
    wanted.tied = NEVER;
    wanted.before = 0;
    if (beat == -INF) {
        wanted.least = NEVER + 1;
    } else if (beat == 0.0) {
        wanted.least = wanted.tied = 0;
        wanted.before = list.rows[list.want - 1];
    } else {
        double units = floor(beat / norm / scale * UNITS);
        units = units < LARGEST_BOUND ? units : (double)LARGEST_BOUND;
        wanted.least = units > -LARGEST_BOUND ? (int)units : -LARGEST_BOUND;
    }
}

// Collects the rows that may enter, in any order; returns how many there are, which may be more than
// there is room for.
__device__ inline int collect(
    const Wanted& wanted, const int* bound, int n_rows, const int* number, int* candidate,
    int* n_found
) {
    __syncthreads();
    if (threadIdx.x == 0) *n_found = 0;
    __syncthreads();
    for (int r = threadIdx.x; r < n_rows; r += THREADS)
        if (may_enter(wanted, r, bound[r], number)) {
            int at = atomicAdd(n_found, 1);
            if (at < CANDIDATES) candidate[at] = r;
        }
    __syncthreads();
    return *n_found;
}

// Looks for the neighbors of all queries in one chunk of rows: positions [first, first + n_rows) of
// `place`, whose rows have the numbers `number`. Positions [same_first, same_last) have the query's
// label; `own` is the position that is no candidate.
KERNEL search_chunk(
    i64 n_queries, i64 first, i64 n_rows, i64 n_places, const int* place, const int* number,
    const i64* ptr, const int* idx, const double* val, const float* left_out, double scale,
    const i64* posting_end, const Posting* postings, const int* feature_level, const double* mean_left_out,
    const i64* query_ptr, const int* query_idx, const double* query_val, const double* query_norm,
    const float* query_left_out, const i64* own_place, const i64* same_first, const i64* same_last,
    i64 same_width, const int* want_same, double* same_scores, int* same_rows, int* same_size,
    i64 other_width, const int* want_other, double* other_scores, int* other_rows, int* other_size,
    int* most_level
) {
    __shared__ int bound[SEARCH_ROWS];
    __shared__ i64 tile_first[SEARCH_TILE];
    __shared__ int tile_size[SEARCH_TILE], tile_long[SEARCH_TILE];
    __shared__ float tile_value[SEARCH_TILE];
    __shared__ int candidate[CANDIDATES];
    __shared__ double score[CANDIDATES];
    __shared__ int n_long, n_found, new_size;
    int t = threadIdx.x, n = (int)n_rows;
    for (i64 q = blockIdx.x; q < n_queries; q += gridDim.x) {
        i64 a = same_first[q] - first, b = same_last[q] - first;
        int low = (int)(a < 0 ? 0 : a < n ? a : n), high = (int)(b < 0 ? 0 : b < n ? b : n);
        BestRows lists[2] = {
            {other_scores + q * other_width, other_rows + q * other_width, other_size[q],
             high - low < n ? want_other[q] : 0},
            {same_scores + q * same_width, same_rows + q * same_width, same_size[q],
             high > low ? want_same[q] : 0},
        };
        if (lists[0].want == 0 && lists[1].want == 0) continue;

        // How much can be left out, given the lower of the scores to beat.
        double norm = query_norm[q], beat = INF;
        for (int s = 0; s < 2; s++)
            if (lists[s].want) {
                double own_beat = score_to_beat(lists[s]);
                beat = own_beat < beat ? own_beat : beat;
            }
        int level = 0, most = most_level[q];
        if (beat > 0.0) {
            double room = LEFT_OUT * beat / norm / scale;
            level = most;
            while (level > 0 && query_left_out[level * n_queries + q] * mean_left_out[level] > room)
                level--;
        }
        float out_of_bounds = level ? query_left_out[level * n_queries + q] * (float)UNITS : 0.0f;
        if (out_of_bounds > 0.0f) {
            const float* of = left_out + level * n_places + first;
            for (int r = t; r < n; r += THREADS)  // lengths are rounded up by more than this is down
                bound[r] = of[r] > 0.0f ? __float2int_ru(out_of_bounds * of[r]) + 1 : 0;
        } else {
            for (int r = t; r < n; r += THREADS) bound[r] = 0;
        }

        // Upper bounds of all inner products.
        i64 end = query_ptr[q + 1];
        for (i64 k = query_ptr[q]; k < end; k += SEARCH_TILE) {
            int n_tile = (int)(end - k < SEARCH_TILE ? end - k : SEARCH_TILE);
            if (t == 0) n_long = 0;
            __syncthreads();
            if (t < n_tile) {
                int j = query_idx[k + t], size = 0;
                i64 begin = j ? posting_end[j - 1] : 0;
                if (feature_level[j] > level) size = (int)(posting_end[j] - begin);
                tile_first[t] = begin;
                tile_value[t] = (float)(query_val[k + t] / norm);
                if (size >= LONG_POSTINGS) tile_long[atomicAdd(&n_long, 1)] = t;
                tile_size[t] = size;
            }
            __syncthreads();
            for (int f = 0; f < n_long; f++) {
                int at = tile_long[f], size = tile_size[at];
                float value = tile_value[at];
                const Posting* of = postings + tile_first[at];
                for (int p = t; p < size; p += THREADS) add_posting(bound, of[p], value);
            }
            for (int at = t / LANES; at < n_tile; at += THREADS / LANES) {
                int size = tile_size[at];
                if (size >= LONG_POSTINGS) continue;
                float value = tile_value[at];
                const Posting* of = postings + tile_first[at];
                for (int p = t % LANES; p < size; p += LANES) add_posting(bound, of[p], value);
            }
            __syncthreads();
        }
        __syncthreads();
        if (t == 0 && own_place != nullptr && own_place[q] >= first && own_place[q] < first + n)
            bound[own_place[q] - first] = NEVER;
        __syncthreads();

        // Exact scores of the rows that may enter a list.
        int n_scored = 0;
        for (int s = 0; s < 2; s++) {
            BestRows& list = lists[s];
            if (list.want == 0) continue;
            Wanted wanted;
            wanted.low = low;
            wanted.high = high;
            wanted.same = s == 1;
            for (bool is_all = false; !is_all;) {
                set_wanted(wanted, list, norm, scale);
                int n_taken = collect(wanted, bound, n, number + first, candidate, &n_found);
                is_all = n_taken <= CANDIDATES;
                if (!is_all) {
                    raise_least(wanted, bound, n, number + first);
                    n_taken = collect(wanted, bound, n, number + first, candidate, &n_found);
                    n_taken = n_taken < CANDIDATES ? n_taken : CANDIDATES;
                }
                for (int c = t / 32; c < n_taken; c += THREADS / 32) {
                    i64 r = place[first + candidate[c]];
                    Entries row = {ptr[r], ptr[r + 1], idx, val};
                    Entries query = {query_ptr[q], end, query_idx, query_val};
                    bool is_long = row.end - row.begin > 4 * (end - query.begin);
                    double x = exact_product(is_long ? query : row, is_long ? row : query);
                    if (t % 32 == 0) {
                        score[c] = x;
                        bound[candidate[c]] = NEVER;
                    }
                }
                __syncthreads();
                if (t < 32) {
                    for (int c = 0; c < n_taken; c++)
                        insert(list, score[c], number[first + candidate[c]]);
                    if (t == 0) new_size = list.size;
                }
                __syncthreads();
                list.size = new_size;
                n_scored += n_taken;
            }
        }
        if (t == 0) {
            if (lists[0].want) other_size[q] = lists[0].size;
            if (lists[1].want) same_size[q] = lists[1].size;
            if (level > 0 && n_scored > MANY) most_level[q] = level - 1;
            else if (n_scored < FEW && most < SEARCH_LEVELS - 1) most_level[q] = most + 1;
        }
        __syncthreads();
    }
}
