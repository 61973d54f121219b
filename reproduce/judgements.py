"""Human judgements of 50 news texts (Lee, Pincombe and Welsh, 2005): accuracy on unseen texts.

Beyond the paper. Texts are split, not triplets: a model learns from the judgements
among four fifths of the texts and predicts those among the last fifth, by learned
cosine. `HDSL()` chooses its prior by itself; beside it, scale, prior and number of
iterations are chosen by folds of the training texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import KFold, ParameterGrid

from hdsl import HDSL
from hdsl.evaluate import compare_triplets, triplet_accuracy
from hdsl.triplets import restrict

from .results import Results, Table
from .runner import finished
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = (
    "Human judgements of similarity: share of triplets judged right, among unseen texts"
)

FOLDS = 5
INNER_FOLDS = 4
GRID = {"prior": (1.0, 3.0, 10.0, 30.0, 100.0), "scale": (1.0, 10.0, 100.0, 1000.0)}
QUICK_GRID = {"prior": (10.0,), "scale": (10.0,)}
ITERATIONS = (5, 10, 20)


def cells(settings: Settings) -> list[Cell]:
    """Return every fold of every shuffle of the texts."""
    if settings.data is None or not (settings.data / "lee50_human").is_dir():
        raise MissingDataError(
            "it needs lee50_human (X.npz, X_background.npz, triplets.npy) in the "
            "folder of --data; the texts come with gensim's test data."
        )
    repeats = range(1 if settings.quick else 3)
    return [
        {"repeat": repeat, "fold": fold} for repeat in repeats for fold in range(FOLDS)
    ]


@lru_cache(maxsize=1)
def _texts(home: Path) -> tuple[Any, np.ndarray]:
    folder = home / "lee50_human"
    counts, background = (
        sp.csr_array(sp.load_npz(folder / name), dtype=np.float64)
        for name in ("X.npz", "X_background.npz")
    )
    triplets = np.load(folder / "triplets.npy", allow_pickle=False)
    # Word frequencies include the texts that nobody judged.
    vectors = TfidfTransformer(sublinear_tf=True).fit(sp.vstack([background, counts]))
    return sp.csr_array(vectors.transform(counts)), triplets


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the accuracy of TF-IDF cosine and of the learned similarities on one fold."""
    assert settings.data is not None  # checked by `cells`
    X, triplets = _texts(settings.data)
    known, held = list(_folds(X, triplets, FOLDS, cell["repeat"]))[cell["fold"]]
    point, n_iter = choose(*known, QUICK_GRID if settings.quick else GRID)
    models = {
        "cosine": None,
        "learned": finished(
            HDSL(random_state=0, n_jobs=1).fit(known[0], triplets=known[1])
        ),
        "chosen": (fitted := _fit(*known, point)).at(min(n_iter, fitted.n_iter_)),
    }
    answer = {name: accuracy(model, *held) for name, model in models.items()}
    chosen = float(models["learned"].prior_)
    return {**answer, "n": len(held[1]), **point, "n_iter": n_iter, "own_prior": chosen}


def accuracy(model: HDSL | None, X: Any, triplets: np.ndarray) -> float:
    """Return the share of triplets that hold by cosine or, with a model, by learned cosine."""
    if model is None:
        return triplet_accuracy(None, X, triplets)
    return 1.0 - compare_triplets(model, X, triplets, cosine=True).after.share


def _folds(X: Any, triplets: np.ndarray, n: int, seed: int) -> Iterator[Any]:
    """Yield rows and triplets of both sides; a triplet with rows on both sides is in neither."""
    for split in KFold(n, shuffle=True, random_state=seed).split(X):
        yield [(X[rows], restrict(triplets, rows, X.shape[0])) for rows in split]


def choose(
    X: Any, triplets: np.ndarray, grid: dict[str, Any]
) -> tuple[dict[str, float], int]:
    """Return the parameters and the iteration of the highest mean accuracy on inner folds."""
    points = list(ParameterGrid(grid))
    scores = []
    for known, held in _folds(X, triplets, INNER_FOLDS, 0):
        models = [_fit(*known, point) for point in points]
        scores.append(
            [
                [accuracy(model.at(min(k, model.n_iter_)), *held) for k in ITERATIONS]
                for model in models
            ]
        )
    mean = np.mean(scores, axis=0)
    point, k = np.unravel_index(int(mean.argmax()), mean.shape)
    return points[point], ITERATIONS[k]


def _fit(X: Any, triplets: np.ndarray, point: dict[str, float]) -> HDSL:
    model = HDSL(**point, max_iter=max(ITERATIONS), tol=0.0, random_state=0, n_jobs=1)
    return finished(model.fit(X, triplets=triplets))


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the accuracies of all folds and their means."""
    rows = [
        [
            str(line["cell"]["repeat"]),
            str(line["cell"]["fold"]),
            str(line["n"]),
            f"{line['cosine']:.3f}",
            f"{line['learned']:.3f}",
            f"{line['own_prior']:.1f}",
            f"{line['chosen']:.3f}",
            f"scale {line['scale']:g}, prior {line['prior']:g}, {line['n_iter']} "
            "iterations",
        ]
        for line in lines
    ]
    note = f"Mean of {len(lines)} folds: TF-IDF cosine {_mean(lines, 'cosine'):.3f}"
    for name, label in (("learned", "HDSL()"), ("chosen", "chosen by inner folds")):
        better = np.array([line[name] - line["cosine"] for line in lines])
        error = better.std(ddof=1) / np.sqrt(len(better))
        note += f"; {label} {_mean(lines, name):.3f}, difference {better.mean():+.3f}"
        note += f" (standard error {error:.3f})"
    head = [
        "repeat",
        "fold",
        "triplets",
        "TF-IDF cosine",
        "HDSL()",
        "its prior",
        "chosen by inner folds",
        "as",
    ]
    return Results([Table("accuracy", head, rows, [note + "."])])


def _mean(lines: list[Line], name: str) -> float:
    return float(np.mean([line[name] for line in lines]))
