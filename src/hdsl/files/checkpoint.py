"""Checkpoints: a run at its last restart point, in a file. A killed process loses seconds.

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
from ..input.parameters import FilePath
from ..rows import Rows, blocks_of
from ..solver.trace import generator_state, set_generator_state
from . import container
from .atomic import check_can_write
from .container import Arrays, pack_table, unpack_table

#: Seconds between two writes.
INTERVAL = 30.0

#: Largest share of the time of a run that is spent writing: large ones are written less
#: often.
TIME_SHARE = 0.05

#: Inputs that a message names if they differ.
N_NAMED = 5


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
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Schedule:
    """When the next write is due: after an interval, a longer one if writing takes long."""

    def __init__(self) -> None:
        self._due = time.monotonic() + INTERVAL

    def is_due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._due

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Measure a write, and put off the next one."""
        begin = time.monotonic()
        yield
        end = time.monotonic()
        self._due = end + max(INTERVAL, (end - begin) / TIME_SHARE)


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
        self._schedule = Schedule()
        if not os.path.exists(self.path):
            check_can_write(self.path, "the checkpoint")
        self._identity = _identity(self.path)
        if self._identity is not None:
            self._read()

    def _read(self) -> None:
        """Take inputs and arrays from the file."""
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
            reason = str(error)[: container.LONGEST]
            raise ValueError(
                f"The checkpoint {self.name!r} is damaged: {reason} Delete it to start "
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
        # As they are in a file, where tuples are lists.
        inputs = json.loads(container.dumps(dict(inputs)))
        if self.arrays is not None:
            self._check_same_run(inputs)
            with self.explain_damage():
                set_generator_state(rng, self.arrays["begin"])
        self._inputs = inputs
        self._start = {"begin": generator_state(rng)}

    def _check_same_run(self, inputs: dict[str, Any]) -> None:
        """Raise ValueError if the run of the file had other inputs."""
        if self._inputs == inputs:
            return
        names = {**inputs, **self._inputs}
        changed = [name for name in names if self._inputs.get(name) != inputs.get(name)]
        differences = [self._difference(name, inputs) for name in changed[:N_NAMED]]
        raise ValueError(
            f"{self.name!r} is the checkpoint of another run, with "
            f"{'; '.join(differences)}. Fit with the inputs of that run, name another "
            "file, or delete this one to start again. The checkpoint of a run that has "
            "ended is deleted when its model is saved."
        )

    def _difference(self, name: str, inputs: dict[str, Any]) -> str:
        """Return what an input was in the run of the file, and what it is now."""
        before = self._inputs.get(name)
        now = inputs.get(name)
        shown = name if name in inputs else short(name)  # a file may hold anything
        if isinstance(before, dict) or isinstance(now, dict):
            return f"other {shown}"  # a digest says nothing to people
        return f"{shown}={short(before)} (now {short(now)})"

    def write_if_due(self, arrays: Callable[[], Arrays]) -> None:
        """Write what `arrays` returns if it is time to, or later, when it is flushed.

        It is called when it is written, and not if a later one takes its place.
        """
        self._latest = arrays
        if self._schedule.is_due():
            self.flush()

    def flush(self) -> None:
        """Write what was not due; if that fails, warn and go on."""
        if self._latest is None:
            return
        with self._schedule.writing():
            try:
                self.write(self._latest())
                self._latest = None
            except (OSError, MemoryError) as error:
                self._warn_once(error)

    def _warn_once(self, error: OSError | MemoryError) -> None:
        """Warn of the first write that fails; a later one may succeed."""
        if not self._has_failed:
            reason: str | None = "There is no memory to write the checkpoint"
            if isinstance(error, OSError):
                reason = error.strerror
            warn(
                f"{reason} ({self.name!r}). The fit continues without a checkpoint, "
                "and tries again from time to time."
            )
        self._has_failed = True

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


# --- fingerprints of data -------------------------------------------------------------


def digest(*values: Any) -> dict[str, str]:
    """Return a fingerprint of arrays, sparse arrays, mixed rows and None; equal for equal content.

    Examples
    --------
    >>> digest(np.arange(3)) == digest(np.arange(3)) != digest(np.arange(4))
    True
    """
    sha = hashlib.sha256()
    for array in map(_in_one_width, _plain_arrays(values)):
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.reshape(-1).view(np.uint8).data)
    return {"sha256": sha.hexdigest()}


def _plain_arrays(values: Iterable[Any]) -> Iterator[np.ndarray]:
    """Yield arrays, those of a sparse array one by one."""
    for value in values:
        if value is None:
            yield np.asarray("none")
        elif isinstance(value, Rows):
            yield from _plain_arrays(blocks_of(value))
        elif sp.issparse(value):
            yield np.array(value.shape)
            yield value.indptr.astype(np.int64)
            yield value.indices.astype(np.int64)
            yield value.data
        else:
            yield np.asarray(value)


def _in_one_width(array: np.ndarray) -> np.ndarray:
    """Return an array with the same bytes for integers of any width, and for objects their text."""
    match array.dtype.kind:
        case "O":
            array = np.array([repr(value) for value in array.ravel()], dtype=str)
        case "i":
            array = array.astype(np.int64)
        case "u":
            array = array.astype(np.uint64)
    return np.ascontiguousarray(array)
