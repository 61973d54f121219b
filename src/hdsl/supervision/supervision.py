"""What every kind of supervision can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from .compared_rows import ComparedRows
    from .gains import SearchJudge
    from .judges import Judge
    from .mining import Mining


class Supervision(ABC):
    """Rows, and what is known of them: labels, or comparisons.

    Attributes
    ----------
    X : csr_array or MixedRows of shape (n_rows, n_features)
        As they are compared: at unit length where the model says so.
    weights : ndarray or None
        One per label or per comparison; None is 1 for all.
    """

    X: sp.csr_array
    weights: np.ndarray | None

    @property
    @abstractmethod
    def n_units(self) -> int:
        """Number of what is judged: labeled rows, or anchors."""

    @property
    @abstractmethod
    def n_splittable(self) -> int:
        """Number of units that may be held out."""

    @abstractmethod
    def rows_that_count(self) -> sp.csr_array:
        """Return the rows that something is known of."""

    @abstractmethod
    def compare(self, mining: Mining, rng: np.random.Generator) -> ComparedRows:
        """Return rows with comparisons: those that are known, or those that labels make."""

    @abstractmethod
    def sample(self, n_units: int, rng: np.random.Generator) -> Any:
        """Return at most so many rows, of each class its share, or so many anchors."""

    @abstractmethod
    def can_be_split(self) -> bool:
        """Return whether enough is known to hold some of it out."""

    @abstractmethod
    def splits(
        self, fraction: float, rng: np.random.Generator
    ) -> Iterator[tuple[Any, Any]]:
        """Yield what is learned from and what is held out, for each turn of a split."""

    @abstractmethod
    def can_teach(self) -> bool:
        """Return whether comparisons can be made of it, as far as is known beforehand."""

    @abstractmethod
    def can_judge(self) -> bool:
        """Return whether a label or a comparison of it has a positive weight."""

    @abstractmethod
    def judge(self, train: Any, rng: np.random.Generator) -> Judge:
        """Return how a similarity is judged by these held-out data, for the rows of `train`."""

    @abstractmethod
    def search(self, everything: Any, rng: np.random.Generator) -> SearchJudge | None:
        """Return what searches for these held-out data among all rows that are known.

        None where the judge says enough. `everything` is what these are a part of.
        """

    @abstractmethod
    def check_validation(self, X: sp.csr_array, y_val: Any) -> Supervision:
        """Return rows with labels like these, checked; raise ValueError if they differ."""

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the labels or comparisons and their weights."""
