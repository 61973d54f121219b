"""Available memory, sizes in readable units, and the error where memory is not enough."""

import os
from collections.abc import Sequence
from pathlib import Path


class NotEnoughMemory(MemoryError):  # noqa: N818 - it is a MemoryError by its base
    """Work needs more memory than it may take.

    Parameters
    ----------
    what : str
        What needs the memory, as the subject of a sentence.
    needed, allowed : int
        Bytes.
    is_limit : bool
        Whether `allowed` is a limit that the user set; otherwise it is what the machine
        has free.
    options : tuple of str
        What a Python user can do about it, each as a clause.

    Examples
    --------
    >>> print(NotEnoughMemory("The fit", 3 * 2**30, 2**30, False, ("drop rows", "drop columns")))
    The fit needs about 3.0 GiB, but only 1.0 GiB are free on this machine. Drop rows, or drop
    columns.
    """

    def __init__(
        self,
        what: str,
        needed: int,
        allowed: int,
        is_limit: bool,
        options: tuple[str, ...],
    ) -> None:
        super().__init__(what, needed, allowed, is_limit, options)  # for pickle
        self.what = what
        self.needed = needed
        self.allowed = allowed
        self.is_limit = is_limit
        self.options = options

    def __str__(self) -> str:
        return self.message("memory_limit", self.options)

    def message(self, limit: str, options: Sequence[str]) -> str:
        """Return the facts, with the caller's name for the limit and its ways out."""
        needed = format_bytes(self.needed)
        allowed = format_bytes(self.allowed)
        why = "are free on this machine"
        if self.is_limit:
            why = f"are allowed by {limit}"
        way_out = _alternatives(options)
        return (
            f"{self.what} needs about {needed}, but only {allowed} {why}. "
            f"{way_out[:1].upper()}{way_out[1:]}."
        )


def _alternatives(options: Sequence[str]) -> str:
    """Return clauses as those of a sentence: "drop rows, or drop columns"."""
    first = ", ".join(options[:-1])
    last = "".join(options[-1:])
    return f"{first}, or {last}" if first else last


def check_fits(
    what: str,
    needed: int,
    memory_limit: str | float | None,
    options: tuple[str, ...],
    free: int | None = None,
) -> None:
    """Raise NotEnoughMemory where work needs more than a limit in GiB, or than is free ("auto")."""
    if memory_limit is None:
        return
    allowed = _allowed(memory_limit, free)
    if allowed is not None and needed > allowed:
        is_limit = memory_limit != "auto"
        raise NotEnoughMemory(what, needed, int(allowed), is_limit, options)


def _allowed(memory_limit: str | float, free: int | None) -> float | None:
    """Return the bytes that work may take, None if the system does not say what is free."""
    if memory_limit != "auto":
        return float(memory_limit) * 2**30
    if free is not None:
        return free
    return available()


def available() -> int | None:
    """Return the bytes that this process can still allocate, None if the system does not say."""
    known = [limit for limit in (_meminfo(), _cgroup()) if limit is not None]
    if known:
        return min(known)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup() -> int | None:
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no such group, or "max": no limit
        return None


def format_bytes(size: float) -> str:
    """Return a size in a readable unit.

    Examples
    --------
    >>> format_bytes(3_500_000)
    '3.3 MiB'
    """
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} GiB"
