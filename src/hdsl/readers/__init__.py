"""Data files: sparse rows (svmlight, SciPy .npz), labels, and tables of text or of judgements.

Files are not trusted. Nothing is unpickled, and the sizes in a header are checked
against the file before memory is allocated. Any fault raises a `DataFileError` that
names the file and, in a text file, the line.
"""

from .errors import DataFileError
from .feature_names import read_feature_names
from .label_files import read_labels
from .matrices import read_matrix
from .numpy_files import read_array, read_npz
from .svmlight import read_svmlight

__all__ = [
    "DataFileError",
    "read_array",
    "read_feature_names",
    "read_labels",
    "read_matrix",
    "read_npz",
    "read_svmlight",
]
