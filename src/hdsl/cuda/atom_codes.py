"""Atoms as single integers, which are found faster than tuples."""

from collections.abc import Sequence

import numpy as np


def atom_code(atom: Sequence[int], n_features: int) -> int:
    """Return the code of an atom (i, j, sign).

    Examples
    --------
    >>> atom_code((1, 2, -1), n_features=10), atom_code((1, 2, 1), n_features=10)
    (24, 25)
    """
    i, j, sign = atom
    return int(2 * (i * n_features + j) + (sign > 0))


def atom_codes(atoms: np.ndarray, n_features: int) -> list[int]:
    """Return the code of each row (i, j, sign)."""
    i, j, sign = atoms.T
    return (2 * (i * n_features + j) + (sign > 0)).tolist()


def atom_of_code(code: int, n_features: int) -> tuple[int, int, int]:
    """Return the atom of a code.

    Examples
    --------
    >>> atom_of_code(24, n_features=10)
    (1, 2, -1)
    """
    i, j = divmod(code >> 1, n_features)
    sign = 2 * (code & 1) - 1
    return i, j, sign
