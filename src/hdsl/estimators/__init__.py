"""Estimators as scikit-learn knows them."""

from .cv import HDSLCV
from .hdsl import HDSL
from .saving import load

__all__ = ["HDSL", "HDSLCV", "load"]
