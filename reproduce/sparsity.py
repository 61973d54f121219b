"""The paper's figure of the signs of the matrix M that HDSL learns.

The models are those of the experiment `knn`, chosen on its validation rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from hdsl.plots import COLORS

from . import features, knn
from .results import Results, Table, panels
from .settings import Cell, Line, Settings

TITLE = "Entries of the matrix that HDSL learns"

#: Non-zero entries of the paper's models and features of its sets, where it gives them.
PAPER = {"dexter": (712, 20_000), "rcv1_4": (5263, 29_992)}

#: One cell per set; its model is computed first.
cells = features.cells


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return rows, columns and signs of the entries of the chosen M on and above the diagonal."""
    model, _ = knn.chosen_model(settings, cell["set"])
    M = model.matrix()
    M.eliminate_zeros()  # two atoms of one pair can cancel out
    upper = sp.triu(M, format="coo")
    return {
        "dimension": M.shape[0],
        "nonzeros": M.nnz,
        "row": upper.row.tolist(),
        "col": upper.col.tolist(),
        "sign": np.sign(upper.data).astype(int).tolist(),
    }


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of counts and the figure of all entries."""
    head = [
        "set",
        "features",
        "non-zeros",
        "share",
        "diagonal",
        "positive",
        "negative",
        "paper",
        "share, paper",
    ]
    notes = (
        "Entries of M other than 0; of those off the diagonal, how many are positive "
        "and negative. The paper says of all its sets: in the order of 0.0001 %.",
    )
    return Results(
        [Table("entries", head, [_row(line) for line in lines], notes)],
        {"signs": lambda figure: _draw(figure, lines)},
    )


def _row(line: Line) -> list[str]:
    """Return the numbers of entries of one model, beside those of the paper."""
    upper = _upper(line)
    off_diagonal = upper.row != upper.col
    signs = upper.data[off_diagonal]
    name = line["cell"]["set"]
    d = line["dimension"]
    paper = ["–", "–"]
    if name in PAPER:
        nonzeros, n_features = PAPER[name]
        paper = [str(nonzeros), _share(nonzeros, n_features)]
    return [
        name,
        str(d),
        str(line["nonzeros"]),
        _share(line["nonzeros"], d),
        str(np.count_nonzero(~off_diagonal)),
        str(2 * np.count_nonzero(signs == 1)),
        str(2 * np.count_nonzero(signs == -1)),
        *paper,
    ]


def _upper(line: Line) -> sp.coo_array:
    """Return the signs of M on and above the diagonal."""
    d = line["dimension"]
    places = (np.array(line["row"]), np.array(line["col"]))
    return sp.coo_array((np.array(line["sign"]), places), shape=(d, d))


def _share(nonzeros: int, d: int) -> str:
    return f"{100 * nonzeros / d**2:.5f} %"


def _draw(figure: Any, lines: list[Line]) -> None:
    for axis, line in panels(figure, lines, (3.0, 3.6)):
        upper = _upper(line)
        for sign, color in ((1, COLORS[0]), (-1, COLORS[1])):
            i = upper.row[upper.data == sign]
            j = upper.col[upper.data == sign]
            axis.scatter(np.append(i, j), np.append(j, i), 1.5, color, linewidths=0)
        d = line["dimension"]
        axis.set(xlim=(-0.5, d - 0.5), ylim=(d - 0.5, -0.5), aspect="equal")
        axis.set(
            title=line["cell"]["set"],
            xlabel=f"{d} features, {line['nonzeros']} non-zeros",
        )
        axis.set(xticks=[], yticks=[])
