"""
Learn from clicks on what people typed
======================================

You learn how to turn a search log into a better order of results, and see that a short
log leaves the order as it is. The log is generated, so that the true relevance is known:
people look at the first results most, and one click in several is a mistake.
"""

# %%
# Documents, and queries that are no documents
# --------------------------------------------
# The documents are one half of the docstrings of Python's standard library. People type
# the other half, and want documents of the same module. What they type is not in the
# index, so it can never be a result.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl import HDSL
from hdsl.datasets import load_docstrings
from hdsl.evaluate import ranking_quality
from hdsl.search import top_k
from hdsl.triplets import choice_triplets

docs = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
texts = np.array(docs.texts, dtype=object)
order = np.random.default_rng(0).permutation(len(texts))
documents = order[: len(order) // 2]
typed = order[len(order) // 2 :]
words = TfidfVectorizer(token_pattern="[A-Za-z][A-Za-z_]+", min_df=2, sublinear_tf=True)
D = sp.csr_array(words.fit_transform(texts[documents]))
Q = sp.csr_array(words.transform(texts[typed]))
is_relevant = docs.y[typed][:, None] == docs.y[documents][None, :]
relevant = [set(np.flatnonzero(row).tolist()) for row in is_relevant]
n_known = len(typed) - 300
print(f"{len(documents)} documents; {n_known} queries in the log, 300 new ones")

# %%
# The log
# -------
# Each event shows the first ten documents by cosine. Somebody looks at the document of
# rank r with probability r to the power of -0.7, and clicks 7 of 10 relevant and 1 of 10
# other documents that are looked at.

shown = top_k(Q, D, 10).rows
looks = np.arange(1, 11) ** -0.7


def search_log(n_events):
    """Return a log with one line per document that was shown."""
    rng = np.random.default_rng(0)
    events = []
    for event, query in enumerate(rng.integers(n_known, size=n_events)):
        clicks = np.where(is_relevant[query, shown[query]], 0.7, 0.1)
        clicked = rng.random(10) < looks * clicks
        items = docs.names[documents][shown[query]]
        lines = pd.DataFrame({"document": items, "position": np.arange(1, 11)})
        events.append(lines.assign(event=event, typed=query, clicked=clicked))
    log = pd.concat(events, ignore_index=True)
    log["typed"] = texts[typed][log["typed"]]
    return log


log = search_log(4000)
shortened = log.head(4).assign(typed=log["typed"].str[:30])
columns = ["event", "typed", "document", "position", "clicked"]
print(shortened[columns].to_string(index=False))

# %%
# From clicks to a model
# ----------------------
# ``queries`` says that queries are typed texts. They stand as rows after the documents.
# ``position`` names the rank at which a document was shown: a click far down says more.
# The prior is chosen on queries that are held out, by what they clicked beside what was
# shown with it, whichever engine showed it.


def learn(log):
    """Return a model of the clicks of a log."""
    queries = list(dict.fromkeys(log["typed"]))
    clicks = choice_triplets(
        log,
        query="typed",
        ids=docs.names[documents],
        queries=queries,
        position="position",
    )
    X = sp.csr_array(sp.vstack([D, words.transform(queries)]))
    model = HDSL(random_state=0)
    return model.fit(X, triplets=clicks)


def quality(model):
    """Return how well new queries find the documents of their module."""
    rows = Q[n_known:]
    index = D
    if model is not None:
        is_cosine = model.ranking_ == "cosine"
        rows = model.rewrite(rows, cosine=is_cosine)
        index = model.index_rows(D, cosine=is_cosine)
    return ranking_quality(top_k(rows, index, 100).rows, relevant[n_known:])


# %%
# Before and after, by true relevance
# -----------------------------------
# New queries are measured by the modules that they want, not by clicks. The interval is
# that of the difference per query.

before = quality(None)
print(f"\ncosine             nDCG@10 {before.ndcg:.3f}")
sizes = [50, 400, 4000]
gains = []
for n_events in sizes:
    model = learn(search_log(n_events))
    after = quality(model)
    gain, low, high = after.gain(before, "ndcg")
    gains.append((gain, low, high))
    print(
        f"{n_events:5} events      nDCG@10 {after.ndcg:.3f}   gain {gain:+.3f} "
        f"({low:+.3f} to {high:+.3f})   prior {model.prior_:g}"
    )

# %% Few clicks change next to nothing; with more of them, the order gets better.

gain, low, high = np.array(gains).T
plt.errorbar(sizes, gain, [gain - low, high - gain], marker="o", capsize=3)
plt.axhline(0, color="0.6", linewidth=1)
plt.xscale("log")
plt.xlabel("events in the log")
plt.ylabel("gain in nDCG@10")
plt.show()
