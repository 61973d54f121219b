"""
Choose the scale and the prior
==============================

You learn how to choose ``scale``, the size of the learned part, ``prior``, the weight of the plain
dot product under it, and the number of iterations with ``HDSLCV``. For each scale, prior and fold,
``HDSLCV`` learns one path of models and scores all of them.
"""

# %%
# The data are docstrings of about ten modules of Python's standard library. 600 of them choose the
# model, the others test it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from hdsl import HDSL, HDSLCV
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error
from hdsl.plots import COLORS

docs = load_docstrings(min_rows_per_label=80)
X, X_test, y, y_test = train_test_split(
    docs.X, docs.y, train_size=600, stratify=docs.y, random_state=0
)

# %%
# The grid surrounds the automatic values, which follow from the sizes of the dot products. Few
# triplets and short paths make the search quick. ``HDSLCV()`` by itself has the defaults of HDSL.

quick = HDSL(n_targets=3, n_impostors=5, max_iter=100, random_state=0)
auto = HDSL(n_targets=3, n_impostors=5, max_iter=1).fit(X, y)
search = HDSLCV(
    scales=auto.scale_ * np.array([0.1, 1, 10]),
    priors=auto.prior_ * np.array([0, 1, 10]),
    estimator=quick,
    cv=2,
).fit(X, y)

# %%
# The scores
# ----------
# The table shows the share of the ten nearest rows that have the same label, averaged over the
# folds, at the best iteration. The number after @ is that iteration. A star marks the chosen scale
# and prior. Of scores within one standard error of the best, ``HDSLCV`` takes the longest run.

mean = search.scores_.mean(axis=-1)
print(f"automatic: scale {auto.scale_:.0f}, prior {auto.prior_:.2f}\n")
print("  prior \\ scale" + "".join(f"{scale:>15.0f}" for scale in search.scales_))
chosen = search.best_params_["prior"], search.best_params_["scale"]
for prior, row in zip(search.priors_, mean, strict=True):
    cells = []
    for scale, path in zip(search.scales_, row, strict=True):
        best = path.argmax()
        star = "*" if (prior, scale) == chosen else " "
        cells.append(f"{path[best]:9.3f}@{search.iterations_[best]:<4}{star}")
    print(f"{prior:15.2f}" + "".join(cells))

# %%
# The plot shows the scores along the paths. A path that has ended continues as a level line.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
for ax, prior, paths in zip(axes, search.priors_, mean, strict=True):
    for color, scale, path in zip(COLORS, search.scales_, paths, strict=False):
        ax.plot(search.iterations_, path, color=color, label=f"scale {scale:.0f}")
    if prior == search.best_params_["prior"]:
        ax.plot(search.best_params_["n_iter"], search.best_score_, "k*", ms=11, label="chosen")
    ax.set(title=f"prior {prior:.2f}", xlabel="iteration")
    ax.legend(frameon=False, fontsize="small", loc="lower right")
axes[0].set_ylabel("share of near rows of the same label")

# %%
# Test the chosen model on the other rows, which were not used to choose it.

print("\nErrors of 3 nearest neighbours on held-out rows")
for name, model in (("TF-IDF cosine", None), ("automatic", quick.fit(X, y)),
                    ("chosen by HDSLCV", search)):  # fmt: skip
    print(f"{name:18}{knn_error(model, X, y, X_test, y_test, cosine=True):7.1%}")
plt.show()
