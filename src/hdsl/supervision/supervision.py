"""What every kind of supervision can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..rows import Rows

if TYPE_CHECKING:
    from .compared_rows import ComparedRows
    from .mining import Miner


def with_columns(X: Any, columns: np.ndarray) -> Any:
    """Return rows with their features in another order; a dense block stays as it is."""
    if isinstance(X, Rows):
        return Rows(with_columns(X.sparse, columns), X.dense)
    reordered = sp.csr_array(X[:, columns])
    reordered.sort_indices()
    return reordered


class Supervision(ABC):
    """Rows, and what is known of them: labels, or comparisons.

    Attributes
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
        As they are compared: at unit length where the model says so.
    weights : ndarray or None
        One per label or per comparison; None is 1 for all.
    """

    X: sp.csr_array
    weights: np.ndarray | None

    @abstractmethod
    def rows_that_count(self) -> sp.csr_array:
        """Return the rows that something is known of."""

    @abstractmethod
    def compare(self, miner: Miner, rng: np.random.Generator) -> ComparedRows:
        """Return rows with comparisons: those that are known, or those that labels make."""

    @abstractmethod
    def sample(self, n_units: int, rng: np.random.Generator) -> Any:
        """Return at most so many rows, of each class its share, or so many anchors."""

    # --- holding out ------------------------------------------------------------------

    @property
    @abstractmethod
    def n_comparisons(self) -> int:
        """Number of comparisons, or of those that a choice makes of labels."""

    @abstractmethod
    def with_fewer(self, n_most: int, rng: np.random.Generator) -> Any:
        """Return at most so many of the comparisons; labels as they are."""

    @abstractmethod
    def present(self) -> Any:
        """Return what has a weight."""

    @abstractmethod
    def reordered(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """Return the same data with rows and columns in another order.

        Names of labels and the order of comparisons are lost too.
        """

    @abstractmethod
    def unit_rows(self) -> np.ndarray:
        """Return the row that each judged thing is about: a label's own, or the anchor."""

    @abstractmethod
    def units(self, keys: np.ndarray) -> np.ndarray:
        """Return numbers of units that are held out as one; equal rows have equal keys."""

    @abstractmethod
    def classes_of_units(self) -> np.ndarray | None:
        """Return the class of each judged thing, of which each turn holds out a share."""

    @abstractmethod
    def is_enough(self, n_units: int) -> bool:
        """Return whether enough is known to hold some of it out."""

    @abstractmethod
    def split(self, is_held_out: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Return what is learned from, what is held out, and the numbers of the latter.

        A mask says which judged things are held out.
        """

    @abstractmethod
    def can_teach(self) -> bool:
        """Return whether comparisons can be made of it, as far as is known beforehand."""

    @abstractmethod
    def can_judge(self) -> bool:
        """Return whether a label or a comparison of it has a positive weight."""

    @abstractmethod
    def check_validation(self, X: sp.csr_array, y_val: Any) -> Supervision:
        """Return rows with labels like these, checked; raise ValueError if they differ."""

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the labels or comparisons and their weights."""
