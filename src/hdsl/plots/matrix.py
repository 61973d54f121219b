"""Display of the entries of M."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import explain
from ..explain import NEGATIVE, POSITIVE
from ..explain.tables import shown
from ..similarity import Similarity
from .display import ABOVE, PLAIN, Display, FittedModel, legend, names_of, similarity_of


@dataclass
class MatrixDisplay(Display):
    """Entries of M: blue where positive, red where negative.

    Parameters
    ----------
    M : sparse array of shape (n_features, n_features)
    names : sequence of str, default=None
        Names of the features. With names the area of a square is the size of its entry. Without
        names all squares are equal and show where M is not 0.
    """

    M: sp.csr_array
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: FittedModel | Similarity,
        *,
        top: int | None = None,
        feature_names: Any = None,
        ax: Any = None,
    ) -> MatrixDisplay:
        """Draw M of a fitted model or of a Similarity.

        Parameters
        ----------
        estimator : HDSL or Similarity
        top : int, default=None
            Show only this many features of largest weight, by name; None shows all, by number.
        feature_names : array-like of str of shape (n_features,), default=None
        ax : matplotlib axes, default=None

        Returns
        -------
        MatrixDisplay
        """
        similarity = similarity_of(estimator)
        M, names = similarity.matrix(), None
        if top is not None:
            features = explain.importance(
                similarity, feature_names=names_of(estimator, feature_names)
            ).features[:top]
            M = M[features["i"]][:, features["i"]]
            names = features["name"].tolist()
        return cls(M, names).plot(ax)

    def plot(self, ax: Any = None) -> MatrixDisplay:
        """Draw one square per entry."""
        n = self.M.shape[0]
        side = 5.5 if self.names is None else max(4.0, 1.5 + 0.2 * n)
        ax = self.start(ax, figsize=(side, side))
        entries = self.M.tocoo()
        cell = min(ax.get_position().size * self.figure_.get_size_inches()) * 72 / n
        area = np.full(entries.nnz, max(0.8 * cell, 2.0) ** 2)
        if self.names is not None and entries.nnz:
            area = (0.85 * cell) ** 2 * np.abs(entries.data) / np.abs(entries.data).max()
        for mine, color in ((entries.data > 0, POSITIVE), (entries.data < 0, NEGATIVE)):
            ax.scatter(
                entries.col[mine], entries.row[mine], area[mine], color, marker="s", linewidths=0
            )
        key = [ax.plot([], [], "s", color=color, ms=5)[0] for color in (POSITIVE, NEGATIVE)]
        legend(ax, key, ["positive", "negative"], ncols=2, **ABOVE)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
        if self.names is None:
            ax.set(xlabel="feature", ylabel="feature")
        else:
            labels = [shown(name, 24) for name in self.names]
            ax.set_xticks(range(n), labels, rotation=90, fontsize=8, **PLAIN)
            ax.set_yticks(range(n), labels, fontsize=8, **PLAIN)
            ax.grid(lw=0.3)
            ax.set_axisbelow(True)
        return self
