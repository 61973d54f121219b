"""The similarity of records that is learned from known matches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ..hdsl import HDSL
from ..rows import unit_rows
from ..settings import Solver
from ..similarity import Similarity
from ..triplets import link_triplets
from .blocks import row_blocks
from .features import RecordFeatures
from .nearest import N_CANDIDATES, NearestRecords
from .rows import Rows

#: Weight of the cosine under what is learned. Of 2, 4 and 8 it was the best on
#: validation pairs of the benchmarks; a choice in each fit takes a third of the time
#: and had no better links there.
PRIOR = 4.0


def learn_similarity(
    X: sp.csr_array,
    pairs: np.ndarray,
    is_match: np.ndarray,
    nearest: NearestRecords,
    *,
    seed: int,
    n_jobs: int | None,
) -> HDSL:
    """Return a similarity learned from a record, its match and one of its nearest others.

    Parameters
    ----------
    X : csr_array of shape (n_records, n_features)
    pairs : ndarray of shape (n_pairs, 2)
    is_match : ndarray of bool of shape (n_pairs,)
    nearest : NearestRecords
        By cosine: only the candidates of a record are learned from.
    seed : int
    n_jobs : int or None
    """
    triplets = link_triplets(pairs, is_match, n_per_link=None)
    anchors = triplets[:, 0]
    negatives = triplets[:, 2:]
    candidates = nearest.neighbors[anchors, :N_CANDIDATES]
    triplets = triplets[(candidates == negatives).any(axis=1)]
    # With a tol of 0 no gap is certified: that takes a third of the time with long
    # texts.
    model = HDSL(prior=PRIOR, solver=Solver(tol=0.0), random_state=seed, n_jobs=n_jobs)
    model.fit(X, triplets=triplets)
    if model.status_ == "interrupted":  # it would be one of several models
        raise KeyboardInterrupt
    return model


def widened(model: HDSL, n_features: int) -> Similarity:
    """Return what was learned, for rows with later features that nothing is learned of."""
    return replace(model.similarity_, n_features=n_features)


def learned_rows(model: HDSL, records: RecordFeatures) -> Rows:
    """Return records as learned: their products are the learned cosine.

    Pairs of features come first, then the features of the cosine, later ones last.
    """
    X = records.matrix()
    similarity = widened(model, X.shape[1])
    return Rows.stacked(
        [
            Rows.of_matrix(sp.csr_array(unit_rows(similarity.transform(X[block]))))
            for block in row_blocks(records.n_records)
        ]
    )
