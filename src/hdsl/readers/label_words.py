"""Labels in text: numbers where all of them are, else strings."""

import math

import numpy as np

#: From here on float64 does not hold every integer, so that such digits are a name.
TOO_MANY_DIGITS = 2**53


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
