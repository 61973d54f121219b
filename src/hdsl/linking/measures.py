"""How good links are on matches that are held out: recall and reliability."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from ..evaluate import wilson_interval

#: Numbers of candidates that recall is shown for.
RECALL_AT = (1, 2, 5, 10, 20)

#: An average precision from which on there is nothing more to learn.
NEARLY_ALL = 0.99

#: An average precision that is lower by less is no evidence. Of 0, 0.02 and 0.05, it is
#: the one that gives up least that holds on validation pairs of three benchmarks.
MAX_LOSS = 0.05

#: Limits of the bins of probability that reliability is shown for.
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def recall_table(cosine: np.ndarray, learned: np.ndarray) -> list[dict[str, Any]]:
    """Return the share of ranks up to k, by cosine and as learned, for several k."""
    return [
        {"k": k, "cosine": share(cosine <= k), "learned": share(learned <= k)}
        for k in RECALL_AT
    ]


def recall_sentence(recall: list[dict[str, Any]], n_matches: int) -> str:
    """Return the first line of the table of recall in words."""
    learned, _, _ = recall[0]["learned"]
    cosine, _, _ = recall[0]["cosine"]
    return (
        f"Of {n_matches} matches, each held out, the right record is first for "
        f"{100 * learned:.0f} % as learned and for {100 * cosine:.0f} % by cosine."
    )


def held_out_sentence(labels: np.ndarray, probability: np.ndarray) -> str:
    """Return how many held-out answers a probability of 0.5 tells right.

    Examples
    --------
    >>> held_out_sentence(np.array([1.0, 1.0, 0.0]), np.array([0.9, 0.2, 0.1]))
    ' Held out, 1 of 2 matches have a probability from 0.5 on, 1 of 1 others a lower one.'
    """
    is_match = labels == 1.0
    is_link = probability >= 0.5
    return (
        f" Held out, {(is_match & is_link).sum()} of {is_match.sum()} matches have a "
        f"probability from 0.5 on, {(~is_match & ~is_link).sum()} of "
        f"{(~is_match).sum()} others a lower one."
    )


def reliability_table(
    labels: np.ndarray, probability: np.ndarray
) -> list[dict[str, Any]]:
    """Return the mean probability and the share of matches, by bins of probability.

    Pairs whose probability is NaN do not count.
    """
    labels = labels[~np.isnan(probability)]
    probability = probability[~np.isnan(probability)]
    bin_of_pair = probability_bins(probability)
    table = []
    for number in np.unique(bin_of_pair).tolist():
        is_inside = bin_of_pair == number
        line = {
            "from": EDGES[number],
            "to": EDGES[number + 1],
            "n": int(is_inside.sum()),
            "probability": float(probability[is_inside].mean()),
            "matches": share(labels[is_inside]),
        }
        table.append(line)
    return table


def probability_bins(probability: np.ndarray) -> np.ndarray:
    """Return the bin of each probability, by the number of its lower edge.

    Examples
    --------
    >>> probability_bins(np.array([0.0, 0.05, 0.1, 0.95, 1.0])).tolist()
    [0, 0, 1, 5, 5]
    """
    bins = np.searchsorted(EDGES, probability, side="right") - 1
    return np.clip(bins, 0, len(EDGES) - 2)


def orders_as_well(
    labels: np.ndarray, probability: np.ndarray, score: np.ndarray
) -> bool:
    """Return whether probabilities put matches first as well as scores do, or nearly so.

    Pairs whose probability is NaN do not count.

    Examples
    --------
    >>> labels = np.array([1.0, 0.0, 0.0])
    >>> score = np.array([0.9, 0.5, 0.1])
    >>> orders_as_well(labels, score, score), orders_as_well(labels, -score, score)
    (True, False)
    """
    counts = ~np.isnan(probability)
    by_probability = average_precision_score(labels[counts], probability[counts])
    by_score = average_precision_score(labels[counts], score[counts])
    return bool(by_probability >= min(by_score, NEARLY_ALL) - MAX_LOSS)


def share(hits: np.ndarray) -> tuple[float, float, float]:
    """Return the share of hits, with its 95 % interval."""
    low, high = wilson_interval(float(np.sum(hits)), len(hits))
    return float(np.mean(hits)), low, high
