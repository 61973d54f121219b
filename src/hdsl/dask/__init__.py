"""The same fit on a Dask cluster, for rows and triplets that one machine does not hold.

Needs ``hdsl[dask]``. See the page "When one machine is not enough".
"""

from .estimator import HDSL

__all__ = ["HDSL"]
