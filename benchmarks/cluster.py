"""The whole fit on processes of this machine, against one process with as many threads.

`python -m benchmarks.cluster --problem scaled:1e6` prints both, and their ratio. It
runs apart from the other benchmarks, as it starts processes of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hdsl.settings import nested_parameters

#: Blocks of rows, and of triplets.
BLOCKS = 16


def make(options: argparse.Namespace) -> dict:
    """Write a problem in blocks, unless it is there; return its sizes."""
    # Not above: workers load this module, and need no scikit-learn.
    from . import problems

    home = folder_of(options)
    if not (home / "about.json").exists():
        problem = problems.load(options.problem, toy=options.toy)
        home.mkdir(parents=True, exist_ok=True)
        for k, rows in enumerate(blocks_of(problem.X)):
            sp.save_npz(home / f"rows-{k}.npz", rows, compressed=False)
        for k, triplets in enumerate(blocks_of(problem.triplets)):
            np.save(home / f"triplets-{k}.npy", triplets)
        rng = np.random.default_rng(0)
        for k, rows in enumerate(blocks_of(problem.X)):
            shape = (rows.shape[0], options.embedding)
            np.save(home / f"embedding-{k}.npy", rng.normal(size=shape).astype("f4"))
        (home / "about.json").write_text(json.dumps(problem.size))
    return json.loads((home / "about.json").read_text())


def blocks_of(rows: Any) -> list[Any]:
    """Return rows in consecutive blocks."""
    cuts = np.linspace(0, rows.shape[0], BLOCKS + 1).astype(int)
    return [rows[first:last] for first, last in pairwise(cuts)]


def folder_of(options: argparse.Namespace) -> Path:
    """Return where the blocks of a problem are."""
    name = options.problem.replace(":", "-")
    if options.toy:
        name = f"{name}-toy"
    if options.embedding:
        name = f"{name}-{options.embedding}"
    return options.folder / name


def load_rows(home: Path, k: int) -> sp.csr_array:
    """Read a block of rows."""
    return sp.csr_array(sp.load_npz(home / f"rows-{k}.npz"))


def load_triplets(home: Path, k: int) -> np.ndarray:
    """Read a block of triplets."""
    return np.load(home / f"triplets-{k}.npy")


def load_embedding(home: Path, k: int) -> np.ndarray:
    """Read the embedding of a block of rows."""
    return np.load(home / f"embedding-{k}.npy")


def few(width: int) -> tuple[Any, np.ndarray]:
    """Return rows and triplets that a fit compiles everything with.

    With an embedding of some columns, rows are a pair.
    """
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random_array((40, 60), density=0.3, rng=rng, format="csr"))
    triplets = rng.integers(40, size=(300, 3))
    triplets = triplets[triplets[:, 1] != triplets[:, 2]]
    if not width:
        return X, triplets
    return (X, rng.normal(size=(40, width)).astype("f4")), triplets


def one_machine(options: argparse.Namespace, n_jobs: int) -> dict:
    """Time `hdsl.HDSL`, blocks to model."""
    import hdsl

    home = folder_of(options)
    params = parameters(options)
    X, triplets = few(options.embedding)
    hdsl.HDSL(**nested_parameters(**params, n_jobs=n_jobs)).fit(X, triplets=triplets)
    clock = Clock()
    X = sp.csr_array(
        sp.vstack([load_rows(home, k) for k in range(BLOCKS)], format="csr")
    )
    if options.embedding:
        X = (X, np.vstack([load_embedding(home, k) for k in range(BLOCKS)]))
    triplets = np.concatenate([load_triplets(home, k) for k in range(BLOCKS)])
    model = hdsl.HDSL(**nested_parameters(**params, n_jobs=n_jobs)).fit(
        X, triplets=triplets, callback=clock
    )
    return {"what": f"one process, {n_jobs} threads", **clock.record(model)}


def on_cluster(options: argparse.Namespace, n_workers: int) -> dict:
    """Time `hdsl.dask.HDSL` on processes with one thread each, blocks to model."""
    import dask
    from distributed import Client, LocalCluster

    import hdsl.dask

    home = folder_of(options)
    params = parameters(options)
    width = options.embedding
    workers = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": ":0"}
    with LocalCluster(n_workers=n_workers, **workers) as cluster, Client(cluster):
        X, triplets = few(width)
        hdsl.dask.HDSL(**nested_parameters(**params)).fit(X, triplets=triplets)
        clock = Clock()
        blocks: Any = [dask.delayed(load_rows)(home, k) for k in range(BLOCKS)]
        if width:
            embedding = [dask.delayed(load_embedding)(home, k) for k in range(BLOCKS)]
            blocks = (blocks, embedding)
        judged = [dask.delayed(load_triplets)(home, k) for k in range(BLOCKS)]
        model = hdsl.dask.HDSL(**nested_parameters(**params)).fit(
            blocks, triplets=judged, callback=clock
        )
        return {"what": f"{n_workers} workers, 1 thread each", **clock.record(model)}


def parameters(options: argparse.Namespace) -> dict:
    """Return the parameters that both ways have."""
    prior = options.prior
    if prior != "auto":
        prior = float(prior)
    weights = {}
    if options.embedding and prior != "auto":
        weights = {"embedding_weight": 1.0}
    return {
        **weights,
        "prior": prior,
        "max_iter": options.iterations,
        "tol": 0.0,
        "random_state": 0,
    }


class Clock:
    """A callback that notes when the first iteration begins."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self.first = None

    def __call__(self, state) -> None:
        self.first = self.first or time.perf_counter()

    def record(self, model) -> dict:
        """Return what a run took, and what it found."""
        end = time.perf_counter()
        return {
            "seconds": end - self.begin,
            "setup_seconds": self.first - self.begin,
            "n_iter": model.n_iter_,
            "objective": model.objective_,
            "atoms": model.atoms_.tolist(),
        }


#: Columns of the table, and the number of each record.
COLUMNS = {
    "s": lambda r, first: f"{r['seconds']:.1f}",
    "of the first": lambda r, first: f"{r['seconds'] / first['seconds']:.2f}",
    "before the first iteration, s": lambda r, first: f"{r['setup_seconds']:.1f}",
    "iterations": lambda r, first: f"{r['n_iter']}",
    "same atoms": lambda r, first: "yes" if r["atoms"] == first["atoms"] else "no",
    "objective less the first": lambda r, first: (
        f"{r['objective'] - first['objective']:.1e}"
    ),
}


def main() -> None:
    """Print a table; each run is a process of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster", description=__doc__
    )
    parser.add_argument("--problem", default="scaled:1e6")
    parser.add_argument("--workers", type=int, nargs="*", default=[2])
    parser.add_argument("--threads", type=int, nargs="*", default=[2])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--prior", default="auto")
    parser.add_argument(
        "--embedding", type=int, default=0, help="columns of a generated embedding"
    )
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("build/blocks"))
    parser.add_argument(
        "--only", help="run one part, print JSON: threads:N or workers:N"
    )
    options = parser.parse_args()
    if options.only:
        kind, _, n = options.only.partition(":")
        if kind == "threads":
            result = one_machine(options, int(n))
        else:
            result = on_cluster(options, int(n))
        print(json.dumps(result))
        return
    make(options)
    print(f"| | {' | '.join(COLUMNS)} |")
    print("|" + "---|" * (len(COLUMNS) + 1), flush=True)
    runs = [f"threads:{n}" for n in options.threads]
    runs += [f"workers:{n}" for n in options.workers]
    first: dict = {}
    for run in runs:
        result = run_apart(run)
        first = first or result
        cells = [column(result, first) for column in COLUMNS.values()]
        print(f"| {result['what']} | {' | '.join(cells)} |", flush=True)


def run_apart(run: str) -> dict:
    """Return the result of one run, a process of its own."""
    module = [sys.executable, "-m", "benchmarks.cluster"]
    ended = subprocess.run(
        [*module, *sys.argv[1:], "--only", run],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ,
    )
    return json.loads(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
