"""A matrix in a file, whose name says its format."""

from pathlib import Path

from ..input.paths import FilePath
from .numpy_files import read_npz
from .sparse_rows import Data
from .svmlight import read_svmlight


def read_matrix(
    path: FilePath, *, n_features: int | None = None, zero_based: bool = False
) -> Data:
    r"""Return the matrix in a file, and its labels if the file has them.

    Parameters
    ----------
    path : str or path
        ``.npz`` of SciPy, or svmlight under any other name, because LIBSVM names its
        files in many ways. For a matrix in another format, call its reader in SciPy and
        pass it to ``fit``.
    n_features : int, default=None
        Number of columns. None takes that of the file, or the largest index in it.
    zero_based : bool, default=False
        Whether indices of an svmlight file count from 0.

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
    if Path(path).suffix.lower() == ".npz":
        return read_npz(path, n_features=n_features)
    return read_svmlight(path, n_features=n_features, zero_based=zero_based)
