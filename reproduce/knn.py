"""The paper's table of 3-NN errors: similarities chosen on validation rows.

Beyond the paper's columns: cosine (rows of length 1), HDSL with our oracle, with a
prior, and with all defaults. RP + OASIS and PCA + OASIS come from the experiment
`dimension`.

Where test labels were never published (dexter, dorothea), the validation rows choose
and report. A second error is that of what five folds of the training rows chose.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from hdsl import HDSL, load
from hdsl.evaluate import knn_error
from hdsl.triplets import neighbor_triplets, random_triplets

from . import paths, runner, sets
from .baselines import PAPER_SCALES, DiagonalSimilarity, paper_hdsl
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

TITLE = "Errors of 3 nearest neighbours, in percent"

#: The paper's grid of penalties.
ALPHAS = tuple(10.0**e for e in range(-9, 9))

#: Our oracle is run on the part of that grid that matters.
ASCENT_SCALES = (1e1, 1e2, 1e3, 1e4)

#: For HDSL with a prior: multiples of 10 √n max(1, s/80) / m and of 1 / m, for n rows
#: of s values and the typical margin m of the dot product. Triplets are made as in the
#: paper or, where there are enough rows, of 5 targets times 10 impostors.
PRIOR_SCALES = (0.5, 1.5)
PRIORS = (0.3, 1.0)
WAYS: dict[str, dict[str, Any]] = {
    "3x5": {},
    "5x10": {"n_targets": 5, "n_impostors": 10},
}
SMALL = ("dexter", "dorothea", "bace_ecfp6")

#: From the best of these, a search tries twice and half the scale and the prior, on
#: paths twice as long, until a point is the best of its neighbourhood or so many were
#: tried.
NEIGHBOR_FACTOR = 2.0
N_NEIGHBORS = 12

#: Iterations of a path; others have 1,000.
ITERATIONS = {"rcv1_2": 4000, "rcv1_4": 4000}

#: Number of draws (of triplets and seeds) that the chosen parameters are run with.
DRAWS = 5
FOLDS = 5

LEARNED = ("diag_l2", "diag_l1", "hdsl", "hdsl_ascent", "hdsl_prior", "hdsl_auto")
COLUMNS = {
    "dot": "DOT",
    "cosine": "cosine",
    "rp_oasis": "RP+OASIS",
    "pca_oasis": "PCA+OASIS",
    "diag_l2": "DIAG-ℓ2",
    "diag_l1": "DIAG-ℓ1",
    "hdsl": "HDSL",
    "hdsl_ascent": "HDSL, ascent",
    "hdsl_prior": "HDSL with prior",
    "hdsl_auto": "HDSL()",
}

#: Figures of the paper: error, and features used where these are fewer than all.
PAPER: dict[str, dict[str, tuple[float, int | None]]] = {
    "dexter": {
        "dot": (20.1, None),
        "rp_oasis": (24.0, 1000),
        "pca_oasis": (9.3, 50),
        "diag_l2": (8.4, None),
        "diag_l1": (8.4, 773),
        "hdsl": (6.5, 183),
    },
    "dorothea": {
        "dot": (9.3, None),
        "rp_oasis": (11.4, 150),
        "pca_oasis": (9.9, 800),
        "diag_l2": (6.8, None),
        "diag_l1": (6.6, 860),
        "hdsl": (6.5, 731),
    },
    "rcv1_2": {
        "dot": (6.9, None),
        "rp_oasis": (7.0, 2000),
        "pca_oasis": (4.5, 1500),
        "diag_l2": (3.5, None),
        "diag_l1": (3.7, 5289),
        "hdsl": (3.4, 2126),
    },
    "rcv1_4": {
        "dot": (11.2, None),
        "rp_oasis": (10.6, 1000),
        "pca_oasis": (6.1, 800),
        "diag_l2": (6.2, None),
        "diag_l1": (7.2, 3878),
        "hdsl": (5.7, 1888),
    },
}


# --- cells ----------------------------------------------------------------------------


def grid(settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """Return the values that a method tries on a set."""
    if method == "hdsl":
        scales = settings.by_size(full=PAPER_SCALES, quick=(1e2, 1e4))
        return [{"scale": scale} for scale in scales]
    if method == "hdsl_ascent":
        scales = settings.by_size(full=ASCENT_SCALES, quick=(1e2, 1e4))
        return [{"scale": scale} for scale in scales]
    if method in ("diag_l1", "diag_l2"):
        alphas = settings.by_size(full=ALPHAS, quick=(1e-7, 1e-4))
        return [{"alpha": alpha} for alpha in alphas]
    if method == "hdsl_prior":
        scales = settings.by_size(full=PRIOR_SCALES, quick=(1.0,))
        priors = settings.by_size(full=PRIORS, quick=(1.0,))
        ways = ["3x5"] if name in SMALL else list(WAYS)
        return [
            {"scale": scale, "prior": prior, "way": way}
            for scale, prior, way in product(scales, priors, ways)
        ]
    return [{}]


def cells(settings: Settings) -> list[Cell]:
    """Return every value of every method once, and the chosen values for every draw."""
    more = settings.by_size(full=sets.MORE, quick=sets.MORE[-1:])
    names = sets.present(settings, sets.PAPER + more)
    known = runner.read(settings, "knn")
    todo: list[Cell] = []
    for name in names:
        todo += [{"set": name, "method": method} for method in ("dot", "cosine")]
        for method in LEARNED:
            todo += method_cells(settings, name, method)
    for name in names:
        if not settings.quick and sets.load(settings, name).has_test:
            todo += nearby(settings, name, known)
    for name in names:
        for method in LEARNED:
            todo += _more_draws(settings, name, method, known)
    return todo


def _more_draws(
    settings: Settings, name: str, method: str, known: dict[str, Line]
) -> list[Cell]:
    """Return the chosen cell of a method for more draws, once it is known."""
    lines = [
        known.get(runner.key(cell)) for cell in method_cells(settings, name, method)
    ]
    if None in lines:
        return []
    best = chosen([line for line in lines if line and "fold" not in line["cell"]])
    if not _varies(best):
        return []
    n_draws = settings.by_size(full=DRAWS, quick=2)
    return [{**best["cell"], "draw": draw} for draw in range(1, n_draws)]


def nearby(settings: Settings, name: str, known: dict[str, Line]) -> list[Cell]:
    """Return what HDSL with a prior tries after its grid, as far as lines decide it."""
    grid_cells = method_cells(settings, name, "hdsl_prior")
    lines = [known.get(runner.key(cell)) for cell in grid_cells]
    neighbors: list[Cell] = []
    while None not in lines and len(neighbors) < N_NEIGHBORS:
        best = chosen([line for line in lines if line])["cell"]
        new = [cell for cell in _neighbors(best, name) if cell not in neighbors]
        if not new:
            break
        neighbors += new
        lines += [known.get(runner.key(cell)) for cell in new]
    return neighbors


def _neighbors(cell: Cell, name: str) -> list[Cell]:
    """Return the neighbourhood of a cell, with longer paths."""
    changes = (
        {"scale": cell["scale"] * NEIGHBOR_FACTOR},
        {"scale": cell["scale"] / NEIGHBOR_FACTOR},
        {"prior": cell["prior"] * NEIGHBOR_FACTOR},
        {"prior": cell["prior"] / NEIGHBOR_FACTOR},
    )
    iterations = 2 * ITERATIONS.get(name, 1000)
    return [{**cell, **change, "iterations": iterations} for change in changes]


def _varies(line: Line) -> bool:
    """Return whether another seed can change a method: its triplets or features."""
    return line["cell"]["set"] == "dexter" or line["cell"]["method"] == "hdsl"


def method_cells(settings: Settings, name: str, method: str) -> list[Cell]:
    """Return the cells that a choice needs: on validation rows, and by folds too.

    There are folds where there are no test rows.
    """
    values = grid(settings, name, method)
    base = [{"set": name, "method": method, **value, "draw": 0} for value in values]
    if method == "hdsl_auto" or sets.load(settings, name).has_test:
        return base
    folds = range(_n_folds(settings))
    return base + [{**cell, "fold": fold} for cell in base for fold in folds]


def _n_folds(settings: Settings) -> int:
    return settings.by_size(full=FOLDS, quick=2)


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the errors of one cell."""
    parts = sets.load(settings, cell["set"])
    method = cell["method"]
    if method == "dot":
        return errors(parts)
    if method == "cosine":
        return errors(parts.map_sparse(normalize))
    if "fold" in cell:
        parts = _fold(settings, parts, cell["fold"])
    if method == "hdsl_auto":
        return _automatic(cell, parts)
    if method in ("diag_l1", "diag_l2"):
        return _diagonal(cell, parts)
    return _hdsl(settings, cell, parts)


def _fold(settings: Settings, parts: Parts, fold: int) -> Parts:
    """Return a fold of the training rows, which learns, and the rows that choose."""
    train, held_out = list(parts.folds(_n_folds(settings)))[fold]
    return parts._replace(
        X=parts.X[train],
        y=parts.y[train],
        X_val=parts.X[held_out],
        y_val=parts.y[held_out],
    )


def _automatic(cell: Cell, parts: Parts) -> dict[str, Any]:
    """Return the errors of HDSL with all at its defaults."""
    model = HDSL(random_state=cell["draw"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        runner.finished(model.fit(parts.X, parts.y))
    return {**errors(parts, model, cosine=True), **_size(model)}


def _diagonal(cell: Cell, parts: Parts) -> dict[str, Any]:
    """Return the errors of one weight per feature."""
    penalty = cell["method"][-2:]
    model = DiagonalSimilarity(
        penalty, alpha=cell["alpha"], random_state=cell["draw"], **parts.mining
    )
    with warnings.catch_warnings():
        # Small alphas stop at max_iter, which regularises.
        warnings.simplefilter("ignore")
        model.fit(parts.X, parts.y)
    n_features = model.n_active_features_
    return {**errors(parts, model.similarity_), "n_features": n_features}


def _hdsl(settings: Settings, cell: Cell, parts: Parts) -> dict[str, Any]:
    """Return the errors of the best model of a path, and the path's."""
    model = _path(settings, cell, parts)
    valid = (parts.X_val, parts.y_val)
    curve = paths.errors_along(
        model,
        lambda m: knn_error(m, parts.X, parts.y, *valid, cosine=False),
        settings.by_size(full=paths.N_MARKS, quick=8),
    )
    if "fold" in cell:
        return {"curve": curve, "valid": min(error for _, error in curve)}
    if cell["method"] == "hdsl" and cell["draw"] == 0:
        path = _model_path(settings, cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    best = model.at(paths.best_iteration(curve))
    return {
        **errors(parts, best),
        **_size(best),
        "length": model.n_iter_,
        "curve": curve,
    }


def _path(settings: Settings, cell: Cell, parts: Parts) -> HDSL:
    """Return the last model of the path that a cell asks for."""
    length = settings.by_size(full=ITERATIONS.get(cell["set"], 1000), quick=100)
    scale = cell["scale"]
    prior = 0.0
    oracle = "ascent"
    if cell["method"] == "hdsl":
        oracle = "heuristic"
    if cell["method"] == "hdsl_prior":
        units = _units(settings, cell["set"])
        scale = cell["scale"] * units.scale
        prior = cell["prior"] * units.prior
    mining = {**parts.mining, **WAYS[cell.get("way", "3x5")]}
    model = paper_hdsl(
        scale,
        prior=prior,
        oracle=oracle,
        max_iter=cell.get("iterations", length),
        random_state=cell["draw"],
        **mining,
    )
    with warnings.catch_warnings():
        # Classes of few rows, rows of unlike length.
        warnings.simplefilter("ignore", UserWarning)
        return runner.finished(model.fit(parts.X, parts.y))


def errors(
    parts: Parts, similarity: Any = None, *, cosine: bool = False
) -> dict[str, float]:
    """Return the errors on validation rows and, where they have labels, on test rows."""

    def error(X: Any, y: np.ndarray) -> float:
        return float(knn_error(similarity, parts.X, parts.y, X, y, cosine=cosine))

    answer = {"valid": error(parts.X_val, parts.y_val)}
    if parts.has_test:
        answer["test"] = error(parts.X_test, parts.y_test)
    return answer


def _size(model: HDSL) -> dict[str, Any]:
    """Return how large a model is, and what it learned with."""
    return {
        "n_iter": int(model.n_iter_),
        "n_atoms": len(model.weights_),
        "n_features": len(np.unique(model.atoms_[:, :2])),
        "used_scale": float(model.scale_),
        "used_prior": float(model.prior_),
    }


class Units(NamedTuple):
    """What scales and priors are multiples of."""

    scale: float
    prior: float


@lru_cache(maxsize=16)
def _units(settings: Settings, name: str) -> Units:
    """Return 10 √n max(1, s/80) / m and 1 / m of all training rows."""
    parts = sets.load(settings, name)
    m = sets.typical_margin(parts.X, triplets(parts))
    n = parts.X.shape[0]
    s = parts.X.nnz / parts.X.shape[0]
    return Units(
        scale=10.0 * float(np.sqrt(n)) * max(1.0, s / 80.0) / m,
        prior=1.0 / m,
    )


def triplets(parts: Parts, draw: int = 0) -> np.ndarray:
    """Return the triplets that the paper makes of a set."""
    if parts.mining.get("mining") == "random":
        return random_triplets(parts.y, 20, random_state=draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes of few rows
        return neighbor_triplets(parts.X, parts.y)


# --- choices --------------------------------------------------------------------------


def chosen(lines: list[Line]) -> Line:
    """Return the line with the lowest validation error, the first of equals."""
    return min(lines, key=lambda line: line["valid"])


def chosen_by_folds(lines: list[Line]) -> tuple[Line, float]:
    """Return the line that folds of the training rows choose, and its validation error.

    Where lines have a curve, folds also choose the number of iterations.
    """
    folds: dict[str, list[Line]] = defaultdict(list)
    whole: dict[str, Line] = {}
    for line in lines:
        cell = {name: value for name, value in line["cell"].items() if name != "fold"}
        if "fold" in line["cell"]:
            folds[runner.key(cell)].append(line)
        elif line["cell"]["draw"] == 0:
            whole[runner.key(cell)] = line
    if not folds:
        raise ValueError(
            "No line of a fold to choose by: compute the cells of all folds first."
        )
    candidates = [
        candidate
        for cell_key, fold_lines in folds.items()
        for candidate in _candidates(whole[cell_key], fold_lines)
    ]
    best = min(candidates, key=lambda candidate: candidate.fold_error)
    return best.line, best.error


class _Candidate(NamedTuple):
    """A line, its validation error after some iterations, and its mean error in folds."""

    line: Line
    error: float
    fold_error: float


def _candidates(line: Line, fold_lines: list[Line]) -> Iterator[_Candidate]:
    """Yield what folds can choose of a line: it, or each number of iterations."""
    if "curve" not in line:
        fold_error = float(np.mean([fold["valid"] for fold in fold_lines]))
        yield _Candidate(line, float(line["valid"]), fold_error)
        return
    for k in sorted({k for fold in fold_lines for k, _ in fold["curve"]}):
        fold_error = float(np.mean([_error_after(fold, k) for fold in fold_lines]))
        yield _Candidate(line, _error_after(line, k), fold_error)


def _error_after(line: Line, k: int) -> float:
    """Return the validation error at the last mark of at most k iterations.

    A path has its last error after its end, and its first one before its beginning.
    """
    before = [error for mark, error in line["curve"] if mark <= k]
    if not before:
        _, first = line["curve"][0]
        return float(first)
    return float(before[-1])


def chosen_model(settings: Settings, name: str) -> tuple[HDSL, HDSL]:
    """Return HDSL as published, and the last model of its path.

    The validation rows choose it.
    """
    todo = [cell for cell in method_cells(settings, name, "hdsl") if "fold" not in cell]
    known = runner.read(settings, "knn")
    has_lines = all(runner.key(cell) in known for cell in todo)
    has_models = all(_model_path(settings, cell).exists() for cell in todo)
    if not has_lines or not has_models:
        known = runner.run_cells("knn", todo, settings)
    best = chosen([known[runner.key(cell)] for cell in todo])
    last = load(_model_path(settings, best["cell"]))
    return last.at(best["n_iter"]), last


def _model_path(settings: Settings, cell: Cell) -> Path:
    return settings.out / "models" / f"{cell['set']}-hdsl-{cell['scale']:g}.hdsl"


# --- results --------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of errors, the table of choices, and the errors along paths."""
    by = by_set_and_method(lines)
    for line in runner.read(settings, "dimension").values():
        if line["cell"].get("method") in ("rp_oasis", "pca_oasis"):
            by[line["cell"]["set"], line["cell"]["method"]].append(line)
    names = set_names(lines)
    error_rows = []
    choice_rows = []
    for name in names:
        lines_of = {method: by[name, method] for method in COLUMNS if by[name, method]}
        error_rows += _error_rows(name, lines_of)
        rows_that_report = reported(lines_of["dot"][0])
        for method in LEARNED:
            if method in lines_of:
                choice = _choice_row(name, method, lines_of[method], rows_that_report)
                choice_rows.append(choice)
    head = [
        "set",
        "method",
        "chosen",
        "valid",
        "reported",
        "iterations",
        "atoms",
        "features",
        "seconds, all cells",
    ]
    tables = [
        Table("errors", ["set", "", *COLUMNS.values()], error_rows, _NOTES),
        Table("choices", head, choice_rows),
    ]
    return Results(tables, {"paths": lambda figure: _draw_paths(figure, names, by)})


def _error_rows(name: str, lines_of: dict[str, list[Line]]) -> list[list[str]]:
    """Return the errors of a set: ours, those that folds choose, the paper's."""
    where = reported(lines_of["dot"][0])
    texts = [cell_text(lines_of.get(method), where) for method in COLUMNS]
    rows = [[name, where, *texts]]
    if where == "valid":
        texts = [folds_text(lines_of.get(method)) for method in COLUMNS]
        rows.append(["", "valid, by folds", *texts])
    if name in PAPER:
        texts = [paper_text(PAPER[name], method) for method in COLUMNS]
        rows.append(["", "paper, test", *texts])
    return rows


_NOTES = (
    "In brackets the number of features used, where these are fewer than all. ± is "
    "the standard deviation over five draws of random triplets (dexter) and of the "
    "oracle's seed, each with the parameters that the first draw's validation error "
    "chose; the validation rows choose the iteration in each draw, as in the paper. "
    "Without ± a method has no randomness.",
    *sets.NOTES,
    "HDSL is the paper's: prior 0, its heuristic, λ in {1, …, 10⁹}, 3 × 5 "
    "neighbour triplets a row (dexter: 20 random ones). The paper does not say how "
    "long its runs were: 1,000 iterations, 4,000 on rcv1, of which the validation "
    "rows choose one.",
    "HDSL with prior: a coarse grid around what suits the margins of the dot "
    "product, and where there are test rows a search from its best point on, in "
    "steps of 2, on paths of twice that length. HDSL(): all at its defaults, by "
    "learned cosine.",
)


def cell_text(lines: list[Line] | None, where: str) -> str:
    """Return the error of what the first draw chose, over all draws.

    Behind it is the number of features used.
    """
    if not lines:
        return "–"
    best = chosen(_first_draw(lines))
    first_cell = {**best["cell"], "draw": 0}
    draws = [line for line in lines if {**line["cell"], "draw": 0} == first_cell]
    text = percent([line[where] for line in draws])
    features = [line["n_features"] for line in draws if "n_features" in line]
    if not features or best["cell"]["method"] == "diag_l2":
        return text
    return f"{text} [{np.mean(features):.0f}]"


def _first_draw(lines: list[Line]) -> list[Line]:
    """Return the lines of the first draw that learn from all training rows."""
    return [
        line
        for line in lines
        if line["cell"].get("draw", 0) == 0 and "fold" not in line["cell"]
    ]


def folds_text(lines: list[Line] | None) -> str:
    """Return the validation error of what folds chose."""
    if not lines or not any("fold" in line["cell"] for line in lines):
        return "–"
    return percent(chosen_by_folds(lines)[1])


def paper_text(figures: dict[str, tuple[float, int | None]], method: str) -> str:
    """Return the error of a method in the paper, and the features used."""
    if method not in figures:
        return "–"
    error, n_features = figures[method]
    if n_features is None:
        return f"{error:.1f}"
    return f"{error:.1f} [{n_features}]"


def _choice_row(name: str, method: str, lines: list[Line], where: str) -> list[str]:
    """Return what a method chose on a set, and what it reached."""
    best = chosen(_first_draw(lines))
    choices = []
    for parameter, value in best["cell"].items():
        if isinstance(value, float):
            choices.append(f"{parameter} {value:g}")
        elif parameter not in ("set", "method", "draw"):
            choices.append(f"{parameter} {value}")
    text = ", ".join(choices)
    numbers = [str(best.get(key, "")) for key in ("n_iter", "n_atoms", "n_features")]
    seconds = sum(line["seconds"] for line in lines)
    errors = [percent(best["valid"]), percent(best[where])]
    return [name, COLUMNS[method], text, *errors, *numbers, f"{seconds:.0f}"]


def _draw_paths(
    figure: Any, names: list[str], by: dict[tuple[str, str], list[Line]]
) -> None:
    """Draw validation errors along the path of the chosen parameters, one panel per set."""
    colors = {"hdsl": "#0072b2", "hdsl_ascent": "#009e73", "hdsl_prior": "#d55e00"}
    for axis, name in panels(figure, names):
        for method, color in colors.items():
            first = _first_draw(by[name, method])
            if first:
                k, error = np.array(chosen(first)["curve"]).T
                axis.plot(
                    np.maximum(k, 1), 100 * error, color=color, label=COLUMNS[method]
                )
        level = 100 * by[name, "cosine"][0]["valid"]
        axis.axhline(level, color="#888888", linestyle=":", label="cosine")
        axis.set(
            title=name, xscale="log", xlabel="iteration", ylabel="validation error, %"
        )
        axis.set_ylim(0, max(2.5 * level, 10))
    shared_legend(figure, axis, "lower")
