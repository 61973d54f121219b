"""
Put an embedding under learned words
====================================

You learn a similarity in words on top of a frozen embedding. A model of texts knows
what words are alike from texts that others wrote; your labels say what matters to you.
With the few labels of this example, both together have fewer errors than either.

Nothing is downloaded here, so the model is a small one of our own: parts of words and
a truncated SVD. It has seen docstrings without labels, and none of those that errors
are measured on. It knows much less than a sentence model. With one of these, replace
``PartsOfWords`` by ``SentenceTransformer(name)``: all else stays.
"""

# %%
# A model of texts
# ----------------
# Anything with ``encode(list of str)`` is a model. Ours learns from all docstrings of
# Python's standard library that are not measured on: which parts of words come
# together. It sees no label.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from hdsl import HDSL, Rows
from hdsl.datasets import load_docstrings
from hdsl.evaluate import knn_error

WIDTH = 100


class PartsOfWords:
    """Texts as dense rows, by the parts of their words."""

    def __init__(self, texts):
        letters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True
        )
        svd = TruncatedSVD(WIDTH, random_state=0)
        self.model = make_pipeline(letters, svd).fit(texts)

    def encode(self, texts):
        return self.model.transform(texts)


labelled = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
everything = load_docstrings(min_rows_per_label=1, summaries=True, vectorize=False)
texts, new_texts, y, y_new = train_test_split(
    labelled.texts,
    labelled.y,
    train_size=200,
    test_size=800,
    random_state=0,
    stratify=labelled.y,
)
measured = set(new_texts)
encoder = PartsOfWords([text for text in everything.texts if text not in measured])

# %%
# Rows of words and embedding
# ---------------------------
# 200 texts have labels: the module that each is from. The weight of the embedding is
# chosen on rows held out from these, before anything is learned. 0 is a candidate.

vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2)
X = vectorizer.fit_transform(texts)
X_new = vectorizer.transform(new_texts)
Z = encoder.encode(texts)
Z_new = encoder.encode(new_texts)
rows = Rows(X, Z)
rows_new = Rows(X_new, Z_new)

words = HDSL(random_state=0).fit(X, y)
both = HDSL(random_state=0).fit(rows, y)
print(f"The weight of the embedding is {both.embedding_weight_:g}.")

errors = {
    "words, by cosine": knn_error(None, X, y, X_new, y_new),
    "words, learned": knn_error(words, X, y, X_new, y_new, cosine=True),
    "embedding, by cosine": knn_error(None, Z, y, Z_new, y_new),
    "both, learned": knn_error(both, rows, y, rows_new, y_new, cosine=True),
}
for name, error in errors.items():
    print(f"{name:22}{error:6.1%} wrong")

# %%
# How much the embedding may weigh
# --------------------------------
# What was tried, unlearned, on held-out rows: 0 is words alone. Bars are one standard
# error.

is_unlearned = np.isinf(both.choice_["prior"])
order = np.argsort(both.choice_["embedding_weight"][is_unlearned])
weights = both.choice_["embedding_weight"][is_unlearned][order]
scores = both.choice_["score"][is_unlearned][order]
standard_errors = both.choice_["error"][is_unlearned][order]
figure, axes = plt.subplots()
axes.errorbar(np.arange(len(weights)), scores, standard_errors, fmt="o")
axes.set_xticks(np.arange(len(weights)), [f"{weight:g}" for weight in weights])
axes.set_xlabel("weight of the embedding")
axes.set_ylabel("score on held-out rows")

# %%
# One reason is the embedding
# ---------------------------
# An explanation has a line per word and pair of words, and one for the whole
# embedding, *meaning*. The sum is exact.

nearest = int(np.argmax(both.similarity(rows_new[0], rows)))
print(f"\n{new_texts[0]!r} found {texts[nearest]!r}")
print(
    both.explain(
        rows_new[0],
        rows[nearest],
        feature_names=vectorizer.get_feature_names_out(),
        top=6,
    )
)
plt.show()
