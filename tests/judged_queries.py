"""Documents of topics with judged queries after them."""

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

N_DOCUMENTS = 150
N_QUERIES = 40


def collection(seed=0):
    """Return documents of topics with queries after them, and the topic of each row."""
    rng = np.random.default_rng(seed)
    n_rows = N_DOCUMENTS + N_QUERIES
    topics = rng.integers(10, size=n_rows)
    preferred = rng.random((10, 120)) ** 6
    counts = rng.poisson(0.05 + 0.6 * preferred[topics])
    counts[N_DOCUMENTS:] = counts[N_DOCUMENTS:] * rng.integers(2, size=(N_QUERIES, 120))
    X = TfidfTransformer(sublinear_tf=True).fit_transform(sp.csr_array(counts))
    return sp.csr_array(X), topics


def judged(X, topics, n_others=4, harmful=False, seed=0):
    """Return triplets of queries: relevant documents before others.

    A harmful log shows the others that are most similar, and calls any one of the less
    similar documents relevant: to push the first results down is all that it teaches.
    """
    rng = np.random.default_rng(seed)
    cosines = (X[N_DOCUMENTS:] @ X[:N_DOCUMENTS].T).toarray()
    triplets = []
    for query in range(N_QUERIES):
        order = np.argsort(-cosines[query], kind="stable")
        is_relevant = topics[:N_DOCUMENTS] == topics[N_DOCUMENTS + query]
        others = order[~is_relevant[order]][: 3 * n_others]
        relevant = np.flatnonzero(is_relevant)
        if harmful:
            relevant = order[:3]
            others = order[3:9]
        for positive in relevant[:5].tolist():
            drawn = rng.choice(others, n_others, replace=False).tolist()
            triplets += [(N_DOCUMENTS + query, positive, other) for other in drawn]
    return np.array(triplets)


def better_by_product():
    """Return rows and triplets whose held-out queries find more by S as it is."""
    X, topics = collection(seed=6)
    return X, judged(X, topics, n_others=2, seed=6)


def clicked(n_shown=6, seed=0):
    """Return rows and triplets of a log: what is relevant among the first is clicked more."""
    rng = np.random.default_rng(seed)
    X, topics = collection(seed)
    cosines = (X[N_DOCUMENTS:] @ X[:N_DOCUMENTS].T).toarray()
    triplets = []
    for query in range(N_QUERIES):
        shown = np.argsort(-cosines[query], kind="stable")[:n_shown]
        is_relevant = topics[shown] == topics[N_DOCUMENTS + query]
        chances = np.where(is_relevant, 0.6, 0.2)
        for _ in range(4):
            is_clicked = rng.random(n_shown) < chances
            triplets += [
                (N_DOCUMENTS + query, row, other)
                for row in shown[is_clicked].tolist()
                for other in shown[~is_clicked].tolist()
            ]
    return X, np.array(triplets)
