"""From texts to a collection: rows, a fitted model, and what searches with both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..input.parameters import as_texts
from ..labels import label_sets
from ..rows import Rows
from ..similarity.cosine import PRODUCT
from .collection import Collection
from .documents import Documents, Queries
from .encoders import TextEncoder
from .words import Words

if TYPE_CHECKING:
    from ..hdsl import HDSL

#: Beside class scores, a feature that is paired must be in this power of the number of
#: rows, at least: pairs of rarer words lead lists and change no error
#: (benchmarks/rare_features.py).
MIN_ROWS_POWER = 0.25


def min_rows_beside_scores(n_rows: int) -> int:
    """Return how many rows must have a word that is paired, if class scores stand beside it.

    Examples
    --------
    >>> [min_rows_beside_scores(n_rows) for n_rows in (10, 1000, 100_000)]
    [2, 6, 18]
    """
    return max(2, round(n_rows**MIN_ROWS_POWER))


def learn(
    texts: Sequence[str],
    y: Any = None,
    *,
    triplets: Any = None,
    quadruplets: Any = None,
    sample_weight: Any = None,
    ids: Any = None,
    words: Words | None = None,
    encoder: Any = None,
    model: Any = None,
) -> Collection:
    """Learn a similarity of texts, and return them as a collection that takes texts.

    No text is held out for evaluation: ``hdsl fit`` does that.

    Parameters
    ----------
    texts : sequence of str of length n_texts
    y : array-like of shape (n_texts,), default=None
        Labels, or several per text, as in ``HDSL.fit``. Class scores are then added to
        the words.
    triplets, quadruplets, sample_weight : array-like, default=None
        As in ``HDSL.fit``, with numbers of texts. Triplets and quadruplets take the
        place of labels.
    ids : array-like of shape (n_texts,), default=None
        Names of the texts.
    words : Words, default=None
        Turns texts into rows; it is fitted. None is ``Words()``.
    encoder : object or str, default=None
        Embeds the texts, beside the words: an object with ``encode``, or its name or
        folder, as in `SentenceEncoder`.
    model : HDSL or Pipeline, default=None
        The model to fit. A pipeline has `ClassScores` first. None is a pipeline of both
        with `y`, and ``HDSL(random_state=0)`` with judgements.

    Returns
    -------
    Collection
        ``search``, ``explain`` and ``model``; `hdsl.save` writes it, and the command
        line reads the file.

    Examples
    --------
    >>> from hdsl import HDSL, Mining
    >>> texts = ["a late goal", "the last goal", "profit fell", "a profit warning"]
    >>> model = HDSL(scale=2.0, prior=0.5, mining=Mining(n_targets=1, n_impostors=1))
    >>> collection = learn(texts, ["sport", "sport", "money", "money"], model=model)
    >>> [hit["text"] for hit in collection.search("goal", 2)]
    ['a late goal', 'the last goal']
    """
    if y is not None and not (triplets is None and quadruplets is None):
        raise ValueError(
            "learn takes labels or judgements, but got y and triplets or quadruplets: "
            "leave out one of them."
        )
    documents = np.array(as_texts(texts, "learn"), dtype=object)
    words = words or Words()
    X: Any = words.fit(documents).transform(documents)
    text_encoder = None
    if encoder is not None:
        text_encoder = TextEncoder.of(encoder)
        X = Rows(X, text_encoder.encode(documents.tolist()))
    if model is None:
        from ..hdsl import HDSL

        model = HDSL(random_state=0)
        if y is not None:
            model = beside_scores(model, len(documents))
    labels = None
    if y is not None and label_sets(y) is None:
        labels = np.asarray(y)
    judgements = {
        "triplets": triplets,
        "quadruplets": quadruplets,
        "sample_weight": sample_weight,
    }
    options = {name: value for name, value in judgements.items() if value is not None}
    return fit_collection(
        model,
        {"X": X, "y": y, **options},
        Documents(X, labels, documents, ids),
        words=words,
        encoder=text_encoder,
    )


def fit_collection(
    model: Any,
    training: dict[str, Any],
    documents: Documents,
    *,
    words: Words | None = None,
    encoder: TextEncoder | None = None,
    queries: Queries | None = None,
) -> Collection:
    """Fit a model, and return it with its documents: the road of `learn` and of the command line.

    Parameters
    ----------
    model : HDSL or Pipeline
        A pipeline has `ClassScores` first.
    training : dict
        Arguments of ``HDSL.fit`` by name.
    documents : Documents
        With rows that are held out, if any.
    words, encoder
        What made rows of texts.
    queries : Queries, default=None

    Returns
    -------
    Collection
    """
    options = dict(training)
    X = options.pop("X")
    y = options.pop("y", None)
    learned = model
    if hasattr(model, "steps"):
        name, learned = model.steps[-1]
        options = {f"{name}__{key}": value for key, value in options.items()}
    model.fit(X, y, **options)
    if words is not None and words.ranks_by_length:
        learned.ranking_ = PRODUCT
    return Collection(model, words, documents, queries, encoder)


def beside_scores(model: HDSL, n_rows: int, *, random_state: int = 0) -> Any:
    """Return a pipeline of class scores and a model, whose rare features are not paired.

    Parameters
    ----------
    model : HDSL
        Its `min_rows` is set if it is "auto".
    n_rows : int
        Rows to learn from.
    random_state : int, default=0
        That of the class scores.
    """
    from sklearn.pipeline import make_pipeline

    from ..class_scores import ClassScores

    if model.min_rows == "auto":
        model.set_params(min_rows=min_rows_beside_scores(n_rows))
    scores = ClassScores(random_state=random_state, n_jobs=model.n_jobs)
    return make_pipeline(scores, model)
