"""How much memory the content of a file may take, which is not trusted to be what it says."""

from pathlib import Path

from ..memory import format_bytes
from .errors import DataFileError

#: What a file is parsed to may take this many times its size, or FREE_BYTES if that is
#: more.
MAX_EXPANSION = 200
FREE_BYTES = 8 * 2**20


def expansion_limit(path: Path) -> int:
    """Return the most bytes that the content of a file may take in memory."""
    return max(MAX_EXPANSION * path.stat().st_size, FREE_BYTES)


def check_expansion(path: Path, size: int, way_out: str) -> None:
    """Raise DataFileError if a file expands to far more than its size."""
    if size > expansion_limit(path):
        raise DataFileError(
            f"{path} expands from {format_bytes(path.stat().st_size)} to "
            f"{format_bytes(size)} or more, over {MAX_EXPANSION} times its size. "
            f"{way_out} if you trust it."
        )


def check_n_rows(path: Path, n_rows: int, size: int) -> None:
    """Raise DataFileError if the row pointers alone take far more memory than the file."""
    if n_rows > max(size, FREE_BYTES // 8):  # a pointer per row
        raise DataFileError(
            f"{path} claims {n_rows:.3g} rows, more than {format_bytes(size)} can hold."
        )
