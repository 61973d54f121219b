"""Human judgements of 50 news texts (Lee, Pincombe and Welsh, 2005): accuracy on unseen texts.

Beyond the paper. Texts are split, not triplets: a model learns from the judgements among four
fifths of the texts and predicts those among the last fifth. Scale, prior and number of
iterations are chosen by folds of the training texts.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from hdsl import readers
from hdsl.cv import HDSLCV
from hdsl.evaluate import triplet_accuracy
from hdsl.hdsl import HDSL
from hdsl.triplets import PointKFold

from .results import Results, Table
from .runner import Cell, Line, Settings, finished
from .sets import MissingDataError

TITLE = "Human judgements of similarity: share of triplets judged right, among unseen texts"

FOLDS = 5
PRIORS = (1.0, 3.0, 10.0, 30.0, 100.0)
SCALES = (1.0, 10.0, 100.0, 1000.0)


def cells(settings: Settings) -> list[Cell]:
    """Return every fold of every shuffle of the texts."""
    if settings.data is None or not (settings.data / "lee50_human").is_dir():
        raise MissingDataError(
            "it needs lee50_human (X.npz, X_background.npz, triplets.npy) in the folder of --data; "
            "the texts come with gensim's test data."
        )
    repeats = range(1 if settings.quick else 3)
    return [{"repeat": repeat, "fold": fold} for repeat in repeats for fold in range(FOLDS)]


@lru_cache(maxsize=1)
def _texts(home: Path) -> tuple[Any, np.ndarray]:
    folder = home / "lee50_human"
    counts, _ = readers.read_npz(folder / "X.npz")
    background, _ = readers.read_npz(folder / "X_background.npz")
    triplets = np.load(folder / "triplets.npy", allow_pickle=False)
    # Word frequencies include the texts that nobody judged.
    vectors = TfidfTransformer(sublinear_tf=True).fit(sp.vstack([background, counts]))
    return sp.csr_array(vectors.transform(counts)), triplets


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the accuracy of TF-IDF cosine and of the learned similarity on one fold."""
    assert settings.data is not None  # checked by `cells`
    X, triplets = _texts(settings.data)
    folds = PointKFold(FOLDS, random_state=cell["repeat"]).split_triplets(triplets, X.shape[0])
    train, test = list(folds)[cell["fold"]]
    iterations = 50 if settings.quick else 300
    base = HDSL(max_iter=iterations, tol=0.0, n_iter_no_change=100, random_state=0)
    grid = ((10.0,), (10.0,)) if settings.quick else (SCALES, PRIORS)
    search = HDSLCV(grid[0], priors=grid[1], estimator=base, cv=4)
    search.fit(X[train.rows], triplets=train.triplets)
    finished(search)
    cosine, learned = (
        triplet_accuracy(model, X[test.rows], test.triplets)
        for model in (None, search.best_estimator_)
    )
    return {"cosine": cosine, "learned": learned, "n": len(test.triplets), **search.best_params_}


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the accuracies of all folds and their mean."""
    rows = [
        [
            str(line["cell"]["repeat"]), str(line["cell"]["fold"]), str(line["n"]),
            f"{line['cosine']:.3f}", f"{line['learned']:.3f}",
            f"scale {line['scale']:g}, prior {line['prior']:g}, {line['n_iter']} iterations",
        ]
        for line in lines
    ]  # fmt: skip
    cosine, learned = (np.array([line[name] for line in lines]) for name in ("cosine", "learned"))
    better = learned - cosine
    error = better.std(ddof=1) / np.sqrt(len(better))
    note = (
        f"Mean of {len(lines)} folds: TF-IDF cosine {cosine.mean():.3f}, learned "
        f"{learned.mean():.3f}; difference {better.mean():+.3f} (standard error {error:.3f})."
    )
    head = ["repeat", "fold", "triplets", "TF-IDF cosine", "learned", "chosen by inner folds"]
    return Results([Table("accuracy", head, rows, [note])])
