"""The job of `fit` and `demo`: split, vectorise, learn, measure on rows held out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import typer
from sklearn.feature_extraction.text import TfidfVectorizer

from ..class_scores import ClassScores
from ..files.checkpoint import CheckpointFile
from ..hdsl import HDSL
from ..local import LocalHDSL
from ..text import (
    TEST,
    TRAIN,
    VALIDATION,
    Collection,
    are_counts,
    inverse_frequencies,
    weigh_counts,
)
from .inputs import Data
from .measure import Measured, measure_judgements, measure_labels
from .scored import ScoredModel
from .shell import counted, is_watched, say

#: Most weights of a classifier and scores of rows, 0.8 GB. Where class scores need more, they are
#: left out.
MAX_SCORES = 10**8


@dataclass(frozen=True)
class Outcome:
    """A model, the documents it was learned from, and its errors on rows held out."""

    learned: ScoredModel
    collection: Collection
    by: str
    measured: Measured | None
    is_chosen: bool
    seconds: float
    checkpoints: list[CheckpointFile]
    n_skipped: int = 0

    @property
    def n_empty(self) -> int:
        """The number of rows without a value: documents without a known word."""
        return int((np.diff(self.collection.X.indptr) == 0).sum())

    @property
    def model(self) -> HDSL | LocalHDSL:
        """The model without its class scores."""
        return self.learned.model

    def facts(self) -> dict[str, Any]:
        """Return the outcome as values for JSON."""
        model, part, labels = self.model, self.collection.part, self.collection.labels
        return {
            "rows": len(part),
            "rows held out": int((part == TEST).sum()),
            "rows skipped": self.n_skipped,
            "empty rows": self.n_empty,
            "tf-idf": self.collection.vectorizer is not None or self.collection.idf is not None,
            "labels": None if labels is None else len(np.unique(labels)),
            "features": self.learned.n_features,
            "class scores": self.learned.n_scores,
            "triplets": model.n_triplets_,
            "iterations": model.n_iter_,
            "iterations chosen on validation rows": self.is_chosen,
            "status": model.status_,
            "pairs": len(model.weights_),
            **self._regions(),
            "scale": model.scale_,
            "prior": model.prior_,
            "objective": model.objective_,
            "measure": self.measured.measure if self.measured else None,
            "measured on": self.measured.n if self.measured else 0,
            **(self.measured.facts() if self.measured else {"error": {}}),
            "seconds": round(self.seconds, 2),
        }

    def _regions(self) -> dict[str, int]:
        """Return the number of regions and of their own pairs, if there are regions."""
        model = self.model
        if isinstance(model, HDSL):
            return {}
        pairs = sum(len(weights) for weights in model.local_weights_)
        return {"regions": model.n_regions_, "pairs of regions": pairs}

    def strongest_pairs(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the feature pairs with the largest effect on the rows that were learned from."""
        X = self.learned.rows(self.collection.X[self.collection.part != TEST])
        names = self.learned.feature_names(self.collection.feature_names)
        found = self.model.importance(X, feature_names=names)
        fields = ["name", "weight", "effect", "n_rows", "n_rows_i", "n_rows_j"]
        return [dict(zip(fields, pair, strict=True)) for pair in found.pairs[fields][:n].tolist()]


class _Plan(NamedTuple):
    """The arguments of ``fit`` that choose and that learn, and how to measure the model."""

    choose: dict[str, Any]
    learn: dict[str, Any]
    measure: Callable[[ScoredModel], Measured]


def learn(
    data: Data,
    model: HDSL | LocalHDSL,
    *,
    vectorizer: TfidfVectorizer | None = None,
    tfidf: bool | None = None,
    class_scores: bool = True,
    test: float = 0.2,
    validation: float = 0.2,
    seed: int = 0,
    quiet: bool = False,
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn a similarity from a data file.

    Rows are split in three parts. The first is learned from, and the second chooses the number of
    iterations; then both are learned from for that many. The third only measures the model: it
    does not even add words to the vocabulary.

    Parameters
    ----------
    data : Data
    model : HDSL or LocalHDSL
        With the parameters to learn with; it is fitted.
    vectorizer : TfidfVectorizer
        For texts; it is fitted.
    tfidf : bool
        For rows: whether to weigh them as counts. None does so if they are whole numbers, and not
        only 0 and 1.
    class_scores : bool
        Whether to learn from labels with class scores beside the rows. Judgements have none.
    test, validation : float
        Shares of the rows. Without test rows nothing is measured; without validation rows there
        are `max_iter` iterations.
    seed : int
        Seed of the split.
    quiet : bool
        Whether to show no progress.
    checkpoint : Path
        File for checkpoints. The choice has another one beside it (`checkpoint_of_choice`).

    Returns
    -------
    Outcome
    """
    start = time.perf_counter()
    by = "labels" if data.comparisons is None else "judgements"
    labels = data.labels if by == "labels" else None
    if by == "labels" and labels is None:
        raise ValueError(
            f"{data.path} has no labels to learn from: name their column with --label, their file "
            "with --labels, or a file of judgements with --triplets or --quadruplets."
        )
    part = split(labels, data.n_rows, test, validation, seed)
    if vectorizer is None:
        X, idf = _weighted(data, part, tfidf)
    else:
        X, idf = _vectorized(vectorizer, data.texts, part), None
    collection = Collection(
        X, data.labels, data.texts, part, vectorizer, data.columns, data.ids, idf,
        **({} if labels is not None else _held_out_judgements(data, part)),
    )  # fmt: skip
    plan = _by_judgements(data, X, part) if labels is None else _by_labels(X, labels, part)
    scores = None
    if class_scores and labels is not None and _is_scored(X, labels):
        scores = ClassScores(random_state=seed, n_jobs=model.n_jobs)
    max_iter = model.max_iter
    is_chosen = bool((part == VALIDATION).any())
    checkpoints = []
    if is_chosen:
        beside = checkpoint_of_choice(checkpoint)
        what = "choosing the number of iterations"
        checkpoints += _fit(model, _with_scores(plan.choose, scores), what, quiet, beside)
        model.max_iter = max(model.n_iter_, 1)
        curve = model.trace_["validation_score"]
        at = np.flatnonzero(np.isfinite(curve))
        collection = replace(collection, choice=np.column_stack([at.astype(float), curve[at]]))
    if not is_chosen or model.status_ != "interrupted":
        checkpoints += _fit(model, _with_scores(plan.learn, scores), "learning", quiet, checkpoint)
    model.max_iter = max_iter
    seconds = time.perf_counter() - start
    learned = ScoredModel(model, scores)
    measured = plan.measure(learned) if (part == TEST).any() else None
    if measured is not None:
        collection = replace(collection, verdict=measured.errors.verdict)
    return Outcome(
        learned, collection, by, measured, is_chosen, seconds, checkpoints, data.n_skipped
    )


def split(
    labels: np.ndarray | None, n_rows: int, test: float, validation: float, seed: int
) -> np.ndarray:
    """Return the part of each row, TRAIN, VALIDATION or TEST: random shares of each label.

    Examples
    --------
    >>> part = split(np.array(list("aaaaabbbbb")), 10, test=0.2, validation=0.2, seed=0)
    >>> np.bincount(part[:5]).tolist(), np.bincount(part[5:]).tolist()
    ([3, 1, 1], [3, 1, 1])
    """
    if not (test >= 0 and validation >= 0 and test + validation < 1):
        raise ValueError(
            f"--test {test:g} and --validation {validation:g} must be shares of the rows, 0 or "
            "more and together less than 1: the rest is learned from."
        )
    codes = np.zeros(n_rows, dtype=np.int64)
    if labels is not None:
        _, codes = np.unique(labels, return_inverse=True)
    order = np.random.default_rng(seed).permutation(n_rows)
    order = order[np.argsort(codes[order], kind="stable")]
    sizes = np.bincount(codes)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = (rank + 0.5) / np.repeat(sizes, sizes)
    part = np.full(n_rows, TRAIN, dtype=np.int8)
    part[order[place < test + validation]] = VALIDATION
    part[order[place < test]] = TEST
    return part


def _vectorized(vectorizer: TfidfVectorizer, texts: Any, part: np.ndarray) -> sp.csr_array:
    try:
        vectorizer.fit(texts[part != TEST])
    except ValueError as error:
        raise ValueError(
            f"No word is left to learn from ({error}): lower --min-df, raise --max-df, or try "
            "--stop-words none."
        ) from None
    return sp.csr_array(vectorizer.transform(texts))


def _weighted(
    data: Data, part: np.ndarray, tfidf: bool | None
) -> tuple[sp.csr_array, np.ndarray | None]:
    """Return rows, weighted by TF-IDF if they are counts, and the weights of the features."""
    X = data.X
    if tfidf and len(X.data) and not ((X.data >= 0) & (X.data == X.data.round())).all():
        raise ValueError(
            f"--tfidf needs counts, whole numbers from 0, but {data.path} has other values."
        )
    if tfidf is False or (tfidf is None and not are_counts(X)):
        return X, None
    if tfidf is None:
        say(
            f"the values of {data.path} are whole numbers: they are taken as counts and weighted "
            "by TF-IDF. --no-tfidf leaves them as they are."
        )
    idf = inverse_frequencies(X[part != TEST])
    return weigh_counts(X, idf), idf


def _is_scored(X: sp.csr_array, y: np.ndarray) -> bool:
    """Return whether class scores are small enough; say so if not."""
    n_labels = len(np.unique(y))
    is_small = (X.shape[0] + X.shape[1]) * n_labels <= MAX_SCORES
    if not is_small:
        say(
            f"class scores are left out: {n_labels:,} labels with {X.shape[1]:,} features and "
            f"{X.shape[0]:,} rows need too much memory."
        )
    return is_small


def _with_scores(given: dict[str, Any], scores: ClassScores | None) -> dict[str, Any]:
    """Return arguments of ``fit`` with class scores beside the rows, fitted on the rows of X."""
    if scores is None:
        return given
    found = given | {"X": scores.fit_transform(given["X"], given["y"])}
    return found | ({"X_val": scores.transform(given["X_val"])} if "X_val" in given else {})


def _by_labels(X: sp.csr_array, y: np.ndarray, part: np.ndarray) -> _Plan:
    train, held, new = (part == p for p in (TRAIN, VALIDATION, TEST))
    _, sizes = np.unique(y, return_counts=True)
    if len(sizes) < 2 or sizes.max() < 2:
        labels, rows = counted(len(sizes), "different label"), counted(len(y), "row")
        raise ValueError(
            f"There {'is' if len(sizes) == 1 else 'are'} {labels} among {rows}: at least 2 are "
            "needed, one of them with several rows."
        )
    return _Plan(
        {"X": X[train], "y": y[train], "X_val": X[held], "y_val": y[held]},
        {"X": X[~new], "y": y[~new]},
        lambda model: measure_labels(model, X[~new], y[~new], X[new], y[new]),
    )


def _by_judgements(data: Data, X: sp.csr_array, part: np.ndarray) -> _Plan:
    """Measure on judgements about new rows; learn from those that name no new row."""
    comparisons, weights = data.comparisons, data.weights
    assert comparisons is not None
    rows = part[comparisons]
    known = (rows != TEST).all(axis=1)
    new = _is_about(rows, TEST)
    held = known & _is_about(rows, VALIDATION)
    train = (rows == TRAIN).all(axis=1)
    for chosen, purpose, is_needed in (
        (train, "learn from", True),
        (held, "choose by", (part == VALIDATION).any()),
        (new, "measure by", (part == TEST).any()),
    ):
        if is_needed and not chosen.any():
            raise ValueError(
                f"Of {len(comparisons)} judgements none is left to {purpose}, as each row is in "
                "one part only: lower --test and --validation, or set one to 0."
            )

    def weights_of(chosen: np.ndarray) -> np.ndarray | None:
        return None if weights is None else weights[chosen]

    name = "triplets" if comparisons.shape[1] == 3 else "quadruplets"
    return _Plan(
        {"X": X, name: comparisons[train], "sample_weight": weights_of(train),
         "X_val": X, "triplets_val": comparisons[held]},
        {"X": X, name: comparisons[known], "sample_weight": weights_of(known)},
        lambda model: measure_judgements(
            model, X, comparisons[new], weights_of(new), np.flatnonzero(part == TEST)
        ),
    )  # fmt: skip


def _held_out_judgements(data: Data, part: np.ndarray) -> dict[str, Any]:
    """Return the judgements about new rows and their weights, as a collection holds them."""
    new = _is_about(part[data.comparisons], TEST)
    if not new.any():
        return {}
    weights = None if data.weights is None else data.weights[new]
    return {"judgements": data.comparisons[new], "judgement_weights": weights}  # type: ignore[index]


def _is_about(parts: np.ndarray, part: int) -> np.ndarray:
    """Return which triplets have their anchor in a part, or which quadruplets a row per pair."""
    if parts.shape[1] == 3:
        return parts[:, 0] == part
    return (parts.reshape(-1, 2, 2) == part).any(axis=2).all(axis=1)


def _fit(
    model: HDSL | LocalHDSL,
    given: dict[str, Any],
    what: str,
    quiet: bool,
    checkpoint: Path | None,
) -> list[CheckpointFile]:
    """Fit a model, with a line about it; return its checkpoint, to be deleted when all is saved."""
    if checkpoint is not None and checkpoint.exists():
        say(f"{what}: continues from {checkpoint}")
    if is_watched(quiet):
        typer.echo(f"{what}:", err=True)
        model.verbose = 1
    model.checkpoint = checkpoint
    try:
        model.fit(**given)
    finally:
        model.checkpoint, model.verbose = None, 0
    return [model.checkpoint_file_] if hasattr(model, "checkpoint_file_") else []


def checkpoint_of_choice(checkpoint: Path | None) -> Path | None:
    """Return the checkpoint of the choice: it is needed until the learning after it ends."""
    return None if checkpoint is None else checkpoint.with_name(checkpoint.name + ".choosing")
