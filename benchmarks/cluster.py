"""The fit on a cluster of processes of this machine, against one process with as many threads.

`python -m benchmarks.cluster` runs apart from the others, as it starts processes of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp

#: Blocks of rows, and of triplets.
BLOCKS = 16

#: Iterations that are not timed.
SKIP = 2


def resident(pid: int | str = "self", what: str = "VmRSS") -> float:
    """Return the resident memory of a process, in MiB; "RssAnon" is that without mapped files."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def limit_memory(mib: float) -> None:
    """Let this process have so much more memory, mapped files apart; the kernel sees to it."""
    import resource

    most = int((resident(what="VmData") + mib) * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Peak:
    """The largest resident memory of some processes while a block runs."""

    def __init__(self, pids) -> None:
        self.pids, self.largest, self.anonymous = list(pids), {}, {}
        self._stop = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            for pid in self.pids:
                for most, what in ((self.largest, "VmRSS"), (self.anonymous, "RssAnon")):
                    most[pid] = max(most.get(pid, 0.0), resident(pid, what))
            if self._stop.wait(0.05):
                return


def cpu(pid: int | str = "self") -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Clock:
    """A callback that notes when each iteration ends, and the CPU time of some processes.

    The fit stops once `limit` seconds are over.
    """

    def __init__(self, pids=("self",), limit: float = np.inf) -> None:
        self.times, self.pids, self.cpu = [], list(pids), []
        self.begin, self.limit = time.perf_counter(), limit

    def __call__(self, state) -> bool:
        self.times.append(time.perf_counter())
        self.cpu.append([cpu(pid) for pid in self.pids])
        return self.times[-1] - self.begin > self.limit

    def cpu_per_iteration(self, skip: int = SKIP) -> list[float]:
        """Return the CPU seconds of an iteration, by process."""
        skip = min(skip, max(0, len(self.cpu) - 2))
        n = max(1, len(self.cpu) - 1 - skip)
        return ((np.array(self.cpu[-1]) - np.array(self.cpu[skip])) / n).tolist()

    def per_iteration(self, skip: int = SKIP) -> float:
        """Return the median seconds of an iteration."""
        times = np.diff(self.times)
        return float(np.median(times[min(skip, len(times) - 1) :])) if len(times) else np.nan


class Stages(logging.Handler):
    """Prints how long the parts of the set-up take, and ends the process if they take too long.

    Parameters
    ----------
    what : str
        Name of the run.
    limit : float
        Seconds after which the process prints where it stands, as its record, and ends.
    """

    def __init__(self, what: str, limit: float) -> None:
        super().__init__()
        self.what, self.seconds, self.now = what, {}, "start the workers"
        self.begin = self._since = time.perf_counter()
        log = logging.getLogger("hdsl.dask")
        log.setLevel(logging.INFO)
        log.addHandler(self)
        self._end = None
        if np.isfinite(limit):
            self._end = threading.Timer(limit, self._give_up)
            self._end.daemon = True
            self._end.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message: a part begins, or has taken so many seconds."""
        name, *took = record.args if isinstance(record.args, tuple) else (record.args,)
        if took:
            self.note(str(name), float(took[0]))
        self.now = str(name)

    def note(self, name: str, seconds: float) -> None:
        """Add a part, and print it."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        since = time.perf_counter() - self.begin
        print(f"{self.what}, {since:6.1f} s: {name} {seconds:.2f} s", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Forget the parts so far."""
        self.seconds = {}

    def iterate(self) -> None:
        """Let the clock end the run from now on."""
        if self._end is not None:
            self._end.cancel()

    def _give_up(self) -> None:
        found = {"what": self.what, "stopped": self.now, "stages": self.seconds}
        print(json.dumps(found), flush=True)
        os._exit(0)


def make(given: argparse.Namespace) -> dict:
    """Write a problem in blocks, unless it is there."""
    from . import problems  # not above: workers load this module, and need no scikit-learn

    home = place(given)
    if not (home / "about.json").exists():
        problem = problems.load(given.problem, toy=given.toy)
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


def place(given: argparse.Namespace) -> Path:
    """Return where the blocks of a problem are."""
    return given.folder / f"{given.problem.replace(':', '-')}{'-toy' if given.toy else ''}"


def load_rows(home: Path, k: int, n_columns: int) -> sp.csr_array:
    """Read a block of rows, which stays on the disk."""
    indptr, indices, data = (
        np.load(home / f"{part}-{k}.npy", mmap_mode="r") for part in ("indptr", "indices", "data")
    )
    block = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    block.has_canonical_format = True
    return block


def few_rows() -> sp.csr_array:
    """Return rows that a fit compiles everything with."""
    return sp.random_array((16, 40), density=0.5, rng=np.random.default_rng(0), format="csr")


def warm_up(given: argparse.Namespace, n_jobs: int) -> None:
    """Compile what a fit needs."""
    import hdsl

    model = hdsl.HDSL(max_iter=2, n_jobs=n_jobs, scale=1.0, oracle=given.oracle)
    model.fit(few_rows(), triplets=np.array([[0, 1, 2]]))


def load_triplets(home: Path, k: int) -> np.ndarray:
    """Read a block of triplets."""
    return np.load(home / f"triplets-{k}.npy")


def one_machine(given: argparse.Namespace, n_jobs: int) -> dict:
    """Time `hdsl.HDSL` in a process of its own."""
    import hdsl

    about, home = make(given), place(given)
    what = f"one process, {n_jobs} threads"
    stages = Stages(what, given.limit)
    warm_up(given, n_jobs)
    before, clock = resident(), Clock(limit=stages.begin + given.limit - time.perf_counter())
    with Peak(["self"]) as peak:
        X = sp.csr_array(
            sp.vstack([load_rows(home, k, about["n_columns"]) for k in range(BLOCKS)], format="csr")
        )
        triplets = np.concatenate([load_triplets(home, k) for k in range(BLOCKS)])
        stages.note("load", time.perf_counter() - clock.begin)
        model = hdsl.HDSL(**parameters(given, about, clock, stages), n_jobs=n_jobs)
        model.fit(X, triplets=triplets)
    return {"what": what, **about, **record(clock, peak, stages, model), "before_mb": before}


def on_cluster(given: argparse.Namespace, n_workers: int) -> dict:
    """Time `hdsl.dask.HDSL` on a cluster of processes with one thread each."""
    from distributed import Client, LocalCluster

    import dask
    import hdsl.dask

    about, home = make(given), place(given)
    what = f"{n_workers} workers, 1 thread each"
    stages = Stages(what, given.limit)
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
        few = {"max_iter": 2, "scale": 1.0, "tol": 0.0, "oracle": given.oracle}
        few["n_shards"] = max(2, n_workers)
        anchors = np.arange(max(8, 2 * n_workers)) % 12
        warm = np.column_stack([anchors, anchors + 1, anchors + 2])
        hdsl.dask.HDSL(**few).fit([few_rows()], triplets=warm)
        stages.clear()
        stages.note("start and compile", time.perf_counter() - stages.begin)
        before = max(map(resident, pids))
        anonymous = max(resident(pid, "RssAnon") for pid in pids)
        if given.memory:
            client.run(limit_memory, given.memory)
        left = stages.begin + given.limit - time.perf_counter()
        clock = Clock(["self", *pids], left)
        with Peak(pids) as peak:
            model = hdsl.dask.HDSL(
                **parameters(given, about, clock, stages),
                n_shards=int(given.shards) if given.shards else "auto",
                shards_on_disk=given.disk,
                memory_limit=given.memory / 1024 if given.memory else "auto",
            ).fit(blocks, triplets=triplets)
        return {
            "what": what,
            **about,
            **record(clock, peak, stages, model),
            "idle_mb": idle,
            "before_mb": before,
            "data_mb": (12 * about["nnz"] + 24 * about["n_triplets"]) / 2**20,
            "more_mb": max(peak.anonymous.values()) - anonymous,
            "cluster": model.cluster_,
        }


def parameters(given: argparse.Namespace, about: dict, clock: Clock, stages: Stages) -> dict:
    """Return the parameters that both ways have."""

    def callback(state) -> bool:
        stages.iterate()
        return clock(state)

    return {
        "scale": about["scale"], "prior": 0.0, "norm": None, "max_iter": given.iterations,
        "tol": 0.0, "callback": callback, "random_state": 0, "oracle": given.oracle,
    }  # fmt: skip


def record(clock: Clock, peak: Peak, stages: Stages, model) -> dict:
    """Return what both ways tell of a run."""
    setup = clock.times[0] - clock.begin
    known = sum(seconds for name, seconds in stages.seconds.items() if name != "start and compile")
    stages.note("everything else before the first iteration", setup - known)
    return {
        "seconds": clock.per_iteration(),
        "cpu": clock.cpu_per_iteration(),
        "setup_seconds": setup,
        "stages": stages.seconds,
        "n_iter": len(clock.times),
        "peak_mb": max(peak.largest.values()),
        "objective": model.objective_,
        "atoms": model.atoms_.tolist(),
    }


#: Columns of the table, and the number of each record.
COLUMNS = {
    "s per iteration": lambda r, first: f"{r['seconds']:.4f}",
    "of the first": lambda r, first: f"{r['seconds'] / first['seconds']:.2f}",
    "set up, s": lambda r, first: f"{r['setup_seconds']:.1f}",
    "iterations": lambda r, first: f"{r['n_iter']}",
    "CPU s per iteration of each process": lambda r, first: " ".join(f"{x:.3f}" for x in r["cpu"]),
    "peak MiB": lambda r, first: f"{r['peak_mb']:.0f}",
    "of the first, ": lambda r, first: f"{r['peak_mb'] / first['peak_mb']:.2f}",
    "before the fit": lambda r, first: f"{r['before_mb']:.0f}",
    "rounds": lambda r, first: wire(r, "rounds"),
    "down": lambda r, first: wire(r, "down"),
    "up": lambda r, first: wire(r, "up"),
    "between": lambda r, first: wire(r, "between"),
    "MiB of X and triplets": lambda r, first: f"{r['data_mb']:.0f}" if "cluster" in r else "",
    "MiB of a worker, mapped files and those before the fit apart": lambda r, first: (
        f"{r['more_mb']:.0f}" if "cluster" in r else ""
    ),
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
    parser.add_argument("--disk", action="store_true", help="keep shards in files")
    parser.add_argument(
        "--memory", type=float, metavar="MIB",
        help="what a worker may have beyond what it has before the fit, mapped files apart",
    )  # fmt: skip
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("build/blocks"))
    parser.add_argument("--out", type=Path, help="add the records to this file, as JSON lines")
    parser.add_argument(
        "--limit", type=float, default=np.inf, metavar="SECONDS",
        help="end each run after so long, with what it has: iterations, or the part of the set-up "
        "where it stands",
    )  # fmt: skip
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
        found = part(given, only)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
        if "stopped" in found:
            print(f"| {found['what']} | {given.limit:g} s were over at: {found['stopped']} |")
            continue
        first = first or found
        cells = [column(found, first) for column in COLUMNS.values()]
        print(f"| {found['what']} | " + " | ".join(cells) + " |", flush=True)


def run(given: argparse.Namespace) -> dict:
    """Run one part in this process."""
    kind, _, n = given.only.partition(":")
    if kind == "make":
        warm_up(given, n_jobs=1)  # later processes find what is compiled
        return make(given)
    return one_machine(given, int(n)) if kind == "threads" else on_cluster(given, int(n))


def part(given: argparse.Namespace, only: str) -> dict:
    """Return the record of a part, which runs in a process of its own."""
    import subprocess

    command = [
        sys.executable, "-m", "benchmarks.cluster", "--only", only, "--problem", given.problem,
        "--iterations", str(given.iterations), "--folder", str(given.folder),
        "--oracle", given.oracle, "--limit", str(given.limit),
    ]  # fmt: skip
    command += ["--toy"] if given.toy else []
    command += ["--disk"] if given.disk else []
    command += ["--memory", str(given.memory)] if given.memory else []
    command += ["--shards", given.shards] if given.shards else []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            lines = iter(process.stdout.readline, "")
            found = next((line for line in lines if line.startswith("{")), None)
            process.wait()
        finally:  # workers of a process that gave up, too
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if found is None:
        raise RuntimeError(f"{only} ended with {process.returncode}, see above.")
    return json.loads(found)


if __name__ == "__main__":
    main()
