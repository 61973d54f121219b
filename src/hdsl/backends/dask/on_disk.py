"""A shard whose arrays are in a file that is mapped into memory.

The operating system reads the pages that are asked for, and drops them when it needs the room.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from tempfile import TemporaryFile
from typing import Any

from ..cpu.workers import Workers
from .shard import Shard

#: Arrays begin at multiples of so many bytes.
ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Leaves the threads out."""

    def persistent_id(self, value: Any) -> str | None:
        return "workers" if isinstance(value, Workers) else None


class _Unpickler(pickle.Unpickler):
    """Puts the threads in."""

    def __init__(self, *args: Any, workers: Workers, **options: Any) -> None:
        super().__init__(*args, **options)
        self._workers = workers

    def persistent_load(self, name: str) -> Workers:
        return self._workers


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
    buffers: list[pickle.PickleBuffer] = []
    rest = io.BytesIO()
    _Pickler(rest, protocol=5, buffer_callback=buffers.append).dump(shard)
    views = [buffer.raw() for buffer in buffers]
    ends, at = [], 0
    for view in views:
        at += -at % ALIGNMENT
        ends.append((at, at + view.nbytes))
        at += view.nbytes
    with TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, max(at, 1))  # a full disk is an error here, not later
        for (begin, _), view in zip(ends, views, strict=True):
            file.seek(begin)
            file.write(view)
        file.flush()
        mapped = memoryview(mmap.mmap(file.fileno(), max(at, 1)))
    rest.seek(0)
    parts = [mapped[begin:end] for begin, end in ends]
    return _Unpickler(rest, buffers=parts, workers=workers).load()
