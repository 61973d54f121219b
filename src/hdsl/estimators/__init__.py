"""Estimators as scikit-learn knows them."""

from .cv import HDSLCV
from .hdsl import HDSL, load

__all__ = ["HDSL", "HDSLCV", "load"]
