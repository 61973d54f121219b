"""Fewest rows of a paired feature: `python -m benchmarks.rare_features --data FOLDER`.

Folds of the training rows of each set give the error of 3 nearest neighbours by
``min_rows``, with class scores beside the rows and without, and its difference to the
smallest with a standard error.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import StratifiedKFold

from hdsl import HDSL, ClassScores, SimilarityKNeighborsClassifier
from reproduce import sets
from reproduce.settings import Settings

from .table import aligned

SETS = ("docstrings", "bbc_news", "dexter")
LEAST = (2, 3, 5, 8, 12)
N_FOLDS = 5
MOST_ROWS = 2500


def wrong_rows(
    X: sp.csr_array, y: np.ndarray, has_scores: bool
) -> dict[int, np.ndarray]:
    """Return per number whether 3 neighbours are wrong about each row, held out."""
    wrong = {least: np.zeros(len(y)) for least in LEAST}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    for train, held_out in folds.split(X, y):
        rows = X[train]
        others = X[held_out]
        if has_scores:
            scores = ClassScores(random_state=0)
            rows = scores.fit_transform(rows, y[train])
            others = scores.transform(others)
        for least in LEAST:
            model = HDSL(min_rows=least, random_state=0).fit(rows, y[train])
            knn = SimilarityKNeighborsClassifier(3, cosine=True)
            knn.fit(model.transform(rows), y[train])
            predicted = knn.predict(model.transform(others))
            wrong[least][held_out] = predicted != y[held_out]
    return wrong


def main() -> None:
    """Print one line per set and road."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    settings = Settings(Path(), parser.parse_args().data)
    warnings.simplefilter("ignore")  # few rows of a class
    headings = ["set", "class scores", *(f"min_rows {least}" for least in LEAST)]
    table = []
    for name in SETS:
        split = sets.split(settings, name)
        order = np.random.default_rng(0).permutation(len(split.y))
        X = split.X[order[:MOST_ROWS]]
        y = split.y[order[:MOST_ROWS]]
        table.append([name, "yes", *error_texts(wrong_rows(X, y, has_scores=True))])
        table.append([name, "no", *error_texts(wrong_rows(X, y, has_scores=False))])
    print(aligned(table, headings, headings[2:]))


def error_texts(wrong: dict[int, np.ndarray]) -> list[str]:
    """Return the errors in percent, and their differences to the first."""
    texts = []
    for of_number in wrong.values():
        lost = 100 * (of_number - wrong[LEAST[0]])
        error = lost.std(ddof=1) / np.sqrt(len(lost))
        texts.append(f"{100 * of_number.mean():.1f} ({lost.mean():+.1f} ± {error:.1f})")
    return texts


if __name__ == "__main__":
    main()
