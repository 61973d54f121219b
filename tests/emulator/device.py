"""A device made of NumPy arrays and of the GPU's own kernels, compiled for this machine.

A library is compiled once per state of the source and kept in the folder for temporary
files.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import numpy as np

from hdsl.cuda.runtime import THREADS, Device, source

HEADER = Path(__file__).with_name("emulator.h")
COMPILER = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
OPTIONS = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-w",
    "-Wl,-Bsymbolic",
]

why_missing = None if COMPILER else "no C++ compiler"


def kernel_names() -> list[str]:
    """Return the names of all kernels."""
    plain = re.findall(r"^KERNEL (\w+)\(", source(), re.M)
    both = re.findall(r"^VARIANTS\(\s+(\w+),", source(), re.M)
    return [*plain, *(name + end for name in both for end in ("", "_plain"))]


@cache
def library() -> ctypes.PyDLL:
    """Return the compiled kernels."""
    wrappers = "\n".join(
        f'extern "C" int run_{name}(long long grid, void** args, int n_args) {{\n'
        f"  if (n_args != emulator::count({name})) return 3;\n"
        f"  return emulator::launch(grid, {THREADS},\n"
        f"    [](void** given) {{ emulator::call({name}, given); }}, args);\n}}"
        for name in kernel_names()
    )
    text = HEADER.read_text(encoding="utf-8") + source() + wrappers
    key = hashlib.sha256(
        " ".join([str(COMPILER), *OPTIONS, text]).encode()
    ).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"hdsl-emulator-{os.getuid()}-{key}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            code = Path(folder) / "kernels.cpp"
            made = Path(folder) / "kernels.so"
            code.write_text(text, encoding="utf-8")
            subprocess.run([COMPILER, *OPTIONS, code, "-o", made], check=True)
            shutil.copy(made, path.with_suffix(f".{os.getpid()}"))
            path.with_suffix(f".{os.getpid()}").replace(path)
    return ctypes.PyDLL(str(path))  # keeps the lock: the emulator has one set of fibers


#: The emulated threads are static variables of the library.
ONE_AT_A_TIME = threading.Lock()


class Emulator(Device):
    """Runs kernels thread by thread."""

    name = "emulator"
    n_blocks = 3  # few, so that kernels loop

    def __init__(self):
        pass

    def empty(self, shape, dtype=np.float64):
        """Return an array of numbers that no result should show."""
        dtype = np.dtype(dtype)
        return np.full(shape, np.nan if dtype.kind == "f" else 0x5A5A5A5A, dtype)

    def host(self, shape, dtype=np.float64):
        """Return a plain array."""
        return np.zeros(shape, dtype)

    def copy(self, target, of):
        """Copy at once."""
        assert target.nbytes >= of.nbytes
        ctypes.memmove(target.ctypes.data, of.ctypes.data, of.nbytes)

    def clear(self, array):
        """Set all bytes to 0."""
        array.fill(0)

    def upload(self, array):
        """Return a copy."""
        return np.ascontiguousarray(array).copy()

    def download(self, array):
        """Return a copy."""
        return array.copy()

    def launch(self, kernel, n_blocks, *args):
        """Run a kernel to its end."""
        values = []
        for arg in args:
            if arg is None:
                values.append(ctypes.c_void_p(None))
            elif isinstance(arg, np.ndarray):
                assert arg.flags.c_contiguous
                values.append(ctypes.c_void_p(arg.ctypes.data))
            elif isinstance(arg, float):
                values.append(ctypes.c_double(arg))
            else:
                values.append(ctypes.c_longlong(arg))
        places = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
        )
        run = getattr(library(), f"run_{kernel}")
        run.argtypes = [ctypes.c_longlong, ctypes.c_void_p, ctypes.c_int]
        with ONE_AT_A_TIME:
            code = run(n_blocks, places, len(values))
        assert code == 0, (
            f"{kernel} failed with {code} (2: a deadlock, 3: number of arguments)"
        )

    def replay(self, graphs, key, queue):
        """Run all of it."""
        queue()

    def blocks_for(self, kernel):
        """Return how many blocks run at the same time."""
        return self.n_blocks

    def release(self):
        """Return: nothing is held."""

    def mark(self):
        """Return nothing: everything has run."""

    def wait(self, mark=None):
        """Return: everything has run."""

    def argsort(self, keys):
        """Return the stable order of the keys."""
        return np.argsort(keys, kind="stable")

    def cumsum(self, values):
        """Return the running sums of integers."""
        return np.cumsum(values, dtype=np.int64)

    def largest(self, values, count):
        """Return the places of the largest values, the first of equals first."""
        return np.argsort(-values, kind="stable")[:count]

    def take(self, values, places):
        """Return the values at some places."""
        return values[places]

    def memory(self):
        """Return plenty."""
        return {"used": 0, "held": 0, "free": 2**40}
