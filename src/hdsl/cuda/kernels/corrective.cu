// Corrections: many atoms at once. Row r of U holds u_r = x_ri ± x_rj of the atoms that touch row r;
// what an atom adds to the margin of a comparison is u_a u_b - u_c u_d.
//
// Second derivatives are K = Σ_t b_t a_t a_tᵀ over comparisons t, with one sparse row a_t of atoms each.
// A warp sums a chunk of the entries of one atom, in the order of the comparisons; how entries are cut
// depends on their number alone.

// Columns of K that a warp sums at a time.
#define CURVATURE_TILE 512
#define WARPS (THREADS / 32)
#define NO_ATOM 0x7fffffff

// Writes the rows of each atom and u there; entries from first[k] on are those of atom k. Rows that an
// atom has twice, or where u is 0, get the number n_rows. (i, j, sign) of the atoms; X as CSC.
KERNEL atom_rows(
    i64 n, i64 n_atoms, i64 n_rows, const i64* atoms, const i64* first, const i64* ptr,
    const int* idx, const stored* val, int* row, double* u
) {
    for (i64 q = blockIdx.x * (i64)THREADS + threadIdx.x; q < n; q += gridDim.x * (i64)THREADS) {
        i64 k = segment_of(q, first, n_atoms), i = atoms[3 * k], j = atoms[3 * k + 1];
        double sign = (double)atoms[3 * k + 2];
        i64 at = q - first[k], n_i = ptr[i + 1] - ptr[i];
        bool of_i = at < n_i;
        i64 own = of_i ? ptr[i] + at : ptr[j] + at - n_i;
        int r = idx[own];
        // The same row in the other column; a row of both belongs to the first.
        i64 low = of_i ? ptr[j] : ptr[i], end = of_i ? ptr[j + 1] : ptr[i + 1], high = end;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (idx[middle] < r) low = middle + 1;
            else high = middle;
        }
        bool both = low < end && idx[low] == r;
        double x = of_i ? (both ? val[own] + sign * val[low] : val[own]) : sign * val[own];
        row[q] = (both && !of_i) || x == 0.0 ? (int)n_rows : r;
        u[q] = x;
    }
}

// Writes the atoms and values of U by rows; order[q] is the place of entry q among those by atoms.
KERNEL row_atoms(
    i64 n, i64 n_atoms, const i64* order, const i64* first, const double* u, int* atom,
    double* value
) {
    for (i64 q = blockIdx.x * (i64)THREADS + threadIdx.x; q < n; q += gridDim.x * (i64)THREADS) {
        i64 from = order[q];
        atom[q] = (int)segment_of(from, first, n_atoms);
        value[q] = u[from];
    }
}

// Writes where each key from 0 to n_keys begins among n sorted ones.
KERNEL key_bounds(i64 n_keys, i64 n, const i64* order, const int* key, i64* out) {
    for (i64 r = blockIdx.x * (i64)THREADS + threadIdx.x; r <= n_keys;
         r += gridDim.x * (i64)THREADS) {
        i64 low = 0, high = n;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (key[order[middle]] < r) low = middle + 1;
            else high = middle;
        }
        out[r] = low;
    }
}

// --- one comparison ------------------------------------------------------------------------------

// Where two rows of U are, and the next atom that both have.
struct Shared {
    i64 p, p_end, q, q_end;
    int atom;
};

__device__ inline void seek_shared(Shared& at, const int* atom) {
    at.atom = NO_ATOM;
    while (at.p < at.p_end && at.q < at.q_end) {
        int x = atom[at.p], y = atom[at.q];
        if (x == y) {
            at.atom = x;
            return;
        }
        if (x < y) at.p++;
        else at.q++;
    }
}

__device__ inline Shared begin_shared(int a, int b, const i64* row_ptr, const int* atom) {
    Shared at = {row_ptr[a], row_ptr[a + 1], row_ptr[b], row_ptr[b + 1], NO_ATOM};
    seek_shared(at, atom);
    return at;
}

__device__ inline double take_shared(Shared& at, const int* atom, const double* value) {
    double x = value[at.p++] * value[at.q++];
    seek_shared(at, atom);
    return x;
}

// Both pairs of rows of a comparison: a triplet where d is not there.
struct Compared {
    Shared winner, loser;
};

__device__ inline Compared begin_compared(
    i64 t, const int* a, const int* b, const int* c, const int* d, const i64* row_ptr,
    const int* atom
) {
    int other = d == nullptr ? a[t] : c[t], last = d == nullptr ? c[t] : d[t];
    return {begin_shared(a[t], b[t], row_ptr, atom), begin_shared(other, last, row_ptr, atom)};
}

// The next atom of a comparison, and what it adds to the margin; NO_ATOM at the end.
__device__ inline int next_atom(Compared& at, const int* atom, const double* value, double& x) {
    int k = at.winner.atom < at.loser.atom ? at.winner.atom : at.loser.atom;
    if (k == NO_ATOM) return k;
    x = at.winner.atom == k ? take_shared(at.winner, atom, value) : 0.0;
    if (at.loser.atom == k) x -= take_shared(at.loser, atom, value);
    return k;
}

// out += factor * how margins change where the weight of each atom changes.
KERNEL add_shift(
    i64 n, double factor, const double* change, const int* a, const int* b, const int* c,
    const int* d, const i64* row_ptr, const int* atom, const double* value, double* out
) {
    for (i64 t = blockIdx.x * (i64)THREADS + threadIdx.x; t < n; t += gridDim.x * (i64)THREADS) {
        Compared at = begin_compared(t, a, b, c, d, row_ptr, atom);
        double total = 0.0, x = 0.0;
        for (int k = next_atom(at, atom, value, x); k != NO_ATOM;
             k = next_atom(at, atom, value, x))
            total += change[k] * x;
        out[t] += factor * total;
    }
}

// --- second derivatives --------------------------------------------------------------------------

// Writes the weighted second derivative of the loss of each comparison of a sample.
KERNEL sample_bends(
    i64 code, i64 n, const int* sample, const double* margins, const double* omega, double factor,
    double* out
) {
    for (i64 s = blockIdx.x * (i64)THREADS + threadIdx.x; s < n; s += gridDim.x * (i64)THREADS)
        out[s] = factor * (omega[s] * loss_curvature(code, margins[sample[s]]));
}

// For the comparisons [begin, end) of a sample whose bend is not 0: counts the atoms that change the
// margin, or writes them with the change, the change times the bend, and where the comparison begins.
// `upto` are the running counts, of which `base` come before.
KERNEL sample_terms(
    i64 begin, i64 end, i64 base, const int* sample, const double* bend, const int* a, const int* b,
    const int* c, const int* d, const i64* row_ptr, const int* row_atom, const double* value,
    int* counts, const i64* upto, int* atom, double* term, double* factor, int* start
) {
    for (i64 s = begin + blockIdx.x * (i64)THREADS + threadIdx.x; s < end;
         s += gridDim.x * (i64)THREADS) {
        i64 first = counts == nullptr && s > 0 ? upto[s - 1] - base : 0, n = 0;
        if (bend[s] != 0.0) {
            Compared at = begin_compared(sample[s], a, b, c, d, row_ptr, row_atom);
            double x = 0.0;
            for (int k = next_atom(at, row_atom, value, x); k != NO_ATOM;
                 k = next_atom(at, row_atom, value, x)) {
                if (x == 0.0) continue;
                if (counts == nullptr) {
                    atom[first + n] = k;
                    term[first + n] = x;
                    factor[first + n] = bend[s] * x;
                    start[first + n] = (int)first;
                }
                n++;
            }
        }
        if (counts != nullptr) counts[s] = (int)n;
    }
}

// Writes the share of each chunk in its row of K, up to the diagonal: Σ factor_e term_z over the
// entries e of the chunk and the entries z of the same comparison. `order` lists entries by atoms.
KERNEL curvature_parts(
    i64 n_chunks, i64 n_atoms, const int* chunk_atom, const i64* chunk_first, const i64* chunk_last,
    const i64* order, const int* atom, const double* term, const double* factor, const int* start,
    double* part
) {
    __shared__ double shared_sums[WARPS][CURVATURE_TILE];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double* sums = shared_sums[warp];
    for (i64 chunk = blockIdx.x * (i64)WARPS + warp; chunk < n_chunks;
         chunk += gridDim.x * (i64)WARPS) {
        i64 width = chunk_atom[chunk] + 1, last = chunk_last[chunk];
        for (i64 left = 0; left < width; left += CURVATURE_TILE) {
            for (int l = lane; l < CURVATURE_TILE; l += 32) sums[l] = 0.0;
            __syncwarp();
            for (i64 base = chunk_first[chunk]; base < last; base += 32) {
                i64 own = base + lane < last ? order[base + lane] : 0, from = start[own];
                double of_own = factor[own];
                int n = last - base < 32 ? (int)(last - base) : 32;
                for (int e = 0; e < n; e++) {
                    i64 end = __shfl_sync(FULL, own, e), z = __shfl_sync(FULL, from, e) + lane;
                    double by = __shfl_sync(FULL, of_own, e);
                    for (; z <= end; z += 32) {  // atoms rise, up to that of the chunk
                        i64 l = atom[z] - left;
                        if (l >= 0 && l < CURVATURE_TILE) sums[l] += by * term[z];
                    }
                    __syncwarp();  // the next comparison may change the same sums
                }
            }
            for (i64 l = lane; l < CURVATURE_TILE && left + l < width; l += 32)
                part[chunk * n_atoms + left + l] = sums[l];
            __syncwarp();
        }
    }
}

// Adds the shares of all chunks to K, in their order.
KERNEL add_curvature(i64 n_atoms, const i64* chunk_ptr, const double* part, double* K) {
    for (i64 q = blockIdx.x * (i64)THREADS + threadIdx.x; q < n_atoms * n_atoms;
         q += gridDim.x * (i64)THREADS) {
        i64 k = q / n_atoms, l = q % n_atoms;
        if (l > k) continue;
        double total = K[q];
        for (i64 chunk = chunk_ptr[k]; chunk < chunk_ptr[k + 1]; chunk++)
            total += part[chunk * n_atoms + l];
        K[q] = K[l * n_atoms + k] = total;
    }
}
