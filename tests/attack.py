"""Attack the promises of docs/reliability.md: kills, full disks, jumping clocks, engines.

    python tests/attack.py                           # every attack, a few minutes
    python tests/attack.py kills --count 240 --seed 7

Each attack prints how often it struck. A broken promise is an AssertionError.
tests/fuzz.py attacks the readers.
"""

import argparse
import errno
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp

import killed
from hdsl import HDSL
from hdsl.files import atomic, checkpoint
from hdsl.serving import certified_top_k
from hdsl.settings import nested_parameters
from hdsl.solver.losses import LOSSES

ORACLES = ("exact", "heuristic", "ascent")
STEPS = ("forward", "away", "pairwise", "blended", "corrective")


def data(seed=0, n=60, d=40):
    """Return rows of two classes."""
    rng = np.random.default_rng(seed)
    A = (rng.random((n, d)) < 0.15) * rng.random((n, d))
    A[:, 0] += 0.1
    return sp.csr_array(A), rng.integers(2, size=n)


def model_of(seed=0, **parameters):
    return HDSL(
        **nested_parameters(
            random_state=seed, **{"max_iter": 30, "tol": 0.0, **parameters}
        )
    )


def fitted(seed=0, kept=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge
        return model_of(seed, **parameters).fit(*data(seed), checkpoint=kept)


# --- kills ----------------------------------------------------------------------------


def kills(count: int, seed: int) -> str:
    """SIGKILL fits at random moments; every other setting with the default interval."""
    rng = random.Random(seed)
    done = resumed = settings = 0
    while done < count:
        parameters = {
            "step": rng.choice(STEPS),
            "oracle": rng.choice(ORACLES),
            "loss": rng.choice(sorted(LOSSES)),
            "batch_size": rng.choice([None, 50, 200]),
            "max_iter": 80,
            "tol": 0.0,
        }
        if (
            parameters["loss"] in ("squared_hinge",)
            and parameters["step"] == "corrective"
        ):
            parameters["step"] = "away"
        # 30 seconds between two checkpoints pass in a few hundredths.
        speed = 1000.0 if settings % 2 else 0.0
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                killed.__file__,
                folder,
                str(rng.randrange(2**31)),
                "12",
            ]
            end = subprocess.run(
                [*command, json.dumps(parameters), str(speed), "80"],
                capture_output=True,
                check=False,
                text=True,
            )
        assert end.returncode == 0, (parameters, end.stderr[-2000:])
        found = json.loads(end.stdout.splitlines()[-1])
        assert found["same"], parameters
        assert found["left"] == ["pieced.hdsl", "whole.hdsl"], (parameters, found)
        done += found["killed"]
        resumed += sum(n_iter > 0 for n_iter in found["resumed"])
        settings += 1
    return f"{done} kills in {settings} settings, {resumed} processes continued a killed fit"


# --- disks ----------------------------------------------------------------------------


class Disk:
    """Counts what is asked of a disk, and fails at one call, or at all from it on."""

    def __init__(
        self, fails_at: int, error: int = errno.ENOSPC, for_good: bool = False
    ) -> None:
        self.fails_at = fails_at
        self.error = error
        self.for_good = for_good
        self.n_calls = 0

    def call(self) -> None:
        self.n_calls += 1
        if self.n_calls == self.fails_at or (
            self.for_good and self.n_calls > self.fails_at
        ):
            raise OSError(self.error, os.strerror(self.error))

    @contextmanager
    def mounted(self):
        disk = self

        class Raw(io.FileIO):
            def write(self, some) -> int:
                disk.call()
                return super().write(bytes(some)[:4096])  # a part, as a disk may

        def opened(path, mode):
            disk.call()
            return io.BufferedWriter(Raw(path, mode.replace("b", "")), 512)

        def wrapped(function: Callable) -> Callable:
            def call(*args, **kwargs):
                disk.call()
                return function(*args, **kwargs)

            return call

        with (
            mock.patch.object(atomic, "open", opened, create=True),
            mock.patch.object(os, "fsync", wrapped(os.fsync)),
            mock.patch.object(os, "replace", wrapped(os.replace)),
            mock.patch.object(os, "chmod", wrapped(os.chmod)),
        ):
            yield


def disks(count: int, seed: int) -> str:
    """Let the disk fail at every call of saves, a report and a fit with checkpoints."""
    old = fitted(max_iter=5)
    new = fitted()
    strikes = n_fits = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.hdsl"
        page = folder / "page.html"
        new.save(path)
        whole = path.read_bytes()
        for error in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            for write_old, write, target in (
                (old.save, new.save, path),
                (old.report, new.report, page),
            ):
                write_old(target)
                before = target.read_bytes()
                fails_at = 0
                ends = False
                while not ends:
                    fails_at += 1
                    disk = Disk(fails_at, error)
                    try:
                        with disk.mounted():
                            write(target)
                        ends = disk.n_calls < fails_at
                        # The folder's own fsync may fail: the new file is there by
                        # then.
                        assert ends or fails_at == disk.n_calls
                        before = target.read_bytes()
                    except OSError as raised:
                        if "Cannot write" not in str(raised):
                            raise
                    strikes += not ends
                    assert target.read_bytes() == before
                    assert not list(folder.glob(".hdsl*")), "a temporary file is left"
        end = strikes + count
        rng = random.Random(seed)
        while strikes < end:  # the fit goes on in memory, and ends in the same bytes
            disk = Disk(rng.randrange(1, 120), for_good=rng.random() < 0.3)
            kept = folder / "run.ckpt"
            with (
                mock.patch.multiple(checkpoint, INTERVAL=0.0, TIME_SHARE=np.inf),
                disk.mounted(),
            ):
                model = fitted(kept=kept)
            strikes += disk.n_calls >= disk.fails_at
            n_fits += 1
            assert not list(folder.glob(".hdsl*"))
            model.save(path)
            assert path.read_bytes() == whole
            kept.unlink(missing_ok=True)
        strikes += _quotas(new, path, whole)
    return f"{strikes} failures of a disk, {n_fits} of them in fits with checkpoints"


def _quotas(model, path: Path, whole: bytes) -> int:
    """Let the system refuse every byte past a limit, for limits up to the size of the file."""
    limits = [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]
    for limit in limits:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                model.save(path)
            except OSError as error:
                os._exit(0 if "Cannot write the model" in str(error) else 2)
            os._exit(3)
        assert os.waitpid(child, 0)[1] == 0
        assert path.read_bytes() == whole
        assert not list(path.parent.glob(".hdsl*"))
    return len(limits)


# --- clocks ---------------------------------------------------------------------------


def clocks(count: int, seed: int) -> str:
    """Let clocks jump by up to ten years, both ways, and stand still, at any call."""
    jumps = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted().save(folder / "whole.hdsl")
        whole = (folder / "whole.hdsl").read_bytes()
        rng = random.Random(seed)
        while jumps < count:
            off = [0.0]
            # The system promises that monotonic is, not more.
            backwards = rng.random() < 0.5

            def jumping(
                clock: Callable[[], float], off=off, backwards=backwards
            ) -> Callable:
                def now() -> float:
                    nonlocal jumps
                    if rng.random() < 0.05:
                        jump = 10.0 ** rng.uniform(-3, 8.5)
                        off[0] += -jump if backwards and rng.random() < 0.5 else jump
                        jumps += 1
                    return clock() + off[0]

                return now

            with (
                mock.patch.object(time, "monotonic", jumping(time.monotonic)),
                mock.patch.object(time, "time", jumping(time.time)),
                mock.patch.object(time, "perf_counter", jumping(time.perf_counter)),
                mock.patch.object(sys, "stdout", io.StringIO()),
                mock.patch.object(sys, "stderr", io.StringIO()),
            ):
                model = fitted(kept=folder / "run.ckpt", verbose=1)
            model.save(folder / "model.hdsl")
            assert (folder / "model.hdsl").read_bytes() == whole
            (folder / "run.ckpt").unlink(missing_ok=True)
    return f"{jumps} jumps of clocks"


# --- engines --------------------------------------------------------------------------

#: What engines do to ids and scores, given a random place and the number of documents.
LIES: dict[str, Callable] = {
    "honest": lambda ids, scores, at, n: (ids, scores),
    "reorder": lambda ids, scores, at, n: ([*ids[at:], *ids[:at]], scores),
    "swap scores": lambda ids, scores, at, n: (ids, [*scores[at:], *scores[:at]]),
    "nan": lambda ids, scores, at, n: (ids, replaced(scores, at, np.nan)),
    "inf": lambda ids, scores, at, n: (ids, replaced(scores, at, np.inf)),
    "duplicate": lambda ids, scores, at, n: (replaced(ids, at, ids[0]), scores),
    "no row": lambda ids, scores, at, n: (
        replaced(ids, at, [n + 5, -1, -7, 2**70][at % 4]),
        scores,
    ),
    "unhashable": lambda ids, scores, at, n: (replaced(ids, at, [ids[at]]), scores),
    "leave out": lambda ids, scores, at, n: (dropped(ids, at), dropped(scores, at)),
    "stop early": lambda ids, scores, at, n: (ids[:at], scores[:at]),
    "one score less": lambda ids, scores, at, n: (ids, scores[:-1]),
    "raise the first": lambda ids, scores, at, n: (ids, [scores[0] + 1.0, *scores[1:]]),
    "lower the last": lambda ids, scores, at, n: (
        ids,
        [*scores[:-1], min(scores[-1], 0.0)],
    ),
    "lower a known": lambda ids, scores, at, n: (
        [*ids[1:], ids[0]],
        [*scores[1:], 0.0],
    ),
    "negative": lambda ids, scores, at, n: (ids, [-score for score in scores]),
    "strings": lambda ids, scores, at, n: (list(map(str, ids)), scores),
    "floats": lambda ids, scores, at, n: (list(map(float, ids)), scores),
    "one number": lambda ids, scores, at, n: (ids, 1.0),
    "nothing": lambda ids, scores, at, n: None,
}

#: What no check can find where the rows are not all at hand.
LEAVE_OUT = ("leave out", "stop early")


def replaced(values: list, at: int, value: object) -> list:
    return [*values[:at], value, *values[at + 1 :]]


def dropped(values: list, at: int) -> list:
    return [*values[:at], *values[at + 1 :]]


def engines(count: int, seed: int) -> str:
    """Certify answers of engines that lie; an answer is exact, or there is a ValueError."""
    rng = np.random.default_rng(seed)
    refused = 0
    for k in range(count):
        lie = list(LIES)[k % len(LIES)]
        n = int(rng.integers(1, 30))
        d = int(rng.integers(1, 8))
        Y = (rng.random((n, d)) < 0.5) * rng.random((n, d)).round(2)
        Q = (rng.random((3, d)) < 0.7) * rng.normal(size=(3, d)).round(2)
        top = int(rng.integers(1, 6))
        lengths = rng.uniform(0.5, 2.0, n) if rng.random() < 0.3 else None
        exact = (Q @ Y.T) / (1.0 if lengths is None else lengths)
        by_rows = rng.random() < 0.5 or lie in LEAVE_OUT
        store = dict(enumerate(Y))
        rows = (
            Y
            if by_rows
            else (lambda ids, store=store: np.array([store[one] for one in ids]))
        )
        search = _lying(lie, Y, rng)
        try:
            found = certified_top_k(search, Q, rows, top, lengths=lengths)
        except ValueError:
            assert lie != "honest"
            refused += 1
            continue
        for q in range(len(Q)):
            size = int(found.size[q])
            best = np.sort(exact[q])[::-1][:size]
            np.testing.assert_allclose(
                found.scores[q, :size], best, rtol=1e-9, atol=1e-12
            )
            ids = [int(one) for one in found.indices[q, :size]]
            assert len(set(ids)) == size
            np.testing.assert_allclose(exact[q][ids], best, rtol=1e-9, atol=1e-12)
            assert size == min(top, n) or not by_rows
    return f"{count} engines, {refused} refused"


def _lying(lie: str, Y: np.ndarray, rng: np.random.Generator) -> Callable:
    """Return a search that is wrong in one way, at most calls; it may return more than asked."""

    def search(indices, values, m):
        scores = Y[:, indices] @ np.array(values)
        best = np.argsort(-scores, kind="stable")[: m + (rng.random() < 0.1)]
        ids = best.tolist()
        scores = scores[best].tolist()
        if rng.random() < 0.3:
            return ids, scores
        return LIES[lie](ids, scores, int(rng.integers(len(ids))), len(Y))

    return search


ATTACKS = {
    "kills": (kills, 60),
    "disks": (disks, 200),
    "clocks": (clocks, 2000),
    "engines": (engines, 4000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("attack", nargs="?", choices=["all", *ATTACKS], default="all")
    parser.add_argument("--count", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in ATTACKS if given.attack == "all" else [given.attack]:
        attack, count = ATTACKS[name]
        print(f"{name}: {attack(given.count or count, given.seed)}", flush=True)


if __name__ == "__main__":
    main()
