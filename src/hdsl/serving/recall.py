"""How many of the exact best documents a search finds."""

from typing import Any

import numpy as np

#: Scores that differ by less, as a share of the largest, are equal.
TIE = 1e-9


def recall_at(found: Any, exact: Any, scores: Any = None) -> float:
    """Return the share of the exact best k that was found; ties count as equal.

    Parameters
    ----------
    found : sequence of n_queries sequences of ids
        At most k ids per query; further ones, None and -1 do not count.
    exact : Neighbors or CertifiedTopK
        The exact answers: ``rows`` or ``indices`` of shape (n_queries, k), and
        ``scores``.
    scores : array-like of shape (n_queries, n_found), default=None
        The exact scores of what was found. A document that is not in `exact` and scores
        as much as the last of it counts as found. Without them only ids count.

    Returns
    -------
    float
        Over all queries. 1.0 if there is nothing to find.

    Examples
    --------
    >>> from hdsl.search import top_k
    >>> X = np.array([[1.0], [2.0], [1.0]])
    >>> exact = top_k(np.array([[1.0]]), X, k=2)
    >>> recall_at([[1, 2]], exact), recall_at([[1, 2]], exact, [[2.0, 1.0]])
    (0.5, 1.0)
    """
    if not hasattr(exact, "scores"):
        raise ValueError(
            f"exact must be an answer of top_k or certified_top_k. Got {exact!r:.80}."
        )
    if hasattr(exact, "indices"):
        exact_ids = exact.indices
    else:
        exact_ids = exact.rows
    if len(found) != len(exact_ids):
        raise ValueError(
            f"There are {len(found)} answers, but {len(exact_ids)} exact ones."
        )
    n_found = 0
    n_exact = 0
    for query, ids in enumerate(found):
        size = int(exact.size[query])
        if size == 0:
            continue
        n_exact += size
        best = set(exact_ids[query][:size].tolist())
        positions = _first_positions(list(ids)[:size])
        if scores is not None:
            least = _least_equal_score(exact.scores[query][:size])
            best |= {
                item
                for item, position in positions.items()
                if scores[query][position] >= least
            }
        n_found += len(positions.keys() & best)
    if n_exact == 0:
        return 1.0
    return n_found / n_exact


def _first_positions(ids: list[Any]) -> dict[Any, int]:
    """Return where each id stands first; None and -1 are no ids."""
    positions: dict[Any, int] = {}
    for position, item in enumerate(ids):
        if item is not None and item != -1:
            positions.setdefault(item, position)
    return positions


def _least_equal_score(scores: np.ndarray) -> float:
    """Return the least score that equals the last one, up to rounding."""
    largest = float(np.abs(scores).max())
    return float(scores[-1]) - TIE * largest
