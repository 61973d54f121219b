"""
Why this one rather than that one
=================================

You learn how to explain why one row ranks above another. A learned similarity is a sum
over feature pairs, so it splits into exact parts. Here the nearest docstring by TF-IDF
cosine is from the wrong module and the nearest by the learned similarity is from the
right one. ``explain`` says which words made the difference.
"""

# %% One half of the docstrings of Python's standard library trains the model, the other
# half gives the queries.

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from hdsl import HDSL, Mining
from hdsl.datasets import load_docstrings
from hdsl.plots import NetworkDisplay
from hdsl.search import top_k

docs = load_docstrings(min_rows_per_label=80)
known, new = train_test_split(
    np.arange(len(docs.y)), test_size=0.5, stratify=docs.y, random_state=0
)
X = docs.X[known]
X_new = docs.X[new]
y = docs.y[known]
y_new = docs.y[new]
model = HDSL(mining=Mining(n_targets=5, n_impostors=5), random_state=0).fit(X, y)
print(
    f"{len(model.weights_)} pairs of words, learned from {model.n_triplets_} triplets."
)

# %%
# A query with two answers
# ------------------------
# Of the docstrings that only the learned similarity gets right, take the one where
# pairs of different words contribute most.

before, after = (
    top_k(asked, X, k=1).rows[:, 0] for asked in (X_new, model.rewrite(X_new))
)
repaired = np.flatnonzero((y[before] != y_new) & (y[after] == y_new))


def explain(row):
    y = X[[after[row]]]
    z = X[[before[row]]]
    return model.explain(
        X_new[[row]], y, rather_than=z, feature_names=docs.feature_names
    )


def by_pairs(row):
    parts = explain(row).parts
    return parts["value"][parts["i"] != parts["j"]].sum()


row = max(repaired, key=by_pairs)
print(
    f"Only the learned similarity is right for {len(repaired)} of {len(new)} "
    "docstrings."
)
for name, which in (
    ("x", new[row]),
    ("y, learned", known[after[row]]),
    ("z, cosine", known[before[row]]),
):
    print(f"\n{name}: {docs.names[which]}")
    print(
        textwrap.indent(
            textwrap.fill(textwrap.shorten(docs.texts[which], 230), 90), "    "
        )
    )

# %%
# Why y rather than z
# -------------------
# ``a ~ b`` is a feature pair: one text has *a*, the other *b*. A word alone is a word
# that both texts have: what was learned of it stands beside what the plain dot product,
# ``prior``, adds. The parts add up to S(x, y) - S(x, z).

why = explain(row)
print(why)

# %% The same as a figure. ``to_frame`` and ``to_dict`` return the parts for other
# programs.

reasons = why.reasons[:10][::-1]
values = np.array([reason.value for reason in reasons])
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.barh(
    [reason.name for reason in reasons],
    values,
    color=np.where(values > 0, "#0072B2", "#D55E00"),
)
ax.axvline(0, color="0.5", lw=0.8)
ax.set(xlabel="part of S(x, y) - S(x, z)", title=f"Why {docs.names[known[after[row]]]}")

# %%
# What the model learned
# ----------------------
# ``importance`` lists words and pairs of words by weight, with the number of rows that
# have them. The figure shows the heaviest pairs as a network. Solid lines join words
# that stand for each other, dashed lines join words that tell modules apart.

print(model.importance(X, feature_names=docs.feature_names, top=8))
NetworkDisplay.from_estimator(model, top=30, feature_names=docs.feature_names)
plt.show()
