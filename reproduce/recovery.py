"""The paper's first synthetic experiment: a hidden similarity, recovered from triplets."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from hdsl.plots import COLORS

from .auc import recovery_auc
from .baselines import paper_hdsl
from .datasets import make_recovery
from .results import Results, Table, spread
from .runner import finished
from .settings import Cell, Line, Settings

TITLE = "Recovery of a hidden similarity"

ALPHAS = (0.10, 0.20, 0.25, 0.30)

#: Figures of the paper at the last iteration.
PAPER = {0.10: "≈ 1", 0.20: "≈ 1", 0.30: "> 0.85"}

SCALE = 100.0
TOL = 1e-5
MAX_ITER = 1000
QUICK_MAX_ITER = 150
QUICK: dict[str, Any] = {
    "n_rows": 600,
    "n_features": 400,
    "n_triplets": 4000,
    "n_atoms": 20,
    "block_size": 20,
    "density": 0.05,
}

#: Iterations whose models are scored.
MARKS = np.unique(np.geomspace(1, MAX_ITER, 60).astype(int))

#: The run whose matrices are drawn.
DRAWN = {"alpha": 0.20, "seed": 0}


def cells(settings: Settings) -> list[Cell]:
    """Return the strengths of supervision, with several draws of data each."""
    seeds = range(settings.by_size(full=5, quick=1))
    return [{"alpha": alpha, "seed": seed} for alpha in ALPHAS for seed in seeds]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the AUCs along the path, and both matrices for the run that is drawn."""
    size = settings.by_size(full={}, quick=QUICK)
    truth = make_recovery(**size, alpha=cell["alpha"], random_state=cell["seed"])
    model = paper_hdsl(
        SCALE,
        oracle="ascent",
        tol=TOL,
        max_iter=_max_iter(settings),
        random_state=cell["seed"],
        n_jobs=1,
    )
    finished(model.fit(truth.X, triplets=truth.triplets))
    scored = settings.by_size(full=MARKS, quick=MARKS[::8])
    marks = [*scored[model.n_iter_ > scored].tolist(), model.n_iter_]
    hidden = {tuple(atom) for atom in truth.atoms.tolist()}
    answer = {
        "curve": [
            [k, *recovery_auc(model.at(k).matrix(), truth.matrix)] for k in marks
        ],
        "n_iter": model.n_iter_,
        "status": model.status_,
        "gap": model.gap_,
        "n_atoms": len(model.weights_),
        "n_found": sum(tuple(atom) in hidden for atom in model.atoms_.tolist()),
        "n_hidden": len(hidden),
    }
    if cell == DRAWN:
        answer["n_features"] = model.n_features_in_
        answer["true"] = [truth.atoms.tolist(), truth.weights.tolist()]
        answer["learned"] = [model.atoms_.tolist(), model.weights_.tolist()]
    return answer


def _max_iter(settings: Settings) -> int:
    return settings.by_size(full=MAX_ITER, quick=QUICK_MAX_ITER)


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the final AUCs beside the paper's, their curves, and the matrices."""
    by_alpha = {
        alpha: [line for line in lines if line["cell"]["alpha"] == alpha]
        for alpha in ALPHAS
    }
    table = Table(
        "auc",
        [
            "alpha",
            "feature AUC",
            "entry AUC",
            "paper, both",
            "hidden pairs found",
            "pairs learned",
            "iterations",
        ],
        [_row(alpha, group) for alpha, group in by_alpha.items()],
        [
            f"Mean ± standard deviation of {len(by_alpha[ALPHAS[0]])} draws of the "
            f"data, at the last iteration: a gap of at most {TOL:g}, proved by an "
            f"exact search, or {_max_iter(settings)} iterations. Each of 100 hidden "
            "pairs that is not learned takes 0.005 from the AUC of entries. Scale "
            f"{SCALE:g}, prior 0.",
        ],
    )
    drawn = next(line for line in lines if line["cell"] == DRAWN)
    figures = {
        "features": lambda figure: _draw_curves(figure, by_alpha, 1, "feature AUC"),
        "entries": lambda figure: _draw_curves(figure, by_alpha, 2, "entry AUC"),
        "matrices": lambda figure: _draw_matrices(figure, drawn),
    }
    return Results([table], figures)


def _row(alpha: float, group: list[Line]) -> list[str]:
    """Return the final AUCs of one strength of supervision, beside the paper's."""
    last_points = [line["curve"][-1] for line in group]
    return [
        f"{alpha:.0%}",
        spread([features for _, features, _ in last_points], 4),
        spread([entries for _, _, entries in last_points], 4),
        PAPER.get(alpha, "–"),
        f"{np.mean([line['n_found'] for line in group]):.1f} of {group[0]['n_hidden']}",
        spread([line["n_atoms"] for line in group], 0),
        spread([line["n_iter"] for line in group], 0),
    ]


def _draw_curves(
    figure: Any, by_alpha: dict[float, list[Line]], column: int, name: str
) -> None:
    """Draw a column of the curves, the mean and the range of all runs."""
    figure.set_size_inches(5, 3.6)
    ax = figure.subplots()
    longest = max(line["n_iter"] for group in by_alpha.values() for line in group)
    marks = np.append(MARKS[longest > MARKS], longest)
    for color, (alpha, group) in zip(COLORS, by_alpha.items(), strict=False):
        # After its end, a run has its last model.
        points_of_runs = [np.array(line["curve"]).T for line in group]
        curves = np.array(
            [np.interp(marks, points[0], points[column]) for points in points_of_runs]
        )
        ax.plot(marks, curves.mean(axis=0), color=color, label=f"α = {alpha:.0%}")
        ax.fill_between(
            marks, curves.min(axis=0), curves.max(axis=0), color=color, alpha=0.2, lw=0
        )
    ax.set(xscale="log", xlabel="iteration", ylabel=name, ylim=(None, 1.01))
    ax.legend(frameon=False, title="mean and range", loc="lower right")


def _matrix(atoms: np.ndarray, weights: np.ndarray, d: int) -> sp.csr_array:
    """Return Σ weight·(e_i ± e_j)(e_i ± e_j)ᵀ."""
    i, j, sign = atoms.T
    k = np.arange(len(atoms))
    values = np.append(np.sqrt(weights), sign * np.sqrt(weights))
    L = sp.csr_array(
        (values, (np.append(k, k), np.append(i, j))), shape=(len(atoms), d)
    )
    return sp.csr_array(L.T @ L)


def _draw_matrices(figure: Any, line: Line) -> None:
    """Draw both matrices, and their two blocks enlarged.

    Negative entries have another color.
    """
    figure.set_size_inches(9, 6)
    d = line["n_features"]
    true_atoms, _ = line["true"]
    used = np.unique(np.array(true_atoms)[:, :2])
    first_block, second_block = np.split(used, [sum(used < d / 2)])
    windows = [
        (-0.5, d - 0.5),
        (first_block.min() - 2, first_block.max() + 2),
        (second_block.min() - 2, second_block.max() + 2),
    ]
    for name, axes in zip(("true", "learned"), figure.subplots(2, 3), strict=True):
        atoms, weights = map(np.array, line[name])
        M = _matrix(atoms, weights, d).tocoo()
        for ax, (low, high) in zip(axes, windows, strict=True):
            inches = min(ax.get_position().size * figure.get_size_inches())
            size = max(0.8 * inches * 72 / (high - low), 2.0)
            for drawn, color in ((M.data > 0, COLORS[0]), (M.data < 0, COLORS[1])):
                rows = M.row[drawn]
                columns = M.col[drawn]
                ax.plot(columns, rows, "s", color=color, ms=size, mew=0)
            ax.set(xlim=(low, high), ylim=(high, low), aspect="equal")
        axes[0].set_ylabel(f"{name} similarity")
