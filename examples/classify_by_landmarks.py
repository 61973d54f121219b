"""
Classify by similarity to a few rows
====================================

You learn how to classify with few weights, and how to read a decision.
``SimilarityClassifier`` scores a class by the similarities to some training rows, the
landmarks. An ``HDSL`` that is given to it learns a similarity for that. On docstrings
the classifier makes more errors than ``LinearSVC``, with a small part of its weights.
"""

# %% The task is to tell the package of a docstring of Python's standard library. One
# half of the docstrings is for training.

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import LinearSVC

from hdsl import HDSL, SimilarityClassifier
from hdsl.datasets import load_docstrings
from hdsl.explain import explain

docs = load_docstrings(min_rows_per_label=120)
known, new = train_test_split(
    np.arange(len(docs.y)), test_size=0.5, stratify=docs.y, random_state=0
)
X = docs.X[known]
X_new = docs.X[new]
y = docs.y[known]
y_new = docs.y[new]
print(f"{len(y)} docstrings of {', '.join(np.unique(y))}")

# %%
# Few weights
# -----------
# Folds of the training rows choose the penalty of each classifier. Both similarities
# have the same 200 landmarks to choose from, and the ℓ1 penalty sets many of their
# weights to 0.

svm = GridSearchCV(LinearSVC(random_state=0), {"C": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
plain, learned = (
    SimilarityClassifier(similarity, landmarks=200, max_iter=30, random_state=0).fit(
        X, y
    )
    for similarity in (None, HDSL(random_state=0))
)
similarity = learned.similarity_

counts = {
    "LinearSVC": np.count_nonzero(svm.best_estimator_.coef_),
    "dot product": np.count_nonzero(plain.coef_),
    "learned similarity": np.count_nonzero(learned.coef_) + len(similarity.weights),
}
errors = {
    name: 100 * (1 - classifier.score(X_new, y_new))
    for name, classifier in zip(counts, (svm, plain, learned), strict=True)
}
for name in counts:
    print(f"{name}: {errors[name]:.1f} % errors, {counts[name]} weights")

# %%
# The weights of the learned similarity are those of landmarks and of pairs of words.

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, marker in zip(counts, "sox", strict=True):
    ax.plot(counts[name], errors[name], marker, label=name)
ax.set(
    xscale="log", xlabel="weights that are not 0", ylabel="errors, %", ylim=(0, None)
)
ax.legend()

# %%
# The landmarks that decide
# -------------------------
# The score of a class is a sum over landmarks, weight times similarity, so that the
# largest terms say what a docstring is taken for and why. Here is one that the dot
# product gets wrong and the learned similarity gets right.

right = (learned.predict(X_new) == y_new) & (plain.predict(X_new) != y_new)
row = np.flatnonzero(right)[0]
label = learned.predict(X_new[[row]])[0]
print(f"{docs.names[new[row]]} is taken for {label}:")
print(textwrap.indent(textwrap.shorten(docs.texts[new[row]], 90), "    "))

near = similarity.pairwise(X_new[[row]], X[learned.landmarks_])[0]
parts = learned.coef_[learned.classes_ == label][0] * near
for k in np.argsort(-np.abs(parts))[:4]:
    landmark = known[learned.landmarks_[k]]
    text = textwrap.shorten(docs.texts[landmark], 60)
    print(f"{parts[k]:+.2f}  {docs.names[landmark]}: {text}")

# %%
# ``explain`` goes on from there: it names the words that make a landmark similar.

k = learned.landmarks_[np.argmax(parts)]
print(
    explain(similarity, X_new[[row]], X[[k]], feature_names=docs.feature_names, top=4)
)
plt.show()
