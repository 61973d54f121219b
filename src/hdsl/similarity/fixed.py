"""A fixed part of a similarity: weight · ⟨x, y⟩ over a block of columns, not learned."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..rows import Rows, unit_rows

#: What explanations call an embedding.
EMBEDDING = "embedding"

#: Stands for the number of a feature where a part belongs to a block as a whole.
NO_FEATURE = -1


@dataclass(frozen=True)
class FixedPart:
    """A part of S that is not learned: weight · ⟨x, y⟩ over a block of columns.

    The first part of every model is the plain dot product of the rows, "prior".

    Parameters
    ----------
    name : str
        What explanations call it.
    weight : float
        At least 0.
    norm : {"l2", None}, default=None
        "l2" compares the block of each row at unit length.
    length_columns : ndarray, default=None
        Columns of the block that count in the length of a row, sorted and counted from
        the first of the block; None is all.
    start, stop : int, default=0 and None
        The first column of the block, and the one after its last; None is the end.
    by_feature : bool, default=True
        Whether an explanation has one number per feature, or one for the whole block,
        which then is dense and follows the other blocks.

    Examples
    --------
    >>> part = FixedPart("prior", 2.0, norm="l2")
    >>> part.rows(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """

    name: str
    weight: float
    norm: str | None = None
    length_columns: np.ndarray | None = None
    start: int = 0
    stop: int | None = None
    by_feature: bool = True

    @property
    def is_dense(self) -> bool:
        """Whether the block is dense: an embedding, whose columns have no meaning each."""
        return not self.by_feature

    def stop_in(self, n_features: int) -> int:
        """Return the column after the last of the block, in rows of so many features."""
        if self.stop is None:
            return n_features
        return self.stop

    def block(self, X: Any) -> Any:
        """Return the columns of X that the part compares."""
        if isinstance(X, Rows):
            if self.is_dense:
                return X.dense
            return X.sparse
        if self.start == 0 and self.stop_in(X.shape[1]) == X.shape[1]:
            return X
        return X[:, self.start : self.stop]

    def rows(self, X: Any) -> Any:
        """Return the columns of the part as it compares them: with a norm at unit length."""
        block = self.block(X)
        if self.norm is None:
            return block
        return unit_rows(block, self.length_columns)

    def terms(
        self, features: np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return features and what each adds to weight · ⟨x, y⟩.

        Parameters
        ----------
        features : ndarray of shape (n_values,)
            Columns of the values of `x` and `y`, as the part compares them.
        x, y : ndarray of shape (n_values,)

        Returns
        -------
        features : ndarray of shape (n_terms,)
            A part that is explained as a whole has one term, of `NO_FEATURE`.
        values : ndarray of shape (n_terms,)
        """
        is_shared = (x != 0) & (y != 0) & (features >= self.start)
        if self.stop is not None:
            is_shared &= features < self.stop
        values = self.weight * (x * y)[is_shared]
        if self.by_feature:
            return features[is_shared], values
        return np.array([NO_FEATURE]), np.array([math.fsum(values)])


def cover_columns(fixed: tuple[FixedPart, ...], n_features: int) -> bool:
    """Return whether the blocks of fixed parts follow each other and cover all columns.

    Examples
    --------
    >>> cover_columns((FixedPart("prior", 1.0, stop=3), FixedPart("image", 1.0, start=3)), 5)
    True
    >>> cover_columns((FixedPart("prior", 1.0, stop=3),), 5)
    False
    """
    starts = [fixed_part.start for fixed_part in fixed]
    stops = [fixed_part.stop_in(n_features) for fixed_part in fixed]
    return [*starts, n_features] == [0, *stops]


def parts_of_rows(
    X: Any, prior: float, embedding_weight: float = 1.0
) -> tuple[FixedPart, ...]:
    """Return the fixed parts that compare rows as a fit has them: at unit length already.

    Parameters
    ----------
    X : csr_array or Rows
    prior : float
    embedding_weight : float, default=1.0
        1 where the embedding is multiplied by the root of its weight.
    """
    if not isinstance(X, Rows):
        return (FixedPart("prior", prior),)
    n_sparse = X.sparse.shape[1]
    return (
        FixedPart("prior", prior, stop=n_sparse),
        FixedPart(
            EMBEDDING, prior * embedding_weight, start=n_sparse, by_feature=False
        ),
    )
