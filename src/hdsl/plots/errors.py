"""Display of errors against the number of dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import COLORS, MARKERS, Display, legend


@dataclass
class ErrorDisplay(Display):
    """Error of methods against the number of dimensions they use.

    Parameters
    ----------
    curves : dict of str to tuple
        By name of the method: dimensions, errors, and optionally the spread of the errors, each an
        array-like of shape (n_points,).
    """

    curves: Mapping[str, Sequence[Any]]

    @classmethod
    def from_curves(cls, curves: Mapping[str, Sequence[Any]], *, ax: Any = None) -> ErrorDisplay:
        """Draw curves that were measured."""
        return cls(curves).plot(ax)

    def plot(self, ax: Any = None) -> ErrorDisplay:
        """Draw one line per method; a band is the spread."""
        ax = self.start(ax)
        handles = []
        for k, (dimensions, errors, *spread) in enumerate(self.curves.values()):
            color = COLORS[k % len(COLORS)]
            handles += ax.plot(
                dimensions, errors, color=color, marker=MARKERS[k % len(MARKERS)], ms=4, lw=1.5
            )
            if spread:
                low, high = np.subtract(errors, spread[0]), np.add(errors, spread[0])
                ax.fill_between(dimensions, low, high, color=color, alpha=0.2, lw=0)
        ax.set(xscale="log", xlabel="number of dimensions", ylabel="error")
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        legend(ax, handles, list(self.curves))
        return self
