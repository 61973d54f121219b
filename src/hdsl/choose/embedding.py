"""The weight of an embedding beside the features, chosen before anything is learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..similarity.cosine import COSINE
from ..similarity.unlearned import unlearned
from ..supervision.judges import Score
from ..supervision.supervision import Supervision
from .candidates import FROM_ANOTHER, score_columns
from .parts import MOST_HELD_OUT, MOST_TRAIN, split
from .searched import UNKNOWN, search_columns

if TYPE_CHECKING:
    from ..progress import Progress

#: Candidates for the weight, from the features alone to nearly the embedding alone.
WEIGHTS = (0.0, 0.25, 1.0, 4.0, 16.0)

#: The weight where too little can be held out to choose one.
FIXED_WEIGHT = 1.0


class EmbeddingChoice(NamedTuple):
    """The weight of an embedding, and what was tried.

    Parameters
    ----------
    weight : float
    reason : str
        Why, in one sentence.
    table : dict of str to ndarray or None
        One line per weight, as in the table of `choose.candidates`: the models have no
        pairs. None where nothing was tried.
    """

    weight: float
    reason: str
    table: dict[str, np.ndarray] | None = None


def choose_embedding_weight(
    model: Any,
    data: Supervision,
    validation: Supervision | None,
    rng: np.random.Generator,
    n_threads: int,
    progress: Progress,
) -> EmbeddingChoice:
    """Return the weight whose unlearned similarity is the best on held-out data.

    Rows are mixed, both blocks at unit length.
    """
    splits = split(model, data, validation, rng)
    if not splits:
        reason = (
            "too few rows or comparisons to hold some out: the embedding has the "
            f"weight {FIXED_WEIGHT:g}"
        )
        return EmbeddingChoice(FIXED_WEIGHT, reason)
    progress.stage("choosing the weight of the embedding", len(WEIGHTS))
    judges = []
    searches = []
    for train, held_out in splits:
        sample = held_out.sample(MOST_HELD_OUT, rng)
        judges.append(sample.judge(train.sample(MOST_TRAIN, rng), rng))
        search = sample.search(validation or data, rng)
        if search is not None and search.is_of_judgements:
            searches.append(search)
    scores: list[Score] = []
    gains = np.full(len(WEIGHTS), np.nan)
    for k, weight in enumerate(progress.each(WEIGHTS)):
        similarity = unlearned(data.X, weight)
        scores.append(Score.joined([judge(similarity) for judge in judges]))
        if searches:
            by_part = [
                search.gains(similarity, (COSINE,), n_threads)[COSINE]
                for search in searches
            ]
            gains[k] = np.concatenate(by_part).mean()
    means = np.array([float(score.units.mean()) for score in scores])
    if searches:
        # Comparisons are often with rows that words had ranked high: see what a search
        # sees.
        means = gains
    best = int(np.argmax(means))
    reason = (
        f"the embedding has the weight {WEIGHTS[best]:g}: {means[best]:.3f} on held-out "
        f"data before learning, features alone {means[0]:.3f}"
    )
    return EmbeddingChoice(WEIGHTS[best], reason, _table(scores, gains, best))


def _table(
    scores: Sequence[Score], gains: np.ndarray, best: int
) -> dict[str, np.ndarray]:
    """Return the columns of what was tried."""
    n = len(scores)
    return {
        "prior": np.full(n, np.inf),
        "n_iter": np.full(n, FROM_ANOTHER),
        **score_columns(scores),
        **search_columns(gains.tolist(), [UNKNOWN] * n, by_clicks=False),
        "chosen": np.arange(n) == best,
        "embedding_weight": np.array(WEIGHTS),
    }


def joined_table(
    embedding: EmbeddingChoice | None, table: dict[str, np.ndarray] | None
) -> dict[str, np.ndarray] | None:
    """Return what was tried for the weight of an embedding, and then for the prior.

    Of the weights the chosen one comes with the priors, which were tried with it.
    """
    if embedding is None:
        return table
    if table is None:
        return embedding.table
    n = len(table["prior"])
    weighed = {**table, "embedding_weight": np.full(n, embedding.weight)}
    if embedding.table is None:
        return weighed
    is_other = ~embedding.table["chosen"]
    return {
        name: np.concatenate([embedding.table[name][is_other], column])
        for name, column in weighed.items()
    }
