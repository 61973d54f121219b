"""Documents: rows and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import tables
from ..files.container import Arrays
from ..files.tables import get_array
from ..input.comparisons import check_comparisons, check_weights
from ..input.matrices import canonical

#: The part of a row: learned from, or held out to measure by.
TRAIN = 0

TEST = 1


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows and what is known of them; each part may be missing.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
        Without class scores.
    labels, texts, ids : ndarray of shape (n_rows,)
    part : ndarray of shape (n_rows,)
        TRAIN or TEST.
    idf : ndarray of shape (n_features,)
        For rows that were counts: `weigh_counts` made X with it.
    judgements : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets that were held out.
    judgement_weights : ndarray of shape (n,)
    facts : dict
        What was measured, and the names of the columns of a table.
    """

    X: Any = None
    labels: Any = None
    texts: Any = None
    ids: Any = None
    part: Any = None
    idf: Any = None
    judgements: Any = None
    judgement_weights: Any = None
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("labels", "texts", "ids"):
            if isinstance(given := getattr(self, name), list | tuple):
                kind = (
                    object if all(isinstance(value, str) for value in given) else None
                )
                object.__setattr__(self, name, np.array(given, dtype=kind))
        if self.X is None:
            return
        object.__setattr__(self, "X", sp.csr_array(self.X))
        for name in ("labels", "texts", "ids", "part"):
            if (given := getattr(self, name)) is not None and len(given) != self.n_rows:
                raise ValueError(
                    f"There are {len(given)} {name}, but X has {self.n_rows} rows."
                )

    @property
    def n_rows(self) -> int:
        """The number of documents."""
        return 0 if self.X is None else self.X.shape[0]

    @property
    def is_new(self) -> np.ndarray:
        """Which rows were held out."""
        return (
            np.zeros(self.n_rows, dtype=bool)
            if self.part is None
            else self.part == TEST
        )

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and what is no array."""
        arrays = {} if self.X is None else tables.csr_to_arrays(self.X, "X")
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and value.ndim == 1:
                arrays |= tables.pack_values(name, value)
            elif isinstance(value, np.ndarray):
                arrays[name] = value
        return arrays, self.facts

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, facts: dict[str, Any], n_features: int
    ) -> Documents:
        """Return what `to_arrays` was called on; raise ValueError if it is damaged."""
        there = {name.partition(".")[0] for name in arrays}
        found: dict[str, Any] = {"facts": facts}
        if "idf" in there:
            found["idf"] = get_array(arrays, "idf", "f", (n_features,))
        if "X" not in there:
            return cls(**found)
        found["X"] = canonical(tables.csr_from_arrays(arrays, "X", n_features))
        n_rows = found["X"].shape[0]
        for name in there & {"labels", "texts", "ids", "part"}:
            found[name] = tables.unpack_values(arrays, name, n_rows)
        if "texts" in there and found["texts"].dtype.kind != "O":
            raise ValueError("texts must be strings")
        if "judgements" in there:
            judged = get_array(arrays, "judgements", "i")
            found["judgements"] = check_comparisons(judged, n_rows)
            weights = arrays.get("judgement_weights")
            found["judgement_weights"] = check_weights(
                weights, len(judged), "judgement"
            )
        return cls(**found)
