"""Search with judged queries (CISI): ranks by cosine and as learned, on other queries.

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
from itertools import product
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

TITLE = (
    "Search with judged queries (CISI): ranks on queries held out, by number of "
    "judged queries"
)

FOLDS = 5
INNER_FOLDS = 4
DEPTH = 100

#: Documents that a query shows beside its relevant ones.
N_SHOWN = 30

#: Known queries, of the 60 or 61 outside of a fold.
SIZES = (10, 20, 40, 60)

MEASURES = {"mrr": "MRR", "precision": "precision@10", "ndcg": "nDCG@10"}


class Choice(NamedTuple):
    """A prior, a factor of the automatic scale, and a number of iterations."""

    prior: float
    scale: float
    n_iter: int


class Grid(NamedTuple):
    """Priors, factors of the automatic scale, and iterations to choose from."""

    priors: tuple[float, ...]
    scales: tuple[float, ...]
    iterations: tuple[int, ...]


#: What is chosen from, and that of the quick version.
GRID = Grid((15.0, 45.0, 150.0), (0.1, 1.0), (10, 25, 50, 100))
QUICK_GRID = Grid((15.0,), (1.0,), (10,))


class CollectionTexts(NamedTuple):
    """The texts of documents and of queries, and the rows that are relevant to each query."""

    documents: list[str]
    queries: list[str]
    relevant: list[set[int]]


class Collection(NamedTuple):
    """Documents and then queries as rows, and what is known of each query.

    `relevant` has the documents that are relevant to it, and `ranking` all documents by
    cosine.
    """

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
    """Return every fold of every shuffle, for each number of known queries."""
    if settings.data is None or not (settings.data / "cisi").is_dir():
        raise MissingDataError(
            "it needs cisi (documents.jsonl.gz, queries.jsonl, qrels.tsv) in the "
            "folder of --data."
        )
    sizes = settings.by_size(full=SIZES, quick=SIZES[:1])
    n_repeats = settings.by_size(full=2, quick=1)
    return [
        {"n_queries": size, "repeat": repeat, "fold": fold}
        for size in sizes
        for repeat in range(n_repeats)
        for fold in range(FOLDS)
    ]


@lru_cache(maxsize=1)
def load(home: Path) -> Collection:
    """Return the collection; queries without a relevant document are left out."""
    texts = load_texts(home)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
    D = sp.csr_array(vectorizer.fit_transform(texts.documents))
    Q = sp.csr_array(vectorizer.transform(texts.queries))
    X = sp.csr_array(sp.vstack([D, Q]))
    n_documents = len(texts.documents)
    ranking = top_k(Q, D, n_documents).rows
    return Collection(X, n_documents, texts.relevant, ranking)


@lru_cache(maxsize=1)
def load_texts(home: Path) -> CollectionTexts:
    """Return the texts; queries without a relevant document are left out."""
    folder = home / "cisi"
    with gzip.open(folder / "documents.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    query_lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    all_queries = [json.loads(line) for line in query_lines]
    judged = _judged(folder / "qrels.tsv", documents)
    queries = [query for query in all_queries if str(query["id"]) in judged]
    return CollectionTexts(
        documents=[document["text"] for document in documents],
        queries=[query["text"] for query in queries],
        relevant=[judged[str(query["id"])] for query in queries],
    )


def _judged(path: Path, documents: list[dict[str, Any]]) -> dict[str, set[int]]:
    """Return the rows of the relevant documents of each query that has one."""
    row = {str(document["id"]): k for k, document in enumerate(documents)}
    judged: dict[str, set[int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        query, document = line.split("\t")[:2]
        if document in row:
            judged.setdefault(query, set()).add(row[document])
    return judged


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the measures of each query of a fold, by cosine and as chosen."""
    assert settings.data is not None  # checked by `cells`
    collection = load(settings.data)
    order = np.random.default_rng(cell["repeat"]).permutation(len(collection.relevant))
    fold = np.arange(len(order)) % FOLDS
    held_out = order[fold == cell["fold"]]
    known = order[fold != cell["fold"]][: cell["n_queries"]]
    grid = settings.by_size(full=GRID, quick=QUICK_GRID)
    choice = choose(collection, known, grid)
    model = None
    if choice is not None:
        model = fit(collection, known, choice)
    before = collection.ranked(held_out, None)
    after = collection.ranked(held_out, model)
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
        prior=choice.prior, step="away", max_iter=1, tol=0.0, random_state=0, n_jobs=1
    )
    scale = choice.scale * model.fit(collection.X, **data).scale_
    model.set_params(scale=scale, max_iter=choice.n_iter)
    return finished(model.fit(collection.X, **data))


def choose(collection: Collection, queries: np.ndarray, grid: Grid) -> Choice | None:
    """Return what folds of the queries choose; None for the cosine.

    The choice has the largest mean nDCG@10 on queries held out by folds. It must gain
    more than its standard error.
    """
    gains: dict[Choice, list[np.ndarray]] = {}
    fold = np.arange(len(queries)) % INNER_FOLDS
    for k in range(INNER_FOLDS):
        known = queries[fold != k]
        held_out = queries[fold == k]
        before = collection.ranked(held_out, None).ndcgs
        for prior, scale in product(grid.priors, grid.scales):
            longest = Choice(prior, scale, max(grid.iterations))
            model = fit(collection, known, longest)
            for n_iter in grid.iterations:
                shorter = model.at(min(n_iter, model.n_iter_))
                after = collection.ranked(held_out, shorter).ndcgs
                choice = longest._replace(n_iter=n_iter)
                gains.setdefault(choice, []).append(after - before)
    pooled = {choice: np.concatenate(folds) for choice, folds in gains.items()}
    best = max(pooled, key=lambda choice: pooled[choice].mean())
    error = pooled[best].std(ddof=1) / np.sqrt(len(queries))
    if pooled[best].mean() > error:
        return best
    return None


def pool(lines: list[Line]) -> tuple[RankingQuality, RankingQuality]:
    """Return the measures of every query, before and after, averaged over shuffles."""
    queries = np.concatenate([line["queries"] for line in lines])
    _, number = np.unique(queries, return_inverse=True)
    counts = np.bincount(number)

    def mean(name: str) -> np.ndarray:
        values = np.concatenate([line[name] for line in lines])
        return np.bincount(number, values) / counts

    def quality(when: str) -> RankingQuality:
        return RankingQuality(
            mean(f"{when}_mrr"),
            mean(f"{when}_precision"),
            mean(f"{when}_ndcg"),
            k=10,
        )

    return quality("before"), quality("after")


class SizeResult(NamedTuple):
    """Measures of all queries with so many judged ones, before and after."""

    n_judged: int
    before: RankingQuality
    after: RankingQuality
    n_left: int
    n_folds: int

    @classmethod
    def of_lines(cls, n_judged: int, lines: list[Line]) -> SizeResult:
        """Return the result of the lines with so many judged queries."""
        lines = [line for line in lines if line["cell"]["n_queries"] == n_judged]
        before, after = pool(lines)
        n_left = sum(line["choice"] is None for line in lines)
        return cls(n_judged, before, after, n_left, len(lines))

    def row(self, measure: str) -> list[str]:
        """Return the row of a measure in the table."""
        gain, low, high = self.after.gain(self.before, measure)
        return [
            str(self.n_judged),
            MEASURES[measure],
            f"{self.before.values(measure).mean():.3f}",
            f"{self.after.values(measure).mean():.3f}",
            f"{gain:+.3f} ({low:+.3f} to {high:+.3f})",
            f"{self.n_left} of {self.n_folds}",
        ]


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return measures before and after, the choices, and the curve by queries."""
    sizes = sorted({line["cell"]["n_queries"] for line in lines})
    by_size = [SizeResult.of_lines(size, lines) for size in sizes]
    tables = [_measures_table(by_size, pool(lines)[0]), _choices_table(lines)]
    return Results(tables, {"curve": lambda figure: _draw(figure, by_size)})


def _measures_table(by_size: list[SizeResult], cosine: RankingQuality) -> Table:
    """Return the measures before and after, by the number of judged queries."""
    head = [
        "judged queries",
        "measure",
        "cosine",
        "learned",
        "gain (95 % interval)",
        "left as it is",
    ]
    rows = [result.row(measure) for result in by_size for measure in MEASURES]
    note = (
        f"{len(cosine.ndcgs)} queries, each held out once per shuffle. Intervals are "
        'of the differences per query. "Left as it is": folds in which no choice '
        "gained more than its standard error on the known queries, so that the cosine "
        "stays."
    )
    return Table("measures", head, rows, [note])


def _choices_table(lines: list[Line]) -> Table:
    """Return what each fold chose, and what it gained."""
    head = [
        "judged queries",
        "shuffle",
        "fold",
        "chosen",
        "nDCG@10 cosine",
        "nDCG@10 learned",
    ]
    rows = [
        [
            *map(str, line["cell"].values()),
            _choice_text(line["choice"]),
            f"{np.mean(line['before_ndcg']):.3f}",
            f"{np.mean(line['after_ndcg']):.3f}",
        ]
        for line in lines
    ]
    return Table("choices", head, rows)


def _choice_text(stored: list[float] | None) -> str:
    """Return a choice in words."""
    if stored is None:
        return "leave it"
    choice = Choice(*stored)
    return (
        f"prior {choice.prior:g}, scale × {choice.scale:g}, {choice.n_iter} iterations"
    )


def _draw(figure: Any, by_size: list[SizeResult]) -> None:
    """Draw the gain in nDCG@10 over the number of judged queries."""
    gains = np.array([result.after.gain(result.before, "ndcg") for result in by_size])
    gain, low, high = gains.T
    axes = figure.subplots()
    axes.errorbar(
        [result.n_judged for result in by_size],
        gain,
        [gain - low, high - gain],
        marker="o",
        capsize=3,
    )
    axes.axhline(0.0, color="0.6", linewidth=1)
    axes.set(xlabel="judged queries", ylabel="gain in nDCG@10", xlim=(0, None))
