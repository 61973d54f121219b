"""The learned similarity in real engines: `python -m benchmarks.serving --data FOLDER`.

One table of the queries (negative weights, what the limits of engines cost), and one of
the engines (recall of the exact top 10, candidates to certify it, time, size). Queries
are rows that are not in the index, asked one by one. Times are CPU times of this
process and the engine's, so that other programs matter little. Engines that are not
installed are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL, Solver, datasets
from hdsl.search import top_k
from hdsl.serving import BM25Transformer, certified_top_k, recall_at, sparse_rows
from hdsl.serving.vector_engines import HNSW_LIMIT
from reproduce import sets
from reproduce.settings import Settings

from .engines import ENGINES, Engine
from .problems import data_folder, power_law
from .table import aligned

K = 10


class Task(NamedTuple):
    """A model, documents to index and queries to ask, as rows of X."""

    name: str
    model: HDSL
    documents: sp.csr_array
    queries: sp.csr_array


def docstrings(n_queries: int, toy: bool = False) -> Task:
    """Return docstrings of Python, two thirds of them indexed."""
    model = HDSL(solver=Solver(max_iter=300), random_state=0, n_jobs=1)
    min_rows = 20
    if toy:
        model.set_params(solver__max_iter=20)
        min_rows = 100
    docs = datasets.load_docstrings(min_rows_per_label=min_rows)
    order = np.random.default_rng(0).permutation(len(docs.y))
    if toy:
        order = order[:300]
    X = sp.csr_array(docs.X)[order]
    y = docs.y[order]
    n = 2 * len(y) // 3
    model.fit(X[:n], y[:n])
    return Task("docstrings", model, X[:n], X[n:][:n_queries])


def real(name: str, folder: Path, n_queries: int) -> Task:
    """Return a set of the experiments: training rows indexed, test rows as queries."""
    parts = sets.load(Settings(Path(), folder), name)
    model = HDSL(random_state=0, n_jobs=1).fit(parts.X, parts.y)
    return Task(name, model, parts.X, parts.X_test[:n_queries])


def million(n_queries: int, n_rows: int = 1_000_000) -> Task:
    """Return generated rows; the model is learned on 10,000 of them."""
    problem = power_law(n_rows + 1000, n_rows)
    X = problem.X
    y = problem.y
    model = HDSL(solver=Solver(max_iter=200), random_state=0, n_jobs=1).fit(
        X[:10_000], y[:10_000]
    )
    return Task(f"generated {n_rows:,}", model, X[:n_rows], X[n_rows:][:n_queries])


# --- queries --------------------------------------------------------------------------


def query_row(task: Task) -> list[str]:
    """Return what rewriting does to queries, and what limits cost in recall@10."""
    model = task.model
    index = model_index(task)
    signed = sp.csr_array(model.rewrite(task.queries))
    exact = top_k(signed, index, K)

    def recall(**limits: Any) -> str:
        queries = model.rewrite(task.queries, **limits)
        return f"{recall_at(top_k(queries, index, K).rows, exact):.3f}"

    rescored = []
    for q, rows in enumerate(top_k(task.queries, index, 100).rows):
        scores = (index[rows] @ signed[[q]].T).toarray().ravel()
        rescored.append(rows[np.argsort(-scores, kind="stable")][:K])
    transformed = sp.csr_array(model.transform(task.documents))
    return [
        task.name,
        f"{index.shape[0]:,}",
        f"{task.queries.nnz / task.queries.shape[0]:.0f}",
        f"{signed.nnz / signed.shape[0]:.0f}",
        f"{100 * (signed.data < 0).mean():.1f} %",
        recall(nonnegative=True),
        recall(max_terms=20),
        recall(max_terms=50),
        recall(max_weight=1.0),
        f"{recall_at(rescored, exact):.3f}",
        f"{transformed.nnz / index.nnz:.2f}",
    ]


QUERY_HEAD = (
    "documents",
    "n",
    "terms",
    "rewritten",
    "negative",
    "nonnegative",
    "20 terms",
    "50 terms",
    "max_weight",
    "cosine 100",
    "transform / index",
)


def model_index(task: Task) -> sp.csr_array:
    return sp.csr_array(task.model.index_rows(task.documents))


# --- engines --------------------------------------------------------------------------


def timed(
    ask: Callable[[Any], Any], queries: Iterable[Any], clock: Callable[[], float]
) -> tuple[list[Any], str]:
    """Return the answers, and the CPU milliseconds of an answer, in the mean."""
    queries = list(queries)
    ask(queries[0])
    start = clock()
    answers = [ask(query) for query in queries]
    return answers, f"{1e3 * (clock() - start) / len(queries):.2f}"


def engine_row(task: Task, name: str, kind: type[Engine]) -> list[str]:
    """Return recall, candidates, latency and size of one engine."""
    index = model_index(task)
    signed = sp.csr_array(task.model.rewrite(task.queries))
    exact = top_k(signed, index, K)
    rows = sparse_rows(signed)
    longest = int(np.diff(index.indptr).max())
    if "hnsw" in name and longest > HNSW_LIMIT:
        return [task.name, name, f"{longest:,} non-zeros", *[""] * 6]
    with kind(index.shape[1]) as engine:
        start = engine.cpu_seconds()
        engine.put(range(index.shape[0]), index)
        engine.finish()
        loading = engine.cpu_seconds() - start
        recall = "refused"
        milliseconds = ""
        if engine.takes_negatives:
            answers, milliseconds = timed(
                lambda query: engine.search(*query, K), rows, engine.cpu_seconds
            )
            lists = [ids for ids, _ in answers]
            scores = true_scores(lists, signed, index)
            recall = f"{recall_at(lists, exact, scores):.3f}"
        certified = ["", "", "no proof"]
        if "hnsw" not in name:
            answers, certified_ms = timed(
                lambda q: certified_top_k(
                    engine.search, signed[[q]], lambda ids: index[ids], K
                ),
                range(signed.shape[0]),
                engine.cpu_seconds,
            )
            lists = [answer.indices[0] for answer in answers]
            scores = [answer.scores[0] for answer in answers]
            candidates = np.array([answer.n_candidates[0] for answer in answers])
            certified = [
                f"{recall_at(lists, exact, scores):.3f}",
                f"{np.median(candidates):.0f} / {candidates.max()}",
                certified_ms,
            ]
        return [
            task.name,
            name,
            recall,
            milliseconds,
            *certified,
            f"{loading:.1f}",
            f"{engine.size() / 1e6:.1f}",
        ]


ENGINE_HEAD = (
    "documents",
    "engine",
    "recall@10",
    "CPU ms",
    "certified",
    "candidates",
    "CPU ms",
    "load CPU s",
    "MB",
)


def true_scores(
    lists: list[list[int]], signed: sp.csr_array, index: sp.csr_array
) -> list[np.ndarray]:
    """Return the scores of the documents of each list.

    Documents that float32 cannot tell apart are ties.
    """
    return [
        (index[ids] @ signed[[q]].T).toarray().ravel() * (1 + 1e-6)
        for q, ids in enumerate(lists)
    ]


def memory_row(task: Task) -> list[str]:
    """Return the time of the exact search in memory, query by query."""
    index = model_index(task)
    signed = sp.csr_array(task.model.rewrite(task.queries))
    top_k(signed[:2], index, K)  # compiled, and warm
    n = signed.shape[0]
    _, milliseconds = timed(
        lambda q: top_k(signed[[q]], index, K, n_jobs=1), range(n), time.process_time
    )
    size = (index.data.nbytes + index.indices.nbytes + index.indptr.nbytes) / 1e6
    return [
        task.name,
        "search.top_k",
        "1.000",
        milliseconds,
        "",
        "",
        "",
        "",
        f"{size:.1f}",
    ]


# --- BM25 -----------------------------------------------------------------------------


def bm25_rows(folder: Path, n_queries: int) -> list[list[str]]:
    """Return precision@10 by class of BM25 and of learned boosts, by whole texts."""
    rows = []
    for name in ("reuters_r52", "bbc_news"):
        parts = sets.load_counts(Settings(Path(), folder), name)
        counts = sp.csr_array(parts.X, dtype=float)
        texts = sp.csr_array(parts.X_test[:n_queries], dtype=float)
        y = parts.y
        wanted = parts.y_test[:n_queries]
        transformer = BM25Transformer(lengths="lucene").fit(counts)
        index = sp.csr_array(transformer.transform(counts))
        model = HDSL(norm=None, random_state=0, n_jobs=1).fit(index, y)
        boosts = model.rewrite(transformer.transform(texts))
        precision = [
            float((y[top_k(queries, index, K).rows] == wanted[:, None]).mean())
            for queries in (texts, boosts)
        ]
        rows.append([name, str(len(wanted)), *(f"{share:.3f}" for share in precision)])
    return rows


BM25_HEAD = ("documents", "queries", "BM25", "learned boosts")


# --- the command ----------------------------------------------------------------------


def tables(tasks: Iterable[Callable[[], Task]], names: Iterable[str]) -> None:
    """Print both tables, rows as they come."""
    engines = {name: ENGINES[name] for name in names}
    query_rows = []
    engine_rows = []
    for make in tasks:
        task = make()
        query_rows.append(query_row(task))
        engine_rows.append(memory_row(task))
        for name, kind in engines.items():
            if (missing := kind.missing()) is not None:
                print(f"{name} left out: {missing} is not installed", file=sys.stderr)
                continue
            engine_rows.append(engine_row(task, name, kind))
            print("  ".join(engine_rows[-1]), file=sys.stderr, flush=True)
    print(
        aligned(query_rows, QUERY_HEAD, ()),
        "",
        aligned(engine_rows, ENGINE_HEAD, ()),
        sep="\n",
    )


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving", description=__doc__
    )
    add = parser.add_argument
    add("--data", type=Path, default=data_folder(), help="folder of the real data sets")
    add(
        "--sets",
        nargs="+",
        default=["docstrings", "bbc_news", "reuters_r52"],
        metavar="NAME",
    )
    add(
        "--engines",
        nargs="+",
        default=list(ENGINES),
        choices=list(ENGINES),
        metavar="NAME",
    )
    add("--queries", type=int, default=50, metavar="N")
    add("--million", type=int, metavar="ROWS", help="only so many generated rows")
    add(
        "--bm25",
        action="store_true",
        help="only precision by BM25 and by learned boosts",
    )
    add("--toy", action="store_true", help="only 200 docstrings")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UserWarning)
    if options.bm25:
        print(aligned(bm25_rows(options.data, 500), BM25_HEAD, ()))
        return 0
    makers: dict[str, Callable[[], Task]] = {
        name: lambda name=name: real(name, options.data, options.queries)
        for name in sets.MORE[:2]
    }
    makers["docstrings"] = lambda: docstrings(options.queries)
    tasks = [makers[name] for name in options.sets]
    if options.million:
        tasks = [lambda: million(options.queries, options.million)]
    if options.toy:
        tasks = [lambda: docstrings(10, toy=True)]
    tables(tasks, options.engines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
