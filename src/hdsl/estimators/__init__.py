"""Estimators as scikit-learn knows them."""

from .classifier import SimilarityClassifier
from .cv import HDSLCV
from .hdsl import HDSL
from .local import LocalHDSL
from .local_cv import LocalHDSLCV
from .saving import load, save
from .scores import ClassScores

__all__ = [
    "HDSL", "HDSLCV", "ClassScores", "LocalHDSL", "LocalHDSLCV", "SimilarityClassifier", "load",
    "save",
]  # fmt: skip
