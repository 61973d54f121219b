"""Pairs without an answer that a mixture is sure of, which stand for the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: A pair is sure to match from this probability on, and sure not to below one minus it.
SURE = 0.98

#: Sure pairs that are drawn: half of them matches, if there are so many.
N_PAIRS = 2000


class SurePairs(NamedTuple):
    """Pairs that nobody answered, and 1 for those that match.

    `stands_for` is the number of sure pairs per pair that was drawn.
    """

    pairs: np.ndarray
    labels: np.ndarray
    stands_for: np.ndarray


def draw_sure_pairs(
    candidates: np.ndarray,
    probability: np.ndarray,
    answered: np.ndarray,
    seed: int,
) -> SurePairs:
    """Return sure pairs: matches, and others that share a record with one of them.

    Parameters
    ----------
    candidates : ndarray of shape (n_candidates, 2)
        Pairs without an answer.
    probability : ndarray of shape (n_candidates,)
    answered : ndarray of shape (n_answers, 2)
        Pairs with an answer; others that share a record with one of them come too.
    seed : int
    """
    rng = np.random.default_rng(seed)
    sure_matches = np.flatnonzero(probability >= SURE)
    matches = rng.permutation(sure_matches)[: N_PAIRS // 2]
    records = np.union1d(candidates[matches], answered)
    is_related = np.any(np.isin(candidates, records), axis=1)
    sure_others = np.flatnonzero(probability <= 1.0 - SURE)
    related_others = sure_others[is_related[sure_others]]
    others = rng.permutation(related_others)[: N_PAIRS - len(matches)]
    sizes = [len(matches), len(others)]
    shares = np.maximum(sizes, 1)
    per_pair = [len(sure_matches) / shares[0], len(sure_others) / shares[1]]
    chosen = np.concatenate([matches, others])
    return SurePairs(
        pairs=candidates[chosen],
        labels=np.repeat([1.0, 0.0], sizes),
        stands_for=np.repeat(per_pair, sizes),
    )
