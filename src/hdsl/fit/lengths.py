"""A warning of rows that differ in length."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..input.errors import warn

#: Rows differ in length if the 95th percentile is this many times the 5th.
SPREAD = 3.0


def warn_of_lengths(X: sp.csr_array) -> None:
    """Warn of rows of very different length that are compared as they are."""
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if not squares.any():
        return
    low, high = np.sqrt(np.percentile(squares[squares > 0], [5, 95]))
    if high > SPREAD * low:
        warn(
            f"Rows differ in length: 5 % are shorter than {low:.3g} and 5 % longer "
            f"than {high:.3g}. Long rows then look similar to everything: use "
            "norm='l2', or scale X."
        )
