"""Human judgements of 50 news texts (Lee, Pincombe and Welsh, 2005), on unseen texts.

Beyond the paper. Texts are split, not triplets: a model learns from the judgements
among four fifths of the texts and predicts those among the last fifth, by learned
cosine. `HDSL()` chooses its prior by itself; beside it, scale, prior and number of
iterations are chosen by folds of the training texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import KFold, ParameterGrid

from hdsl import HDSL
from hdsl.evaluate import compare_triplets, triplet_accuracy
from hdsl.settings import nested_parameters
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
    n_repeats = settings.by_size(full=3, quick=1)
    return [
        {"repeat": repeat, "fold": fold}
        for repeat in range(n_repeats)
        for fold in range(FOLDS)
    ]


class Judged(NamedTuple):
    """Texts as rows, and the triplets that people judge among them."""

    X: Any
    triplets: np.ndarray


@lru_cache(maxsize=1)
def _texts(home: Path) -> Judged:
    """Return all texts and triplets."""
    folder = home / "lee50_human"
    counts = _counts(folder / "X.npz")
    background = _counts(folder / "X_background.npz")
    triplets = np.load(folder / "triplets.npy", allow_pickle=False)
    # Word frequencies include the texts that nobody judged.
    vectors = TfidfTransformer(sublinear_tf=True).fit(sp.vstack([background, counts]))
    return Judged(sp.csr_array(vectors.transform(counts)), triplets)


def _counts(path: Path) -> sp.csr_array:
    """Return stored counts of words."""
    return sp.csr_array(sp.load_npz(path), dtype=np.float64)


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the accuracy of TF-IDF cosine and of the learned similarities on one fold."""
    assert settings.data is not None  # checked by `cells`
    texts = _texts(settings.data)
    folds = list(_folds(texts, FOLDS, cell["repeat"]))
    known, held_out = folds[cell["fold"]]
    grid = settings.by_size(full=GRID, quick=QUICK_GRID)
    point, n_iter = choose(known, grid)
    learned = HDSL(random_state=0, n_jobs=1)
    finished(learned.fit(known.X, triplets=known.triplets))
    chosen = _fit(known, point)
    chosen = chosen.at(min(n_iter, chosen.n_iter_))
    return {
        "cosine": accuracy(None, held_out),
        "learned": accuracy(learned, held_out),
        "chosen": accuracy(chosen, held_out),
        "n": len(held_out.triplets),
        **point,
        "n_iter": n_iter,
        "own_prior": float(learned.prior_),
    }


def accuracy(model: HDSL | None, texts: Judged) -> float:
    """Return the share of triplets that hold by learned cosine; None is the cosine."""
    if model is None:
        return triplet_accuracy(None, texts.X, texts.triplets)
    compared = compare_triplets(model, texts.X, texts.triplets, cosine=True)
    return 1.0 - compared.after.share


def _folds(texts: Judged, n: int, seed: int) -> Iterator[tuple[Judged, Judged]]:
    """Yield the texts to learn from and those held out.

    A triplet with texts on both sides is in neither.
    """

    def inside(rows: np.ndarray) -> Judged:
        return Judged(texts.X[rows], restrict(texts.triplets, rows, texts.X.shape[0]))

    for known, held_out in KFold(n, shuffle=True, random_state=seed).split(texts.X):
        yield inside(known), inside(held_out)


def choose(texts: Judged, grid: dict[str, Any]) -> tuple[dict[str, float], int]:
    """Return the parameters and the iteration of the highest accuracy on inner folds."""
    points = list(ParameterGrid(grid))
    scores = []
    for known, held_out in _folds(texts, INNER_FOLDS, 0):
        models = [_fit(known, point) for point in points]
        scores.append([_scores(model, held_out) for model in models])
    mean = np.mean(scores, axis=0)
    best, k = np.unravel_index(int(mean.argmax()), mean.shape)
    return points[best], ITERATIONS[k]


def _scores(model: HDSL, texts: Judged) -> list[float]:
    """Return the accuracy of a model after each number of iterations."""
    return [accuracy(model.at(min(k, model.n_iter_)), texts) for k in ITERATIONS]


def _fit(texts: Judged, point: dict[str, float]) -> HDSL:
    model = HDSL(
        **nested_parameters(
            **point, max_iter=max(ITERATIONS), tol=0.0, random_state=0, n_jobs=1
        )
    )
    return finished(model.fit(texts.X, triplets=texts.triplets))


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
