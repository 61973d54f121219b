"""Fit in processes that are killed at random moments, then let one finish.

``python killed.py FOLDER SEED KILLS PARAMETERS [SPEED [ROWS]]`` fits once without a
kill, then again and again with one checkpoint, killing the process (SIGKILL) KILLS
times, then once to the end. It prints as JSON how many processes were killed, at which
iterations processes started, whether the two models are the same bytes, and which files
are left. Checkpoints are written as often as can be, or with SPEED at the default
interval by a clock that runs so many times as fast.
"""

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL
from hdsl.files import checkpoint
from hdsl.settings import nested_parameters


def data(n=240, d=300):
    """Rows of two kinds that share words, and their kinds."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    rare = rng.random((n, d)) < np.where(y, 0.03, 0.05)[:, None]
    A = rare * rng.random((n, d))
    A[np.arange(n), y] += rng.random(n) < 0.7
    return sp.csr_array(A), y


class Setting(NamedTuple):
    """How a process fits: parameters of HDSL, how fast its clock runs, and its rows."""

    parameters: dict
    speed: float
    n_rows: int


def fit(path, kept, setting):
    """Fit and save, with a checkpoint that is written as often as can be, or by a fast clock."""
    if setting.speed:
        checkpoint.time = SimpleNamespace(
            monotonic=lambda: setting.speed * time.monotonic()
        )
    else:
        checkpoint.INTERVAL = 0.0
        checkpoint.TIME_SHARE = np.inf
    seen = []

    def callback(state):
        if not seen:
            with open(f"{kept}.started", "a") as file:
                file.write(f"{state.n_iter}\n")
        seen.append(state.n_iter)

    model = HDSL(**nested_parameters(random_state=0, **setting.parameters))
    model.fit(*data(setting.n_rows), checkpoint=kept, callback=callback)
    model.save(path)


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


def ends_well(child):
    """Whether a process ends without an error; waits for it."""
    _, status = os.waitpid(child, 0)
    return status == 0


def main(folder, seed, kills, parameters, speed="0", n_rows="240"):
    """Compare a fit that is not killed with one that is killed so many times."""
    folder = Path(folder)
    rng = np.random.default_rng(int(seed))
    setting = Setting(json.loads(parameters), float(speed), int(n_rows))
    whole = folder / "whole.hdsl"
    kept = folder / "run.ckpt"
    pieced = folder / "pieced.hdsl"
    warnings.simplefilter("ignore")  # it does not converge
    short = {**setting.parameters, "max_iter": 2}
    HDSL(**nested_parameters(random_state=0, **short)).fit(*data(setting.n_rows))
    began = time.perf_counter()  # kernels are loaded
    assert ends_well(in_child(fit, whole, folder / "other.ckpt", setting))
    (folder / "other.ckpt.started").unlink()
    length = time.perf_counter() - began
    killed = 0
    started = Path(f"{kept}.started")
    while killed < int(kills):
        child = in_child(fit, pieced, kept, setting)
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
    assert ends_well(in_child(fit, pieced, kept, setting))
    resumed = [int(n_iter) for n_iter in started.read_text().split()]
    started.unlink()
    same = pieced.read_bytes() == whole.read_bytes()
    left = sorted(entry.name for entry in folder.iterdir())
    print(
        json.dumps({"killed": killed, "resumed": resumed, "same": same, "left": left})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
