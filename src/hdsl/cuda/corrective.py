"""What corrections need of many atoms at once, on a card: second derivatives, shifts of margins."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..cpu.corrective import Sample, choose_sample
from .runtime import THREADS, Array, Device, kernel_for
from .segments import cut_to_fit

if TYPE_CHECKING:
    from .layout import OnCard

#: Most rows of atoms, and most atoms of comparisons, that are laid out at a time. Where there are
#: more, two blocks of atoms, or a block of comparisons, take turns.
ROWS_LIMIT, TERMS_LIMIT = 1 << 24, 1 << 23

#: Numbers of the sums of chunks, beyond one row per atom.
PARTS_LIMIT = 1 << 23

#: Fewest entries of a chunk.
SHORTEST = 128

#: Bytes per row of an atom, per atom of a comparison and per comparison of the sample, while they
#: are sorted.
ROWS_BYTES, TERMS_BYTES, SAMPLE_BYTES = 40, 48, 48


class _AtomsByRow(NamedTuple):
    """U of some atoms, by rows: where rows begin, atoms and values."""

    ptr: Array
    atom: Array
    value: Array


class CardCorrections:
    """The second derivatives of a problem in the weights of atoms, and shifts of its margins.

    Parameters
    ----------
    card : OnCard
    code : int
        Of the loss.
    scale : float
    sample : Sample, default=None
        What second derivatives are estimated from; None chooses by these comparisons alone.
    """

    def __init__(self, card: OnCard, code: int, scale: float, sample: Sample | None = None) -> None:
        self.card, self.device, self.code, self.scale = card, card.device, code, scale
        of = card.of
        chosen, share = choose_sample(of) if sample is None else sample
        numbers = np.flatnonzero(chosen[of.positive_pair]).astype(np.int32)
        omega = of.omega[numbers] if of.omega_step else np.full(len(numbers), of.omega)
        self.n_sampled = len(numbers)
        self._sample = self.device.upload(numbers)
        self._omega = self.device.upload(omega / share if share > 0.0 else omega)
        self._column_size = np.diff(of.rows.by_column[0])
        self._last: tuple[bytes, _AtomsByRow] | None = None

    # --- what is asked for -----------------------------------------------------------------------

    def curvature(self, margins: Array, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value, shape (n_atoms, n_atoms)."""
        n, device = len(atoms), self.device
        out = np.zeros((n, n))
        if not self.n_sampled or not n:  # the sample is on other shards
            return out
        bend = device.empty(self.n_sampled)
        device.run(
            "sample_bends", self.n_sampled, self.code, self.n_sampled, self._sample, margins,
            self._omega, self.scale**2, bend,
        )  # fmt: skip
        blocks = self._blocks(atoms, 2)
        for part in map(np.concatenate, combinations(blocks, 2)) if len(blocks) > 1 else blocks:
            out[np.ix_(part, part)] = self._curvature_of(bend, atoms[part])
        return out

    def add_shift(self, atoms: np.ndarray, change: np.ndarray, out: Array) -> None:
        """Queue the addition of what margins change where the weights of atoms change."""
        card, device = self.card, self.device
        for block in self._blocks(atoms, 1):
            by_row = self._by_row(atoms[block])
            if by_row is not None:
                device.run(
                    "add_shift", card.n, card.n, self.scale, device.upload(change[block]),
                    *card.rows_of, *by_row, out,
                )  # fmt: skip

    # --- atoms by rows ---------------------------------------------------------------------------

    def _blocks(self, atoms: np.ndarray, n_together: int) -> list[np.ndarray]:
        """Return the numbers of all atoms in blocks, of which so many are laid out together."""
        sizes, every = self._column_size[atoms[:, :2]].sum(axis=1), np.arange(len(atoms))
        if sizes.sum() <= ROWS_LIMIT:
            return [every]
        return np.split(every, cut_to_fit(sizes, ROWS_LIMIT // n_together)[1:-1])

    def _by_row(self, atoms: np.ndarray) -> _AtomsByRow | None:
        """Return U of atoms, by rows; None where no row has any of them."""
        key = atoms.tobytes()
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # before the next comes
        card, device, n = self.card, self.device, len(atoms)
        first = np.concatenate([[0], np.cumsum(self._column_size[atoms[:, :2]].sum(axis=1))])
        size, begins = int(first[-1]), device.upload(first)
        if not size:
            return None
        row, u = device.empty(size, np.int32), device.empty(size)
        device.run(
            kernel_for("atom_rows", card.columns.val), size, size, n, card.n_rows,
            device.upload(atoms.astype(np.int64)), begins, *card.by_column, row, u,
        )  # fmt: skip
        order = device.argsort(row)
        ptr = device.empty(card.n_rows + 1, np.int64)
        device.run("key_bounds", card.n_rows + 1, card.n_rows, size, order, row, ptr)
        atom, value = device.empty(size, np.int32), device.empty(size)
        device.run("row_atoms", size, size, n, order, begins, u, atom, value)
        found = _AtomsByRow(ptr, atom, value)
        self._last = key, found
        return found

    # --- second derivatives ----------------------------------------------------------------------

    def _curvature_of(self, bend: Array, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of a block of atoms."""
        device, n, m = self.device, len(atoms), self.n_sampled
        by_row = self._by_row(atoms)
        if by_row is None:
            return np.zeros((n, n))
        K, counts = device.zeros(n * n), device.empty(m, np.int32)
        self._list_terms((0, m, 0), bend, by_row, (counts, None, None, None, None, None))
        upto = device.cumsum(counts)
        total = int(device.download(upto[-1:])[0])
        bounds, before = np.array([0, m]), np.array([0, total])
        if total > TERMS_LIMIT:
            ends = np.concatenate([[0], device.download(upto)])
            bounds = cut_to_fit(np.diff(ends), TERMS_LIMIT)
            before = ends[bounds]
        for part, (base, stop) in zip(
            pairwise(bounds.tolist()), pairwise(before.tolist()), strict=True
        ):
            if base < stop:
                terms = _Terms(device, stop - base)
                self._list_terms((*part, base), bend, by_row, (None, upto, *terms.arrays))
                terms.add_curvature(n, K)
                del terms  # before the next ones come
        return device.download(K).reshape(n, n)

    def _list_terms(
        self, part: tuple[int, int, int], bend: Array, by_row: _AtomsByRow, out: tuple
    ) -> None:
        """Queue the count of the atoms of comparisons, or their listing."""
        self.device.run(
            "sample_terms", part[1] - part[0], *part, self._sample, bend, *self.card.rows_of,
            *by_row, *out,
        )  # fmt: skip


class _Terms:
    """Atoms of comparisons, one after the other, with what they add to the margin.

    Parameters
    ----------
    device : Device
    size : int
    """

    def __init__(self, device: Device, size: int) -> None:
        self.device, self.size = device, size
        self.atom, self.start = device.empty(size, np.int32), device.empty(size, np.int32)
        self.term, self.factor = device.empty(size), device.empty(size)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Atoms, changes, these times the bend, and where their comparison begins."""
        return self.atom, self.term, self.factor, self.start

    def add_curvature(self, n: int, K: Array) -> None:
        """Queue the addition of what they add to the second derivatives of n atoms."""
        device, size = self.device, self.size
        order, bounds = device.argsort(self.atom), device.empty(n + 1, np.int64)
        device.run("key_bounds", n + 1, n, size, order, self.atom, bounds)
        ptr = device.download(bounds)
        *chunks, chunk_ptr = _chunks(ptr, max(SHORTEST, -(-size * n // PARTS_LIMIT)))
        n_chunks = len(chunks[0])
        part = device.empty(n_chunks * n)
        device.run(
            "curvature_parts", n_chunks, n_chunks, n, *map(device.upload, chunks), order,
            *self.arrays, part, per_block=THREADS // 32,
        )  # fmt: skip
        device.run("add_curvature", n * n, n, device.upload(chunk_ptr), part, K)


def _chunks(ptr: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the atom, first and last entry of chunks of this length, and the chunks of atoms."""
    counts = -(-np.diff(ptr) // length)
    chunk_ptr = np.concatenate([[0], np.cumsum(counts)])
    atom = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    first = ptr[atom] + (np.arange(len(atom)) - chunk_ptr[atom]) * length
    return atom, first, np.minimum(first + length, ptr[atom + 1]), chunk_ptr
