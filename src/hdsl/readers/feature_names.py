"""Files of feature names: text with one name per line, or NumPy's ``.npy``."""

from pathlib import Path

import numpy as np

from ..input.paths import FilePath
from .errors import bad_line
from .files import read_text
from .numpy_files import read_vector


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
