"""Tables and figures of an experiment, and the page that shows them."""

from __future__ import annotations

import csv
import io
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from scipy.stats import binomtest

from .settings import Line, Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Table(NamedTuple):
    """Rows of text under a head, with notes beneath.

    A table that is not `shown` is a CSV file only.
    """

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    shown: bool = True

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        text = ["| " + " | ".join(map(str, line)) + " |" for line in lines]
        return "\n".join([*text, *(f"\n{note}" for note in self.notes)])

    def csv(self) -> str:
        """Return head and rows as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()


@dataclass
class Results:
    """Tables, and by name the functions that draw on a figure."""

    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Callable[[Figure], None]] = field(default_factory=dict)


def write(name: str, title: str, results: Results, settings: Settings) -> Path:
    """Write tables as Markdown and CSV, figures as PNG and SVG; return the page."""
    out = settings.out
    text = [f"# {title}\n"]
    if settings.quick:
        text.append(
            "A quick version, at small size: not to be compared with the paper.\n"
        )
    for table in results.tables:
        (out / f"{name}-{table.name}.csv").write_text(table.csv(), encoding="utf-8")
        if table.shown:
            text.append(table.markdown() + "\n")
    for figure, draw in results.figures.items():
        if _save(draw, out / f"{name}-{figure}"):
            text.append(f"![{name}, {figure}]({name}-{figure}.png)\n")
    page = out / f"{name}.md"
    page.write_text("\n".join(text), encoding="utf-8")
    return page


def _save(draw: Callable[[Figure], None], stem: Path) -> bool:
    """Draw a figure into files, without changing the state of pyplot.

    Return whether there is a matplotlib to draw with.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        print("No figures: install hdsl[plots] for matplotlib.", file=sys.stderr)
        return False
    # Same picture, same bytes: no dates and no random ids in the files.
    with mpl.rc_context({"svg.hashsalt": "hdsl", "font.size": 9, "axes.grid": False}):
        figure = Figure(layout="constrained")
        draw(figure)
        figure.savefig(stem.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(
            stem.with_suffix(".svg"), metadata={"Date": None, "Creator": None}
        )
    return True


# --- lines in groups ------------------------------------------------------------------


def by_set_and_method(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Return the lines of each set and method; an empty list for a pair without lines."""
    by: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        by[line["cell"]["set"], line["cell"]["method"]].append(line)
    return by


def set_names(lines: Iterable[Line]) -> list[str]:
    """Return the sets of the lines, in their order."""
    return list(dict.fromkeys(line["cell"]["set"] for line in lines))


def reported(errors: dict[str, Any]) -> str:
    """Return which error is reported.

    It is "test" where test labels were published, else "valid".
    """
    if "test" in errors:
        return "test"
    return "valid"


# --- figures --------------------------------------------------------------------------


def panels(
    figure: Figure, items: Sequence[Any], size: tuple[float, float] = (3.2, 2.6)
) -> Iterator[tuple[Axes, Any]]:
    """Yield axes for each item, four per row, on a figure of the size that they need."""
    columns = min(len(items), 4)
    rows = -(-len(items) // columns)
    figure.set_size_inches(size[0] * columns, size[1] * rows)
    for number, item in enumerate(items, start=1):
        yield figure.add_subplot(rows, columns, number), item


def shared_legend(figure: Figure, axis: Axes, where: Literal["upper", "lower"]) -> None:
    """Draw the legend of one panel above or below all panels."""
    handles, labels = axis.get_legend_handles_labels()
    loc: Any = f"outside {where} center"
    figure.legend(handles, labels, loc=loc, ncols=4, frameon=False)


# --- words for tables -----------------------------------------------------------------


def percent(values: Iterable[float] | float) -> str:
    """Return a share in percent; of several, mean ± standard deviation.

    Examples
    --------
    >>> percent(0.0651), percent([0.06, 0.07])
    ('6.5', '6.5 ± 0.7')
    """
    if isinstance(values, float):
        values = [values]
    return spread([100 * value for value in values])


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return mean ± standard deviation (of the sample), or the value itself if alone.

    Examples
    --------
    >>> spread([1.0, 2.0, 3.0]), spread([0.25], digits=3)
    ('2.0 ± 1.0', '0.250')
    """
    n = len(values)
    mean = sum(values) / n
    if n == 1:
        return f"{mean:.{digits}f}"
    deviation = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def share(count: int, total: int) -> str:
    """Return a share in percent with its 95 % interval (Wilson).

    Examples
    --------
    >>> share(1, 10)
    '10.0 (1.8-40.4)'
    """
    low, high = binomtest(count, total).proportion_ci(method="wilson")
    return f"{100 * count / total:.1f} ({100 * low:.1f}-{100 * high:.1f})"
