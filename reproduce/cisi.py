"""Search with judged queries (CISI): ranks by cosine and at the defaults, on other queries.

Beyond the paper. Queries are split, not judgements: four fifths of the queries are
known with their relevant documents, and the last fifth is measured. Others for a
relevant document are drawn from the first documents by cosine (hard), from all (random)
or from both (mixed, what `relevance_triplets` does by itself). ``HDSL()`` chooses its
prior, whether rows are divided by their lengths, and whether anything is learned at
all.
"""

from __future__ import annotations

import gzip
import json
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl import HDSL
from hdsl.evaluate import RankingQuality, ranking_quality
from hdsl.search import top_k
from hdsl.triplets import relevance_triplets

from .results import Results, Table
from .runner import finished
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = (
    "Search with judged queries (CISI): ranks on queries held out, by number of "
    "judged queries"
)

FOLDS = 5
DEPTH = 100

#: Which others a relevant document is compared with: the share that is hard.
OTHERS = {"hard": 1.0, "mixed": 0.4, "random": 0.0}

#: Known queries, of the 60 or 61 outside of a fold.
SIZES = (10, 20, 40, 60)

MEASURES = {"mrr": "MRR", "precision": "precision@10", "ndcg": "nDCG@10"}


class CollectionTexts(NamedTuple):
    """The texts of documents and of queries, and the rows that are relevant to each query."""

    documents: list[str]
    queries: list[str]
    relevant: list[set[int]]


class Collection(NamedTuple):
    """Documents and queries as rows, and what is known of each query.

    `relevant` has the documents that are relevant to it, and `ranking` all documents by
    cosine.
    """

    D: sp.csr_array
    Q: sp.csr_array
    relevant: list[set[int]]
    ranking: np.ndarray

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return int(self.D.shape[0])

    @property
    def X(self) -> sp.csr_array:  # noqa: N802
        """The documents, then the queries."""
        return sp.csr_array(sp.vstack([self.D, self.Q]))

    def ranked(self, queries: np.ndarray, model: HDSL | None) -> RankingQuality:
        """Return how well a model, or the cosine, ranks the documents for some queries."""
        relevant = [self.relevant[q] for q in queries]
        if model is None:
            return ranking_quality(self.ranking[queries, :DEPTH], relevant)
        is_cosine = model.ranking_ == "cosine"
        rewritten = model.rewrite(self.Q[queries], cosine=is_cosine)
        index = model.index_rows(self.D, cosine=is_cosine)
        return ranking_quality(top_k(rewritten, index, DEPTH, n_jobs=1).rows, relevant)

    def judgements(self, queries: np.ndarray) -> dict[str, list[int]]:
        """Return the relevant documents of some queries as a table."""
        pairs = [
            (number, document)
            for number, q in enumerate(queries.tolist())
            for document in sorted(self.relevant[q])
        ]
        return {
            "query": [query for query, _ in pairs],
            "document": [document for _, document in pairs],
        }


def cells(settings: Settings) -> list[Cell]:
    """Return every fold of every shuffle, for each number of known queries and kind of others."""
    if settings.data is None or not (settings.data / "cisi").is_dir():
        raise MissingDataError(
            "it needs cisi (documents.jsonl.gz, queries.jsonl, qrels.tsv) in the "
            "folder of --data."
        )
    sizes = settings.by_size(full=SIZES, quick=SIZES[-1:])
    kinds = settings.by_size(full=tuple(OTHERS), quick=("mixed",))
    return [
        {"others": others, "n_queries": size, "repeat": 0, "fold": fold}
        for others in kinds
        for size in sizes
        for fold in range(FOLDS)
    ]


@lru_cache(maxsize=1)
def load(home: Path) -> Collection:
    """Return the collection; queries without a relevant document are left out."""
    texts = load_texts(home)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
    D = sp.csr_array(vectorizer.fit_transform(texts.documents))
    Q = sp.csr_array(vectorizer.transform(texts.queries))
    return Collection(D, Q, texts.relevant, top_k(Q, D, D.shape[0]).rows)


@lru_cache(maxsize=1)
def load_texts(home: Path, name: str = "cisi") -> CollectionTexts:
    """Return the texts; queries without a relevant document are left out."""
    folder = home / name
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
    """Return the measures of each query of a fold, by cosine and as learned."""
    assert settings.data is not None  # checked by `cells`
    collection = load(settings.data)
    order = np.random.default_rng(cell["repeat"]).permutation(len(collection.relevant))
    fold = np.arange(len(order)) % FOLDS
    held_out = order[fold == cell["fold"]]
    known = order[fold != cell["fold"]][: cell["n_queries"]]
    model = fit(collection, known, OTHERS[cell["others"]])
    before = collection.ranked(held_out, None)
    after = collection.ranked(held_out, model)
    measured = {
        f"{when}_{measure}": quality.values(measure).tolist()
        for when, quality in (("before", before), ("after", after))
        for measure in MEASURES
    }
    return {
        "queries": held_out.tolist(),
        "prior": float(model.prior_),
        "ranking": model.ranking_,
        "is_learned": len(model.atoms_) > 0,
        **measured,
    }


def fit(collection: Collection, queries: np.ndarray, hard_share: float) -> HDSL:
    """Return a model of the judgements of some queries, at the defaults."""
    judged = relevance_triplets(
        collection.Q[queries],
        collection.D,
        collection.judgements(queries),
        grade=None,
        hard_share=hard_share,
        random_state=0,
    )
    model = HDSL(random_state=0, n_jobs=1)
    with warnings.catch_warnings(action="ignore"):  # of a fit that learns nothing
        model.fit(judged)
    return finished(model)


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

    others: str
    n_judged: int
    before: RankingQuality
    after: RankingQuality
    n_left: int
    n_folds: int

    @classmethod
    def of_lines(cls, others: str, n_judged: int, lines: list[Line]) -> SizeResult:
        """Return the result of the lines of one kind with so many judged queries."""
        lines = [
            line
            for line in lines
            if line["cell"]["n_queries"] == n_judged
            and line["cell"]["others"] == others
        ]
        before, after = pool(lines)
        n_left = sum(not line["is_learned"] for line in lines)
        return cls(others, n_judged, before, after, n_left, len(lines))

    @property
    def error(self) -> float:
        """The standard error of the mean gain in nDCG@10, over queries."""
        gains = self.after.ndcgs - self.before.ndcgs
        return float(gains.std(ddof=1) / np.sqrt(len(gains)))

    def row(self, measure: str) -> list[str]:
        """Return the row of a measure in the table."""
        gain, low, high = self.after.gain(self.before, measure)
        return [
            self.others,
            str(self.n_judged),
            MEASURES[measure],
            f"{self.before.values(measure).mean():.3f}",
            f"{self.after.values(measure).mean():.3f}",
            f"{gain:+.3f} ({low:+.3f} to {high:+.3f})",
            f"{self.n_left} of {self.n_folds}",
        ]


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return measures before and after, the choices, and the curve by queries."""
    designs = dict.fromkeys(
        (line["cell"]["others"], line["cell"]["n_queries"]) for line in lines
    )
    results = [SizeResult.of_lines(*design, lines) for design in designs]
    tables = [_measures_table(results), _choices_table(lines)]
    return Results(tables, {"curve": lambda figure: _draw(figure, results)})


def _measures_table(results: list[SizeResult]) -> Table:
    """Return the measures before and after, by others and number of judged queries."""
    head = [
        "others",
        "judged queries",
        "measure",
        "cosine",
        "learned",
        "gain (95 % interval)",
        "nothing learned",
    ]
    rows = [result.row(measure) for result in results for measure in MEASURES]
    note = (
        f"{len(results[0].before.ndcgs)} queries, each held out once per shuffle, over "
        "all documents. Intervals are of the differences per query. Everything is at "
        'its default. "Nothing learned": folds in which every prior may harm the search '
        "of known queries that were held out, so that the cosine stays."
    )
    return Table("measures", head, rows, [note])


def _choices_table(lines: list[Line]) -> Table:
    """Return what each fold chose, and what it gained."""
    head = [
        "others",
        "judged queries",
        "shuffle",
        "fold",
        "prior",
        "ranked by",
        "nDCG@10 cosine",
        "nDCG@10 learned",
    ]
    rows = [
        [
            *map(str, line["cell"].values()),
            f"{line['prior']:.3g}" if line["is_learned"] else "nothing learned",
            line["ranking"],
            f"{np.mean(line['before_ndcg']):.3f}",
            f"{np.mean(line['after_ndcg']):.3f}",
        ]
        for line in lines
    ]
    return Table("choices", head, rows, shown=False)


def _draw(figure: Any, results: list[SizeResult]) -> None:
    """Draw the gain in nDCG@10 with its standard error over the number of judged queries."""
    axes = figure.subplots()
    for others in dict.fromkeys(result.others for result in results):
        curve = [result for result in results if result.others == others]
        gains = [result.after.gain(result.before, "ndcg")[0] for result in curve]
        axes.errorbar(
            [result.n_judged for result in curve],
            gains,
            [result.error for result in curve],
            marker="o",
            capsize=3,
            label=others,
        )
    axes.axhline(0.0, color="0.6", linewidth=1)
    axes.set(xlabel="judged queries", ylabel="gain in nDCG@10", xlim=(0, None))
    axes.legend()
