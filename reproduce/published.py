"""Sets that others published figures of, in their splits, everything at its defaults.

Beyond the paper. R8 and R52 of Reuters with all training rows; dexter and dorothea by
the balanced error that their challenge used; BACE by ROC AUC on the scaffold split.
What is not ours is marked, with its source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import comparison, quality, rivals, sets
from .comparison import Method
from .results import Results, Table
from .settings import Cell, Line, Settings

TITLE = "Figures that stand beside published ones"

METHODS: dict[str, Method] = {
    **{name: quality.METHODS[name] for name in ("cosine", "hdsl", "both", "svc")},
    **{name: rivals.METHODS[name] for name in ("manhattan", "tanimoto", "forest")},
}

#: Neighbours of the balanced error and of the AUC.
N_NEIGHBORS = 3
N_RANKED = 9


class Figures(NamedTuple):
    """Sets that share a measure, what shows it, and what others published of them."""

    sets: tuple[str, ...]
    show: Callable[[Line], str]
    others: dict[str, dict[str, str]]
    note: str


TABLES = {
    "accuracy": Figures(
        ("r8", "r52"),
        comparison.accuracy(N_NEIGHBORS),
        {
            "TextGCN (Yao et al., 2019), not ours": {"r8": "97.1", "r52": "93.6"},
            "SGC (Wu et al., 2019), not ours": {"r8": "97.2", "r52": "94.0"},
            "WideMLP (Galke and Scherp, 2022), not ours": {"r8": "97.3", "r52": "94.0"},
            "BERT (Lin et al., 2021), not ours": {"r52": "96.4"},
            "BertGCN and RoBERTaGCN (Lin et al., 2021), not ours": {
                "r8": "98.2",
                "r52": "96.6",
            },
        },
        f"Accuracy in %, {N_NEIGHBORS} nearest neighbours, all training rows of the "
        "ModApte split, TF-IDF of words, 95 % intervals (Wilson). BERT and what is "
        "built on it are trained on other texts first.",
    ),
    "balanced-error": Figures(
        ("dexter", "dorothea"),
        comparison.in_percent("balanced", N_NEIGHBORS),
        {},
        f"Balanced error in %, the mean of the errors of both classes, {N_NEIGHBORS} "
        "nearest neighbours, on the validation rows of the NIPS 2003 challenge: its "
        "test labels were never published, so figures of its entries, which are of "
        "test rows, do not stand here.",
    ),
    "auc": Figures(
        ("bace_ecfp6",),
        comparison.in_percent("auc", N_RANKED),
        {
            "random forest (MoleculeNet, Wu et al., 2018), not ours": {
                "bace_ecfp6": "86.7"
            },
            "kernel SVM (MoleculeNet, Wu et al., 2018), not ours": {
                "bace_ecfp6": "86.2"
            },
        },
        f"Area under the ROC curve in %, shares of votes of {N_RANKED} nearest "
        "neighbours, on the test molecules of a scaffold split, which need not be "
        "that of MoleculeNet.",
    ),
}


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every standard split that it suits."""
    standard = settings.by_size(full=sets.STANDARD, quick=sets.STANDARD[::4])
    return [
        {"set": name, "method": method}
        for name in sets.present(settings, standard)
        for method in METHODS
        if method not in rivals.FINGERPRINTS or name in sets.NOT_TEXTS
    ]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return all measures of one method on one set."""
    return comparison.measure(settings, cell, METHODS)


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return a table per measure, ours and what others published, and the seconds."""
    labels = comparison.labels_of(METHODS)
    tables = []
    for name, figures in TABLES.items():
        chosen = [line for line in lines if line["cell"]["set"] in figures.sets]
        if chosen:
            ours = comparison.table(name, chosen, labels, figures.show)
            rows = [row for row in ours.rows if any(row[1:])]
            rows += [
                [label, *(known.get(column, "") for column in ours.head[1:])]
                for label, known in figures.others.items()
            ]
            tables.append(Table(name, ours.head, rows, [figures.note]))
    note = "CPU seconds of learning."
    seconds = comparison.table("seconds", lines, labels, comparison.seconds, note)
    return Results([*tables, seconds])
