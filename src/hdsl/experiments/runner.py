"""Cells of an experiment, computed once and kept as JSON lines; then tables and figures of them.

An experiment is a module with

- ``TITLE``, one line;
- ``cells(settings)``, the list of what is to be computed: small dicts of names and numbers;
- ``compute(settings, cell)``, the answer of one cell as a dict that JSON can hold;
- ``publish(settings, lines)``, the `Results` of all lines, each a cell and its answer.

Where the choice of a parameter is part of a protocol, every value is a cell of its own and
``publish`` chooses, by validation figures alone. So a run that was cut off goes on where it was.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

import joblib

Cell = dict[str, Any]
Line = dict[str, Any]

#: Says in a folder of results which size they have.
SIZE_FILE = "size.txt"


@dataclass(frozen=True)
class Settings:
    """Where data come from and results go, and how much is computed.

    Parameters
    ----------
    out : Path
        Folder of the results.
    data : Path or None
        Folder of the real data sets, in the layout that `hdsl.datasets` reads.
    jobs : int
        Processes.
    quick : bool
        A smaller version of everything, of less than a minute each.
    """

    out: Path
    data: Path | None = None
    jobs: int = 2
    quick: bool = False


class Table(NamedTuple):
    """Rows of text under a head, with notes beneath."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

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
    """Tables, and figures by name (matplotlib's, made by functions that are called to draw)."""

    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


class Experiment(Protocol):
    """What a module of this package offers."""

    TITLE: str

    def cells(self, settings: Settings) -> list[Cell]:
        """Return what is to be computed."""

    def compute(self, settings: Settings, cell: Cell) -> dict[str, Any]:
        """Return the answer of one cell."""

    def publish(self, settings: Settings, lines: list[Line]) -> Results:
        """Return tables and figures."""


def finished(model: Any) -> Any:
    """Return a fitted model, or pass Ctrl-C on: half a run is no result."""
    if model.status_ == "interrupted":
        raise KeyboardInterrupt
    return model


# --- lines ---------------------------------------------------------------------------------------


def key(cell: Cell) -> str:
    """Return the text that two equal cells share."""
    return json.dumps(cell, sort_keys=True)


def read(path: Path) -> dict[str, Line]:
    """Return the finished lines of a file by cell; a last line that was cut off is left out."""
    known: dict[str, Line] = {}
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            known[key(line["cell"])] = line
    return known


class OtherSizeError(Exception):
    """A folder holds results that must not be mixed with those asked for."""


def check_size(settings: Settings) -> None:
    """Refuse a folder that holds results of the other size: full and quick must not meet."""
    mark, size = settings.out / SIZE_FILE, _size(settings)
    there = mark.read_text(encoding="utf-8").strip() if mark.exists() else size
    if there != size:
        raise OtherSizeError(
            f"{settings.out} has results of {there} size, and these would be {size}: name another "
            "folder with --out."
        )


def _size(settings: Settings) -> str:
    return "quick" if settings.quick else "full"


def run(name: str, experiment: Experiment, settings: Settings, file: TextIO | None) -> list[Line]:
    """Compute the cells that are missing, and return the lines of all, in the order of cells.

    Cells may depend on lines that are there already: they are asked for until none is new.
    """
    check_size(settings)
    while True:
        cells = experiment.cells(settings)
        known = run_cells(name, cells, settings, file)
        if len(experiment.cells(settings)) == len(cells):
            return [known[key(cell)] for cell in cells]


def run_cells(
    name: str, cells: Sequence[Cell], settings: Settings, file: TextIO | None = None
) -> dict[str, Line]:
    """Compute those of the cells that are missing, and return all known lines by cell."""
    path = settings.out / f"{name}.jsonl"
    known = read(path)
    missing = [cell for cell in cells if key(cell) not in known]
    if not missing:
        return known
    settings.out.mkdir(parents=True, exist_ok=True)
    (settings.out / SIZE_FILE).write_text(_size(settings) + "\n", encoding="utf-8")
    progress = Progress(name, len(cells), len(missing), file)
    with path.open("a", encoding="utf-8") as lines:
        if path.stat().st_size and not path.read_text(encoding="utf-8").endswith("\n"):
            lines.write("\n")  # after a line that was cut off
        for line in _computed(name, missing, settings):
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            known[key(line["cell"])] = line
            progress(line)
    progress.end()
    return known


def _computed(name: str, cells: Iterable[Cell], settings: Settings) -> Iterator[Line]:
    if settings.jobs == 1:
        for cell in cells:
            yield _line(name, settings, cell)
        return
    jobs = (joblib.delayed(_line)(name, settings, cell) for cell in cells)
    yield from joblib.Parallel(n_jobs=settings.jobs, return_as="generator_unordered")(jobs)


def _line(name: str, settings: Settings, cell: Cell) -> Line:
    from . import load  # here, since a new process starts with this function

    began, busy = time.perf_counter(), time.process_time()
    answer = load(name).compute(settings, cell)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}
    return {"cell": cell, **answer, **{what: round(value, 2) for what, value in spent.items()}}


class Progress:
    """One line that is written over on a terminal; elsewhere a line from time to time."""

    def __init__(self, name: str, total: int, missing: int, file: TextIO | None) -> None:
        self.name, self.total, self.missing = name, total, missing
        self.file = file if file is not None else io.StringIO()
        self.began = self.shown = time.perf_counter()
        self.done = 0
        if missing < total:
            print(f"{name}: {total - missing} of {total} cells are there already", file=self.file)

    def __call__(self, line: Line) -> None:
        """Count a line, and say what is left."""
        self.done += 1
        now = time.perf_counter()
        left = (now - self.began) / self.done * (self.missing - self.done)
        what = " ".join(str(value) for value in line["cell"].values())
        text = (
            f"{self.name}: {self.total - self.missing + self.done}/{self.total} cells, "
            f"{clock(now - self.began)} gone, about {clock(left)} left ({what}, "
            f"{line['seconds']:.1f} s)"
        )
        if self.file.isatty():
            print(f"\r\x1b[K{text[:110]}", end="", file=self.file, flush=True)
        elif now - self.shown > 10 or self.done == self.missing:
            self.shown = now
            print(text, file=self.file, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self.file.isatty():
            print(file=self.file)


def clock(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> clock(48.2), clock(605)
    ('48 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


# --- results -------------------------------------------------------------------------------------


def write(name: str, experiment: Experiment, results: Results, settings: Settings) -> Path:
    """Write tables as Markdown and CSV and figures as PNG and SVG; return the Markdown page."""
    out = settings.out
    text = [f"# {experiment.TITLE}\n"]
    if settings.quick:
        text.append("A quick version, at small size: not to be compared with the paper.\n")
    for table in results.tables:
        (out / f"{name}-{table.name}.csv").write_text(table.csv(), encoding="utf-8")
        text.append(table.markdown() + "\n")
    for figure, draw in results.figures.items():
        if _save(draw, out / f"{name}-{figure}"):
            text.append(f"![{name}, {figure}]({name}-{figure}.png)\n")
    page = out / f"{name}.md"
    page.write_text("\n".join(text), encoding="utf-8")
    return page


def _save(draw: Any, stem: Path) -> bool:
    """Draw a figure into files without touching the state of pyplot."""
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
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    return True


def panels(
    figure: Any, items: Sequence[Any], size: tuple[float, float] = (3.2, 2.6)
) -> Iterator[tuple[Any, Any]]:
    """Yield axes for each item, four in a row, on a figure that has room for them."""
    columns = min(len(items), 4)
    rows = -(-len(items) // columns)
    figure.set_size_inches(size[0] * columns, size[1] * rows)
    for place, item in enumerate(items, start=1):
        yield figure.add_subplot(rows, columns, place), item


def by_set_and_method(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Return the lines of each set and method; none where there are none."""
    by: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        by[line["cell"]["set"], line["cell"]["method"]].append(line)
    return by


# --- words for tables ----------------------------------------------------------------------------


def percent(values: Iterable[float] | float) -> str:
    """Return a share in percent; of several, mean ± standard deviation.

    Examples
    --------
    >>> percent(0.0651), percent([0.06, 0.07])
    ('6.5', '6.5 ± 0.7')
    """
    return spread([100 * value for value in ([values] if isinstance(values, float) else values)])


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return mean ± standard deviation (of the sample), or the value where there is one.

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
