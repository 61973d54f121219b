"""A shard whose arrays are in a file that is mapped into memory.

The operating system reads the pages that are asked for, and drops them when it needs the room.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from copy import deepcopy
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from ..cpu.workers import Workers
from .shard import Shard

#: Arrays begin at multiples of so many bytes.
ALIGNMENT = 64


def on_disk(shard: Shard, workers: Workers, folder: str) -> Shard:
    """Return the shard with its arrays in a file without a name, which goes when the shard goes.

    Parameters
    ----------
    shard : Shard
        New: without problems and values.
    workers : Workers
        The threads of the shard.
    folder : str
        Where there is room for the file.
    """
    arrays = list(_arrays_of(shard, set()))
    starts, end = [], 0
    for array in arrays:
        end += -end % ALIGNMENT
        starts.append(end)
        end += array.nbytes
    with TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, max(end, 1))  # a full disk is an error here, not later
        mapped = memoryview(mmap.mmap(file.fileno(), max(end, 1)))
    known: dict[int, Any] = {id(workers): workers}
    for array, start in zip(arrays, starts, strict=True):
        room = np.frombuffer(mapped, array.dtype, array.size, start).reshape(array.shape)
        room[...] = array
        known[id(array)] = room
    return deepcopy(shard, known)  # what is known is taken as it is


def _arrays_of(value: Any, seen: set[int]) -> Iterator[np.ndarray]:
    """Yield each array that an object holds, once."""
    if id(value) in seen or isinstance(value, Workers):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
        return
    parts = list(value) if isinstance(value, list | tuple) else []
    parts += list(value.values()) if isinstance(value, dict) else []
    parts += list(vars(value).values()) if hasattr(value, "__dict__") else []
    for part in parts:
        yield from _arrays_of(part, seen)
