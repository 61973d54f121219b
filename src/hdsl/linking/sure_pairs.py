"""Pairs without an answer that a mixture is sure of, which stand for the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: A pair is sure to match from this probability on, and sure not to below one minus it.
SURE = 0.98

#: Sure pairs per answer, the least number of them, and the most.
N_PER_ANSWER = 4
MIN_PAIRS = 400
MAX_PAIRS = 4000


class SurePairs(NamedTuple):
    """Pairs that nobody answered, and 1 for those that match."""

    pairs: np.ndarray
    labels: np.ndarray


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
    n = int(np.clip(N_PER_ANSWER * len(answered), MIN_PAIRS, MAX_PAIRS))
    sure_matches = np.flatnonzero(probability >= SURE)
    matches = rng.permutation(sure_matches)[: n // 2]
    records = np.union1d(candidates[matches], answered)
    is_related = np.isin(candidates, records).any(axis=1)
    sure_others = np.flatnonzero((probability <= 1.0 - SURE) & is_related)
    others = rng.permutation(sure_others)[: n - len(matches)]
    chosen = np.concatenate([matches, others])
    labels = np.repeat([1.0, 0.0], [len(matches), len(others)])
    return SurePairs(candidates[chosen], labels)
