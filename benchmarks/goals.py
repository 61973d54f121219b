"""Defaults beside the best fixed prior, by the measure of each goal: `python -m benchmarks.goals`.

Each row learns from one part of a data set and is measured on another: nothing learned, the
defaults, and fixed priors. What is "within" loses at most one standard error of the paired
difference to the best of the fixed priors. Rows in `CHOSEN_ON` were looked at while the rule
was made; the others were not.

    python -m benchmarks.goals --data FOLDER --only packages cisi --jobs 4
    python -m benchmarks.goals --data FOLDER --few --jobs 16    # few labels, 200 comparisons
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import normalize

from hdsl import HDSL, Solver
from hdsl.datasets import load_docstrings
from hdsl.evaluate import ranking_quality
from hdsl.evaluate.comparisons import ClickedPairs, ComparedPairs
from hdsl.evaluate.measures import NeighborVotes, Units
from hdsl.search import top_k
from hdsl.similarity.cosine import COSINE, ranked_by
from hdsl.similarity.similarity import unlearned
from hdsl.triplets import Judgements, ShownRows, relevance_triplets
from hdsl.triplets.rows import CLICKS
from reproduce import cisi

from .table import aligned

#: Priors that the defaults are compared with.
PRIORS = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0)

#: Rows that were looked at while the rule of the choice was made.
CHOSEN_ON = {
    "docstrings",
    "near-200",
    "near-2000",
    "clicks-bm25-0.7",
    "docstrings-150",
    "bbc-60",
}

HEADINGS = (
    "data",
    "goal",
    "start",
    "default",
    "prior",
    "best",
    "its prior",
    "loss",
    "CPU",
)

#: From a model, or None for the start, to a score per test unit: larger is better.
Test = Callable[[Any], np.ndarray]


class Case(NamedTuple):
    """What is learned, and what measures it on other data.

    Parameters
    ----------
    goal : str
    fit : dict of str to object
        Arguments of ``HDSL.fit``.
    test : callable
    """

    goal: str
    fit: dict[str, Any]
    test: Test


def ranked(model: Any, X: Any) -> tuple[Any, str]:
    """Return the similarity of a model and how it ranks; for None the cosine."""
    if model is None:
        return unlearned(X), COSINE
    return model.similarity_, model.ranking_


# --- neighbours of labels -------------------------------------------------------------


def labelled(X: Any, y: np.ndarray, n_train: int, seed: int) -> Case:
    """Return rows with labels: some to learn from, up to 4,000 others to classify."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    train = order[:n_train]
    test = order[n_train : n_train + 4000]
    return votes(X[train], y[train], X[test], y[test])


def votes(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Case:
    """Return rows to learn from and others to classify by their neighbours."""
    X = normalize(sp.csr_array(X, dtype=np.float64))
    X_test = normalize(sp.csr_array(X_test, dtype=np.float64))
    n_test = X_test.shape[0]
    units = Units(np.arange(n_test), np.ones(n_test))
    measure = NeighborVotes(X, y, X_test, y_test, units)

    def test(model: Any) -> np.ndarray:
        similarity, ranking = ranked(model, X)
        return measure.scores(similarity, (ranking,))[ranking]

    return Case("neighbors", {"X": X, "y": y}, test)


def tfidf(counts: Any) -> Any:
    """Return weighted counts."""
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts)


def docstrings(data: Path, seed: int, n_train: int = 2000) -> Case:
    """Return documentation of functions, by its module."""
    docs = load_docstrings()
    X = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(docs.texts)
    return labelled(X, np.asarray(docs.y), n_train, seed)


def bbc(data: Path, seed: int, n_train: int = 1200) -> Case:
    """Return news in 5 classes."""
    X = sp.load_npz(data / "bbc_news" / "X.npz")
    return labelled(tfidf(X), np.load(data / "bbc_news" / "y.npy"), n_train, seed)


def few(data: Path, seed: int, *, name: str, labels: str = "", n_train: int) -> Case:
    """Return a few training rows of a data set in files, and others for the test."""
    folder = data / name
    X = sp.load_npz(folder / "X_train.npz")
    y = np.load(folder / f"y_train{labels}.npy")
    if labels:  # rows of no class have the label -1
        X, y = tfidf(X[y >= 0]), y[y >= 0]
    return labelled(X, y, n_train, seed)


def reuters(data: Path, seed: int) -> Case:
    """Return R52 with its own split."""
    folder = data / "reuters21578_modapte"
    parts = []
    weights = TfidfTransformer(sublinear_tf=True)
    for part in ("train", "test"):
        X = sp.load_npz(folder / f"X_{part}.npz")
        y = np.load(folder / f"y_{part}_r52.npy")
        X = weights.fit_transform(X) if part == "train" else weights.transform(X)
        parts += [X[y >= 0], y[y >= 0]]
    return votes(*parts)


def rcv1_4(data: Path, seed: int) -> Case:
    """Return news in 4 classes."""
    folder = data / "rcv1_4"
    X, X_test = (sp.load_npz(folder / f"X_{part}.npz") for part in ("train", "test"))
    y, y_test = (np.load(folder / f"y_{part}.npy") for part in ("train", "test"))
    order = np.random.default_rng(seed).permutation(X.shape[0])[:6000]
    return votes(X[order], y[order], X_test[:4000], y_test[:4000])


# --- packages of this machine ---------------------------------------------------------


class Packages(NamedTuple):
    """Short descriptions of packages, their sections, and what they depend on."""

    X: Any
    sections: np.ndarray
    truth: Any
    texts: list[str]


@cache
def packages(n: int = 8000) -> Packages:
    """Return some of the packages that the machine's own lists have."""
    listed = subprocess.run(
        ["apt-cache", "dumpavail"], capture_output=True, text=True, check=True
    )
    records = []
    for block in listed.stdout.split("\n\n"):
        fields = {}
        for line in block.splitlines():
            name, found, value = line.partition(": ")
            if found and not line.startswith(" "):
                fields[name] = value
        if {"Description", "Section", "Depends"} <= fields.keys():
            records.append(fields)
    order = np.random.default_rng(0).permutation(len(records))[:n]
    records = [records[k] for k in order]
    texts = [fields["Description"] for fields in records]
    kinds = [
        f"{fields['Depends']} {fields['Section']} {fields.get('Tag', '')}"
        for fields in records
    ]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    about = TfidfVectorizer(min_df=2, token_pattern=r"[a-z][a-z0-9+.:-]+")
    return Packages(
        X=sp.csr_array(words.fit_transform(texts)),
        sections=np.array([fields["Section"] for fields in records]),
        truth=sp.csr_array(about.fit_transform(kinds)),
        texts=texts,
    )


def sections(data: Path, seed: int) -> Case:
    """Return short descriptions in 50 sections."""
    known = packages()
    return labelled(known.X, known.sections, 4000, seed)


# --- comparisons ----------------------------------------------------------------------


def compared(X: Any, T: np.ndarray, T_test: np.ndarray, **fit: Any) -> Case:
    """Return triplets to learn from, and others."""
    X = normalize(sp.csr_array(X, dtype=np.float64))
    pairs = ComparedPairs(X, T_test)

    def test(model: Any) -> np.ndarray:
        similarity, ranking = ranked(model, X)
        points = pairs.points(similarity, (ranking,))[ranking]
        # Comparisons of one anchor are one unit.
        _, number = np.unique(T_test[:, 0], return_inverse=True)
        return np.bincount(number, points) / np.bincount(number)

    return Case("comparisons", {"X": X, "triplets": T} | fit, test)


def lee(data: Path, seed: int) -> Case:
    """Return what people said of 50 news texts; a third of the texts is for the test."""
    X = tfidf(sp.load_npz(data / "lee50_human" / "X.npz"))
    T = np.load(data / "lee50_human" / "triplets.npy")
    is_test = np.random.default_rng(seed).permutation(50) < 17
    train = T[~is_test[T].any(axis=1)]
    return compared(X, train, T[is_test[T[:, 0]]])


def triplets(data: Path, seed: int, *, n: int, are_near: bool) -> Case:
    """Return comparisons of packages, by what they depend on."""
    known = packages()
    rng = np.random.default_rng(seed)
    n_rows = known.X.shape[0]
    half = rng.permutation(n_rows)
    drawn = []
    for anchors, n_wanted in ((half[::2], n), (half[1::2], 20_000)):
        a = rng.choice(anchors, 12 * n_wanted)
        if are_near:
            near = nearest(20)
            others = near[a[:, None], rng.integers(20, size=(len(a), 2))]
        else:
            others = rng.integers(n_rows, size=(len(a), 2))
        T = np.column_stack([a, others])
        T = T[(others[:, 0] != others[:, 1]) & (others != a[:, None]).all(axis=1)]
        likeness = [
            np.asarray(known.truth[T[:, 0]].multiply(known.truth[T[:, k]]).sum(axis=1))
            for k in (1, 2)
        ]
        lead = np.ravel(likeness[0]) - np.ravel(likeness[1])
        T[lead < 0] = T[lead < 0][:, [0, 2, 1]]
        drawn.append(T[np.abs(lead) > 0.1][:n_wanted])
    return compared(known.X, *drawn)


@cache
def nearest(k: int) -> np.ndarray:
    """Return the nearest packages of each by cosine."""
    X = normalize(packages().X)
    return top_k(X, X, k, exclude_self=True).rows


def users(data: Path, seed: int) -> Case:
    """Return items that users liked more than others: groups; measured on other users."""
    rng = np.random.default_rng(seed)
    n_users, n_items, n_features, n_topics = 400, 1500, 800, 12
    topics = rng.dirichlet(np.full(n_features, 0.05), n_topics)
    mixtures = rng.dirichlet(np.full(n_topics, 0.15), n_items)
    counts = np.array([rng.multinomial(12, row) for row in mixtures @ topics])
    tastes = rng.dirichlet(np.full(n_topics, 0.2), n_users)
    liking = tastes @ mixtures.T + 0.1 * rng.normal(size=(n_users, n_items))
    lines = []
    for user in range(n_users):
        order = np.argsort(-liking[user])
        liked = order[: n_items // 20]
        others = order[n_items // 20 :]
        rows = [rng.choice(liked, 2, replace=False) for _ in range(20)]
        lines += [(user, a, b, rng.choice(others)) for a, b in rows]
    table = np.array(lines)
    train = table[table[:, 0] < 300]
    test = table[table[:, 0] >= 300]
    X = tfidf(sp.csr_array(counts.astype(float)))
    return compared(X, train[:, 1:], test[:, 1:], groups=train[:, 0])


# --- searches -------------------------------------------------------------------------


def judged_cisi(data: Path, seed: int) -> Case:
    """Return CISI: four fifths of the queries are known."""
    collection = cisi.load(data)
    order = np.random.default_rng(seed).permutation(len(collection.relevant))
    held_out = order[: len(order) // 5]
    known = order[len(order) // 5 :]
    judged = relevance_triplets(
        collection.Q[known],
        collection.D,
        collection.judgements(known),
        grade=None,
        random_state=seed,
    )

    def test(model: Any) -> np.ndarray:
        similarity, ranking = ranked(model, collection.D)
        ranker = ranked_by(ranking, similarity)
        found = top_k(
            ranker.rewrite(normalize(collection.Q[held_out])),
            ranker.index_rows(normalize(collection.D)),
            10,
        )
        relevant = [collection.relevant[query] for query in held_out]
        return ranking_quality(found.rows, relevant).ndcgs

    return Case("search", {"X": judged}, test)


#: Engines that show results, from rows of queries and documents to scores.
ENGINES = ("bm25", "cosine", "popular", "random")

#: Documents, queries to learn from and to test, and rows that are shown.
N_DOCUMENTS = 3000
N_QUERIES = 600
N_SHOWN = 10


def clicks(data: Path, seed: int, *, engine: str, bias: float) -> Case:
    """Return a log of clicks on packages, shown by an engine; measured without position bias."""
    known = packages()
    rng = np.random.default_rng(seed)
    rows = rng.permutation(known.X.shape[0])
    documents = rows[:N_DOCUMENTS]
    asked = rows[N_DOCUMENTS : N_DOCUMENTS + 2 * N_QUERIES]
    X = normalize(sp.csr_array(sp.vstack([known.X[documents], known.X[asked]])))
    truth = normalize(known.truth)
    relevance = (truth[asked] @ truth[documents].T).toarray().clip(0.0, 1.0)
    shown = shown_by(engine, X[N_DOCUMENTS:], X[:N_DOCUMENTS], relevance, rng)
    train = log_of(shown[:N_QUERIES], relevance[:N_QUERIES], bias, 6, rng)
    test_log = log_of(shown[N_QUERIES:], relevance[N_QUERIES:], 0.0, 6, rng)
    test_log = test_log._replace(queries=test_log.queries + N_QUERIES)
    pairs = ClickedPairs(X, test_log, 0.0)

    def test(model: Any) -> np.ndarray:
        similarity, ranking = ranked(model, X)
        shares = pairs.shares(similarity, (ranking,))[ranking]
        _, number = np.unique(pairs.queries, return_inverse=True)
        return np.bincount(number, shares) / np.bincount(number)

    learned = X[: N_DOCUMENTS + N_QUERIES]
    return Case("search", {"X": judgements_of(train, learned)}, test)


def shown_by(
    engine: str, Q: Any, D: Any, relevance: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the rows that an engine shows for each query, best first."""
    scores = (Q @ D.T).toarray()
    if engine == "bm25":
        n_words = np.diff(D.indptr)
        scores = (Q > 0).astype(float) @ (D > 0).astype(float).T
        scores = scores.toarray() / (0.5 + n_words / n_words.mean())
    elif engine == "popular":
        scores = 0.3 * scores + relevance.mean(axis=0) / relevance.mean()
    elif engine == "random":
        near = np.argsort(-scores, axis=1)[:, :100]
        picks = np.argsort(rng.random(near.shape), axis=1)[:, :N_SHOWN]
        return np.take_along_axis(near, picks, axis=1)
    return np.argsort(-scores, axis=1, kind="stable")[:, :N_SHOWN]


def log_of(
    shown: np.ndarray,
    relevance: np.ndarray,
    bias: float,
    n_events: int,
    rng: np.random.Generator,
) -> ShownRows:
    """Return events in which a row at position r is clicked with its relevance times r^-bias."""
    n_queries, n_shown = shown.shape
    queries = np.repeat(np.arange(n_queries), n_events * n_shown)
    rows = np.repeat(shown[:, None, :], n_events, axis=1)
    # Engines change: two results of an event are often swapped.
    swaps = rng.integers(n_shown, size=(n_queries, n_events, 2))
    for k in range(n_events):
        first, second = swaps[:, k].T
        at = np.arange(n_queries)
        both = rows[at, k, first], rows[at, k, second]
        rows[at, k, second], rows[at, k, first] = both
    rows = rows.ravel()
    positions = np.tile(np.arange(1.0, n_shown + 1), n_queries * n_events)
    chances = relevance[queries, rows] * positions**-bias
    return ShownRows(
        events=np.repeat(np.arange(n_queries * n_events), n_shown),
        queries=queries + N_DOCUMENTS,
        rows=rows,
        positions=positions,
        are_clicked=rng.random(len(rows)) < chances,
    )


def judgements_of(shown: ShownRows, X: Any) -> Judgements:
    """Return a log as judgements, as `choice_triplets` makes them of a table."""
    from hdsl.evaluate.comparisons import pairs_of_lines

    clicked, beside = pairs_of_lines(shown)
    T = np.column_stack(
        [shown.queries[clicked], shown.rows[clicked], shown.rows[beside]]
    )
    return Judgements(
        T,
        shown.positions[clicked],
        X=X,
        kind=CLICKS,
        n_documents=N_DOCUMENTS,
        shown=shown,
    )


CASES: dict[str, Callable[[Path, int], Case]] = {
    "docstrings": docstrings,
    "bbc": bbc,
    "reuters": reuters,
    "rcv1_4": rcv1_4,
    "packages": sections,
    "lee": lee,
    **{
        f"{kind}-{n}": partial(triplets, n=n, are_near=kind == "near")
        for kind in ("near", "random")
        for n in (200, 2000, 50_000)
    },
    "users": users,
    "cisi": judged_cisi,
    **{
        f"clicks-{engine}-{bias:g}": partial(clicks, engine=engine, bias=bias)
        for engine in ENGINES
        for bias in (0.0, 0.7, 1.0)
    },
}

#: Few labels and few comparisons, which chance moves: each is drawn several times.
FEW: dict[str, Callable[[Path, int], Case]] = {
    "docstrings-150": partial(docstrings, n_train=150),
    "bbc-60": partial(bbc, n_train=60),
    "reuters-150": partial(
        few, name="reuters21578_modapte", labels="_r52", n_train=150
    ),
    "rcv1_4-100": partial(few, name="rcv1_4", n_train=100),
    "bace-150": partial(few, name="bace_ecfp6", n_train=150),
    "near-200": CASES["near-200"],
    "random-200": CASES["random-200"],
}

FEW_SEEDS = 20


# --- running --------------------------------------------------------------------------


def run(name: str, data: Path, seed: int, priors: tuple[float, ...]) -> dict[str, Any]:
    """Return the scores of one case: at the start, by default, and by fixed priors."""
    case = (CASES | FEW)[name](data, seed)
    line: dict[str, Any] = {"name": name, "goal": case.goal, "seed": seed}
    scores = {"start": case.test(None)}
    with warnings.catch_warnings(action="ignore"):
        HDSL(prior=4.0, solver=Solver(max_iter=2), n_jobs=1).fit(
            **case.fit
        )  # loads compiled code
    for prior in ("auto", *priors):
        start = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            model = HDSL(prior=prior, random_state=seed, n_jobs=1).fit(**case.fit)
        line[f"seconds {prior}"] = time.process_time() - start
        if prior == "auto":
            line["prior"] = model.prior_
            line["ranking"] = model.ranking_
            line["n_iter"] = model.n_iter_
        scores[str(prior)] = case.test(model)
    line["scores"] = {key: values.tolist() for key, values in scores.items()}
    return line


def row(lines: list[dict[str, Any]], priors: tuple[float, ...]) -> list[str]:
    """Return the cells of a case, over its seeds."""
    scores = {
        key: np.concatenate([line["scores"][key] for line in lines])
        for key in lines[0]["scores"]
    }
    best = max(map(str, priors), key=lambda prior: scores[prior].mean())
    loss = scores[best] - scores["auto"]
    error = loss.std(ddof=1) / np.sqrt(len(loss))
    start = scores["start"].mean()
    mark = "" if loss.mean() <= error else " (!)"
    name = lines[0]["name"]
    return [
        name + (" *" if name in CHOSEN_ON else ""),
        lines[0]["goal"],
        f"{start:.4f}",
        f"{scores['auto'].mean():.4f}",
        _priors(lines),
        f"{scores[best].mean():.4f}",
        f"{float(best):g}",
        f"{loss.mean():+.4f} ± {error:.4f}{mark}",
        f"{np.mean([_cost(line) for line in lines]):.1f}",
    ]


def _priors(lines: list[dict[str, Any]]) -> str:
    """Return the priors of all seeds: each, or the least, the middle one and the largest."""
    priors = [line["prior"] if line["n_iter"] else np.inf for line in lines]
    if len(priors) > 3:
        priors = np.quantile(priors, (0.0, 0.5, 1.0), method="nearest").tolist()
    return ", ".join("none" if prior == np.inf else f"{prior:.3g}" for prior in priors)


def _cost(line: dict[str, Any]) -> float:
    """Return the CPU of a default fit over that of one with its prior given."""
    given = line.get(f"seconds {line['prior']}", np.nan)
    return float(line["seconds auto"] / given)


def main(arguments: list[str] | None = None) -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.goals")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", nargs="+", choices=CASES | FEW)
    parser.add_argument("--few", action="store_true", help="few labels or comparisons")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--priors", nargs="+", type=float, default=list(PRIORS))
    parser.add_argument("--output", type=Path, help="JSON lines with all scores")
    options = parser.parse_args(arguments)
    priors = tuple(options.priors)
    names = options.only or list(FEW if options.few else CASES)
    n_seeds = options.seeds or (FEW_SEEDS if options.few else 1)
    tasks = [(name, seed) for name in names for seed in range(n_seeds)]
    by_name: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [
            (name, pool.submit(run, name, options.data, seed, priors))
            for name, seed in tasks
        ]
        for name, future in futures:
            try:
                line = future.result()
            except (OSError, subprocess.SubprocessError) as error:
                print(f"{name}: left out, {error}", flush=True)
                continue
            by_name.setdefault(name, []).append(line)
            print(name, *row(by_name[name], priors)[2:], flush=True)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    rows = [row(lines, priors) for lines in by_name.values()]
    print()
    print(aligned(rows, HEADINGS, set(HEADINGS[2:])))
    print("\n* looked at while the rule was made; (!) loses more than a standard error")


if __name__ == "__main__":
    main()
