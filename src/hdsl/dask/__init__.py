"""The same fit on a Dask cluster, for rows and triplets that one machine does not hold.

Needs ``hdsl[dask]``. See the page "A cluster".
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimator import HDSL

__all__ = ["HDSL"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: workers run other modules of this package, and need no
    # scikit-learn, which takes 110 MB of each.
    if name == "HDSL":
        from .estimator import HDSL

        globals()[name] = HDSL
        return HDSL
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
