"""Matrices of any format, by the name of the file."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from .. import checks
from .files import Data, plain_name
from .matlab import read_mat
from .matrix_market import read_matrix_market
from .nips2003 import read_nips2003
from .numpy_files import read_npz
from .svmlight import read_svmlight

READERS: dict[str, Callable[..., Data]] = {
    "npz": read_npz,
    "mtx": read_matrix_market,
    "mat": read_mat,
    "data": read_nips2003,
    "svmlight": read_svmlight,
}


def read_matrix(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    format: str | None = None,
    **options: Any,
) -> Data:
    r"""Return the matrix in a file, and its labels if the file has them.

    Parameters
    ----------
    path : str or path
        Its name says the format: ``.npz``, ``.mtx``, ``.mat`` or ``.data`` (NIPS 2003). Any other
        name is svmlight, because LIBSVM names its files in many ways. Text formats may be
        compressed: ``.gz``, ``.bz2``.
    n_features : int, default=None
        Number of columns. None takes that of the file, or the largest index in it.
    format : {"npz", "mtx", "mat", "data", "svmlight"}, default=None
        The format, whatever the name of the file.
    **options
        For the reader of that format.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
        float64.
    y : ndarray of shape (n_rows,) or None

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "spam.svm")
    ...     _ = path.write_text("spam 1:0.5 3:2\nham 2:1\n")
    ...     X, y = read_matrix(path)
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], ['spam', 'ham'])
    """
    if format is None:
        suffix = Path(plain_name(Path(path))).suffix[1:]
        format = suffix if suffix in READERS else "svmlight"
    checks.check_word("read_matrix", "format", format, READERS)
    return READERS[format](path, n_features=n_features, **options)
