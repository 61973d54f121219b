"""
One similarity per region
=========================

You learn when one similarity per region helps, and how to let held-out rows decide it.
``LocalHDSL`` learns one similarity for all rows and a small one more per region of the
space. A made-up problem needs regions; on docstrings held-out rows say whether regions
are worth it.
"""

# %%
# Regions that contradict each other
# ----------------------------------
# Queries and documents share no word of a class. In one region the words of query class
# c go with those of document class c, in the other with those of class c + 1. No single
# matrix is right in both regions. Each row has two words of its class, and four marks,
# which tell the region alone. Half of the rows are for training: each query is compared
# with a document of its class and one of another class of the same region.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

from hdsl import HDSL, LocalHDSL, SimilarityKNeighborsClassifier
from hdsl.datasets import load_docstrings

rng = np.random.default_rng(0)
regions, is_query = rng.integers(2, size=(2, 1200))
classes = rng.integers(6, size=1200)
block = np.where(is_query, classes, 6 + (classes + regions) % 6)
words = [3 * b + rng.choice(3, size=2, replace=False) for b in block]
marks = [36 + 8 * r + rng.choice(8, size=4, replace=False) for r in regions]
columns = np.hstack([words, marks]).ravel()
X = sp.csr_array(
    (np.ones(7200), (np.repeat(np.arange(1200), 6), columns)), shape=(1200, 52)
)
y = 6 * regions + classes
is_query = is_query == 1
is_known = np.arange(len(y)) < 600
triplets = []
for query in np.flatnonzero(is_known & is_query):
    near = is_known & ~is_query & (regions == regions[query])
    for _ in range(10):
        same = rng.choice(np.flatnonzero(near & (y == y[query])))
        other = rng.choice(np.flatnonzero(near & (y != y[query])))
        triplets.append((query, same, other))

index = is_known & ~is_query
asked = ~is_known & is_query


def error(model):
    knn = SimilarityKNeighborsClassifier(3, similarity=model, cosine=True)
    return 100 * (1 - knn.fit(X[index], y[index]).score(X[asked], y[asked]))


models = {
    n: LocalHDSL(HDSL(prior=1.0, random_state=0), n_regions=n).fit(X, triplets=triplets)
    for n in (0, 2)
}
print(f"Errors without regions: {error(models[0]):.1f} %")
print(f"Errors with two regions: {error(models[2]):.1f} %")

# %% The parts of the two regions have opposite entries: blue pairs pull together, red
# pairs apart.

fig, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for region, ax in enumerate(axes):
    local = models[2].local_[region].matrix().toarray()[:18, 18:36]
    largest = np.abs(local).max()
    ax.imshow(local, cmap="RdBu", vmin=-largest, vmax=largest)
    ax.set(
        title=f"region {region}", xlabel="words of documents", ylabel="words of queries"
    )

# %%
# Docstrings
# ----------
# On real data regions help only sometimes. ``n_regions="auto"``, the default, tries
# numbers of regions on held-out rows and takes the smallest within one standard error
# of the best, so that no regions are used where they do not help.

docs = load_docstrings(min_rows_per_label=80)
known, new = train_test_split(
    np.arange(len(docs.y)),
    train_size=300,
    test_size=300,
    stratify=docs.y,
    random_state=0,
)
shared = HDSL(prior=2.0, n_targets=3, n_impostors=5, max_iter=10, random_state=0)
model = LocalHDSL(shared).fit(docs.X[known], docs.y[known])
for n, score in zip(model.choice_["n_regions"], model.choice_["score"], strict=True):
    print(f"{n} regions: score {score:.3f} on held-out rows")
print(f"Chosen: {model.n_regions_} regions")

# %% A region is named by the words that set its center apart, and an explanation says
# where the query is.

model = LocalHDSL(shared, n_regions=3).fit(docs.X[known], docs.y[known])
for size, name in zip(
    model.region_sizes_, model.region_names(docs.feature_names), strict=True
):
    print(f"{size} docstrings about {name}")
print(
    model.explain(
        docs.X[new[[0]]], docs.X[known[[0]]], feature_names=docs.feature_names, top=5
    )
)
plt.show()
