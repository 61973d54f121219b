"""Data files as users name them: regular, not empty, and unpacked where they hold text."""

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..input.paths import FilePath
from .errors import DataFileError, bad_line, parsing
from .expansion import check_expansion, expansion_limit

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
