"""A frozen embedding under the learned part: words, embedding, and both.

Beyond the paper. Everything is learned and chosen on training rows, or on the queries
that are known, and measured once on the others. Errors are those of 3 nearest
neighbours by (learned) cosine. CISI is searched by queries that were held out, five
folds, with the judgements of the others.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from hdsl import HDSL, ClassScores, Rows, SimilarityKNeighborsClassifier, Solver
from hdsl.datasets import load_docstrings
from hdsl.evaluate import RankingQuality, ranking_quality
from hdsl.rows import unit_rows
from hdsl.search import top_k
from hdsl.settings import nested_parameters
from hdsl.similarity.cosine import ranked_by
from hdsl.similarity.similarity import unlearned
from hdsl.triplets import relevance_triplets

from . import cisi, encoders
from .results import Results, Table, share
from .runner import finished
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "A frozen embedding under the learned part: words, embedding, and both"

FOLDS = 5

#: Folds of the movie reviews that are reported on.
TEST_FOLDS = (8, 9)

N_NEIGHBORS = 3

#: What is compared: a line of the table of errors, and whether it needs an encoder.
METHODS = {
    "words": "words, by cosine",
    "words_learned": "words, HDSL()",
    "words_svc": "words, LinearSVC",
    "words_scores": "words, ClassScores() and HDSL()",
    "embedding": "embedding, by cosine",
    "both": "both, by cosine, weight chosen",
    "both_learned": "both, HDSL()",
    "both_svc": "both, LinearSVC",
    "both_scores": "both, ClassScores() and HDSL()",
}

OF_WORDS = ("words", "words_learned", "words_svc", "words_scores")


class Texts(NamedTuple):
    """Texts as words, with labels, split into rows to learn from and rows to report on."""

    texts: list[str]
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every set with every encoder, and every fold of CISI."""
    names = ["docstrings"]
    if settings.data is not None and (settings.data / "movie_reviews").is_dir():
        names.append("movie_reviews")
    all_encoders = settings.by_size(full=list(encoders.ENCODERS), quick=["static"])
    for encoder in all_encoders:
        encoders.check(settings, encoder)
    found = [
        {"set": name, "encoder": "none", "method": method}
        for name in names
        for method in OF_WORDS
    ]
    found += [
        {"set": name, "encoder": encoder, "method": method}
        for name in names
        for encoder in all_encoders
        for method in METHODS
        if method not in OF_WORDS
    ]
    if settings.data is not None and (settings.data / "cisi").is_dir():
        found += [
            {"set": "cisi", "encoder": encoder, "fold": fold}
            for encoder in all_encoders
            for fold in range(FOLDS)
        ]
    return found


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return what a method gets wrong, or the measures of the queries of a fold."""
    if cell["set"] == "cisi":
        return compute_search(settings, cell["encoder"], cell["fold"])
    texts = load(settings, cell["set"])
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    words.fit([texts.texts[row] for row in texts.train])
    X: Any = sp.csr_array(words.transform(texts.texts))
    if cell["encoder"] != "none":
        Z = encoders.embedding(settings, cell["encoder"], cell["set"], texts.texts)
        X = Rows(X, Z)
    return errors(cell["method"], X, texts)


# --- errors ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def load(settings: Settings, name: str) -> Texts:
    """Return the texts of a set; the split is that of the other experiments."""
    if name == "docstrings":
        docs = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
        y = np.asarray(docs.y)
        rows = np.arange(len(y))
        train, test = train_test_split(rows, test_size=0.2, random_state=0, stratify=y)
        return Texts(list(docs.texts), y, train, test)
    if settings.data is None:
        raise MissingDataError(f"it needs {name} in the folder of --data.")
    path = settings.data / name / "documents.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    folds = np.array([document["fold"] for document in documents])
    is_test = np.isin(folds, TEST_FOLDS)
    return Texts(
        texts=[document["text"] for document in documents],
        y=np.array([document["label"] for document in documents]),
        train=np.flatnonzero(~is_test),
        test=np.flatnonzero(is_test),
    )


def errors(method: str, X: Any, texts: Texts) -> dict[str, Any]:
    """Return the number of test rows that a method gets wrong, and the weight of the embedding."""
    y = texts.y
    rows = X[texts.train]
    test = X[texts.test]
    answer: dict[str, Any] = {"n": len(texts.test)}
    if method.endswith("svc"):
        classifier = LinearSVC(random_state=0)
        classifier.fit(_one_matrix(rows), y[texts.train])
        predicted = classifier.predict(_one_matrix(test))
        return answer | {"wrong": int(np.sum(predicted != y[texts.test]))}
    if method.endswith("scores"):
        scores = ClassScores(random_state=0)
        rows = scores.fit_transform(rows, y[texts.train])
        test = scores.transform(test)
        method = "both_learned"
    similarity: Any = None
    if method.endswith("learned"):
        model = finished(HDSL(random_state=0).fit(rows, y[texts.train]))
        similarity = model.similarity_
        answer |= {"weight": model.embedding_weight_, "prior": model.prior_}
    elif method == "embedding":
        rows = rows.dense
        test = test.dense
    elif method == "both":
        # Nothing is learned: the weight is all that the fit chooses.
        model = HDSL(random_state=0, prior=1.0, solver=Solver(max_iter=1)).fit(
            rows, y[texts.train]
        )
        similarity = unlearned(rows.map(unit_rows), model.embedding_weight_)
        answer |= {"weight": model.embedding_weight_}
    knn = SimilarityKNeighborsClassifier(
        N_NEIGHBORS, similarity=similarity, cosine=True
    ).fit(rows, y[texts.train])
    return answer | {"wrong": int(np.sum(knn.predict(test) != y[texts.test]))}


def _one_matrix(X: Any) -> Any:
    """Return rows for a linear classifier: words, and the embedding at unit length."""
    if isinstance(X, Rows):
        return sp.csr_matrix(X.map(unit_rows).to_sparse())
    return sp.csr_matrix(X)


# --- search ---------------------------------------------------------------------------


def compute_search(settings: Settings, encoder: str, fold: int) -> dict[str, Any]:
    """Return nDCG@10 of each held-out query, by each way to rank."""
    assert settings.data is not None  # checked by `cells`
    collection = cisi.load(settings.data)
    texts = cisi.load_texts(settings.data)
    n_documents = collection.n_documents
    Z = encoders.embedding(settings, encoder, "cisi", texts.documents + texts.queries)
    words = sp.csr_array(sp.vstack([collection.D, collection.Q]))
    X = Rows(words, Z)
    order = np.random.default_rng(0).permutation(len(collection.relevant))
    is_held_out = np.arange(len(order)) % FOLDS == fold
    held_out = order[is_held_out]
    known = order[~is_held_out]
    answer: dict[str, Any] = {"queries": held_out.tolist()}

    def ndcg(similarity: Any, rows: Any) -> list[float]:
        """Return the measure of each held-out query, ranked by a similarity or by cosine."""
        queries = rows[n_documents + held_out]
        documents = rows[np.arange(n_documents)]
        if similarity is not None:
            queries = similarity.rewrite(queries)
            documents = similarity.index_rows(documents)
        ranked = top_k(queries, documents, cisi.DEPTH, n_jobs=1).rows
        relevant = [collection.relevant[query] for query in held_out]
        quality: RankingQuality = ranking_quality(ranked, relevant)
        return quality.ndcgs.tolist()

    unit = X.map(unit_rows)
    answer["words"] = ndcg(None, unit.sparse)
    answer["embedding"] = ndcg(None, unit.dense)
    for name, rows in (("words", unit.sparse), ("both", unit)):
        model = learn_judged(rows, n_documents, known, collection.relevant)
        learned = ranked_by(model.ranking_, model.similarity_)
        answer[f"{name}_learned"] = ndcg(learned, rows)
        answer[f"{name}_prior"] = model.prior_
    answer["weight"] = model.embedding_weight_
    answer["both"] = ndcg(unlearned(unit, model.embedding_weight_), unit)
    return answer


def learn_judged(
    rows: Any,
    n_documents: int,
    known: np.ndarray,
    relevant: list[set[int]],
    **options: Any,
) -> HDSL:
    """Return `HDSL()` of the judgements of some queries, as `relevance_triplets` makes them."""
    table = {
        "query": [k for k, query in enumerate(known) for _ in relevant[query]],
        "document": [row for query in known for row in sorted(relevant[query])],
    }
    judged = relevance_triplets(
        rows[n_documents + known],
        rows[np.arange(n_documents)],
        table,
        grade=None,
        random_state=0,
    )
    model = HDSL(**nested_parameters(random_state=0, **options))
    model.fit(judged)
    return finished(model)


# --- tables ---------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the errors, and the search."""
    labelled = [line for line in lines if line["cell"]["set"] != "cisi"]
    searches = [line for line in lines if line["cell"]["set"] == "cisi"]
    tables = []
    if labelled:
        tables.append(_errors_table(labelled))
    if searches:
        tables.append(_search_table(searches))
    return Results(tables)


def _errors_table(lines: list[Line]) -> Table:
    """Return the errors by method, and by set and encoder."""
    names = list(dict.fromkeys(line["cell"]["set"] for line in lines))
    kinds = [kind for kind in encoders.ENCODERS if _has(lines, kind)]
    by_cell = {
        (line["cell"]["set"], line["cell"]["encoder"], line["cell"]["method"]): line
        for line in lines
    }
    columns = [
        (name, kind)
        for name in names
        for kind in kinds
        if (name, kind, "embedding") in by_cell
    ]
    head = ["method", *(f"{name}, {kind}" for name, kind in columns)]
    rows = []
    for method, label in METHODS.items():
        row = [label]
        for name, kind in columns:
            encoder = "none" if method in OF_WORDS else kind
            row.append(_shown(by_cell.get((name, encoder, method))))
        rows.append(row)
    notes = [
        "Errors of 3 nearest neighbours in percent with 95 % intervals, on "
        f"{_counts(lines)}. In brackets the weight of the embedding, chosen on training "
        "rows. " + "; ".join(f"{kind}: {encoders.ENCODERS[kind]}" for kind in kinds)
    ]
    return Table("errors", head, rows, notes)


def _has(lines: list[Line], encoder: str) -> bool:
    """Return whether an encoder was used."""
    return any(line["cell"]["encoder"] == encoder for line in lines)


def _counts(lines: list[Line]) -> str:
    """Return how many test rows each set has."""
    counts = {line["cell"]["set"]: line["n"] for line in lines}
    return ", ".join(f"{n} rows of {name}" for name, n in counts.items())


def _shown(line: Line | None) -> str:
    """Return an error with its interval, and the weight that was chosen."""
    if line is None:
        return ""
    text = share(line["wrong"], line["n"])
    if line.get("weight") is not None:
        text += f" [{line['weight']:g}]"
    return text


#: The columns of the table of searches.
SEARCHES = ("words", "words_learned", "embedding", "both", "both_learned")


def _search_table(lines: list[Line]) -> Table:
    """Return nDCG@10 on held-out queries by each way to rank, and what both gain."""
    rows = []
    for kind, label in encoders.ENCODERS.items():
        of_kind = [line for line in lines if line["cell"]["encoder"] == kind]
        if not of_kind:
            continue
        pooled = {
            name: np.concatenate([line[name] for line in of_kind]) for name in SEARCHES
        }
        gain = _gain(pooled["both_learned"], _better(pooled))
        weights = sorted({line["weight"] for line in of_kind})
        rows.append(
            [
                label,
                *(f"{pooled[name].mean():.3f}" for name in SEARCHES),
                gain,
                ", ".join(f"{weight:g}" for weight in weights),
            ]
        )
    head = [
        "encoder",
        "words",
        "words, learned",
        "embedding",
        "both",
        "both, learned",
        "gain over the better of words and embedding",
        "weights",
    ]
    notes = ["nDCG@10 of CISI's queries, each held out once. Mean and standard error."]
    return Table("search", head, rows, notes)


def _better(pooled: dict[str, np.ndarray]) -> np.ndarray:
    """Return the measures of words or of the embedding, whose mean is larger."""
    return max((pooled["words"], pooled["embedding"]), key=np.mean)


def _gain(values: np.ndarray, others: np.ndarray) -> str:
    """Return the mean difference and its standard error."""
    gain = values - others
    return f"{gain.mean():+.3f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.3f}"
