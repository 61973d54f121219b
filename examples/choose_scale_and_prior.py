"""
Choose the scale and the prior
==============================

Three numbers matter: ``scale``, the size of the learned part; ``prior``, the weight of the plain
dot product under it; and the number of iterations. ``HDSLCV`` learns a path for each pair of the
first two on each fold and scores it along the way, so that a small grid shows a whole surface.
"""

# %%
# Docstrings of ten modules or so of Python's standard library, half of them to choose on.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from hdsl import HDSL, HDSLCV
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error
from hdsl.plots import COLORS

docs = load_docstrings(min_rows_per_label=80)
X, X_test, y, y_test = train_test_split(
    docs.X, docs.y, test_size=0.5, stratify=docs.y, random_state=0
)

# %%
# The grid goes around the automatic values, which follow from the sizes of the dot products. A path
# ends where 100 iterations have brought nothing.

auto = HDSL(max_iter=1).fit(X, y)
search = HDSLCV(
    scales=auto.scale_ * np.array([0.1, 1, 10]),
    priors=auto.prior_ * np.array([0, 1, 10]),
    estimator=HDSL(max_iter=200, n_iter_no_change=100, random_state=0),
    cv=3,
).fit(X, y)

# %%
# The surface
# -----------
# Accuracy of three nearest neighbours, the mean of the folds, at the best iteration, which follows
# the @; the best of all has a star.

mean = search.scores_.mean(axis=-1)
print(f"automatic: scale {auto.scale_:.0f}, prior {auto.prior_:.2f}\n")
print("  prior \\ scale" + "".join(f"{scale:>15.0f}" for scale in search.scales_))
for prior, row in zip(search.priors_, mean, strict=True):
    cells = []
    for path in row:
        best = path.argmax()
        star = "*" if path[best] == search.best_score_ else " "
        cells.append(f"{path[best]:9.3f}@{search.iterations_[best]:<4}{star}")
    print(f"{prior:15.2f}" + "".join(cells))

# %%
# All of it, along the paths. A path that has ended goes on as a level line.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
for ax, prior, paths in zip(axes, search.priors_, mean, strict=True):
    for color, scale, path in zip(COLORS, search.scales_, paths, strict=False):
        ax.plot(search.iterations_, path, color=color, label=f"scale {scale:.0f}")
    if prior == search.best_params_["prior"]:
        ax.plot(search.best_params_["n_iter"], search.best_score_, "k*", ms=11, label="chosen")
    ax.set(title=f"prior {prior:.2f}", xlabel="iteration")
    ax.legend(frameon=False, fontsize="small", loc="lower right")
axes[0].set_ylabel("accuracy of 3 nearest neighbours")

# %%
# The other half, which had no say, has the last word.

print("\nErrors of 3 nearest neighbours on held-out rows")
for name, model in (("TF-IDF cosine", None), ("automatic", HDSL(random_state=0).fit(X, y)),
                    ("chosen by HDSLCV", search)):  # fmt: skip
    print(f"{name:18}{knn_error(model, X, y, X_test, y_test):7.1%}")
plt.show()
