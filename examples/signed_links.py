"""
Predict the sign of links
=========================

You learn how to learn from links: pairs of rows that are known to be similar or
dissimilar. ``link_triplets`` turns signed links into triplets. The learned similarity
then ranks pairs that have no link yet.
"""

# %%
# Links from a hidden similarity
# ------------------------------
# 500 nodes have 2,000 sparse features. The hidden similarity has 100 feature pairs: some
# belong together, the others tell nodes apart. The most similar five percent of all pairs
# of nodes may have a positive link, the least similar five percent a negative one. 1,000
# links are known, 1,000 others choose the model, and 1,000 more test it.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from hdsl import HDSL, Solver
from hdsl.plots import COLORS, MARKERS
from hdsl.triplets import link_triplets

rng = np.random.default_rng(0)
X = sp.random_array((500, 2000), density=0.02, rng=rng, format="csr")
first, second = rng.permutation(2000)[:200].reshape(2, 100)
hidden = X[:, first] + X[:, second] * rng.choice([-1, 1], size=100)
a, b = np.triu_indices(X.shape[0], 1)
similarity = (hidden @ hidden.T).toarray()[a, b]
low, high = np.quantile(similarity, [0.05, 0.95])
positive = rng.choice(np.flatnonzero(similarity >= high), 1500, replace=False)
negative = rng.choice(np.flatnonzero(similarity <= low), 1500, replace=False)
linked = rng.permutation(np.concatenate([positive, negative]))
links = np.column_stack([a, b])[linked]
signs = np.where(similarity[linked] >= high, 1, -1)
train, valid, test = np.split(np.arange(3000), 3)
print(f"{X.shape[0]} nodes, {X.shape[1]} features, {len(train)} training links.")

# %%
# A positive link (a, b) and a negative link (a, c) make the triplet "a is more like
# b than like c".

triplets = link_triplets(links[train], signs[train], random_state=0)
print(f"They make {len(triplets)} triplets.")

# %%
# Choose the scale and the number of iterations
# ---------------------------------------------
# The score is how well a model ranks positive validation links above negative ones. One
# run contains all models of its path, and ``at`` returns each of them without a refit.
# Rows are taken as they are (``norm=None``), since the lengths of nodes count here.

left = X[links[:, 0]]
right = X[links[:, 1]]


def auc(scores, part):
    return roc_auc_score(signs[part], scores[part])


fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
best_score = 0.0
best = None
for color, marker, scale in zip(COLORS, MARKERS, (3.0, 10.0, 30.0), strict=False):
    model = HDSL(
        scale, prior=0.1, norm=None, solver=Solver(max_iter=30), random_state=0
    )
    path = model.fit(X, triplets=triplets)
    iterations = np.unique(np.geomspace(1, path.n_iter_, 15).astype(int))
    scores = [auc(path.at(k).pair_score(left, right), valid) for k in iterations]
    ax.plot(
        iterations, scores, color=color, marker=marker, ms=4, label=f"scale {scale:g}"
    )
    if max(scores) > best_score:
        best_score = max(scores)
        best = path.at(iterations[np.argmax(scores)])
dot_product = np.asarray(left.multiply(right).sum(axis=1)).ravel()
ax.axhline(auc(dot_product, valid), color="0.5", ls=":", label="dot product")
ax.set(xscale="log", xlabel="iteration", ylabel="AUC of validation links")
ax.legend(frameon=False)

# %%
# Test
# ----
# The test links were not used to choose the model.

truth = similarity[linked]
learned = best.pair_score(left, right)
print(
    f"Chosen: scale {best.scale_:g}, {best.n_iter_} iterations, {len(best.weights_)} "
    "pairs."
)
print("\nAUC of test links")
for name, scores in (
    ("dot product", dot_product),
    ("learned similarity", learned),
    ("hidden similarity", truth),
):
    print(f"{name:20}{auc(scores, test):7.3f}")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
for ax, name, scores in (
    (axes[0], "dot product", dot_product),
    (axes[1], "learned similarity", learned),
):
    for sign, color, label in (
        (1, COLORS[0], "positive links"),
        (-1, COLORS[1], "negative links"),
    ):
        ax.hist(
            scores[test][signs[test] == sign],
            30,
            color=color,
            alpha=0.6,
            label=label,
        )
    ax.set(xlabel=name)
axes[0].set_ylabel("test links")
axes[1].legend(frameon=False)
plt.show()
