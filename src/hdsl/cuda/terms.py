"""S_ij of the feature pairs that the active atoms are made of, from stored terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .runtime import Array

if TYPE_CHECKING:
    from .on_card import OnCard

#: Most terms stored (12 bytes each); beyond that, scores take a pass over the pairs of rows.
TERMS_LIMIT = 1 << 26

#: Terms that one block of threads sums.
CHUNK = 2048

#: Room to begin with, in runs.
RUNS = 512


class Terms:
    """Runs of terms, one run per feature pair: S_ij = Σ_s w_s v_s over its terms (s, v_s).

    Runs are added one after the other. The scores of all runs are one pass over them.

    Parameters
    ----------
    card : OnCard
    limit : int, default=TERMS_LIMIT

    Attributes
    ----------
    runs : dict of (int, int) to int
        The run of each feature pair.
    version, era : int
        Count the changes of arrays, and how often all runs were forgotten: what was recorded, or
        scored, before is no longer valid.
    """

    def __init__(self, card: OnCard, limit: int = TERMS_LIMIT) -> None:
        self.card, self.device, self.limit = card, card.device, limit
        self.version = self.era = 0
        self._n_runs = self.device.zeros(1, np.int64)
        self._arrays: list[Array] = []
        self.forget()
        self._make_room(min(max(len(card.products.idx) // 4, 1 << 12), limit), RUNS)

    def forget(self) -> None:
        """Forget all runs."""
        self.runs: dict[tuple[int, int], int] = {}
        self._used, self._n_chunks, self.era = 0, 0, self.era + 1
        self._located: tuple[Any, list[int]] = None, []
        self.device.clear(self._n_runs)

    def _make_room(self, n_terms: int, n_runs: int) -> None:
        """Allocate arrays of these lengths, and move what there is."""
        device, n_chunks = self.device, n_terms // CHUNK + n_runs + 1
        self.version += 1  # first: some arrays are new even where there is no memory for others
        # The features of each run, where its chunks begin, where these do; pairs and values.
        sizes = (2 * n_runs, n_runs + 1, n_chunks + 1, n_terms, n_terms)
        kinds = (np.int64, np.int64, np.int64, np.int32, np.float64)
        old = self._arrays
        self._arrays = [device.zeros(*given) for given in zip(sizes, kinds, strict=True)]
        for array, before in zip(self._arrays, old, strict=False):
            device.copy(array, before)
        self._part, self._scores = device.empty(n_chunks), device.empty(2 * n_runs)
        self._host_scores = device.host(2 * n_runs)
        self._room, self._most_runs = n_terms, n_runs

    def learn(self, i: int, j: int) -> bool:
        """List the run of a feature pair; return whether there was room, or it was known."""
        if (i, j) in self.runs:
            return True
        card, device = self.card, self.device
        lead, other = (i, j) if card.lengths[i] <= card.lengths[j] else (j, i)
        size, ptr, idx, val = int(card.lengths[lead]), *card.by_column
        counts, query = device.empty(size, np.int32), device.upload(np.array([1, other]))
        known = lead, ptr, idx, val, card.links.ptr, card.links.idx, card.link_pair, card.u
        device.run("scatter_features", card.n_rows, query, ptr, idx, val, card.u)
        device.run("list_terms", size, *known, counts, None, 0, None, None)
        upto = device.cumsum(counts)
        n = int(device.download(upto[size - 1 :])[0]) if size else 0
        has_room = self._used + n <= self.limit
        if has_room:
            self._add(lead, other, n)
            device.run("list_terms", size, *known, None, upto, self._used - n, *self._arrays[3:])
        device.run("scatter_features", card.n_rows, query, ptr, idx, None, card.u)
        return has_room

    def _add(self, lead: int, other: int, n: int) -> None:
        """Write a run of n terms into the tables."""
        first, run, n_chunks = self._used, len(self.runs), -(-n // CHUNK)
        room, most_runs = self._room, self._most_runs
        if first + n > room or run == most_runs:
            if first + n > room:
                room = max(first + n, min(2 * room, self.limit))
            self._make_room(room, 2 * most_runs if run == most_runs else most_runs)
        ends = np.minimum(first + CHUNK * np.arange(1, n_chunks + 1), first + n)
        self._used, self._n_chunks = first + n, self._n_chunks + n_chunks
        self.runs[min(lead, other), max(lead, other)] = run
        rows = [lead, other], [self._n_chunks], ends
        places = 2 * run, run + 1, self._n_chunks - n_chunks + 1
        for table, at, values in zip(self._arrays, places, rows, strict=False):
            self.device.copy(table[at:], np.array(values, dtype=np.int64))
        self.device.copy(self._n_runs, np.array([run + 1]))

    def queue_scores(self, w: Array, diagonal: Array) -> None:
        """Queue C_ii + C_jj and S_ij of all runs, and their copy to the host."""
        self.device.run(
            "score_runs", len(self._part), self._n_runs, *self._arrays, w, diagonal, self._part,
             self.card.ticket, self._scores, per_block=1,
        )  # fmt: skip
        self.device.copy(self._host_scores, self._scores)

    def locate(self, atoms: np.ndarray) -> list[int] | None:
        """Return the runs of atoms, None where some have none."""
        if self._located[0] is not atoms:
            runs = [self.runs.get((i, j), -1) for i, j, _ in atoms.tolist()]
            if -1 in runs:
                return None
            self._located = atoms, runs
        return self._located[1]

    def host_copy(self) -> tuple[int, np.ndarray]:
        """Return the era, and the scores of all runs that the host has, shape (n_runs, 2)."""
        return self.era, self._host_scores[: 2 * len(self.runs)].reshape(-1, 2).copy()

    def scored(self, atoms: np.ndarray, w: Array, diagonal: Array) -> np.ndarray | None:
        """Wait for C_ii + C_jj and S_ij of atoms, shape (n, 2); None where there is no room."""
        keys = [(i, j) for i, j, _ in atoms.tolist()]
        if not all(self.learn(*key) for key in keys):
            self.forget()
            if not all(self.learn(*key) for key in keys):
                return None
        self.queue_scores(w, diagonal)
        self.device.wait()
        return self.host_copy()[1][self.locate(atoms)]
