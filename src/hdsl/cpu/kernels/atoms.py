"""Kernels over atoms, whose features are the active ones: X has few values in these.

An atom adds λ z_a z_b to the similarity of the rows a and b, with z = x_i ± x_j; a
margin is the difference of two similarities.
"""

from typing import NamedTuple

import numpy as np

from .compiled import SparseArrays, kernel
from .lines import fetch_ahead


class AtomGraph(NamedTuple):
    """The atoms of each active feature.

    Attributes
    ----------
    indptr : ndarray of shape (n_features + 1,), int64
        Where the ends of each feature begin and end.
    neighbors : ndarray of shape (n_ends,), int32
        The feature at the other end of the atom.
    ends : ndarray of shape (n_ends,), int32
        2k for the first end of atom k, 2k + 1 for its second one.
    """

    indptr: np.ndarray
    neighbors: np.ndarray
    ends: np.ndarray


class ActiveFeatures(NamedTuple):
    """The features of atoms, numbered from 0.

    Attributes
    ----------
    rows : SparseArrays
        The rows of X in these features alone.
    graph : AtomGraph
    """

    rows: SparseArrays
    graph: AtomGraph


class Terms(NamedTuple):
    """The terms of atoms at pairs of rows, where they are not zero.

    Attributes
    ----------
    pairs : ndarray of int32
    values : ndarray of float64
    """

    pairs: np.ndarray
    values: np.ndarray


class Sides(NamedTuple):
    """The rows of comparisons S(a, b) > S(c, d).

    Attributes
    ----------
    a, b, c, d : ndarray of shape (n_comparisons,), int32
    """

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray


# --- rows, counted and then written ---------------------------------------------------


@kernel()
def active_rows(start, stop, rows, numbers, active):
    """Find the rows [start, stop) of X in the columns that have a number, which is not -1.

    Where active.indices is empty, the entries of a row are counted in
    active.indptr[row + 1]; else they are written from active.indptr[row] on.
    """
    indptr = rows.indptr
    indices = rows.indices
    data = rows.data
    active_ptr = active.indptr
    active_indices = active.indices
    active_data = active.data
    for row in range(start, stop):
        if active_indices.size == 0:
            n_active = 0
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                n_active += numbers[np.uint32(indices[k])] >= 0
            active_ptr[row + 1] = n_active
        else:
            k = indptr[row]
            n = active_ptr[row]
            last = active_ptr[row + 1]
            while n < last:  # no test that fails for every other entry
                number = numbers[np.uint32(indices[k])]
                active_indices[n] = number
                active_data[n] = data[k]
                n = n + (number >= 0)
                k = k + 1


@kernel()
def product_rows(start, stop, rows, is_wanted, M, position, products):
    """Find the rows [start, stop) of X M, as CSR, that are wanted; the others are empty.

    They are counted or written as those of `active_rows`. `position` has -1 per column
    of M.
    """
    indptr = rows.indptr
    indices = rows.indices
    data = rows.data
    M_ptr = M.indptr
    M_indices = M.indices
    M_data = M.data
    product_ptr = products.indptr
    product_indices = products.indices
    product_data = products.data
    is_count = product_indices.size == 0
    n = np.int64(0)
    if not is_count:
        n = product_ptr[start]
    for row in range(start, stop):
        first = n
        last = indptr[row]
        if is_wanted[row]:
            last = indptr[row + 1]
        for k in range(indptr[row], last):
            i = np.uint32(indices[k])
            for q in range(M_ptr[i], M_ptr[i + 1]):
                j = M_indices[q]
                if position[j] < first:  # not in this row yet
                    position[j] = n
                    if not is_count:
                        product_indices[n] = j
                        product_data[n] = 0.0
                    n += 1
                if not is_count:
                    product_data[position[j]] += data[k] * M_data[q]
        if is_count:
            product_ptr[row + 1] = n - first


# --- similarities and scores ----------------------------------------------------------


@kernel()
def similarities(start, stop, pairs, rows, M, out, product):
    """Write x_aᵀ M x_b for the pairs {a, b} of the rows [start, stop), in active features.

    `product` is a work array with a number per active feature, of zeros.
    """
    indptr = rows.indptr
    indices = rows.indices
    data = rows.data
    M_ptr = M.indptr
    M_indices = M.indices
    M_data = M.data
    pair_ptr = pairs.indptr
    second = pairs.second
    for a in range(start, stop):
        if pair_ptr[a] == pair_ptr[a + 1]:
            continue
        first = np.uint64(indptr[a])
        last = np.uint64(indptr[a + 1])
        is_empty = first == last
        for k in range(first, last):
            x = data[k]
            i = np.uint32(indices[k])
            for q in range(np.uint64(M_ptr[i]), np.uint64(M_ptr[i + 1])):
                product[np.uint32(M_indices[q])] += x * M_data[q]
        for s in range(pair_ptr[a], pair_ptr[a + 1]):
            fetch_ahead(s, second, rows)
            similarity = 0.0
            if not is_empty:
                b = second[s]
                for k in range(np.uint64(indptr[b]), np.uint64(indptr[b + 1])):
                    similarity += product[np.uint32(indices[k])] * data[k]
            out[s] = similarity
        if not is_empty:
            for k in range(product.size):
                product[k] = 0.0


@kernel()
def scores(
    start, stop, bounds, pairs, weights, active, diagonals, entries, weighted_row
):
    """Add to C_ii of the active features, and to S_ij of the atoms, for each share of the rows.

    They have a row per share. C = Σ_s w_s x_a x_bᵀ is summed over the pairs {a, b} of
    the rows of a share, and S = C + Cᵀ. `weighted_row` is a work array with a number
    per active feature, of zeros.
    """
    rows = active.rows
    graph = active.graph
    indptr = rows.indptr
    indices = rows.indices
    data = rows.data
    graph_ptr = graph.indptr
    neighbors = graph.neighbors
    ends = graph.ends
    pair_ptr = pairs.indptr
    second = pairs.second
    for share in range(start, stop):
        for a in range(bounds[share], bounds[share + 1]):
            first = np.uint64(indptr[a])
            last = np.uint64(indptr[a + 1])
            if first == last:
                continue
            for s in range(pair_ptr[a], pair_ptr[a + 1]):
                fetch_ahead(s, second, rows)
                weight = weights[s]
                if weight != 0.0:
                    b = second[s]
                    for k in range(np.uint64(indptr[b]), np.uint64(indptr[b + 1])):
                        weighted_row[np.uint32(indices[k])] += weight * data[k]
            for k in range(first, last):
                i = np.uint32(indices[k])
                x = data[k]
                diagonals[share, i] += x * weighted_row[i]
                for q in range(np.uint64(graph_ptr[i]), np.uint64(graph_ptr[i + 1])):
                    atom = np.uint32(ends[q] >> 1)
                    entries[share, atom] += x * weighted_row[np.uint32(neighbors[q])]
            for k in range(weighted_row.size):
                weighted_row[k] = 0.0


# --- terms of single atoms ------------------------------------------------------------


@kernel()
def atom_terms(start, stop, bounds, u, v, pairs, terms, counts):
    """List the pairs {a, b} where u_a v_b + v_a u_b is not zero, by shares of the rows a.

    Those of a share are listed from the number of its first pair on, and counted.
    """
    indptr = pairs.indptr
    second = pairs.second
    term_pairs = terms.pairs
    term_values = terms.values
    for share in range(start, stop):
        first = indptr[bounds[share]]
        n = first
        for a in range(bounds[share], bounds[share + 1]):
            if u[a] == 0.0 and v[a] == 0.0:
                continue
            for s in range(indptr[a], indptr[a + 1]):
                b = np.uint32(second[s])
                term = u[a] * v[b] + v[a] * u[b]
                if term != 0.0:
                    term_pairs[n] = s
                    term_values[n] = term
                    n += 1
        counts[share] = n - first


@kernel()
def sum_terms(start, stop, first, last, terms, weights, out):
    """Write Σ weight · term of each piece of the terms, in four sums that need not wait.

    Piece k has the terms first[k], …, last[k] - 1.
    """
    four = np.uint64(4)
    for piece in range(start, stop):
        pairs = terms.pairs[first[piece] : last[piece]]
        values = terms.values[first[piece] : last[piece]]
        sum_0 = 0.0
        sum_1 = 0.0
        sum_2 = 0.0
        sum_3 = 0.0
        n = np.uint64(pairs.size)
        n_in_fours = n - n % four
        for q in range(np.uint64(0), n_in_fours, four):
            q_1 = q + np.uint64(1)
            q_2 = q + np.uint64(2)
            q_3 = q + np.uint64(3)
            sum_0 += weights[np.uint32(pairs[q])] * values[q]
            sum_1 += weights[np.uint32(pairs[q_1])] * values[q_1]
            sum_2 += weights[np.uint32(pairs[q_2])] * values[q_2]
            sum_3 += weights[np.uint32(pairs[q_3])] * values[q_3]
        for q in range(n_in_fours, n):
            sum_0 += weights[np.uint32(pairs[q])] * values[q]
        out[piece] = (sum_0 + sum_1) + (sum_2 + sum_3)


# --- directions -----------------------------------------------------------------------


@kernel()
def direction(start, stop, share, margins, offset, factors, Z, sides, out):
    """Write how the margins of comparisons [start, stop) change.

    The learned part of the margins, all but `offset` (empty for zeros), changes by a
    share, and each atom by a factor. Z has a row X e_i ± X e_j for each of these.
    """
    a = sides.a
    b = sides.b
    c = sides.c
    d = sides.d
    for t in range(np.uint64(start), np.uint64(stop)):
        change = 0.0
        if share != 0.0:
            learned = margins[t]
            if offset.size > 0:
                learned = learned - offset[t]
            change = share * learned
        for k in range(factors.size):
            z_a = Z[k, np.uint32(a[t])]
            z_c = Z[k, np.uint32(c[t])]
            if z_a != 0.0 or z_c != 0.0:
                z_b = Z[k, np.uint32(b[t])]
                z_d = Z[k, np.uint32(d[t])]
                change += factors[k] * (z_a * z_b - z_c * z_d)
        out[t] = change
