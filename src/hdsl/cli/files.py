"""The files that commands read and write, those of models too, checked before the work begins."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import memory, readers
from ..files import container
from ..files.atomic import check_can_write
from .output import say

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


#: Most unknown words that are named, and most letters of the text that they stand in.
N_UNKNOWN = 5
N_LETTERS = 60


def check_model_output(path: Path) -> None:
    """Raise unless a model can be written, in place of nothing or of another model."""
    check_can_write(path, "the model")
    if path.exists() and not _is_model(path):
        raise ValueError(
            f"{path} exists and is not a model: delete it or give another name."
        )


def _is_model(path: Path) -> bool:
    try:
        _, header = container.read(path)
    except ValueError:
        return False
    return "checkpoint" not in header


def load_collection(path: Path, encoder: str | None = None) -> Any:
    """Return the documents and the model in a file of ``hdsl fit``, or a model without any.

    `encoder` says where the encoder of its texts is now.
    """
    from ..saving import load
    from ..text import Collection

    check_size(path)
    saved = load(path)
    if isinstance(saved, Collection):
        if encoder is not None:
            _use_encoder(saved, encoder, path)
        return saved
    if not hasattr(saved, "similarity_") and not hasattr(saved, "steps"):
        raise ValueError(
            f"{path} holds a {type(saved).__name__}: this command needs a model of "
            "`hdsl fit`. Use hdsl.load(path) in Python."
        )
    return Collection(saved)


def _use_encoder(collection: Any, encoder: str, path: Path) -> None:
    """Let a collection take an encoder; raise ValueError where it has none or another."""
    if collection.encoder is None:
        raise ValueError(
            f"{path} was learned without an encoder: leave --encoder out, or fit with it."
        )
    collection.encoder.use(encoder)


def name_unknown_words(collection: Any, text: str) -> None:
    """Say which words of a text the model does not know."""
    unknown = collection.unknown_words(text)
    if unknown:
        say(
            f"the model does not know {', '.join(map(repr, unknown[:N_UNKNOWN]))} of "
            f"{text[:N_LETTERS]!r}."
        )
