"""Which documents judged queries are compared with: `python -m benchmarks.learned_from`.

Folds by query give nDCG@10 less that of the cosine, with a standard error, by default
and at fixed priors: on generated click logs, and with --data FOLDER on CISI.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL
from hdsl.evaluate import ranking_quality
from hdsl.search import top_k
from hdsl.similarity.cosine import COSINE
from hdsl.triplets import relevance_triplets
from reproduce import cisi

from . import click_log
from .click_log import Event
from .table import aligned

#: Words of the queries of a log; None is all.
QUERIES = {"clicks, whole sentences": None, "clicks, 4 words": 4}

PRIORS = ("auto", 16.0, 64.0)
N_FOLDS = 5
N_EVENTS = 4000
DEPTH = 100


class Triplets(NamedTuple):
    """Triplets of documents and queries as rows, the documents first, and their weights."""

    rows: np.ndarray
    weights: np.ndarray | None = None


class Search(NamedTuple):
    """Documents, queries, and the documents that are relevant for each query."""

    D: sp.csr_array
    Q: sp.csr_array
    relevant: list[set[int]]

    def learned(self, triplets: Triplets, prior: float | str) -> HDSL:
        """Return a model of triplets, from the documents and their queries alone.

        Other queries would be rows that a search may show.
        """
        n_documents = self.D.shape[0]
        anchors = np.unique(triplets.rows[:, 0])
        X = sp.csr_array(sp.vstack([self.D, self.Q[anchors - n_documents]]))
        rows = triplets.rows.copy()
        rows[:, 0] = n_documents + np.searchsorted(anchors, rows[:, 0])
        model = HDSL(prior=prior, random_state=0)
        return model.fit(X, triplets=rows, sample_weight=triplets.weights)

    def ndcgs(self, queries: np.ndarray, model: HDSL | None) -> np.ndarray:
        """Return the nDCG@10 of some queries, ranked as a model does, or by cosine."""
        Q = self.Q[queries]
        D = self.D
        if model is not None:
            is_cosine = model.ranking_ == COSINE
            Q = model.rewrite(Q, cosine=is_cosine)
            D = model.index_rows(D, cosine=is_cosine)
        relevant = [self.relevant[query] for query in queries]
        return ranking_quality(top_k(Q, D, DEPTH).rows, relevant).ndcgs

    def drawn(
        self,
        judged: list[tuple[int, int]],
        hard_share: float,
        by: HDSL | None = None,
    ) -> Triplets:
        """Return triplets of pairs (query, document) with others that are drawn.

        The hard ones are near by cosine, or by the learned cosine of a model.
        """
        Q = self.Q
        D = self.D
        if by is not None:
            Q = by.transform(Q)
            D = by.transform(D)
        columns = np.array(judged).T
        table = {"query": columns[0], "document": columns[1]}
        made = relevance_triplets(
            Q, D, table, grade=None, hard_share=hard_share, random_state=0
        )
        return Triplets(made.triplets, made.weights)


#: A way makes triplets of a search with the queries to learn from.
Way = Callable[[Search, np.ndarray], Triplets]


# --- judgements -----------------------------------------------------------------------


def pairs(search: Search, queries: np.ndarray) -> list[tuple[int, int]]:
    """Return queries with their relevant documents."""
    return [
        (query, document)
        for query in queries.tolist()
        for document in sorted(search.relevant[query])
    ]


def with_others(hard_share: float) -> Way:
    """Return the way in which a share of the others is hard."""
    return lambda search, queries: search.drawn(pairs(search, queries), hard_share)


def unweighted(search: Search, queries: np.ndarray) -> Triplets:
    """Return mixed others, with weights that are the same for all triplets."""
    return Triplets(search.drawn(pairs(search, queries), 0.4).rows)


def mined_again(search: Search, queries: np.ndarray) -> Triplets:
    """Return others of which a share is near by a first model."""
    judged = pairs(search, queries)
    first = search.learned(search.drawn(judged, 0.4), prior=16.0)
    return search.drawn(judged, 0.4, by=first)


JUDGED_WAYS: dict[str, Way] = {
    "random": with_others(0.0),
    "mixed, two in five hard": with_others(0.4),
    "hard": with_others(1.0),
    "mixed, all triplets weigh the same": unweighted,
    "mixed, mined again by a first model": mined_again,
}


# --- clicks ---------------------------------------------------------------------------


class Clicks(NamedTuple):
    """The events of a log, and what is made of them."""

    events: list[Event]

    def of(self, queries: np.ndarray) -> list[Event]:
        """Return the events of some queries."""
        chosen = set(queries.tolist())
        return [event for event in self.events if event.query in chosen]

    def shown(self, search: Search, queries: np.ndarray) -> Triplets:
        """Return clicked documents with all others that were shown."""
        return self._compared(search, queries, above_only=False, bias=0.0)

    def above(self, search: Search, queries: np.ndarray) -> Triplets:
        """Return clicked documents with those that were shown above them."""
        return self._compared(search, queries, above_only=True, bias=0.0)

    def weighted(self, search: Search, queries: np.ndarray) -> Triplets:
        """Return what was shown, a click as heavy as it is rare to look there."""
        return self._compared(search, queries, above_only=False, bias=click_log.BIAS)

    def _compared(
        self, search: Search, queries: np.ndarray, *, above_only: bool, bias: float
    ) -> Triplets:
        """Return clicked documents with others of the same event; no bias is no position."""
        rows = []
        weights = []
        for event in self.of(queries):
            for rank in np.flatnonzero(event.is_clicked).tolist():
                is_other = ~event.is_clicked
                if above_only:
                    is_other[rank:] = False
                for other in event.shown[is_other].tolist():
                    rows.append([event.query, event.shown[rank], other])
                    weights.append((rank + 1.0) ** -bias)
        triplets = np.array(rows)
        triplets[:, 0] += search.D.shape[0]
        if not bias:
            return Triplets(triplets)
        return Triplets(triplets, np.array(weights))

    def clicked(self, queries: np.ndarray) -> list[tuple[int, int]]:
        """Return queries with their clicked documents, each pair once."""
        return sorted(
            {
                (event.query, document)
                for event in self.of(queries)
                for document in event.shown[event.is_clicked].tolist()
            }
        )

    def random(self, search: Search, queries: np.ndarray) -> Triplets:
        """Return clicked documents with others at random."""
        return search.drawn(self.clicked(queries), 0.0)

    def both(self, search: Search, queries: np.ndarray) -> Triplets:
        """Return clicked documents with what was shown, and with others at random."""
        shown = self.shown(search, queries)
        drawn = self.random(search, queries)
        rows = np.concatenate([shown.rows, drawn.rows])
        return Triplets(rows)

    def mined(self, search: Search, queries: np.ndarray) -> Triplets:
        """Return clicked documents with others, a share of them near by a first model."""
        first = search.learned(self.shown(search, queries), prior=16.0)
        return search.drawn(self.clicked(queries), 0.4, by=first)

    def ways(self) -> dict[str, Way]:
        """Return the ways by their names."""
        return {
            "shown": self.shown,
            "shown above the click": self.above,
            "shown, weighted by position": self.weighted,
            "random": self.random,
            "shown and random": self.both,
            "mixed, mined again by a first model": self.mined,
        }


# --- the table ------------------------------------------------------------------------


def gains(search: Search, way: Way, prior: float | str) -> np.ndarray:
    """Return the gain of each query in nDCG@10, held out by folds."""
    n_queries = search.Q.shape[0]
    fold = np.random.default_rng(0).permutation(n_queries) % N_FOLDS
    gained = np.zeros(n_queries)
    for k in range(N_FOLDS):
        held_out = np.flatnonzero(fold == k)
        model = search.learned(way(search, np.flatnonzero(fold != k)), prior)
        before = search.ndcgs(held_out, None)
        gained[held_out] = search.ndcgs(held_out, model) - before
    return gained


def table(name: str, search: Search, ways: dict[str, Way]) -> list[list[str]]:
    """Return one line per way, with the gain at each prior."""
    lines = []
    for way_name, way in ways.items():
        cells = []
        for prior in PRIORS:
            gained = gains(search, way, prior)
            error = gained.std(ddof=1) / np.sqrt(len(gained))
            cells.append(f"{gained.mean():+.3f} ± {error:.3f}")
        lines.append([name, way_name, *cells])
    return lines


def main() -> None:
    """Print one line per collection and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with cisi")
    folder = parser.parse_args().data
    lines = []
    for name, n_words in QUERIES.items():
        clicked = click_log.load(n_words)
        search = Search(*clicked)
        queries = np.arange(search.Q.shape[0])
        log = Clicks(clicked.events(queries, N_EVENTS))
        lines += table(name, search, log.ways())
    if folder is not None:
        collection = cisi.load(folder)
        D = collection.D
        Q = collection.Q
        lines += table("CISI", Search(D, Q, collection.relevant), JUDGED_WAYS)
    headings = ["queries", "others", *(f"prior {prior}" for prior in PRIORS)]
    print(aligned(lines, headings, headings[2:]))


if __name__ == "__main__":
    main()
