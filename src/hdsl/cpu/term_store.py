"""The terms of single atoms at pairs of rows, which are found once and then stored."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from .kernels.atoms import Pieces, Terms

#: Largest number of terms that are stored (12 bytes each).
TERMS_LIMIT = 1 << 26


class StoredTerms(NamedTuple):
    """The terms of several atoms.

    Attributes
    ----------
    pieces : Pieces
        Where the terms of each atom begin and end.
    terms : Terms
    """

    pieces: Pieces
    terms: Terms


class TermStore:
    """The terms of atoms, which are named by their codes.

    What is stored changes no answer: whether the terms of some atoms fit depends on
    these atoms alone.
    """

    _number: dict[int, int]  # by codes
    _indptr: np.ndarray
    _terms: Terms

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # of dropped atoms too
        self._clear(0)

    def terms(
        self, codes: list[int], find: Callable[[int], Terms]
    ) -> StoredTerms | None:
        """Return the terms of these atoms; ``find(k)`` finds those of the k-th.

        None where they do not fit.
        """
        is_missing = not self._number.keys() >= set(codes)
        if is_missing and not self._add_missing(codes, find):
            return None
        number = np.array([self._number[code] for code in codes])
        pieces = Pieces(self._indptr[number], self._indptr[number + 1])
        return StoredTerms(pieces, self._terms)

    def _add_missing(self, codes: list[int], find: Callable[[int], Terms]) -> bool:
        """Add the terms of the atoms that are not stored; return whether all fit."""
        wanted = set(codes)
        n_wanted = sum(self._size(code) for code in codes)
        for k, code in enumerate(codes):
            if code not in self._number and n_wanted <= TERMS_LIMIT:
                terms = find(k)
                n_wanted += len(terms.pairs) - self._size(code)
                self._sizes[code] = len(terms.pairs)
                self._reserve(code, wanted)
                self._add(code, terms)
        if n_wanted > TERMS_LIMIT:
            self._clear(0)
            return False
        return True

    def _size(self, code: int) -> int:
        """Return the number of terms of an atom, 0 where it is not known."""
        return self._sizes.get(code, 0)

    def _reserve(self, code: int, wanted: set[int]) -> None:
        """See to it that the terms of one more atom fit; drop atoms that are not wanted."""
        n_terms = int(self._indptr[-1]) + self._sizes[code]
        if n_terms <= len(self._terms.pairs):
            return
        kept = list(self._number)
        if n_terms > TERMS_LIMIT:
            kept = [known for known in kept if known in wanted]
        n_terms = sum(self._sizes[known] for known in [*kept, code])
        self._move(kept, max(n_terms, min(5 * n_terms // 4, TERMS_LIMIT)))

    def _move(self, codes: Iterable[int], size: int) -> None:
        """Move the terms of these atoms, and no others, to arrays of this size."""
        terms = self._terms
        indptr = self._indptr
        number = self._number
        self._clear(size)
        for code in codes:
            k = number[code]
            piece = slice(indptr[k], indptr[k + 1])
            self._add(code, Terms(terms.pairs[piece], terms.values[piece]))

    def _add(self, code: int, terms: Terms) -> None:
        """Add the terms of an atom, which fit."""
        first = self._indptr[-1]
        last = first + len(terms.pairs)
        self._indptr = np.append(self._indptr, last)
        self._terms.pairs[first:last] = terms.pairs
        self._terms.values[first:last] = terms.values
        self._number[code] = len(self._number)

    def _clear(self, size: int) -> None:
        """Drop all terms; make new arrays of this size."""
        self._number = {}
        self._indptr = np.zeros(1, dtype=np.int64)
        self._terms = Terms(np.empty(size, dtype=np.int32), np.empty(size))
