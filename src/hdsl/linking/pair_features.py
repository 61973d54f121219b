"""What the classifiers see of a pair: one row of numbers."""

from typing import NamedTuple

import numpy as np

from .nearest import Standing


class PairFeatures(NamedTuple):
    """Where pairs stand by three similarities, and what their records have in common.

    `learned` is by the learned similarity, or by the cosine where that is used;
    `spelling` by the cosine of the n-grams alone. `words` is the log odds by a linear
    model of words.
    """

    learned: Standing
    cosine: Standing
    spelling: Standing
    overlap: np.ndarray
    strings: np.ndarray
    words: np.ndarray

    @staticmethod
    def standing_names() -> list[tuple[str, list[str]]]:
        """Return the similarities by which pairs stand, and what is known of each."""
        subjects = ("similarity, as learned", "similarity, by cosine", "spelling")
        return [(subject, [*Standing._fields]) for subject in subjects]

    def matrix(self) -> np.ndarray:
        """Return one row per pair."""
        return np.column_stack(
            [
                *self.learned,
                *self.cosine,
                *self.spelling,
                self.overlap,
                self.strings,
                self.words,
            ]
        )
