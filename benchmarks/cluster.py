"""The fit on a cluster of processes of this machine, against one process with as many threads.

`python -m benchmarks.cluster` runs apart from the others, as it starts processes of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import threading
import time
from pathlib import Path

import numpy as np

from . import problems


def resident(pid: int | str = "self") -> float:
    """Return the resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Peak:
    """The largest resident memory of some processes while a block runs."""

    def __init__(self, pids) -> None:
        self.pids, self.largest = list(pids), {}
        self._stop = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            for pid in self.pids:
                self.largest[pid] = max(self.largest.get(pid, 0.0), resident(pid))


def cpu(pid: int | str = "self") -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Clock:
    """A callback that notes when each iteration ends, and the CPU time of some processes."""

    def __init__(self, pids=("self",)) -> None:
        self.times, self.pids, self.cpu = [], list(pids), []

    def __call__(self, state) -> None:
        self.times.append(time.perf_counter())
        self.cpu.append([cpu(pid) for pid in self.pids])

    def cpu_per_iteration(self, skip: int = 5) -> list[float]:
        """Return the CPU seconds of an iteration, by process."""
        n = len(self.cpu) - 1 - skip
        return ((np.array(self.cpu[-1]) - np.array(self.cpu[skip])) / n).tolist()

    def per_iteration(self, skip: int = 5) -> float:
        """Return the median seconds of an iteration."""
        return float(np.median(np.diff(self.times)[skip:]))


def load(name: str, toy: bool, folder: Path) -> problems.Problem:
    """Return a problem; the first part of a run makes it, and the others read it."""
    import scipy.sparse as sp

    path = folder / f"{name.replace(':', '-')}-{toy}"
    if not path.with_suffix(".npy").exists():
        problem = problems.load(name, toy=toy)
        folder.mkdir(parents=True, exist_ok=True)
        sp.save_npz(path.with_suffix(".npz"), problem.X, compressed=False)
        path.with_suffix(".json").write_text(json.dumps(problem.scale))
        np.save(path.with_suffix(".npy"), problem.triplets)
    X = sp.csr_array(sp.load_npz(path.with_suffix(".npz")))
    scale = json.loads(path.with_suffix(".json").read_text())
    return problems.Problem(name, X, np.load(path.with_suffix(".npy")), scale)


def saved(problem, folder: Path, n_blocks: int) -> list[Path]:
    """Write the rows in blocks."""
    import scipy.sparse as sp

    folder.mkdir(parents=True, exist_ok=True)
    cuts = np.linspace(0, problem.X.shape[0], n_blocks + 1).astype(int)
    paths = []
    for k, (first, last) in enumerate(itertools.pairwise(cuts)):
        paths.append(folder / f"{k}.npz")
        sp.save_npz(paths[-1], problem.X[first:last], compressed=False)
    return paths


def load_block(path):
    """Read a block."""
    import scipy.sparse as sp

    return sp.csr_array(sp.load_npz(path))


def one_machine(name: str, n_jobs: int, iterations: int, toy: bool, folder: Path) -> dict:
    """Time `hdsl.HDSL` in a process of its own."""
    import hdsl

    problem = load(name, toy, folder)
    hdsl.HDSL(max_iter=2, n_jobs=n_jobs, scale=1.0).fit(
        problem.X[:200], triplets=np.array([[0, 1, 2]])
    )
    before, clock = resident(), Clock()
    with Peak(["self"]) as peak:
        model = hdsl.HDSL(
            scale=problem.scale, prior=0.0, norm=None, max_iter=iterations, tol=0.0, n_jobs=n_jobs,
            callback=clock, random_state=0,
        ).fit(problem.X, triplets=problem.triplets)  # fmt: skip
    return {
        "what": f"one process, {n_jobs} threads",
        "seconds": clock.per_iteration(),
        "cpu": clock.cpu_per_iteration(),
        "peak_mb": peak.largest["self"],
        "before_mb": before,
        "objective": model.objective_,
        "atoms": model.atoms_.tolist(),
    }


def on_cluster(
    name: str, n_workers: int, iterations: int, toy: bool, folder: Path, n_shards: int | str
) -> dict:
    """Time `hdsl.dask.HDSL` on a cluster of processes with one thread each."""
    import dask
    from distributed import Client, LocalCluster

    import hdsl.dask

    problem = load(name, toy, folder)
    paths = saved(problem, folder, 16)
    triplets, scale = problem.triplets, problem.scale
    del problem
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0",
            memory_limit=0, silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        blocks = [dask.delayed(load_block)(path) for path in paths]
        few = {"max_iter": 2, "scale": 1.0, "n_shards": max(2, n_workers)}
        anchors = np.arange(8)
        warm = np.column_stack([anchors, anchors + 1, anchors + 2])
        hdsl.dask.HDSL(**few).fit(blocks[:1], triplets=warm)
        pids = list(client.run(os.getpid).values())
        clock = Clock(["self", *pids])
        begin = time.perf_counter()
        with Peak(pids) as peak:
            model = hdsl.dask.HDSL(
                scale=scale, prior=0.0, norm=None, max_iter=iterations, tol=0.0, callback=clock,
                random_state=0, n_shards=n_shards,
            ).fit(blocks, triplets=triplets)  # fmt: skip
        return {
            "what": f"{n_workers} workers, 1 thread each",
            "seconds": clock.per_iteration(),
            "cpu": clock.cpu_per_iteration(),
            "setup_seconds": clock.times[0] - begin,
            "peak_mb": max(peak.largest.values()),
            "objective": model.objective_,
            "atoms": model.atoms_.tolist(),
            "cluster": model.cluster_,
        }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--problem", default="scaled:1e6")
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--shards", help="number of shards; none is the estimator's choice")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("build/blocks"))
    parser.add_argument("--only", help="run one part and print it as JSON: threads:N or workers:N")
    given = parser.parse_args()
    if given.only:
        kind, _, n = given.only.partition(":")
        args = (given.problem, int(n), given.iterations, given.toy, given.folder)
        if kind == "threads":
            record = one_machine(*args)
        else:
            record = on_cluster(*args, int(given.shards) if given.shards else "auto")
        print(json.dumps(record))
        return
    parts = [*(f"threads:{n}" for n in given.threads), *(f"workers:{n}" for n in given.workers)]
    first: dict = {}
    print("| | s per iteration | of the first | peak MiB of a process | of the first |", end="")
    print(
        " CPU s of each process | rounds | down | up | between | held | same atoms |\n|"
        + "---|" * 12
    )
    for only in parts:
        record = part(given, only)
        first = first or record
        wire = record.get("cluster", {})
        sizes = [wire.get(f"{k}_per_iteration", 0) for k in ("rounds", "down", "up", "between")]
        same = record["atoms"] == first["atoms"]
        print(
            f"| {record['what']} | {record['seconds']:.4f} | "
            f"{record['seconds'] / first['seconds']:.2f} | {record['peak_mb']:.0f} | "
            f"{record['peak_mb'] / first['peak_mb']:.2f} | "
            f"{' '.join(f'{x:.3f}' for x in record['cpu'])} | {sizes[0]:.1f} | {sizes[1]:.0f} | "
            f"{sizes[2]:.0f} | {sizes[3]:.0f} | {wire.get('times_held', 1):.2f} | {same} "
            f"{record['objective'] - first['objective']:.1e} |",
            flush=True,
        )


def part(given: argparse.Namespace, only: str) -> dict:
    """Return the record of a part, which runs in a process of its own."""
    import subprocess
    import sys

    command = [
        sys.executable, "-m", "benchmarks.cluster", "--only", only, "--problem", given.problem,
        "--iterations", str(given.iterations), "--folder", str(given.folder),
    ]  # fmt: skip
    command += ["--toy"] if given.toy else []
    command += ["--shards", given.shards] if given.shards else []
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2000:])
    return json.loads(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
