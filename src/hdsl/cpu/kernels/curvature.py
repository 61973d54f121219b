"""Kernels of the second derivatives of the value in the weights of atoms.

They are Σ_t c_t v_t v_tᵀ over comparisons t with curvature c_t, where v_t = p_s - p_r
for the pairs s and r that t compares, and p_s = z_a ∘ z_b over the atoms.
"""

from typing import NamedTuple

import numpy as np

from .compiled import kernel

#: Most comparisons of an anchor whose second derivatives are summed together.
GROUP = 128


class AnchoredPairs(NamedTuple):
    """The anchor of each comparison, and the pairs that are to win and to lose it.

    Attributes
    ----------
    anchors, winners, losers : ndarray of shape (n_comparisons,), int32
    """

    anchors: np.ndarray
    winners: np.ndarray
    losers: np.ndarray


class Group(NamedTuple):
    """Curved comparisons [first, last) of the same anchor.

    Attributes
    ----------
    first, last : int
    anchor : int
    n_pairs : int
        Pairs that they compare.
    """

    first: int
    last: int
    anchor: int
    n_pairs: int


class CurvatureWorkspace(NamedTuple):
    """What a thread writes to while second derivatives are summed.

    Attributes
    ----------
    row : ndarray of shape (n_atoms,)
        One row of Z, dense. Zeros, also afterwards.
    position : ndarray of shape (n_atoms,), int64
        Columns of atoms in the arrays below. -1, also afterwards.
    atoms : ndarray of shape (n_atoms,), int64
        The atoms of these columns.
    pairs : ndarray of shape (2 · GROUP,), int64
        The pairs that a group of comparisons compares.
    sides : ndarray of shape (GROUP, 2), int64
        Where the winner and the loser of each comparison are among these.
    terms : ndarray of shape (2 · GROUP, n_atoms)
        z_a ∘ z_b of each pair. Zeros, also afterwards.
    pulls : ndarray of shape (2 · GROUP, n_atoms)
        Σ ± c_t v_t over the comparisons of each pair. Zeros, also afterwards.
    products : ndarray of shape (n_atoms, n_atoms)
        Zeros, also afterwards.
    """

    row: np.ndarray
    position: np.ndarray
    atoms: np.ndarray
    pairs: np.ndarray
    sides: np.ndarray
    terms: np.ndarray
    pulls: np.ndarray
    products: np.ndarray

    @classmethod
    def empty(cls, n_atoms: int) -> "CurvatureWorkspace":
        """Return new arrays; large parts of them are never touched."""
        n_pairs = 2 * GROUP
        return cls(
            row=np.zeros(n_atoms),
            position=np.full(n_atoms, -1),
            atoms=np.empty(n_atoms, dtype=np.int64),
            pairs=np.empty(n_pairs, dtype=np.int64),
            sides=np.empty((GROUP, 2), dtype=np.int64),
            terms=np.zeros((n_pairs, n_atoms)),
            pulls=np.zeros((n_pairs, n_atoms)),
            products=np.zeros((n_atoms, n_atoms)),
        )


@kernel()
def add_curvatures(
    start, stop, numbers, curvatures, compared, firsts, seconds, Z, space, out
):
    """Add K with K + Kᵀ = Σ_t c_t v_t v_tᵀ over the comparisons numbers[start:stop].

    Their curvatures are c, and the rows of each pair are `firsts` and `seconds`.

    Neighboring ones of the same anchor, up to GROUP, are summed together: K is
    Σ_s p_s q_sᵀ with q_s = Σ ± c_t v_t over the comparisons of pair s, and there are
    fewer pairs than comparisons.
    """
    first = start
    while first < stop:
        group = _list_pairs(first, stop, numbers, curvatures, compared, space)
        n_atoms = _fill_terms(group, firsts, seconds, Z, space)
        _add_products(group, n_atoms, curvatures, space, out)
        first = group.last


@kernel()
def _list_pairs(first, stop, numbers, curvatures, compared, space):
    """List the pairs of the comparisons from `first` on that have the same anchor, each once."""
    anchors = compared.anchors
    pairs = space.pairs
    sides = space.sides
    anchor = anchors[numbers[first]]
    end = first + GROUP
    end = end if end < stop else stop
    last = first
    n_pairs = 0
    while last < end and anchors[numbers[last]] == anchor:
        if curvatures[last] != 0.0:
            for side in range(2):
                pair = compared.winners[numbers[last]]
                if side == 1:
                    pair = compared.losers[numbers[last]]
                k = 0
                while k < n_pairs and pairs[k] != pair:
                    k += 1
                sides[last - first, side] = k
                if k == n_pairs:
                    pairs[n_pairs] = pair
                    n_pairs += 1
        last += 1
    return Group(first, last, anchor, n_pairs)


@kernel()
def _fill_terms(group, firsts, seconds, Z, space):
    """Write z_a ∘ z_b of the pairs, of the atoms that they use; return the number of these.

    The anchor is in nearly all pairs: its row is unfolded once, and the other row is
    read.
    """
    indptr = Z.indptr
    indices = Z.indices
    data = Z.data
    anchor = np.int64(group.anchor)
    pairs = space.pairs
    atoms = space.atoms
    terms = space.terms
    position = space.position
    dense = space.row
    n_atoms = 0
    first = np.uint64(0)
    last = np.uint64(0)
    unfolded = np.int64(-1)
    for s in range(group.n_pairs):
        row = np.int64(firsts[pairs[s]])
        other = np.int64(seconds[pairs[s]])
        if other == anchor:
            other = row
            row = anchor
        if row != unfolded:
            for k in range(first, last):
                dense[np.uint32(indices[k])] = 0.0
            first = np.uint64(indptr[row])
            last = np.uint64(indptr[row + 1])
            for k in range(first, last):
                dense[np.uint32(indices[k])] = data[k]
            unfolded = row
        for k in range(np.uint64(indptr[other]), np.uint64(indptr[other + 1])):
            atom = np.uint32(indices[k])
            z = dense[atom]
            if z != 0.0:
                column = position[atom]
                if column < 0:
                    column = n_atoms
                    position[atom] = column
                    atoms[column] = atom
                    n_atoms += 1
                terms[s, np.uint32(column)] = z * data[k]
    for k in range(first, last):
        dense[np.uint32(indices[k])] = 0.0
    for k in range(n_atoms):
        position[atoms[k]] = -1
    return n_atoms


@kernel()
def _add_products(group, n_atoms, curvatures, space, out):
    """Add one half of the symmetric Σ_s p_s q_sᵀ to the entries of the atoms."""
    terms = space.terms
    pulls = space.pulls
    products = space.products
    atoms = space.atoms
    sides = space.sides
    for t in range(group.first, group.last):
        curvature = curvatures[t]
        if curvature != 0.0:
            winner = np.uint64(sides[t - group.first, 0])
            loser = np.uint64(sides[t - group.first, 1])
            for k in range(n_atoms):
                pull = curvature * (terms[winner, k] - terms[loser, k])
                pulls[winner, k] += pull
                pulls[loser, k] -= pull
    for s in range(group.n_pairs):
        for k in range(n_atoms):
            term = terms[s, k]
            if term != 0.0:
                for q in range(k + 1):
                    products[k, q] += term * pulls[s, q]
        for k in range(n_atoms):
            terms[s, k] = 0.0
            pulls[s, k] = 0.0
    for k in range(n_atoms):
        products[k, k] *= 0.5
        row = atoms[k]
        for q in range(k + 1):
            out[row, atoms[q]] += products[k, q]
            products[k, q] = 0.0
