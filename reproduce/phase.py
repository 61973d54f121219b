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

#: Oracles and domains.
METHODS = tuple(
    (oracle, init)
    for init in ("zero", "oracle")
    for oracle in ("ascent", "exact", "heuristic")
)

ALPHA = 0.2
TOL = 1e-4

#: Fewer triplets per hidden atom are not tried.
FEWEST = 8

#: Successes in a row after which only the largest number is tried.
ENOUGH = 3

KINDS = ("features", "entries")


class Design(NamedTuple):
    """What is tried.

    Attributes
    ----------
    base : dict
        The setting that others change.
    laws : tuple of Law
        The laws of growth that are fitted.
    axes : dict of tuple
        What else is changed, one at a time.
    methods : tuple of (str, str)
        Oracles and domains that are compared.
    conditions : dict of dict
        Those in which they are compared.
    triplets : tuple of int
        Numbers of triplets; those of a draw are the first of the largest number.
    max_iter : int
    n_draws, n_paired : int
        Draws of data, and those of methods that are compared with the base, the first
        ones.
    n_resamples : int
        Of the bootstrap.
    """

    base: Setting
    laws: tuple[Law, ...]
    axes: dict[str, tuple[float, ...]]
    methods: tuple[tuple[str, str], ...]
    conditions: dict[str, Setting]
    triplets: tuple[int, ...]
    max_iter: int
    n_draws: int
    n_paired: int
    n_resamples: int

    def counts(self, k: int) -> list[int]:
        """Return the numbers of triplets tried for k hidden atoms."""
        return [n for n in self.triplets if n >= FEWEST * k]

    def settings(self) -> list[Setting]:
        """Return every setting once."""
        settings = [
            {**self.base, **law.other, "k": k, "d": d}
            for law in self.laws
            for k, d in sorted(law.sizes)
        ]
        for name, values in self.axes.items():
            settings += [{**self.base, name: value} for value in values]
        for other in self.conditions.values():
            settings += [
                {**self.base, **other, "oracle": oracle, "init": init}
                for oracle, init in self.methods
            ]
        return list({_key(setting): setting for setting in settings}.values())


TRIPLETS = tuple(round(2 ** (n / 2)) for n in range(8, 30))  # 16 to 23,170

FULL = Design(
    base=BASE,
    laws=(
        Law("density 0.1", (*SIZES, (4, 2048), (4, 4096)), {}),
        Law("density 0.3", SIZES, {"density": 0.3}),
        Law(
            "noise 0.2",
            ((2, 256), (4, 256), (8, 256), (16, 256), (4, 64), (4, 1024)),
            {"noise": 0.2},
        ),
    ),
    axes={
        "n": (150, 300, 1200, 2400),
        "density": (0.05, 0.2, 0.5),
        "noise": (0.05, 0.1, 0.2, 0.3, 0.4),
        "correlation": (0.1, 0.3, 0.5, 0.7, 0.9),
        "scale": (0.25, 0.5, 2.0, 4.0),
    },
    methods=METHODS,
    conditions={
        "k = 4": {},
        "k = 16": {"k": 16},
        "noise 0.2": {"noise": 0.2},
        "scale 4k": {"scale": 4.0},
    },
    triplets=TRIPLETS,
    max_iter=500,
    n_draws=20,
    n_paired=12,
    n_resamples=1000,
)
QUICK = Design(
    base={**BASE, "d": 128, "n": 200, "density": 0.2},
    laws=(Law("density 0.2", ((2, 64), (2, 128), (4, 64), (4, 128)), {}),),
    axes={"noise": (0.2,), "correlation": (0.6,), "n": (400,)},
    methods=METHODS[::3],
    conditions={"k = 4": {}},
    triplets=TRIPLETS[3:16:2],
    max_iter=60,
    n_draws=2,
    n_paired=2,
    n_resamples=100,
)


def design_of(settings: Settings) -> Design:
    """Return what a run tries."""
    return settings.by_size(full=FULL, quick=QUICK)


def _key(setting: Setting) -> tuple[Any, ...]:
    return tuple(setting[name] for name in BASE)


def cells(settings: Settings) -> list[Cell]:
    """Return the settings, with several draws of data each; the slowest first."""
    design = design_of(settings)
    tried = sorted(
        design.settings(), key=lambda setting: -setting["d"] * setting["density"]
    )
    return [
        {**setting, "seed": seed}
        for seed in range(design.n_draws)
        for setting in tried
        if seed < design.n_paired or is_default_method(setting)
    ]


def is_default_method(setting: Setting) -> bool:
    """Return whether oracle and domain are those of the base."""
    return (setting["oracle"], setting["init"]) == METHODS[0]


class Recovered(NamedTuple):
    """Whether a number of triplets recovers the features, and the entries."""

    features: bool
    entries: bool


class Trials:
    """Fits of one draw of data with rising numbers of triplets, each done once.

    Attributes
    ----------
    recovered : dict of Recovered
        By the number of triplets.
    n_cut : int
        Fits that were cut short.
    """

    def __init__(self, design: Design, cell: Cell) -> None:
        self.design = design
        self.cell = cell
        self.counts = design.counts(cell["k"])
        self.truth = make_recovery(
            cell["n"],
            cell["d"],
            n_triplets=self.counts[-1],
            alpha=ALPHA,
            density=cell["density"],
            n_atoms=cell["k"],
            block_size=2 * cell["k"],
            noise=cell["noise"],
            correlation=cell["correlation"],
            random_state=cell["seed"],
        )
        self.recovered: dict[int, Recovered] = {}
        self.n_cut = 0
        self._n_last_entries = 0

    def recovers(self, count: int) -> bool:
        """Return whether a number of triplets recovers features and entries."""
        if count not in self.recovered:
            self._try(count)
        return all(self.recovered[count])

    def _try(self, count: int) -> None:
        model = _fitted(self.design, self.cell, self.truth, count)
        # An AUC is 1 where every hidden one ranks strictly before every other one.
        auc = recovery_auc(model.matrix(), self.truth.matrix)
        self.recovered[count] = Recovered(auc.features == 1.0, auc.entries == 1.0)
        self.n_cut += int(model.gap_ > TOL)
        if count == self.counts[-1]:
            upper = sp.triu(model.matrix(), k=1)
            self._n_last_entries = int(upper.count_nonzero())

    def run(self) -> None:
        """Try the numbers, until enough succeed in a row and the largest one does."""
        n_successes = 0
        for count in self.counts:
            if not self.recovers(count):
                n_successes = 0
                continue
            n_successes += 1
            if n_successes == ENOUGH and self.recovers(self.counts[-1]):
                break

    def answers(self) -> list[Recovered]:
        """Return what each number recovers; those not tried count as successes."""
        success = Recovered(features=True, entries=True)
        return [self.recovered.get(count, success) for count in self.counts]

    @property
    def finds_no_other(self) -> bool:
        """Whether the largest number finds the hidden entries and no other."""
        last = self.recovered.get(self.counts[-1])
        has_entries = last is not None and last.entries
        return has_entries and self._n_last_entries == self.cell["k"]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return which numbers of triplets recover the features, and the entries.

    Also whether the largest one finds no other entry (`only`), the share of judgements
    that the truth decides (`decided`), and how many of the fits were cut short.
    """
    trials = Trials(design_of(settings), cell)
    trials.run()
    answers = trials.answers()
    return {
        "features": [answer.features for answer in answers],
        "entries": [answer.entries for answer in answers],
        "only": trials.finds_no_other,
        "decided": _decided(trials.truth),
        "n_fits": len(trials.recovered),
        "n_cut": trials.n_cut,
    }


def _fitted(design: Design, cell: Cell, truth: Recovery, count: int) -> HDSL:
    """Return the model of the first triplets."""
    model = paper_hdsl(
        cell["scale"] * cell["k"],
        oracle=cell["oracle"],
        init=cell["init"],
        max_iter=design.max_iter,
        tol=TOL,
        random_state=cell["seed"],
        n_jobs=1,
    )
    with warnings.catch_warnings():
        # Of rows of unlike length, and of runs cut short.
        warnings.simplefilter("ignore")
        return finished(model.fit(truth.X, triplets=truth.triplets[:count]))


def _decided(truth: Recovery) -> float:
    """Return the share of judgements whose rows are not equally similar by the truth."""
    anchor, positive, negative = truth.triplets.T
    difference = truth.X[positive] - truth.X[negative]
    margins = (truth.X @ truth.matrix)[anchor].multiply(difference).sum(axis=1)
    return float((np.abs(margins) > 1e-12).mean())


# --- tables ---------------------------------------------------------------------------


class Groups:
    """The lines of each setting, and what can be asked of them."""

    def __init__(self, design: Design, lines: Iterable[Line]) -> None:
        self.design = design
        self.rng = np.random.default_rng(0)
        self._lines: dict[tuple[Any, ...], list[Line]] = {}
        for line in lines:
            self._lines.setdefault(_key(line["cell"]), []).append(line)

    def lines(self, **other: Any) -> list[Line]:
        """Return the lines of a setting, by what is not as in the base."""
        return self._lines[_key({**self.design.base, **other})]

    def along(self, name: str) -> list[float]:
        """Return the values of one parameter for which all others are as in the base."""
        base = {**self.design.base, name: None}
        settings = [dict(zip(BASE, key, strict=True)) for key in self._lines]
        return sorted(
            setting[name] for setting in settings if {**setting, name: None} == base
        )

    def sample(self, kind: str, factors: dict[str, float], **other: Any) -> Sample:
        """Return the draws of a setting with the factors of a law."""
        lines = self.lines(**other)
        counts = self.design.counts(lines[0]["cell"]["k"])
        return Sample(factors, counts, np.array([line[kind] for line in lines]))

    def thresholds(self, kind: str, **other: Any) -> np.ndarray:
        """Return the number of triplets that each draw of a setting needs."""
        sample = self.sample(kind, {}, **other)
        needed = [
            thresholds.threshold(sample.counts, recovered)
            for recovered in sample.recovered
        ]
        return np.array(needed)

    def median(self, kind: str, **other: Any) -> Interval:
        """Return the median number of triplets that the draws of a setting need."""
        needed = self.thresholds(kind, **other)
        return thresholds.median(needed, self.design.n_resamples, self.rng)

    def ratio(self, kind: str, variant: Setting, other: Setting) -> Interval:
        """Return the numbers that one setting needs, over those of another one."""
        needed = self.thresholds(kind, **variant)
        needed_by_other = self.thresholds(kind, **other)
        return thresholds.ratio(
            needed, needed_by_other, self.design.n_resamples, self.rng
        )

    def exponents(
        self, samples: Sequence[Sample], names: Sequence[str]
    ) -> dict[str, Interval]:
        """Return the exponents of a law of some factors."""
        return thresholds.exponents(samples, names, self.design.n_resamples, self.rng)

    def shares(self, kind: str, counts: Sequence[int], **other: Any) -> list[float]:
        """Return the share of draws whose support each number recovers.

        It is 0 where a number is not tried.
        """
        sample = self.sample(kind, {}, **other)
        shares = sample.recovered.mean(axis=0).tolist()
        known = dict(zip(sample.counts, shares, strict=True))
        return [known.get(count, 0.0) for count in counts]


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the laws of growth, the numbers needed, methods, and probabilities."""
    design = design_of(settings)
    groups = Groups(design, lines)
    first_draws = [line for line in lines if line["cell"]["seed"] < design.n_paired]
    paired = Groups(design, first_draws)
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
    """Return the exponents of the growth with k and with d."""
    rows = [_law_row(groups, law, kind) for law in groups.design.laws for kind in KINDS]
    head = [
        "rows",
        "recovered",
        "exponent of k",
        "exponent of log d",
        "exponent of d instead",
        "explained by k log d",
    ]
    note = (
        "Number of triplets T that recovers the support of half of the draws, T "
        "∝ kᵃ (log d)ᵇ, and T ∝ kᵃ dᶜ instead. The probability of recovery is a "
        "logistic function of log T; all parameters have the largest likelihood. "
        f"In brackets 95 % of {groups.design.n_resamples:,} bootstrap samples of the "
        "draws. Last column: gain in log-likelihood of T ∝ k log d, with no "
        "exponent fitted, over no growth at all, as a share of the gain with "
        "both exponents fitted. The table of numbers has the sizes."
    )
    return Table("law", head, rows, [note])


def _law_row(groups: Groups, law: Law, kind: str) -> list[str]:
    """Return the exponents of one law."""
    samples = []
    for k, d in law.sizes:
        factors = {"k": k, "log d": math.log(d), "d": d, "k log d": k * math.log(d)}
        samples.append(groups.sample(kind, factors, **law.other, k=k, d=d))
    logarithmic = groups.exponents(samples, ("k", "log d"))
    power = groups.exponents(samples, ("k", "d"))
    share = thresholds.explained(samples, "k log d", ("k", "log d"))
    return [
        law.name,
        kind,
        logarithmic["k"].text(2),
        logarithmic["log d"].text(2),
        power["d"].text(2),
        f"{share:.2f}",
    ]


def _noise_table(groups: Groups) -> Table:
    """Return the exponent of the growth with noise."""
    noises = groups.along("noise")
    rows = []
    for kind in KINDS:
        samples = [
            groups.sample(kind, {"1 - 2p": 1.0 - 2.0 * noise}, noise=noise)
            for noise in noises
        ]
        exponents = groups.exponents(samples, ["1 - 2p"])
        rows.append([kind, exponents["1 - 2p"].text(2)])
    note = (
        "T ∝ (1 - 2p)ᶜ, where a share p of the judgements is turned round, fitted "
        f"in the same way over p = {', '.join(f'{noise:g}' for noise in noises)}."
    )
    return Table("noise", ["recovered", "exponent of 1 - 2p"], rows, [note])


def _needed_table(groups: Groups, lines: Sequence[Line]) -> Table:
    """Return the median number of triplets that each setting needs."""
    design = groups.design
    settings = [s for s in design.settings() if is_default_method(s)]
    head = [
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
    ]
    n_draws = len(groups.lines(**settings[-1]))
    rising = [thresholds.is_rising(line[kind]) for line in lines for kind in KINDS]
    n_fits = sum(line["n_fits"] for line in lines)
    n_cut = sum(line["n_cut"] for line in lines)
    notes = [
        f"Median number of triplets of {n_draws} draws that recovers the "
        "support, and 95 % of its bootstrap values. Features and entries: the "
        "hidden ones have the largest values. Decided: judgements, in percent, "
        "that the hidden similarity makes; others are ties, and drawn at random. "
        "Only: draws, in percent, in which the largest number of triplets finds "
        "the hidden entries and no other. Oracle ascent, domain with 0, α = "
        f"{ALPHA:g}, {FEWEST}k to {design.triplets[-1]:,} triplets.",
        f"In {_percent(rising)} % of all draws no larger number of triplets fails "
        f"where a smaller one succeeds. {n_fits:,} fits, to a gap of {TOL:g}; "
        f"{100 * n_cut / n_fits:.0f} % end at {design.max_iter} iterations before it.",
    ]
    rows = [_needed_row(groups, setting) for setting in settings]
    return Table("needed", head, rows, notes)


def _needed_row(groups: Groups, setting: Setting) -> list[str]:
    """Return the median number of triplets that a setting needs."""
    lines = groups.lines(**setting)
    features = groups.median("features", **setting)
    entries = groups.median("entries", **setting)
    k = setting["k"]
    d = setting["d"]
    return [
        str(k),
        f"{d:,}",
        f"{setting['n']:,}",
        f"{setting['density']:g}",
        f"{setting['noise']:g}",
        f"{setting['correlation']:g}",
        f"{setting['scale']:g}k",
        _percent([line["decided"] for line in lines]),
        _interval_text(features),
        _interval_text(entries),
        _ratio_text(entries.value, k * math.log(d)),
        _percent([line["only"] for line in lines]),
    ]


def _methods_table(groups: Groups) -> Table:
    """Return the numbers that oracles and domains need, beside those of the base."""
    head = [
        "condition",
        "oracle",
        "domain",
        "features",
        "entries",
        "features, ratio",
        "entries, ratio",
    ]
    note = (
        f"Median number of triplets as above, of the first {len(groups.lines())} "
        "draws. Ratio: to the number that the oracle ascent needs in the domain "
        "with 0, of the same draws, their geometric mean and 95 % of its "
        "bootstrap values."
    )
    rows = []
    for condition, other in groups.design.conditions.items():
        for oracle, init in groups.design.methods:
            variant = {**other, "oracle": oracle, "init": init}
            ratios = [groups.ratio(kind, variant, other) for kind in KINDS]
            medians = [groups.median(kind, **variant) for kind in KINDS]
            ratio_texts = [ratio.text(2) for ratio in ratios]
            if is_default_method(variant):
                ratio_texts = ["–"] * len(KINDS)
            rows.append(
                [
                    condition,
                    oracle,
                    _domain(init),
                    *map(_interval_text, medians),
                    *ratio_texts,
                ]
            )
    return Table("methods", head, rows, [note])


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * float(np.mean(shares)):.0f}"


def _domain(init: str) -> str:
    return "domain with 0" if init == "zero" else "paper's domain"


def _interval_text(interval: Interval) -> str:
    """Return an interval of numbers of triplets."""
    middle, low, high = map(_count_text, interval)
    return f"{middle} [{low}, {high}]"


def _count_text(count: float) -> str:
    return "never" if math.isinf(count) else f"{count:,.0f}"


def _ratio_text(median: float, unit: float) -> str:
    return "–" if math.isinf(median) else f"{median / unit:.1f}"


def _probability_table(groups: Groups) -> Table:
    """Return the probability of recovery in each setting."""
    rows: list[list[Any]] = []
    for setting in groups.design.settings():
        counts = groups.design.counts(setting["k"])
        n_draws = len(groups.lines(**setting))
        features = groups.shares("features", counts, **setting)
        entries = groups.shares("entries", counts, **setting)
        for count, of_features, of_entries in zip(
            counts, features, entries, strict=True
        ):
            shares = [f"{of_features:.4g}", f"{of_entries:.4g}"]
            rows.append([*_key(setting), count, n_draws, *shares])
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
        counts = groups.design.counts(1)
        half_step = math.sqrt(counts[1] / counts[0])
        edges = np.append(counts, counts[-1] ** 2 / counts[-2]) / half_step
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
    laws = groups.design.laws[:2]
    figure.set_size_inches(9.6, 3.2 * len(laws))
    axes = figure.subplots(len(laws), 2, squeeze=False, sharey="row", sharex="col")
    for law, row in zip(laws, axes, strict=True):
        over_atoms, over_features = row
        _draw_growth(over_atoms, groups, law, "k")
        _draw_growth(over_features, groups, law, "d")
        _plain_ticks(over_atoms.yaxis)
        over_atoms.set_ylabel(f"triplets needed, {law.name}")
    over_atoms, over_features = axes[-1]
    sizes = [size for law in laws for size in law.sizes]
    _label_sizes(over_atoms, "hidden atoms k", {k for k, _ in sizes})
    _label_sizes(over_features, "features d", {d for _, d in sizes})


def _label_sizes(ax: Any, label: str, sizes: set[int]) -> None:
    """Label an axis with the sizes that were tried."""
    ax.set_xlabel(label)
    ax.minorticks_off()
    ax.set_xticks(sorted(sizes))
    ax.xaxis.set_major_formatter("{x:,.0f}")


def _draw_growth(ax: Any, groups: Groups, law: Law, name: str) -> None:
    """Draw the number over k or d, a line for each of two values of the other one."""
    if name == "k":
        other = "d"
        growth = "k"
        sizes = [(d, k) for k, d in law.sizes]
    else:
        other = "k"
        growth = "log d"
        sizes = list(law.sizes)
    every = [fixed for fixed, _ in sizes]
    frequent = sorted(sorted(set(every)), key=every.count)[-2:]
    for fixed, color, marker in zip(sorted(frequent), COLORS, MARKERS, strict=False):
        values = sorted(value for other_value, value in sizes if other_value == fixed)
        medians = [
            groups.median("entries", **law.other, **{name: value, other: fixed})
            for value in values
        ]
        ends = np.array(
            [
                [median.value - median.low, median.high - median.value]
                for median in medians
            ]
        )
        known = np.isfinite(ends).all(axis=1)
        x = np.array(values)[known]
        middle = np.array([median.value for median in medians])[known]
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
            label = f"∝ {growth}" if fixed == max(frequent) else None
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
    conditions = groups.design.conditions
    for ax, (condition, other) in panels(figure, list(conditions.items()), (2.6, 2.9)):
        methods = groups.design.methods
        for (oracle, init), color, marker in zip(
            methods, COLORS, MARKERS, strict=False
        ):
            counts = groups.design.counts({**BASE, **other}["k"])
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
