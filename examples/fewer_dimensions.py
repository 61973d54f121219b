"""
How few dimensions are enough?
==============================

You learn how to reduce a learned similarity to a few dense columns, for an index or a
plot. A truncated SVD of ``transform`` reduces words and learned pairs of words
together. It is compared with the usual projection of texts, a truncated SVD of TF-IDF,
also known as LSA.
"""

# %%
# The model is learned from half of the docstrings of Python's standard library.

import matplotlib.pyplot as plt
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from hdsl import HDSL, Mining
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error

docs = load_docstrings(min_rows_per_label=80)
X, X_test, y, y_test = train_test_split(
    docs.X, docs.y, test_size=0.5, stratify=docs.y, random_state=0
)
model = HDSL(mining=Mining(n_targets=3, n_impostors=5), random_state=0).fit(X, y)
print(f"{X.shape[1]} words; {len(model.weights_)} pairs were learned.")


# %%
# The error is that of three nearest neighbours by cosine in the projected space.


def error(projection):
    Z, Z_test = (normalize(projection.transform(rows)) for rows in (X, X_test))
    return knn_error(None, Z, y, Z_test, y_test)


dimensions = [2, 4, 8, 16, 32]
curves = {"SVD of TF-IDF": [], "SVD of transform": []}
for n in dimensions:
    curves["SVD of TF-IDF"].append(error(TruncatedSVD(n, random_state=0).fit(X)))
    svd = TruncatedSVD(n, random_state=0).fit(model.transform(X))
    curves["SVD of transform"].append(error(make_pipeline(model, svd)))

# %% From four columns on, the SVD of ``transform`` makes fewer errors. Two are too few
# for either.

print(f"\n{'columns':20}" + "".join(f"{n:8}" for n in dimensions))
for name, errors in curves.items():
    print(f"{name:20}" + "".join(f"{e:8.1%}" for e in errors))
all_words = knn_error(None, X, y, X_test, y_test)
print(f"{'all words':20}{all_words:8.1%}")

_, ax = plt.subplots(layout="constrained")
for name, errors in curves.items():
    ax.plot(dimensions, errors, marker="o", label=name)
ax.legend(frameon=False)
ax.axhline(all_words, color="0.5", ls=":", lw=1.2)
ax.annotate(
    f"cosine of all {X.shape[1]} words",
    (dimensions[0], all_words),
    (0, 4),
    textcoords="offset points",
    color="0.4",
    fontsize="small",
)
ax.set(xscale="log", xlabel="number of columns", ylabel="error of 3 nearest neighbours")
ax.set_xticks(dimensions, dimensions)
ax.minorticks_off()
ax.set_ylim(bottom=0)
plt.show()
