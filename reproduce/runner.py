"""Cells of an experiment, computed once and stored as JSON lines.

An experiment is a module with

- ``TITLE``, one line;
- ``cells(settings)``, the list of what to compute: small dicts of names and numbers;
- ``compute(settings, cell)``, the answer of one cell as a dict that JSON can hold;
- ``publish(settings, lines)``, the `results.Results` of all lines, each a cell and its
  answer.

Where a protocol chooses a parameter, every value is a cell of its own and ``publish``
chooses, by validation figures alone. So an interrupted run continues where it was.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import joblib
from tqdm.auto import tqdm

if TYPE_CHECKING:
    from .results import Results

Cell = dict[str, Any]
Line = dict[str, Any]
Model = TypeVar("Model", bound=Any)

#: File in a folder of results that holds their size.
SIZE_FILE = "size.txt"


@dataclass(frozen=True)
class Settings:
    """Where data come from and results go, and how much is computed.

    Parameters
    ----------
    out : Path
        Folder of the results.
    data : Path or None
        Folder of the real data sets, in the layout that `reproduce.datasets` reads.
    jobs : int
        Number of processes.
    quick : bool
        Whether to run a smaller version, of less than a minute per experiment.
    """

    out: Path
    data: Path | None = None
    jobs: int = 2
    quick: bool = False

    @property
    def size(self) -> str:
        """Return "quick" or "full"."""
        return "quick" if self.quick else "full"


class Experiment(Protocol):
    """What a module of this package offers."""

    TITLE: str

    def cells(self, settings: Settings) -> list[Cell]:
        """Return the cells to compute."""

    def compute(self, settings: Settings, cell: Cell) -> dict[str, Any]:
        """Return the answer of one cell."""

    def publish(self, settings: Settings, lines: list[Line]) -> Results:
        """Return tables and figures."""


class OtherSizeError(Exception):
    """The folder has results of the other size, quick or full."""


def finished(model: Model) -> Model:
    """Return a fitted model; raise KeyboardInterrupt if Ctrl-C ended its fit."""
    if model.status_ == "interrupted":
        raise KeyboardInterrupt
    return model


def key(cell: Cell) -> str:
    """Return the text that two equal cells share."""
    return json.dumps(cell, sort_keys=True)


def read(settings: Settings, name: str) -> dict[str, Line]:
    """Return the lines of an experiment so far, by cell; a last line cut short is left out."""
    path = settings.out / f"{name}.jsonl"
    known: dict[str, Line] = {}
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            known[key(line["cell"])] = line
    return known


def check_size(settings: Settings) -> None:
    """Raise OtherSizeError if the folder has results of the other size."""
    mark = settings.out / SIZE_FILE
    size = settings.size
    there = mark.read_text(encoding="utf-8").strip() if mark.exists() else size
    if there != size:
        raise OtherSizeError(
            f"{settings.out} has results of {there} size, and these would be {size}. "
            "Name another folder with --out."
        )


def run(name: str, experiment: Experiment, settings: Settings) -> list[Line]:
    """Compute the missing cells, and return the lines of all, in the order of cells.

    Cells can depend on lines that exist already: they are listed again until none is
    new.
    """
    check_size(settings)
    while True:
        cells = experiment.cells(settings)
        known = run_cells(name, cells, settings)
        if len(experiment.cells(settings)) == len(cells):
            return [known[key(cell)] for cell in cells]


def run_cells(name: str, cells: Sequence[Cell], settings: Settings) -> dict[str, Line]:
    """Compute the missing ones of these cells, and return all known lines by cell."""
    known = read(settings, name)
    missing = [cell for cell in cells if key(cell) not in known]
    if not missing:
        return known
    path = settings.out / f"{name}.jsonl"
    settings.out.mkdir(parents=True, exist_ok=True)
    (settings.out / SIZE_FILE).write_text(settings.size + "\n", encoding="utf-8")
    shown = tqdm(
        desc=name, total=len(cells), initial=len(cells) - len(missing), unit="cell"
    )
    with path.open("a", encoding="utf-8") as lines, shown:
        if path.stat().st_size and not path.read_text(encoding="utf-8").endswith("\n"):
            lines.write("\n")  # after a line cut short
        for line in _compute(name, missing, settings):
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
            known[key(line["cell"])] = line
            shown.set_postfix_str(" ".join(map(str, line["cell"].values())))
            shown.update()
    return known


def _compute(name: str, cells: Iterable[Cell], settings: Settings) -> Iterator[Line]:
    if settings.jobs == 1:
        for cell in cells:
            yield _line(name, settings, cell)
        return
    jobs = (joblib.delayed(_line)(name, settings, cell) for cell in cells)
    yield from joblib.Parallel(n_jobs=settings.jobs, return_as="generator_unordered")(
        jobs
    )


def _line(name: str, settings: Settings, cell: Cell) -> Line:
    from . import load  # here, since a new process starts with this function

    began = time.perf_counter()
    busy = time.process_time()
    answer = load(name).compute(settings, cell)
    spent = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - busy,
    }
    return {
        "cell": cell,
        **answer,
        **{what: round(value, 2) for what, value in spent.items()},
    }
