"""Known rows among very many: `python -m benchmarks.many_rows`.

Generated short texts with labels are learned from at the defaults. What is known of a
search is told twice: as the choice of the prior has measured it, and as the model that
was learned finds 500 rows by half of their features among all rows.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from hdsl import HDSL
from hdsl.evaluate import compare_errors, known_item

from .table import aligned

N_WORDS = 2_000
N_LABELS = 50

#: Words of a text at least and at most, and the share of them that its label says.
SHORTEST = 5
LONGEST = 9
SHARE_OF_LABEL = 0.3

#: Words that a label prefers.
N_PREFERRED = 60

#: Rows that are held out to measure errors on, and rows that are searched for.
N_TEST = 2000
N_QUERIES = 500


def short_texts(n_rows: int, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """Return TF-IDF rows of generated short texts, and one of 50 labels each.

    Words are as frequent as in Zipf's law; a label prefers some hundred of them.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(N_LABELS, size=n_rows)
    lengths = rng.integers(SHORTEST, LONGEST + 1, size=n_rows)
    rows = np.repeat(np.arange(n_rows), lengths)
    frequency = 1.0 / np.arange(10, N_WORDS + 10)
    words = rng.choice(N_WORDS, size=len(rows), p=frequency / frequency.sum())
    preferred = rng.integers(N_WORDS, size=(N_LABELS, N_PREFERRED))
    is_of_label = rng.random(len(rows)) < SHARE_OF_LABEL
    # The first words of a label are the most frequent of it.
    number = (N_PREFERRED * rng.random(len(rows)) ** 3).astype(np.int64)
    words[is_of_label] = preferred[y[rows], number][is_of_label]
    counts = sp.coo_array((np.ones(len(rows)), (rows, words)), (n_rows, N_WORDS))
    X = TfidfTransformer(sublinear_tf=True).fit_transform(counts.tocsr())
    return sp.csr_array(X), y


def main() -> None:
    """Print one line per number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 300_000])
    headings = [
        "rows",
        "prior",
        "search in the choice: cosine, learned",
        "MRR: cosine, learned",
        "share",
        "first: cosine, learned",
        "error: cosine, learned",
        "fit",
    ]
    table = [measure(n_rows) for n_rows in parser.parse_args().rows]
    print(aligned(table, headings, headings))


def measure(n_rows: int) -> list[str]:
    """Return the line of a number of rows."""
    X, y = short_texts(n_rows + N_TEST)
    X_test = X[n_rows:]
    X_train = X[:n_rows]
    start = time.perf_counter()
    model = HDSL(random_state=0, n_jobs=1).fit(X_train, y[:n_rows])
    seconds = time.perf_counter() - start
    tried = model.choice_
    chosen = float(tried["search"][tried["chosen"]][0])
    search = {"n_queries": N_QUERIES, "random_state": 0}
    before = known_item(None, X_train, **search)
    after = known_item(model, X_train, **search)
    errors = compare_errors(model, X_train, y[:n_rows], X_test, y[n_rows:])
    return [
        f"{n_rows:,}",
        f"{model.prior_:.3g}",
        f"{tried['search'][0]:.3f}, {chosen:.3f}",
        f"{before.mrr:.3f}, {after.mrr:.3f}",
        f"{after.mrr / before.mrr:.3f}",
        f"{before.recall(1):.3f}, {after.recall(1):.3f}",
        f"{errors.before.share:.3f}, {errors.after.share:.3f}",
        f"{seconds:.1f} s",
    ]


if __name__ == "__main__":
    main()
