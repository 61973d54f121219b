"""Checkpoints: a run at its last rest, in a file: a killed process loses seconds, not hours.

The file is one as models have: arrays and a JSON header. The header holds the inputs of
the run, values of parameters and digests of data, and the file is refused if a run has
other inputs. Those who pass arrays check their values when they come back.
"""

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.errors import short, warn
from ..input.paths import FilePath
from ..solver.rests import generator_state, set_generator_state
from . import container
from .atomic import check_can_write
from .container import Arrays
from .tables import pack_table, unpack_table

#: Seconds between two writes.
INTERVAL = 30.0

#: Largest share of the time of a run that is spent writing: large ones are written less
#: often.
TIME_SHARE = 0.05


class CheckpointFile(NamedTuple):
    """A checkpoint on the disk, told apart from other files that had or get its name."""

    path: str
    identity: tuple[int, ...] | None

    def remove(self) -> None:
        """Delete the file. Another file that has its name now stays."""
        if self.identity is None or _identity(self.path) != self.identity:
            return
        try:
            os.unlink(os.path.realpath(self.path))
        except OSError as error:
            warn(
                f"The checkpoint {self.path!r} is no longer needed, but could not be "
                f"deleted: {error.strerror}."
            )


def _identity(path: str) -> tuple[int, ...] | None:
    """Return what tells a file from the next one of its name, None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Checkpoint:
    """The checkpoint of a run: read at the start if there is one, written from time to time.

    Parameters
    ----------
    path : str or path-like
        A file that exists is read at once. If there is none, OSError is raised at once
        unless the folder can be written to.

    Attributes
    ----------
    arrays : dict of str to ndarray or None
        What an earlier process wrote, None if there was no file.
    """

    def __init__(self, path: FilePath) -> None:
        self.name = os.fsdecode(path)
        self.path = os.path.abspath(self.name)  # a run may change its folder
        self.arrays: Arrays | None = None
        self._inputs: dict[str, Any] = {}
        self._start: Arrays = {}
        self._has_failed = False
        self._latest: Callable[[], Arrays] | None = None
        self._due = time.monotonic() + INTERVAL
        if not os.path.exists(self.path):
            check_can_write(self.path, "the checkpoint")
        self._identity = _identity(self.path)
        if self._identity is None:
            return
        arrays, header = container.read(self.path)
        tables = header.get("tables")
        inputs = header.get("checkpoint")
        if not isinstance(inputs, dict) or not isinstance(tables, dict):
            raise ValueError(
                f"{self.name!r} is a model, not a checkpoint: name another file for "
                "the checkpoint."
            )
        self._inputs = inputs
        with self.explain_damage():
            unpacked = {
                name: unpack_table(arrays, name, layout)
                for name, layout in tables.items()
            }
        self.arrays = arrays | unpacked

    @property
    def file(self) -> CheckpointFile:
        """The file, as this object read it or wrote it last."""
        return CheckpointFile(self.path, self._identity)

    @contextmanager
    def explain_damage(self) -> Iterator[None]:
        """Turn an error about the content into one that says that the file is damaged."""
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"The checkpoint {self.name!r} is damaged: {error} Delete it to start "
                "again."
            ) from None

    def begin(self, rng: np.random.Generator, inputs: dict[str, Any]) -> None:
        """Begin a run, or go on with that of the file: its generator starts as it did there.

        Parameters
        ----------
        rng : numpy.random.Generator
            As it is before the run; it is set to the state in the file.
        inputs : dict
            All else that the result depends on: values of parameters, and digests of
            data.

        Raises
        ------
        ValueError
            The file is of a run with other inputs.
        """
        inputs = json.loads(
            container.dumps(dict(inputs))
        )  # tuples are lists in the file
        if self.arrays is not None and self._inputs != inputs:
            names = {**inputs, **self._inputs}
            changed = [
                name for name in names if self._inputs.get(name) != inputs.get(name)
            ]
            raise ValueError(
                f"{self.name!r} is the checkpoint of another run, with "
                f"{'; '.join(self._difference(name, inputs) for name in changed[:5])}. "
                "Fit with the inputs of that run, name another file, or delete this "
                "one to start again. The checkpoint of a run that has ended is "
                "deleted when its model is saved."
            )
        if self.arrays is not None:
            with self.explain_damage():
                set_generator_state(rng, self.arrays["begin"])
        self._inputs = inputs
        self._start = {"begin": generator_state(rng)}

    def _difference(self, name: str, inputs: dict[str, Any]) -> str:
        there = self._inputs.get(name)
        here = inputs.get(name)
        name = name if name in inputs else short(name)  # a file may hold anything
        if isinstance(here, dict) or isinstance(
            there, dict
        ):  # a digest says nothing to people
            return f"other {name}"
        return f"{name}={short(there)} (now {short(here)})"

    def write_if_due(self, arrays: Callable[[], Arrays]) -> None:
        """Write what `arrays` returns if it is time to, or later, when it is flushed.

        It is called when it is written, and not where a later one takes its place.
        """
        self._latest = arrays
        if time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write what was not due; if that fails, warn and go on."""
        begin = time.monotonic()
        if self._latest is None:
            return
        try:
            self.write(self._latest())
            self._latest = None
        except (OSError, MemoryError) as error:
            if (
                not self._has_failed
            ):  # one warning is enough; the next write may succeed
                reason = getattr(
                    error, "strerror", "There is no memory to write the checkpoint"
                )
                warn(
                    f"{reason} ({self.name!r}). The fit goes on without a checkpoint, "
                    "and tries again from time to time."
                )
            self._has_failed = True
        end = time.monotonic()
        self._due = end + max(INTERVAL, (end - begin) / TIME_SHARE)

    def write(self, arrays: Arrays) -> None:
        """Write plain and structured arrays, as a whole or not at all."""
        if _identity(self.path) not in (None, self._identity):
            reason = "Cannot write the checkpoint: another file has taken its place"
            raise FileExistsError(errno.EEXIST, reason, self.name)
        plain: Arrays = {}
        tables: dict[str, Any] = {}
        for name, array in (arrays | self._start).items():
            if array.dtype.names:
                columns, tables[name] = pack_table(array, name)
                plain |= columns
            else:
                plain[name] = array
        header = {"checkpoint": self._inputs, "tables": tables}
        container.write(self.path, plain, header, what="the checkpoint")
        self._identity = _identity(self.path)


def digest(*parts: Any) -> dict[str, str]:
    """Return a fingerprint of arrays, sparse arrays and None; equal for equal content.

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
        if array.dtype.kind in "iu":  # equal integers count as equal in any width
            array = array.astype(np.int64 if array.dtype.kind == "i" else np.uint64)
        array = np.ascontiguousarray(array)
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.reshape(-1).view(np.uint8).data)
    return {"sha256": sha.hexdigest()}


def _flat(parts: Iterable[Any]) -> Iterable[Any]:
    for part in parts:
        if sp.issparse(part):
            yield np.array(part.shape)
            yield from (
                part.indptr.astype(np.int64),
                part.indices.astype(np.int64),
                part.data,
            )
        else:
            yield "none" if part is None else part
