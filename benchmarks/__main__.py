"""Run benchmarks and print a table: `python -m benchmarks [names...]`; `--list` names them all.

Without names: the main ones, a few minutes. Each result is written to a file of JSON lines at once,
so an interrupted run loses no finished result.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from . import measure, problems, runner, steps, table
from .runner import say
from .tasks import Record, Task, plan, registered

#: Benchmarks and problems of a run without names.
MAIN = {
    "kernels": ("dexter", "rcv1_4"),
    "mean_iteration": ("dexter", "rcv1_4"),
    "time_to_objective": ("dexter",),
}
WITHOUT_DATA = ("recovery",)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", help="benchmarks to run; none: the main ones")
    add("--problems", nargs="+", metavar="P", help="run them on these problems")
    add("--threads", nargs="+", type=int, metavar="N", help="once with each number of threads")
    add("--iterations", type=int, metavar="N", help="iterations of a run")
    add("--oracles", nargs="+", metavar="O", help="ascent, heuristic, exact")
    add("--steps", nargs="+", metavar="S", help="away, pairwise, blended, forward, corrective")
    add("--limit", type=float, metavar="SECONDS", help="end a run after so many seconds")
    add("--target", type=float, metavar="F", help="objective for time_to_objective")
    add("--prior", type=_number_or_auto, metavar="C", help="prior of the model (0)")
    add("--scale", type=float, metavar="L", help="scale in place of the problem's own")
    add("--device", metavar="D", help="cpu, or cuda: first_use, mean_iteration, ... on a GPU")
    add("--batch-size", type=int, metavar="B", help="comparisons per iteration of one_gpu (all)")
    add("--storage", choices=("float64", "float32"), help="values of X in one_gpu (float64)")
    add("--toy", action="store_true", help="small problems of the same form, no data needed")
    add("--out", type=Path, metavar="FILE", help="add results to this file")
    add("--list", action="store_true", help="list the benchmarks and the problems")
    add("--show", type=Path, metavar="FILE", help="print the tables of a result file, run nothing")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in registered()]
    if unknown:
        parser.error(f"no benchmark is named {unknown[0]!r}; see --list")
    return given


def _number_or_auto(text: str) -> float | str:
    return text if text == "auto" else float(text)


def tasks_of(given: argparse.Namespace) -> list[Task]:
    """Return the tasks that the options ask for."""
    options = {
        "threads": tuple(given.threads) if given.threads else None,
        "n_cores": measure.cores(),
        "iterations": given.iterations,
        "oracles": tuple(given.oracles) if given.oracles else None,
        "steps": tuple(given.steps) if given.steps else None,
        "limit": given.limit,
        "target": given.target,
        "prior": given.prior,
        "scale": given.scale,
        "device": given.device,
        "batch_size": given.batch_size,
        "storage": given.storage,
        "toy": given.toy,
    }
    wanted = tuple(given.problems) if given.problems else None
    if given.names:
        return plan(given.names, problems=wanted, **options)
    tasks = []
    for name, usual in MAIN.items():
        tasks += plan([name], problems=wanted or _present(usual, given.toy), **options)
    return tasks


def _present(usual: tuple[str, ...], toy: bool) -> tuple[str, ...]:
    """Return the problems whose data are present, or a generated one if none are."""
    there = tuple(name for name in usual if toy or problems.why_missing(name) is None)
    for name in set(usual) - set(there):
        say(f"skip: {name}: {problems.why_missing(name)}")
    return there or WITHOUT_DATA


def run_all(tasks: list[Task], out: Path) -> Iterator[Record]:
    """Run tasks one after the other; write each record to the file before yielding it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done: list[tuple[str, Record]] = []
    failed: list[str] = []
    if any(not task.toy and runner.why_skip(task) is None for task in tasks):
        say("compiling what is not compiled yet ...")
        runner.compile_apart()
    for task in tasks:
        reason = runner.why_skip(task)
        if reason is not None:
            say(f"skip: {task.benchmark} on {task.problem}: {reason}")
            continue
        say(f"{task.benchmark} on {task.problem}, threads {task.threads} ...")
        try:
            for record in runner.run_apart(task):
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
    rows = [[name, known.purpose, " ".join(known.problems)] for name, known in registered().items()]
    print(table.aligned(rows, ("benchmark", "what it measures", "problems"), ()))
    print("\nproblems:", ", ".join(problems.names()))
    for name in problems.REAL:
        if (reason := problems.why_missing(name)) is not None:
            print(f"skip: {name}: {reason}")


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for."""
    given = parse(arguments)
    if given.list:
        show_list()
        return 0
    if given.show:
        show(table.read(given.show))
        return 0
    today = datetime.now(tz=UTC).date().isoformat()
    folder = problems.ROOT / "benchmarks" / "results"
    out = given.out or folder / f"{today}-{measure.commit()}.jsonl"
    records: list[Record] = []
    end, code = "", 0
    try:
        for record in run_all(tasks_of(given), out):
            records.append(record)  # noqa: PERF402 - an error leaves the earlier ones
    except KeyboardInterrupt:
        end, code = ", interrupted", 130
    except RuntimeError as error:
        end, code = f"; {error}", 1
    show(records)
    say(f"{len(records)} results in {out}{end}")
    return code


if __name__ == "__main__":
    sys.exit(main())
