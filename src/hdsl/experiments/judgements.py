"""Human judgements of 50 news texts (Lee, Pincombe and Welsh, 2005): accuracy on unseen texts.

Run it with ``python -m hdsl.experiments.judgements --data FOLDER``. Texts are split, not triplets:
a model learns from the judgements among four fifths of the texts and is asked for those among the
last fifth. Scale, prior and number of iterations are chosen by folds of the training texts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from .. import readers
from ..estimators import HDSL
from ..evaluate import triplet_accuracy
from ..model_selection import HDSLCV
from ..triplets import PointKFold


def main(arguments: list[str] | None = None) -> int:
    """Print the accuracy of TF-IDF cosine and of what was learned, fold by fold."""
    parser = argparse.ArgumentParser(prog="python -m hdsl.experiments.judgements")
    parser.add_argument("--data", type=Path, required=True, help="the folder of lee50_human")
    parser.add_argument("--repeats", type=int, default=5, help="times that the texts are shuffled")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    folder = options.data / "lee50_human"
    counts, _ = readers.read_npz(folder / "X.npz")
    background, _ = readers.read_npz(folder / "X_background.npz")
    triplets = np.load(folder / "triplets.npy", allow_pickle=False)
    # How rare words are is learned from texts that nobody judged.
    vectors = TfidfTransformer(sublinear_tf=True).fit(sp.vstack([background, counts]))
    X = sp.csr_array(vectors.transform(counts))
    results = []
    for repeat in range(options.repeats):
        folds = PointKFold(5, random_state=repeat).split_triplets(triplets, X.shape[0])
        for train, test in folds:
            base = HDSL(max_iter=300, tol=0.0, n_iter_no_change=100, random_state=0)
            search = HDSLCV(
                priors=[1.0, 3.0, 10.0, 30.0, 100.0], scales=[1.0, 10.0, 100.0, 1000.0],
                estimator=base, cv=4, n_jobs=options.jobs,
            )  # fmt: skip
            search.fit(X[train.rows], triplets=train.triplets)
            results.append(
                tuple(
                    triplet_accuracy(model, X[test.rows], test.triplets)
                    for model in (None, search.best_estimator_)
                )
            )
            chosen = ", ".join(f"{name} {value:g}" for name, value in search.best_params_.items())
            print(
                f"repeat {repeat}: cosine {results[-1][0]:.3f}  learned {results[-1][1]:.3f}  "
                f"({len(test.triplets)} triplets of {len(test.rows)} unseen texts; {chosen})",
                flush=True,
            )
    cosine, learned = np.array(results).T
    better = learned - cosine
    print(
        f"\nmean of {len(results)} folds: TF-IDF cosine {cosine.mean():.3f}, learned "
        f"{learned.mean():.3f}; difference {better.mean():+.3f} "
        f"(standard error {better.std(ddof=1) / np.sqrt(len(better)):.3f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
