"""Files with one value per line: labels and names of features, or NumPy's ``.npy``.

Labels are numbers if all of them are, else strings.
"""

import io
import math
from pathlib import Path

import numpy as np

from ..input.parameters import FilePath
from .arrays import read_vector
from .files import DataFileError, bad_line, read_text

#: From here on float64 does not hold every integer, so that such digits are a name.
TOO_MANY_DIGITS = 2**53


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


def read_feature_names(path: FilePath) -> np.ndarray:
    """Return the names in a file, in the order of the columns that they name.

    Parameters
    ----------
    path : str or path
        A NumPy ``.npy`` vector, or text with one name per line.

    Returns
    -------
    ndarray of str of shape (n_features,), dtype object
    """
    if Path(path).suffix.lower() == ".npy":
        return _stored_names(path)
    path, text = read_text(path)
    names = []
    for number, line in enumerate(text.decode().rstrip().split("\n"), 1):
        name = line.strip()
        if not name:
            raise bad_line(path, number, line.encode(), "one name per line")
        names.append(name)
    return np.array(names, dtype=object)


def _stored_names(path: FilePath) -> np.ndarray:
    """Return the vector in a ``.npy`` file as strings."""
    names = read_vector(path, "iuSU", "names")
    return np.array([str(name) for name in names.tolist()], dtype=object)


# --- labels as words ------------------------------------------------------------------


def as_labels(labels: np.ndarray) -> np.ndarray:
    """Return numeric labels as int64 if all are integers that float64 holds exactly."""
    are_exact = not have_many_digits(labels)
    if are_exact and (labels == np.floor(labels)).all():
        return labels.astype(np.int64)
    return labels


def have_many_digits(labels: np.ndarray) -> bool:
    """Whether a label is an integer that float64 may not hold."""
    return bool((np.abs(labels) >= TOO_MANY_DIGITS).any())


def as_strings(words: list[bytes]) -> np.ndarray:
    """Return labels as strings, equal ones as one object."""
    known: dict[bytes, str] = {}
    return np.array(
        [known.setdefault(word, word.decode()) for word in words], dtype=object
    )


def is_finite_or_word(word: bytes) -> bool:
    """Whether a label is not NaN or infinite."""
    try:
        return math.isfinite(float(word))
    except ValueError:
        return True
