"""Why two records are alike, and what pushed the probability that they are one thing."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..explain import Explanation, explain
from ..similarity import FixedPart, Similarity
from ..solver.atoms import NOTHING
from .candidates import SearchedRecords
from .contributions import Contributions, contributions, groups_of
from .learned import Learned
from .pair_features import PairFeatures
from .similarity import widened


def explain_similarity(
    searched: SearchedRecords, learned: Learned, pair: np.ndarray, top: int | None
) -> Explanation:
    """Return the words, n-grams and pairs of them that make two records alike."""
    X = searched.records.matrix(pair)
    if learned.model is None:
        cosine = FixedPart("prior", 1.0, norm="l2")
        similarity = Similarity(*NOTHING, 1.0, (cosine,), X.shape[1])
    else:
        similarity = widened(learned.model, X.shape[1])
    names = searched.records.vocabulary.names
    return explain(similarity, X[[0]], X[[1]], feature_names=names, top=top)


def explain_probability(
    searched: SearchedRecords, learned: Learned, pair: np.ndarray, n_jobs: int | None
) -> Contributions:
    """Return what pushed the probability of a pair up or down, in log odds.

    Raises
    ------
    ValueError
        If the probability is not that of classifiers: nothing was learned.
    """
    if learned.classifier is None:
        raise ValueError(
            "No probability was learned that could be explained: `explain` has the "
            "parts of the cosine."
        )
    records = searched.records
    row = learned.rows(searched, pair[None], n_jobs)[0]
    training = learned.classifier.training
    standings = searched.standings(training.pairs, n_jobs)
    log_odds = learned.unlearned_log_odds(records, training.pairs, standings[1], n_jobs)
    without_labels = "cosine, without what is learned"
    if learned.mixture is not None:
        without_labels = "mixture of columns"
    background = np.column_stack([training.X, log_odds])
    groups = groups_of(
        [
            *PairFeatures.standing_names(),
            *records.overlap_names(),
            *((each.subject, each.names) for each in records.strings.comparisons),
            ("single words", ["log odds"]),
            (without_labels, ["log odds"]),
        ]
    )
    return contributions(
        partial(learned.probability_of_rows, n_jobs=n_jobs),
        row,
        background,
        groups,
        learned.seed,
    )


def reasons(
    searched: SearchedRecords, explanation: Explanation, n: int
) -> list[tuple[str, float]]:
    """Return the words and pairs of words that add most, and the n-grams as one number."""
    values = {"spelling": 0.0}
    # A word may be learned, and in the cosine too.
    for part in explanation.parts:
        name = "spelling"
        if searched.records.vocabulary.are_words([part["i"], part["j"]]):
            name = str(part["name"])
        values[name] = values.get(name, 0.0) + float(part["value"])
    return sorted(values.items(), key=lambda item: -abs(item[1]))[:n]
