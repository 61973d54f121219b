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

// Writes X by columns from its rows, or by rows from its columns: the n_segments segments and values of
// its entries, of which order[q] is to come as the q-th.
KERNEL transpose(
    i64 n, i64 n_segments, const i64* order, const i64* ptr, const double* val, int* out_idx,
    double* out_val
) {
    EACH(q, n) {
        i64 k = order[q];
        out_idx[q] = (int)segment_of(k, ptr, n_segments);
        out_val[q] = val[k];
    }
}

// The value of a feature in a row with sorted features; 0 where it has none.
__device__ inline double value_at(
    const i64* row_ptr, const int* row_idx, const double* row_val, int row, int j
) {
    i64 end = row_ptr[row + 1], at = place_of(row_idx, row_ptr[row], end, j);
    return at < end && row_idx[at] == j ? row_val[at] : 0.0;
}

// For every entry (a, j) of X by columns, the pairs {a, b}, b >= a, whose rows share feature j:
// counts them, or writes pair and product from `at` on. So products come sorted by feature and pair.
KERNEL pair_products(
    i64 n, i64 n_features, const i64* feature_ptr, const int* feature_row, const double* feature_val,
    const i64* row_ptr, const int* row_idx, const double* row_val, const i64* link_ptr,
    const int* neighbor, const int* link_pair, int* counts, const i64* n_upto, int* out_pair,
    double* out_product
) {
    EACH(k, n) {
        int a = feature_row[k], j = (int)segment_of(k, feature_ptr, n_features), n_products = 0;
        i64 at = counts == nullptr && k > 0 ? n_upto[k - 1] : 0;
        for (i64 e = link_ptr[a]; e < link_ptr[a + 1]; e++) {
            int b = neighbor[e];
            // A row with itself is listed twice, one after the other, and counts once.
            if (b < a || (b == a && e > link_ptr[a] && link_pair[e - 1] == link_pair[e])) continue;
            double y = b == a ? feature_val[k] : value_at(row_ptr, row_idx, row_val, b, j);
            if (y == 0.0) continue;
            if (counts == nullptr) {
                out_pair[at + n_products] = link_pair[e];
                out_product[at + n_products] = feature_val[k] * y;
            }
            n_products++;
        }
        if (counts != nullptr) counts[k] = n_products;
    }
}

// Writes where the products of each feature begin, from the running counts of the entries of X.
KERNEL product_pointers(i64 n_features, const i64* feature_ptr, const i64* n_upto, i64* product_ptr) {
    EACH(j, n_features + 1)
        product_ptr[j] = feature_ptr[j] > 0 ? n_upto[feature_ptr[j] - 1] : 0;
}

// --- pairs of rows -------------------------------------------------------------------------------

// Writes a * n_rows + b, the smaller row first, for both pairs of each comparison side by side.
KERNEL pair_keys(
    i64 n, i64 n_rows, const int* a, const int* b, const int* c, const int* d, i64* keys
) {
    EACH(t, n) {
        i64 w = a[t], x = b[t], y = d == nullptr ? a[t] : c[t], z = d == nullptr ? c[t] : d[t];
        keys[2 * t] = w < x ? w * n_rows + x : x * n_rows + w;
        keys[2 * t + 1] = y < z ? y * n_rows + z : z * n_rows + y;
    }
}

// Writes whether each of the sorted keys is the first of its kind.
KERNEL first_keys(i64 n, const i64* order, const i64* keys, int* is_first) {
    EACH(q, n)
        is_first[q] = q == 0 || keys[order[q - 1]] != keys[order[q]];
}

// Writes the rows of each pair, the numbers of the pairs of all comparisons, and the comparisons of
// each pair: t where it is to win, ~t where it is to lose. `order` sorts the keys, and `upto` counts
// the different ones.
KERNEL list_pairs(
    i64 n, i64 n_rows, const i64* order, const i64* keys, const i64* n_upto, int* a, int* b, int* side,
    i64* signed_ptr, int* signed_comparison
) {
    EACH(q, n) {
        i64 from = order[q], s = n_upto[q] - 1;
        int t = (int)(from / 2);
        side[from] = (int)s;
        signed_comparison[q] = from % 2 ? ~t : t;
        if (q == 0 || n_upto[q - 1] != n_upto[q]) {
            signed_ptr[s] = q;
            a[s] = (int)(keys[from] / n_rows);
            b[s] = (int)(keys[from] % n_rows);
        }
        if (q == n - 1) signed_ptr[s + 1] = n;
    }
}

// Writes two lists of numbers side by side.
KERNEL interleave(i64 n, const int* a, const int* b, int* out) {
    EACH(s, n) {
        out[2 * s] = a[s];
        out[2 * s + 1] = b[s];
    }
}

// Writes, for each row, the rows that it is compared with and these pairs; `order` sorts `row`, which
// has the rows of all pairs side by side.
KERNEL list_links(i64 n_links, const i64* order, const int* row, int* neighbor, int* link_pair) {
    EACH(q, n_links) {
        neighbor[q] = row[order[q] ^ 1];
        link_pair[q] = (int)(order[q] / 2);
    }
}

// Writes where each key from 0 to n_keys begins among n sorted ones.
KERNEL key_bounds(i64 n_keys, i64 n, const i64* order, const int* key, i64* bounds) {
    EACH(r, n_keys + 1) {
        i64 low = 0, high = n;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (key[order[middle]] < r) low = middle + 1;
            else high = middle;
        }
        bounds[r] = low;
    }
}

// --- sizes ---------------------------------------------------------------------------------------

// Writes the largest absolute value of each row, and the sums of squares and of fourth powers relative
// to it, whose own fourth power may not be a number.
KERNEL row_sizes(
    i64 n_rows, const i64* ptr, const double* val, double* largest, double* second, double* fourth
) {
    EACH(r, n_rows) {
        double size = 0.0, two = 0.0, four = 0.0;
        for (i64 k = ptr[r]; k < ptr[r + 1]; k++) size = fabs(val[k]) > size ? fabs(val[k]) : size;
        for (i64 k = ptr[r]; k < ptr[r + 1]; k++) {
            double square = val[k] / size * (val[k] / size);
            two += square;
            four += square * square;
        }
        largest[r] = size;
        second[r] = two;
        fourth[r] = four;
    }
}

// Writes, for each of some segments, where its entries reach each multiple of `step`.
KERNEL cut_segments(
    i64 n_segments, i64 n_cuts, i64 block, const i64* segment, const i64* ptr, const int* idx,
    i64* cuts
) {
    EACH(k, n_segments * n_cuts) {
        i64 q = segment[k / n_cuts];
        cuts[k] = place_of(idx, ptr[q], ptr[q + 1], (k % n_cuts + 1) * block);
    }
}
