"""The job of `fit` and `demo`: split, vectorise, learn, measure on rows held out."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import text
from ..explain.tables import has_class
from ..labels import LabelSets, ranks
from ..report import Measured
from ..report.measured import MAX_SCORES
from ..text import TEST, TRAIN, Collection, Documents, Words
from . import measure
from .inputs import Data
from .shell import begin, counted, is_watched, say

#: Beside class scores, a feature that is paired must have this power of the number of
#: rows: pairs of rarer words lead lists and change no error
#: (benchmarks/rare_features.py).
MIN_ROWS_POWER = 0.25


@dataclass(frozen=True)
class Outcome:
    """A model with its documents, and its errors on rows held out."""

    collection: Collection
    by: str
    measured: Measured | None
    seconds: float
    n_skipped: int = 0

    @property
    def model(self) -> Any:
        """The model without its class scores."""
        return self.collection.learned

    def facts(self) -> dict[str, Any]:
        """Return the outcome as values for JSON."""
        model = self.model
        documents = self.collection.documents
        labels = measure.labels_of(documents)
        facts = {
            "rows": documents.n_rows,
            "rows held out": int(documents.is_new.sum()),
            "rows skipped": self.n_skipped,
            "empty rows": int((np.diff(documents.X.indptr) == 0).sum()),
            "tf-idf": self.collection.words is not None or documents.idf is not None,
            "labels": None if labels is None else n_different(labels),
            "features": self.collection.scored.n_features,
            "class scores": self.collection.scored.n_scores,
            "triplets": model.n_triplets_,
            "iterations": model.n_iter_,
            "status": model.status_,
            "pairs": len(model.weights_),
            "scale": model.scale_,
            "prior": model.prior_,
            "choice": choice_of(model),
            "objective": model.objective_,
            "measure": self.measured.measure if self.measured else None,
            "measured on": self.measured.n if self.measured else 0,
        }
        facts |= measure.facts_of(self.measured) if self.measured else {"error": {}}
        return facts | {"seconds": round(self.seconds, 2)}

    def strongest_pairs(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the feature pairs with the largest effect on the rows that were learned from.

        Pairs with a class come last.
        """
        documents = self.collection.documents
        scored = self.collection.scored
        X = scored.rows(documents.X[~documents.is_new])
        names = scored.names(self.collection.feature_names)
        found = self.model.importance(X, feature_names=names).pairs
        fields = ["name", "weight", "effect", "n_rows", "n_rows_i", "n_rows_j"]
        pairs = [
            dict(zip(fields, pair, strict=True)) for pair in found[fields].tolist()
        ]
        if scored.n_scores:
            pairs = [
                pairs[k] for k in np.argsort(has_class(found["name"]), kind="stable")
            ]
        return pairs[:n]


def choice_of(model: Any) -> str | None:
    """Return in one sentence how the prior was chosen; None where it was given."""
    table = getattr(model, "choice_", None)
    if not table or not np.any(table.get("chosen", False)):
        return None
    learned = np.isfinite(table["prior"])
    taken = int(np.flatnonzero(table["chosen"])[-1])
    best = float(table["score"][learned].max())
    n_tried = len(np.unique(table["prior"][learned]))
    if n_tried == 1:
        return f"One prior was tried on held-out rows, {table['prior'][taken]:.4g}."
    return (
        f"Of {n_tried} priors tried on held-out rows, {table['prior'][taken]:.4g} is "
        "the largest, so the simplest model, within one standard error of the best: "
        f"score {table['score'][taken]:.3f}, best {best:.3f}."
    )


def learn(
    data: Data,
    model: Any,
    *,
    words: Words | None = None,
    tfidf: bool | None = None,
    class_scores: bool = True,
    test: float = 0.2,
    seed: int = 0,
    quiet: bool = False,
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn a similarity from a data file.

    A share of the rows only measures the model: it does not even add words to the
    vocabulary.

    Parameters
    ----------
    data : Data
    model : HDSL
        With the parameters to learn with; it is fitted.
    words : Words
        For texts; it is fitted.
    tfidf : bool
        For rows: whether to weigh them as counts. None does so if they are whole
        numbers, and not only 0 and 1.
    class_scores : bool
        Whether to learn from labels with class scores beside the rows. Judgements have
        none.
    test : float
        Share of the rows to measure on; 0 measures nothing.
    seed : int
        Seed of the split.
    quiet : bool
        Whether to show no progress.
    checkpoint : Path
        File for checkpoints.

    Returns
    -------
    Outcome
    """
    start = time.perf_counter()
    labels = data.y if data.comparisons is None else None
    part = split(labels if labels is None else data.labels, data.n_rows, test, seed)
    begin("counting words" if words is not None else "weighing values", quiet=quiet)
    X, idf = (
        _weighted(data, part, tfidf)
        if words is None
        else (_rows(words, data, part), None)
    )
    given: dict[str, Any]
    if labels is None:
        given, held = _by_judgements(data, part == TEST)
        given["X"] = X
    else:
        given = {"X": X[part != TEST], "y": labels[part != TEST]}
        held = {}
    fitted: Any = model
    if class_scores and labels is not None and _is_scored(X, labels):
        from sklearn.pipeline import make_pipeline

        from ..class_scores import ClassScores

        begin("scoring the labels with a linear classifier", quiet=quiet)
        scores = ClassScores(random_state=seed, n_jobs=model.n_jobs)
        given["X"] = scores.fit_transform(**given)
        fitted = make_pipeline(scores, model)
        if getattr(model, "min_rows", None) == "auto":
            model.set_params(min_rows=max(2, round(len(given["y"]) ** MIN_ROWS_POWER)))
    if checkpoint is not None and checkpoint.exists():
        say(f"continues from {checkpoint}")
    begin("learning (the first time, code is compiled)", quiet=quiet)
    model.set_params(checkpoint=checkpoint, verbose=int(is_watched(quiet)))
    try:
        model.fit(**given)
    finally:
        model.set_params(checkpoint=None, verbose=0)
    seconds = time.perf_counter() - start
    facts: dict[str, Any] = {"data": data.path.stem, "columns": data.columns}
    facts |= {"label_sep": data.label_sep} if data.label_sep else {}
    known = _plain(data.labels), data.texts, _plain(data.ids)
    collection = Collection(
        fitted, words, Documents(X, *known, part, idf, **held, facts=facts)
    )
    begin("measuring on the rows held out", quiet=quiet)
    found = measure.held_out(collection)
    if found is not None:
        facts["verdict"] = found.errors.verdict
    by = "judgements" if labels is None else "labels"
    return Outcome(collection, by, found, seconds, data.n_skipped)


def _plain(values: np.ndarray | None) -> np.ndarray | None:
    """Return labels or ids as numbers, or as strings."""
    if values is None or values.dtype.kind in "biuf":
        return values
    return np.array([str(value) for value in values.tolist()], dtype=object)


def check_labels(data: Data) -> None:
    """Raise ValueError unless there are labels or judgements to learn from."""
    if data.comparisons is not None:
        return
    if data.labels is None:
        raise ValueError(
            f"{data.path} has no labels to learn from: name their column with --label, "
            "their file with --labels, or a file of judgements with --triplets, "
            "--clicks, --links or --grades."
        )
    if isinstance(y := data.y, LabelSets):
        y.check_differ()
        return
    _, sizes = np.unique(data.labels, return_counts=True)
    if len(sizes) < 2 or sizes.max() < 2:
        labels = counted(len(sizes), "different label")
        rows = counted(len(data.labels), "row")
        raise ValueError(
            f"There {'is' if len(sizes) == 1 else 'are'} {labels} among {rows}: at "
            "least 2 are needed, one of them with several rows."
        )


def split(labels: np.ndarray | None, n_rows: int, test: float, seed: int) -> np.ndarray:
    """Return the part of each row, TRAIN or TEST: a random share of each label.

    Examples
    --------
    >>> part = split(np.array(list("aaaaabbbbb")), 10, test=0.2, seed=0)
    >>> np.bincount(part[:5]).tolist(), np.bincount(part[5:]).tolist()
    ([4, 1], [4, 1])
    """
    if not 0 <= test < 1:
        raise ValueError(
            f"--test must be a share of the rows, from 0 to below 1. Got {test:g}."
        )
    codes = np.zeros(n_rows, dtype=np.int64)
    if labels is not None:
        _, codes = np.unique(labels, return_inverse=True)
    rank = ranks(codes, np.random.default_rng(seed).permutation(n_rows))
    share = (rank + 0.5) / np.bincount(codes)[codes]
    if n_rows and share.max() < test:
        raise ValueError(
            f"--test {test:g} holds out all {n_rows} rows: none is left to learn from."
        )
    return np.where(share < test, TEST, TRAIN).astype(np.int8)


def _rows(words: Words, data: Data, part: np.ndarray) -> sp.csr_array:
    assert data.texts is not None
    try:
        words.fit(data.texts[part != TEST])
    except ValueError as error:
        raise ValueError(
            f"No word is left to learn from ({error}): lower --min-df, raise --max-df, "
            "or try --stop-words none."
        ) from None
    return words.transform(data.texts)


def _weighted(
    data: Data, part: np.ndarray, tfidf: bool | None
) -> tuple[sp.csr_array, np.ndarray | None]:
    """Return rows, weighted by TF-IDF if they are counts, and the weights of the features."""
    X = data.X
    if tfidf is False or (tfidf is None and not text.are_counts(X)):
        return X, None
    if tfidf is None:
        say(
            f"the values of {data.path} are whole numbers: they are taken as counts "
            "and weighted by TF-IDF. --no-tfidf leaves them as they are."
        )
    idf = text.inverse_frequencies(X[part != TEST])
    return text.weigh_counts(X, idf), idf


def n_different(y: Any) -> int:
    """Return the number of different labels."""
    return len(y.classes if isinstance(y, LabelSets) else np.unique(y))


def _is_scored(X: sp.csr_array, y: Any) -> bool:
    """Return whether class scores are small enough; say so if not."""
    n_labels = n_different(y)
    is_small = (X.shape[0] + X.shape[1]) * n_labels <= MAX_SCORES
    if not is_small:
        say(
            f"class scores are left out: {n_labels:,} labels with {X.shape[1]:,} "
            f"features and {X.shape[0]:,} rows need too much memory."
        )
    return is_small


def _by_judgements(
    data: Data, new: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return judgements to learn from, which name no new row, and others to measure by."""
    compared = data.comparisons
    weights = data.weights
    assert compared is not None
    rows = new[compared]
    learned = ~rows.any(axis=1)
    is_triplet = compared.shape[1] == 3
    held = rows[:, 0] if is_triplet else rows.reshape(-1, 2, 2).any(axis=2).all(axis=1)
    for chosen, purpose in ((learned, "learn from"), (held, "measure by")):
        if not chosen.any() and (purpose == "learn from" or new.any()):
            raise ValueError(
                f"Of {len(compared)} judgements none is left to {purpose}, as each row "
                "is learned from or held out: change --test, or set it to 0."
            )
    given = {"triplets" if is_triplet else "quadruplets": compared[learned]}
    n_unused = int((~learned & ~held).sum())
    if n_unused:
        shares = f"{learned.sum():,} judgements are learned from and {held.sum():,} measure; "
        say(
            f"{shares}{n_unused:,} name rows of both and are left out: --test 0 learns "
            "from all."
        )
    kept = {"judgements": compared[held]} if held.any() else {}
    if weights is not None:
        given["sample_weight"] = weights[learned]
        kept |= {"judgement_weights": weights[held]} if held.any() else {}
    return given, kept
