"""What to do with a sentence model where there are labels or judgements: rivals, measured.

Beyond the paper. The vectors of a small sentence model are frozen, mapped linearly by a
supervised contrastive loss, or all its layers are tuned by that loss; beside them words,
linear classifiers and `HDSL`. Texts are split five times; all methods know the texts of
the training part, and the labels of a few or of all. Errors are those of 3 nearest
neighbours among the labelled rows, but for classifiers. Judged queries are held out in
five folds, and a linear adapter of the query is the rival.

``--data`` names the folder of the sets, ``--model`` that of the sentence model, and
``--sets`` those to run. A set is a folder with ``documents.jsonl.gz`` or
``sentences.jsonl.gz``, of objects with ``text`` and ``label``; or with
``documents.jsonl.gz``, ``queries.jsonl`` and ``qrels.tsv``.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import t as student
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import LinearSVC

from hdsl import HDSL, ClassScores, Rows, SimilarityKNeighborsClassifier
from hdsl.datasets import load_docstrings
from hdsl.evaluate import ranking_quality
from hdsl.rows import unit_rows
from hdsl.search import top_k
from hdsl.settings import nested_parameters

from . import cisi, contrastive, encoders
from .embeddings import learn_judged
from .results import Results, Table
from .runner import finished
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "What to do with a sentence model: errors of 3 nearest neighbours in %, nDCG@10"

#: The set that needs no file.
DOCSTRINGS = "docstrings"

N_SPLITS = 5
TEST_SHARE = 0.3
N_NEIGHBORS = 3

#: Parameters by which `HDSL` learns nothing in the vectors.
FROZEN = {"embedding_scale": 0.0}

#: Labels per class of each size; None is all of the training part.
SIZES: dict[str, int | None] = {"small": 10, "middle": 100, "all": None}

#: Lines of the table, and the cell that measures each.
METHODS = {
    "frozen": "vectors, by cosine",
    "map": "vectors, linear map by a contrastive loss",
    "tuned": "vectors of the tuned model, by cosine",
    "logistic": "vectors, LogisticRegression",
    "svc": "words and vectors, LinearSVC",
    "words": "words, HDSL()",
    "words_frozen": "words and vectors, nothing learned in the vectors",
    "learned": "vectors, HDSL()",
    "both": "words and vectors, HDSL()",
    "scores": "words and vectors, ClassScores() and HDSL()",
    "words_tuned": "words and vectors of the tuned model, HDSL()",
}

#: Methods that torch is needed for; those of one cell share the tuned models.
WITH_TORCH = {"map": ("map",), "tuned": ("tuned", "words_tuned")}

#: Values of C that folds of the labelled rows choose from.
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)

#: Folds by which tuned models keep from scoring what they have seen.
CROSS_FITS = 3

FOLDS = 5

#: Penalties of the adapter of queries, which folds of the known queries choose from.
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)

#: What the adapter multiplies cosines by before the softmax.
SHARPNESS = 20.0

SEARCHES = {
    "words": "words, by cosine",
    "frozen": "vectors, by cosine",
    "adapter": "vectors, linear adapter of the query",
    "words_learned": "words, HDSL()",
    "words_frozen": "words and vectors, nothing learned in the vectors",
    "both": "words and vectors, HDSL()",
}


class Texts(NamedTuple):
    """Texts with a label each."""

    texts: list[str]
    y: np.ndarray


class Split(NamedTuple):
    """Numbers of the texts to learn from, of those whose labels are known, and of the others."""

    train: np.ndarray
    labelled: np.ndarray
    test: np.ndarray


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every split and size of each set, and every fold of searches."""
    names = settings.sets or known_sets(settings)
    n_splits = settings.by_size(full=N_SPLITS, quick=1)
    sizes = settings.by_size(full=list(SIZES), quick=["small"])
    methods = [name for name in METHODS if name not in sum(WITH_TORCH.values(), ())]
    if contrastive.reason_why_not(settings) is None:
        methods += [*WITH_TORCH]
    found = []
    for split in range(n_splits):
        for name in names:
            _vectors(settings, name)  # once, before processes ask for them
            if is_judged(settings, name):
                found.append({"set": name, "fold": split})
                continue
            found += [
                {"set": name, "size": size, "split": split, "method": method}
                for size in sizes
                for method in methods
            ]
    return found


def known_sets(settings: Settings) -> list[str]:
    """Return the docstrings and the sets in the folder of the data."""
    names = [DOCSTRINGS]
    if settings.data is not None:
        names += sorted(
            folder.name
            for folder in settings.data.iterdir()
            if texts_file(folder) is not None
        )
    return names


def texts_file(folder: Path) -> Path | None:
    """Return the file of texts of a set, None where it is no such set."""
    for name in ("documents.jsonl.gz", "sentences.jsonl.gz"):
        if (folder / name).is_file():
            return folder / name
    return None


def is_judged(settings: Settings, name: str) -> bool:
    """Return whether a set has judged queries instead of labels."""
    return settings.data is not None and (settings.data / name / "qrels.tsv").is_file()


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return what is wrong on the test rows by each method, or nDCG@10 of held-out queries."""
    if "fold" in cell:
        return compute_search(settings, cell["set"], cell["fold"])
    texts = load(settings, cell["set"])
    Z = _vectors(settings, cell["set"])
    split = split_of(texts.y, cell["split"], SIZES[cell["size"]])
    rows = Rows(words_of(texts, split), Z)
    answer = {"n": len(split.test), "labels": len(split.labelled)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Nothing is learned")
        try:
            wrong = _wrong(settings, cell["method"], rows, texts, split)
        except (RuntimeError, ValueError) as error:  # of a card, or of few labels
            return answer | {"wrong": {}, "failed": f"{cell['method']}: {error}"}
    return answer | {"wrong": wrong}


def _wrong(
    settings: Settings, method: str, rows: Rows, texts: Texts, split: Split
) -> dict[str, int]:
    """Return how many test rows are wrong by each method of a cell."""
    if method == "map":
        return {"map": _map_errors(rows, texts.y, split)}
    if method == "tuned":
        return _tuned_errors(settings, rows, texts, split)
    return {method: errors_of(method, rows, texts.y, split)}


# --- texts ----------------------------------------------------------------------------


@lru_cache(maxsize=2)
def load(settings: Settings, name: str) -> Texts:
    """Return the texts and labels of a set."""
    if name == DOCSTRINGS:
        docs = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
        return Texts(list(docs.texts), np.asarray(docs.y))
    path = None
    if settings.data is not None:
        path = texts_file(settings.data / name)
    if path is None:
        raise MissingDataError(f"it needs the texts of {name} in the folder of --data.")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    y = np.array([str(line["label"]) for line in lines])
    return Texts([line["text"] for line in lines], y)


def _vectors(settings: Settings, name: str) -> np.ndarray:
    """Return the vectors of all texts of a set; of documents, then queries, where judged."""
    if is_judged(settings, name):
        texts = cisi.load_texts(settings.data, name)
        return encoders.embedding(
            settings, "minilm", name, texts.documents + texts.queries
        )
    return encoders.embedding(settings, "minilm", name, load(settings, name).texts)


def split_of(y: np.ndarray, number: int, per_class: int | None) -> Split:
    """Return a split by its number, and the labelled rows: so many per class, or all.

    The rows of a smaller size are among those of a larger one.
    """
    rows = np.arange(len(y))
    train, test = train_test_split(
        rows, test_size=TEST_SHARE, random_state=number, stratify=y
    )
    if per_class is None:
        return Split(train, train, test)
    labelled = [train[y[train] == label][:per_class] for label in np.unique(y)]
    return Split(train, np.sort(np.concatenate(labelled)), test)


def words_of(texts: Texts, split: Split) -> sp.csr_array:
    """Return all texts as words; those of the training part are known."""
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    words.fit([texts.texts[row] for row in split.train])
    return sp.csr_array(words.transform(texts.texts))


# --- errors ---------------------------------------------------------------------------


def errors_of(method: str, rows: Rows, y: np.ndarray, split: Split) -> int:
    """Return how many test rows a method without torch gets wrong."""
    labelled = rows[split.labelled]
    test = rows[split.test]
    known = y[split.labelled]
    predictors: dict[str, Callable[[], np.ndarray]] = {
        "frozen": lambda: _by_cosine(labelled.dense, known, test.dense),
        "logistic": lambda: _logistic(labelled.dense, known, test.dense),
        "svc": lambda: _svc(labelled, known, test),
        "words": lambda: _learned(labelled.sparse, known, test.sparse),
        "words_frozen": lambda: _learned(labelled, known, test, **FROZEN),
        "learned": lambda: _learned(labelled.dense, known, test.dense),
        "both": lambda: _learned(labelled, known, test),
        "scores": lambda: _scored(labelled, known, test),
    }
    return int(np.sum(predictors[method]() != y[split.test]))


def _by_cosine(vectors: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return the classes of test rows by the plain cosine."""
    knn = SimilarityKNeighborsClassifier(N_NEIGHBORS, cosine=True)
    return knn.fit(vectors, y).predict(test)


def _logistic(vectors: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return the classes by a logistic regression; folds choose its strength."""
    model = LogisticRegression(max_iter=1000)
    search = GridSearchCV(model, {"C": STRENGTHS}, cv=3)
    return search.fit(unit_rows(vectors), y).predict(unit_rows(test))


def _svc(rows: Rows, y: np.ndarray, test: Rows) -> np.ndarray:
    """Return the classes by LinearSVC on words and vectors, each at unit length."""
    columns, test_columns = (
        sp.csr_matrix(part.map(unit_rows).to_sparse()) for part in (rows, test)
    )
    return LinearSVC(random_state=0).fit(columns, y).predict(test_columns)


def _learned(
    rows: Any, y: np.ndarray, test: Any, index: Any = None, **options: Any
) -> np.ndarray:
    """Return the classes by `HDSL`, learned from rows and asked among an index of them."""
    model = finished(
        HDSL(**nested_parameters(random_state=0, n_jobs=1, **options)).fit(rows, y)
    )
    if index is None:
        index = rows
    knn = SimilarityKNeighborsClassifier(
        N_NEIGHBORS, similarity=model, cosine=model.ranking_ == "cosine", n_jobs=1
    )
    return knn.fit(index, y).predict(test)


def _scored(rows: Rows, y: np.ndarray, test: Rows) -> np.ndarray:
    """Return the classes by `HDSL` over class scores."""
    scores = ClassScores(random_state=0)
    return _learned(scores.fit_transform(rows, y), y, scores.transform(test))


# --- with torch -----------------------------------------------------------------------


def _map_errors(rows: Rows, y: np.ndarray, split: Split) -> int:
    """Return how many test rows the mapped vectors get wrong."""
    known = y[split.labelled]
    vectors = unit_rows(rows.dense)
    mapped = contrastive.linear_map(vectors[split.labelled], known)
    predicted = _by_cosine(
        mapped(vectors[split.labelled]), known, mapped(vectors[split.test])
    )
    return int(np.sum(predicted != y[split.test]))


def _tuned_errors(
    settings: Settings, rows: Rows, texts: Texts, split: Split
) -> dict[str, int]:
    """Return how many test rows are wrong by a tuned model, and by `HDSL` over it.

    A tuned model is too sure of the texts that it was tuned on. So `HDSL` learns from
    vectors of models that have not seen them, and is asked with those of the one that
    has seen all.
    """
    known = texts.y[split.labelled]
    labelled_texts = [texts.texts[row] for row in split.labelled]
    test_texts = [texts.texts[row] for row in split.test]
    tuned = contrastive.tune(settings, labelled_texts, known)
    seen = tuned(labelled_texts)
    test_vectors = tuned(test_texts)
    unseen = contrastive.out_of_fold(settings, labelled_texts, known, seen, CROSS_FITS)
    words = rows.sparse
    predicted = {
        "tuned": _by_cosine(seen, known, test_vectors),
        "words_tuned": _learned(
            Rows(words[split.labelled], unseen),
            known,
            Rows(words[split.test], test_vectors),
            index=Rows(words[split.labelled], seen),
        ),
    }
    y_test = texts.y[split.test]
    return {name: int(np.sum(y != y_test)) for name, y in predicted.items()}


# --- search ---------------------------------------------------------------------------


def compute_search(settings: Settings, name: str, fold: int) -> dict[str, Any]:
    """Return nDCG@10 of each held-out query, by each way to rank."""
    texts = cisi.load_texts(settings.data, name)
    n_documents = len(texts.documents)
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
    words.fit(texts.documents)
    X = sp.csr_array(words.transform(texts.documents + texts.queries))
    rows = Rows(X, _vectors(settings, name)).map(unit_rows)
    order = np.random.default_rng(0).permutation(len(texts.relevant))
    is_held_out = np.arange(len(order)) % FOLDS == fold
    held_out = order[is_held_out]
    known = order[~is_held_out]
    documents = np.arange(n_documents)

    def ndcg(queries: Any, index: Any) -> list[float]:
        """Return the measure of each held-out query."""
        ranked = top_k(queries, index, cisi.DEPTH, n_jobs=1).rows
        relevant = [texts.relevant[query] for query in held_out]
        return ranking_quality(ranked, relevant).ndcgs.tolist()

    def learned(part: Any, **options: Any) -> list[float]:
        """Return the measure by `HDSL` on words, or on both."""
        model = learn_judged(part, n_documents, known, texts.relevant, **options)
        cosine = model.ranking_ == "cosine"
        queries = model.rewrite(part[n_documents + held_out], cosine=cosine)
        return ndcg(queries, model.index_rows(part[documents], cosine=cosine))

    Z = rows.dense
    adapted = adapter(
        Z[n_documents + known], Z[documents], [texts.relevant[q] for q in known]
    )
    return {
        "n": len(held_out),
        "words": ndcg(rows.sparse[n_documents + held_out], rows.sparse[documents]),
        "frozen": ndcg(Z[n_documents + held_out], Z[documents]),
        "adapter": ndcg(adapted(Z[n_documents + held_out]), Z[documents]),
        "words_learned": learned(rows.sparse),
        "words_frozen": learned(rows, **FROZEN),
        "both": learned(rows),
    }


def adapter(
    queries: np.ndarray, documents: np.ndarray, relevant: list[set[int]]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a linear map of queries, q + Aq, by a softmax over all documents.

    Folds of the queries choose the penalty of A.
    """
    folds = np.arange(len(queries)) % 3

    def quality(penalty: float) -> float:
        measures = []
        for fold in range(3):
            is_known = folds != fold
            chosen = [relevant[row] for row in np.flatnonzero(is_known)]
            mapped = _fit_adapter(queries[is_known], documents, chosen, penalty)
            ranked = top_k(mapped(queries[~is_known]), documents, 10, n_jobs=1).rows
            others = [relevant[row] for row in np.flatnonzero(~is_known)]
            measures.append(ranking_quality(ranked, others).ndcgs.mean())
        return float(np.mean(measures))

    best = max(PENALTIES, key=quality)
    return _fit_adapter(queries, documents, relevant, best)


def _fit_adapter(
    queries: np.ndarray,
    documents: np.ndarray,
    relevant: list[set[int]],
    penalty: float,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return q + Aq, where A has the least loss under a penalty of its squares."""
    Q = queries.astype(np.float64)
    D = documents.astype(np.float64)
    target = np.zeros((len(Q), len(D)))
    for row, chosen in enumerate(relevant):
        target[row, sorted(chosen)] = 1.0 / len(chosen)
    width = Q.shape[1]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        A = values.reshape(width, width)
        scores = SHARPNESS * (Q + Q @ A) @ D.T
        log_shares = scores - logsumexp(scores, axis=1, keepdims=True)
        slopes = SHARPNESS * (np.exp(log_shares) - target) / len(Q)
        value = -np.sum(target * log_shares) / len(Q) + penalty * np.sum(A * A)
        return value, (Q.T @ (slopes @ D) + 2.0 * penalty * A).ravel()

    start = np.zeros(width * width)
    fit = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    A = fit.x.reshape(width, width)
    return lambda rows: np.asarray(rows + rows @ A, dtype=np.float32)


# --- tables ---------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the errors of each size, and the searches."""
    tables = [
        _errors_table(size, chosen)
        for size in SIZES
        if (chosen := [line for line in lines if line["cell"].get("size") == size])
    ]
    searches = [line for line in lines if "fold" in line["cell"]]
    if searches:
        tables.append(_search_table(searches))
    reason = contrastive.reason_why_not(settings)
    if reason is not None and tables:
        tables[0] = tables[0]._replace(
            notes=[
                *tables[0].notes,
                f"Without the methods that train a model: {reason}",
            ]
        )
    return Results(tables)


def interval(values: list[float], digits: int, scale: float = 1.0) -> str:
    """Return the mean of a few splits with its 95 % interval, by Student's t.

    Examples
    --------
    >>> interval([0.1, 0.2, 0.3], 1, scale=100)
    '20.0 ± 24.8'
    """
    n = len(values)
    mean = scale * float(np.mean(values))
    if n == 1:
        return f"{mean:.{digits}f}"
    half = scale * float(
        np.std(values, ddof=1) / np.sqrt(n) * student.ppf(0.975, n - 1)
    )
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def _errors_table(size: str, lines: list[Line]) -> Table:
    """Return the errors by method and set, for one number of labels."""
    names = list(dict.fromkeys(line["cell"]["set"] for line in lines))
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    labels: dict[str, int] = {}
    for line in lines:
        name = line["cell"]["set"]
        labels[name] = line["labels"]
        for method, wrong in line["wrong"].items():
            errors[name, method].append(wrong / line["n"])
    rows = [
        [label, *(_shown(errors[name, method]) for name in names)]
        for method, label in METHODS.items()
        if any(errors[name, method] for name in names)
    ]
    head = ["method", *(f"{name}, {labels[name]:,} labels" for name in names)]
    notes = [
        "Errors in percent, mean of the splits with its 95 % interval; the splits share "
        "texts. All but LogisticRegression and LinearSVC are by 3 nearest neighbours."
    ]
    failures = dict.fromkeys(line["failed"] for line in lines if "failed" in line)
    notes += [f"Not measured everywhere, {failure}" for failure in failures]
    return Table(f"errors-{size}", head, rows, notes)


def _shown(errors: list[float]) -> str:
    """Return errors in percent with their interval; nothing of none."""
    if not errors:
        return ""
    return interval(errors, 1, scale=100)


def _search_table(lines: list[Line]) -> Table:
    """Return nDCG@10 on held-out queries by each way to rank, and its standard error."""
    names = list(dict.fromkeys(line["cell"]["set"] for line in lines))
    rows = []
    for method, label in SEARCHES.items():
        row = [label]
        for name in names:
            parts = [line[method] for line in lines if line["cell"]["set"] == name]
            values = np.concatenate(parts)
            error = values.std(ddof=1) / np.sqrt(len(values))
            row.append(f"{values.mean():.3f} ± {error:.3f}")
        rows.append(row)
    notes = ["nDCG@10 of queries, each held out once. Mean and standard error."]
    return Table("search", ["ranked by", *names], rows, notes)
