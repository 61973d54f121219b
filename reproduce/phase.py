"""When a sparse similarity is recovered: how many triplets its support needs.

The truth has k atoms inside two blocks of 2k features, d features in all. Triplets are
added until the support is found: the feature pairs of the k hidden atoms have the k
largest |M_ij|, and the hidden features the largest rows of M. The scale is k times a
factor, so that a hidden entry is about as large as the factor whatever k is.

Each draw of data is tried with every number of triplets, from few on. After three
successes in a row the largest number is tried: if it succeeds too, those between count
as successes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL
from hdsl.plots import COLORS, MARKERS

from . import thresholds
from .auc import recovery_auc
from .baselines import paper_hdsl
from .datasets import Recovery, make_recovery
from .results import Results, Table, panels, shared_legend
from .runner import finished
from .settings import Cell, Line, Settings
from .thresholds import Interval, Sample

TITLE = "When a sparse similarity can be recovered"

Setting = dict[str, Any]

#: The setting that all others change in one thing or two.
BASE: Setting = {
    "k": 4,
    "d": 256,
    "n": 600,
    "density": 0.1,
    "noise": 0.0,
    "correlation": 0.0,
    "scale": 1.0,
    "oracle": "ascent",
    "init": "zero",
}
QUICK_BASE: Setting = {**BASE, "d": 128, "n": 200, "density": 0.2}


class Law(NamedTuple):
    """Sizes (k, d) over which growth is measured, and what else is not as in the base."""

    name: str
    sizes: tuple[tuple[int, int], ...]
    other: Setting


#: k at two numbers of features, and d at two numbers of atoms.
SIZES = (
    *((k, 256) for k in (2, 4, 8, 16, 32)),
    *((k, 1024) for k in (2, 4, 8, 16)),
    *((4, d) for d in (32, 64, 128, 512)),
    *((8, d) for d in (64, 128, 512)),
)
LAWS = (
    Law("density 0.1", (*SIZES, (4, 2048), (4, 4096)), {}),
    Law("density 0.3", SIZES, {"density": 0.3}),
    Law(
        "noise 0.2",
        ((2, 256), (4, 256), (8, 256), (16, 256), (4, 64), (4, 1024)),
        {"noise": 0.2},
    ),
)
QUICK_LAWS = (Law("density 0.2", ((2, 64), (2, 128), (4, 64), (4, 128)), {}),)

#: What else is changed, one at a time.
AXES: dict[str, tuple[float, ...]] = {
    "n": (150, 300, 1200, 2400),
    "density": (0.05, 0.2, 0.5),
    "noise": (0.05, 0.1, 0.2, 0.3, 0.4),
    "correlation": (0.1, 0.3, 0.5, 0.7, 0.9),
    "scale": (0.25, 0.5, 2.0, 4.0),
}
QUICK_AXES: dict[str, tuple[float, ...]] = {
    "noise": (0.2,),
    "correlation": (0.6,),
    "n": (400,),
}

#: Oracles and domains, in several conditions.
METHODS = [
    (oracle, init)
    for init in ("zero", "oracle")
    for oracle in ("ascent", "exact", "heuristic")
]
CONDITIONS: dict[str, Setting] = {
    "k = 4": {},
    "k = 16": {"k": 16},
    "noise 0.2": {"noise": 0.2},
    "scale 4k": {"scale": 4.0},
}

ALPHA = 0.2
MAX_ITER = 500
QUICK_MAX_ITER = 60
TOL = 1e-4
N_DRAWS = 20
QUICK_DRAWS = 2

#: Draws of the methods that are compared with the base, the first ones.
N_PAIRED = 12

#: Numbers of triplets; those of a draw are the first of the largest number.
TRIPLETS = tuple(round(2 ** (n / 2)) for n in range(8, 30))  # 16 to 23,170
QUICK_TRIPLETS = TRIPLETS[3:16:2]

#: Fewer triplets per hidden atom are not tried.
FEWEST = 8

#: Successes in a row after which only the largest number is tried.
ENOUGH = 3

KINDS = ("features", "entries")
N_RESAMPLES = 1000
QUICK_RESAMPLES = 100


# --- design ---------------------------------------------------------------------------


def base_of(quick: bool) -> Setting:
    """Return the setting that others change."""
    return QUICK_BASE if quick else BASE


def laws_of(quick: bool) -> tuple[Law, ...]:
    """Return the laws of growth that are fitted."""
    return QUICK_LAWS if quick else LAWS


def conditions_of(quick: bool) -> dict[str, Setting]:
    """Return the conditions in which oracles and domains are compared."""
    return {"k = 4": {}} if quick else CONDITIONS


def methods_of(quick: bool) -> list[tuple[str, str]]:
    """Return the oracles and domains that are compared."""
    return METHODS[::3] if quick else METHODS


def counts_of(quick: bool, k: int) -> list[int]:
    """Return the numbers of triplets tried for k hidden atoms."""
    return [n for n in (QUICK_TRIPLETS if quick else TRIPLETS) if n >= FEWEST * k]


def settings_of(quick: bool) -> list[Setting]:
    """Return every setting once."""
    base = base_of(quick)
    made = [
        {**base, **law.other, "k": k, "d": d}
        for law in laws_of(quick)
        for k, d in sorted(law.sizes)
    ]
    for name, values in (QUICK_AXES if quick else AXES).items():
        made += [{**base, name: value} for value in values]
    for other in conditions_of(quick).values():
        made += [
            {**base, **other, "oracle": oracle, "init": init}
            for oracle, init in methods_of(quick)
        ]
    return list({_key(setting): setting for setting in made}.values())


def _key(setting: Setting) -> tuple[Any, ...]:
    return tuple(setting[name] for name in BASE)


def cells(settings: Settings) -> list[Cell]:
    """Return the settings, with several draws of data each; the slowest of a draw first."""
    made = sorted(
        settings_of(settings.quick),
        key=lambda setting: -setting["d"] * setting["density"],
    )
    n_draws, n_paired = (
        (QUICK_DRAWS, QUICK_DRAWS) if settings.quick else (N_DRAWS, N_PAIRED)
    )
    return [
        {**setting, "seed": seed}
        for seed in range(n_draws)
        for setting in made
        if seed < n_paired or is_default_method(setting)
    ]


def is_default_method(setting: Setting) -> bool:
    """Return whether oracle and domain are those of the base."""
    return (setting["oracle"], setting["init"]) == METHODS[0]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return which numbers of triplets recover the features, and the entries.

    Also whether the largest one finds no other entry (`only`), the share of judgements
    that the truth decides (`decided`), and how many of the fits were cut short.
    """
    counts = counts_of(settings.quick, cell["k"])
    truth = make_recovery(
        cell["n"],
        cell["d"],
        n_triplets=counts[-1],
        alpha=ALPHA,
        density=cell["density"],
        n_atoms=cell["k"],
        block_size=2 * cell["k"],
        noise=cell["noise"],
        correlation=cell["correlation"],
        random_state=cell["seed"],
    )
    found: dict[int, tuple[bool, bool]] = {}
    n_cut = 0
    only = False

    def is_found(count: int) -> bool:
        nonlocal n_cut, only
        if count not in found:
            model = _fitted(settings, cell, truth, count)
            # An AUC is 1 where every hidden one ranks strictly before every other one.
            auc = recovery_auc(model.matrix(), truth.matrix)
            found[count] = (auc.features == 1.0, auc.entries == 1.0)
            n_cut += int(model.gap_ > TOL)
            if count == counts[-1]:
                n_entries = sp.triu(model.matrix(), k=1).count_nonzero()
                only = found[count][1] and int(n_entries) == cell["k"]
        return all(found[count])

    in_a_row = 0
    for count in counts:
        in_a_row = in_a_row + 1 if is_found(count) else 0
        if in_a_row == ENOUGH and is_found(counts[-1]):
            break
    n_fits = len(found)
    answers = zip(*(found.get(count, (True, True)) for count in counts), strict=True)
    return {
        **dict(zip(KINDS, map(list, answers), strict=True)),
        "only": only,
        "decided": _decided(truth),
        "n_fits": n_fits,
        "n_cut": n_cut,
    }


def _fitted(settings: Settings, cell: Cell, truth: Recovery, count: int) -> HDSL:
    model = paper_hdsl(
        cell["scale"] * cell["k"],
        oracle=cell["oracle"],
        init=cell["init"],
        max_iter=QUICK_MAX_ITER if settings.quick else MAX_ITER,
        tol=TOL,
        random_state=cell["seed"],
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of rows of unlike length, and of runs cut short
        return finished(model.fit(truth.X, triplets=truth.triplets[:count]))


def _decided(truth: Recovery) -> float:
    """Return the share of judgements whose rows are not equally similar by the truth."""
    anchor, positive, negative = truth.triplets.T
    difference = truth.X[positive] - truth.X[negative]
    margins = (truth.X @ truth.matrix)[anchor].multiply(difference).sum(axis=1)
    return float((np.abs(margins) > 1e-12).mean())


# --- tables ---------------------------------------------------------------------------


class Groups:
    """The lines of each setting, and what is asked of them."""

    def __init__(self, settings: Settings, lines: Iterable[Line]) -> None:
        self.quick = settings.quick
        self.base = base_of(settings.quick)
        self.n_resamples = QUICK_RESAMPLES if settings.quick else N_RESAMPLES
        self.rng = np.random.default_rng(0)
        self._lines: dict[tuple[Any, ...], list[Line]] = {}
        for line in lines:
            self._lines.setdefault(_key(line["cell"]), []).append(line)

    def of(self, **other: Any) -> list[Line]:
        """Return the lines of a setting, by what is not as in the base."""
        return self._lines[_key({**self.base, **other})]

    def along(self, name: str) -> list[float]:
        """Return the values of one parameter for which all others are as in the base."""
        rest = {**self.base, name: None}
        made = (dict(zip(BASE, key, strict=True)) for key in self._lines)
        return sorted(
            setting[name] for setting in made if {**setting, name: None} == rest
        )

    def sample(self, kind: str, factors: dict[str, float], **other: Any) -> Sample:
        """Return the draws of a setting with the factors of a law."""
        lines = self.of(**other)
        counts = counts_of(self.quick, lines[0]["cell"]["k"])
        return Sample(factors, counts, np.array([line[kind] for line in lines]))

    def thresholds(self, kind: str, **other: Any) -> np.ndarray:
        """Return the number of triplets that each draw of a setting needs."""
        sample = self.sample(kind, {}, **other)
        return np.array(
            [thresholds.threshold(sample.counts, found) for found in sample.recovered]
        )

    def median(self, kind: str, **other: Any) -> Interval:
        """Return the median number of triplets that the draws of a setting need."""
        return thresholds.median(
            self.thresholds(kind, **other), self.n_resamples, self.rng
        )

    def shares(self, kind: str, counts: Sequence[int], **other: Any) -> list[float]:
        """Return the share of draws whose support each number recovers; 0 where it is not tried."""
        sample = self.sample(kind, {}, **other)
        known = dict(
            zip(sample.counts, sample.recovered.mean(axis=0).tolist(), strict=True)
        )
        return [known.get(count, 0.0) for count in counts]


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the laws of growth, the numbers needed, the methods, and the probabilities."""
    groups = Groups(settings, lines)
    paired = Groups(
        settings, [line for line in lines if line["cell"]["seed"] < N_PAIRED]
    )
    tables = [
        _law_table(groups),
        _noise_table(groups),
        _needed_table(groups, lines),
        _methods_table(paired),
        _probability_table(groups),
    ]
    figures = {f"diagrams-{kind}": _diagrams(groups, kind) for kind in KINDS}
    figures["law"] = lambda figure: _draw_law(figure, groups)
    figures["methods"] = lambda figure: _draw_methods(figure, paired)
    return Results(tables, figures)


def _law_table(groups: Groups) -> Table:
    rows = []
    for law in laws_of(groups.quick):
        for kind in KINDS:
            samples = [
                groups.sample(
                    kind,
                    {"k": k, "log d": math.log(d), "d": d, "k log d": k * math.log(d)},
                    **law.other,
                    k=k,
                    d=d,
                )
                for k, d in law.sizes
            ]
            logarithmic, power = (
                thresholds.exponents(samples, names, groups.n_resamples, groups.rng)
                for names in (("k", "log d"), ("k", "d"))
            )
            share = thresholds.explained(samples, "k log d", ("k", "log d"))
            found = (logarithmic["k"], logarithmic["log d"], power["d"])
            rows.append(
                [law.name, kind, *(number.text(2) for number in found), f"{share:.2f}"]
            )
    return Table(
        "law",
        [
            "rows",
            "recovered",
            "exponent of k",
            "exponent of log d",
            "exponent of d instead",
            "explained by k log d",
        ],
        rows,
        [
            "Number of triplets T that recovers the support of half of the draws, T "
            "∝ kᵃ (log d)ᵇ, and T ∝ kᵃ dᶜ instead. The probability of recovery is a "
            "logistic function of log T; all parameters have the largest likelihood. "
            f"In brackets 95 % of {groups.n_resamples:,} bootstrap samples of the "
            "draws. Last column: gain in log-likelihood of T ∝ k log d, with no "
            "exponent fitted, over no growth at all, as a share of the gain with "
            "both exponents fitted. The table of numbers has the sizes.",
        ],
    )


def _noise_table(groups: Groups) -> Table:
    rows = []
    for kind in KINDS:
        samples = [
            groups.sample(kind, {"1 - 2p": 1.0 - 2.0 * noise}, noise=noise)
            for noise in groups.along("noise")
        ]
        found = thresholds.exponents(
            samples, ["1 - 2p"], groups.n_resamples, groups.rng
        )
        rows.append([kind, found["1 - 2p"].text(2)])
    return Table(
        "noise",
        ["recovered", "exponent of 1 - 2p"],
        rows,
        [
            "T ∝ (1 - 2p)ᶜ, where a share p of the judgements is turned round, fitted "
            "in the same way over p = "
            f"{', '.join(f'{noise:g}' for noise in groups.along('noise'))}."
        ],
    )


def _needed_table(groups: Groups, lines: Sequence[Line]) -> Table:
    rows = []
    for setting in settings_of(groups.quick):
        if not is_default_method(setting):
            continue
        some = groups.of(**setting)
        medians = [groups.median(kind, **setting) for kind in KINDS]
        k = setting["k"]
        d = setting["d"]
        rows.append(
            [
                str(k),
                f"{d:,}",
                f"{setting['n']:,}",
                f"{setting['density']:g}",
                f"{setting['noise']:g}",
                f"{setting['correlation']:g}",
                f"{setting['scale']:g}k",
                _percent([line["decided"] for line in some]),
                *(_count(median) for median in medians),
                _ratio(medians[1].value, k * math.log(d)),
                _percent([line["only"] for line in some]),
            ]
        )
    triplets = counts_of(groups.quick, 1)
    rising = [thresholds.is_rising(line[kind]) for line in lines for kind in KINDS]
    fits, cut = (sum(line[name] for line in lines) for name in ("n_fits", "n_cut"))
    return Table(
        "needed",
        [
            "k",
            "d",
            "rows",
            "density",
            "noise",
            "correlation",
            "scale",
            "decided",
            "features",
            "entries",
            "entries / (k log d)",
            "only",
        ],
        rows,
        [
            f"Median number of triplets of {len(some)} draws that recovers the "
            "support, and 95 % of its bootstrap values. Features and entries: the "
            "hidden ones have the largest values. Decided: judgements, in percent, "
            "that the hidden similarity makes; others are ties, and drawn at random. "
            "Only: draws, in percent, in which the largest number of triplets finds "
            "the hidden entries and no other. Oracle ascent, domain with 0, α = "
            f"{ALPHA:g}, {FEWEST}k to {triplets[-1]:,} triplets.",
            f"In {_percent(rising)} % of all draws no larger number of triplets fails "
            f"where a smaller one succeeds. {fits:,} fits, to a gap of {TOL:g}; "
            f"{100 * cut / fits:.0f} % end at "
            f"{QUICK_MAX_ITER if groups.quick else MAX_ITER} iterations before it.",
        ],
    )


def _methods_table(groups: Groups) -> Table:
    rows = []
    for condition, other in conditions_of(groups.quick).items():
        for oracle, init in methods_of(groups.quick):
            variant = {**other, "oracle": oracle, "init": init}
            ratios = [
                thresholds.ratio(
                    groups.thresholds(kind, **variant),
                    groups.thresholds(kind, **other),
                    groups.n_resamples,
                    groups.rng,
                )
                for kind in KINDS
            ]
            rows.append(
                [
                    condition,
                    oracle,
                    _domain(init),
                    *(_count(groups.median(kind, **variant)) for kind in KINDS),
                    *(
                        "–"
                        if variant == {**other, "oracle": "ascent", "init": "zero"}
                        else found.text(2)
                        for found in ratios
                    ),
                ]
            )
    return Table(
        "methods",
        [
            "condition",
            "oracle",
            "domain",
            "features",
            "entries",
            "features, ratio",
            "entries, ratio",
        ],
        rows,
        [
            f"Median number of triplets as above, of the first {len(groups.of())} "
            "draws. Ratio: to the number that the oracle ascent needs in the domain "
            "with 0, of the same draws, their geometric mean and 95 % of its "
            "bootstrap values."
        ],
    )


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * float(np.mean(shares)):.0f}"


def _domain(init: str) -> str:
    return "domain with 0" if init == "zero" else "paper's domain"


def _count(found: Interval) -> str:
    texts = ["never" if math.isinf(value) else f"{value:,.0f}" for value in found]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _ratio(median: float, unit: float) -> str:
    return "–" if math.isinf(median) else f"{median / unit:.1f}"


def _probability_table(groups: Groups) -> Table:
    rows: list[list[Any]] = []
    for setting in settings_of(groups.quick):
        counts = counts_of(groups.quick, setting["k"])
        shares = [groups.shares(kind, counts, **setting) for kind in KINDS]
        rows += [
            [
                *_key(setting),
                count,
                len(groups.of(**setting)),
                *(f"{share:.4g}" for share in cells),
            ]
            for count, *cells in zip(counts, *shares, strict=True)
        ]
    return Table("probability", [*BASE, "triplets", "draws", *KINDS], rows, shown=False)


# --- figures --------------------------------------------------------------------------


def _diagrams(groups: Groups, kind: str) -> Callable[[Any], None]:
    """Return what draws the probability over the number of triplets and another parameter."""
    names = {
        "k": "hidden atoms k",
        "d": "features d",
        "n": "rows",
        "density": "density of rows",
        "noise": "judgements turned round",
        "correlation": "correlation of neighbours",
    }

    def draw(figure: Any) -> None:
        figure.set_size_inches(9.6, 5.4)
        axes = figure.subplots(2, 3, sharex=True)
        counts = counts_of(groups.quick, 1)
        edges = np.append(counts, counts[-1] ** 2 / counts[-2]) / math.sqrt(
            counts[1] / counts[0]
        )
        for ax, (name, label) in zip(axes.flat, names.items(), strict=True):
            values = groups.along(name)
            table = [groups.shares(kind, counts, **{name: value}) for value in values]
            mesh = ax.pcolormesh(
                edges,
                np.arange(len(values) + 1) - 0.5,
                np.array(table),
                cmap="cividis",
                vmin=0,
                vmax=1,
            )
            ax.set(xscale="log", yticks=range(len(values)), ylabel=label)
            ax.set_yticklabels([f"{value:,}" for value in values])
        for ax in axes[-1]:
            ax.set_xlabel("triplets")
        figure.colorbar(
            mesh, ax=axes, label=f"share of draws, {kind} recovered", shrink=0.7
        )

    return draw


def _draw_law(figure: Any, groups: Groups) -> None:
    """Draw the number of triplets that the entries need over k, and over d."""
    laws = laws_of(groups.quick)[:2]
    figure.set_size_inches(9.6, 3.2 * len(laws))
    axes = figure.subplots(len(laws), 2, squeeze=False, sharey="row", sharex="col")
    for law, row in zip(laws, axes, strict=True):
        _draw_growth(row[0], groups, law, 0)
        _draw_growth(row[1], groups, law, 1)
        _plain_ticks(row[0].yaxis)
        row[0].set_ylabel(f"triplets needed, {law.name}")
    for place, (ax, label) in enumerate(
        zip(axes[-1], ("hidden atoms k", "features d"), strict=True)
    ):
        ax.set_xlabel(label)
        ax.minorticks_off()
        ax.set_xticks(sorted({size[place] for law in laws for size in law.sizes}))
        ax.xaxis.set_major_formatter("{x:,.0f}")


def _draw_growth(ax: Any, groups: Groups, law: Law, place: int) -> None:
    """Draw the number over k (place 0) or d (1), a line per value of the other one."""
    name, other, growth = (("k", "d", "k"), ("d", "k", "log d"))[place]
    every = [size[1 - place] for size in law.sizes]
    most = sorted(sorted(set(every)), key=every.count)[-2:]
    for fixed, color, marker in zip(sorted(most), COLORS, MARKERS, strict=False):
        values = sorted(size[place] for size in law.sizes if size[1 - place] == fixed)
        found = [
            groups.median("entries", **law.other, **{name: x, other: fixed})
            for x in values
        ]
        ends = np.array([[one.value - one.low, one.high - one.value] for one in found])
        known = np.isfinite(ends).all(axis=1)
        x = np.array(values)[known]
        middle = np.array([one.value for one in found])[known]
        ax.errorbar(
            x,
            middle,
            ends[known].T,
            color=color,
            marker=marker,
            ms=5,
            capsize=2,
            label=f"{other} = {fixed:,}",
        )
        if len(x):
            unit = x if growth == "k" else np.log(x)
            label = f"∝ {growth}" if fixed == max(most) else None
            ax.plot(
                x,
                middle[0] / unit[0] * unit,
                color="gray",
                ls=":",
                zorder=0,
                label=label,
            )
    ax.set(xscale="log", yscale="log")
    ax.legend(frameon=False, fontsize=8)


def _plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis with 1, 2 and 5 times the powers of ten, written out."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:,.0f}")


def _draw_methods(figure: Any, groups: Groups) -> None:
    """Draw the probability for each oracle and domain."""
    conditions = conditions_of(groups.quick)
    for ax, (condition, other) in panels(figure, list(conditions.items()), (2.6, 2.9)):
        methods = methods_of(groups.quick)
        for (oracle, init), color, marker in zip(
            methods, COLORS, MARKERS, strict=False
        ):
            counts = counts_of(groups.quick, {**BASE, **other}["k"])
            shares = groups.shares("entries", counts, **other, oracle=oracle, init=init)
            ax.plot(
                counts,
                shares,
                color=color,
                marker=marker,
                ms=3,
                ls="-" if init == "zero" else "--",
                label=f"{oracle}, {_domain(init)}",
            )
        ax.set(
            xscale="log",
            xlabel="triplets",
            title=f"entries, {condition}",
            ylim=(-0.03, 1.03),
        )
    figure.axes[0].set_ylabel("share of draws")
    shared_legend(figure, figure.axes[0], "lower")
