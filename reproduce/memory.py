"""Memory of judged queries: search by words and by vectors, with what is remembered and without.

Beyond the paper. Queries are split into five parts: four are known with their relevant
documents, and the fifth is measured. What is added, and how much, is chosen among the
known queries alone.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from hdsl.evaluate import RankingQuality, compare_searches, remember
from hdsl.evaluate.searches import search_quality
from hdsl.similarity.similarity import unlearned
from hdsl.text import BM25

from . import cisi, encoders
from .results import Results, Table
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Memory of judged queries: search with what is remembered and without"

FOLDS = 5

COLLECTIONS = ("cisi", "cranfield")

#: What words are, for all ways of search.
READ_AS = {"min_df": 2, "stop_words": "english"}

#: Rows of documents and queries, as tables call them.
ROWS = {"words": "words, TF-IDF", "minilm": encoders.ENCODERS["minilm"]}


def cells(settings: Settings) -> list[Cell]:
    """Return every fold of every shuffle, for each collection and kind of rows."""
    data = settings.data
    if data is None or not all((data / name).is_dir() for name in COLLECTIONS):
        raise MissingDataError(
            "it needs cisi and cranfield (documents.jsonl.gz, queries.jsonl, qrels.tsv) "
            "in the folder of --data."
        )
    kinds = [kind for kind in ROWS if kind == "words" or _has_vectors(settings)]
    n_shuffles = settings.by_size(full=5, quick=1)
    return [
        {"collection": name, "rows": kind, "repeat": repeat, "fold": fold}
        for name in COLLECTIONS
        for kind in kinds
        for repeat in range(n_shuffles)
        for fold in range(FOLDS)
    ]


def _has_vectors(settings: Settings) -> bool:
    """Return whether the vectors of all collections are there, or can be made."""
    try:
        encoders.check(settings, "minilm")
    except MissingDataError:
        return all(
            (settings.out / "embeddings" / f"{name}_{part}-minilm.npy").exists()
            for name in COLLECTIONS
            for part in ("documents", "queries")
        )
    return True


@lru_cache(maxsize=1)
def load(settings: Settings, name: str, kind: str) -> tuple[Any, Any, list[set[int]]]:
    """Return documents and queries as rows, and what is relevant for each query."""
    assert settings.data is not None  # checked by `cells`
    texts = cisi.load_texts(Path(settings.data), name)
    if kind == "words":
        vectorizer = TfidfVectorizer(sublinear_tf=True, **READ_AS)
        D = sp.csr_array(vectorizer.fit_transform(texts.documents))
        Q = sp.csr_array(vectorizer.transform(texts.queries))
        return D, Q, texts.relevant
    D = encoders.embedding(settings, kind, f"{name}_documents", texts.documents)
    Q = encoders.embedding(settings, kind, f"{name}_queries", texts.queries)
    return D.astype(np.float64), Q.astype(np.float64), texts.relevant


def _bm25(
    settings: Settings, name: str, held_out: np.ndarray, relevant: list[set[int]]
) -> list[float]:
    """Return the nDCG@10 of some queries by BM25 of the same words."""
    assert settings.data is not None  # checked by `cells`
    texts = cisi.load_texts(Path(settings.data), name)
    vectorizer = CountVectorizer(**READ_AS)
    counts = sp.csr_array(vectorizer.fit_transform(texts.documents))
    typed = vectorizer.transform([texts.queries[query] for query in held_out])
    quality = search_quality(BM25.of(counts), typed, counts, relevant, n_jobs=1)
    return quality.ndcgs.tolist()


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the nDCG@10 of each query of a fold, with the memory and without."""
    D, Q, relevant = load(settings, cell["collection"], cell["rows"])
    order = np.random.default_rng(cell["repeat"]).permutation(len(relevant))
    fold = np.arange(len(order)) % FOLDS
    held_out = order[fold == cell["fold"]]
    known = order[fold != cell["fold"]]
    memory = remember(Q[known], D, [relevant[query] for query in known], n_jobs=1)
    cosine = unlearned(sp.csr_array(D))
    judged = [relevant[query] for query in held_out]
    searches = compare_searches(
        cosine,
        Q[held_out],
        D,
        judged,
        memory=memory,
        n_jobs=1,
    )
    assert memory.choice is not None
    share = memory.choice["share"][memory.choice["chosen"]][0]
    parts = {"remembered": searches.remembered, "never judged": searches.never_judged}
    return {
        "queries": held_out.tolist(),
        "share": float(share),
        "power": memory.power,
        "BM25": _bm25(settings, cell["collection"], held_out, judged),
        "cosine": searches.before.ndcgs.tolist(),
        "with memory": searches.after.ndcgs.tolist(),
        **{
            f"{name}, {way}": ndcgs.tolist()
            for name, part in parts.items()
            if part is not None
            for way, ndcgs in _both(part.before, part.after)
        },
    }


def _both(
    before: RankingQuality, after: RankingQuality
) -> list[tuple[str, np.ndarray]]:
    """Return the nDCG@10 of each query by cosine and with the memory."""
    return [("cosine", before.ndcgs), ("with memory", after.ndcgs)]


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return nDCG@10 with the memory and without, and what each fold chose."""
    head = [
        "collection",
        "rows",
        "queries",
        "BM25",
        "cosine",
        "with memory",
        "gain (standard error over queries)",
        "judged for known queries",
        "never judged",
        "share",
        "power",
    ]
    designs = dict.fromkeys(
        (line["cell"]["collection"], line["cell"]["rows"]) for line in lines
    )
    rows = [_row(name, kind, lines) for name, kind in designs]
    note = (
        "nDCG@10, five folds by query, the mean over shuffles of the queries; BM25 "
        "searches by the same words in both lines of a collection. The two "
        "columns after the gain have, by cosine and with the memory, the relevant "
        "documents that were judged for a known query, and those that never were. Share "
        "and power: the median of what the folds chose."
    )
    return Results([Table("searches", head, rows, [note])], {})


def _row(name: str, kind: str, lines: list[Line]) -> list[str]:
    """Return the row of a collection and a kind of rows."""
    lines = [
        line
        for line in lines
        if (line["cell"]["collection"], line["cell"]["rows"]) == (name, kind)
    ]
    queries = np.concatenate([line["queries"] for line in lines])
    _, number = np.unique(queries, return_inverse=True)
    means = {}
    for way in ("BM25", "cosine", "with memory"):
        values = np.concatenate([line[way] for line in lines])
        means[way] = np.bincount(number, values) / np.bincount(number)
    gains = means["with memory"] - means["cosine"]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return [
        name,
        ROWS[kind],
        str(len(gains)),
        f"{means['BM25'].mean():.3f}",
        f"{means['cosine'].mean():.3f}",
        f"{means['with memory'].mean():.3f}",
        f"{gains.mean():+.3f} ± {error:.3f}",
        _pair(lines, "remembered"),
        _pair(lines, "never judged"),
        f"{np.median([line['share'] for line in lines]):g}",
        f"{np.median([line['power'] for line in lines]):g}",
    ]


def _pair(lines: list[Line], part: str) -> str:
    """Return the nDCG@10 for some of the documents, by cosine and with the memory."""
    means = []
    for way in ("cosine", "with memory"):
        values = [line.get(f"{part}, {way}", []) for line in lines]
        means.append(f"{np.mean(np.concatenate(values)):.3f}")
    return " → ".join(means)
