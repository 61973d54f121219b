"""The paper's figure of the number of features that HDSL uses, by iteration.

The runs are those of the experiment `knn`, at the scale chosen on its validation rows.
"""

from __future__ import annotations

from typing import Any

from hdsl.plots import COLORS

from . import knn, sets
from .results import Results, Table, panels
from .settings import Cell, Line, Settings

TITLE = "Features used by HDSL along its run"

#: All features of the paper's sets.
PAPER = {"dexter": 20_000, "dorothea": 100_000, "rcv1_2": 47_236, "rcv1_4": 29_992}


def cells(settings: Settings) -> list[Cell]:
    """Return one cell per set; missing models are computed first, by all processes."""
    every = (*sets.PAPER, *sets.MORE)
    names = sets.present(settings, settings.by_size(full=every, quick=sets.PAPER[::3]))
    for name in names:
        knn.chosen_model(settings, name)
    return [{"set": name} for name in names]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the number of features after each iteration of the chosen run."""
    model, last = knn.chosen_model(settings, cell["set"])
    return {
        "n_features": last.trace_["n_features"].tolist(),
        "n_iter": int(model.n_iter_),
        "scale": float(model.scale_),
        "dimension": int(model.n_features_in_),
    }


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of final numbers and the figure of all iterations."""
    head = [
        "set",
        "scale",
        "iterations",
        "features",
        "of all",
        "most in the run",
        "end of the run",
        "paper",
        "of all, paper",
    ]
    notes = (
        "Features of the model that the validation rows chose, after so many of the "
        "run's iterations; the most that any model of the run has; and those of its "
        "last model.",
    )
    return Results(
        [Table("final", head, [_row(line) for line in lines], notes)],
        {"iterations": lambda figure: _draw(figure, lines)},
    )


def _row(line: Line) -> list[str]:
    curve = line["n_features"]
    name = line["cell"]["set"]
    n_iter = line["n_iter"]
    paper = ["–", "–"]
    if name in PAPER:
        _, n_features = knn.PAPER[name]["hdsl"]
        assert n_features is not None  # of HDSL the paper has all
        paper = [str(n_features), _share(n_features, PAPER[name])]
    return [
        name,
        f"{line['scale']:g}",
        f"{n_iter} of {len(curve) - 1}",
        str(curve[n_iter]),
        _share(curve[n_iter], line["dimension"]),
        str(max(curve)),
        str(curve[-1]),
        *paper,
    ]


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %"


def _draw(figure: Any, lines: list[Line]) -> None:
    for axis, line in panels(figure, lines):
        axis.plot(line["n_features"], color=COLORS[0], lw=1.5)
        axis.axvline(line["n_iter"], color="0.5", ls=":", lw=1.2)
        axis.set(title=line["cell"]["set"], xlabel="iteration", ylabel="features")
        axis.set_ylim(bottom=0)
