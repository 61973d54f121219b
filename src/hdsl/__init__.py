"""Learn a similarity for sparse, very high-dimensional data, one pair of features at a time."""

from importlib.metadata import PackageNotFoundError, version

from .estimators import HDSL, HDSLCV, load
from .neighbors import SimilarityKNeighborsClassifier

try:
    __version__ = version("hdsl")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["HDSL", "HDSLCV", "SimilarityKNeighborsClassifier", "__version__", "load"]
