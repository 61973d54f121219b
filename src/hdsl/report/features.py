"""The features that a page names."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..explain.tables import as_names
from ..similarity.fixed import EMBEDDING
from .packing import cut

#: Characters of the name of a feature, a class, or a row.
MAX_NAME = 100


class PageFeatures:
    """The features of a page: those of atoms in rising order, then those of its rows alone.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
    row_features : ndarray of shape (n_values,)
        The features of all values of the rows of the page.
    name_of : callable
        The name of a feature by its number.

    Attributes
    ----------
    paired : ndarray of shape (n_paired,)
        Numbers of the features of atoms.
    ends : ndarray of shape (n_atoms, 2)
        The positions of the features of each atom.
    numbers : ndarray of shape (n_features,)
    names : list of str
    """

    def __init__(
        self,
        atoms: np.ndarray,
        row_features: np.ndarray,
        name_of: Callable[[int], str],
    ) -> None:
        self.paired = np.unique(atoms[:, :2])
        self.ends = np.searchsorted(self.paired, atoms[:, :2])
        others = np.setdiff1d(row_features, self.paired)
        self.numbers = np.concatenate([self.paired, others])
        self.names = [name_of(feature) for feature in self.numbers.tolist()]
        self._order = np.argsort(self.numbers)

    def positions(self, features: np.ndarray) -> np.ndarray:
        """Return the position of each feature on the page, -1 where it is not there."""
        if not len(self.numbers):
            return np.full(len(features), -1)
        ranks = np.searchsorted(self.numbers, features, sorter=self._order)
        positions = self._order[ranks.clip(max=len(self.numbers) - 1)]
        return np.where(self.numbers[positions] == features, positions, -1)


def feature_namer(model: Any, feature_names: Any) -> Callable[[int], str]:
    """Return a function from the number of a feature to its name."""
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    n_features = model.n_features_in_
    n_paired = n_features - getattr(model, "embedding_width_", 0)
    names = as_names(feature_names, n_features, n_paired)

    def name_of(feature: int) -> str:
        """Return the name of a feature; the columns of an embedding share one."""
        if feature >= n_paired:
            return EMBEDDING
        return cut(names[feature], MAX_NAME)

    return name_of
