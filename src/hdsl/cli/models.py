"""The model files that commands write and read."""

from pathlib import Path
from typing import Any

from ..files import container
from ..files.atomic import check_can_write
from .files import check_size
from .messages import say

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
