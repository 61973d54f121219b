"""Search with judged queries (CISI): ranking by cosine and as learned, on queries held out.

Beyond the paper. Queries are split, not judgements: four fifths of the queries are
known with their relevant documents, as a search log knows them, and the last fifth is
measured. The log shows, for each query, its relevant documents and the first documents
by cosine that are not among them. Prior, scale and number of iterations are chosen by
folds of the known queries, or the cosine is left as it is where no choice gains more
than its standard error.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl import HDSL
from hdsl.evaluate import RankingQuality, ranking_quality
from hdsl.search import top_k
from hdsl.triplets import choice_triplets

from .results import Results, Table
from .runner import finished
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Search with judged queries (CISI): ranks on queries held out, by number of judged queries"

FOLDS = 5
INNER_FOLDS = 4
DEPTH = 100

#: Documents that a query shows beside its relevant ones.
N_SHOWN = 30

#: Known queries, of the 60 or 61 outside of a fold.
SIZES = (10, 20, 40, 60)

#: Priors, factors of the automatic scale, and iterations.
PRIORS = (15.0, 45.0, 150.0)
SCALES = (0.1, 1.0)
ITERATIONS = (10, 25, 50, 100)

MEASURES = {"mrr": "MRR", "precision": "precision@10", "ndcg": "nDCG@10"}

Choice = tuple[float, float, int]


class Collection(NamedTuple):
    """Documents, then queries, as rows; what is relevant per query, and the ranking by cosine."""

    X: sp.csr_array
    n_documents: int
    relevant: list[set[int]]
    ranking: np.ndarray

    def ranked(self, queries: np.ndarray, model: HDSL | None) -> RankingQuality:
        """Return how well a model, or the cosine, ranks the documents for some queries."""
        relevant = [self.relevant[q] for q in queries]
        if model is None:
            return ranking_quality(self.ranking[queries, :DEPTH], relevant)
        rewritten = model.rewrite(self.X[self.n_documents + queries], cosine=True)
        index = model.index_rows(self.X[: self.n_documents], cosine=True)
        return ranking_quality(top_k(rewritten, index, DEPTH, n_jobs=1).rows, relevant)

    def log(self, queries: np.ndarray) -> list[tuple[int, list[int], list[int]]]:
        """Return what was shown and chosen per query, as `choice_triplets` takes it."""
        events = []
        for q in queries.tolist():
            chosen = sorted(self.relevant[q])
            others = [
                row for row in self.ranking[q].tolist() if row not in self.relevant[q]
            ]
            events.append((self.n_documents + q, chosen + others[:N_SHOWN], chosen))
        return events


def cells(settings: Settings) -> list[Cell]:
    """Return every fold of every shuffle of the queries, for each number of known queries."""
    if settings.data is None or not (settings.data / "cisi").is_dir():
        raise MissingDataError(
            "it needs cisi (documents.jsonl.gz, queries.jsonl, qrels.tsv) in the "
            "folder of --data."
        )
    repeats, sizes = (1, SIZES[:1]) if settings.quick else (2, SIZES)
    return [
        {"n_queries": size, "repeat": repeat, "fold": fold}
        for size in sizes
        for repeat in range(repeats)
        for fold in range(FOLDS)
    ]


@lru_cache(maxsize=1)
def load(home: Path) -> Collection:
    """Return the collection; queries without a relevant document are left out."""
    folder = home / "cisi"
    with gzip.open(folder / "documents.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    queries = [
        json.loads(line)
        for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    row = {str(document["id"]): k for k, document in enumerate(documents)}
    judged: dict[str, set[int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, document = line.split("\t")[:2]
        if document in row:
            judged.setdefault(query, set()).add(row[document])
    queries = [query for query in queries if str(query["id"]) in judged]
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
    D = sp.csr_array(
        vectorizer.fit_transform([document["text"] for document in documents])
    )
    Q = sp.csr_array(vectorizer.transform([query["text"] for query in queries]))
    relevant = [judged[str(query["id"])] for query in queries]
    X = sp.csr_array(sp.vstack([D, Q]))
    return Collection(X, len(documents), relevant, top_k(Q, D, len(documents)).rows)


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the measures of each query of one fold, by cosine and with the chosen model."""
    assert settings.data is not None  # checked by `cells`
    collection = load(settings.data)
    order = np.random.default_rng(cell["repeat"]).permutation(len(collection.relevant))
    fold = np.arange(len(order)) % FOLDS
    held_out = order[fold == cell["fold"]]
    known = order[fold != cell["fold"]][: cell["n_queries"]]
    grid: Any = (PRIORS, SCALES, ITERATIONS)
    grid = ((15.0,), (1.0,), (10,)) if settings.quick else grid
    choice = choose(collection, known, grid)
    model = None if choice is None else fit(collection, known, choice)
    after = collection.ranked(held_out, model)
    before = collection.ranked(held_out, None)
    measured = {
        f"{when}_{measure}": quality.values(measure).tolist()
        for when, quality in (("before", before), ("after", after))
        for measure in MEASURES
    }
    return {"queries": held_out.tolist(), "choice": choice, **measured}


def fit(collection: Collection, queries: np.ndarray, choice: Choice) -> HDSL:
    """Return a model of the judgements of some queries, which weigh the same."""
    triplets = choice_triplets(collection.log(queries))
    weights = 1.0 / np.bincount(triplets[:, 0])[triplets[:, 0]]
    data: dict[str, Any] = {"triplets": triplets, "sample_weight": weights}
    model = HDSL(
        prior=choice[0], step="away", max_iter=1, tol=0.0, random_state=0, n_jobs=1
    )
    scale = choice[1] * model.fit(collection.X, **data).scale_
    return finished(
        model.set_params(scale=scale, max_iter=choice[2]).fit(collection.X, **data)
    )


def choose(collection: Collection, queries: np.ndarray, grid: Any) -> Choice | None:
    """Return a prior, a factor of the scale and a number of iterations, or None for the cosine.

    The choice has the largest mean nDCG@10 on queries held out by folds. It must gain
    more than its standard error.
    """
    priors, scales, iterations = grid
    gains: dict[Choice, list[np.ndarray]] = {}
    fold = np.arange(len(queries)) % INNER_FOLDS
    for k in range(INNER_FOLDS):
        known = queries[fold != k]
        held_out = queries[fold == k]
        before = collection.ranked(held_out, None).ndcgs
        for prior in priors:
            for scale in scales:
                model = fit(collection, known, (prior, scale, max(iterations)))
                for n_iter in iterations:
                    after = collection.ranked(
                        held_out, model.at(min(n_iter, model.n_iter_))
                    )
                    gains.setdefault((prior, scale, n_iter), []).append(
                        after.ndcgs - before
                    )
    pooled = {choice: np.concatenate(parts) for choice, parts in gains.items()}
    best = max(pooled, key=lambda choice: pooled[choice].mean())
    error = pooled[best].std(ddof=1) / np.sqrt(len(queries))
    return best if pooled[best].mean() > error else None


def pool(lines: list[Line]) -> tuple[RankingQuality, RankingQuality]:
    """Return the measures of every query, before and after, averaged over shuffles."""
    queries = np.concatenate([line["queries"] for line in lines])
    place = np.unique(queries, return_inverse=True)[1]
    counts = np.bincount(place)

    def mean(name: str) -> np.ndarray:
        return (
            np.bincount(place, np.concatenate([line[name] for line in lines])) / counts
        )

    def quality(when: str) -> RankingQuality:
        ranks, precisions, ndcgs = (mean(f"{when}_{measure}") for measure in MEASURES)
        return RankingQuality(ranks, precisions, ndcgs, k=10)

    return quality("before"), quality("after")


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return measures before and after, the choices, and the curve by number of queries."""
    rows = []
    curve = []
    for size in sorted({line["cell"]["n_queries"] for line in lines}):
        some = [line for line in lines if line["cell"]["n_queries"] == size]
        before, after = pool(some)
        n_left = sum(line["choice"] is None for line in some)
        for measure, name in MEASURES.items():
            gain, low, high = after.gain(before, measure)
            rows.append(
                [
                    str(size),
                    name,
                    f"{before.values(measure).mean():.3f}",
                    f"{after.values(measure).mean():.3f}",
                    f"{gain:+.3f} ({low:+.3f} to {high:+.3f})",
                    f"{n_left} of {len(some)}",
                ]
            )
            if measure == "ndcg":
                curve.append((size, gain, low, high))
    head = [
        "judged queries",
        "measure",
        "cosine",
        "learned",
        "gain (95 % interval)",
        "left as it is",
    ]
    n = len(pool(lines)[0].ndcgs)
    note = (
        f"{n} queries, each held out once per shuffle. Intervals are of the "
        "differences per query. "
        '"Left as it is": folds in which no choice gained more than its standard error on the '
        "known queries, so that the cosine stays."
    )
    choices = [
        [
            *(str(value) for value in line["cell"].values()),
            "leave it"
            if line["choice"] is None
            else "prior {:g}, scale × {:g}, {} iterations".format(*line["choice"]),
            f"{np.mean(line['before_ndcg']):.3f}",
            f"{np.mean(line['after_ndcg']):.3f}",
        ]
        for line in lines
    ]
    chosen = Table(
        "choices",
        [
            "judged queries",
            "shuffle",
            "fold",
            "chosen",
            "nDCG@10 cosine",
            "nDCG@10 learned",
        ],
        choices,
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        sizes, gains, low, high = np.array(curve).T
        axes.errorbar(sizes, gains, [gains - low, high - gains], marker="o", capsize=3)
        axes.axhline(0.0, color="0.6", linewidth=1)
        axes.set(xlabel="judged queries", ylabel="gain in nDCG@10", xlim=(0, None))

    return Results([Table("measures", head, rows, [note]), chosen], {"curve": draw})
