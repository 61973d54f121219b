"""What is remembered of atoms: the rows in their features, and the terms of single atoms."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .comparisons import Pairs
from .kernels import atoms as kernels
from .rows import Arrays, grouped, starts
from .workers import GRAIN

#: Most terms of atoms that are stored (12 bytes each).
TERMS_LIMIT = 1 << 26

#: Terms of an atom that are summed one after the other.
PIECE = 1 << 16


class Active(NamedTuple):
    """Some atoms, and the rows of X in their features alone."""

    atoms: np.ndarray
    rows: Arrays
    graph: Arrays
    ends: np.ndarray  # of each atom, shape (n_atoms, 2), as active features
    signs: np.ndarray
    place: dict[int, int]  # by codes

    @property
    def n_features(self) -> int:
        """The number of active features, and one more for features of which X has no value."""
        return len(self.graph[0]) - 1


class TermStore:
    """The terms of single atoms at pairs of rows, each found once.

    What is stored changes no answer: whether there is room depends on the atoms asked
    for alone.

    Attributes
    ----------
    arrays : tuple of ndarray
        Numbers of pairs, and values, of one atom after the other.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # by codes of atoms, of dropped ones too
        self._clear(0)

    def _clear(self, size: int) -> None:
        self._number: dict[int, int] = {}
        self._ptr = np.zeros(1, dtype=np.int64)
        self.arrays: tuple[np.ndarray, ...] = (
            np.empty(size, dtype=np.int32),
            np.empty(size),
        )

    def _move(self, codes: list[int], size: int) -> None:
        """Move the terms of these atoms, and no others, to arrays of this size."""
        before = self.arrays
        ptr = self._ptr
        number = self._number
        self._clear(size)
        for code in codes:
            k = number[code]
            self._add(code, [array[ptr[k] : ptr[k + 1]] for array in before])

    def _add(self, code: int, terms: Sequence[np.ndarray]) -> None:
        self._ptr = np.append(self._ptr, self._ptr[-1] + len(terms[0]))
        for array, found in zip(self.arrays, terms, strict=True):
            array[self._ptr[-2] : self._ptr[-1]] = found
        self._number[code] = len(self._number)

    def all_of(
        self, codes: list[int], find: Callable[[int], Sequence[np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return where the terms of each atom begin and end; ``find(k)`` finds those of the k-th.

        None where there is no room for all.
        """
        if not self._number.keys() >= set(codes) and not self._find(codes, find):
            return None
        number = np.array([*map(self._number.__getitem__, codes)])
        return self._ptr[number], self._ptr[number + 1]

    def _find(
        self, codes: list[int], find: Callable[[int], Sequence[np.ndarray]]
    ) -> bool:
        total = sum([self._sizes.get(code, 0) for code in codes])
        for k, code in enumerate(codes):
            if code not in self._number and total <= TERMS_LIMIT:
                terms = find(k)
                total += len(terms[0]) - self._sizes.get(code, 0)
                self._sizes[code] = len(terms[0])
                n = int(self._ptr[-1]) + len(terms[0])
                if n > len(self.arrays[0]):
                    wanted = self._number.keys() if n <= TERMS_LIMIT else set(codes)
                    kept = [known for known in self._number if known in wanted]
                    n = sum(map(self._sizes.__getitem__, [*kept, code]))
                    self._move(kept, max(n, min(5 * n // 4, TERMS_LIMIT)))
                self._add(code, terms)
        if total > TERMS_LIMIT:
            self._clear(0)
        return total <= TERMS_LIMIT


class Atoms:
    """Scores and similarities of atoms at pairs of rows.

    Many atoms share a pass over the pairs with the few active features of each row.
    Where atoms come one by one, from one question to the next, the terms of each are
    stored: a pass over them is several times shorter. They are z_a z_b; of a small X
    those of S_ij alone, less than half as many, since the diagonal of its C costs
    little.

    Parameters
    ----------
    pairs : Pairs
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self._rows = pairs.rows
        self._workers = pairs.workers
        self._store = TermStore()
        self.forget()

    def forget(self) -> None:
        """Drop active rows. Terms of single atoms do not depend on the questions before."""
        self._active: Active | None = None

    def active(self, atoms: np.ndarray) -> tuple[Active, np.ndarray]:
        """Return what has these atoms, perhaps with others, and their numbers there."""
        if self._active is not None and np.array_equal(atoms, self._active.atoms):
            return self._active, np.arange(len(atoms))
        codes = self._codes(atoms)
        if self._active is None or not self._covers(codes):
            self._active = self._make_active(atoms, codes)
        places = np.array([self._active.place[code] for code in codes], dtype=np.int64)
        return self._active, places

    def _codes(self, atoms: np.ndarray) -> list[int]:
        """Return a number for each atom: it is found faster than a tuple."""
        i, j, sign = atoms.T
        return (
            2 * ((i + 1) * (self._rows.n_columns + 1) + j + 1) + (sign > 0)
        ).tolist()

    def similarities(self, atoms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return Σ_k factors_k z_ak z_bk of each pair, of one atom or more."""
        pairs = self.pairs
        out = self.pairs.recycled.empty()
        active, places = self.active(atoms)
        (i, j) = active.ends[places].T
        mixed = factors * active.signs[places]
        n = active.n_features
        ends = np.append(i, j)
        every = np.arange(active.n_features)
        squares = np.bincount(ends, np.append(factors, factors), n)
        row = np.append(every, ends)
        entries = np.concatenate([squares, mixed, mixed])
        column = np.concatenate([every, j, i])
        order = np.argsort(row, kind="stable")
        ptr = np.searchsorted(row[order], np.arange(n + 1))
        M = ptr, column[order].astype(np.int32), entries[order]
        bounds = self._workers.split(
            self._rows.n_rows, grain=self._grain(active.rows), work=pairs.ptr
        )
        given = pairs.ptr, pairs.b, active.rows, M, out
        self._workers.run(
            lambda *part: kernels.similarities(*part, *given, np.zeros(n)), bounds
        )
        return out

    def scores(
        self, atoms: np.ndarray, w: np.ndarray, diagonal: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """Return Σ_s w_s z_a z_b of each atom; ``diagonal()`` returns C_jj of all features."""
        codes = self._codes(atoms)
        pairs = self.pairs
        if not codes:
            return np.empty(0)
        find = lambda k: self._find_terms(atoms[k].tolist())  # noqa: E731
        terms = None if self._covers(codes) else self._store.all_of(codes, find)
        if terms is not None:
            out = self._sum_terms(*terms, w)
            if self._rows.is_small:
                entries = np.append(
                    diagonal(), 0.0
                )  # the last is that of a feature without values
                out += entries[atoms[:, 0]] + entries[atoms[:, 1]]
            return out
        active, places = self.active(atoms)
        n_parts = len(pairs.score_bounds) - 1
        n = active.n_features
        squares = np.zeros((n_parts, n))
        mixed = np.zeros((n_parts, len(active.signs)))
        is_long = self._grain(active.rows) < pairs.n_pairs
        parts = np.arange(n_parts + 1) if is_long else [0, n_parts]
        given = (
            pairs.score_bounds,
            pairs.ptr,
            pairs.b,
            w,
            active.rows,
            active.graph,
            squares,
            mixed,
        )
        self._workers.run(
            lambda *part: kernels.scores(*part, *given, np.zeros(n)), parts
        )
        diagonal = squares.sum(axis=0)[active.ends[places]].sum(axis=1)
        return diagonal + active.signs[places] * mixed.sum(axis=0)[places]

    def terms_of(
        self, atoms: np.ndarray, rows: np.ndarray
    ) -> tuple[Arrays, np.ndarray, int]:
        """Return z of atoms and of some rows of X as CSR arrays, and the columns of the atoms.

        Rows are marked; the others are empty. The last number is that of the columns.
        """
        active, places = self.active(atoms)
        (graph_ptr, _, end) = active.graph
        n_atoms = len(active.signs)
        sign = np.where(end % 2, active.signs[end // 2], 1.0)
        given = rows, active.rows, (graph_ptr, (end // 2).astype(np.int32), sign)

        def find(start: int, stop: int, *out: np.ndarray) -> None:
            kernels.product_rows(start, stop, *given, np.full(n_atoms, -1), *out)

        return self._found(active.rows[0], find), places, n_atoms

    def _grain(self, rows: Arrays) -> int:
        """Return how many pairs are worth a thread."""
        return int(GRAIN / (4 * rows[0][-1] / self._rows.n_rows + 1)) + 1

    # --- active rows ------------------------------------------------------------------

    def _covers(self, codes: list[int]) -> bool:
        if self._active is None:
            return False
        return all(
            map(self._active.place.__contains__, reversed(codes))
        )  # new ones come last

    def _make_active(self, atoms: np.ndarray, codes: list[int]) -> Active:
        features = np.unique(atoms[:, :2])
        features = features[features >= 0]
        n = len(features)
        place = np.full(self._rows.n_columns + 1, -1, dtype=np.int32)
        place[features] = np.arange(n)
        by_row = self._rows.by_row
        rows = self._found(
            by_row[0],
            lambda *part: kernels.active_rows(*part[:2], by_row, place, *part[2:]),
        )
        ends = np.where(atoms[:, :2] >= 0, place[atoms[:, :2]], n).astype(np.int32)
        number = np.arange(0, 2 * len(atoms), 2, dtype=np.int32)
        keyed = np.append(ends[:, 0], ends[:, 1]), np.append(ends[:, 1], ends[:, 0])
        numbers = np.append(number, number + np.int32(1))
        graph = grouped(*keyed, numbers, n + 1, self._workers)
        signs = atoms[:, 2].astype(np.float64)
        place_of = {code: k for k, code in enumerate(codes)}
        return Active(atoms.copy(), rows, graph, ends, signs, place_of)

    def _found(self, work: np.ndarray, find: Callable[..., None]) -> Arrays:
        """Return rows as CSR arrays: ``find(start, stop, at, idx, val)`` counts, then writes."""
        n = self._rows.n_rows
        bounds = self._workers.split(n, grain=GRAIN // 16, work=work)
        at = np.zeros(n + 1, dtype=np.int64)
        self._workers.run(find, bounds, at, np.empty(0, dtype=np.int32), np.empty(0))
        np.cumsum(at, out=at)
        out = at, np.empty(at[-1], dtype=np.int32), np.empty(at[-1])
        if at[-1]:
            self._workers.run(find, bounds, *out)
        return out

    # --- terms of single atoms --------------------------------------------------------

    def _sum_terms(
        self, first: np.ndarray, last: np.ndarray, w: np.ndarray
    ) -> np.ndarray:
        sizes = last - first
        atom = np.arange(len(first))
        is_cut = self.pairs.n_pairs > PIECE and bool((sizes > PIECE).any())
        if is_cut:
            atom = np.repeat(atom, sizes // PIECE + 1)
            first = first[atom] + PIECE * (
                np.arange(len(atom)) - np.searchsorted(atom, atom)
            )
            last = np.minimum(first + PIECE, last[atom])
        bounds = self._workers.split(
            len(atom), grain=GRAIN // 2, work=starts(last - first)
        )
        out = np.empty(len(atom))
        self._workers.run(
            kernels.sum_terms, bounds, first, last, *self._store.arrays, w, out
        )
        return np.bincount(atom, out) if is_cut else out

    def _find_terms(self, atom: list[int]) -> Sequence[np.ndarray]:
        pairs = self.pairs
        workers = self._workers
        (u, v) = np.empty((2, self._rows.n_rows))
        i, j, sign = atom
        if self._rows.is_small:
            self._rows.unfold_atom((i, -1, 1), u)
            self._rows.unfold_atom((-1, j, sign), v)
        else:
            self._rows.unfold_atom((i, j, sign), u)
            np.multiply(u, 0.5, out=v)
        bounds = np.array(workers.split(len(u), grain=GRAIN, work=pairs.ptr))
        counts = np.zeros(len(bounds) - 1, dtype=np.int64)
        parts = np.arange(len(bounds))
        found = pairs.recycled.empty().view(np.int32), pairs.recycled.empty()
        given = bounds, u, v, pairs.ptr, pairs.b, *found, counts
        workers.run(kernels.atom_terms, parts, *given)
        first = pairs.ptr[bounds]
        at = starts(counts)
        out = np.empty(at[-1], dtype=np.int32), np.empty(at[-1])

        def move(start: int, stop: int) -> None:
            for k in range(start, stop):
                for source, target in zip(found, out, strict=True):
                    target[at[k] : at[k + 1]] = source[first[k] : first[k] + counts[k]]

        workers.run(move, parts)
        return out
