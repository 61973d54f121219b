"""Fit in processes that are killed at random moments, until one comes to its end.

``python killed.py FOLDER SEED KILLS PARAMETERS`` fits once in peace, then again and again with a
checkpoint, killing the process (SIGKILL) KILLS times; then it is let go on to its end. Prints as
JSON how many processes were killed, from which iterations those that followed went on, and whether
the two files are the same bytes.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL
from hdsl.core import solver
from hdsl.files import checkpoint


def data(n=240, d=300):
    """Rows of two kinds that share words, and their kinds."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    rare = rng.random((n, d)) < np.where(y, 0.03, 0.05)[:, None]
    A = rare * rng.random((n, d))
    A[np.arange(n), y] += rng.random(n) < 0.7
    return sp.csr_array(A), y


def fit(path, kept, parameters):
    """Fit and save; with a checkpoint that is written as often as can be where one is named."""
    checkpoint.INTERVAL, checkpoint.TIME_SHARE = 0.0, np.inf
    go_to = solver._Run.go_to

    def noted(run, place):
        with open(f"{kept}.went", "a") as file:
            file.write(f"{place['counts'][0]}\n")
        return go_to(run, place)

    solver._Run.go_to = noted
    HDSL(random_state=0, checkpoint=kept, **parameters).fit(*data()).save(path)


def in_child(function, *args):
    """Call a function in a process of its own, and return its number."""
    child = os.fork()
    if child == 0:
        try:
            function(*args)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return child


def main(folder, seed, kills, parameters):
    """Compare a fit in peace with one that is killed so many times."""
    folder, rng = Path(folder), np.random.default_rng(int(seed))
    parameters = json.loads(parameters)
    whole, kept, pieced = (folder / name for name in ("whole.hdsl", "run.ckpt", "pieced.hdsl"))
    began = time.perf_counter()
    assert os.waitpid(in_child(fit, whole, folder / "other.ckpt", parameters), 0)[1] == 0
    length = time.perf_counter() - began
    killed, went = 0, Path(f"{kept}.went")
    while killed < int(kills):
        child = in_child(fit, pieced, kept, parameters)
        time.sleep(rng.uniform(0.0, length))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
            assert not pieced.exists() or pieced.read_bytes() == whole.read_bytes()
        else:  # it was too quick
            assert status == 0
            assert pieced.read_bytes() == whole.read_bytes()
            pieced.unlink()
    assert os.waitpid(in_child(fit, pieced, kept, parameters), 0)[1] == 0
    resumed = went.read_text().split() if went.exists() else []
    went.unlink(missing_ok=True)
    left = sorted(p.name for p in folder.iterdir() if not p.name.endswith(".tmp"))
    same = pieced.read_bytes() == whole.read_bytes()
    print(json.dumps({"killed": killed, "resumed": list(map(int, resumed)), "same": same,
                      "left": left}))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
