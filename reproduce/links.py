"""The paper's second synthetic experiment: the sign of unseen links."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from hdsl.plots import COLORS, MARKERS
from hdsl.triplets import link_triplets

from . import paths
from .baselines import paper_hdsl
from .datasets import Links, make_links
from .results import Results, Table, spread
from .runner import finished
from .settings import Cell, Line, Settings

TITLE = "Prediction of signed links"

DIMENSIONS = (5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000)
FREQUENCY_AT = 50_000

#: The paper's AUC at a million features.
PAPER = 0.90

#: From "too small to satisfy the triplets" to "all are satisfied after a few steps".
SCALES = (5.0, 7.0, 10.0, 20.0)

MAX_ITER = 800
MARKS = 60


class Curve(NamedTuple):
    """Triplets per training link, and the choices besides `SCALES` with prior 0."""

    per_link: int
    priors: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """Its name in tables and figures."""
        if self.priors:
            return f"{self.per_link} a link, prior tuned"
        return f"{self.per_link} a link"

    def choices(self) -> list[dict[str, Any]]:
        """Return the part of a cell that each choice sets."""
        pairs = [(0.0, scale) for scale in SCALES]
        pairs += [(prior, scale) for prior in self.priors for scale in self.scales]
        return [
            {"per_link": self.per_link, "prior": prior, "scale": scale}
            for prior, scale in pairs
        ]


#: A node has four links on average, so there are only about four triplets per link.
CURVES = (Curve(1), Curve(3), Curve(10), Curve(10, (0.02, 0.1), (7.0, 10.0)))


def cells(settings: Settings) -> list[Cell]:
    """Return all choices for each curve and each draw of the data."""
    dimensions = settings.by_size(full=DIMENSIONS, quick=(400, 1_000))
    n_runs = settings.by_size(full=5, quick=1)
    choices: list[dict[str, Any]] = []
    for curve in CURVES:
        choices += [choice for choice in curve.choices() if choice not in choices]
    return [
        {"d": d, "run": run, **choice}
        for d in dimensions
        for run in range(n_runs)
        for choice in choices
    ]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Learn from the training links; return the AUC of the model that others choose."""
    run = cell["run"]
    data = _data(cell["d"], run, settings.quick)
    triplets = link_triplets(
        data.links[data.train],
        data.signs[data.train],
        n_per_link=cell["per_link"],
        random_state=run,
    )
    # The optimum is that of the paper's steps; pairwise steps with our oracle approach
    # it faster.
    model = paper_hdsl(
        cell["scale"],
        prior=cell["prior"],
        step="pairwise",
        oracle="ascent",
        random_state=run,
        n_jobs=1,
        max_iter=settings.by_size(full=MAX_ITER, quick=60),
    )
    finished(model.fit(data.X, triplets=triplets))
    valid = _auc(data, data.valid)
    test = _auc(data, data.test)
    curve = paths.errors_along(
        model,
        lambda earlier: 1.0 - valid(earlier.matrix(), earlier.prior_),
        settings.by_size(full=MARKS, quick=8),
    )
    best = model.at(paths.best_iteration(curve))
    return {
        "valid": valid(best.matrix(), best.prior_),
        "test": test(best.matrix(), best.prior_),
        "dot": test(0.0 * best.matrix(), 1.0),
        "truth": test(data.matrix, 0.0),
        "n_iter": best.n_iter_,
        "n_triplets": len(triplets),
        "status": model.status_,
    }


@lru_cache(maxsize=1)
def _data(d: int, run: int, quick: bool = False) -> Links:
    """Return a draw of nodes and links."""
    if quick:
        return make_links(200, d, n_links=400, n_atoms=30, random_state=run)
    return make_links(n_features=d, random_state=run)


def _auc(data: Links, links: np.ndarray) -> Callable[[Any, float], float]:
    """Return a score: how well M and a prior rank positive links before negative ones."""
    X = sp.csr_array(data.X)
    left_rows, right_rows = data.links[links].T
    left = X[left_rows]
    right = X[right_rows]
    dots = (left * right).sum(axis=1)
    signs = data.signs[links]

    def score(M: Any, prior: float) -> float:
        learned = ((left @ sp.csr_array(M)) * right).sum(axis=1)
        return float(roc_auc_score(signs, np.ravel(learned + prior * dots)))

    return score


# --- results --------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the test AUCs of what the validation links chose, by dimension."""
    dimensions = sorted({line["cell"]["d"] for line in lines})
    chosen = {
        (d, curve): _chosen(lines, d, curve) for d in dimensions for curve in CURVES
    }
    auc = Table(
        "auc",
        [
            "features",
            *(curve.name for curve in CURVES),
            "paper",
            "dot product",
            "true similarity",
        ],
        [_auc_row(chosen, d) for d in dimensions],
        [
            "Test AUC, mean ± standard deviation of "
            f"{len(chosen[dimensions[0], CURVES[0]])} draws of the data. Scale, prior "
            "and iteration are chosen by the AUC of the validation links, for each "
            "draw. Triplets are made of the training links alone: a node has four on "
            "average, so that no link has more than about four triplets."
        ],
    )
    choices = Table(
        "choices",
        [
            "features",
            "curve",
            "triplets",
            "scales chosen",
            "priors chosen",
            "iterations",
        ],
        [
            [
                f"{d:,}",
                curve.name,
                f"{np.mean([line['n_triplets'] for line in group]):,.0f}",
                _values(group, "scale"),
                _values(group, "prior"),
                f"{np.mean([line['n_iter'] for line in group]):.0f}",
            ]
            for (d, curve), group in chosen.items()
        ],
        [f"Scales to choose from: {', '.join(f'{scale:g}' for scale in SCALES)}."],
    )
    shown = settings.by_size(full=FREQUENCY_AT, quick=dimensions[-1])
    figures = {
        "auc": lambda figure: _draw_auc(figure, dimensions, chosen),
        "frequency": lambda figure: _draw_frequency(
            figure, _data(shown, 0, settings.quick)
        ),
    }
    return Results([auc, choices], figures)


def _auc_row(chosen: dict[tuple[int, Curve], list[Line]], d: int) -> list[str]:
    """Return the test AUCs of one dimension."""
    by_curve = [[line["test"] for line in chosen[d, curve]] for curve in CURVES]
    paper = "–"
    if d == DIMENSIONS[-1]:
        paper = f"> {PAPER:g}"
    lines = chosen[d, CURVES[0]]
    return [
        f"{d:,}",
        *(spread(values, 3) for values in by_curve),
        paper,
        spread([line["dot"] for line in lines], 3),
        spread([line["truth"] for line in lines], 3),
    ]


def _chosen(lines: list[Line], d: int, curve: Curve) -> list[Line]:
    """Return, for each draw of the data, the line of highest validation AUC."""
    choices = curve.choices()
    best: dict[int, Line] = {}
    for line in lines:
        run = line["cell"]["run"]
        if any(
            {"d": d, **choice}.items() <= line["cell"].items() for choice in choices
        ):
            best[run] = max(best.get(run, line), line, key=_validation_auc)
    return list(best.values())


def _validation_auc(line: Line) -> float:
    return line["valid"]


def _values(group: list[Line], name: str) -> str:
    return ", ".join(
        f"{value:g}" for value in sorted({line["cell"][name] for line in group})
    )


def _draw_auc(
    figure: Any, dimensions: list[int], chosen: dict[tuple[int, Curve], list[Line]]
) -> None:
    figure.set_size_inches(5.5, 3.8)
    ax = figure.subplots()
    for color, marker, curve in zip(COLORS, MARKERS, CURVES, strict=False):
        values = [[line["test"] for line in chosen[d, curve]] for d in dimensions]
        ax.errorbar(
            dimensions,
            [np.mean(v) for v in values],
            [np.std(v) for v in values],
            color=color,
            marker=marker,
            ms=4,
            lw=1.3,
            capsize=2,
            label=curve.name,
        )
    if dimensions[-1] == DIMENSIONS[-1]:
        ax.axhline(PAPER, color="0.5", ls=":", lw=1.2, label="the paper is above")
    ax.set(xscale="log", xlabel="number of features", ylabel="AUC of test links")
    ax.legend(frameon=False, title="triplets, mean ± deviation")


def _draw_frequency(figure: Any, data: Links) -> None:
    """Draw how many nodes have the feature of each rank."""
    figure.set_size_inches(4.5, 3.6)
    n_nodes, d = data.X.shape
    frequency = np.sort(np.bincount(data.X.indices) / n_nodes)[::-1]
    frequency = frequency[frequency > 0]
    rank = np.unique(np.geomspace(1, len(frequency), 300).astype(int))
    ax = figure.subplots()
    ax.plot(rank, frequency[rank - 1], color=COLORS[0])
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"rank of the feature (d = {d:,})",
        ylabel="share of nodes that have it",
    )
