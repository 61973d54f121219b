"""How kernels are compiled, the sizes they share, and what the compiler does not do by itself.

It makes no vectors of scalars: `zeros` returns a line of WIDTH sums in a vector
register, for `add`, `lift`, `reaches` and `put`; `add` with a float32 factor makes 2 ·
WIDTH sums of float32. A line in memory is given by its address; a multiplication and an
addition are one instruction where the processor has it. And it brings nothing near
before it is read: loops over rows in random order would wait for each, so they call
`fetch_ahead`.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

#: Sums that may be taken in another order than written, so that they fill vector
#: registers. The order is fixed when a kernel is compiled: same bits in every run, for
#: any number of threads. No other kernel may call such a one.
REORDERED = {"reassoc", "nsz"}

#: Comparisons summed one after the other; longer sums are made of such partial sums.
CHUNK = 4096

#: Rows of S computed side by side in one pass over X: one cache line of float64.
WIDTH = 8

#: Bytes of such a line.
LINE = 8 * WIDTH

#: Pairs by which a row is brought into the cache before it is read.
AHEAD = 4


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile without the GIL, and keep the result on disk where a folder can be written to.

    No C function is made of a kernel, and of one whose name starts with an underscore,
    which only other kernels call, no Python function either, and divisors are not
    compared with zero: that saves time to compile. Short loops take less of it than
    slices, and work arrays that the caller makes less than ``np.zeros`` here.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options.update(no_cfunc_wrapper=True, error_model="numpy")
        options.setdefault("no_cpython_wrapper", function.__name__.startswith("_"))
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except (
            RuntimeError
        ):  # a read-only install without a home: every process compiles
            return njit(nogil=True, **options)(function)

    return decorate


# --- lines ----------------------------------------------------------------------------

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_VECTOR_32 = ir.VectorType(ir.FloatType(), 2 * WIDTH)
_POINTER = _VECTOR.as_pointer()


def zeros() -> Any:
    """Return a line of zeros."""
    return np.zeros(WIDTH)


def add(line: Any, x: float, address: int) -> None:
    """Add x times the line at an address."""
    kind = np.asarray(x).dtype
    line.view(kind)[:] += x * _at(address).view(kind)


def lift(line: Any, address: int) -> None:
    """Raise a line to the sizes of the numbers at an address, where these are more."""
    np.maximum(line, np.abs(_at(address)), out=line)


def reaches(line: Any, x: float, y: float, address: int) -> bool:
    """Return whether x + y times the size of a number is at least that at an address, for any."""
    return bool((x + y * np.abs(line) >= _at(address)).any())


def put(line: Any, address: int) -> None:
    """Write a line to an address."""
    _at(address)[:] = line


def fetch(address: int) -> None:
    """Have the line at an address brought into the cache."""


def _at(address: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_double * WIDTH).from_address(int(address)))


def _zeros(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            line = builder.alloca(_VECTOR)
        builder.store(ir.Constant(_VECTOR, [0.0] * WIDTH), line)
        return builder.bitcast(line, ir.IntType(8).as_pointer())

    return types.voidptr(), generate


def _everywhere(builder: Any, x: Any, vector: Any) -> Any:
    lane = ir.IntType(32)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, x, ir.Constant(lane, 0))
    places = ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, places)


def _sizes(builder: Any, numbers: Any) -> Any:
    negated = builder.fneg(numbers)
    return builder.select(builder.fcmp_ordered(">", negated, numbers), negated, numbers)


def _add(typing: Any, line: Any, x: Any, address: Any) -> Any:
    vector = _VECTOR_32 if x == types.float32 else _VECTOR

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = builder.bitcast(args[0], vector.as_pointer())
        factor = args[1]
        other = builder.load(builder.inttoptr(args[2], vector.as_pointer()), align=4)
        factor = _everywhere(builder, factor, vector)
        product = builder.fmul(factor, other, flags=("contract",))
        total = builder.fadd(builder.load(line), product, flags=("contract",))
        builder.store(total, line)
        return context.get_dummy_value()

    kind = types.float32 if vector is _VECTOR_32 else types.float64
    return types.void(types.voidptr, kind, types.int64), generate


def _lift(typing: Any, line: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = builder.bitcast(args[0], _POINTER)
        other = builder.load(builder.inttoptr(args[1], _POINTER), align=8)
        most = builder.load(line)
        other = _sizes(builder, other)
        most = builder.select(builder.fcmp_ordered(">", other, most), other, most)
        builder.store(most, line)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64), generate


def _reaches(typing: Any, line: Any, x: Any, y: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, y = (_everywhere(builder, number, _VECTOR) for number in args[1:3])
        numbers = _sizes(builder, builder.load(builder.bitcast(args[0], _POINTER)))
        other = builder.load(builder.inttoptr(args[3], _POINTER), align=8)
        total = builder.fadd(x, builder.fmul(y, numbers))
        flags = ir.IntType(WIDTH)
        is_there = builder.bitcast(builder.fcmp_ordered(">=", total, other), flags)
        return builder.icmp_unsigned("!=", is_there, ir.Constant(flags, 0))

    return types.boolean(
        types.voidptr, types.float64, types.float64, types.int64
    ), generate


def _put(typing: Any, line: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(builder.bitcast(args[0], _POINTER))
        builder.store(value, builder.inttoptr(args[1], _POINTER), align=8)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64), generate


def _fetch(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        to_read_soon = (ir.Constant(number, x) for x in (0, 3, 1))
        builder.call(call, [builder.inttoptr(args[0], pointer), *to_read_soon])
        return context.get_dummy_value()

    return types.void(types.int64), generate


if not config.DISABLE_JIT:  # type: ignore[attr-defined]
    parts = _zeros, _add, _lift, _reaches, _put, _fetch
    zeros, add, lift, reaches, put, fetch = (intrinsic(part) for part in parts)


@kernel(no_cpython_wrapper=True)  # other kernels alone may call it
def fetch_ahead(s, b, ptr, idx, val):
    """Have the row that pair s + AHEAD ends in brought into the cache: its first 48 entries."""
    last = b.size - 1
    fetch(ptr.ctypes.data + 8 * np.int64(b[min(s + 2 * AHEAD, last)]))
    first = ptr[b[min(s + AHEAD, last)]]
    for k in range(3):
        fetch(idx.ctypes.data + 4 * first + 64 * k)
    for k in range(6):
        fetch(val.ctypes.data + 8 * first + 64 * k)
