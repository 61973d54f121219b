"""What corrections need of many atoms at once: second derivatives, and the change of margins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..solver.protocols import Loss
from .comparisons import Comparisons
from .kernels import corrective as kernels
from .workers import GRAIN

#: Most terms of atoms stored from one iteration to the next (12 bytes each); the rest is
#: recomputed.
TERMS_LIMIT = 1 << 25

#: Second derivatives are estimated from about this many comparisons where there are more.
CURVATURE_SAMPLE = 1 << 18

Terms = tuple[np.ndarray, np.ndarray]


class Sample(NamedTuple):
    """The comparisons that second derivatives are estimated from: those with the same winners.

    Parameters
    ----------
    pairs : ndarray of bool of shape (n_pairs,)
        The pairs that are to win in them.
    share : float
        Of the weight of all comparisons.
    """

    pairs: np.ndarray
    share: float


def choose_sample(of: Comparisons) -> Sample:
    """Return every so manieth pair that is to win; all of them where there are few comparisons."""
    stride = -(-of.n_comparisons // CURVATURE_SAMPLE)
    pairs = np.zeros(of.pairs.n_pairs, dtype=bool)
    pairs[np.unique(of.positive_pair)[::stride]] = True
    omega = of.omega if of.omega_step else np.ones(of.n_comparisons)
    total = float(omega.sum())
    return Sample(pairs, float(omega[pairs[of.positive_pair]].sum()) / total if total > 0 else 1.0)


def share_sample(
    of: Comparisons, names: np.ndarray, n_rows: int, keys: np.ndarray, share: float
) -> Sample:
    """Return a shard's part of a sample.

    Parameters
    ----------
    of : Comparisons
        Those of the shard.
    names : ndarray
        The number of each of its rows among all `n_rows`, rising.
    n_rows : int
    keys : ndarray of int64
        row * n_rows + row of the chosen pairs of all shards, the smaller row first.
    share : float
    """
    own = names.astype(np.int64)
    return Sample(np.isin(own[of.pairs.a] * n_rows + own[of.pairs.b], keys), share)


class Corrections:
    """The second derivatives of a problem in the weights of atoms, and shifts of its margins.

    Parameters
    ----------
    comparisons : Comparisons
    loss : Loss
    scale : float
    sample : Sample, default=None
        What second derivatives are estimated from; None chooses by these comparisons alone.
    """

    def __init__(
        self, comparisons: Comparisons, loss: Loss, scale: float, sample: Sample | None = None
    ) -> None:
        self.of, self.loss, self.scale = comparisons, loss, scale
        pairs = comparisons.pairs
        self._work = np.zeros(comparisons.rows.n_rows)
        self._room: Terms = np.empty(pairs.n_pairs, dtype=np.int32), np.empty(pairs.n_pairs)
        self._known: dict[tuple[int, ...], Terms] = {}
        self._n_stored = 0
        # Comparisons in groups with the same pair that is to win.
        chosen, share = choose_sample(comparisons) if sample is None else sample
        order = np.argsort(comparisons.positive_pair, kind="stable")
        self._sample = order[chosen[comparisons.positive_pair[order]]]
        losers = comparisons.negative_pair[self._sample]
        winner, count = np.unique(comparisons.positive_pair[self._sample], return_counts=True)
        self._group_ptr = np.concatenate([[0], np.cumsum(count)])
        used = np.unique(np.concatenate([winner, losers]))
        self._number = np.full(pairs.n_pairs, -1, dtype=np.int32)  # of the pairs of the sample
        self._number[used] = np.arange(len(used), dtype=np.int32)
        self._n_used = len(used)
        self._winner, self._loser = self._number[winner], self._number[losers]
        omega = comparisons.omega
        omega = omega[self._sample] if comparisons.omega_step else np.full(len(losers), omega)
        self._omega = omega / share if share > 0.0 else omega

    def curvature(self, margins: np.ndarray, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value, shape (n_atoms, n_atoms)."""
        n, workers = len(atoms), self.of.workers
        if not len(self._sample):  # it is on other shards
            return np.zeros((n, n))
        keys = self._make_room(atoms)
        ptr = np.zeros(self._n_used + 1, dtype=np.int64)
        length = np.zeros(n + 1, dtype=np.int64)
        for k, key in enumerate(keys):
            pair, _ = self._terms(key)
            kernels.count_terms(pair, self._number, ptr)
            length[k + 1] = length[k] + len(pair)
        np.cumsum(ptr, out=ptr)
        atom, value = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
        at = ptr[:-1].copy()
        for k, key in enumerate(keys):
            kernels.place_terms(k, *self._terms(key), self._number, at, atom, value)
        bend = self._omega * self.loss.curvature(margins[self._sample]) * self.scale**2
        by_pair = np.zeros(self._n_used)
        kernels.sum_per_pair(self._group_ptr, self._winner, self._loser, bend, by_pair)
        out = np.zeros((n, n))
        bounds = workers.split(n, grain=GRAIN, work=length)
        workers.run(
            kernels.group_rows, bounds, ptr, atom, value, self._group_ptr, self._winner,
            self._loser, bend, out,
        )  # fmt: skip
        workers.run(kernels.own_rows, bounds, ptr, atom, value, by_pair, out)
        return out + out.T

    def shift(self, atoms: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return how margins change where the weights of atoms change."""
        of = self.of
        by_pair, out = np.zeros(of.pairs.n_pairs), np.empty(of.n_comparisons)
        for key, factor in zip(self._make_room(atoms), change.tolist(), strict=True):
            if factor != 0.0:
                kernels.add_terms(self.scale * factor, *self._terms(key), by_pair)
        of.workers.run(
            kernels.differences, of.workers.split(of.n_comparisons, grain=GRAIN), by_pair,
            of.positive_pair, of.negative_pair, out,
        )  # fmt: skip
        return out

    # --- the terms of an atom --------------------------------------------------------------------

    def _make_room(self, atoms: np.ndarray) -> list[tuple[int, ...]]:
        """Return the keys of atoms; where the store is full, others are dropped from it."""
        keys = list(map(tuple, atoms.tolist()))
        if self._n_stored > TERMS_LIMIT // 2:
            self._known = {key: self._known[key] for key in keys if key in self._known}
            self._n_stored = sum(len(pair) for pair, _ in self._known.values())
        return keys

    def _terms(self, key: tuple[int, ...]) -> Terms:
        """Return the pairs of an atom and their terms, from the store where it has them."""
        if key not in self._known:
            i, j, sign = key
            n = kernels.atom_terms(
                i, j, float(sign), *self.of.rows.by_column, *self.of.pairs.links, self._work,
                *self._room,
            )  # fmt: skip
            pair, value = self._room
            terms = pair[:n].copy(), value[:n].copy()
            if self._n_stored + n > TERMS_LIMIT:
                return terms
            self._known[key] = terms
            self._n_stored += n
        return self._known[key]
