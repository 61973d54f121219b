"""Cells of an experiment, computed once and stored as JSON lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import joblib
from tqdm.auto import tqdm

from . import experiments
from .settings import Cell, Line, Settings

Model = TypeVar("Model", bound=Any)

#: File in a folder of results that holds their size.
SIZE_FILE = "size.txt"


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


def lines_path(settings: Settings, name: str) -> Path:
    """Return the file with the lines of an experiment."""
    return settings.out / f"{name}.jsonl"


def read(settings: Settings, name: str) -> dict[str, Line]:
    """Return the lines of an experiment so far, by cell.

    A last line that was cut short is left out.
    """
    path = lines_path(settings, name)
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
    if not mark.exists():
        return
    stored_size = mark.read_text(encoding="utf-8").strip()
    if stored_size != settings.size:
        raise OtherSizeError(
            f"{settings.out} has results of {stored_size} size, and these would be "
            f"{settings.size}. Name another folder with --out."
        )


def run(
    name: str, experiment: experiments.Experiment, settings: Settings
) -> list[Line]:
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
    path = lines_path(settings, name)
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
    """Yield the lines of cells as they are done, by as many processes as are allowed."""
    if settings.jobs == 1:
        for cell in cells:
            yield _line(name, settings, cell)
        return
    jobs = [joblib.delayed(_line)(name, settings, cell) for cell in cells]
    pool = joblib.Parallel(n_jobs=settings.jobs, return_as="generator_unordered")
    yield from pool(jobs)


def _line(name: str, settings: Settings, cell: Cell) -> Line:
    """Return a cell with its answer and the seconds that it took."""
    experiment = experiments.load(name)
    start = time.perf_counter()
    cpu_start = time.process_time()
    answer = experiment.compute(settings, cell)
    seconds = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu_start
    return {
        "cell": cell,
        **answer,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
    }
