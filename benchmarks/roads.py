"""Whole roads from rows to answer, each in processes of its own: what a user waits for.

`python -m benchmarks roads` runs all of them; `--problems` names some. Seconds are of
the wall, as a user counts them, and CPU seconds of the processes beside them. A road of
the command line starts a process with empty caches of compiled code where it says so.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import problems
from .measure import record
from .tasks import Record, Task, benchmark

#: A fit in a new process; prints its seconds, those before the first iteration, and its
#: size.
FIT = """
import json, sys, time
import numpy as np, scipy.sparse as sp
order = json.loads(sys.argv[1])
from hdsl import HDSL
from hdsl.settings import nested_parameters
with np.load(order["data"]) as stored:
    arrays = (stored["data"], stored["indices"], stored["indptr"])
    X = sp.csr_array(arrays, tuple(stored["shape"]))
    learn = {name: stored[name] for name in ("y", "triplets") if name in stored}
times = []
def is_reached(state):
    times.append(time.perf_counter())
    return state.objective <= order["until"]
model = HDSL(random_state=0, **nested_parameters(**order["parameters"]))
if order["warm"]:
    few = {**order["parameters"], "prior": 1.0, "max_iter": 2}
    HDSL(**nested_parameters(**few)).fit(X[:200], np.arange(200) % 2)
start = time.perf_counter()
cpu_start = time.process_time()
model.fit(X, **learn, callback=is_reached)
result = {
    "seconds": time.perf_counter() - start,
    "cpu": time.process_time() - cpu_start,
    "before": None,
    "steps": None,
    "objective": model.objective_,
    "prior": model.prior_,
    "n_iter": model.n_iter_,
    "n_atoms": len(model.weights_),
}
if times:
    result["before"] = times[0] - start
    result["steps"] = times[-1] - times[0]
print(json.dumps(result))
"""

#: What 300 away steps reach on the million problem at prior 15.
OBJECTIVE = 0.0352

#: Searches in a model with documents that are in memory; prints the seconds of the first
#: and the median of the others, and their CPU seconds.
SEARCH = """
import csv, json, sys, time
import numpy as np
import hdsl
collection = hdsl.load(sys.argv[1])
with open(sys.argv[2], newline="", encoding="utf-8") as file:
    texts = [row[1] for _, row in zip(range(22), csv.reader(file))][1:]
times = []
cpu_times = []
for text in texts:
    start = time.perf_counter()
    cpu_start = time.process_time()
    collection.search(text)
    times.append(time.perf_counter() - start)
    cpu_times.append(time.process_time() - cpu_start)
result = {"first": times[0], "later": np.median(times[1:])}
result["later_cpu"] = np.median(cpu_times[1:])
print(json.dumps(result))
"""

IMPORT = """
import time
start = time.perf_counter()
import hdsl
print(time.perf_counter() - start)
"""


class Road(NamedTuple):
    """How a road is measured, what is aimed at in seconds, and what it is."""

    run: Callable[[Task, Path], dict[str, Any]]
    aim: float | None
    what: str


def _process(command: list[str], folder: Path, **more: str) -> dict[str, Any]:
    """Return wall and CPU seconds of a process, its peak of memory, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": _path(), **more},
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:6])} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": seconds,
        "cpu": cpu,
        "output": done.stdout,
        "peak": after.ru_maxrss / 1024,
    }


def _path() -> str:
    """Return the folders that this process imports from, for another one."""
    return os.pathsep.join(folder for folder in sys.path if folder)


def _hdsl(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hdsl", *arguments]


# --- the command line -----------------------------------------------------------------


def _install(task: Task, folder: Path) -> dict[str, Any]:
    """Make a new environment, install the package there, and run the demo."""
    environment = folder / "env"
    python = str(environment / "bin/python")
    commands = {"venv": [sys.executable, "-m", "venv", str(environment)]}
    if not task.toy:
        commands["pip"] = [python, "-m", "pip", "install", "-qq", str(problems.ROOT)]
        commands["demo"] = [str(environment / "bin/hdsl"), "demo"]
    seconds = {
        name: _process(command, folder, PYTHONPATH="")["seconds"]
        for name, command in commands.items()
    }
    note = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    return {"seconds": sum(seconds.values()), "note": note}


def _demo(task: Task, folder: Path) -> dict[str, Any]:
    """Run the demo with an empty cache of compiled code, and again."""
    if task.toy:
        return _process(_hdsl("--help"), folder)
    caches = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    first = _process(_hdsl("demo"), folder, **caches)
    second = _process(_hdsl("demo"), folder, **caches)
    return {
        **first,
        "note": f"the second time {second['seconds']:.1f} s",
        "again": second["seconds"],
    }


def _texts(task: Task, folder: Path) -> Path:
    """Write texts of made words with labels as a CSV file."""
    rng = np.random.default_rng(0)
    n_texts = task.by_size(full=2000, toy=120)
    n_labels = task.by_size(full=20, toy=4)
    words = np.array([f"word{k}a" for k in range(4000)])
    path = folder / "texts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for row in range(n_texts):
            label = row % n_labels
            drawn = rng.integers(100 * label, 100 * label + 100, size=12)
            text = " ".join(words[np.append(drawn, rng.zipf(1.3, size=40) % 4000)])
            rows.writerow([text, f"class{label}"])
    return path


def _fit_csv(task: Task, folder: Path) -> dict[str, Any]:
    """Fit a CSV of texts with code that is compiled already."""
    path = _texts(task, folder)
    command = _hdsl(
        "fit", str(path), "--text", "text", "--label", "label", "-o", "model.hdsl"
    )
    if not task.toy:
        _process(command, folder)
    return _process(command, folder)


def _short_texts(task: Task, folder: Path, n_of_full_size: int) -> Path:
    """Write many short texts in 50 classes, a tenth of them about another class.

    A text has three words of a class, each class with an order of its own among words
    that all have, and nine that are as frequent everywhere.
    """
    rng = np.random.default_rng(0)
    n_texts = task.by_size(full=n_of_full_size, toy=150)
    n_labels = task.by_size(full=50, toy=4)
    n_words = 60_000
    n_shared = 3000
    words = np.array([f"word{k}a" for k in range(n_words)])
    words_of_label = np.array([rng.permutation(n_shared) for _ in range(n_labels)])
    path = folder / "big.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "label"])
        for row in range(n_texts):
            label = rng.integers(n_labels)
            subject = label
            if rng.random() < 0.1:
                subject = rng.integers(n_labels)
            about = words_of_label[subject][rng.zipf(1.5, size=3) % n_shared]
            text = " ".join(words[np.append(about, rng.zipf(1.2, size=9) % n_words)])
            rows.writerow([f"d{row}", text, f"class{label}"])
    return path


def _fit_many_texts(task: Task, folder: Path, n_texts: int = 300_000) -> dict[str, Any]:
    """Fit a CSV of many short texts, then search in the model and write its page."""
    path = _short_texts(task, folder, n_texts)
    columns = ["--text", "text", "--label", "label", "--id", "id"]
    if not task.toy:  # code is compiled, and files are read, before
        few = folder / "few.csv"
        few.write_text("".join(path.open(encoding="utf-8").readlines()[:2000]))
        _process(_hdsl("fit", str(few), *columns, "-o", "few.hdsl"), folder)
    fit = _process(_hdsl("fit", str(path), *columns, "-o", "model.hdsl"), folder)
    search = json.loads(
        _process([sys.executable, "-c", SEARCH, "model.hdsl", str(path)], folder)[
            "output"
        ]
    )
    page = _process(_hdsl("report", "model.hdsl", "-o", "page.html"), folder)
    note = (
        f"the first search {search['first']:.1f} s, others "
        f"{1000 * search['later']:.0f} ms; hdsl report {page['seconds']:.0f} s"
    )
    return {**fit, "note": note, "search": search, "page_seconds": page["seconds"]}


def _fit_a_million_texts(task: Task, folder: Path) -> dict[str, Any]:
    """Fit a CSV of a million short texts, then search in the model and write its page."""
    return _fit_many_texts(task, folder, 1_000_000)


def _search(task: Task, folder: Path) -> dict[str, Any]:
    """Search a model of texts, once it is fitted."""
    _fit_csv(task, folder)
    command = _hdsl("search", "model.hdsl", "word3a word5a word7a")
    _process(command, folder)
    wrong = subprocess.run(
        _hdsl("search", "no-such-model"),
        cwd=folder,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": _path()},
        check=False,
    )
    return {**_process(command, folder), "code_of_a_mistake": wrong.returncode}


def _import(task: Task, folder: Path) -> dict[str, Any]:
    """Import the package in a new process."""
    n_times = task.by_size(full=5, toy=1)
    command = [sys.executable, "-c", IMPORT]
    results = [_process(command, folder) for _ in range(n_times)]
    seconds = [float(result["output"]) for result in results]
    return {**results[-1], "seconds": float(np.median(seconds))}


# --- fits -----------------------------------------------------------------------------


def _stored(folder: Path, X, **learn) -> str:
    path = folder / "rows.npz"
    np.savez(
        path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, **learn
    )
    return str(path)


def _fit_in_process(
    task: Task,
    folder: Path,
    X,
    caches: dict | None = None,
    *,
    until: float = -1.0,
    parameters: dict | None = None,
    **learn,
) -> dict[str, Any]:
    """Fit until an objective is reached, or to the end.

    A fit before it compiles, unless caches are given.
    """
    caches = caches or {}
    order = {
        "data": _stored(folder, X, **learn),
        "warm": not caches,
        "until": until,
        "parameters": {
            "n_jobs": task.threads,
            "device": task.device or "cpu",
            **(parameters or {}),
        },
    }
    ended = _process([sys.executable, "-c", FIT, json.dumps(order)], folder, **caches)
    result = json.loads(ended["output"])
    note = (
        f"prior {result['prior']:.3g}, {result['n_iter']} iterations, "
        f"{result['n_atoms']} atoms"
    )
    if result["before"] is not None:
        note += f", {result['before']:.2f} s before the first iteration"
    return {**result, "peak": ended["peak"], "note": note}


def _labelled(name: str) -> Callable[[Task, Path], dict[str, Any]]:
    def run(task: Task, folder: Path) -> dict[str, Any]:
        problem = problems.load(name, toy=task.toy)
        return _fit_in_process(task, folder, problem.X, y=problem.y)

    return run


def _first_fit(task: Task, folder: Path) -> dict[str, Any]:
    """Fit a small problem with an empty cache of compiled code; a toy has a full one."""
    X, y = problems.labelled_rows(300, 400, 20)
    caches = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    if task.toy:
        caches = {"SOURCE_DATE_EPOCH": "0"}
    cold = _fit_in_process(task, folder, X, caches, y=y)
    if task.toy:
        return cold
    again = _fit_in_process(task, folder, X, caches, y=y)
    note = (
        f"the next process {again['seconds']:.1f} s; CPU {cold['cpu']:.1f} and "
        f"{again['cpu']:.1f} s"
    )
    return {**cold, "note": note, "again": again["seconds"]}


def _large(n_rows: int, n_features: int) -> Callable[[Task, Path], dict[str, Any]]:
    def run(task: Task, folder: Path) -> dict[str, Any]:
        if task.toy:
            X, _ = problems.labelled_rows(400, 500, 15)
        else:
            X, _ = problems.labelled_rows(n_rows, n_features, 30)
        return _fit_in_process(task, folder, X, y=np.arange(X.shape[0]) % 10)

    return run


def _million(task: Task, folder: Path) -> dict[str, Any]:
    problem = problems.load("million", toy=task.toy)
    return _fit_in_process(task, folder, problem.X, triplets=problem.triplets)


def _to_objective(task: Task, folder: Path) -> dict[str, Any]:
    """Take steps on the same problem, prior 15, to what 300 away steps reach."""
    problem = problems.load("million", toy=task.toy)
    result = _fit_in_process(
        task,
        folder,
        problem.X,
        until=OBJECTIVE,
        parameters={"prior": 15.0, "max_iter": 60, "tol": 0},
        triplets=problem.triplets,
    )
    note = f"{result['note']}: {result['objective']:.4f}"
    return {**result, "seconds": result["steps"], "note": note}


ROADS = {
    "import": Road(_import, None, "import hdsl"),
    "first_fit": Road(_first_fit, 10.0, "HDSL().fit of 300 rows, empty caches"),
    "install": Road(_install, None, "a new environment, pip install, hdsl demo"),
    "demo": Road(_demo, 15.0, "hdsl demo, empty caches"),
    "fit_csv": Road(
        _fit_csv, 5.0, "hdsl fit, a CSV of 2,000 texts in 20 classes, compiled"
    ),
    "many_texts": Road(
        _fit_many_texts, 180.0, "hdsl fit, a CSV of 300,000 short texts in 50 classes"
    ),
    "million_texts": Road(
        _fit_a_million_texts, 600.0, "hdsl fit, a CSV of a million short texts"
    ),
    "search": Road(_search, 1.0, "hdsl search in that model"),
    "r52": Road(_labelled("reuters_r52"), 8.0, "HDSL().fit on R52, prior chosen"),
    "dexter": Road(_labelled("dexter"), 0.7, "HDSL().fit on dexter, prior chosen"),
    "rows:2e5": Road(_large(200_000, 100_000), 120.0, "200,000 rows in 10 classes"),
    "rows:1e6": Road(_large(1_000_000, 200_000), 600.0, "a million rows in 10 classes"),
    "million": Road(_million, 40.0, "a million rows, 15 million given triplets"),
    "objective": Road(
        _to_objective, 30.0, f"the same at prior 15, steps to {OBJECTIVE}"
    ),
}

#: Roads that need a real set.
NEEDS = {"r52": "reuters_r52", "dexter": "dexter"}


@benchmark(problems=tuple(ROADS), threads=(None,))
def roads(task: Task) -> Iterator[Record]:
    """Seconds from rows to answer: commands and whole fits in new processes."""
    road = ROADS[task.problem]
    with tempfile.TemporaryDirectory() as folder:
        result = road.run(task, Path(folder))
    result.pop("output", None)
    notes = [road.what, result.pop("note", "")]
    if road.aim is not None:
        notes[0] = f"{road.what}: aim {road.aim:g} s"
    yield record(
        task,
        task.problem,
        seconds=result.pop("seconds"),
        cpu_seconds=result.pop("cpu", None),
        peak=result.pop("peak", np.nan),
        note="; ".join(filter(None, notes)),
        aim=road.aim,
        **result,
    )
