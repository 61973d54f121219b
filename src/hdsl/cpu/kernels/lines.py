"""A line of WIDTH sums, in a vector register: the compiler makes no vectors of scalars by itself.

A line in memory is given by its address. In a kernel `zeros` returns what `add` and `put` take; a
multiplication and an addition are one instruction where the processor has it.
"""

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from .compiled import WIDTH

#: Bytes of a line.
LINE = 8 * WIDTH

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_POINTER = _VECTOR.as_pointer()


def zeros() -> Any:
    """Return a line of zeros."""
    return np.zeros(WIDTH)


def add(line: Any, x: float, address: int) -> None:
    """Add x times the line at an address."""
    line += x * _at(address)


def put(line: Any, address: int) -> None:
    """Write a line to an address."""
    _at(address)[:] = line


def _at(address: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_double * WIDTH).from_address(int(address)))


def _zeros(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            line = builder.alloca(_VECTOR)
        builder.store(ir.Constant(_VECTOR, [0.0] * WIDTH), line)
        return builder.bitcast(line, ir.IntType(8).as_pointer())

    return types.voidptr(), generate


def _add(typing: Any, line: Any, x: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line, lane = builder.bitcast(args[0], _POINTER), ir.IntType(32)
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, args[1], ir.Constant(lane, 0))
        everywhere = ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH)
        factor = builder.shuffle_vector(first, undefined, everywhere)
        other = builder.load(builder.inttoptr(args[2], _POINTER), align=8)
        product = builder.fmul(factor, other, flags=("contract",))
        builder.store(builder.fadd(builder.load(line), product, flags=("contract",)), line)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.float64, types.int64), generate


def _put(typing: Any, line: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(builder.bitcast(args[0], _POINTER))
        builder.store(value, builder.inttoptr(args[1], _POINTER), align=8)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64), generate


if not config.DISABLE_JIT:  # type: ignore[attr-defined]
    zeros, add, put = (intrinsic(part) for part in (_zeros, _add, _put))
