"""A graphics card as the solver knows it: arrays, launches of kernels, copies, waits.

Everything that knows CuPy is here. Kernels are C++ (``kernels/*.cu``), compiled on
first use by CuPy, which keeps the result on disk. They read and write arrays and never
return anything. They are called by the names of their parameters. Integer arguments are
``long long`` and others ``double``; a block has THREADS threads.

Work is queued and runs in order; the host goes on meanwhile. ``wait`` and ``download``
wait for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, wraps
from importlib import resources
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

#: The files of the kernels, in the order in which the compiler sees them.
FILES = (
    "base.cu",
    "comparisons.cu",
    "gather.cu",
    "climb.cu",
    "setup.cu",
    "atoms.cu",
    "search.cu",
)

#: ``KERNEL name(parameters)``.
_KERNEL = re.compile(r"^KERNEL (\w+)\(([^)]*)\)", re.M)

#: ``VARIANTS(name, (parameters), …)``: the kernels `name` and `name_plain`.
_VARIANTS = re.compile(r"^VARIANTS\(\s*(\w+),\s*\(([^)]*)\)", re.M)

#: A parameter as ``const double* margins``.
_PARAMETER = re.compile(r"(?:const )?(\w+\*?) (\w+)")


class Parameter(NamedTuple):
    """A parameter of a kernel.

    Attributes
    ----------
    type : str
        "i64" or "double"; of an array its items, as "int*".
    name : str
    """

    type: str
    name: str


@cache
def source() -> str:
    """Return the source of all kernels."""
    folder = resources.files(__package__) / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in FILES)


@cache
def signatures() -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of every kernel."""
    all_parameters = {}
    for name, text in _KERNEL.findall(source()):
        all_parameters[name] = _parsed(text)
    for name, text in _VARIANTS.findall(source()):
        all_parameters[name] = _parsed(text)
        all_parameters[f"{name}_plain"] = _parsed(text)
    return all_parameters


def _parsed(text: str) -> tuple[Parameter, ...]:
    """Return the parameters that a list in C++ names."""
    return tuple([Parameter(*match) for match in _PARAMETER.findall(text)])


def parameters(kernel: str) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel, in their order.

    Examples
    --------
    >>> for parameter in parameters("count_features"):
    ...     print(parameter.type, parameter.name)
    i64 n
    int* idx
    int* counts
    """
    return signatures()[kernel]


def in_order(kernel: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of a kernel in the order of its parameters.

    Examples
    --------
    >>> in_order("count_features", {"counts": "zeros", "idx": "columns", "n": 3})
    [3, 'columns', 'zeros']
    >>> in_order("count_features", {"idx": "columns", "n": 3, "out": "zeros"})
    Traceback (most recent call last):
    ...
    TypeError: The kernel count_features takes n, idx, counts. Got idx, n, out.
    """
    names = [parameter.name for parameter in parameters(kernel)]
    if arguments.keys() != set(names):
        raise TypeError(
            f"The kernel {kernel} takes {', '.join(names)}. Got {', '.join(arguments)}."
        )
    return [arguments[name] for name in names]


#: An array on a device: has shape, dtype, size and nbytes, and slices along its first
#: axis.
Array = Any

#: Threads of a block, as the kernels assume.
THREADS = 256

#: Items of a block where a warp of 32 threads takes each.
WARPS = THREADS // 32

#: Items of a block where it sums the terms of one chunk after the other, as in the
#: kernels.
CHUNK = 2048

#: Most blocks of a kernel that share a processor.
MOST_PER_PROCESSOR = 8

#: No multiplication is fused with an addition: the same bits on every card.
COMPILER_OPTIONS = ("--std=c++17", "--fmad=false")

#: Most graphs that a problem keeps. Few are needed: arrays come back to few addresses.
MOST_GRAPHS = 32

#: Tells CUDA that the addresses of a copy say which side is the host.
_EITHER_WAY = 4

#: What kernels get for an array that is not there.
_NO_ARRAY = np.uint64(0)


class DeviceError(ValueError):
    """There is no graphics card that can be used, or no library to use it."""


class BrokenDeviceError(RuntimeError):
    """A graphics card failed in the middle of work."""


class DeviceMemoryError(MemoryError):
    """A graphics card ran out of memory in the middle of work."""


def names_failures(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a device that raises our errors, which say what to do."""

    @wraps(method)
    def call(self: Device, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            if not type(error).__module__.startswith("cupy"):
                raise
            is_allocation = "cudaErrorMemoryAllocation" in str(error)
            if is_allocation or isinstance(error, MemoryError):
                raise DeviceMemoryError(
                    f"The GPU {self.name} ran out of memory: {error}. Other work may "
                    "use it too: try again later, give fewer comparisons or rows, or "
                    "take device='cpu'."
                ) from error
            raise BrokenDeviceError(
                f"The GPU {self.name} failed: {error}. Nothing that was fitted before "
                "is lost. device='cpu' works, and continues from a checkpoint= of "
                "the run; the GPU may need a new process."
            ) from error

    return call


def get_device(name: str = "cuda") -> Device:
    """Return the device of a name: "cuda" or "cuda:1".

    Raises
    ------
    DeviceError
        CuPy is missing, or there is no such card.
    """
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ValueError(
            f"No device is named {name!r}. There are 'cpu', 'cuda' and 'cuda:1'."
        )
    return Device(int(match[1] or 0))


class Device:
    """One NVIDIA GPU, through CuPy.

    Parameters
    ----------
    number : int, default=0

    Attributes
    ----------
    name : str
    n_blocks : int
        Blocks that run at the same time; kernels that loop take so many at most.
    """

    def __init__(self, number: int = 0) -> None:
        self._cupy = cupy = _import_cupy()
        try:
            n_cards = cupy.cuda.runtime.getDeviceCount()
            if number >= n_cards:
                raise DeviceError(
                    f"There is no device 'cuda:{number}'. GPUs of this machine: "
                    f"{n_cards}. device='cpu' needs none."
                )
            self._device = cupy.cuda.Device(number)
            with self._device:
                properties = cupy.cuda.runtime.getDeviceProperties(number)
                self._stream = cupy.cuda.Stream(non_blocking=True)
                self._event = cupy.cuda.Event(disable_timing=True)
                self._pool = cupy.cuda.MemoryPool()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            # There is no card, or it has failed.
            raise DeviceError(
                f"No GPU can be used: {error}. device='cpu' needs none."
            ) from error
        self.name = properties["name"].decode()
        self._n_processors = properties["multiProcessorCount"]
        self.n_blocks = MOST_PER_PROCESSOR * self._n_processors
        self._module: Any = None
        self._functions: dict[str, Any] = {}
        self._blocks: dict[str, int] = {}

    def release(self) -> None:
        """Give back the memory that no array takes."""
        self.wait()
        self._pool.free_all_blocks()

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> Array:
        """Return an array of zeros."""
        out = self.empty(shape, dtype)
        self.clear(out)
        return out

    def run(
        self,
        kernel: str,
        n_items: int,
        /,
        *,
        per_block: int = THREADS,
        **arguments: Any,
    ) -> None:
        """Queue a kernel that loops over items, on as many blocks as have work.

        Parameters
        ----------
        kernel : str
        n_items : int
        per_block : int, default=THREADS
            Items that a block takes at a time.
        **arguments
            Of the kernel, by the names of its parameters.
        """
        n_with_work = -(-n_items // per_block)
        n_blocks = min(self.blocks_for(kernel), n_with_work)
        self.launch(kernel, max(1, n_blocks), **arguments)

    def upload_together(self, **arrays: np.ndarray) -> SimpleNamespace:
        """Return copies of int64 arrays by their names, sent in one transfer."""
        packed = self.upload(np.concatenate(list(arrays.values())))
        sizes = [len(array) for array in arrays.values()]
        bounds = np.cumsum([0, *sizes]).tolist()
        slices = [packed[first:last] for first, last in pairwise(bounds)]
        return SimpleNamespace(**dict(zip(arrays, slices, strict=True)))

    def free(self) -> int:
        """Return the bytes that this process can still take on the card."""
        memory = self.memory()
        return memory["free"] + memory["held"] - memory["used"]

    def _new(self, make: Callable[..., Array], *args: Any) -> Array:
        """Return what a function of CuPy makes, in the memory of this device."""
        with (
            self._device,
            self._stream,
            self._cupy.cuda.using_allocator(self._pool.malloc),
        ):
            return make(*args)

    @names_failures
    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> Array:
        """Return an array whose values are open."""
        n_bytes = _n_items(shape) * np.dtype(dtype).itemsize
        with self._device, self._stream:
            return self._cupy.ndarray(shape, dtype, self._pool.malloc(n_bytes))

    @names_failures
    def host(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
        """Return an array in page-locked memory."""
        n_items = _n_items(shape)
        n_bytes = max(1, n_items * np.dtype(dtype).itemsize)
        with self._device:
            buffer = self._cupy.cuda.alloc_pinned_memory(n_bytes)
        out = np.frombuffer(buffer, dtype, n_items).reshape(shape)
        out[...] = 0
        return out

    @staticmethod
    def address(array: Any) -> int:
        """Return where an array begins, on either side."""
        if isinstance(array, np.ndarray):
            return array.ctypes.data
        return array.data.ptr

    @names_failures
    def copy(self, target: Any, source: Any) -> None:
        """Queue a copy; either side may be an array of ``host``."""
        self._cupy.cuda.runtime.memcpyAsync(
            self.address(target),
            self.address(source),
            source.nbytes,
            _EITHER_WAY,
            self._stream.ptr,
        )

    @names_failures
    def clear(self, array: Array) -> None:
        """Queue the setting of all bytes to 0."""
        if array.nbytes:
            self._cupy.cuda.runtime.memsetAsync(
                array.data.ptr, 0, array.nbytes, self._stream.ptr
            )

    @names_failures
    def upload(self, array: np.ndarray) -> Array:
        """Return a copy on the device."""
        out = self.empty(array.shape, array.dtype)
        if array.size:
            with self._device:
                out.set(np.ascontiguousarray(array), stream=self._stream)
        return out

    @names_failures
    def download(self, array: Array) -> np.ndarray:
        """Wait, and return a copy on the host."""
        with self._device:
            return array.get(stream=self._stream)

    @names_failures
    def launch(self, kernel: str, n_blocks: int, /, **arguments: Any) -> None:
        """Queue a kernel on so many blocks; None stands for a missing array."""
        packed = in_order(kernel, arguments)
        for k, argument in enumerate(packed):
            if argument is None:
                packed[k] = _NO_ARRAY
        with self._device:
            function = self._function(kernel)
            function((n_blocks,), (THREADS,), tuple(packed), stream=self._stream)

    @names_failures
    def replay(
        self, graphs: dict[Any, Any], key: Any, queue: Callable[[], None]
    ) -> None:
        """Queue what a function queues, which from the second time on is one graph.

        The key has all that may differ, the addresses of arrays above all.
        """
        if key not in graphs:
            if len(graphs) == MOST_GRAPHS:
                graphs.clear()
            queue()
            graphs[key] = None
            return
        if graphs[key] is None:
            graphs[key] = self._captured(queue)
        graphs[key].launch(self._stream)

    def _captured(self, queue: Callable[[], None]) -> Any:
        """Return what a function queues as a graph; other threads may allocate."""
        mode = self._cupy.cuda.runtime.streamCaptureModeRelaxed
        with self._device:
            try:
                self._stream.begin_capture(mode)
                queue()
            except BaseException:
                with suppress(Exception):  # half of the work is no graph
                    self._stream.end_capture()
                raise
            return self._stream.end_capture()

    def _function(self, kernel: str) -> Any:
        """Return a compiled kernel; the device must be the current one."""
        if self._module is None:
            self._module = self._cupy.RawModule(code=source(), options=COMPILER_OPTIONS)
        if kernel not in self._functions:
            self._functions[kernel] = self._module.get_function(kernel)
        return self._functions[kernel]

    @names_failures
    def blocks_for(self, kernel: str) -> int:
        """Return how many blocks of a kernel run at the same time."""
        if kernel not in self._blocks:
            driver = self._cupy.cuda.driver
            with self._device:
                per_processor = driver.occupancyMaxActiveBlocksPerMultiprocessor(
                    self._function(kernel).kernel.ptr, THREADS, 0
                )
            per_processor = max(1, min(per_processor, MOST_PER_PROCESSOR))
            self._blocks[kernel] = self._n_processors * per_processor
        return self._blocks[kernel]

    @names_failures
    def mark(self) -> Any:
        """Return a mark of what is queued so far; there is one at a time."""
        return self._stream.record(self._event)

    @names_failures
    def wait(self, mark: Any = None) -> None:
        """Wait until the queue is empty, or has come to a mark."""
        if mark is None:
            self._stream.synchronize()
        else:
            mark.synchronize()

    @names_failures
    def argsort(self, keys: Array) -> Array:
        """Return the stable order of the keys, as int64."""
        return self._new(self._cupy.argsort, keys)

    @names_failures
    def cumsum(self, values: Array) -> Array:
        """Return the running sums of integers, as int64."""
        return self._new(lambda: self._cupy.cumsum(values, dtype=np.int64))

    @names_failures
    def largest(self, values: Array, count: int) -> np.ndarray:
        """Wait, and return where the largest values are, the first of equals first."""
        return self.download(self._new(lambda: self._cupy.argsort(-values)[:count]))

    @names_failures
    def take(self, values: Array, positions: Array) -> Array:
        """Return the values at some positions."""
        return self._new(lambda: values[positions])

    @names_failures
    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Queue out = left @ right, by cuBLAS."""
        self._new(lambda: self._cupy.matmul(left, right, out=out))

    @names_failures
    def doubled(self, values: Array) -> Array:
        """Return single-precision numbers in double precision."""
        return self._new(lambda: values.astype(np.float64))

    @names_failures
    def memory(self) -> dict[str, int]:
        """Return bytes: ``used`` by arrays, ``held`` from the card, ``free`` on it."""
        with self._device:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
        return {
            "used": self._pool.used_bytes(),
            "held": self._pool.total_bytes(),
            "free": free,
        }


def _n_items(shape: int | tuple[int, ...]) -> int:
    """Return how many items an array of a shape has."""
    if isinstance(shape, tuple):
        return math.prod(shape)
    return int(shape)


def _import_cupy() -> Any:
    """Return the module CuPy; raise DeviceError where it is missing."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "device='cuda' needs CuPy: `pip install hdsl[cuda]`. device='cpu' needs "
            "nothing more."
        ) from error
    return cupy
