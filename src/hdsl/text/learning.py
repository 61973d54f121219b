"""A collection learned from texts, as the command line does it from a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..input.texts import as_texts
from ..labels import label_sets
from ..rows import Rows
from .collection import Collection
from .documents import Documents
from .encoders import TextEncoder
from .words import Words

#: Beside class scores, a feature that is paired must be in this power of the number of
#: rows, at least: pairs of rarer words lead lists and change no error
#: (benchmarks/rare_features.py).
MIN_ROWS_POWER = 0.25


def min_rows_beside_scores(n_rows: int) -> int:
    """Return how many rows must have a word that is paired, where class scores stand beside it.

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

    No text is held out: ``hdsl fit`` does that, and measures.

    Parameters
    ----------
    texts : sequence of str of length n_texts
    y : array-like of shape (n_texts,), default=None
        Labels, or several per text, as in ``HDSL.fit``. Class scores stand beside the
        words then.
    triplets, quadruplets, sample_weight : array-like, default=None
        As in ``HDSL.fit``, with numbers of texts. Beside labels they are what HDSL
        learns from, and the labels what class scores do.
    ids : array-like of shape (n_texts,), default=None
        Names of the texts.
    words : Words, default=None
        How texts become rows; it is fitted. None is ``Words()``.
    encoder : object or str, default=None
        What makes an embedding of the texts, which is compared beside the words: an
        object with ``encode``, or its name or folder, as in `SentenceEncoder`.
    model : HDSL or Pipeline, default=None
        What learns; it is fitted. A pipeline has `ClassScores` first. None is a
        pipeline of both with `y`, and ``HDSL(random_state=0)`` with judgements.

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
        model = _default_model(len(documents), has_labels=y is not None)
    judgements = {
        "triplets": triplets,
        "quadruplets": quadruplets,
        "sample_weight": sample_weight,
    }
    prefix = ""
    if hasattr(model, "steps"):
        prefix = f"{model.steps[-1][0]}__"
    options = {
        prefix + name: value for name, value in judgements.items() if value is not None
    }
    labels = None
    if y is not None and label_sets(y) is None:
        labels = np.asarray(y)
    fitted = model.fit(X, y, **options)
    documents_learned = Documents(X, labels, documents, ids)
    return Collection(fitted, words, documents_learned, encoder=text_encoder)


def _default_model(n_texts: int, has_labels: bool) -> Any:
    """Return what learns where the user names nothing."""
    from sklearn.pipeline import make_pipeline

    from ..class_scores import ClassScores
    from ..hdsl import HDSL

    if not has_labels:
        return HDSL(random_state=0)
    model = HDSL(min_rows=min_rows_beside_scores(n_texts), random_state=0)
    return make_pipeline(ClassScores(random_state=0), model)
