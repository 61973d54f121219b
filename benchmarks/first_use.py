"""Import, first fit, and compilation of the GPU's kernels, in new processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from . import problems
from .measure import record
from .tasks import Record, Task, benchmark

IMPORT = """
import json, sys, time
began, cpu = time.perf_counter(), time.process_time()
{statement}
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
print(json.dumps({{"seconds": seconds, "cpu": cpu, "numba": "numba" in sys.modules}}))
"""

FIRST_FIT = """
import json, time
import numpy as np
from hdsl import HDSL
rng = np.random.default_rng(0)
X = rng.random((200, 300)) * (rng.random((200, 300)) < 0.05)
def clocks():
    return time.perf_counter(), time.process_time()
reached = []
began = clocks()
HDSL(max_iter=3, callback=lambda state: reached.append(clocks()), random_state=0).fit(
    X, np.arange(200) % 2)
reached = reached[0], clocks()
before, whole = ([now - then for now, then in zip(at, began)] for at in reached)
print(json.dumps({"before": before, "whole": whole}))
"""


KERNELS = """
import json, time
from hdsl.cuda.runtime import SINGLE, get_device
times = [time.perf_counter()]
device = get_device()
device.upload(__import__("numpy").zeros(1))
device.wait()
for kernel in ("advance", "scatter_atoms" + SINGLE):
    times.append(time.perf_counter())
    device.blocks_for(kernel)  # compiles its module, or loads it
times.append(time.perf_counter())
opened, kernels, single = (b - a for a, b in zip(times, times[1:]))
print(json.dumps({"opened": opened, "kernels": kernels, "single": single, "name": device.name}))
"""


@benchmark(threads=(1,))
def first_use(task: Task) -> Iterator[Record]:
    """Import and first fit, or kernels of a GPU: empty cache of compiled code, then a warm one."""
    if task.device not in (None, "cpu"):
        yield from _kernels(task)
        return
    yield from _imports(task)
    with tempfile.TemporaryDirectory() as folder:
        place = {} if task.toy else {"NUMBA_CACHE_DIR": folder}  # a toy compiles nothing
        cold = _probe(FIRST_FIT, **place)
        warm = [cold] if task.toy else [_probe(FIRST_FIT, **place) for _ in range(3)]
    warm = sorted(warm, key=lambda probe: probe["before"])[len(warm) // 2]
    compiled = cold["whole"][0] - warm["whole"][0]
    notes = {
        "cold_fit": f"whole fit in an empty cache, compiled for {compiled:.1f} s",
        "warm_fit": f"before the first iteration of a new process, {warm['before'][1]:.2f} CPU s",
    }
    for part, probe, (wall, cpu) in (
        ("cold_fit", cold, cold["whole"]),
        ("warm_fit", warm, warm["before"]),
    ):
        yield record(
            task, task.problem, part, seconds=wall, cpu_seconds=cpu, peak=np.nan,
            before_first_iteration=probe["before"][0], whole_fit=probe["whole"][0],
            note=notes[part],
        )  # fmt: skip


def _kernels(task: Task) -> Iterator[Record]:
    """Yield how long the kernels of a card take to be compiled, and from the cache."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("cuda_cold", "cuda_cached"):
            probe = _probe(KERNELS, CUPY_CACHE_DIR=folder)
            note = (
                f"kernels of float64; those of storage='float32' {probe['single']:.2f} s more; the "
                f"card itself {probe['opened']:.2f} s"
            )
            yield record(
                task, task.problem, part, seconds=probe["kernels"], peak=np.nan, note=note,
                device=probe["name"], single_seconds=probe["single"], opened=probe["opened"],
            )  # fmt: skip


def _imports(task: Task) -> Iterator[Record]:
    statements = {
        "import_sklearn": "from sklearn.neighbors import KNeighborsClassifier",
        "import_hdsl": "import hdsl",
    }
    taken = {name: [] for name in statements}
    for _ in range(1 if task.toy else 5):
        for name, statement in statements.items():
            taken[name].append(_probe(IMPORT.format(statement=statement)))
    seconds, cpu = (
        {name: statistics.median(probe[key] for probe in taken[name]) for name in statements}
        for key in ("seconds", "cpu")
    )
    more, more_cpu = (each["import_hdsl"] - each["import_sklearn"] for each in (seconds, cpu))
    numba = taken["import_hdsl"][0]["numba"]
    notes = {
        "import_sklearn": statements["import_sklearn"],
        "import_hdsl": f"{more:+.2f} s against it ({more_cpu:+.2f} CPU s), "
        f"numba {'IMPORTED' if numba else 'not imported'}",
    }
    for name in statements:
        yield record(
            task, task.problem, name, seconds=seconds[name], cpu_seconds=cpu[name], peak=np.nan,
            note=notes[name], numba_imported=taken[name][0]["numba"],
        )  # fmt: skip


def _probe(code: str, **variables: str) -> dict:
    """Run a few lines in a new process and return what they print."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        cwd=problems.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"first_use: a process failed:\n{done.stderr}")
    return json.loads(done.stdout)
