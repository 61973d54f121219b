"""
Nearest neighbours before and after
===================================

You learn how a learned similarity changes the nearest neighbours of a text. The texts
are docstrings of Python's standard library. TF-IDF cosine compares the words that two
texts share. A similarity learned from their modules also knows which words matter and
which belong together.
"""

# %% One half of the docstrings trains the model, the other half is new to it. Rows have
# length 1, so their dot product is the cosine.

# sphinx_gallery_thumbnail_number = 2
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from hdsl import HDSL
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error
from hdsl.plots import NeighborsDisplay
from hdsl.search import top_k
from hdsl.triplets import random_triplets

docs = load_docstrings(min_rows_per_label=80)
known, new = train_test_split(
    np.arange(len(docs.y)), test_size=0.5, stratify=docs.y, random_state=0
)
X = docs.X[known]
X_new = docs.X[new]
y = docs.y[known]
y_new = docs.y[new]
print(docs.DESCR)

# %%
# All parameters have their defaults.

model = HDSL(random_state=0).fit(X, y)
print(
    f"Learned from {model.n_triplets_} triplets: {len(model.weights_)} pairs of words."
)

# %% These pairs of words have the largest weights. A plus means that one word stands
# for the other, a minus that they tell modules apart.

atoms = model.get_feature_names_out(docs.feature_names)[: len(model.weights_)]
print("Heaviest:", ", ".join(atoms[np.argsort(-model.weights_)[:8]]))

# %%
# Neighbours
# ----------
# The list shows the new docstrings whose neighbours improve most, and one that gets
# worse.

before = top_k(X_new, X, k=3).rows
after = top_k(model.rewrite(X_new), X, k=3).rows
gain = (y[after] == y_new[:, None]).sum(axis=1) - (y[before] == y_new[:, None]).sum(
    axis=1
)
order = np.argsort(-gain, kind="stable")
for row in [*order[:3], order[-1]]:
    print(f"\n{docs.names[new[row]]}")
    print("   ", textwrap.shorten(docs.texts[new[row]], 90))
    for name, found in (("cosine", before), ("learned", after)):
        print(f"    {name:8}", ", ".join(docs.names[known[found[row]]]))
print(
    f"\nOf {len(new)} new docstrings {np.sum(gain > 0)} have better neighbours, ",
    end="",
)
print(f"{np.sum(gain < 0)} have worse ones.")

# %% The figure shows the first of them with more neighbours. Lines join rows that are
# in both lists.

best = order[0]
NeighborsDisplay.from_estimator(
    model,
    X_new[[best]],
    X,
    labels=y,
    texts=docs.names[known],
    query_label=y_new[best],
    query_text=docs.names[new[best]],
)

# %%
# Scores
# ------
# The table has the share of the ten nearest rows that are of the right module, and the
# error of a vote of the three nearest. The vote gains less, because a near copy often
# decides it, and the cosine finds near copies too.

print(f"\n{'on the new half':20} right among 10   error of 3-NN")
for name, similarity, asked in (
    ("TF-IDF cosine", None, X_new),
    ("learned similarity", model, model.rewrite(X_new)),
):
    right = np.mean(y[top_k(asked, X, k=10).rows] == y_new[:, None])
    error = knn_error(similarity, X, y, X_new, y_new)
    print(f"{name:20} {right:14.1%} {error:14.1%}")

# %% The figure shows pairs of new docstrings. In half of them both are from the same
# module. The better the similarity, the less the two groups overlap.

pairs = random_triplets(y_new, 10, random_state=0)
others = {"same module": X_new[pairs[:, 1]], "other module": X_new[pairs[:, 2]]}
plain, learned = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")[1]
for name, rows in others.items():
    anchors = X_new[pairs[:, 0]]
    style = {"bins": 40, "histtype": "step", "log": True}
    plain.hist(
        np.asarray(anchors.multiply(rows).sum(axis=1)).ravel(), label=name, **style
    )
    learned.hist(model.pair_score(anchors, rows), label=name, **style)
plain.set(xlabel="dot product", ylabel="pairs")
learned.set(xlabel="learned similarity")
plain.legend(frameon=False)
plt.show()
