"""Scores of single atoms: the terms of each are found once and stored.

Where steps bring one atom after the other, the score of an active atom is a sum over
the pairs of rows that both have it. These pairs, and the products of their numbers, are
the atom's terms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .atom_codes import atom_code, atom_of_code
from .data import CardData
from .pulls import Pulls
from .runtime import WARPS, Array
from .unfolding import Unfolding

#: Most atoms of a question whose terms are stored; half as many again have space.
MOST_SINGLE = 512

#: First space for terms, of 12 bytes each, and the most.
LEAST_TERMS = 1 << 24
TERMS_LIMIT = 1 << 27

#: Parts that the sum of an atom is made of, as in the kernels.
SCORE_PARTS = 32

#: Most chunks of pairs that warps look at, and fewest pairs of each.
MOST_CHUNKS = 4096
SHORTEST = 128


def pair_chunks(n_pairs: int) -> tuple[int, int]:
    """Return the length of chunks of pairs, and their number."""
    length = max(SHORTEST, -(-n_pairs // MOST_CHUNKS))
    return length, -(-n_pairs // length)


def most_terms(n_pairs: int) -> int:
    """Return the most terms that there is space for."""
    return min(TERMS_LIMIT, MOST_SINGLE * n_pairs)


class TermSpace(NamedTuple):
    """Space for terms z_a z_b of pairs {a, b}: the pair and the product of each."""

    pair: Array
    value: Array


class AtomTerms:
    """Σ_s w_s z_a z_b over the pairs s = {a, b}, for single atoms with stored terms.

    A step finds the terms of its atom, and queues the sums of all atoms that are
    stored. Whether there is space for some atoms depends on these alone: what is stored
    changes no answer. Atoms go by their codes.

    The store on the card is a list of numbers: how many atoms and how many terms it
    has, and then, of each atom, where its terms begin and how many it has. Kernels
    write the last two of an atom that does not fit as well, after all others.

    Parameters
    ----------
    card : CardData
    """

    #: Where the store has its number of atoms, and the list of atoms.
    _N_ATOMS = 0
    _ATOMS = 2

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.device = card.device
        device = card.device
        self._chunk_length, self._n_chunks = pair_chunks(card.comparisons.n_pairs)
        self._most_atoms = 3 * MOST_SINGLE // 2
        self._most_terms = most_terms(card.comparisons.n_pairs)
        self._unfolding_numbers = device.zeros(Unfolding.SIZE, np.int64)
        self._host_unfolding_numbers = device.host(Unfolding.SIZE, np.int64)
        self._unfolding = Unfolding(
            card, self._unfolding_numbers, self._host_unfolding_numbers
        )
        self._n_upto = device.empty(self._n_chunks + 2, np.int64)
        store_size = self._ATOMS + 2 * (self._most_atoms + 1)
        self._store = device.zeros(store_size, np.int64)
        self._host_store = device.host(store_size, np.int64)
        self._partial = device.empty(SCORE_PARTS * self._most_atoms)
        self._sums = device.empty(self._most_atoms)
        self._host_sums = device.host(self._most_atoms)
        self._n_terms: dict[int, int] = {}  # of dropped atoms too
        self._version = 0  # of the sums on the host
        self._expected: int | None = None  # whose terms are being found
        self._space = TermSpace(device.empty(1, np.int32), device.empty(1))
        self.clear()

    def clear(self) -> None:
        """Drop all terms."""
        self._positions: dict[int, int] = {}
        self.device.clear(self._store)

    @property
    def capacity(self) -> int:
        """How many terms there is space for."""
        return len(self._space.pair)

    def expect(self, atom: Any) -> bool:
        """Return whether the terms of an atom are to be found; None is no atom."""
        self._expected = None
        if atom is not None:
            self._expect_code(atom_code(atom, self.card.rows.n_features))
        return self._expected is not None

    def _expect_code(self, code: int) -> None:
        is_full = len(self._positions) == self._most_atoms
        is_known = code in self._positions
        self._expected = None
        if not is_known and not is_full:
            self._expected = code

    def queue_find(self, unfolding: Unfolding) -> None:
        """Queue the search for the terms of an unfolded atom, where its flag is set.

        They are counted, and then listed where there is space for them.
        """
        self._queue_find(unfolding, None, None)
        self._queue_find(unfolding, self._space.pair, self._space.value)

    def _queue_find(
        self, unfolding: Unfolding, pair: Array | None, value: Array | None
    ) -> None:
        comparisons = self.card.comparisons
        self.device.run(
            "atom_terms",
            self._n_chunks,
            per_block=WARPS,
            atom=unfolding.numbers,
            n_pairs=comparisons.n_pairs,
            chunk=self._chunk_length,
            a=comparisons.pairs.a,
            b=comparisons.pairs.b,
            u=self.card.workspace.u,
            n_upto=self._n_upto,
            ticket=self.card.workspace.ticket,
            capacity=self.capacity,
            store=self._store,
            pair=pair,
            value=value,
        )

    def queue_sums(self, w: Array) -> None:
        """Queue the sums of all atoms that are stored, with one number per pair."""
        self.device.run(
            "term_sums",
            len(self._partial),
            per_block=1,
            store=self._store,
            pair=self._space.pair,
            value=self._space.value,
            w=w,
            partial=self._partial,
            ticket=self.card.workspace.ticket,
            out=self._sums,
        )
        self.device.copy(self._host_sums, self._sums)
        self.device.copy(self._host_store, self._store)

    def take_results(self, pulls: Pulls | None = None) -> None:
        """Take note of what the queue has done, which has run.

        Parameters
        ----------
        pulls : Pulls, default=None
            Whose numbers the sums were made with.
        """
        self._version += 1
        if pulls is not None:
            pulls.term_version = self._version
        if self._expected is None:
            return
        position = len(self._positions)
        n_terms = self._host_store[self._ATOMS + 2 * position + 1]
        self._n_terms[self._expected] = int(n_terms)
        if self._host_store[self._N_ATOMS] > position:
            self._positions[self._expected] = position

    def sums(self, codes: list[int], pulls: Pulls) -> np.ndarray | None:
        """Return the sums of some atoms; None where their terms do not fit together."""
        has_all = self._positions.keys() >= set(codes)
        if not has_all and not self._find(codes):
            return None
        if pulls.term_version != self._version:
            self.queue_sums(pulls.w)
            self.device.wait()
            self._expected = None
            self.take_results(pulls)
        return self._host_sums[[self._positions[code] for code in codes]]

    def _find(self, codes: list[int]) -> bool:
        """Have the terms of all these atoms; drop others where there is no space."""
        n_known_terms = sum(self._n_terms.get(code, 0) for code in codes)
        if len(codes) > MOST_SINGLE or n_known_terms > TERMS_LIMIT:
            return False
        while not all(self._add(code) for code in codes):
            has_place = len(self._positions) < self._most_atoms
            if has_place and self.capacity < self._most_terms:
                self._grow()
            elif self._positions.keys() <= set(codes):
                return False
            else:
                self.clear()
        return True

    def _grow(self) -> None:
        """Double the space, and keep what is there."""
        n_terms = min(max(2 * self.capacity, LEAST_TERMS), self._most_terms)
        smaller = self._space
        self._space = TermSpace(
            self.device.empty(n_terms, np.int32), self.device.empty(n_terms)
        )
        self.device.copy(self._space.pair, smaller.pair)
        self.device.copy(self._space.value, smaller.value)

    def _add(self, code: int) -> bool:
        """Find the terms of an atom, and return whether they are stored."""
        self._expect_code(code)
        if self._expected is not None:
            atom = atom_of_code(code, self.card.rows.n_features)
            self._unfolding.write(atom, finds_terms=True)
            self.device.copy(self._unfolding_numbers, self._host_unfolding_numbers)
            self._unfolding.queue_unfold()
            self.queue_find(self._unfolding)
            self._unfolding.queue_fold()
            self.device.copy(self._host_store, self._store)
            self.device.wait()
            self.take_results()
        return code in self._positions
