"""Seconds and memory of an iteration, against the paper's table of complexities."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hdsl.plots import COLORS, MARKERS

from .baselines import paper_hdsl
from .datasets import Recovery, make_recovery
from .results import Results, Table, shared_legend
from .runner import finished
from .settings import Cell, Line, Settings

TITLE = "Cost of an iteration"


class Variant(NamedTuple):
    """A line of the paper's table."""

    oracle: str
    batch: bool
    time: str
    time_exponents: Mapping[str, int]
    memory: str
    memory_exponents: Mapping[str, int]


VARIANTS = {
    "exact": Variant(
        "exact",
        False,
        "Ts² + Tk",
        {"T": 1, "s": 2, "d": 0, "k": 1},
        "Ts² + k",
        {"T": 1, "s": 2, "d": 0},
    ),
    "mini-batch": Variant(
        "exact",
        True,
        "Ms² + Tk",
        {"T": 1, "s": 2, "M": 1, "d": 0, "k": 1},
        "T + Ms² + k",
        {"T": 1, "s": 2, "M": 1, "d": 0},
    ),
    "heuristic": Variant(  # the paper has it with a mini-batch only; here M = T
        "heuristic",
        False,
        "Ts + Tk",
        {"T": 1, "s": 1, "d": 0, "k": 1},
        "Ts + k",
        {"T": 1, "s": 1, "d": 0},
    ),
    "mini-batch + heuristic": Variant(
        "heuristic",
        True,
        "Ms + Tk",
        {"T": 1, "s": 1, "M": 1, "d": 0, "k": 1},
        "T + Ms + k",
        {"T": 1, "s": 1, "M": 1, "d": 0},
    ),
}


#: The iterations that are timed are those after the first ones, which are not typical,
#: up to LAST.
FIRST = 5
LAST = 60

#: Iterations whose mean shows the effect of k.
WINDOWS = tuple((k, 2 * k) for k in (8, 16, 32, 64, 128, 256))


class RunLength(NamedTuple):
    """Iterations of a run.

    A slow one ends after `limit` seconds, once it has more than `fewest`.
    """

    n_iterations: int
    fewest: int
    limit: float


class Scope(NamedTuple):
    """Sizes that are tried, and what is timed at each.

    Attributes
    ----------
    base : dict
        Triplets, non-zeros per row, triplets per batch, features: one varies at a time.
    factors : tuple of float
        What a size is multiplied by.
    n_rows : int
    run, base_run : RunLength
        Of all sizes, and of the base, which shows the effect of k.
    n_repeats : int
        Number of equal runs. The shortest time of each iteration counts: it was
        disturbed least.
    """

    base: dict[str, int]
    factors: tuple[float, ...]
    n_rows: int
    run: RunLength
    base_run: RunLength
    n_repeats: int

    def is_base(self, cell: Cell) -> bool:
        """Return whether a cell has the sizes of the base."""
        return all(cell[name] == value for name, value in self.base.items())


FULL = Scope(
    base={"T": 40_000, "s": 40, "M": 2_000, "d": 8_000},
    factors=(0.25, 0.5, 2.0, 4.0),
    n_rows=2_000,
    run=RunLength(60, fewest=2 * FIRST, limit=1.5),
    base_run=RunLength(512, fewest=WINDOWS[2][1], limit=5.0),
    n_repeats=3,
)
QUICK = Scope(
    base={"T": 1_000, "s": 20, "M": 200, "d": 1_000},
    factors=(0.5, 2.0),
    n_rows=200,
    run=RunLength(15, fewest=2 * FIRST, limit=1.5),
    base_run=RunLength(128, fewest=WINDOWS[2][1], limit=5.0),
    n_repeats=1,
)


def cells(settings: Settings) -> list[Cell]:
    """Return variants at all sizes; neighbours of the same size share their data."""
    scope = settings.by_size(full=FULL, quick=QUICK)
    sizes = [scope.base]
    for name, value in scope.base.items():
        sizes += [{**scope.base, name: int(value * factor)} for factor in scope.factors]
    return [
        {"variant": name, **size}
        for size in sizes
        for name, variant in VARIANTS.items()
        if variant.batch or size["M"] == scope.base["M"]
    ]


class Clock:
    """Seconds of this process after each iteration of a run, and its end when slow.

    Other work on the machine does not count.
    """

    def __init__(self, run: RunLength) -> None:
        self.run = run
        self.seconds: list[float] = []

    def __call__(self, state: Any) -> bool:
        """Note the time, and return whether the run should end."""
        self.seconds.append(time.process_time())
        is_slow = self.seconds[-1] - self.seconds[0] > self.run.limit
        return is_slow and len(self.seconds) > self.run.fewest


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return CPU seconds per iteration, and the peak of memory.

    The peak is that beyond X and the triplets.
    """
    scope = settings.by_size(full=FULL, quick=QUICK)
    data = _data(scope.n_rows, cell["d"], cell["s"], cell["T"])
    _fit(cell, data, 1)  # loads the compiled code
    peak = _peak(cell, data)
    by_k = []
    if scope.is_base(cell):
        seconds = _seconds(cell, data, scope.base_run, scope.n_repeats)
        for first, last in WINDOWS:
            if last <= len(seconds):
                middle = float(np.sqrt(first * last))
                by_k.append([middle, float(seconds[first:last].mean())])
    else:
        seconds = _seconds(cell, data, scope.run, scope.n_repeats)
    return {
        "seconds_an_iteration": float(seconds[FIRST:LAST].mean()),
        "by_k": by_k,
        "peak": peak,
    }


def _fit(cell: Cell, data: Recovery, max_iter: int, callback: Any = None) -> None:
    """Fit the variant of a cell."""
    variant = VARIANTS[cell["variant"]]
    model = paper_hdsl(
        100.0,
        oracle=variant.oracle,
        batch_size=cell["M"] if variant.batch else None,
        max_iter=max_iter,
        random_state=0,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows of unlike length
        finished(model.fit(data.X, triplets=data.triplets, callback=callback))


def _peak(cell: Cell, data: Recovery) -> int:
    """Return the largest sum of all arrays of a fit, in bytes."""
    tracemalloc.start()
    _fit(cell, data, 3)  # all arrays exist after the first iterations
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _seconds(cell: Cell, data: Recovery, run: RunLength, n_repeats: int) -> np.ndarray:
    """Return the shortest seconds of each iteration over equal runs."""
    shortest = np.full(run.n_iterations, np.inf)
    for _ in range(n_repeats):
        clock = Clock(run)
        _fit(cell, data, run.n_iterations, clock)
        seconds = np.diff(clock.seconds)
        n = min(len(shortest), len(seconds))
        shortest = np.minimum(shortest[:n], seconds[:n])
    return shortest


@lru_cache(maxsize=1)
def _data(n_rows: int, d: int, s: int, n_triplets: int) -> Recovery:
    return make_recovery(
        n_rows, d, n_triplets=n_triplets, density=s / d, random_state=0
    )


# --- results --------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return exponents beside the paper's, and the times and sizes they were fitted to."""
    base = settings.by_size(full=FULL, quick=QUICK).base
    seconds = {
        name: _curves(lines, name, base, "seconds_an_iteration") for name in VARIANTS
    }
    for name, curves in seconds.items():
        curves["k"] = np.array(_at(lines, name, base)["by_k"])
    peaks = {name: _curves(lines, name, base, "peak") for name in VARIANTS}
    sizes = ", ".join(f"{name} = {value:,}" for name, value in base.items())
    time_table = Table(
        "time",
        [
            "variant",
            "paper",
            *(f"exponent of {name}" for name in (*base, "k")),
            "ms per iteration",
        ],
        [
            [
                name,
                variant.time,
                *_exponents(seconds[name], variant.time_exponents, (*base, "k")),
                f"{1000 * _at(lines, name, base)['seconds_an_iteration']:.1f}",
            ]
            for name, variant in VARIANTS.items()
        ],
        [
            f"Exponents fitted to CPU seconds when one size varies around {sizes}; in "
            "parentheses the largest that the paper's term allows. T: triplets, s: "
            "non-zeros a row, M: triplets in a batch, d: features, k: iterations so "
            "far. The milliseconds, with one thread, are those at these sizes.",
            "Exponents are lower than the paper's where the cost is not that of the "
            "paper's term: slopes are summed into one number a pair of rows, so that "
            "a row of the gradient costs one pass over X at most, whatever T is; the "
            "exact search remembers the best value of every row, bounds how much it "
            "can have risen, and looks at few rows again; terms of active atoms are "
            "kept, so that k costs little; and what is left is the constant cost of "
            "a step.",
            "A mini-batch saves nothing here: its pairs of rows are numbered anew, "
            "and an exact search of it can remember nothing, so that it computes all "
            "rows of the gradient. There are two ways to, sparse and dense; where "
            "the search passes from one to the other its curve jumps, and is no "
            "power.",
        ],
    )
    memory_table = Table(
        "memory",
        ["variant", "paper", *(f"exponent of {name}" for name in base), "measured"],
        [
            [
                name,
                variant.memory,
                *_exponents(peaks[name], variant.memory_exponents, tuple(base)),
                f"{_at(lines, name, base)['peak'] / 2**20:.0f} MiB",
            ]
            for name, variant in VARIANTS.items()
        ],
        [
            "Largest sum of all arrays of a fit, beyond X and the triplets, as Python "
            "counts them. No pair of features is ever stored: s² does not occur."
        ],
    )
    figures = {
        "time": lambda figure: _draw(figure, seconds, "CPU seconds an iteration"),
        "memory": lambda figure: _draw(figure, peaks, "bytes"),
    }
    return Results([time_table, memory_table], figures)


def _at(lines: list[Line], variant: str, size: Mapping[str, int]) -> Line:
    return next(line for line in lines if line["cell"] == {"variant": variant, **size})


def _curves(
    lines: list[Line], variant: str, base: Mapping[str, int], what: str
) -> dict[str, np.ndarray]:
    """Return, for each size that varies, its values and costs, shape (n_values, 2)."""
    curves = {}
    for name in base:
        points = [
            (line["cell"][name], line[what])
            for line in lines
            if line["cell"] == {"variant": variant, **base, name: line["cell"][name]}
        ]
        if len(points) > 1:
            curves[name] = np.array(sorted(points), dtype=float)
    return curves


def exponent(points: np.ndarray) -> float:
    """Return the slope of a straight line through the logarithms.

    Examples
    --------
    >>> round(exponent(np.array([[1.0, 3.0], [2.0, 12.0], [4.0, 48.0]])), 6)
    2.0
    """
    value, cost = np.log(points).T
    return float(np.polyfit(value, cost, 1)[0])


def _exponents(
    curves: dict[str, np.ndarray], paper: Mapping[str, int], names: tuple[str, ...]
) -> list[str]:
    def text(name: str) -> str:
        if name not in paper:
            return "–"
        return f"{exponent(curves[name]):.2f} ({paper[name]})"

    return [text(name) for name in names]


def _draw(figure: Any, curves: dict[str, dict[str, np.ndarray]], label: str) -> None:
    names = [
        name
        for name in (*FULL.base, "k")
        if any(name in points for points in curves.values())
    ]
    figure.set_size_inches(2.4 * len(names), 3.4)
    axes = figure.subplots(1, len(names), sharey=True)
    for ax, name in zip(axes, names, strict=True):
        ax.set(xscale="log", yscale="log", xlabel=name)
        for (variant, points), color, marker in zip(
            curves.items(), COLORS, MARKERS, strict=False
        ):
            if name in points:
                ax.plot(
                    *points[name].T,
                    color=color,
                    marker=marker,
                    ms=4,
                    lw=1.3,
                    label=variant,
                )
        points_of = [points[name] for points in curves.values() if name in points]
        values = np.unique(np.concatenate(points_of)[:, 0])
        ax.set_xticks(values, [f"{value:,.0f}" for value in values], rotation=45)
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes[0].set_ylabel(label)
    shared_legend(figure, axes[0], "upper")
