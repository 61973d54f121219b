"""Files of labels."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path

import numpy as np

from . import files
from .files import DataFileError
from .numpy_files import read_array


def read_labels(path: str | PathLike[str]) -> np.ndarray:
    """Return the labels in a file: a NumPy ``.npy`` vector, or text with one label per line.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray of shape (n_rows,)
        int64, float64 or strings (dtype object) as in `read_svmlight`; from ``.npy`` as stored.
    """
    if Path(path).suffix == ".npy":
        y = read_array(path)
        if y.ndim != 1 or y.dtype.kind not in "biufSU":
            raise DataFileError(
                f"{path} must hold a vector of labels, numbers or strings. Got shape {y.shape}, "
                f"dtype {y.dtype}."
            )
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise DataFileError(f"{path} has a label that is NaN or infinite.")
        return y
    path, text = files.read_text(path)
    counts = files.words_by_line(text)
    if counts.max() > 1:
        number = int(np.argmax(counts > 1)) + 1
        raise files.bad_line(path, number, files.line_at(text, number), "one label per line")
    values = files.parse_numbers(text)
    if len(values) == counts.sum():
        if not np.isfinite(values).all():
            number = int(np.flatnonzero(counts)[np.argmin(np.isfinite(values))]) + 1
            raise files.bad_line(path, number, files.line_at(text, number), "a finite label")
        return files.as_labels(values)
    known: dict[bytes, str] = {}
    labels = (line.strip() for line in io.BytesIO(text) if line.strip())
    return np.array([known.setdefault(label, label.decode()) for label in labels], dtype=object)
