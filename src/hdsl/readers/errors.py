"""The errors of data files: each names the file, and in a text file the line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..input.errors import WayOutError

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
