"""Which data are held out: an order of their own, groups that stay together, and turns."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import Rows
from ..triplets.equal_rows import mixed

#: Values are told apart by so many binary digits: their last ones are rounding, which
#: the order of the columns moves.
VALUE_BITS = 30

#: Shares are rounded to fractions with at most this denominator, which are exact.
MOST_DENOMINATOR = 10**6


def orders_of_their_own(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an order of the rows, one of the columns, and a key per row, from the values alone.

    However the rows and the columns of X are ordered, ``X[rows][:, columns]`` is the same
    matrix, up to rows or columns that look alike. Keys of equal rows are equal.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns)
        The columns of a dense block keep their order.

    Examples
    --------
    >>> X = sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> Y = X[[1, 0]][:, [2, 0, 1]]
    >>> rows, columns, keys = orders_of_their_own(X)
    >>> other_rows, other_columns, _ = orders_of_their_own(Y)
    >>> (X[rows][:, columns] != Y[other_rows][:, other_columns]).nnz
    0
    """
    features = sp.csr_array(X.sparse if isinstance(X, Rows) else X)
    n_rows, n_columns = features.shape
    row_numbers = np.repeat(np.arange(n_rows), np.diff(features.indptr))
    column_numbers = features.indices
    values = mixed(_words(features.data))
    by_row = _sums(values, row_numbers, n_rows)
    by_column = _sums(mixed(values ^ by_row[row_numbers]), column_numbers, n_columns)
    keys = _sums(mixed(values ^ by_column[column_numbers]), row_numbers, n_rows)
    if isinstance(X, Rows) and X.dense.shape[1]:
        places = mixed(np.arange(1, X.dense.shape[1] + 1, dtype=np.uint64))
        keys = keys + mixed(_words(X.dense) ^ places).sum(axis=1, dtype=np.uint64)
    rows = np.argsort(mixed(keys), kind="stable")
    columns = np.argsort(by_column, kind="stable")
    return rows, columns, keys


def _words(values: np.ndarray) -> np.ndarray:
    """Return values as numbers of 64 bits, without the digits that are rounding."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    digits = np.rint(np.ldexp(fraction, VALUE_BITS)).astype(np.int64)
    # 0.5 with an exponent is 1.0 with the one before, to which rounding may lead.
    is_next = np.abs(digits) == 1 << VALUE_BITS
    digits = np.where(is_next, digits >> 1, digits)
    exponents = exponent.astype(np.int64) + is_next
    return ((exponents << 40) ^ digits).view(np.uint64)


def _sums(words: np.ndarray, numbers: np.ndarray, n: int) -> np.ndarray:
    """Return the sum of the words of each number, modulo 2**64: in any order the same."""
    sums = np.zeros(n, dtype=np.uint64)
    np.add.at(sums, numbers, words)
    return sums


def turns(
    units: np.ndarray,
    fraction: float,
    rng: np.random.Generator,
    classes: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yield a mask of what is held out in each turn, whole units of about an equal share.

    There are about as many turns as the share goes into 1: for a third and for a quarter
    each unit has one turn. Each class gives its share.

    Parameters
    ----------
    units : ndarray of int of shape (n,)
        Numbers of units from 0.
    fraction : float
        The share that is held out, between 0 and 1.
    rng : numpy.random.Generator
    classes : ndarray of int of shape (n,), default=None

    Examples
    --------
    >>> units = np.array([0, 0, 1, 2])
    >>> masks = [*turns(units, 1 / 3, np.random.default_rng(0))]
    >>> sum(mask.astype(int) for mask in masks).tolist()
    [1, 1, 1, 1]
    >>> all(mask[0] == mask[1] for mask in masks)
    True
    """
    n_units = int(units.max(initial=-1)) + 1
    class_of_unit = np.zeros(n_units, dtype=np.int64)
    if classes is not None:
        class_of_unit[units[::-1]] = classes[::-1]
    order = np.lexsort((rng.random(n_units), class_of_unit))
    positions = np.empty(n_units, dtype=np.int64)
    positions[order] = np.arange(n_units)  # consecutive along the classes
    share = Fraction(fraction).limit_denominator(MOST_DENOMINATOR)
    for turn in range(max(1, round(1.0 / fraction))):
        steps = (positions - turn) * share.numerator % share.denominator
        is_held_out = steps < share.numerator
        yield is_held_out[units]
