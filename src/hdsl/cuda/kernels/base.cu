// What all kernels share. Integers come as i64 and numbers as double; a block has 256 threads.
//
// The order of every sum is a constant of the problem: threads sum fixed items, chunks are summed by
// one block, and the sums of chunks by the last block that ends. Which block does what depends on
// the card, and no result depends on that.

typedef long long i64;

#define KERNEL extern "C" __global__ void
#define THREADS 256
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu

// Loops in which each thread, or each warp, of the grid takes its share of n items.
#define EACH(k, n) \
    for (i64 k = blockIdx.x * (i64)THREADS + threadIdx.x; k < (n); k += gridDim.x * (i64)THREADS)
#define EACH_WARP(k, n) \
    for (i64 k = blockIdx.x * (i64)WARPS + threadIdx.x / 32; k < (n); k += gridDim.x * (i64)WARPS)

// Comparisons whose terms one block sums, one chunk after the other.
#define CHUNK 2048
#define CHUNKS(n) (((n) + CHUNK - 1) / CHUNK)
#define EACH_CHUNK(chunk, n) for (i64 chunk = blockIdx.x; chunk < CHUNKS(n); chunk += gridDim.x)
#define EACH_OF_CHUNK(t, chunk, n) \
    for (i64 t = chunk * CHUNK + threadIdx.x, end_##t = min((chunk + 1) * CHUNK, n); t < end_##t; \
         t += THREADS)

// A kernel for all losses and weights, and another one, `name_plain`, for the smoothed hinge with equal
// weights.
#define VARIANTS(name, parameters, arguments) \
    KERNEL name parameters { name##_of<false> arguments; } \
    KERNEL name##_plain parameters { name##_of<true> arguments; }

#define INF __longlong_as_double(0x7ff0000000000000LL)

// --- losses of one margin: the value, and its first two derivatives -----------------------------

enum { SMOOTHED_HINGE, SQUARED_HINGE, LOGISTIC, EXPONENTIAL };

// Below this margin the exponential loss goes on as its tangent.
#define TAIL (-30.0)

__device__ inline double loss_value(i64 code, double m) {
    if (code == SMOOTHED_HINGE) {
        double y = m > 0.0 ? m : 0.0;
        y = y < 1.0 ? y : 1.0;
        return 0.5 * (1.0 - y) * (1.0 - y) - (m < 0.0 ? m : 0.0);
    }
    if (code == SQUARED_HINGE) return m < 1.0 ? (1.0 - m) * (1.0 - m) : 0.0;
    if (code == LOGISTIC) return m > 0.0 ? log1p(exp(-m)) : log1p(exp(m)) - m;
    return m >= TAIL ? exp(-m) : exp(-TAIL) * (1.0 + TAIL - m);
}

__device__ inline double loss_slope(i64 code, double m) {
    if (code == SMOOTHED_HINGE) {
        double y = m > 0.0 ? m : 0.0;
        return (y < 1.0 ? y : 1.0) - 1.0;
    }
    if (code == SQUARED_HINGE) return m < 1.0 ? 2.0 * (m - 1.0) : 0.0;
    if (code == LOGISTIC) return m > 0.0 ? -exp(-m) / (1.0 + exp(-m)) : -1.0 / (1.0 + exp(m));
    return -exp(-(m > TAIL ? m : TAIL));
}

__device__ inline double loss_curvature(i64 code, double m) {
    if (code == SMOOTHED_HINGE) return m >= 0.0 && m <= 1.0 ? 1.0 : 0.0;
    if (code == SQUARED_HINGE) return m < 1.0 ? 2.0 : 0.0;
    if (code == LOGISTIC) {
        double e = exp(-fabs(m));
        return e / ((1.0 + e) * (1.0 + e));
    }
    return m >= TAIL ? exp(-m) : 0.0;
}

// --- sums and maxima of a block ------------------------------------------------------------------

// Returns the sum over the block, in the same order always, to every thread.
__device__ inline double block_sum(double x) {
    __shared__ double part[WARPS];
    for (int k = 16; k > 0; k >>= 1) x += __shfl_down_sync(FULL, x, k);
    __syncthreads();  // the last result has been read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
    for (int k = 1; k < WARPS; k++) x += part[k];
    return x;
}

__device__ inline double block_max(double x) {
    __shared__ double part[WARPS];
    for (int k = 16; k > 0; k >>= 1) {
        double other = __shfl_down_sync(FULL, x, k);
        x = other > x ? other : x;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
    for (int k = 1; k < WARPS; k++) x = part[k] > x ? part[k] : x;
    return x;
}

// Returns the sum of what blocks have written.
__device__ inline double sum_parts(const double* part, i64 n) {
    const volatile double* fresh = part;
    double x = 0.0;
    for (i64 k = threadIdx.x; k < n; k += THREADS) x += fresh[k];
    return block_sum(x);
}

__device__ inline double max_parts(const double* part, i64 n) {
    const volatile double* fresh = part;
    double x = -INF;
    for (i64 k = threadIdx.x; k < n; k += THREADS) x = fresh[k] > x ? fresh[k] : x;
    return block_max(x);
}

// Whether this is the last block of the grid to get here: all others have written their parts.
__device__ inline bool is_last_block(unsigned* ticket) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
        if (last) *ticket = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

// A value, and the place where it was found: the larger value wins, then the smaller place.
__device__ inline bool is_better(double value, i64 place, double other, i64 other_place) {
    return value > other || (value == other && place < other_place);
}

// The first of the sorted entries [low, high) that is not below a number.
__device__ inline i64 place_of(const int* idx, i64 low, i64 high, i64 wanted) {
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (idx[middle] < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
}
