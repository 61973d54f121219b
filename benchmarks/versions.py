"""CPU seconds of ``HDSL().fit`` by this checkout and by another one, in turn, on real sets.

`python -m benchmarks.versions --other PATH` compares with the checkout at PATH, such as
one that `git worktree add PATH COMMIT` makes. Each fit is a process of its own on one
thread, after a fit of two iterations that compiles; the two versions take turns, so
that the ratio of their medians is one of the same machine at the same time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from reproduce import sets
from reproduce.settings import Settings

from .problems import ROOT, data_folder

FIT = """
import json, sys, time, warnings
import numpy as np, scipy.sparse as sp
from hdsl import HDSL
warnings.simplefilter("ignore")
with np.load(sys.argv[1], allow_pickle=False) as stored:
    arrays = (stored["data"], stored["indices"], stored["indptr"])
    X = sp.csr_array(arrays, tuple(stored["shape"]))
    y = stored["y"]
params = {"n_jobs": 1, "random_state": 0, **json.loads(sys.argv[2])}
few = np.random.default_rng(0).permutation(len(y))[:300]
HDSL(**params).fit(X[few], y[few])
start = time.process_time()
HDSL(**params).fit(X, y)
print(time.process_time() - start)
"""


def seconds(checkout: Path, file: Path, params: str) -> float:
    """Return the CPU seconds of a fit by a checkout."""
    folders = [
        str(checkout / "src"),
        *filter(None, sys.path),
    ]  # the first has the package
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-c", FIT, str(file), params]
    with tempfile.TemporaryDirectory() as home:  # not this checkout
        done = subprocess.run(
            command,
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Print a line per set: the median of each version, and their ratio."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.versions", description=__doc__
    )
    parser.add_argument("--other", type=Path, required=True, help="the other checkout")
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--params", default="{}", help="parameters of both as JSON")
    options = parser.parse_args()
    settings = Settings(Path(), data_folder())
    print(
        "| set | rows | this, s | other, s | ratio |\n|---|---|---|---|---|", flush=True
    )
    for name in options.sets or sets.names_of_splits(settings):
        split = sets.split(settings, name)
        X = sp.csr_array(split.X)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.npz"
            _, codes = np.unique(split.y, return_inverse=True)
            np.savez(
                file,
                data=X.data,
                indices=X.indices,
                indptr=X.indptr,
                shape=X.shape,
                y=codes,
            )
            checkouts = ROOT, options.other.resolve()
            spent = [
                [seconds(checkout, file, options.params) for checkout in checkouts]
                for _ in range(options.repeat)
            ]
        ours, theirs = np.median(spent, axis=0)
        print(
            f"| {name} | {len(split.y):,} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} "
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()
