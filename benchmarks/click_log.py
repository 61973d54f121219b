"""A generated click log over real texts: who asks, what is shown, and what is clicked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl.datasets import load_docstrings
from hdsl.search import top_k

#: Documents that are shown for a query: the first by cosine.
N_SHOWN = 10

#: How likely somebody who looks at a document clicks it, if it is relevant and if not.
CLICKS_RELEVANT = 0.7
CLICKS_OTHER = 0.1

#: Somebody looks at the document of rank r with probability r to this power.
BIAS = -0.7


class Event(NamedTuple):
    """A query, the documents that were shown for it, and which of them were clicked."""

    query: int
    shown: np.ndarray
    is_clicked: np.ndarray


class ClickedSearch(NamedTuple):
    """Half of Python's docstrings are documents, the others queries.

    What is relevant for a query are the documents of its module, which no log says.
    """

    D: sp.csr_array
    Q: sp.csr_array
    relevant: list[set[int]]

    def events(
        self, queries: np.ndarray, n_events: int, seed: int = 0, bias: float = BIAS
    ) -> list[Event]:
        """Return events of some queries in which a document was clicked, and one was not."""
        rng = np.random.default_rng(seed)
        shown = top_k(self.Q, self.D, N_SHOWN).rows
        looks = np.arange(1.0, N_SHOWN + 1) ** bias
        events = []
        for query in rng.choice(queries, n_events).tolist():
            is_relevant = [d in self.relevant[query] for d in shown[query].tolist()]
            clicks = np.where(is_relevant, CLICKS_RELEVANT, CLICKS_OTHER)
            is_clicked = rng.random(N_SHOWN) < looks * clicks
            if is_clicked.any() and not is_clicked.all():
                events.append(Event(query, shown[query], is_clicked))
        return events


def load(n_words: int | None = None) -> ClickedSearch:
    """Return the summaries of docstrings as documents and queries, of `n_words` words or whole."""
    docs = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
    texts = np.array(docs.texts, dtype=object)
    order = np.random.default_rng(0).permutation(len(texts))
    documents = order[: len(order) // 2]
    queries = order[len(order) // 2 :]
    words = TfidfVectorizer(
        token_pattern="[A-Za-z][A-Za-z_]+", min_df=2, sublinear_tf=True
    )
    D = sp.csr_array(words.fit_transform(texts[documents]))
    typed = texts[queries]
    if n_words is not None:
        typed = _shortened(typed, words, n_words)
    Q = sp.csr_array(words.transform(typed))
    labels = docs.y[documents]
    relevant = [set(np.flatnonzero(labels == y).tolist()) for y in docs.y[queries]]
    return ClickedSearch(D, Q, relevant)


def _shortened(texts: np.ndarray, words: TfidfVectorizer, n_words: int) -> list[str]:
    """Return some words of each text, drawn from those that documents have."""
    rng = np.random.default_rng(0)
    split = words.build_analyzer()
    shortened = []
    for text in texts.tolist():
        known = sorted(set(split(text)) & set(words.vocabulary_))
        drawn = rng.choice(known, min(n_words, len(known)), replace=False)
        shortened.append(" ".join(drawn.tolist()))
    return shortened
