"""Data files as users name them: regular, not empty, and unpacked where they hold text."""

import bz2
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..input.errors import WayOutError
from ..input.parameters import FilePath
from ..memory import format_bytes

#: Bytes of a line that an error looks at.
LINE_START = 200


class DataFileError(WayOutError):
    """A data file that cannot be read as what it should be."""


@contextmanager
def parsing(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a library's parser into a DataFileError that names the file."""
    try:
        yield
    except (DataFileError, MemoryError):
        raise
    except Exception as error:
        message = shorten(str(error) or type(error).__name__)
        raise DataFileError(f"{path} cannot be read as {what}: {message}") from error


def bad_line(path: Path, number: int, line: bytes, wanted: str) -> DataFileError:
    """Return the error about a line of text that is not as it should be."""
    return DataFileError(
        f"{path}, line {number}: expected {wanted}. Got {quoted(line)}."
    )


def quoted(line: bytes) -> str:
    """Return the start of a line, or of a word of it, for a message."""
    line = line.strip()
    if not line:
        return "an empty line"
    return shorten(repr(line[:LINE_START].decode(errors="backslashreplace")))


def shorten(text: str, width: int = 60) -> str:
    """Return at most `width` characters of a text."""
    return text if len(text) <= width else text[: width - 3] + "..."


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


#: Bytes that parsing takes per word of text, at its peak.
BYTES_PER_WORD = 64

#: Bytes that are unpacked at a time.
BLOCK = 2**20

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def check_file(path: FilePath) -> Path:
    """Return the path of a regular file that is not empty."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a data file is expected.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise DataFileError(f"{path} is not a regular file.")
    if not path.stat().st_size:
        raise DataFileError(f"{path} is empty.")
    return path


def read_text(path: FilePath) -> tuple[Path, bytes]:
    """Return the path and the UTF-8 text of a file, decompressed and not blank."""
    path = check_file(path)
    text = _unpacked(path) if path.suffix in OPENERS else path.read_bytes()
    text = text.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        raise DataFileError(f"{path} is empty.")
    if not _is_utf8(text):
        for number, line in enumerate(io.BytesIO(text), 1):
            if not _is_utf8(line):
                raise bad_line(path, number, line, "UTF-8 text")
    return path, text


def _unpacked(path: Path) -> bytes:
    """Return the content of a compressed file; refuse it as soon as it takes too much memory."""
    limit = expansion_limit(path)
    blocks = []
    size = 0
    with (
        parsing(path, f"a {path.suffix} file"),
        OPENERS[path.suffix](path, "rb") as stream,
    ):
        while size <= limit and (block := stream.read(BLOCK)):
            blocks.append(block)
            size += max(len(block), BYTES_PER_WORD * _n_words(block))
    check_expansion(path, size, "Decompress it first")
    return b"".join(blocks)


def _n_words(text: bytes) -> int:
    """Return about how many numbers a piece of text holds: what stands between separators."""
    letters = np.frombuffer(text, dtype=np.uint8)
    separates = (letters <= 32) | (letters == ord(":")) | (letters == ord(","))
    return int(np.count_nonzero(separates[1:] > separates[:-1])) + 1


def _is_utf8(text: bytes) -> bool:
    if b"\0" in text:
        return False
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False
