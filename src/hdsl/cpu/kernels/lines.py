"""Sums in vector registers, and rows that are in the cache before they are read.

The compiler makes no vectors of scalars: `zeros` returns a line of WIDTH sums in a
vector register, for `add`, `lift`, `reaches` and `put`; `add` with a float32 factor
makes 2 · WIDTH sums of float32. A line in memory is given by its address; a
multiplication and an addition are one instruction where the processor has it. And the
compiler brings nothing into the cache before it is read: loops over rows in random
order would wait for each, so they call `fetch_ahead`.
"""

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from .compiled import kernel

#: Numbers in a line: one cache line of float64.
WIDTH = 8

#: Bytes of such a line.
LINE = 8 * WIDTH

#: Pairs by which a row is brought into the cache before it is read.
AHEAD = 4

#: Entries of a row that are brought into the cache, in lines of their numbers and
#: values.
INDEX_LINES = 3
VALUE_LINES = 6


# --- as Python runs them, where nothing is compiled -----------------------------------


def zeros() -> Any:
    """Return a line of zeros."""
    return np.zeros(WIDTH)


def add(line: Any, factor: float, address: int) -> None:
    """Add a factor times the line at an address."""
    kind = np.asarray(factor).dtype
    line.view(kind)[:] += factor * _at(address).view(kind)


def lift(line: Any, address: int) -> None:
    """Raise a line to the sizes of the numbers at an address, where these are larger."""
    np.maximum(line, np.abs(_at(address)), out=line)


def reaches(line: Any, base: float, factor: float, address: int) -> bool:
    """Return whether any base + factor · |number| of a line is at least that at an address."""
    return bool((base + factor * np.abs(line) >= _at(address)).any())


def put(line: Any, address: int) -> None:
    """Write a line to an address."""
    _at(address)[:] = line


def fetch(address: int) -> None:
    """Have the line at an address brought into the cache."""


def _at(address: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_double * WIDTH).from_address(int(address)))


# --- as the compiler writes them ------------------------------------------------------

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_VECTOR_32 = ir.VectorType(ir.FloatType(), 2 * WIDTH)
_POINTER = _VECTOR.as_pointer()


def _zeros(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            line = builder.alloca(_VECTOR)
        builder.store(ir.Constant(_VECTOR, [0.0] * WIDTH), line)
        return builder.bitcast(line, ir.IntType(8).as_pointer())

    return types.voidptr(), generate


def _repeated(builder: Any, number: Any, vector: Any) -> Any:
    """Return a vector whose numbers are all the same."""
    lane = ir.IntType(32)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(lane, 0))
    lanes = ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, lanes)


def _sizes(builder: Any, numbers: Any) -> Any:
    negated = builder.fneg(numbers)
    return builder.select(builder.fcmp_ordered(">", negated, numbers), negated, numbers)


def _add(typing: Any, line: Any, factor: Any, address: Any) -> Any:
    kind: Any = types.float64
    vector = _VECTOR
    if factor == types.float32:
        kind = types.float32
        vector = _VECTOR_32

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = builder.bitcast(args[0], vector.as_pointer())
        factor = args[1]
        other = builder.load(builder.inttoptr(args[2], vector.as_pointer()), align=4)
        factor = _repeated(builder, factor, vector)
        product = builder.fmul(factor, other, flags=("contract",))
        total = builder.fadd(builder.load(line), product, flags=("contract",))
        builder.store(total, line)
        return context.get_dummy_value()

    return types.void(types.voidptr, kind, types.int64), generate


def _lift(typing: Any, line: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = builder.bitcast(args[0], _POINTER)
        other = builder.load(builder.inttoptr(args[1], _POINTER), align=8)
        before = builder.load(line)
        other = _sizes(builder, other)
        is_larger = builder.fcmp_ordered(">", other, before)
        builder.store(builder.select(is_larger, other, before), line)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64), generate


def _reaches(typing: Any, line: Any, base: Any, factor: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _repeated(builder, args[1], _VECTOR)
        factor = _repeated(builder, args[2], _VECTOR)
        numbers = _sizes(builder, builder.load(builder.bitcast(args[0], _POINTER)))
        other = builder.load(builder.inttoptr(args[3], _POINTER), align=8)
        total = builder.fadd(base, builder.fmul(factor, numbers))
        flags = ir.IntType(WIDTH)
        is_reached = builder.bitcast(builder.fcmp_ordered(">=", total, other), flags)
        return builder.icmp_unsigned("!=", is_reached, ir.Constant(flags, 0))

    kinds = (types.voidptr, types.float64, types.float64, types.int64)
    return types.boolean(*kinds), generate


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
        to_read = ir.Constant(number, 0)
        keep_long = ir.Constant(number, 3)
        is_data = ir.Constant(number, 1)
        first = builder.inttoptr(args[0], pointer)
        builder.call(call, [first, to_read, keep_long, is_data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


if not config.DISABLE_JIT:  # type: ignore[attr-defined]
    as_compiled: Any = intrinsic
    zeros = as_compiled(_zeros)
    add = as_compiled(_add)
    lift = as_compiled(_lift)
    reaches = as_compiled(_reaches)
    put = as_compiled(_put)
    fetch = as_compiled(_fetch)


# --- rows that are read soon ----------------------------------------------------------


@kernel(no_cpython_wrapper=True)  # other kernels alone may call it
def fetch_ahead(pair, second, rows):
    """Have the row that pair + AHEAD ends in brought into the cache: its first entries."""
    n = second.size
    if pair + 2 * AHEAD < n:
        later = np.int64(second[pair + 2 * AHEAD])
        fetch(rows.indptr.ctypes.data + 8 * later)
    if pair + AHEAD >= n:
        return
    first = rows.indptr[second[pair + AHEAD]]
    for k in range(INDEX_LINES):
        fetch(rows.indices.ctypes.data + 4 * first + LINE * k)
    for k in range(VALUE_LINES):
        fetch(rows.data.ctypes.data + 8 * first + LINE * k)
