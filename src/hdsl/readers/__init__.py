"""Data files read as sparse matrices: svmlight, NIPS 2003, Matrix Market, SciPy .npz, MATLAB .mat.

Every reader returns ``(X, y)``: a canonical CSR array of float64, and labels or None. Files are not
trusted. Nothing is unpickled, and the sizes in a header are checked against the file before memory
is allocated. Any fault raises a `DataFileError` that names the file and, in a text file, the line.
"""

from .files import Data, DataFileError
from .labels import read_labels
from .matlab import read_mat
from .matrix import read_matrix
from .matrix_market import read_matrix_market
from .nips2003 import read_nips2003
from .numpy_files import read_array, read_npz
from .svmlight import read_svmlight

__all__ = [
    "Data",
    "DataFileError",
    "read_array",
    "read_labels",
    "read_mat",
    "read_matrix",
    "read_matrix_market",
    "read_nips2003",
    "read_npz",
    "read_svmlight",
]
