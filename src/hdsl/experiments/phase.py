"""When a sparse similarity is recovered: how many triplets its support needs.

The truth has k atoms inside two blocks of 2k features, d features in all. Triplets are added until
the support is found: the feature pairs of the k hidden atoms have the k largest |M_ij|, and the
hidden features the largest rows of M. The scale is k times a factor, so that a hidden entry is
about as large as the factor whatever k is. The number of triplets that a draw needs is found by
bisection: more triplets are taken to recover more.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..datasets import Recovery, make_recovery
from ..estimators.hdsl import HDSL
from ..evaluate import recovery_auc
from ..plots import COLORS, MARKERS
from .results import Results, Table
from .runner import Cell, Line, Settings, finished

TITLE = "When a sparse similarity can be recovered"

#: The setting that all others change in one thing.
BASE: dict[str, Any] = {
    "k": 4, "d": 256, "n": 600, "noise": 0.0, "correlation": 0.0, "oracle": "ascent",
    "init": "zero", "scale": 1.0,
}  # fmt: skip
QUICK_BASE: dict[str, Any] = {**BASE, "d": 128, "n": 200}

#: Sizes (k, d) for the law of growth.
SIZES = ((2, 256), (4, 256), (8, 256), (16, 256), (4, 128), (4, 512), (4, 1024), (8, 1024))
QUICK_SIZES = ((2, 64), (2, 128), (4, 64), (4, 128))

#: What else is changed, one at a time.
ROWS = (300, 1200)
NOISES = (0.1, 0.2)
CORRELATIONS = (0.3, 0.6, 0.9)
SCALES = (0.5, 2.0)
METHODS = [
    (oracle, init) for init in ("zero", "oracle") for oracle in ("ascent", "exact", "heuristic")
]

DENSITY, ALPHA = 0.1, 0.2
MAX_ITER, QUICK_MAX_ITER, TOL = 300, 100, 1e-4
N_DRAWS, QUICK_DRAWS = 10, 2

#: Numbers of triplets; those of a draw are the first of the largest number.
TRIPLETS = tuple(round(2 ** (n / 2)) for n in range(10, 26))  # 32 to 5,793
QUICK_TRIPLETS = TRIPLETS[2:11:4]

#: Fewer triplets per hidden atom are not tried.
FEWEST = 16

KINDS = ("features", "entries")
N_RESAMPLES = 2000


def counts_of(quick: bool) -> tuple[int, ...]:
    """Return the numbers of triplets."""
    return QUICK_TRIPLETS if quick else TRIPLETS


def settings_of(quick: bool) -> list[dict[str, Any]]:
    """Return every setting once."""
    base, sizes = (QUICK_BASE, QUICK_SIZES) if quick else (BASE, SIZES)
    made = [{**base, "k": k, "d": d} for k, d in sizes]
    axes = ("n", ROWS), ("noise", NOISES), ("correlation", CORRELATIONS), ("scale", SCALES)
    for name, values in axes:
        made += [{**base, name: value} for value in (values[-1:] if quick else values)]
    made += [{**base, "oracle": oracle, "init": init} for oracle, init in METHODS]
    return list({_key(setting): setting for setting in made}.values())


def _key(setting: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(setting[name] for name in BASE)


def cells(settings: Settings) -> list[Cell]:
    """Return the settings, with several draws of data each; the slowest of a draw first."""
    made = sorted(settings_of(settings.quick), key=lambda setting: -setting["d"])
    draws = range(QUICK_DRAWS if settings.quick else N_DRAWS)
    return [{**setting, "seed": seed} for seed in draws for setting in made]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the least number of triplets that recovers the features, and the entries."""
    counts = [n for n in counts_of(settings.quick) if n >= FEWEST * cell["k"]]
    truth = make_recovery(
        cell["n"], cell["d"], n_triplets=max(counts), alpha=ALPHA,
        density=DENSITY, n_atoms=cell["k"], block_size=2 * cell["k"], noise=cell["noise"],
        correlation=cell["correlation"], random_state=cell["seed"],
    )  # fmt: skip
    known: dict[int, tuple[bool, bool]] = {}

    def recovered(count: int, which: int) -> bool:
        if count not in known:
            known[count] = _recovered(settings, cell, truth, count)
        return known[count][which]

    return {kind: _least(counts, partial(recovered, which=n)) for n, kind in enumerate(KINDS)}


def _recovered(settings: Settings, cell: Cell, truth: Recovery, count: int) -> tuple[bool, bool]:
    """Return whether so many triplets recover the features, and the entries."""
    model = HDSL(
        cell["scale"] * cell["k"], prior=0.0, norm=None, oracle=cell["oracle"], init=cell["init"],
        max_iter=QUICK_MAX_ITER if settings.quick else MAX_ITER, tol=TOL,
        random_state=cell["seed"], n_jobs=1,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows of unlike length, and of runs cut short
        finished(model.fit(truth.X, triplets=truth.triplets[:count]))
    auc = recovery_auc(model.matrix(), truth.matrix)
    # An AUC is 1 where every hidden one ranks strictly before every other one.
    return auc.features == 1.0, auc.entries == 1.0


def _least(counts: Sequence[int], is_enough: Callable[[int], bool]) -> int | None:
    """Return the least of rising counts that is enough, by bisection; None if none is."""
    low, high = -1, len(counts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(counts[middle]) else (middle, high)
    return counts[high] if high < len(counts) else None


# --- thresholds and the law of growth ------------------------------------------------------------


class Interval(NamedTuple):
    """An estimate and the middle 95 % of its bootstrap values."""

    value: float
    low: float
    high: float

    def text(self, digits: int) -> str:
        """Return the estimate, with the interval in brackets."""
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def threshold(line: Line, kind: str) -> float:
    """Return the number of triplets that a draw needs; inf if it never recovers the support.

    It lies in the middle, on a logarithmic scale, of the least number that is enough and the number
    before it.
    """
    return math.inf if line[kind] is None else line[kind] / 2**0.25


def needed(thresholds: np.ndarray, rng: np.random.Generator) -> Interval:
    """Return the median number of triplets that draws need, with an interval by bootstrap."""
    medians = _medians(thresholds, rng)
    low, high = np.quantile(medians, [0.025, 0.975], method="closest_observation")
    return Interval(float(np.median(thresholds)), float(low), float(high))


def _medians(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the medians of bootstrap samples."""
    return np.median(values[rng.integers(len(values), size=(N_RESAMPLES, len(values)))], axis=1)


def growth(
    thresholds: dict[tuple[int, int], np.ndarray], rng: np.random.Generator
) -> tuple[dict[str, Interval], float]:
    """Return the exponents a, b of the median T ∝ k^a (log d)^b, and the R² of T ∝ k log d.

    Also the exponent of d in T ∝ k^a d^c. Draws are resampled within each (k, d); settings in
    which half of the draws find nothing are left out.
    """
    sizes = [size for size, own in thresholds.items() if np.isfinite(np.median(own))]
    k, d = np.array(sizes, dtype=float).T
    ones = np.ones(len(sizes))
    designs = [np.column_stack([ones, np.log(k), of_d]) for of_d in (np.log(np.log(d)), np.log(d))]

    def fits(values: np.ndarray) -> np.ndarray:
        """Return the exponents of k, log d and d for each column of values."""
        first, second = (np.linalg.lstsq(design, values, rcond=None)[0] for design in designs)
        return np.array([first[1], first[2], second[2]])

    medians = np.log([np.median(thresholds[size]) for size in sizes])
    values = np.array([_medians(thresholds[size], rng) for size in sizes])
    resampled = fits(np.log(values[:, np.isfinite(values).all(axis=0)])).T
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    exponents = dict(
        zip(
            ("k", "log d", "d"),
            map(Interval, fits(medians).tolist(), low.tolist(), high.tolist()),
            strict=True,
        )
    )
    rest = medians - np.log(k * np.log(d))
    spread = ((medians - medians.mean()) ** 2).sum()
    r2 = 1.0 - ((rest - rest.mean()) ** 2).sum() / spread if spread > 0 else math.nan
    return exponents, float(r2)


# --- tables --------------------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the probabilities, the numbers of triplets needed, and the law that they follow."""
    made = settings_of(settings.quick)
    groups = {_key(setting): [line for line in lines if _of(line) == setting] for setting in made}
    rng = np.random.default_rng(0)
    base, sizes = (QUICK_BASE, QUICK_SIZES) if settings.quick else (BASE, SIZES)
    by_size = {(k, d): groups[_key({**base, "k": k, "d": d})] for k, d in sizes}
    laws = {
        kind: growth({size: _thresholds(own, kind) for size, own in by_size.items()}, rng)
        for kind in KINDS
    }
    tables = [
        _law_table(laws, by_size),
        _needed_table(settings, groups, rng),
        _probability_table(groups, counts_of(settings.quick)),
    ]
    figures = {
        "diagrams": lambda figure: _draw_diagrams(figure, settings, groups, base),
        "law": lambda figure: _draw_law(figure, by_size),
        "methods": lambda figure: _draw_methods(figure, settings, groups, base),
    }
    return Results(tables, figures)


def _of(line: Line) -> dict[str, Any]:
    return {name: line["cell"][name] for name in BASE}


def _thresholds(lines: Iterable[Line], kind: str) -> np.ndarray:
    return np.array([threshold(line, kind) for line in lines])


def _law_table(
    laws: dict[str, tuple[dict[str, Interval], float]],
    by_size: dict[tuple[int, int], list[Line]],
) -> Table:
    return Table(
        "law",
        ["recovered", "exponent of k", "exponent of log d", "exponent of d instead",
         "R² of k log d"],
        [
            [kind, *(exponents[name].text(2) for name in ("k", "log d", "d")), f"{r2:.3f}"]
            for kind, (exponents, r2) in laws.items()
        ],
        [
            "Median number of triplets T that a draw needs, over (k, d) = "
            f"{', '.join(f'({k}, {d})' for k, d in by_size)}, fitted by least squares on "
            "logarithms: T ∝ kᵃ (log d)ᵇ, and T ∝ kᵃ dᶜ instead. In brackets 95 % of "
            f"{N_RESAMPLES:,} bootstrap samples of the draws. The last column is the share of the "
            "variance of log T that T ∝ k log d, with no exponent fitted, explains.",
        ],
    )  # fmt: skip


def _needed_table(
    settings: Settings, groups: dict[tuple[Any, ...], list[Line]], rng: np.random.Generator
) -> Table:
    rows = []
    for key, lines in groups.items():
        setting = dict(zip(BASE, key, strict=True))
        medians = [needed(_thresholds(lines, kind), rng) for kind in KINDS]
        unit = setting["k"] * math.log(setting["d"])
        rows.append(
            [
                str(setting["k"]), f"{setting['d']:,}", f"{setting['n']:,}",
                f"{setting['noise']:g}",
                f"{setting['correlation']:g}", setting["oracle"], _domain(setting["init"]),
                f"{setting['scale']:g}k", *(_count(median) for median in medians),
                _ratio(medians[1].value, unit),
            ]
        )  # fmt: skip
    triplets = counts_of(settings.quick)
    return Table(
        "needed",
        ["k", "d", "rows", "noise", "correlation", "oracle", "domain", "scale", "features",
         "entries", "entries / (k log d)"],
        rows,
        [
            f"Median number of triplets of {len(next(iter(groups.values())))} draws that "
            "recovers the support, and 95 % of its bootstrap values. Features and entries: the "
            f"hidden ones have the largest values. Rows of density {DENSITY:g}, "
            f"α = {ALPHA:g}, {FEWEST}k to {triplets[-1]:,} triplets, a gap of at most {TOL:g} or "
            f"{MAX_ITER:,} iterations.",
        ],
    )  # fmt: skip


def _domain(init: str) -> str:
    return "with 0" if init == "zero" else "paper's"


def _count(found: Interval) -> str:
    texts = ["never" if math.isinf(value) else f"{value:,.0f}" for value in found]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _ratio(median: float, unit: float) -> str:
    return "–" if math.isinf(median) else f"{median / unit:.1f}"


def _shares(lines: Sequence[Line], kind: str, counts: Sequence[int]) -> list[float]:
    """Return the share of draws whose support each number of triplets recovers."""
    least = [math.inf if line[kind] is None else line[kind] for line in lines]
    return [float(np.mean([own <= count for own in least])) for count in counts]


def _probability_table(groups: dict[tuple[Any, ...], list[Line]], counts: Sequence[int]) -> Table:
    rows: list[list[Any]] = []
    for key, lines in groups.items():
        shares = [_shares(lines, kind, counts) for kind in KINDS]
        rows += [
            [*key, count, len(lines), *(f"{share:g}" for share in own)]
            for count, *own in zip(counts, *shares, strict=True)
        ]
    head = [*BASE, "triplets", "draws", *KINDS]
    return Table("probability", head, rows, shown=False)


# --- figures -------------------------------------------------------------------------------------


def _draw_diagrams(
    figure: Any,
    settings: Settings,
    groups: dict[tuple[Any, ...], list[Line]],
    base: dict[str, Any],
) -> None:
    """Draw the probability over the number of triplets and k, d, noise or correlation."""
    names = {"k": "hidden atoms k", "d": "features d", "n": "rows",
             "noise": "judgements turned round",
             "correlation": "correlation of neighbours"}  # fmt: skip
    figure.set_size_inches(16, 5.6)
    axes = figure.subplots(2, len(names), sharex=True)
    counts = counts_of(settings.quick)
    for column, (name, label) in zip(axes.T, names.items(), strict=True):
        values = sorted(
            key[list(BASE).index(name)] for key in groups
            if {**dict(zip(BASE, key, strict=True)), name: None} == {**base, name: None}
        )  # fmt: skip
        for ax, kind in zip(column, KINDS, strict=False):
            table = [_shares(groups[_key({**base, name: value})], kind, counts) for value in values]
            edges = np.append(np.array(counts), counts[-1] ** 2 / counts[-2])
            edges = edges / math.sqrt(counts[1] / counts[0])
            mesh = ax.pcolormesh(
                edges, np.arange(len(values) + 1) - 0.5, np.array(table), cmap="cividis", vmin=0,
                vmax=1,
            )  # fmt: skip
            ax.set(xscale="log", yticks=range(len(values)), title=f"{kind} recovered")
            ax.set_yticklabels([f"{value:,}" for value in values])
        column[0].set_ylabel(label)
        column[1].set(xlabel="triplets", ylabel=label)
    figure.colorbar(mesh, ax=axes, label="share of draws", shrink=0.6)


def _draw_law(figure: Any, by_size: dict[tuple[int, int], list[Line]]) -> None:
    """Draw the number of triplets needed over k log d."""
    figure.set_size_inches(9, 3.6)
    ks = sorted({k for k, _ in by_size})
    for ax, kind in zip(figure.subplots(1, 2, sharey=True), KINDS, strict=False):
        for k, color, marker in zip(ks, COLORS, MARKERS, strict=False):
            units, medians = [], []
            for (own, d), lines in by_size.items():
                median = np.median(_thresholds(lines, kind))
                if own == k and np.isfinite(median):
                    units.append(k * math.log(d))
                    medians.append(median)
            ax.plot(units, medians, color=color, marker=marker, label=f"k = {k}")
        ax.set(xscale="log", yscale="log", xlabel="k log d", title=f"{kind} recovered")
        low, high = ax.get_xlim()
        middle = np.array([low, high])
        anchor = np.median([np.median(_thresholds(own, kind)) / (k * math.log(d))
                            for (k, d), own in by_size.items()])  # fmt: skip
        if np.isfinite(anchor):
            ax.plot(middle, anchor * middle, color="gray", ls=":", label="∝ k log d")
        ax.set_xlim(low, high)
    figure.axes[0].set_ylabel("triplets needed, median")
    figure.axes[0].legend(frameon=False)


def _draw_methods(
    figure: Any,
    settings: Settings,
    groups: dict[tuple[Any, ...], list[Line]],
    base: dict[str, Any],
) -> None:
    """Draw the probability for each oracle and domain."""
    figure.set_size_inches(9, 3.4)
    counts = counts_of(settings.quick)
    for ax, kind in zip(figure.subplots(1, 2, sharey=True), KINDS, strict=False):
        for (oracle, init), color, marker in zip(METHODS, COLORS, MARKERS, strict=False):
            shares = _shares(groups[_key({**base, "oracle": oracle, "init": init})], kind, counts)
            ax.plot(
                counts, shares, color=color, marker=marker, ms=3,
                label=f"{oracle}, domain {_domain(init)}",
            )  # fmt: skip
        ax.set(xscale="log", xlabel="triplets", title=f"{kind} recovered")
    figure.axes[0].set_ylabel("share of draws")
    figure.axes[1].legend(frameon=False, fontsize=8)
