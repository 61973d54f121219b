"""Run benchmarks and print a table: `python -m benchmarks [names...]`.

`--list` names them all.

Without names: the main ones, a few minutes. Each task runs in a process of its own, so
that peaks of memory and caches do not mix, and each result is written to a file of JSON
lines at once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import measure, problems, roads, steps, table
from .tasks import NO_PROBLEM, Record, Task, plan, registered, run

#: Benchmarks and problems of a run without names.
MAIN = {"mean_iteration": ("dexter", "rcv1_4"), "time_to_objective": ("dexter",)}
WITHOUT_DATA = ("recovery",)

#: Benchmarks that need a card.
GPU_ONLY = ("one_gpu", "gpu_mining", "gpu_search", "gpu_fit")

#: Options that a task has by the same name.
OPTIONS = {field.name for field in fields(Task)} - {"benchmark", "problem", "threads"}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", help="benchmarks to run; none: the main ones")
    add("--problems", nargs="+", metavar="P", help="run them on these problems")
    add(
        "--threads",
        nargs="+",
        type=int,
        metavar="N",
        help="once with each number of threads",
    )
    add("--iterations", type=int, metavar="N", help="iterations of a run")
    add("--oracles", nargs="+", metavar="O", help="ascent, heuristic, exact")
    add(
        "--steps",
        nargs="+",
        metavar="S",
        help="away, pairwise, blended, forward, corrective",
    )
    add(
        "--limit", type=float, metavar="SECONDS", help="end a run after so many seconds"
    )
    add("--target", type=float, metavar="F", help="objective for time_to_objective")
    add("--prior", type=float, metavar="C", help="prior of the model (0)")
    add("--scale", type=float, metavar="L", help="scale in place of the problem's own")
    add(
        "--device",
        metavar="D",
        help="cpu, or cuda: mean_iteration, steps, ... on a GPU",
    )
    add("--batch-size", type=int, metavar="B", help="comparisons per oracle call (all)")
    add(
        "--rows",
        nargs="+",
        type=int,
        metavar="N",
        help="records of each table: linking, duplicates",
    )
    add(
        "--toy",
        action="store_true",
        help="small problems of the same form, no data needed",
    )
    add("--out", type=Path, metavar="FILE", help="add results to this file")
    add("--list", action="store_true", help="list the benchmarks and the problems")
    add(
        "--show",
        type=Path,
        metavar="FILE",
        help="print the tables of a result file, run nothing",
    )
    add(
        "--compare",
        type=Path,
        nargs=2,
        metavar="FILE",
        help="print two result files side by side",
    )
    # One task as JSON: what a process of its own runs.
    add("--task", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in registered()]
    if unknown:
        parser.error(f"no benchmark is named {unknown[0]!r}; see --list")
    return options


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Return the tasks that the options ask for."""
    shared = {name: _frozen(getattr(options, name)) for name in OPTIONS}
    shared["threads"] = _frozen(options.threads)
    shared["n_cores"] = measure.cores()
    wanted = _frozen(options.problems)
    if options.names:
        return plan(options.names, problems=wanted, **shared)
    tasks = []
    for name, usual in MAIN.items():
        chosen = wanted or _present(usual, options.toy)
        tasks += plan([name], problems=chosen, **shared)
    return tasks


def _frozen(value: Any) -> Any:
    """Return a list as a tuple, which a task can have; other values as they are."""
    if isinstance(value, list):
        return tuple(value)
    return value


def _present(usual: tuple[str, ...], toy: bool) -> tuple[str, ...]:
    """Return the problems whose data are present, or a generated one if none are."""
    present = tuple(name for name in usual if toy or problems.why_missing(name) is None)
    for name in set(usual) - set(present):
        say(f"skip: {name}: {problems.why_missing(name)}")
    return present or WITHOUT_DATA


def why_skip(task: Task) -> str | None:
    """Return why a task cannot be run here, or None."""
    from . import one_gpu

    needs_card = task.benchmark in GPU_ONLY or task.device not in (None, "cpu")
    if needs_card and (reason := one_gpu.why_missing()) is not None:
        return reason
    if task.toy or task.problem == NO_PROBLEM:
        return None
    return problems.why_missing(roads.NEEDS.get(task.problem, task.problem))


def run_apart(task: Task) -> Iterator[Record]:
    """Run a task in a new process; yield its records as they come."""
    command = [sys.executable, "-m", __package__, "--task", json.dumps(asdict(task))]
    with subprocess.Popen(
        command, cwd=problems.ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            for line in child.stdout:
                yield json.loads(line)
        except BaseException:
            child.terminate()
            raise
    if child.returncode:
        raise RuntimeError(
            f"{task.benchmark} on {task.problem} ended with {child.returncode}."
        )


def run_all(tasks: list[Task], out: Path) -> Iterator[Record]:
    """Run tasks one after the other; write each record before yielding it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done: list[tuple[str, Record]] = []
    failed: list[str] = []
    for task in tasks:
        if (reason := why_skip(task)) is not None:
            say(f"skip: {task.benchmark} on {task.problem}: {reason}")
            continue
        say(f"{task.benchmark} on {task.problem}, threads {task.threads} ...")
        try:
            for record in run_apart(task):
                done.append((task.benchmark, record))
                yield _written(record, out)
        except RuntimeError as error:  # the others may still succeed
            failed.append(str(error))
            say(f"FAILED: {error}")
    for name, known in registered().items():
        records = [record for owner, record in done if owner == name]
        if known.summary is not None and records:
            for record in known.summary(records):
                yield _written(record, out)
    if failed:
        raise RuntimeError(" ".join(failed))


def _written(record: Record, out: Path) -> Record:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return record


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def show(records: list[Record]) -> None:
    """Print the tables of some results."""
    if records:
        print(table.results(records))
    paths = steps.steps_table(records)
    if paths:
        print("\nObjective and 3-NN validation error after so many CPU seconds:\n")
        print(paths)


def show_list() -> None:
    """Print the benchmarks and the problems."""
    rows = [
        [name, known.purpose, " ".join(known.problems)]
        for name, known in registered().items()
    ]
    print(table.aligned(rows, ("benchmark", "what it measures", "problems"), ()))
    print("\nproblems:", ", ".join(problems.names()))
    for name in problems.REAL:
        if (reason := problems.why_missing(name)) is not None:
            print(f"skip: {name}: {reason}")


def run_task(text: str) -> int:
    """Run one task in this process and print its records."""
    fields = {name: _frozen(value) for name, value in json.loads(text).items()}
    try:
        for record in run(Task(**fields)):
            print(json.dumps(record), flush=True)
    except KeyboardInterrupt:
        return 130
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for."""
    options = parse(arguments)
    if options.task:
        return run_task(options.task)
    if options.list:
        show_list()
        return 0
    if options.show:
        show(table.read(options.show))
        return 0
    if options.compare:
        print(table.compare(*map(table.read, options.compare)))
        return 0
    today = datetime.now(tz=UTC).date().isoformat()
    folder = problems.ROOT / "benchmarks" / "results"
    out = options.out or folder / f"{today}-{measure.commit()}.jsonl"
    records: list[Record] = []
    end = ""
    code = 0
    try:
        for record in run_all(tasks_of(options), out):
            records.append(record)  # noqa: PERF402 - an error leaves the earlier ones
    except KeyboardInterrupt:
        end = ", interrupted"
        code = 130
    except RuntimeError as error:
        end = f"; {error}"
        code = 1
    show(records)
    say(f"{len(records)} results in {out}{end}")
    return code


if __name__ == "__main__":
    sys.exit(main())
