"""Run tasks, each in a process of its own, so that peaks of memory and caches do not mix.

``python -m benchmarks.runner '<a task as JSON>'`` is that process: it prints each record at once,
as a JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict

from . import one_gpu, problems
from .tasks import NO_PROBLEM, Record, Task, registered


def run(task: Task) -> Iterator[Record]:
    """Run a task in this process."""
    yield from registered()[task.benchmark].run(task)


def run_apart(task: Task) -> Iterator[Record]:
    """Run a task in a new process; yield its records as they come."""
    command = [sys.executable, "-m", f"{__package__}.runner", json.dumps(asdict(task))]
    with subprocess.Popen(command, cwd=problems.ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            for line in child.stdout:
                yield json.loads(line)
        except BaseException:
            child.terminate()
            raise
    if child.returncode:
        raise RuntimeError(f"{task.benchmark} on {task.problem} ended with {child.returncode}.")


def compile_apart() -> None:
    """Compile and cache all code in a process that measures nothing."""
    code = f"from {__package__}.fits import warm_up_all; warm_up_all()"
    subprocess.run([sys.executable, "-c", code], cwd=problems.ROOT, check=False)


#: Benchmarks that need a card.
GPU_ONLY = ("one_gpu", "gpu_mining", "gpu_search", "gpu_fit")


def why_skip(task: Task) -> str | None:
    """Return why a task cannot be run here, or None."""
    needs_card = task.benchmark in GPU_ONLY or task.device not in (None, "cpu")
    if needs_card and (reason := one_gpu.why_missing()) is not None:
        return reason
    if task.toy or task.problem == NO_PROBLEM:
        return None
    return problems.why_missing(task.problem)


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def _task(text: str) -> Task:
    fields = json.loads(text)
    for name in ("oracles", "steps"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    return Task(**fields)


def main(text: str) -> int:
    """Run one task and print its records."""
    try:
        for record in run(_task(text)):
            print(json.dumps(record), flush=True)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
