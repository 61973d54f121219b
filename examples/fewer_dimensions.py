"""
How few dimensions are enough?
==============================

You learn how to reduce a learned similarity to a few dense columns, for an index or a
plot. ``n_components`` keeps the leading directions of the learned part. A truncated SVD of
``transform`` reduces words and pairs of words together. Both are compared with the usual projection
of texts, a truncated SVD of TF-IDF, also known as LSA.
"""

# %%
# The models are learned from half of the docstrings of Python's standard library. The first has
# only the learned part. The second adds the learned part to the dot product of all words.

import matplotlib.pyplot as plt
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from hdsl import HDSL
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error
from hdsl.plots import ErrorDisplay

docs = load_docstrings(min_rows_per_label=80)
X, X_test, y, y_test = train_test_split(
    docs.X, docs.y, test_size=0.5, stratify=docs.y, random_state=0
)
settings = {"n_targets": 3, "n_impostors": 5, "random_state": 0}
alone = HDSL(scale=300.0, prior=0.0, **settings).fit(X, y)
added = HDSL(scale=300.0, prior=3.0, **settings).fit(X, y)
print(f"{X.shape[1]} words; {len(alone.weights_)} and {len(added.weights_)} pairs were learned.")


# %%
# The error is that of three nearest neighbours by cosine in the projected space.


def error(projection):
    Z, Z_test = (normalize(projection.transform(rows)) for rows in (X, X_test))
    return knn_error(None, Z, y, Z_test, y_test)


dimensions = [2, 4, 8, 16, 32]
curves = {"SVD of TF-IDF": [], "n_components": [], "SVD of transform": []}
for n in dimensions:
    svd = TruncatedSVD(n, random_state=0).fit(X)
    curves["SVD of TF-IDF"].append(error(svd))
    curves["n_components"].append(error(alone.set_params(n_components=n)))
    svd = TruncatedSVD(n, random_state=0).fit(added.transform(X))
    curves["SVD of transform"].append(error(make_pipeline(added, svd)))

# %%
# With few columns, the learned directions alone are better than the SVD of TF-IDF. With many they
# are not, because they ignore words that occur in no feature pair. The SVD of ``transform`` uses
# both. From eight columns on, its error is close to that of the SVD of TF-IDF with twice as many
# columns. How close depends on the docstrings of the Python version that runs this.

print(f"\n{'columns':20}" + "".join(f"{n:8}" for n in dimensions))
for name, errors in curves.items():
    print(f"{name:20}" + "".join(f"{e:8.1%}" for e in errors))
all_words = knn_error(None, X, y, X_test, y_test)
print(f"{'all words':20}{all_words:8.1%}")

display = ErrorDisplay.from_curves({name: (dimensions, errors) for name, errors in curves.items()})
display.ax_.axhline(all_words, color="0.5", ls=":", lw=1.2)
display.ax_.annotate(
    f"cosine of all {X.shape[1]} words", (dimensions[0], all_words), (0, 4),
    textcoords="offset points", color="0.4", fontsize="small",
)  # fmt: skip
display.ax_.set_xticks(dimensions, dimensions)
display.ax_.minorticks_off()
display.ax_.set(ylabel="error of 3 nearest neighbours")
display.ax_.set_ylim(bottom=0)
plt.show()
