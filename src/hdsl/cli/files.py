"""The files that commands read and write, checked before the work begins."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

from .. import memory, readers
from ..files.atomic import check_can_write

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")

#: Files that are not text.
BINARY = (".npz", ".npy", ".parquet", ".gz", ".bz2")

#: Bytes of memory per byte of a file while it is read, roughly.
GROWTH = 5


def is_table(path: Path) -> bool:
    """Return whether a file is a table, by its name; raise for a compressed one."""
    suffix = path.suffix.lower()
    if suffix in PACKED and Path(path.stem).suffix.lower() in TABLES:
        raise ValueError(f"{path} is compressed: unpack it first.")
    return suffix in TABLES


def check_size(path: Path) -> None:
    """Raise unless `path` is a file that fits into memory."""
    size = readers.files.check_file(path).stat().st_size
    free = memory.available()
    if free is not None and GROWTH * size > free:
        raise ValueError(
            f"{path} has {memory.format_bytes(size)}: reading it takes about "
            f"{memory.format_bytes(GROWTH * size)} of memory, but "
            f"{memory.format_bytes(free)} are free. Is it the right file? If so, learn "
            "from a sample of its rows."
        )


def check_input(path: Path, encoding: str = "utf-8") -> None:
    """Raise unless `path` is a file that fits into memory, and text where its name says so."""
    check_size(path)
    if encoding != "utf-8" or path.suffix.lower() in BINARY:
        return
    with path.open("rb") as file:
        start = file.read(4096)
    if b"\0" not in start:
        return
    hint = ""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and is_table(path):
        hint = ": pass --encoding utf-16"
    raise ValueError(
        f"{path} is not UTF-8 text, as its first bytes contain zeros{hint}."
    )


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not blank."""
    check_input(path)
    _, text = readers.files.read_text(path)
    return [line.strip() for line in text.decode().split("\n") if line.strip()]


def separator(sep: str | None) -> str | None:
    """Return the character that --sep names; raise ValueError unless it is one."""
    if sep is None:
        return None
    character = sep.replace("\\t", "\t")
    if len(character) != 1:
        raise ValueError(
            f"--sep must be one character, such as ';' or '\\t'. Got {sep!r}."
        )
    return character


def check_output(
    path: Path, purpose: str = "the output", *, taken: Iterable[Path] = ()
) -> None:
    """Raise unless a file can be written, and is none of those that the command uses otherwise."""
    check_can_write(path, purpose)
    if path.resolve() in [other.resolve() for other in taken]:
        raise ValueError(
            f"{path} is {purpose} and also another file of this command: name two "
            "files."
        )


def check_output_of_model(path: Path, model: Path) -> None:
    """Raise unless a file can be written that is made of a model, and is not named as one."""
    check_output(path, taken=[model])
    if path.suffix == ".hdsl":
        raise ValueError(
            f"{path} is named as a model, which the output is not: give another name."
        )
