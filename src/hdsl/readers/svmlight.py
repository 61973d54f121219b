"""Files in the svmlight format: a line per row, ``label index:value index:value ...``."""

import io
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ..input.matrices import INDEX_LIMIT
from ..input.paths import FilePath
from .errors import DataFileError, bad_line, quoted
from .files import read_text
from .label_words import as_labels, as_strings, have_many_digits, is_finite_or_word
from .sparse_rows import Data, as_csr, check_n_features

#: The label of each line that has one. Comments and empty lines have none.
_FIRST_WORD = re.compile(rb"(?m)^[^\S\n]*[^\s#]+")


def read_svmlight(
    path: FilePath, *, n_features: int | None = None, zero_based: bool = False
) -> Data:
    """Return X and y of an svmlight file: lines ``label index:value index:value ...``.

    Parameters
    ----------
    path : str or path
        May end in ``.gz`` or ``.bz2``.
    n_features : int, default=None
        Number of columns. None takes the largest index.
    zero_based : bool, default=False
        Whether indices count from 0. They increase within each line.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        int64 if all labels are integers, float64 if all are numbers, else strings
        (dtype object).
    """
    path, text = read_text(path)
    check_n_features(n_features)
    numbering = Numbering(n_features, zero_based)
    X, labels = _rows_and_labels(path, text, numbering)
    if not len(labels):
        raise DataFileError(f"{path} has no rows, only comments.")
    return as_csr(path, X, n_features), labels


@dataclass(frozen=True)
class Numbering:
    """How the indices of a file number the columns."""

    n_features: int | None
    zero_based: bool

    @property
    def first(self) -> int:
        """The index of the first column."""
        return 0 if self.zero_based else 1

    @property
    def last(self) -> int:
        """The largest index that is allowed."""
        if self.n_features is None:
            return INDEX_LIMIT - 1
        return self.n_features - 1 + self.first


def _rows_and_labels(
    path: Path, text: bytes, numbering: Numbering
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return X, and labels as the simplest kind that holds all of them."""
    if b"_" not in text:  # Python reads 1_0 as 10, and so does the parser
        parsed = _parse(text, numbering)
        if parsed is not None and not have_many_digits(parsed.labels):
            return parsed.X, as_labels(parsed.labels)
    labels = _check_lines(path, text, numbering)
    parsed = _parse(_FIRST_WORD.sub(b"0", text), numbering)
    if parsed is None:
        raise DataFileError(f"{path} cannot be read as svmlight.")
    return parsed.X, labels


@dataclass(frozen=True)
class ParsedText:
    """The matrix in a text, and labels that are numbers."""

    X: sp.csr_matrix
    labels: np.ndarray


def _parse(text: bytes, numbering: Numbering) -> ParsedText | None:
    """Return X and y as scikit-learn parses them, None if it raises or a value is not finite."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(
            io.BytesIO(text),
            n_features=numbering.n_features,
            dtype=np.float64,
            zero_based=numbering.zero_based,
        )
    except (ValueError, OverflowError):
        return None
    if not np.isfinite(X.data).all() or not np.isfinite(y).all():
        return None
    return ParsedText(X, y)


# --- faults ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A word of a line that is not as it should be, and what is wanted in its stead."""

    wanted: str
    word: bytes


def _check_lines(path: Path, text: bytes, numbering: Numbering) -> np.ndarray:
    """Raise on the first bad line of ``index:value`` pairs; return the labels as strings."""
    labels: list[bytes] = []
    for number, line in enumerate(io.BytesIO(text), 1):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        label = words.pop(0)
        if b":" in label:
            wanted = "a label before the first 'index:value'"
            raise bad_line(path, number, line, wanted)
        if not is_finite_or_word(label):
            raise bad_line(path, number, line, "a finite label")
        labels.append(label)
        if words and words[0].startswith(b"qid:"):
            words.pop(0)
        fault = _first_fault(words, numbering)
        if fault is not None:
            raise _bad_word(f"{path}, line {number}", line, fault, numbering)
    return as_strings(labels)


def _bad_word(
    where: str, line: bytes, fault: Fault, numbering: Numbering
) -> DataFileError:
    """Return the error about a word of a line; an index of 0 may be the first of all."""
    facts = f"{where}: expected {fault.wanted}. Got {quoted(fault.word)}"
    if fault.word != line.strip():
        facts += f" in {quoted(line)}"
    if fault.word.startswith(b"0:") and not numbering.zero_based:
        way_out = "pass zero_based=True if they count from 0"
        return DataFileError(facts, way_out, "zero_based")
    return DataFileError(f"{facts}.")


def _first_fault(words: list[bytes], numbering: Numbering) -> Fault | None:
    """Return the first word that is not an ``index:value`` in order, None if all are."""
    largest = numbering.first - 1
    for word in words:
        index, _, value = word.partition(b":")
        try:
            i = int(index)
            is_finite = math.isfinite(float(value))
        except ValueError:
            return Fault("'index:value'", word)
        if b"_" in word:
            return Fault("'index:value' in plain digits", word)
        if i < numbering.first:
            return Fault(f"an index >= {numbering.first}", word)
        if i > numbering.last:
            return Fault(_about_last(numbering), word)
        if i <= largest:
            return Fault(f"an index > {largest}: they must increase", word)
        if not is_finite:
            return Fault("a finite value", word)
        largest = i
    return None


def _about_last(numbering: Numbering) -> str:
    wanted = f"an index <= {numbering.last}"
    if numbering.n_features is not None:
        wanted += f" (n_features={numbering.n_features})"
    return wanted
