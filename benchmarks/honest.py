"""How honest the printed intervals of a gain are: `python -m benchmarks.honest`.

Data sets are generated for each goal, some with synonyms to learn and some with nothing.
Each is fitted by default, and the 95 % interval of the gain in ``choice_`` is compared with
what the model gains on many new rows, comparisons, queries or clicks: how often it covers
that, and how often a gain is claimed (its lower end is above 0). Clicks are of logs shown by
BM25, the cosine, popularity and at random, with positions looked at r^-bias.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from hdsl import HDSL
from hdsl.evaluate.comparisons import ClickedPairs, ComparedPairs
from hdsl.evaluate.measures import JudgedSearch, NeighborVotes, Units
from hdsl.relevance import Relevance
from hdsl.similarity.cosine import COSINE
from hdsl.similarity.similarity import unlearned
from hdsl.triplets import Judgements, ShownRows
from hdsl.triplets.rows import JUDGED

from . import goals
from .table import aligned

HEADINGS = ("goal", "something to learn", "sets", "gain", "covered", "claimed")

#: Topics, words of each, and words of a row: some of its topic, some of any.
N_TOPICS = 6
N_WORDS = 12
N_OWN = 3
N_ANY = 3

N_TEST = 1500


class Set(NamedTuple):
    """A generated data set: arguments of ``fit``, and the true gain of a model."""

    fit: dict[str, Any]
    gain: Callable[[HDSL], float]


def rows_of(topics: np.ndarray, rng: np.random.Generator) -> Any:
    """Return rows with words of their topics and words of any, at unit length."""
    n = len(topics)
    own = topics[:, None] * N_WORDS + rng.integers(N_WORDS, size=(n, N_OWN))
    others = rng.integers(N_TOPICS * N_WORDS, size=(n, N_ANY))
    columns = np.column_stack([own, others]).ravel()
    data = np.ones(len(columns))
    indptr = np.arange(0, len(columns) + 1, N_OWN + N_ANY)
    X = sp.csr_array((data, columns, indptr), shape=(n, N_TOPICS * N_WORDS))
    X.sum_duplicates()
    return sp.csr_array(normalize(X))


def difference(model: HDSL, X: Any, scores: Callable[..., dict[str, Any]]) -> float:
    """Return the mean score of a model less that of the cosine."""
    after = scores(model.similarity_, (model.ranking_,))[model.ranking_]
    before = scores(unlearned(X), (COSINE,))[COSINE]
    return float(np.mean(after - before))


def neighbors(rng: np.random.Generator, is_learnable: bool) -> Set:
    """Return rows with labels: their topics, or any."""
    topics = rng.integers(N_TOPICS, size=240 + N_TEST)
    X = rows_of(topics, rng)
    y = topics if is_learnable else rng.integers(N_TOPICS, size=len(topics))
    units = Units(np.arange(N_TEST), np.ones(N_TEST))
    test = NeighborVotes(X[:240], y[:240], X[240:], y[240:], units)
    return Set(
        {"X": X[:240], "y": y[:240]},
        lambda model: difference(model, X, test.scores),
    )


def comparisons(rng: np.random.Generator, is_learnable: bool) -> Set:
    """Return triplets with errors: by topics, or by chance."""
    n_rows = 250
    topics = rng.integers(N_TOPICS, size=n_rows + N_TEST)
    X = rows_of(topics, rng)

    def drawn(anchors: np.ndarray) -> np.ndarray:
        others = rng.integers(n_rows, size=(20 * len(anchors), 2))
        a = np.tile(anchors, 20)
        is_like = topics[others] == topics[a][:, None]
        chosen = is_like[:, 0] & ~is_like[:, 1] & (others != a[:, None]).all(axis=1)
        T = np.column_stack([a, others])[chosen][: 8 * len(anchors)]
        turned = rng.random(len(T)) < (0.15 if is_learnable else 0.5)
        T[turned] = T[turned][:, [0, 2, 1]]
        return T

    T = drawn(np.arange(n_rows))
    pairs = ComparedPairs(X, drawn(np.arange(n_rows, n_rows + N_TEST)))
    fit = {"X": X[:n_rows], "triplets": T}
    return Set(fit, lambda model: difference(model, X, pairs.points))


def judged(rng: np.random.Generator, is_learnable: bool) -> Set:
    """Return queries with a few relevant documents: of their topic, or any."""
    n_documents = 300
    n_known = 150
    n_queries = n_known + 600
    topics = rng.integers(N_TOPICS, size=n_documents + n_queries)
    X = rows_of(topics, rng)
    queries = np.repeat(np.arange(n_documents, n_documents + n_queries), 8)
    documents = rng.integers(n_documents, size=(len(queries), 40))
    is_like = topics[documents] == topics[queries][:, None]
    if not is_learnable:
        is_like[:] = True
    documents = documents[np.arange(len(queries)), is_like.argmax(axis=1)]
    pairs = np.unique(np.column_stack([queries, documents]), axis=0)
    is_known = pairs[:, 0] < n_documents + n_known
    known = pairs[is_known]
    others = rng.integers(n_documents, size=(len(known), 10))
    T = np.column_stack([np.repeat(known, 10, axis=0), others.ravel()])
    T = T[T[:, 1] != T[:, 2]]
    said = Judgements(
        T,
        X=X[: n_documents + n_known],
        kind=JUDGED,
        n_documents=n_documents,
        grades=Relevance(known[:, 0], known[:, 1], np.ones(len(known))),
    )
    new = pairs[~is_known]
    test = JudgedSearch(
        X,
        np.arange(n_documents),
        new[:, 0],
        new[:, 1],
        np.ones(len(new)),
        unit_of_row=np.arange(X.shape[0]),
        n_jobs=1,
    )
    return Set({"X": said}, lambda model: difference(model, X, test.scores))


def clicks(
    rng: np.random.Generator, is_learnable: bool, *, engine: str, bias: float
) -> Set:
    """Return a log: what is of the topic of a query is clicked, or what has its words."""
    n_documents = goals.N_DOCUMENTS
    n_known = 120
    n_queries = n_known + 500
    topics = rng.integers(N_TOPICS, size=n_documents + n_queries)
    X = rows_of(topics, rng)
    D = X[:n_documents]
    Q = X[n_documents:]
    is_like = topics[n_documents:, None] == topics[None, :n_documents]
    relevance = 0.1 + 0.5 * is_like
    if not is_learnable:
        relevance = 0.1 + 0.5 * (Q @ D.T).toarray()
    shown = goals.shown_by(engine, Q, D, relevance, rng)
    log = goals.log_of(shown[:n_known], relevance[:n_known], bias, 3, rng)
    test = goals.log_of(shown[n_known:], relevance[n_known:], 0.0, 6, rng)
    test = ShownRows(*test)._replace(queries=test.queries + n_known)
    pairs = ClickedPairs(X, test, 0.0)
    fit = {"X": goals.judgements_of(log, X[: n_documents + n_known])}
    return Set(fit, lambda model: difference(model, X, pairs.shares))


GOALS: dict[str, Callable[[np.random.Generator, bool], Set]] = {
    "neighbors": neighbors,
    "comparisons": comparisons,
    "search": judged,
    **{
        f"clicks-{engine}-{bias:g}": partial(clicks, engine=engine, bias=bias)
        for engine in goals.ENGINES
        for bias in (0.0, 0.7, 1.0)
    },
}


def run(name: str, is_learnable: bool, seed: int) -> tuple[float, float, float]:
    """Return the true gain of a default fit, and the ends of its interval."""
    data = GOALS[name](np.random.default_rng(seed), is_learnable)
    with warnings.catch_warnings(action="ignore"):
        model = HDSL(random_state=seed, n_jobs=1).fit(**data.fit)
    chosen = int(np.flatnonzero(model.choice_["chosen"])[-1])
    low = float(model.choice_["gain_low"][chosen])
    high = float(model.choice_["gain_high"][chosen])
    gain = 0.0
    if model.n_iter_:
        gain = data.gain(model)
    return gain, low, high


def main(arguments: list[str] | None = None) -> None:
    """Run all data sets and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honest")
    parser.add_argument("--only", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.only:
            for is_learnable in (True, False):
                learn = partial(run, name, is_learnable)
                results = np.array([*pool.map(learn, range(options.sets))])
                gain, low, high = results.T
                is_covered = (low - 1e-12 <= gain) & (gain <= high + 1e-12)
                cells = [
                    name,
                    "yes" if is_learnable else "no",
                    str(len(gain)),
                    f"{gain.mean():+.4f}",
                    f"{100 * is_covered.mean():.0f} %",
                    f"{100 * (low > 0).mean():.0f} %",
                ]
                rows.append(cells)
                print(*cells, flush=True)
    print()
    print(aligned(rows, HEADINGS, set(HEADINGS[2:])))


if __name__ == "__main__":
    main()
