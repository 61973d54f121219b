"""Data files: sparse rows (svmlight, SciPy .npz), labels, and tables of text or of judgements.

Files are not trusted. Nothing is unpickled, and the sizes in a header are checked
against the file before memory is allocated. Any fault raises a `DataFileError` that
names the file and, in a text file, the line.
"""

from .arrays import read_array
from .files import DataFileError
from .labels import read_feature_names, read_labels
from .matrices import read_matrix, read_npz, read_svmlight

__all__ = [
    "DataFileError",
    "read_array",
    "read_feature_names",
    "read_labels",
    "read_matrix",
    "read_npz",
    "read_svmlight",
]
