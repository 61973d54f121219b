"""Available memory, sizes in readable units, and the error where memory is not enough."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

#: Where Linux shows groups of processes with a limit, those of this process, and the
#: files of a group with its limit and what it uses, by version.
CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
VERSION_2 = ("memory.max", "memory.current")

#: What of the used memory is given back where memory is short, in ``memory.stat``.
RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")


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
    """Return the bytes that the group of this process has left, None without a limit."""
    free = [
        _free_of_group(folder, limit, used)
        for folder, limit, used in _groups(OWN_GROUPS, CGROUPS)
    ]
    return min((size for size in free if size is not None), default=None)


def _groups(own_groups: Path, root: Path) -> list[tuple[Path, str, str]]:
    """Return the groups of a process, those around them, and the names of their files.

    In a container the root is often the group of the process, whatever its path says.
    """
    lines = []
    with suppress(OSError):
        lines = own_groups.read_text().splitlines()
    groups = [(root, *VERSION_2), (root / "memory", *VERSION_1)]
    for line in lines:
        _, _, group = line.partition(":")
        controllers, _, path = group.partition(":")
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(1, len(names) + 1):
            inner = Path(*names[:depth])
            if not controllers:
                groups.append((root / inner, *VERSION_2))
                groups.append((root / "unified" / inner, *VERSION_2))
            elif "memory" in controllers.split(","):
                groups.append((root / "memory" / inner, *VERSION_1))
    return groups


def _free_of_group(folder: Path, limit_name: str, used_name: str) -> int | None:
    """Return the bytes that a group has left; None where there is none, or no limit."""
    try:
        limit = int((folder / limit_name).read_text())
        used = int((folder / used_name).read_text())
    except (OSError, ValueError):  # no such group, or "max": no limit
        return None
    return max(limit - used + _reclaimable(folder), 0)


def _reclaimable(folder: Path) -> int:
    """Return the bytes of a group that are given back where memory is short.

    They are files that were read, and are kept in case they are read again.
    """
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        sizes = {name: int(size) for name, size in map(str.split, lines)}
    except (OSError, ValueError):
        return 0
    # A group of version 1 has the sums over inner groups by names of their own.
    return sum(
        max(sizes.get(f"total_{name}", 0), sizes.get(name, 0)) for name in RECLAIMABLE
    )


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
