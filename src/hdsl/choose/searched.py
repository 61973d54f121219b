"""What searches among all rows say of candidates, as columns and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..search_gain import SearchGain

#: What held-out queries are judged by, for a sentence.
OF_CLICKS = (
    "held-out queries searched all rows, what was clicked counts, and what was never "
    "shown counts as much as what was shown last (90 % interval)"
)

OF_JUDGEMENTS = "held-out queries searched all rows (nDCG without a cut, 90 % interval)"

OF_KNOWN_ROWS = (
    "held-out rows were searched among all by half of their features (mean reciprocal "
    "rank, 90 % interval)"
)

#: The gain of a candidate that did not search.
UNKNOWN = SearchGain(np.nan, np.nan, np.nan, 0, 0, 0)


def search_columns(
    means: Sequence[float], gains: Sequence[SearchGain], *, by_clicks: bool
) -> dict[str, np.ndarray]:
    """Return the columns of a table that say what queries gain from a search.

    Parameters
    ----------
    means : sequence of float
        The mean of each candidate, NaN where it did not search.
    gains : sequence of SearchGain
        Over the plain cosine.
    by_clicks : bool
        Whether the queries were judged by the clicks of a log on its first results.
    """
    return {
        "search": np.array(means, dtype=np.float64),
        "gain": np.array([gain.gain for gain in gains]),
        "gain_low": np.array([gain.low for gain in gains]),
        "gain_high": np.array([gain.high for gain in gains]),
        "n_better": np.array([gain.n_better for gain in gains]),
        "n_worse": np.array([gain.n_worse for gain in gains]),
        "n_queries": np.array([gain.n_queries for gain in gains]),
        "by_clicks": np.full(len(gains), by_clicks),
    }


def gain_in(table: Mapping[str, np.ndarray], line: int) -> SearchGain:
    """Return the gain in a line of a table."""
    return SearchGain(
        gain=float(table["gain"][line]),
        low=float(table["gain_low"][line]),
        high=float(table["gain_high"][line]),
        n_better=int(table["n_better"][line]),
        n_worse=int(table["n_worse"][line]),
        n_queries=int(table["n_queries"][line]),
    )


def search_sentence(table: Mapping[str, np.ndarray], line: int) -> str:
    """Return what a candidate did to a search, and by what it was judged; "" without one.

    Examples
    --------
    >>> gain = SearchGain(0.02, 0.01, 0.03, 12, 3, 76)
    >>> table = search_columns([0.4, 0.42], [UNKNOWN, gain], by_clicks=False)
    >>> search_sentence(table | {"mrr": np.full(2, np.nan)}, 1)  # doctest: +ELLIPSIS
    'By a search: held-out queries ... 12 of 76 queries better, 3 worse: +0.020 (+0.010 to +0.030).'
    """
    gain = gain_in(table, line)
    if not gain.n_queries:
        return ""
    judged_by = OF_JUDGEMENTS
    if table["by_clicks"][line]:
        judged_by = OF_CLICKS
    elif np.isfinite(table["mrr"][line]):
        judged_by = OF_KNOWN_ROWS
    return f"By a search: {judged_by}. {gain.sentence}"
