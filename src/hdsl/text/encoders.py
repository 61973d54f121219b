"""Encoders: texts as dense rows, by a model that others trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files.container import Arrays, get_array, get_value
from ..input.errors import short, warn
from ..input.parameters import as_texts
from ..progress import Progress
from ..rows import unit_rows

#: What an encoder says of this sentence tells it from others.
PROBE = "The quick brown fox jumps over the lazy dog, 1234567890."

#: The least cosine of two vectors of the probe by one encoder: machines round
#: differently.
LEAST_COSINE = 0.999

#: What to install for names and folders of models.
EXTRA = "pip install hdsl[embed]"


class EncoderError(ValueError):
    """An encoder that cannot be loaded, or is not the one that a model was fitted with."""


def encode(
    encoder: Any, texts: Iterable[str], *, batch_size: int = 256, verbose: int = 0
) -> np.ndarray:
    """Return texts as rows at unit length, float32, encoded in batches."""
    texts = as_texts(texts, "An encoder")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(
            "An encoder takes a list of texts: some of these are not texts."
        )
    batches = [
        texts[first : first + batch_size] for first in range(0, len(texts), batch_size)
    ]
    with Progress(verbose) as progress:
        progress.stage("encoding texts", len(batches))
        rows = [_encode_batch(encoder, batch) for batch in progress.each(batches)]
    if not rows:
        return np.empty((0, len(_encode_batch(encoder, [PROBE])[0])), dtype=np.float32)
    return np.vstack(rows)


def _encode_batch(encoder: Any, texts: Sequence[str]) -> np.ndarray:
    """Return some texts as rows at unit length; raise ValueError if an encoder gives no rows."""
    encoded = encoder.encode([*texts])
    try:
        with np.errstate(over="ignore"):
            rows = np.asarray(encoded)
            if rows.dtype.kind != "c":
                rows = rows.astype(np.float32)
    except (TypeError, ValueError):
        rows = np.empty(0)
    is_table = rows.ndim == 2 and len(rows) == len(texts) and rows.shape[1] > 0
    if not is_table or rows.dtype.kind == "c" or not np.isfinite(rows).all():
        raise ValueError(
            "The encoder must return one row of finite numbers per text, as float32 and "
            f"all of one length. Got {short(encoded)} for {len(texts)} texts."
        )
    return np.asarray(unit_rows(rows))


def load_encoder(encoder: Any) -> Any:
    """Return an object with ``encode``; a name or a folder is loaded.

    Static models are loaded by model2vec, others by sentence-transformers.
    """
    if hasattr(encoder, "encode") and not isinstance(encoder, str | type):
        return encoder
    if not isinstance(encoder, str | Path):
        raise EncoderError(
            "An encoder is an object with encode(list of str), or the name or folder "
            f"of a model. Got {short(encoder)}."
        )
    name = str(encoder)
    if _is_static(Path(name)):
        return _load_static(name)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return _load_static(name)
    try:
        return SentenceTransformer(name)
    except Exception as error:  # of many kinds: files, networks, formats
        raise EncoderError(
            f"The encoder {short(name)} cannot be loaded: {_first_line(error)}"
        ) from None


def _is_static(folder: Path) -> bool:
    """Return whether a folder holds a static model, as model2vec saves it."""
    config = folder / "config.json"
    return config.is_file() and '"model2vec"' in config.read_text(encoding="utf-8")


def _load_static(name: str) -> Any:
    """Return a static model, by model2vec."""
    try:
        from model2vec import StaticModel
    except ImportError:
        raise EncoderError(
            f"To load the encoder {short(name)}, install sentence-transformers or "
            f"model2vec: {EXTRA}."
        ) from None
    try:
        return StaticModel.from_pretrained(name)
    except Exception as error:  # of many kinds: files, networks, formats
        raise EncoderError(
            f"The encoder {short(name)} cannot be loaded: {_first_line(error)}"
        ) from None


def _first_line(error: Exception) -> str:
    """Return the first line of a message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]


class TextEncoder:
    """An encoder of texts in a model file: its name and fingerprint, not its weights.

    Parameters
    ----------
    name : str
        Name or folder of the encoder; empty for an object.
    fingerprint : ndarray of shape (width,)
        Its vector of `PROBE`.
    encoder : object or None
        Has ``encode``. None until `use` names it: a file does not choose what is
        loaded.
    """

    def __init__(self, name: str, fingerprint: np.ndarray, encoder: Any = None) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self._encoder = encoder
        self._has_warned = False

    @classmethod
    def of(cls, encoder: Any) -> TextEncoder:
        """Return a loaded encoder, from an object or from a name or a folder."""
        loaded = load_encoder(encoder)
        name = ""
        if isinstance(encoder, str | Path):
            name = str(encoder)
        return cls(name, _encode_batch(loaded, [PROBE])[0], loaded)

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return len(self.fingerprint)

    def use(self, encoder: Any) -> None:
        """Take an encoder, or its new place; raise EncoderError if it is another one."""
        loaded = load_encoder(encoder)
        probe = _encode_batch(loaded, [PROBE])[0]
        if len(probe) != self.width:
            raise EncoderError(
                f"The model was learned with an encoder of {self.width} columns "
                f"({self._described()}), and this one has {len(probe)}: name the same."
            )
        if float(probe @ self.fingerprint) < LEAST_COSINE:
            raise EncoderError(
                f"The model was learned with another encoder ({self._described()}): "
                "this one returns another vector for the same sentence. Name the "
                "same encoder, or fit again."
            )
        self._encoder = loaded

    def encode(self, texts: Iterable[str], *, verbose: int = 0) -> np.ndarray:
        """Return texts as rows at unit length; zeros, with a warning, without the encoder."""
        texts = [*texts]
        if self._encoder is None:
            self._warn_once()
            return np.zeros((len(texts), self.width), dtype=np.float32)
        rows = encode(self._encoder, texts, verbose=verbose)
        if rows.shape[1] != self.width:
            raise EncoderError(
                f"The encoder returns rows of {rows.shape[1]} numbers for these "
                f"texts, and of {self.width} for another: all must have the same "
                "length."
            )
        return rows

    def _warn_once(self) -> None:
        """Say that texts have no embedding, the first time."""
        if self._has_warned:
            return
        self._has_warned = True
        warn(
            "Texts are compared by words alone, without the embedding: the encoder "
            f"({self._described()}) is not loaded unless you name it, with --encoder or "
            "collection.encoder.use(...)."
        )

    def _described(self) -> str:
        """Return the name, or what it is without one."""
        if not self.name:
            return "an object of Python"
        return short(self.name)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the fingerprint, and the name."""
        return {"fingerprint": self.fingerprint}, {"name": self.name}

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> TextEncoder:
        """Return the encoder of `to_arrays`; raise ValueError if it is damaged."""
        fingerprint = get_array(arrays, "fingerprint", "f", (None,))
        return cls(get_value(header, "name", str), fingerprint)
