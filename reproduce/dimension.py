"""The paper's figure of 3-NN errors by dimensions: HDSL, projections, OASIS on them.

HDSL is the run of the experiment `knn`, at the scale chosen on its validation rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hdsl import HDSL
from hdsl.plots import COLORS

from . import baselines, knn, paths, runner, sets
from .projections import EXACT, ITERATIONS, project
from .results import (
    Results,
    Table,
    by_set_and_method,
    panels,
    percent,
    reported,
    set_names,
    shared_legend,
)
from .sets import Parts
from .settings import Cell, Line, Settings

TITLE = "Errors of 3 nearest neighbours by the number of dimensions, in percent"

DIMENSIONS = (10, 20, 50, 100, 200, 500, 1000, 2000)

#: The paper's grid.
AGGRESSIVENESS = tuple(10.0**e for e in range(-9, 3))

#: Draws of a random projection, alone and with OASIS, where the first draw chooses C
#: for all.
DRAWS = 5
OASIS_DRAWS = 3

#: Steps of OASIS, and the limit of steps times dimensions.
STEPS = 50_000
WORK = 25_000_000

#: Number of models along the path of HDSL.
MARKS = 30

LABELS = {
    "hdsl": "HDSL, along its run",
    "components": "HDSL, leading directions",
    "rp": "RP",
    "pca": "PCA",
    "rp_oasis": "RP+OASIS",
    "pca_oasis": "PCA+OASIS",
}


# --- cells ----------------------------------------------------------------------------


def cells(settings: Settings) -> list[Cell]:
    """Return HDSL and the projections of every set, then OASIS on them.

    The projections come first, so that their files exist when OASIS needs them. Missing
    models of HDSL are computed here, by all processes.
    """
    names_of_sets = settings.by_size(full=sets.PAPER, quick=sets.PAPER[::3])
    names = sets.present(settings, names_of_sets)
    for name in names:
        knn.chosen_model(settings, name)
    n_draws = settings.by_size(full=DRAWS, quick=2)
    n_oasis_draws = settings.by_size(full=OASIS_DRAWS, quick=2)
    todo: list[Cell] = [{"set": name, "method": "pca"} for name in names]
    todo += [{"set": name, "method": "hdsl"} for name in names]
    todo += [
        {"set": name, "method": "rp", "draw": draw}
        for name in names
        for draw in range(n_draws)
    ]
    known = runner.read(settings, "dimension")
    for name in names:
        grids = _grids(settings, name, "rp_oasis")
        todo += chain(*_grids(settings, name, "pca_oasis"), *grids)
        keys = [[runner.key(cell) for cell in grid] for grid in grids]
        complete = [group for group in keys if known.keys() >= set(group)]
        best = [knn.chosen([known[key] for key in group])["cell"] for group in complete]
        # Cells of a draw come together, since they share its projection.
        for draw in range(1, n_oasis_draws):
            todo += [{**cell, "draw": draw} for cell in best]
    return todo


def _grids(settings: Settings, name: str, method: str) -> list[list[Cell]]:
    """Return, for each number of dimensions, the cells that choose C."""
    costs = settings.by_size(full=AGGRESSIVENESS, quick=AGGRESSIVENESS[3::4])
    return [
        [
            {"set": name, "method": method, "dimensions": n, "C": C, "draw": 0}
            for C in costs
        ]
        for n in _dimensions(settings, name, method)
    ]


def _dimensions(settings: Settings, name: str, method: str) -> list[int]:
    """Return the numbers of dimensions; PCA has at most one less than rows."""
    every = settings.by_size(full=DIMENSIONS, quick=DIMENSIONS[:5:2])
    if not method.startswith("pca"):
        return list(every)
    limit = len(sets.load(settings, name).y) - 1
    return list(dict.fromkeys(min(n, limit) for n in every))


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the errors of one cell.

    A cell of HDSL or of a projection has all dimensions.
    """
    method = cell["method"]
    name = cell["set"]
    if method == "hdsl":
        return _hdsl(settings, name)
    whole = _projected(settings, name, method.split("_")[0], cell.get("draw", 0))
    if method in ("rp", "pca"):
        return {
            "curve": [
                {"dimensions": n, **knn.errors(_cut(whole, n, method))}
                for n in _dimensions(settings, name, method)
            ]
        }
    return _oasis(settings, cell, _cut(whole, cell["dimensions"], method))


# --- HDSL -----------------------------------------------------------------------------


def _hdsl(settings: Settings, name: str) -> dict[str, Any]:
    """Return errors along the path, and of the chosen model cut to its directions."""
    parts = sets.load(settings, name)
    model, last = knn.chosen_model(settings, name)
    n_marks = settings.by_size(full=MARKS, quick=8)
    marks = {*paths.marks(last.n_iter_, n_marks)[1:], int(model.n_iter_)}
    path = []
    for k in sorted(marks):
        earlier = last.at(k)
        point = {"n_iter": k, "dimensions": rank(earlier.atoms_)}
        path.append({**point, **knn.errors(parts, earlier)})
    full_rank = rank(model.atoms_)
    few = [n for n in _dimensions(settings, name, "hdsl") if n < full_rank]
    used, directions = leading(model, max([*few, 1]))
    projected = parts.map(lambda rows: np.asarray(rows[:, used] @ directions))
    components = [{"dimensions": n, **knn.errors(_cut(projected, n))} for n in few]
    components.append({"dimensions": full_rank, **knn.errors(parts, model)})
    return {
        "dot": knn.errors(parts),
        "kept": full_rank,
        "path": path,
        "components": components,
    }


def leading(model: HDSL, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of M, and its n leading directions: M is near D Dᵀ on them."""
    used = np.unique(model.atoms_[:, :2])
    M = sp.csr_array(model.matrix())[used][:, used].toarray()
    values, vectors = np.linalg.eigh(M)
    return used, (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :n]


def rank(atoms: np.ndarray) -> int:
    """Return the rank of a sum of atoms with positive weights, whatever these are.

    A connected part of the graph of pairs has full rank, unless flipping the signs of
    some of its features makes all its atoms e_i - e_j: then it has one less. To find
    these parts, take two copies of the features, where e_i + e_j links to the other
    copy: such a part falls in two.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign).

    Returns
    -------
    int

    Examples
    --------
    >>> rank(np.array([[0, 1, -1], [1, 2, -1], [0, 2, -1]]))
    2
    >>> rank(np.array([[0, 1, -1], [1, 2, -1], [0, 2, 1]]))
    3
    """
    used, number = np.unique(atoms[:, :2], return_inverse=True)
    n = len(used)
    i, j = number.reshape(-1, 2).T
    shift = n * (atoms[:, 2] > 0)
    i_twice = np.append(i, i + n)
    j_twice = np.append(j + shift, j + n - shift)
    return n + _n_parts(i, j, n) - _n_parts(i_twice, j_twice, 2 * n)


def _n_parts(i: np.ndarray, j: np.ndarray, n: int) -> int:
    """Return the number of connected parts of a graph of n features."""
    links = sp.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return int(connected_components(links, directed=False, return_labels=False))


# --- projections ----------------------------------------------------------------------


def _cut(parts: Parts, n: int, method: str = "pca") -> Parts:
    """Return the first n dimensions; a random projection is scaled to that number."""
    factor = 1.0
    if method.startswith("rp"):
        factor = np.sqrt(parts.X.shape[1] / n)
    return parts.map(lambda rows: factor * rows[:, :n].astype(np.float64))


@lru_cache(maxsize=1)
def _projected(settings: Settings, name: str, method: str, draw: int) -> Parts:
    """Return the rows in the most dimensions that are tried.

    Fewer are the first of them.
    """
    n = _dimensions(settings, name, method)[-1]
    return project(settings, name, method, n, draw)


# --- OASIS ----------------------------------------------------------------------------


class _Run(NamedTuple):
    """OASIS with some C.

    It is settled where no step is as long as C, so that a larger C changes nothing.
    """

    C: float
    W: np.ndarray
    answer: dict[str, Any]
    is_settled: bool


#: The last run in this process, by its cell without C.
_last: dict[tuple[Any, ...], _Run] = {}


def _oasis(settings: Settings, cell: Cell, parts: Parts) -> dict[str, Any]:
    """Return the errors of OASIS on projected rows; values of C come in rising order."""
    n = cell["dimensions"]
    draw = cell["draw"]
    C = cell["C"]
    problem = (settings, cell["set"], cell["method"], n, draw)
    before = _last.get(problem)
    if before is not None and before.C >= C:
        before = None
    if before is not None and before.is_settled:
        return before.answer
    n_steps = settings.by_size(full=min(STEPS, WORK // n), quick=2000)
    triplets = _triplets(settings, cell["set"], draw)
    model = baselines.OASIS(C, n_steps=n_steps, random_state=draw)
    model.fit(parts.X, triplets=triplets)
    W = model.similarity_.matrix
    # Steps are min(C, …): if C had shortened one before, a larger C would change W.
    if before is not None and np.array_equal(before.W, W):
        run = _Run(C, W, before.answer, is_settled=True)
    else:
        errors = knn.errors(parts, model.similarity_)
        answer = {**errors, "n_features": n, "n_steps": n_steps}
        run = _Run(C, W, answer, is_settled=False)
    _last.clear()
    _last[problem] = run
    return run.answer


@lru_cache(maxsize=1)
def _triplets(settings: Settings, name: str, draw: int) -> np.ndarray:
    """Return the triplets of the rows before projection, made as in the paper."""
    return knn.triplets(sets.load(settings, name), draw)


# --- results --------------------------------------------------------------------------


class Point(NamedTuple):
    """Errors of all draws in a number of dimensions, and the chosen C."""

    dimensions: int
    errors: list[float]
    C: float | None = None


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of errors, the table of choices, and the curves."""
    by = by_set_and_method(lines)
    names = set_names(lines)
    every = _dimensions(settings, names[0], "hdsl")
    by_set = {name: SetCurves.of_lines(by, name) for name in names}
    error_rows = []
    choice_rows = []
    for name, curves in by_set.items():
        for method, label in LABELS.items():
            texts = curves.error_texts(method, every)
            error_rows.append([name, curves.reported, label, *texts])
            if method.endswith("oasis"):
                choice_rows.append([name, label, *curves.cost_texts(method, every)])
    numbers = list(map(str, every))
    head = ["set", "", "method", *numbers, "most"]
    return Results(
        [
            Table("errors", head, error_rows, _NOTES),
            Table("choices", ["set", "C of", *numbers], choice_rows),
        ],
        {"errors": lambda figure: _draw(figure, by_set)},
    )


class SetCurves(NamedTuple):
    """The curve of each method on one set, by the rows that report.

    `dot` is the error of the plain dot product of all features, and `hdsl` the line of
    HDSL.
    """

    reported: str
    curves: dict[str, list[Point]]
    dot: float
    hdsl: Line

    @classmethod
    def of_lines(cls, by: dict[tuple[str, str], list[Line]], name: str) -> SetCurves:
        """Return the curves of a set."""
        hdsl = by[name, "hdsl"][0]
        rows = reported(hdsl["dot"])
        curves = {method: list(_curve(by, name, method, rows)) for method in LABELS}
        return cls(rows, curves, hdsl["dot"][rows], hdsl)

    def error_texts(self, method: str, every: list[int]) -> list[str]:
        """Return the error in each number of dimensions, and in the largest other one."""
        points = {point.dimensions: point for point in self.curves[method]}
        if method == "hdsl":
            texts = _along(self.hdsl, every, self.reported)
            largest = self.hdsl["kept"]
        else:
            texts = [_percent(points.get(n)) for n in every]
            largest = max(points)
        if largest in every:
            return [*texts, ""]
        return [*texts, f"{_percent(points.get(largest))} [{largest}]"]

    def cost_texts(self, method: str, every: list[int]) -> list[str]:
        """Return the chosen C in each number of dimensions."""
        costs = {point.dimensions: f"{point.C:g}" for point in self.curves[method]}
        return [costs.get(n, "–") for n in every]


_NOTES = (
    "HDSL along its run: the last model of the path whose M has no more than so many "
    "dimensions (its rank), and in the last column the model that the validation "
    "rows chose, with its rank. Leading directions: that model, cut to its largest "
    "eigenvalues.",
    "OASIS: C in {10⁻⁹, …, 10²} chosen on the validation rows for each number of "
    f"dimensions; {STEPS:,} steps, and at most {WORK:,} / dimensions. Where no step "
    "was as long as C, larger ones lead to the same result and are not run. Triplets "
    "are those of the rows before they are projected.",
    f"RP: {DRAWS} draws, {OASIS_DRAWS} with OASIS, for which the first chooses C; ± "
    "is their standard deviation. A draw has all its dimensions at once, and fewer "
    "are the first of them.",
    f"PCA: centred; of more than {EXACT:,} rows (rcv1_2) by {ITERATIONS} subspace "
    "iterations, which leave the last dimensions a little short of variance. There "
    "is at most one dimension less than rows, which the last column has.",
    "Test rows where labels were published, else validation rows, which then "
    "flatters what was chosen on them.",
)


def _curve(
    by: dict[tuple[str, str], list[Line]], name: str, method: str, where: str
) -> Iterator[Point]:
    """Yield the points of a method."""
    if method.endswith("oasis"):
        lines = by[name, method]
        for n in dict.fromkeys(line["cell"]["dimensions"] for line in lines):
            at_n = [line for line in lines if line["cell"]["dimensions"] == n]
            first_draw = [line for line in at_n if line["cell"]["draw"] == 0]
            C = knn.chosen(first_draw)["cell"]["C"]
            errors = [line[where] for line in at_n if line["cell"]["C"] == C]
            yield Point(n, errors, C)
    elif method in ("rp", "pca"):
        for points in zip(*(line["curve"] for line in by[name, method]), strict=True):
            yield Point(points[0]["dimensions"], [point[where] for point in points])
    else:
        line = by[name, "hdsl"][0]
        points = line["path"] if method == "hdsl" else line["components"]
        for point in points:
            yield Point(point["dimensions"], [point[where]])


def _along(line: Line, every: list[int], where: str) -> list[str]:
    """Return, per number of dimensions, the error of the last model that has no more."""
    path = line["path"]
    largest = max(point["dimensions"] for point in path)
    texts = []
    for n in every:
        errors = [point[where] for point in path if point["dimensions"] <= n]
        if errors and n <= largest:
            texts.append(percent(errors[-1]))
        else:
            texts.append("–")
    return texts


def _percent(point: Point | None) -> str:
    if point is None:
        return "–"
    return percent(point.errors)


def _draw(figure: Any, by_set: dict[str, SetCurves]) -> None:
    styles = dict(zip(LABELS, ("-", "--", ":", ":", "-.", "-."), strict=True))
    for axis, (name, results) in panels(figure, list(by_set.items()), (4.0, 3.2)):
        level = 100 * results.dot
        axis.axhline(level, color="0.6", lw=1, label="DOT, all dimensions")
        curves = results.curves.items()
        for (method, points), color in zip(curves, COLORS, strict=False):
            n = [point.dimensions for point in points]
            mean = [100 * np.mean(point.errors) for point in points]
            axis.plot(
                n, mean, color=color, ls=styles[method], lw=1.5, label=LABELS[method]
            )
        axis.set(title=name, xscale="log", xlabel="dimensions", ylabel="error, %")
    shared_legend(figure, axis, "lower")
