"""What all displays share: colors, axes, legends, and how they read models and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from ..explain import NEGATIVE, POSITIVE
from ..explain.tables import shown
from ..similarity import Similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colors of Okabe and Ito without yellow, which is too light for lines; and one marker
#: for each.
COLORS = (POSITIVE, NEGATIVE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: For names and texts: neither mathtext nor TeX reads them.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}

#: Position of a legend that hides nothing.
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}


class Display:
    """Base of the displays, which sets `ax_` and `figure_` in `plot`."""

    ax_: Any
    figure_: Figure

    def __repr__(self) -> str:
        state = "not drawn yet: plot()"
        if hasattr(self, "figure_"):
            state = "drawn in figure_"
        return f"<{type(self).__name__}, {state}>"

    def start(self, ax: Any, **options: Any) -> Any:
        """Return the axes to draw on, new ones if none are given."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "hdsl.plots needs matplotlib: `pip install hdsl[plots]`."
            ) from error
        if ax is None:
            _, ax = plt.subplots(layout="constrained", **options)
        self.ax_ = ax
        self.figure_ = ax.figure
        return ax


def legend(
    ax: Axes, handles: Sequence[Any], labels: Sequence[str], **options: Any
) -> None:
    """Draw a legend whose labels are plain text."""
    # The labels are set afterwards: matplotlib leaves out those that start with an
    # underscore.
    numbers = [str(k) for k in range(len(labels))]
    drawn = ax.legend(handles, numbers, frameon=False, fontsize="small", **options)
    for text, label in zip(drawn.get_texts(), labels, strict=True):
        text.set(text=shown(label), **PLAIN)


def similarity_of(estimator: Any) -> Similarity:
    """Return the similarity of a fitted model."""
    if isinstance(estimator, Similarity):
        return estimator
    return estimator.similarity_


def fitted_run(estimator: Any) -> Any:
    """Return the fitted model of a run, which of a search is the best one."""
    check_is_fitted(estimator)
    return getattr(estimator, "best_estimator_", estimator)
