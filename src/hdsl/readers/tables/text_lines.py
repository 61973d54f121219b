"""The lines of a text file, decoded one at a time."""

import codecs
from collections.abc import Generator
from pathlib import Path

from ...input.errors import WayOutError


def text_lines(path: Path, encoding: str) -> Generator[str, None, None]:
    """Yield the lines of a text file with their ends; raise where one is no such text."""
    if encoding == "utf-8":
        return _utf8_lines(path)
    return _encoded_lines(path, encoding)


def _utf8_lines(path: Path) -> Generator[str, None, None]:
    """Yield the lines, without the byte order mark; the error names the first bad line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                text = line.decode("utf-8")
            except UnicodeError as error:
                where = f"{path.name}, line {number}"
                raise _not_text(where, "UTF-8", error) from None
            yield text


def _encoded_lines(path: Path, encoding: str) -> Generator[str, None, None]:
    try:
        with path.open(encoding=encoding, newline="") as file:
            yield from file
    except (LookupError, UnicodeError) as error:
        raise _not_text(path.name, repr(encoding), error) from None


def _not_text(where: str, encoding: str, error: Exception) -> WayOutError:
    facts = f"{where} is not {encoding} text ({error})"
    return WayOutError(facts, "save the file as UTF-8", "encoding")
