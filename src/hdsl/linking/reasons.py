"""Why two records are alike, and what pushed the probability that they are one thing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..explain import Explanation, explain
from ..similarity import FixedPart, Similarity
from ..solver.atoms import NOTHING
from .agreement import Compared
from .candidates import SearchedRecords
from .contributions import Contributions, contributions, groups_of
from .learning import Learned
from .pair_features import PairFeatures
from .probability import as_probability
from .similarity import widened


def explain_similarity(
    searched: SearchedRecords, learned: Learned, pair: np.ndarray, top: int | None
) -> Explanation:
    """Return the words, n-grams and pairs of them that make two records alike."""
    X = searched.records.matrix()[pair]
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
    """Return what pushed the probability of a pair up or down, in log odds."""
    records = searched.records
    compared = learned.agreement.compare(searched, pair[None], n_jobs)
    of_mixture = learned.mixture.log_odds(compared)
    if learned.classifier is None:
        return _by_column(learned, compared, of_mixture)
    row = learned.rows(searched, pair[None], of_mixture, n_jobs)[0]
    groups = groups_of(
        [
            *PairFeatures.standing_names(),
            *records.overlap_names(),
            *((each.subject, each.names) for each in records.strings.comparisons),
            ("single words", ["log odds"]),
            ("mixture of columns", ["log odds"]),
        ]
    )
    return contributions(
        lambda X: as_probability(learned.correction(learned.log_odds_of_rows(X))),
        row,
        learned.classifier.training.X,
        groups,
        learned.seed,
    )


def _by_column(
    learned: Learned, compared: Compared, log_odds: np.ndarray
) -> Contributions:
    """Return what each column adds to the log odds of a random pair."""
    evidence = learned.mixture.evidence(compared)[0]
    corrected = learned.correction(log_odds)
    parts: dict[str, dict[str, Any]] = {
        name: {
            "name": name,
            "log_odds": float(evidence[number]),
            "values": {"level": int(compared.levels[0, number])},
        }
        for number, name in enumerate(learned.agreement.names)
    }
    if corrected[0] != log_odds[0]:
        added = float(corrected[0] - log_odds[0])
        parts["audit"] = {"name": "audit", "log_odds": added, "values": {}}
    strongest = sorted(parts.values(), key=lambda part: -abs(part["log_odds"]))
    return Contributions(
        probability=float(as_probability(corrected)[0]),
        base=learned.mixture.prior,
        parts=strongest,
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
