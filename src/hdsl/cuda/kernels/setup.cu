// What is computed once: rows with sorted features, products of compared rows, terms of pairs.

// The segment that entry k belongs to.
__device__ inline i64 segment_of(i64 k, const i64* ptr, i64 n) {
    i64 low = 0, high = n;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (ptr[middle] <= k) low = middle;
        else high = middle;
    }
    return low;
}

// Writes features and values of X by rows from its columns; order[q] is the place of entry q there.
KERNEL transpose(
    i64 n, i64 n_features, const i64* order, const i64* ptr, const stored* val, int* feature,
    stored* value
) {
    for (i64 q = blockIdx.x * (i64)THREADS + threadIdx.x; q < n; q += gridDim.x * (i64)THREADS) {
        i64 k = order[q];
        feature[q] = (int)segment_of(k, ptr, n_features);
        value[q] = val[k];
    }
}

// The value of a feature in a row with sorted features; 0 where it has none.
__device__ inline double value_at(
    const i64* row_ptr, const int* feature, const stored* value, int row, int j
) {
    i64 low = row_ptr[row], end = row_ptr[row + 1], high = end;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (feature[middle] < j) low = middle + 1;
        else high = middle;
    }
    return low < end && feature[low] == j ? value[low] : 0.0;
}

// For every entry (a, j) of X by columns, the pairs {a, b}, b >= a, whose rows share feature j:
// counts them, or writes pair and product from `at` on. So products come sorted by feature and pair.
KERNEL pair_products(
    i64 nnz, i64 n_features, const i64* col_ptr, const int* col_idx, const stored* col_val,
    const i64* row_ptr, const int* feature, const stored* value, const i64* link_ptr,
    const int* neighbor, const int* pair, int* counts, const i64* upto, int* out_pair,
    double* out_product
) {
    for (i64 k = blockIdx.x * (i64)THREADS + threadIdx.x; k < nnz;
         k += gridDim.x * (i64)THREADS) {
        int a = col_idx[k], j = (int)segment_of(k, col_ptr, n_features), n = 0;
        i64 at = counts == nullptr && k > 0 ? upto[k - 1] : 0;
        for (i64 e = link_ptr[a]; e < link_ptr[a + 1]; e++) {
            int b = neighbor[e];
            // A row with itself is listed twice, one after the other, and counts once.
            if (b < a || (b == a && e > link_ptr[a] && pair[e - 1] == pair[e])) continue;
            double y = b == a ? col_val[k] : value_at(row_ptr, feature, value, b, j);
            if (y == 0.0) continue;
            if (counts == nullptr) {
                out_pair[at + n] = pair[e];
                out_product[at + n] = col_val[k] * y;
            }
            n++;
        }
        if (counts != nullptr) counts[k] = n;
    }
}

// Writes where the products of each feature begin, from the running counts of the entries of X.
KERNEL product_pointers(i64 n_features, const i64* col_ptr, const i64* upto, i64* out) {
    for (i64 j = blockIdx.x * (i64)THREADS + threadIdx.x; j <= n_features;
         j += gridDim.x * (i64)THREADS)
        out[j] = col_ptr[j] > 0 ? upto[col_ptr[j] - 1] : 0;
}

// Writes the pair numbers of both sides of the comparisons, side by side.
KERNEL interleave(i64 n, const int* positive, const int* negative, int* out) {
    for (i64 t = blockIdx.x * (i64)THREADS + threadIdx.x; t < n; t += gridDim.x * (i64)THREADS) {
        out[2 * t] = positive[t];
        out[2 * t + 1] = negative[t];
    }
}

// Writes the comparisons of each pair: t where it is to win, ~t where it is to lose. `order` sorts
// the interleaved pair numbers, and every pair is in a comparison.
KERNEL pair_terms(i64 n, i64 n_pairs, const i64* order, const int* number, i64* ptr, int* term) {
    for (i64 q = blockIdx.x * (i64)THREADS + threadIdx.x; q < n; q += gridDim.x * (i64)THREADS) {
        i64 from = order[q];
        int t = (int)(from / 2);
        term[q] = from % 2 ? ~t : t;
        if (q == 0 || number[order[q - 1]] != number[from]) ptr[number[from]] = q;
        if (q == n - 1) ptr[n_pairs] = n;
    }
}

// Writes, for each of some segments, where its entries reach each multiple of `step`.
KERNEL cut_segments(
    i64 n_segments, i64 n_cuts, i64 step, const i64* segment, const i64* ptr, const int* idx,
    i64* out
) {
    for (i64 k = blockIdx.x * (i64)THREADS + threadIdx.x; k < n_segments * n_cuts;
         k += gridDim.x * (i64)THREADS) {
        i64 q = segment[k / n_cuts], low = ptr[q], high = ptr[q + 1];
        i64 wanted = (k % n_cuts + 1) * step;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (idx[middle] < wanted) low = middle + 1;
            else high = middle;
        }
        out[k] = low;
    }
}

// Writes, per feature, the links of all rows that have it: most terms of a pair that it leads.
KERNEL count_links(
    i64 n_features, const i64* ptr, const int* idx, const i64* link_ptr, double* out
) {
    for (i64 j = blockIdx.x; j < n_features; j += gridDim.x) {
        double total = 0.0;
        for (i64 k = ptr[j] + threadIdx.x; k < ptr[j + 1]; k += THREADS)
            total += (double)(link_ptr[idx[k] + 1] - link_ptr[idx[k]]);
        total = block_sum(total);
        if (threadIdx.x == 0) out[j] = total;
    }
}
