"""Checkpoints: where a run is, on the disk, so that a killed process loses seconds and not hours.

The container is that of model files: arrays and a JSON header, read with the same distrust. The
header says what the run is a run of, by the values of parameters and by digests of data, and a run
of anything else is refused. The arrays are for those who gave them: this module only keeps them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import user_input
from . import container
from .atomic import check_can_write
from .container import Arrays
from .tables import pack_table, unpack_table

#: Seconds from one writing to the next.
EVERY = 30.0

#: Writing may take this share of the time of a run: what is large is written less often.
SHARE = 0.05


class Kept(NamedTuple):
    """A file that a run was kept in, and which of all files that ever had its name it is."""

    path: str
    mark: tuple[int, ...] | None

    def remove(self) -> None:
        """Delete it: what its run led to is safe elsewhere. Another file of its name stays."""
        if self.mark is None or _mark(self.path) != self.mark:
            return
        try:
            os.unlink(os.path.realpath(self.path))
        except OSError as error:
            warnings.warn(
                f"The checkpoint {self.path!r} is no longer needed, but could not be deleted: "
                f"{error.strerror}.",
                UserWarning,
                stacklevel=3,
            )


def _mark(path: str) -> tuple[int, ...] | None:
    """Return what tells a file from the next one of its name, None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Checkpoint:
    """A file that a run is kept in while it goes on.

    Parameters
    ----------
    path : str or path-like
        Where it is, or will be. A file that is there is read at once; a folder that cannot be
        written to is refused at once.

    Attributes
    ----------
    found : dict of str to ndarray or None
        What an earlier process kept, None where it kept nothing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fsdecode(path)
        self.path = os.path.abspath(self.name)  # a run may change its folder
        self.found: Arrays | None = None
        self._of: dict[str, Any] = {}
        self._begin: Arrays = {}
        self._failed = False
        self._mark = _mark(self.path)
        self._due = time.monotonic() + EVERY
        if os.path.exists(self.path):
            self._read()
        else:
            check_can_write(self.path, "the checkpoint")

    def _read(self) -> None:
        arrays, header = container.read(self.path)
        tables, of = header.get("tables"), header.get("checkpoint")
        if not isinstance(of, dict) or not isinstance(tables, dict):
            raise ValueError(
                f"{self.name!r} is a model, not a checkpoint: name another file for the checkpoint."
            )
        self._of, self.found = of, {}
        with self.damage_told():
            for name, layout in tables.items():
                self.found[name] = unpack_table(arrays, name, layout)
        inside = tuple(f"{name}." for name in tables)
        self.found |= {k: v for k, v in arrays.items() if not k.startswith(inside)}

    @property
    def kept(self) -> Kept:
        """The file, as this object found it or wrote it last."""
        return Kept(self.path, self._mark)

    @contextmanager
    def damage_told(self) -> Iterator[None]:
        """Let a ValueError say that the file is damaged."""
        try:
            yield
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"The checkpoint {self.name!r} is damaged: {error} Delete it to start anew."
            ) from None

    def begin(self, rng: np.random.Generator) -> None:
        """Set a generator to where the run began with it, or note where it begins."""
        if self.found is not None:
            with self.damage_told():
                user_input.set_generator(rng, self.found["begin"])
        self._begin = {"begin": user_input.generator_bytes(rng)}

    def check(self, of: Mapping[str, Any]) -> None:
        """Say what the run is a run of; raise ValueError where what was found is of another."""
        if self.found is not None and self._of != of:
            apart = [name for name in {**of, **self._of} if self._of.get(name) != of.get(name)]
            raise ValueError(
                f"{self.name!r} is the checkpoint of another run, with "
                f"{'; '.join(self._difference(name, of) for name in apart[:5])}. Go on with what "
                "it was begun with, or name another file, or delete this one to start anew; one "
                "that has ended is deleted when its model is saved."
            )
        self._of = dict(of)

    def _difference(self, name: str, of: Mapping[str, Any]) -> str:
        there, here = self._of.get(name), of.get(name)
        if isinstance(here, dict) or isinstance(there, dict):  # a digest says nothing to people
            return f"other {name}"
        return f"{name}={there!r} (now {here!r})"

    def keep(self, arrays: Callable[[], Arrays]) -> None:
        """Write what `arrays` returns, if it is time to; where that fails, warn and go on."""
        begin = time.monotonic()
        if begin < self._due:
            return
        try:
            self.write(arrays())
        except (OSError, MemoryError) as error:
            if not self._failed:  # once is enough; the next writing may succeed
                told = getattr(error, "strerror", "There is no memory to write the checkpoint")
                warnings.warn(
                    f"{told} ({self.name!r}). The fit goes on without a checkpoint, and "
                    "tries again from time to time.",
                    UserWarning,
                    stacklevel=2,
                )
            self._failed = True
        end = time.monotonic()
        self._due = end + max(EVERY, (end - begin) / SHARE)

    def write(self, arrays: Arrays) -> None:
        """Write arrays, whole or not at all; tables among them column by column."""
        if _mark(self.path) not in (None, self._mark):
            told = "Cannot write the checkpoint: another file has taken its place"
            raise FileExistsError(errno.EEXIST, told, self.name)
        plain: Arrays = {}
        tables: dict[str, Any] = {}
        for name, array in (arrays | self._begin).items():
            if array.dtype.names:
                columns, tables[name] = pack_table(array, name)
                plain |= columns
            else:
                plain[name] = array
        container.write(
            self.path, plain, {"checkpoint": self._of, "tables": tables}, what="the checkpoint"
        )
        self._mark = _mark(self.path)


def digest(*parts: Any) -> dict[str, str]:
    """Return a fingerprint of arrays, CSR arrays and None; equal for equal content.

    Examples
    --------
    >>> digest(np.arange(3)) == digest(np.arange(3)) != digest(np.arange(4))
    True
    """
    sha = hashlib.sha256()
    for part in _flat(parts):
        array = np.asarray(part)
        if array.dtype.kind == "O":
            array = np.array([repr(value) for value in array.ravel()], dtype=str)
        if array.dtype.kind in "iu":  # numbers are the same whatever room they are given
            array = array.astype(np.int64 if array.dtype.kind == "i" else np.uint64)
        array = np.ascontiguousarray(array)
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.reshape(-1).view(np.uint8).data)
    return {"sha256": sha.hexdigest()}


def _flat(parts: Iterable[Any]) -> Iterable[Any]:
    for part in parts:
        if sp.issparse(part):
            yield np.array(part.shape)
            yield from (part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data)
        elif part is not None:
            yield part
        else:
            yield "none"
