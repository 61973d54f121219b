"""Files of labels: text with one label per line, or NumPy's ``.npy``."""

import io
from pathlib import Path

import numpy as np

from ..input.paths import FilePath
from .errors import DataFileError, bad_line
from .files import read_text
from .label_words import as_labels, as_strings, have_many_digits, is_finite_or_word
from .numpy_files import read_vector


def read_labels(path: FilePath) -> np.ndarray:
    """Return the labels in a file: a NumPy ``.npy`` vector, or text with one label per line.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray of shape (n_rows,)
        int64, float64 or strings (dtype object) as in `read_svmlight`; from ``.npy`` as
        stored, but for floats that are all integers.
    """
    if Path(path).suffix.lower() == ".npy":
        return _stored_labels(path)
    words = _words(path)
    try:
        numbers = np.array([_number(word) for word in words])
    except ValueError:
        return as_strings(words)
    if have_many_digits(numbers):
        return as_strings(words)
    return as_labels(numbers)


def _stored_labels(path: FilePath) -> np.ndarray:
    """Return the vector in a ``.npy`` file."""
    y = read_vector(path, "biufSU", "labels, numbers or strings")
    if y.dtype.kind != "f":
        return y
    if not np.isfinite(y).all():
        raise DataFileError(f"{path} has a label that is NaN or infinite.")
    return as_labels(y)


def _words(path: FilePath) -> list[bytes]:
    """Return the word in each line of a text file; a line without one would shift the others."""
    path, text = read_text(path)
    words = []
    for number, line in enumerate(io.BytesIO(text.rstrip()), 1):
        word = line.strip()
        if len(line.split()) != 1 or not is_finite_or_word(word):
            raise bad_line(path, number, line, "one label per line, NaN is none")
        words.append(word)
    return words


def _number(word: bytes) -> float:
    """Return a number; 1_0 is a name, though Python reads it as 10."""
    if b"_" in word:
        raise ValueError
    return float(word)
