"""Compiled kernels on disk: one file for each kernel, signature, processor and version of the code.

Numba's own cache has an index beside numbered files. Between the two, another process may load a
file that is not what the index says: that of an older Numba, or of another signature. Here the name
of a file says all that it depends on, the other kernels included, since a kernel is compiled with
those that it calls. Any number of processes may read and write at once; what cannot be read is
compiled again.
"""

import hashlib
import os
import pickle
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

#: Settings of Numba that change what is compiled.
SETTINGS = (
    "OPT",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "USING_SVML",
)

_DIGEST = hashlib.sha256().digest_size


class KernelCache(FunctionCache):
    """The cache of one kernel. Raises RuntimeError where no folder can be written to."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        kernel = f"{self._impl.filename_base}.numba{numba.__version__}"
        stamp = _short_hash((self._impl.locator.get_source_stamp(), _sources()))
        self._cache_file: Any = KernelFiles(Path(self._cache_path), kernel, stamp)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """Return what a file depends on beyond its sources: signature, processor, settings."""
        settings = tuple(str(getattr(config, name, None)) for name in SETTINGS)
        return *super()._index_key(sig, codegen), settings


class KernelFiles:
    """The files of one kernel.

    Parameters
    ----------
    folder : Path
        Where the files are.
    kernel : str
        How their names begin: the kernel, and the versions of Python and Numba.
    stamp : str
        What follows: the sources. Files of this kernel with another stamp are of no more use.
    """

    def __init__(self, folder: Path, kernel: str, stamp: str) -> None:
        self._folder, self._kernel, self._stamp = folder, kernel, stamp

    def load(self, key: Any) -> Any:
        """Return what was saved under a key; None where nothing usable was."""
        with suppress(Exception):
            held = self._path(key).read_bytes()
            digest, content = held[:_DIGEST], held[_DIGEST:]
            if hashlib.sha256(content).digest() == digest:
                saved_key, data = pickle.loads(content)  # noqa: S301  written by this user
                return data if saved_key == key else None
        return None

    def save(self, key: Any, data: Any) -> None:
        """Keep what a kernel was compiled to. Where that fails, it is compiled anew next time."""
        content = dumps((key, data))
        with suppress(OSError):
            self._remove(but=f"{self._kernel}.{self._stamp}.")
            path = self._path(key)
            unfinished = path.with_suffix(f".{uuid4().hex}.tmp")
            try:
                unfinished.write_bytes(hashlib.sha256(content).digest() + content)
                os.replace(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)

    def flush(self) -> None:
        """Forget all that was saved."""
        self._remove(but=None)

    def _remove(self, *, but: str | None) -> None:
        """Remove the files of this kernel, but for those whose names begin so."""
        for path in self._folder.glob(f"{self._kernel}.*"):
            if but is None or not path.name.startswith(but):
                with suppress(OSError):
                    path.unlink()

    def _path(self, key: Any) -> Path:
        return self._folder / f"{self._kernel}.{self._stamp}.{_short_hash(key)}.nbc"


@cache
def _sources() -> str:
    """Return a hash of the modules in this folder."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return _short_hash(
        [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in modules]
    )


def _short_hash(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
