"""
Search an existing index
========================

You learn how to use a learned similarity with an index that you already have.
``model.rewrite(query)`` returns a query whose dot products with the unchanged rows
*are* the similarity. An inverted index of TF-IDF weights, built once, answers both the
plain and the rewritten query. Some weights of a rewritten query are negative, so the
index must accept negative weights.
"""

# %%
# The index
# ---------
# The documents are the docstrings of Python's standard library. A CSC matrix is an
# inverted index: column j lists the documents that have term j, with their weights.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl import HDSL, Mining
from hdsl.datasets import load_docstrings
from hdsl.plots import COLORS

docs = load_docstrings(min_rows_per_label=40, vectorize=False)
vectorizer = TfidfVectorizer(
    token_pattern="[A-Za-z][A-Za-z_]+", min_df=2, sublinear_tf=True
)
X = vectorizer.fit_transform(docs.texts)
terms = vectorizer.get_feature_names_out()

index = X.tocsc()
before = index.copy()
print(
    f"An index of {index.shape[0]} documents, {index.shape[1]} terms, {index.nnz} "
    "postings."
)


def scores_of(query):
    """Return the dot products of a query, one sparse row, from the postings of its terms."""
    return index[:, query.indices] @ query.data


# %%
# The similarity
# --------------
# The model is learned once, from the modules of the docstrings.

model = HDSL(mining=Mining(n_targets=5, n_impostors=5), random_state=0).fit(X, docs.y)

# %%
# Queries
# -------
# Each query is sent to the index as it is, and rewritten.

largest_difference = 0.0
for text in (
    "wait until the thread has finished",
    "the breakpoint at this line of the file",
    "send the request to the server again",
):
    query = vectorizer.transform([text])
    rewritten = model.rewrite(query)
    print(f"\n{text!r}: {query.nnz} terms, rewritten {rewritten.nnz}")
    new = np.setdiff1d(rewritten.indices, query.indices)
    weight = rewritten[:, new].toarray().ravel()
    strongest = np.argsort(-np.abs(weight), kind="stable")[:6]
    print(
        "  new terms:",
        ", ".join(f"{weight[k]:+.2f} {terms[new[k]]}" for k in strongest),
    )
    for name, asked in (("TF-IDF", query), ("learned", rewritten)):
        scores = scores_of(asked)
        best = np.argsort(-scores, kind="stable")[:4]
        print(f"  {name:8}", "  ".join(docs.names[best]))
    exact = model.similarity(query, X).ravel()
    largest_difference = max(
        largest_difference, np.abs(scores_of(rewritten) - exact).max()
    )

# %%
# The scores from the index are the similarity itself, and the index has not changed.

print(f"\nLargest difference from model.similarity: {largest_difference:.1e}")
print("Index unchanged:", (index != before).nnz == 0)

# %% The figure shows the last query: its own terms, and the heaviest terms that
# ``rewrite`` added.

heaviest = np.argsort(-np.abs(rewritten.data), kind="stable")[:20][::-1]
is_asked = np.isin(rewritten.indices[heaviest], query.indices)
fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
ax.barh(
    terms[rewritten.indices[heaviest]],
    rewritten.data[heaviest],
    color=np.where(is_asked, COLORS[0], COLORS[4]),
)
ax.axvline(0, color="0.5", lw=0.8)
ax.set(xlabel="weight in the rewritten query", title=f'"{text}"')
looks = ((COLORS[0], "in the query"), (COLORS[4], "added by rewrite"))
handles = [
    plt.Rectangle((0, 0), 1, 1, color=color, label=label) for color, label in looks
]
ax.legend(handles=handles, frameon=False, loc="lower right")
plt.show()
