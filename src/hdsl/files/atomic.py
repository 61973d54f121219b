"""Files that are replaced as a whole: readers see the old bytes or the new ones, never a part."""

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from ..input.parameters import FilePath

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

WRITE_ERRORS = {
    errno.ENOENT: "the folder does not exist, create it first",
    errno.ENOTDIR: "its folder is a file",
    errno.EISDIR: "this is a folder, add a file name",
    errno.EACCES: "no permission to write here, choose another folder",
    errno.EPERM: "no permission to write here, choose another folder",
    errno.EROFS: "the disk is read-only, choose another folder",
    errno.ENOSPC: "the disk is full, free some space",
    errno.EDQUOT: "the disk quota is used up, free some space",
    errno.ENAMETOOLONG: "the file name is too long, choose a shorter one",
}


@contextmanager
def atomic_write(path: FilePath, what: str) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` when all of its bytes are on the disk.

    The bytes go to a temporary file in the same folder. After an error, the old file is
    as it was and the temporary file is gone. If the process is killed, the temporary
    file stays until the next write to the same path.

    Parameters
    ----------
    path : str or path-like
        A link stays a link; the file that it points to is replaced and keeps its
        permissions.
    what : str
        What error messages call the file, such as "the model".
    """
    path = os.fsdecode(path)
    with _explain_write_errors(path, what):
        target, mode = _find(path)
        with _temporary_file(target) as file:
            if mode is not None:
                os.chmod(file.name, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:  # Windows moves no open file
                file.close()
            os.replace(file.name, target)
        _sync_folder(os.path.dirname(target))


def check_can_write(path: FilePath, what: str) -> None:
    """Raise OSError if there can be no file at `path`, or its folder cannot be written to.

    Called before the work whose result is written.

    Parameters
    ----------
    path : str or path-like
    what : str
        What the error message calls the file, such as "the model".
    """
    path = os.fsdecode(path)
    with _explain_write_errors(path, what):
        target, _ = _find(path)
        with tempfile.TemporaryFile(dir=os.path.dirname(target)):
            pass


def check_regular(mode: int, path: str) -> None:
    """Raise OSError if the mode of a file says that it is a folder, a pipe or a device."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(
            errno.EINVAL, "this is not a regular file, choose another name", path
        )


@contextmanager
def _explain_write_errors(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        reason = WRITE_ERRORS.get(error.errno, error.strerror)
        raise OSError(error.errno, f"Cannot write {what}: {reason}", path) from None


def _find(path: str) -> tuple[str, int | None]:
    """Return the file that a path leads to, and its permissions, None if there is no file yet."""
    if "\0" in path:
        raise OSError(
            errno.EINVAL, "the file name has a null character, choose another"
        )
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target, None
    check_regular(mode, path)
    return target, stat.S_IMODE(mode)


@contextmanager
def _temporary_file(target: str) -> Iterator[BinaryIO]:
    """Yield a new file beside the target, locked as long as this process has it open.

    The lock ends with the process, however that ends. So a file without a lock was left
    behind.
    """
    folder, name = os.path.split(target)
    # The name of the target may be too long to be a part of another name.
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    _remove_left_behind(folder, f".hdsl-{digest}-")
    file = None
    path = ""
    try:  # from the start: an interrupt comes at any time
        while file is None:
            path = os.path.join(folder, f".hdsl-{digest}-{os.urandom(8).hex()}.tmp")
            file = open(path, "xb")  # noqa: SIM115 - closed below
            _lock(file.fileno(), wait=True)
            if not os.path.exists(path):
                # Another process removed it before it was locked.
                file.close()
                file = None
        yield file
    except BaseException:
        with suppress(OSError):
            if file is not None:
                file.close()
        with suppress(OSError):
            os.unlink(path)
        raise
    file.close()


def _remove_left_behind(folder: str, prefix: str) -> None:
    """Remove the temporary files of processes that were killed."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix):
                continue
            if not entry.is_file(follow_symlinks=False):
                continue
            with suppress(OSError), open(entry.path, "r+b") as file:
                if _lock(file.fileno(), wait=False):
                    os.unlink(entry.path)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Return whether this process now holds the lock of an open file."""
    if fcntl is None:
        return False
    operation = fcntl.LOCK_EX
    if not wait:
        operation |= fcntl.LOCK_NB
    try:
        fcntl.flock(descriptor, operation)
    except OSError:  # another process has it, or the file system has no locks
        return False
    return True


def _sync_folder(folder: str) -> None:
    """Have the new name of a file on the disk too, if the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
