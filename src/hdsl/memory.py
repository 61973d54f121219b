"""Available memory, and sizes in readable units."""

from __future__ import annotations

import os
from pathlib import Path


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
