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
import scipy.sparse as sp

#: Blocks of rows, and of triplets.
BLOCKS = 16

#: Iterations that are not timed.
SKIP = 2


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

    def cpu_per_iteration(self, skip: int = SKIP) -> list[float]:
        """Return the CPU seconds of an iteration, by process."""
        n = len(self.cpu) - 1 - skip
        return ((np.array(self.cpu[-1]) - np.array(self.cpu[skip])) / n).tolist()

    def per_iteration(self, skip: int = SKIP) -> float:
        """Return the median seconds of an iteration."""
        return float(np.median(np.diff(self.times)[skip:]))


def make(name: str, toy: bool, folder: Path) -> dict:
    """Write a problem in blocks, unless it is there."""
    from . import problems  # not above: workers load this module, and need no scikit-learn

    home = place(name, toy, folder)
    if not (home / "about.json").exists():
        problem = problems.load(name, toy=toy)
        home.mkdir(parents=True, exist_ok=True)
        for kind, rows in (("rows", problem.X), ("triplets", problem.triplets)):
            cuts = np.linspace(0, rows.shape[0], BLOCKS + 1).astype(int)
            for k, (first, last) in enumerate(itertools.pairwise(cuts)):
                if kind == "triplets":
                    np.save(home / f"triplets-{k}.npy", rows[first:last])
                    continue
                block = rows[first:last]
                for part in ("indptr", "indices", "data"):
                    np.save(home / f"{part}-{k}.npy", getattr(block, part))
        about = {"scale": problem.scale, **problem.size}
        (home / "about.json").write_text(json.dumps(about))
    return json.loads((home / "about.json").read_text())


def place(name: str, toy: bool, folder: Path) -> Path:
    """Return where the blocks of a problem are."""
    return folder / f"{name.replace(':', '-')}{'-toy' if toy else ''}"


def load_rows(home: Path, k: int, n_columns: int) -> sp.csr_array:
    """Read a block of rows, which stays on the disk."""
    indptr, indices, data = (
        np.load(home / f"{part}-{k}.npy", mmap_mode="r") for part in ("indptr", "indices", "data")
    )
    block = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    block.has_canonical_format = True
    return block


def load_triplets(home: Path, k: int) -> np.ndarray:
    """Read a block of triplets."""
    return np.load(home / f"triplets-{k}.npy")


def one_machine(
    name: str, n_jobs: int, iterations: int, toy: bool, folder: Path, oracle: str
) -> dict:
    """Time `hdsl.HDSL` in a process of its own."""
    import hdsl

    about, home = make(name, toy, folder), place(name, toy, folder)
    warm = np.array([[0, 1, 2]])
    hdsl.HDSL(max_iter=2, n_jobs=n_jobs, scale=1.0, oracle=oracle).fit(
        load_rows(home, 0, about["n_columns"]), triplets=warm
    )
    before, clock = resident(), Clock()
    begin = time.perf_counter()
    with Peak(["self"]) as peak:
        X = sp.csr_array(
            sp.vstack([load_rows(home, k, about["n_columns"]) for k in range(BLOCKS)], format="csr")
        )
        triplets = np.concatenate([load_triplets(home, k) for k in range(BLOCKS)])
        model = hdsl.HDSL(
            scale=about["scale"], prior=0.0, norm=None, max_iter=iterations, tol=0.0, n_jobs=n_jobs,
            callback=clock, random_state=0, oracle=oracle,
        ).fit(X, triplets=triplets)  # fmt: skip
    return {
        "what": f"one process, {n_jobs} threads",
        **about,
        "seconds": clock.per_iteration(),
        "cpu": clock.cpu_per_iteration(),
        "setup_seconds": clock.times[0] - begin,
        "peak_mb": peak.largest["self"],
        "before_mb": before,
        "objective": model.objective_,
        "atoms": model.atoms_.tolist(),
    }


def on_cluster(
    name: str,
    n_workers: int,
    iterations: int,
    toy: bool,
    folder: Path,
    oracle: str,
    n_shards: int | str,
) -> dict:
    """Time `hdsl.dask.HDSL` on a cluster of processes with one thread each."""
    import dask
    from distributed import Client, LocalCluster

    import hdsl.dask

    about, home = make(name, toy, folder), place(name, toy, folder)
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0",
            memory_limit=0, silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        blocks = [dask.delayed(load_rows)(home, k, about["n_columns"]) for k in range(BLOCKS)]
        triplets = [dask.delayed(load_triplets)(home, k) for k in range(BLOCKS)]
        pids = list(client.run(os.getpid).values())
        idle = max(map(resident, pids))
        few = {"max_iter": 2, "scale": 1.0, "tol": 0.0, "oracle": oracle}  # no search of all pairs
        few["n_shards"] = max(2, n_workers)
        anchors = np.arange(max(8, 2 * n_workers)) % 12
        warm = np.column_stack([anchors, anchors + 1, anchors + 2])
        hdsl.dask.HDSL(**few).fit(blocks[:1], triplets=warm)
        before = max(map(resident, pids))
        clock = Clock(["self", *pids])
        begin = time.perf_counter()
        with Peak(pids) as peak:
            model = hdsl.dask.HDSL(
                scale=about["scale"], prior=0.0, norm=None, max_iter=iterations, tol=0.0,
                callback=clock, random_state=0, n_shards=n_shards, oracle=oracle,
            ).fit(blocks, triplets=triplets)  # fmt: skip
        return {
            "what": f"{n_workers} workers, 1 thread each",
            **about,
            "seconds": clock.per_iteration(),
            "cpu": clock.cpu_per_iteration(),
            "setup_seconds": clock.times[0] - begin,
            "peak_mb": max(peak.largest.values()),
            "idle_mb": idle,
            "before_mb": before,
            "objective": model.objective_,
            "atoms": model.atoms_.tolist(),
            "cluster": model.cluster_,
        }


#: Columns of the table, and the number of each record.
COLUMNS = {
    "s per iteration": lambda r, first: f"{r['seconds']:.4f}",
    "of the first": lambda r, first: f"{r['seconds'] / first['seconds']:.2f}",
    "set up, s": lambda r, first: f"{r['setup_seconds']:.1f}",
    "CPU s per iteration of each process": lambda r, first: " ".join(f"{x:.3f}" for x in r["cpu"]),
    "peak MiB": lambda r, first: f"{r['peak_mb']:.0f}",
    "of the first, ": lambda r, first: f"{r['peak_mb'] / first['peak_mb']:.2f}",
    "before the fit": lambda r, first: f"{r['before_mb']:.0f}",
    "rounds": lambda r, first: wire(r, "rounds"),
    "down": lambda r, first: wire(r, "down"),
    "up": lambda r, first: wire(r, "up"),
    "between": lambda r, first: wire(r, "between"),
    "row held": lambda r, first: f"{r['cluster']['times_held']:.2f}" if "cluster" in r else "",
    "same atoms": lambda r, first: "yes" if r["atoms"] == first["atoms"] else "no",
    "objective less the first": lambda r, first: f"{r['objective'] - first['objective']:.1e}",
}


def wire(record: dict, name: str) -> str:
    """Return rounds or bytes per iteration."""
    if "cluster" not in record:
        return ""
    number = record["cluster"][f"{name}_per_iteration"]
    return f"{number:.1f}" if name == "rounds" else f"{number:,.0f}"


def main() -> None:
    """Print a table; each record is added to a file at once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--problem", default="scaled:1e6")
    parser.add_argument("--workers", type=int, nargs="*", default=[2])
    parser.add_argument("--threads", type=int, nargs="*", default=[2])
    parser.add_argument("--shards", help="number of shards; none is the estimator's choice")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--oracle", default="ascent")
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("build/blocks"))
    parser.add_argument("--out", type=Path, help="add the records to this file, as JSON lines")
    parser.add_argument("--only", help="run one part, print JSON: make:, threads:N or workers:N")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(run(given)))
        return
    part(given, "make:")
    parts = [*(f"threads:{n}" for n in given.threads), *(f"workers:{n}" for n in given.workers)]
    first: dict = {}
    print("| | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1), flush=True)
    for only in parts:
        record = part(given, only)
        first = first or record
        cells = [column(record, first) for column in COLUMNS.values()]
        print(f"| {record['what']} | " + " | ".join(cells) + " |", flush=True)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(json.dumps(record) + "\n")


def run(given: argparse.Namespace) -> dict:
    """Run one part in this process."""
    kind, _, n = given.only.partition(":")
    if kind == "make":
        return make(given.problem, given.toy, given.folder)
    args = (given.problem, int(n), given.iterations, given.toy, given.folder, given.oracle)
    if kind == "threads":
        return one_machine(*args)
    return on_cluster(*args, int(given.shards) if given.shards else "auto")


def part(given: argparse.Namespace, only: str) -> dict:
    """Return the record of a part, which runs in a process of its own."""
    import subprocess
    import sys

    command = [
        sys.executable, "-m", "benchmarks.cluster", "--only", only, "--problem", given.problem,
        "--iterations", str(given.iterations), "--folder", str(given.folder),
        "--oracle", given.oracle,
    ]  # fmt: skip
    command += ["--toy"] if given.toy else []
    command += ["--shards", given.shards] if given.shards else []
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2000:])
    return json.loads(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
