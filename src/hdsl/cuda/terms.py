"""S_ij of the feature pairs that the active atoms are made of, from stored terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .runtime import Array

if TYPE_CHECKING:
    from .on_card import OnCard

#: Most terms stored (12 bytes each); the rest is recomputed when it is asked for.
TERMS_LIMIT = 1 << 26

#: Terms that one block of threads sums, as in the kernels.
CHUNK = 2048


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
    version : int
        Counts the changes of arrays: what was recorded before one is no longer valid.
    """

    pair: Array
    value: Array
    run_features: Array
    run_chunks: Array
    chunk_first: Array

    def __init__(self, card: OnCard, limit: int = TERMS_LIMIT) -> None:
        self.card, self.device, self.limit = card, card.device, limit
        self.runs: dict[tuple[int, int], int] = {}
        self.version = 0
        bound = self.device.empty(card.n_features)
        self.device.launch(
            "count_links", self.device.n_blocks, card.n_features, *card.by_column[:2],
            card.links.ptr, bound,
        )  # fmt: skip
        self.bound = self.device.download(bound).astype(np.int64)
        self._tiles = self.device.empty(-(-card.n_rows // 256) + 1, np.int64)
        self.table = self.device.zeros(8, np.int64)
        self.host_table = self.device.host(8, np.int64)
        self._used = 0  # at most
        self._atoms: np.ndarray | None = None  # those that _located belongs to
        self._located = np.empty(0, dtype=np.int64)
        # Room to begin with: arrays that grow leave recorded work behind.
        self._room_for(min(max(len(card.products.idx) // 4, 1 << 12), limit), 512)

    # --- room ------------------------------------------------------------------------------------

    def _room_for(self, n_terms: int, n_runs: int) -> None:
        """Allocate arrays of these lengths, and move what there is."""
        device, old = self.device, self.__dict__
        self.version += 1  # first: some arrays are new even where there is no memory for others
        n_chunks = n_terms // CHUNK + n_runs + 1
        sizes = {
            "pair": (n_terms, np.int32), "value": (n_terms, np.float64),
            "run_features": (2 * n_runs, np.int64), "run_chunks": (n_runs + 1, np.int64),
            "chunk_first": (2 * n_chunks, np.int64),
        }  # fmt: skip
        for name, (size, dtype) in sizes.items():
            array = device.zeros(size, dtype)
            if name in old:
                device.copy(array, old[name])
            setattr(self, name, array)
        self.part, self.scores = device.empty(n_chunks), device.empty(2 * n_runs)
        self.host_scores = device.host(2 * n_runs)
        self.n_terms, self.n_runs = n_terms, n_runs

    def _reserve(self, count: int) -> bool:
        """Make room for a run of so many terms; False where the limit forbids it."""
        if self._used + count > self.n_terms:
            self._refresh()
        if self._used + count > self.limit:
            return False
        wanted, runs = self._used + count, len(self.runs) + 1
        if wanted > self.n_terms or runs > self.n_runs:
            grown = max(wanted, min(2 * self.n_terms, self.limit))
            self._room_for(
                grown if wanted > self.n_terms else self.n_terms,
                2 * self.n_runs if runs > self.n_runs else self.n_runs,
            )
        self._used += count
        return True

    def _refresh(self) -> None:
        """Ask how many terms there are."""
        self.device.copy(self.host_table, self.table)
        self.device.wait()
        self.note_used()

    def note_used(self) -> None:
        """Take the number of terms from the host's copy of the table, which is up to date."""
        self._used = int(self.host_table[0])

    # --- runs ------------------------------------------------------------------------------------

    def plan(self, i: int, j: int) -> tuple[int, int] | None:
        """Reserve a run for a new feature pair; return the two with the lead first.

        None where the pair is known or there is no room. Whoever calls it must ``learn``.
        """
        i, j = int(i), int(j)
        if (i, j) in self.runs:
            return None
        lead, other = (i, j) if self.bound[i] <= self.bound[j] else (j, i)
        if not self._reserve(int(self.bound[lead])):
            return None
        self.runs[i, j] = len(self.runs)
        return lead, other

    def queue(self, query: Array) -> None:
        """Queue the listing of a run: `query` holds 1 and the other feature, then the lead.

        0 and a lead of -1 do nothing.
        """
        card, device = self.card, self.device
        lead, links = query[2:], card.links
        column = max(1, card.n_rows)
        device.run("scatter_features", column, query, *card.by_column, card.u)
        device.run(
            "count_terms", column, lead, *card.by_column[:2], links.ptr, links.idx, card.u,
            self._tiles, card.ticket, self.table, self.run_features, self.run_chunks,
            self.chunk_first,
        )  # fmt: skip
        device.run(
            "fill_terms", column, lead, *card.by_column, links.ptr,
            links.idx, card.link_pair, card.u, self._tiles, self.pair, self.value,
        )  # fmt: skip
        device.run("scatter_features", column, query, *card.by_column[:2], None, card.u)

    def queue_scores(self, w: Array, diagonal: Array) -> None:
        """Queue C_ii + C_jj and S_ij of all runs, and their copy to the host."""
        self.device.run(
            "score_runs", len(self.part), self.table, self.run_features, self.run_chunks,
            self.chunk_first, self.pair, self.value, w, diagonal, self.part, self.card.ticket,
            self.scores, per_block=1,
        )  # fmt: skip
        self.device.copy(self.host_scores, self.scores)

    def learn(self, keys: list[tuple[int, int]]) -> bool:
        """List runs of new feature pairs; return whether there is room for all."""
        for key in keys:
            planned = self.plan(*key)
            if planned is not None:
                self.queue(self.device.upload(np.array([1, planned[1], *planned])))
        return all(key in self.runs for key in keys)

    def forget(self) -> None:
        """Forget all runs."""
        self.runs, self._used, self._atoms = {}, 0, None
        self.device.clear(self.table)

    def locate(self, atoms: np.ndarray) -> np.ndarray | None:
        """Return the runs of atoms, None where some have none; atoms change little by little."""
        last = self._atoms
        if atoms is last:
            return self._located
        n = 0
        if last is not None and len(last) < len(atoms) and np.array_equal(atoms[: len(last)], last):
            n = len(last)
        found = [self.runs.get((i, j), -1) for i, j, _ in atoms[n:].tolist()]
        if -1 in found:
            return None
        self._located = np.concatenate([self._located[:n], np.array(found, dtype=np.int64)])
        self._atoms = atoms
        return self._located

    def host_copy(self) -> np.ndarray:
        """Return the scores of all runs that the host has, shape (n_runs, 2)."""
        return self.host_scores[: 2 * len(self.runs)].reshape(-1, 2).copy()

    def scored(self, atoms: np.ndarray, w: Array, diagonal: Array) -> np.ndarray | None:
        """Wait for C_ii + C_jj and S_ij of atoms, shape (n, 2); None where there is no room."""
        keys = list(map(tuple, atoms[:, :2].tolist()))
        if not self.learn(keys):
            self.forget()
            if not self.learn(keys):
                return None
        self.queue_scores(w, diagonal)
        self.device.wait()
        return self.host_copy()[[self.runs[key] for key in keys]]
