"""
How the prior is chosen
=======================

You learn how ``HDSL`` chooses ``prior``, the weight of the plain dot product under the
learned part, and how to read the choice. A small prior leaves much to what was learned.
A large one keeps the model close to the cosine.
"""

# %% The data are docstrings of about ten modules of Python's standard library. 600 of
# them are for training, the others for testing.

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

from hdsl import HDSL, Mining
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error
from hdsl.plots import ChoiceDisplay
from hdsl.search import top_k

docs = load_docstrings(min_rows_per_label=80)
X, X_test, y, y_test = train_test_split(
    docs.X, docs.y, train_size=600, stratify=docs.y, random_state=0
)

# %%
# What was tried
# --------------
# With ``prior="auto"``, the default, parts of the training rows are held out in turn,
# and the three nearest of the other rows vote for their labels. The prior of the largest
# expected gain is taken. The first line, with an infinite prior, is the cosine.

quick = {"mining": Mining(n_targets=3, n_impostors=5), "random_state": 0}
model = HDSL(**quick).fit(X, y)
choice = model.choice_
print("   prior   score  standard error")
for prior, score, error, chosen in zip(
    choice["prior"], choice["score"], choice["error"], choice["chosen"], strict=True
):
    print(f"{prior:8.2f}{score:8.3f}{error:16.3f}{'  *' if chosen else ''}")
ChoiceDisplay.from_estimator(model)

# %%
# A prior by hand
# ---------------
# On the test rows, which no model has seen, the chosen prior is compared with none and
# with a large one: the share of the ten nearest rows that have the right label, and the
# error of a vote of the three nearest. Without a prior, words that are in no learned
# pair do not count, and the vote suffers. With a large one little changes. A prior that
# is given costs less time: only one model is learned.

models = {
    "TF-IDF cosine": None,
    "no prior": HDSL(prior=0.0, **quick).fit(X, y),
    "chosen prior": model,
    "prior of 100": HDSL(prior=100.0, **quick).fit(X, y),
}
print(f"\n{'on the test rows':16} right among 10   error of 3-NN")
for name, similarity in models.items():
    asked, rows = (
        (X_test, X)
        if similarity is None
        else (
            similarity.rewrite(X_test, cosine=True),
            similarity.index_rows(X, cosine=True),
        )
    )
    right = (y[top_k(asked, rows, k=10).rows] == y_test[:, None]).mean()
    error = knn_error(similarity, X, y, X_test, y_test, cosine=True)
    print(f"{name:16} {right:14.1%} {error:14.1%}")
plt.show()
