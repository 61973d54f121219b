"""The paper's table of SVM errors, chosen on validation rows, beside HDSL.

Where test labels were never published (dexter, dorothea), the validation rows choose
and report. A second error is that of what five folds of the training rows chose.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from . import knn, machines, runner, sets
from .results import Results, Table, by_set_and_method, percent, reported, set_names
from .sets import Parts
from .settings import Cell, Line, Settings

TITLE = "Errors of support vector machines, in percent"

#: The paper's grid.
COSTS = tuple(10.0**e for e in range(-9, 9))

#: Most passes over the data, liblinear's own limit, and most steps of libsvm.
PASSES = 1000
STEPS = 1_000_000

COLUMNS = {
    "poly_2": "poly-2",
    "poly_3": "poly-3",
    "linear_l2": "linear-ℓ2",
    "linear_l1": "linear-ℓ1",
    "linear_rest": "linear-ℓ2, one against the rest",
    "hdsl": "HDSL",
    "hdsl_prior": "HDSL with prior",
}
METHODS = tuple(COLUMNS)[:5]
HDSL_METHODS = tuple(COLUMNS)[5:]

#: What the paper reports: error, and features used where these are fewer than all.
PAPER: dict[str, dict[str, tuple[float, int | None]]] = {
    "dexter": {
        "poly_2": (9.4, None),
        "poly_3": (9.2, None),
        "linear_l2": (8.9, None),
        "linear_l1": (8.9, 281),
    },
    "dorothea": {
        "poly_2": (7.0, None),
        "poly_3": (6.6, None),
        "linear_l2": (8.1, None),
        "linear_l1": (6.6, 366),
    },
    "rcv1_2": {
        "poly_2": (3.4, None),
        "poly_3": (3.3, None),
        "linear_l2": (3.5, None),
        "linear_l1": (4.0, 1915),
    },
    "rcv1_4": {
        "poly_2": (5.7, None),
        "poly_3": (5.7, None),
        "linear_l2": (5.1, None),
        "linear_l1": (5.7, 2770),
    },
}


# --- cells ----------------------------------------------------------------------------


def cells(settings: Settings) -> list[Cell]:
    """Return every value of C for every set and method, and of gamma for kernels."""
    every = settings.by_size(full=sets.PAPER + sets.MORE, quick=sets.PAPER[::3])
    costs = settings.by_size(full=COSTS, quick=COSTS[3::4])
    return [
        {"set": name, "method": method, **kernel, "C": C}
        for name in sets.present(settings, every)
        for method in METHODS
        for kernel in _kernels(settings, name, method)
        for C in costs
    ]


def _kernels(settings: Settings, name: str, method: str) -> list[dict[str, float]]:
    """Return the kernels of a method; linear ones have no parameter.

    Gamma is 1 and 1 / (mean squared length of a row), once where they are the same.
    """
    if not method.startswith("poly"):
        return [{}]
    typical = sets.load(settings, name).X.power(2).sum(axis=1).mean()
    gammas = dict.fromkeys((1.0, float(f"{1.0 / typical:.3g}")))
    return [{"gamma": gamma} for gamma in gammas]


class _Settled(NamedTuple):
    """The least C that no dual coefficient reached, and the answer."""

    C: float
    answer: dict[str, Any]


#: By kernel, in this process.
_settled: dict[tuple[Any, ...], _Settled] = {}


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the errors of one cell."""
    C = cell["C"]
    method = cell["method"]
    gamma = cell.get("gamma")
    problem = (settings, cell["set"], method, gamma)
    settled = _settled.get(problem)
    if settled is not None and settled.C <= C:
        return {**settled.answer, "same_as": settled.C}
    parts = sets.load(settings, cell["set"])
    if gamma is not None:
        parts = _kernel(settings, cell["set"], int(method[-1]), gamma)
    model = _fit(cell, parts.X, parts.y)
    models = [model]
    answer = {"valid": _error(model, parts.X_val, parts.y_val)}
    if parts.has_test:
        answer["test"] = _error(model, parts.X_test, parts.y_test)
    else:
        errors = []
        for train, held_out in parts.folds(knn.FOLDS):
            rows = parts.X[train]
            others = parts.X[held_out]
            if gamma is not None:  # a kernel has a column for each training row
                rows = rows[:, train]
                others = others[:, train]
            fitted = _fit(cell, rows, parts.y[train])
            models.append(fitted)
            errors.append(_error(fitted, others, parts.y[held_out]))
        answer["folds"] = float(np.mean(errors))
    if method == "linear_l1":
        answer["n_features"] = machines.n_active_features(model)
    answer["converged"] = all(map(_converged, models))
    # Where no constraint α ≤ C is active, a larger C has the same solution: the problem
    # is convex.
    is_kernel = gamma is not None
    if is_kernel and answer["converged"] and all(_is_free(fit, C) for fit in models):
        _settled[problem] = _Settled(C, answer)
    return answer


def _fit(cell: Cell, X: Any, y: np.ndarray) -> Any:
    C = cell["C"]
    method = cell["method"]
    if "gamma" in cell:
        model = SVC(kernel="precomputed", C=C, max_iter=STEPS, cache_size=500)
    elif method == "linear_rest":  # beyond the paper: the usual choice
        model = LinearSVC(C=C, max_iter=PASSES, random_state=0)
    else:
        model = machines.linear_svm(method[-2:], C, max_iter=PASSES, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the answer records it
        return model.fit(X, y)


def _error(model: Any, X: Any, y: np.ndarray) -> float:
    return 1.0 - float(model.score(X, y))


def _converged(model: Any) -> bool:
    """Return whether no solver ended at its limit."""
    machines = getattr(model, "estimators_", [model])
    limit = STEPS if isinstance(model, SVC) else PASSES
    return all(np.max(machine.n_iter_) < limit for machine in machines)


def _is_free(model: SVC, C: float) -> bool:
    """Return whether no dual coefficient reaches C."""
    return float(np.abs(model.dual_coef_).max()) < C


@lru_cache(maxsize=1)
def _kernel(settings: Settings, name: str, degree: int, gamma: float) -> Parts:
    """Return the parts with rows of the kernel matrix; cells of one kernel share it."""
    parts = sets.load(settings, name)
    return parts.map(lambda rows: polynomial(rows, parts.X, degree, gamma))


def polynomial(X: Any, Y: Any, degree: int, gamma: float) -> np.ndarray:
    """Return the kernel (gamma·⟨x, y⟩ + 1)^degree of all rows of X and Y.

    Parameters
    ----------
    X, Y : sparse arrays of shape (n_rows, n_features), (n_others, n_features)
    degree : int
    gamma : float

    Returns
    -------
    ndarray of shape (n_rows, n_others)

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> polynomial(sp.csr_array([[1, 2]]), sp.csr_array([[2, 0], [0, 1]]), 2, 1.0).tolist()
    [[9.0, 9.0]]
    """
    K = np.empty((X.shape[0], Y.shape[0]))
    # A sparse product of all rows, which is hardly sparse, would take twice the memory.
    block = 512
    for first in range(0, len(K), block):
        K[first : first + block] = (X[first : first + block] @ Y.T).toarray()
    K *= gamma
    K += 1.0
    return np.power(K, degree, out=K)


# --- results --------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of errors and the table of choices."""
    by = by_set_and_method(lines)
    error_rows = []
    choice_rows = []
    for name in set_names(lines):
        where = reported(by[name, METHODS[0]][0])
        lines_of = {method: by[name, method] for method in METHODS}
        hdsl_lines = [_hdsl_lines(settings, name, method) for method in HDSL_METHODS]
        error_rows += _error_rows(name, where, lines_of, hdsl_lines)
        choice_rows += [
            _choice_row(name, method, lines_of[method], where) for method in METHODS
        ]
    head = [
        "set",
        "method",
        "C",
        "gamma",
        "valid",
        "reported",
        "converged",
        "seconds, all cells",
    ]
    return Results(
        [
            Table("errors", ["set", "", *COLUMNS.values()], error_rows, _NOTES),
            Table("choices", head, choice_rows),
        ]
    )


def _error_rows(
    name: str,
    where: str,
    lines_of: dict[str, list[Line]],
    hdsl_lines: list[list[Line]],
) -> list[list[str]]:
    """Return the errors of a set: chosen on validation rows, by folds, the paper's."""
    texts = [_text(knn.chosen(lines), where) for lines in lines_of.values()]
    texts += [knn.cell_text(lines, where) for lines in hdsl_lines]
    rows = [[name, where, *texts]]
    if where == "valid":
        texts = [_text(chosen_by_folds(lines), where) for lines in lines_of.values()]
        texts += [knn.folds_text(lines) for lines in hdsl_lines]
        rows.append(["", "valid, by folds", *texts])
    if name in PAPER:
        paper = {**PAPER[name], "hdsl": knn.PAPER[name]["hdsl"]}
        texts = [knn.paper_text(paper, method) for method in COLUMNS]
        rows.append(["", "paper, test", *texts])
    return rows


_NOTES = (
    "In brackets the number of features used, where these are fewer than all. C in "
    "{10⁻⁹, …, 10⁸}, of equals the smallest; more than two classes one against one.",
    "The kernel is (γ⟨x, x'⟩ + 1)^degree, solved by libsvm, hinge loss. The paper "
    "names neither γ nor the constant: γ is 1 or 1 / (mean squared length of a "
    "training row), chosen with C. Where no dual coefficient reaches C, larger ones "
    "have the same solution and are not solved again; a solution takes at most "
    "1,000,000 steps.",
    "The linear ones are liblinear's, squared hinge loss, at most 1,000 passes "
    "(liblinear's own limit), which large C reach.",
    *sets.NOTES,
    "HDSL's columns are those of the experiment knn, where it has been run.",
)


def chosen_by_folds(lines: list[Line]) -> Line:
    """Return the line with the lowest error in folds; of equals the first."""
    return min(lines, key=lambda line: line["folds"])


def _text(line: Line, where: str) -> str:
    """Return the error of a line, and the number of features used where it has one."""
    if "n_features" in line:
        return f"{percent(line[where])} [{line['n_features']}]"
    return percent(line[where])


def _hdsl_lines(settings: Settings, name: str, method: str) -> list[Line]:
    """Return the lines of HDSL, or none if the choice still lacks some."""
    known = runner.read(settings, "knn")
    todo = knn.method_cells(settings, name, method)
    if any(runner.key(cell) not in known for cell in todo):
        return []
    this = {"set": name, "method": method}
    return [line for line in known.values() if this.items() <= line["cell"].items()]


def _choice_row(name: str, method: str, lines: list[Line], where: str) -> list[str]:
    """Return what a method chose on a set, and what it reached."""
    best = knn.chosen(lines)
    gamma = ""
    if "gamma" in best["cell"]:
        gamma = f"{best['cell']['gamma']:g}"
    return [
        name,
        COLUMNS[method],
        f"{best['cell']['C']:g}",
        gamma,
        percent(best["valid"]),
        percent(best[where]),
        "yes" if best["converged"] else "no",
        f"{sum(line['seconds'] for line in lines):.0f}",
    ]
