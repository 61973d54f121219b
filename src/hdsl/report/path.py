"""The path of a fit as the script of a page replays it: atoms, steps and corrections."""

from typing import Any, NamedTuple

import numpy as np

from ..solver.atoms import ZERO, are_directions
from ..solver.trace import NO_ATOM


class Path(NamedTuple):
    """The steps of a path, which name atoms by their numbers.

    Directions of an embedding follow the atoms of pairs. The zero atom has the number
    n_atoms + n_directions, and -1 is none.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Of pairs, all different.
    directions : ndarray of shape (n_directions,)
        Numbers of directions, all different.
    steps : dict of str to ndarray of shape (n_iterations,)
        toward, away, size, drop.
    corrections : dict of str to ndarray of shape (n_corrections,)
        n_iter, atom, weight.
    """

    atoms: np.ndarray
    directions: np.ndarray
    steps: dict[str, np.ndarray]
    corrections: dict[str, np.ndarray]


def path_of(model: Any) -> Path:
    """Return the path of a fitted model."""
    trace = model.trace_
    corrections = model.corrections_
    size = trace["step_size"].copy()
    size[0] = 1.0
    size[corrections["n_iter"]] = 0.0  # corrections say it all
    toward = _atoms_in(trace, ("i", "j", "sign"))
    away = _atoms_in(trace, ("away_i", "away_j", "away_sign"))
    # A step of size 0 names atoms that it does not change.
    is_move = size > 0
    toward[~is_move] = NO_ATOM
    away[~is_move] = NO_ATOM
    corrected = _atoms_in(corrections, ("i", "j", "sign"))
    named = np.concatenate([toward, away, corrected])
    atoms, directions, numbers = _numbered(named)
    n = len(trace)
    return Path(
        atoms=atoms,
        directions=directions,
        steps={
            "toward": numbers[:n],
            "away": numbers[n : 2 * n],
            "size": size,
            "drop": trace["drop"].astype(np.int64),
        },
        corrections={
            "n_iter": corrections["n_iter"],
            "atom": numbers[2 * n :],
            "weight": corrections["weight"],
        },
    )


def _atoms_in(table: np.ndarray, columns: tuple[str, str, str]) -> np.ndarray:
    """Return the atoms in three columns of a table, shape (n_rows, 3)."""
    return np.column_stack([table[name] for name in columns]).astype(np.int64)


def _numbered(atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct atoms and directions, and the number of each, as `Path` has them."""
    is_pair = atoms[:, 0] >= 0
    is_direction = are_directions(atoms)
    distinct, pair_numbers = np.unique(atoms[is_pair], axis=0, return_inverse=True)
    directions, ranks = np.unique(atoms[is_direction, 1], return_inverse=True)
    is_zero = (atoms == ZERO).all(axis=1)
    numbers = np.where(is_zero, len(distinct) + len(directions), -1)
    numbers[is_pair] = pair_numbers.ravel()
    numbers[is_direction] = len(distinct) + ranks
    return distinct, directions, numbers
