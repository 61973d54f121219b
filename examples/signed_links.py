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
# ``make_links`` is the paper's synthetic problem: 500 nodes with 5,000 sparse features,
# and 1,000 links each for training, validation and test. A link is positive if the
# hidden similarity of its two nodes is among the largest five percent of one of them,
# and negative if it is among the smallest.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from hdsl import HDSL
from hdsl.plots import COLORS, MARKERS
from hdsl.triplets import link_triplets
from reproduce.datasets import make_links

made = make_links(500, 5000, random_state=0)
print(
    f"{made.X.shape[0]} nodes, {made.X.shape[1]} features, {len(made.train)} training "
    "links."
)

# %% A positive link (a, b) and a negative link (a, c) make the triplet "a is more like
# b than like c".

triplets = link_triplets(made.links[made.train], made.signs[made.train], random_state=0)
print(f"They make {len(triplets)} triplets.")

# %%
# Choose the scale and the number of iterations
# ---------------------------------------------
# The score is how well a model ranks positive validation links above negative ones. One
# run contains all models of its path, and ``at`` returns each of them without a refit.
# As in the paper, rows are taken as they are (``norm=None``) and weights sum to 1
# (``init="oracle"``).

left, right = (made.X[ends] for ends in made.links.T)


def auc(scores, part):
    return roc_auc_score(made.signs[part], scores[part])


fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
best_score = 0.0
best = None
for color, marker, scale in zip(COLORS, MARKERS, (3.0, 10.0, 30.0), strict=False):
    model = HDSL(
        scale, prior=0.1, norm=None, init="oracle", max_iter=30, random_state=0
    )
    path = model.fit(made.X, triplets=triplets)
    iterations = np.unique(np.geomspace(1, path.n_iter_, 15).astype(int))
    scores = [auc(path.at(k).pair_score(left, right), made.valid) for k in iterations]
    ax.plot(
        iterations, scores, color=color, marker=marker, ms=4, label=f"scale {scale:g}"
    )
    if max(scores) > best_score:
        best_score = max(scores)
        best = path.at(iterations[np.argmax(scores)])
dot_product = np.asarray(left.multiply(right).sum(axis=1)).ravel()
ax.axhline(auc(dot_product, made.valid), color="0.5", ls=":", label="dot product")
ax.set(xscale="log", xlabel="iteration", ylabel="AUC of validation links")
ax.legend(frameon=False)

# %%
# Test
# ----
# The test links were not used to choose the model.

truth = np.asarray((left @ made.matrix).multiply(right).sum(axis=1)).ravel()
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
    print(f"{name:20}{auc(scores, made.test):7.3f}")

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
            scores[made.test][made.signs[made.test] == sign],
            30,
            color=color,
            alpha=0.6,
            label=label,
        )
    ax.set(xlabel=name)
axes[0].set_ylabel("test links")
axes[1].legend(frameon=False)
plt.show()
