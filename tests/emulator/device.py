"""A device of NumPy arrays and the GPU's own kernels, compiled for this machine.

A library is compiled once per state of the source and kept in the folder for temporary
files.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import numpy as np

from hdsl.cuda.runtime import THREADS, Device, in_order, parameters, signatures, source

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

why_missing = None
if COMPILER is None:
    why_missing = "no C++ compiler"

#: Types of the items of arrays, as kernels name them; a posting is two numbers.
DTYPES = {
    "int*": np.int32,
    "i64*": np.int64,
    "unsigned*": np.uint32,
    "float*": np.float32,
    "double*": np.float64,
    "Posting*": np.int64,
}


@cache
def library() -> ctypes.PyDLL:
    """Return the compiled kernels."""
    wrappers = "\n".join(
        f'extern "C" int run_{name}(long long grid, void** args, int n_args) {{\n'
        f"  if (n_args != emulator::count({name})) return 3;\n"
        f"  return emulator::launch(grid, {THREADS},\n"
        f"    [](void** given) {{ emulator::call({name}, given); }}, args);\n}}"
        for name in signatures()
    )
    text = HEADER.read_text(encoding="utf-8") + source() + wrappers
    key = hashlib.sha256(
        " ".join([str(COMPILER), *OPTIONS, text]).encode()
    ).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"hdsl-emulator-{os.getuid()}-{key}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            code = Path(folder) / "kernels.cpp"
            compiled = Path(folder) / "kernels.so"
            code.write_text(text, encoding="utf-8")
            subprocess.run([COMPILER, *OPTIONS, code, "-o", compiled], check=True)
            shutil.copy(compiled, path.with_suffix(f".{os.getpid()}"))
            path.with_suffix(f".{os.getpid()}").replace(path)
    return ctypes.PyDLL(str(path))  # keeps the lock: the emulator has one set of fibers


def as_c(argument, type_name, what):
    """Return an argument as C passes it; None is an array that is not there."""
    if type_name == "i64":
        assert isinstance(argument, int | np.integer), what
        return ctypes.c_longlong(argument)
    if type_name == "double":
        assert isinstance(argument, float), what
        return ctypes.c_double(argument)
    if argument is None:
        return ctypes.c_void_p(None)
    assert argument.dtype == DTYPES[type_name], what
    assert argument.flags.c_contiguous, what
    return ctypes.c_void_p(argument.ctypes.data)


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
        if np.dtype(dtype).kind == "f":
            return np.full(shape, np.nan, dtype)
        return np.full(shape, 0x5A5A5A5A, dtype)

    def host(self, shape, dtype=np.float64):
        """Return a plain array."""
        return np.zeros(shape, dtype)

    def copy(self, target, source):
        """Copy at once."""
        assert target.nbytes >= source.nbytes
        ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes)

    def clear(self, array):
        """Set all bytes to 0."""
        array.fill(0)

    def upload(self, array):
        """Return a copy."""
        return np.ascontiguousarray(array).copy()

    def download(self, array):
        """Return a copy."""
        return array.copy()

    def launch(self, kernel, n_blocks, /, **arguments):
        """Run a kernel to its end; each argument must be of the type that it reads."""
        ordered = in_order(kernel, arguments)
        values = [
            as_c(argument, parameter.type, f"{kernel}: {parameter.name}")
            for parameter, argument in zip(parameters(kernel), ordered, strict=True)
        ]
        addresses = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
        )
        run = getattr(library(), f"run_{kernel}")
        run.argtypes = [ctypes.c_longlong, ctypes.c_void_p, ctypes.c_int]
        with ONE_AT_A_TIME:
            code = run(n_blocks, addresses, len(values))
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

    def take(self, values, positions):
        """Return the values at some positions."""
        return values[positions]

    def multiply(self, left, right, out):
        """Write left @ right."""
        np.matmul(left, right, out=out)

    def doubled(self, values):
        """Return the numbers in double precision."""
        return values.astype(np.float64)

    def memory(self):
        """Return plenty."""
        return {"used": 0, "held": 0, "free": 2**40}
