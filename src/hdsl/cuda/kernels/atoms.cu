// Many atoms at once. Row r of Z holds z_rk = x_ri ± x_rj of the atoms k that have a feature of row r,
// by rising atoms. What an atom adds to the similarity of a pair of rows is z_ak z_bk.

// --- rows of atoms -------------------------------------------------------------------------------

// Marks the features that atoms use by 1, 2, ..., or clears the marks.
KERNEL mark_features(i64 n, const i64* features, i64 is_set, int* mark) {
    EACH(f, n)
        mark[features[f]] = is_set ? (int)f + 1 : 0;
}

// Counts the atoms of each row, or lists them from ptr[row] on, in the order of the features. Feature
// marked f has the atoms list_atom[list_ptr[f - 1]:list_ptr[f]]. An atom with both features in a row
// belongs to the first. A warp owns a row.
KERNEL atom_rows(
    i64 n_rows, const i64* row_ptr, const int* row_idx, const double* row_val, const int* mark,
    const i64* list_ptr, const int* list_atom, const i64* atoms, int* counts, const i64* ptr,
    int* atom, double* z
) {
    int lane = threadIdx.x % 32;
    EACH_WARP(row, n_rows) {
        i64 done = counts == nullptr ? ptr[row] : 0, end = row_ptr[row + 1];
        for (i64 base = row_ptr[row]; base < end; base += 32) {
            i64 e = base + lane;
            int f = e < end ? mark[row_idx[e]] : 0, before = 0, total = 0;
            for (int writes = 0; writes < (counts == nullptr ? 2 : 1); writes++) {
                i64 n = 0;
                for (i64 q = f ? list_ptr[f - 1] : 0; f && q < list_ptr[f]; q++) {
                    int k = list_atom[q];
                    bool is_first = atoms[3 * k] == row_idx[e];
                    i64 other = atoms[3 * k + is_first];
                    double sign = (double)atoms[3 * k + 2];
                    double y = value_at(row_ptr, row_idx, row_val, (int)row, (int)other);
                    if (!is_first && y != 0.0) continue;
                    if (writes) {
                        atom[done + before + n] = k;
                        z[done + before + n] = is_first ? row_val[e] + sign * y : sign * row_val[e];
                    }
                    n++;
                }
                if (writes) break;
                int upto = (int)n;
                for (int k = 1; k < 32; k <<= 1) {
                    int left = __shfl_up_sync(FULL, upto, k);
                    if (lane >= k) upto += left;
                }
                before = upto - (int)n;
                total = __shfl_sync(FULL, upto, 31);
            }
            done += total;
        }
        if (counts != nullptr && lane == 0) counts[row] = (int)done;
    }
}

// Writes the atoms of each row in rising order: each goes where the number of smaller ones says.
KERNEL sort_rows(
    i64 n_rows, const i64* ptr, const int* atom, const double* z, int* out_atom, double* out_z
) {
    EACH_WARP(row, n_rows)
        for (i64 e = ptr[row] + threadIdx.x % 32; e < ptr[row + 1]; e += 32) {
            i64 place = ptr[row];
            for (i64 k = ptr[row]; k < ptr[row + 1]; k++) place += atom[k] < atom[e];
            out_atom[place] = atom[e];
            out_z[place] = z[e];
        }
}

// --- one number per pair of rows -----------------------------------------------------------------

// Calls take(k, z_ak z_bk) for all k that two sorted rows share, by rising k.
template <class Take>
__device__ inline void for_shared(
    int a, int b, const i64* ptr, const int* idx, const double* val, Take take
) {
    i64 p = ptr[a], q = ptr[b], p_end = ptr[a + 1], q_end = ptr[b + 1];
    while (p < p_end && q < q_end) {
        int x = idx[p], y = idx[q];
        if (x == y) take(x, val[p] * val[q]);
        p += x <= y;
        q += y <= x;
    }
}

// out = base * out + factor * Σ_k weight_k z_ak z_bk for each pair; all weights are 1 without them.
// With X for Z these are inner products.
KERNEL pair_values(
    i64 n_pairs, const int* a, const int* b, const i64* ptr, const int* idx, const double* val,
    const double* weight, double factor, double base, double* out
) {
    EACH(s, n_pairs) {
        double total = 0.0;
        for_shared(a[s], b[s], ptr, idx, val, [&](int k, double x) {
            total += weight == nullptr ? x : weight[k] * x;
        });
        out[s] = base == 0.0 ? factor * total : base * out[s] + factor * total;
    }
}

// Adds the inner products of the embeddings of each pair of rows, in float64.
KERNEL add_embedding_products(
    i64 n_pairs, i64 width, const int* a, const int* b, const float* dense, double* out
) {
    EACH(s, n_pairs) {
        const float* x = dense + a[s] * width;
        const float* y = dense + b[s] * width;
        double total = 0.0;
        for (i64 j = 0; j < width; j++) total += (double)x[j] * (double)y[j];
        out[s] += total;
    }
}

// Adds Σ_k factor_k v_ak v_bk of each pair of rows, whose numbers v_k stand side by side.
KERNEL add_direction_products(
    i64 n_pairs, i64 width, const int* a, const int* b, const double* along, const double* factors,
    double* out
) {
    EACH(s, n_pairs) {
        const double* x = along + a[s] * width;
        const double* y = along + b[s] * width;
        double total = 0.0;
        for (i64 k = 0; k < width; k++) total += factors[k] * (x[k] * y[k]);
        out[s] += total;
    }
}

// Writes for the rows [first, first + n) the weighted sum of the embeddings that they are compared with.
KERNEL sum_neighbors(
    i64 first, i64 n, i64 width, const i64* ptr, const int* neighbor, const double* weight,
    const float* dense, float* out
) {
    for (i64 row = blockIdx.x; row < n; row += gridDim.x)
        for (i64 j = threadIdx.x; j < width; j += THREADS) {
            float total = 0.0f;
            for (i64 link = ptr[first + row]; link < ptr[first + row + 1]; link++) {
                float by = (float)weight[link];
                if (by != 0.0f) total += by * dense[neighbor[link] * width + j];
            }
            out[row * width + j] = total;
        }
}

// out = factor * (margins - offset).
KERNEL learned_margins(i64 n, double factor, const double* margins, const double* offset, double* out) {
    EACH(t, n) out[t] = factor * (offset == nullptr ? margins[t] : margins[t] - offset[t]);
}

// out = base * out + factor * the margins of pairs with these numbers; side[2t] is to beat the next.
KERNEL pair_margins(
    i64 n, const int* side, const double* by_pair, double factor, double base, double* out
) {
    EACH(t, n) {
        double m = factor * (by_pair[side[2 * t]] - by_pair[side[2 * t + 1]]);
        out[t] = base == 0.0 ? m : base * out[t] + m;
    }
}

// --- scores --------------------------------------------------------------------------------------

// Atoms that a warp sums at a time.
#define SCORE_TILE 512

// Writes Σ_s w_s z_ak z_bk over each chunk of pairs, for every atom k. A warp takes one pair after the
// other; its lanes have different atoms.
KERNEL score_parts(
    i64 n_pairs, i64 chunk, i64 n_atoms, const int* a, const int* b, const double* w,
    const i64* ptr, const int* atom, const double* z, double* partial
) {
    __shared__ double shared_sums[WARPS][SCORE_TILE];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double* sums = shared_sums[warp];
    i64 n_chunks = (n_pairs + chunk - 1) / chunk;
    EACH_WARP(c, n_chunks) {
        i64 end = (c + 1) * chunk < n_pairs ? (c + 1) * chunk : n_pairs;
        for (i64 left = 0; left < n_atoms; left += SCORE_TILE) {
            for (int l = lane; l < SCORE_TILE; l += 32) sums[l] = 0.0;
            __syncwarp();
            for (i64 s = c * chunk; s < end; s++) {
                double by = w[s];
                if (by == 0.0) continue;  // for all lanes
                i64 from = ptr[b[s]], upto = ptr[b[s] + 1];
                for (i64 e = ptr[a[s]] + lane; e < ptr[a[s] + 1]; e += 32) {
                    int k = atom[e];
                    if (k < left || k >= left + SCORE_TILE) continue;
                    i64 at = place_of(atom, from, upto, k);
                    if (at < upto && atom[at] == k) sums[k - left] += by * (z[e] * z[at]);
                }
                __syncwarp();  // the next pair may change the same sums
            }
            for (i64 l = lane; l < SCORE_TILE && left + l < n_atoms; l += 32)
                partial[c * n_atoms + left + l] = sums[l];
            __syncwarp();
        }
    }
}

// Adds the parts of each atom: a block owns an atom.
KERNEL add_parts(i64 n_parts, i64 n_atoms, const double* partial, double* out) {
    for (i64 k = blockIdx.x; k < n_atoms; k += gridDim.x) {
        double total = 0.0;
        for (i64 c = threadIdx.x; c < n_parts; c += THREADS) total += partial[c * n_atoms + k];
        total = block_sum(total);
        if (threadIdx.x == 0) out[k] = total;
    }
}

// Parts that the score of an atom is summed in.
#define SCORE_PARTS 32

// Turns n counts after upto[0] into their running sums; for one block.
__device__ inline void add_counts(i64 n, i64* n_upto) {
    __shared__ i64 sums[THREADS];
    volatile i64* fresh = n_upto + 1;
    i64 first = n * threadIdx.x / THREADS, last = n * (threadIdx.x + 1) / THREADS, total = 0;
    for (i64 k = first; k < last; k++) total += fresh[k];
    sums[threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (unsigned t = 0; t < threadIdx.x; t++) total += sums[t];
    for (i64 k = first; k < last; k++) fresh[k] = total += fresh[k];
    if (threadIdx.x == 0) n_upto[0] = 0;
}

// Counts the pairs of the chunks up to each where u_a u_b is not 0, and finds room for them in a
// store, or lists them there with the products. A warp owns a chunk. atom[3] says whether it is new.
KERNEL atom_terms(
    const i64* atom, i64 n_pairs, i64 chunk, const int* a, const int* b, const double* u,
    i64* n_upto, unsigned* ticket, i64 capacity, i64* store, int* pair, double* value
) {
    bool counts = pair == nullptr;
    i64 n_chunks = (n_pairs + chunk - 1) / chunk, first_term = counts ? 0 : n_upto[n_chunks + 1];
    int lane = threadIdx.x % 32;
    if (atom[3] == 0 || first_term < 0) return;
    EACH_WARP(c, n_chunks) {
        i64 n = counts ? 0 : first_term + n_upto[c];
        i64 end = (c + 1) * chunk < n_pairs ? (c + 1) * chunk : n_pairs;
        for (i64 first = c * chunk; first < end; first += 32) {
            i64 s = first + lane;
            double x = s < end ? u[a[s]] : 0.0;
            if (x != 0.0) x *= u[b[s]];
            unsigned found = __ballot_sync(FULL, x != 0.0);
            if (!counts && x != 0.0) {
                i64 at = n + __popc(found & ((1u << lane) - 1));
                pair[at] = (int)s;
                value[at] = x;
            }
            n += __popc(found);
        }
        if (counts && lane == 0) n_upto[c + 1] = n;
    }
    if (!counts || !is_last_block(ticket)) return;
    add_counts(n_chunks, n_upto);
    __syncthreads();
    if (threadIdx.x != 0) return;
    i64 n = n_upto[n_chunks], *own = store + 2 + 2 * store[0];
    bool fits = store[1] + n <= capacity;
    own[0] = store[1];
    own[1] = n;
    n_upto[n_chunks + 1] = fits ? store[1] : -1;
    store[0] += fits;
    store[1] += fits ? n : 0;
}

// Sums Σ w[pair] * value for each atom of a store.
KERNEL term_sums(
    const i64* store, const int* pair, const double* value, const double* w, double* partial,
    unsigned* ticket, double* out
) {
    for (i64 job = blockIdx.x; job < store[0] * SCORE_PARTS; job += gridDim.x) {
        const i64* own = store + 2 + 2 * (job / SCORE_PARTS);
        i64 p = job % SCORE_PARTS, end = own[0] + own[1] * (p + 1) / SCORE_PARTS;
        double total = 0.0;
        for (i64 q = own[0] + own[1] * p / SCORE_PARTS + threadIdx.x; q < end; q += THREADS)
            total += w[pair[q]] * value[q];
        total = block_sum(total);
        if (threadIdx.x == 0) partial[job] = total;
    }
    if (!is_last_block(ticket)) return;
    const volatile double* fresh = partial;
    for (i64 k = threadIdx.x; k < store[0]; k += THREADS) {
        double total = 0.0;
        for (int p = 0; p < SCORE_PARTS; p++) total += fresh[k * SCORE_PARTS + p];
        out[k] = total;
    }
}

// --- second derivatives --------------------------------------------------------------------------

// Marks which of every stride-th comparison have a curved loss, or lists them by the sums of marks.
KERNEL curved(i64 code, i64 n, i64 stride, const double* margins, const i64* n_upto, int* out) {
    EACH(s, n) {
        bool is_curved = loss_curvature(code, margins[s * stride]) != 0.0;
        if (n_upto == nullptr) out[s] = is_curved;
        else if (is_curved) out[n_upto[s] - 1] = (int)(s * stride);
    }
}

// Adds to rows of V, which are zeros, what each atom adds to the margin of a comparison, times the root
// of the comparison's weight and second derivative. Row s is comparison listed[s]; the atoms are
// columns [left, left + ...) of n_atoms.
KERNEL sample_rows(
    i64 code, i64 n, const int* sample, double factor, const double* margins,
    const double* omega, i64 omega_step, const int* side, const int* a, const int* b,
    const i64* ptr, const int* atom, const double* z, i64 left, i64 n_atoms, double* V
) {
    EACH(s, n) {
        i64 t = sample[s];
        double bend = factor * (omega[t * omega_step] * loss_curvature(code, margins[t]));
        if (bend == 0.0) continue;
        double root = sqrt(bend);
        double* row = V + s * n_atoms + left;
        for (int loses = 0; loses < 2; loses++) {
            int pair = side[2 * t + loses];
            double by = loses ? -root : root;
            for_shared(a[pair], b[pair], ptr, atom, z, [&](int k, double x) { row[k] += by * x; });
        }
    }
}

// The same for directions of an embedding, whose numbers of each row stand side by side; `ratio` is a
// factor of what they add.
KERNEL sample_directions(
    i64 code, i64 n, const int* sample, double factor, const double* margins,
    const double* omega, i64 omega_step, const int* side, const int* a, const int* b,
    i64 width, const double* along, double ratio, i64 left, i64 n_atoms, double* V
) {
    EACH(s, n) {
        i64 t = sample[s];
        double bend = factor * (omega[t * omega_step] * loss_curvature(code, margins[t]));
        if (bend == 0.0) continue;
        double by = ratio * sqrt(bend);
        int wins = side[2 * t], loses = side[2 * t + 1];
        const double *x = along + a[wins] * width, *y = along + b[wins] * width;
        const double *p = along + a[loses] * width, *q = along + b[loses] * width;
        for (i64 k = 0; k < width; k++) V[s * n_atoms + left + k] = by * (x[k] * y[k] - p[k] * q[k]);
    }
}

// A tile of VᵀV has TILE × TILE numbers, of which a thread has every 16th in both directions.
#define TILE 64
#define DEPTH 16

// Writes VᵀV of each part of the rows of V, for the tiles on and below the diagonal.
KERNEL gram_parts(i64 n, i64 n_atoms, i64 n_parts, const double* V, double* partial) {
    __shared__ double left[DEPTH][TILE], right[DEPTH][TILE];
    i64 n_tiles = (n_atoms + TILE - 1) / TILE, size = (n + n_parts - 1) / n_parts;
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (i64 job = blockIdx.x; job < n_tiles * n_tiles * n_parts; job += gridDim.x) {
        i64 p = job / (n_tiles * n_tiles), i = job / n_tiles % n_tiles, j = job % n_tiles;
        if (j > i) continue;
        double sums[4][4] = {};
        i64 end = (p + 1) * size < n ? (p + 1) * size : n;
        for (i64 first = p * size; first < end; first += DEPTH) {
            __syncthreads();
            for (int q = threadIdx.x; q < DEPTH * TILE; q += THREADS) {
                i64 s = first + q / TILE, k = i * TILE + q % TILE, l = j * TILE + q % TILE;
                left[q / TILE][q % TILE] = s < end && k < n_atoms ? V[s * n_atoms + k] : 0.0;
                right[q / TILE][q % TILE] = s < end && l < n_atoms ? V[s * n_atoms + l] : 0.0;
            }
            __syncthreads();
            for (int s = 0; s < DEPTH; s++)
#pragma unroll
                for (int k = 0; k < 4; k++)
#pragma unroll
                    for (int l = 0; l < 4; l++)
                        sums[k][l] += left[s][y + 16 * k] * right[s][x + 16 * l];
        }
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 4; l++) {
                i64 of = i * TILE + y + 16 * k, with = j * TILE + x + 16 * l;
                if (of < n_atoms && with < n_atoms)
                    partial[(p * n_atoms + of) * n_atoms + with] = sums[k][l];
            }
    }
}

// Adds the parts to K, in their order, on both sides of the diagonal.
KERNEL add_gram(i64 n_atoms, i64 n_parts, const double* partial, double* K) {
    EACH(q, n_atoms * n_atoms) {
        i64 k = q / n_atoms, l = q % n_atoms;
        if (l > k) continue;
        double total = K[q];
        for (i64 p = 0; p < n_parts; p++) total += partial[p * n_atoms * n_atoms + q];
        K[q] = K[l * n_atoms + k] = total;
    }
}
