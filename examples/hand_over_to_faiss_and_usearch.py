"""
Search with faiss and usearch
=============================

You learn how to search a learned similarity with faiss and usearch, and how to measure
the recall of these approximate indexes against the exact search of hdsl. ``transform``
returns rows whose dot products are the similarity, so any index for inner products can
serve it.

It needs two more packages: ``pip install faiss-cpu usearch``.
"""

# %%
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from hdsl import HDSL, Mining
from hdsl.datasets import load_docstrings
from hdsl.search import top_k

try:
    import faiss
    from usearch.index import Index
except ImportError as error:
    print(
        f"This example needs faiss and usearch ({error}): pip install faiss-cpu usearch"
    )
    sys.exit(0)

# %%
# A model
# -------
# The data are docstrings of Python's standard library. These indexes take dense rows,
# so only the thousand most frequent words are used. One half of the docstrings is
# indexed, the other half gives the queries.

docs = load_docstrings(min_rows_per_label=80, vectorize=False)
vectorizer = TfidfVectorizer(max_features=1000, sublinear_tf=True)
texts, questions, y, _ = train_test_split(
    docs.texts, docs.y, test_size=0.5, stratify=docs.y, random_state=0
)
X = vectorizer.fit_transform(texts)
X_asked = vectorizer.transform(questions[:500])
model = HDSL(mining=Mining(n_targets=3, n_impostors=5), random_state=0).fit(X, y)
print(
    f"{X.shape[0]} rows, {X_asked.shape[0]} queries; a similarity of "
    f"{len(model.weights_)} atoms."
)

# %%
# The exact search returns the ten most similar rows for each query.

exact = top_k(model.rewrite(X_asked), X, k=10).rows


def recall(found):
    return np.mean(
        [len(np.intersect1d(*pair)) / 10 for pair in zip(found, exact, strict=True)]
    )


# %%
# Three indexes
# -------------
# All three take dense float32 rows and search for large inner products.


def faiss_flat(Z, Q):
    index = faiss.IndexFlatIP(Z.shape[1])
    index.add(Z)
    return index.search(Q, 10)[1]


def faiss_hnsw(Z, Q):
    index = faiss.IndexHNSWFlat(Z.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = 100
    index.add(Z)
    return index.search(Q, 10)[1]


def usearch_hnsw(Z, Q):
    index = Index(ndim=Z.shape[1], metric="ip", dtype="f32", expansion_search=100)
    index.add(np.arange(len(Z)), Z)
    return index.search(Q, 10).keys.astype(np.int64)


# %% ``transform`` returns one column per atom, then one column per word. A truncated
# SVD of these rows gives fewer columns and nearly the same similarity. The flat index
# of all columns is exact. Where its recall is not 1, several rows tie for the tenth
# place.

all_columns = model.transform(X), model.transform(X_asked)
svd = TruncatedSVD(300, random_state=0).fit(all_columns[0])
spaces = {
    "all": [rows.toarray() for rows in all_columns],
    "SVD": [svd.transform(rows) for rows in all_columns],
}
print(f"\n{'rows':>6} {'columns':>8} {'index':>14} {'recall@10':>10}")
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for space, sides in spaces.items():
    Z, Q = (np.ascontiguousarray(rows, dtype=np.float32) for rows in sides)
    shares = {
        index.__name__: recall(index(Z, Q))
        for index in (faiss_flat, faiss_hnsw, usearch_hnsw)
    }
    ax.plot(shares.keys(), shares.values(), "o", ms=8, label=f"{Z.shape[1]} columns")
    for index, share in shares.items():
        print(f"{space:>6} {Z.shape[1]:8} {index:>14} {share:10.3f}")
ax.set(ylabel="recall of the exact ten", ylim=(0, 1.05))
ax.margins(x=0.2)
ax.legend(frameon=False)
plt.show()
