"""What a fit learns from: rows with labels, or rows with triplets; checked once, split by rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import triplets as triplets_module
from .. import user_input


@dataclass(frozen=True)
class Supervision:
    """Rows, and labels or triplets of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or None
        Labels.
    weights : ndarray of shape (n_rows,) or None
        Weights of labelled rows.
    triplets : ndarray of shape (n_triplets, 3) or None
        Given, or made from the labels already.
    triplet_weights : ndarray of shape (n_triplets,) or None
    """

    X: sp.csr_array
    y: Any = None
    weights: Any = None
    triplets: Any = None
    triplet_weights: Any = None

    @property
    def is_judged(self) -> bool:
        """Whether there are judgements only, no labels."""
        return self.y is None

    @property
    def codes(self) -> np.ndarray:
        """Class numbers of the labels."""
        _, codes = np.unique(self.y, return_inverse=True)
        return codes

    @classmethod
    def check(
        cls, owner: str, X: sp.csr_array, y: Any, triplets: Any, sample_weight: Any
    ) -> Supervision:
        """Return what was given to ``fit``, checked; X is checked already."""
        n_rows = X.shape[0]
        if triplets is not None:
            triplets = user_input.check_triplets(triplets, n_rows)
            weights = user_input.check_weights(sample_weight, len(triplets), "triplet")
            return cls(X, triplets=triplets, triplet_weights=weights)
        if y is None:
            raise ValueError(
                f"{owner} requires y to be passed, but the target y is None. Give labels, "
                "fit(X, y), or judgements, fit(X, triplets=T)."
            )
        user_input.check_labels(y, n_rows)
        weights = user_input.check_weights(sample_weight, n_rows, "row of X")
        return cls(X, np.asarray(y).ravel(), weights)

    def check_validation(
        self, owner: Any, X_val: Any, y_val: Any, triplets_val: Any
    ) -> Supervision:
        """Return validation data, checked: of the same kind and with the same features."""
        if X_val is None or (y_val is None) == (triplets_val is None):
            given = {"X_val": X_val, "y_val": y_val, "triplets_val": triplets_val}
            came = [name for name, value in given.items() if value is not None]
            raise ValueError(
                "Validation data are X_val with y_val, or X_val with triplets_val. Got "
                f"{' and '.join(came)}."
            )
        X_val = user_input.check_matrix(owner, X_val, reset=False, name="X_val")
        X = sp.csr_array(X_val).astype(np.float64)
        if triplets_val is not None:
            return Supervision(X, triplets=user_input.check_triplets(triplets_val, X.shape[0]))
        if self.is_judged:
            raise ValueError(
                "y_val needs labels of X to vote with, but fit was given triplets. Pass "
                "triplets_val=, judgements of the rows of X_val."
            )
        y = np.asarray(y_val).ravel()
        if len(y) != X.shape[0]:
            raise ValueError(
                f"y_val has {len(y)} labels, but X_val has {X.shape[0]} rows: one label a row is "
                "expected."
            )
        return Supervision(X, y)

    def hold_out(
        self, fraction: float, rng: np.random.Generator
    ) -> tuple[Supervision, Supervision]:
        """Return a part to train on and a part to validate on; no row trains and validates.

        With labels, a share of each class; a class of one row trains. With triplets a share of the
        rows is held out: triplets without such a row train, triplets with such an anchor validate
        (a new row is compared with any others, as in use), the rest are left out.
        """
        n = self.X.shape[0]
        if not self.is_judged:
            codes = self.codes
            rows = rng.permutation(n)
            sizes = np.bincount(codes)
            rows = rows[sizes[codes[rows]] > 1]
            if self.weights is not None:  # a row of weight 0 is not there
                rows = rows[self.weights[rows] > 0]
            rows = rows[np.argsort(codes[rows], kind="stable")]
            # Evenly along the classes one after the other: each gives its share.
            steps = np.floor((np.arange(len(rows) + 1) + rng.random()) * fraction)
            held = rows[np.diff(steps) > 0]
            if not len(held):
                held = rows[rng.integers(len(rows), size=1)] if len(rows) else rows
            _, first = np.unique(codes[held], return_index=True)
            whole = np.bincount(codes[held], minlength=len(sizes))[codes[held[first]]]
            held = np.delete(held, first[whole == sizes[codes[held[first]]]])  # one of each trains
            if not len(held):
                raise ValueError(
                    "No row can be held out: every class of y has one row only, or rows of weight "
                    "0. Pass X_val and y_val."
                )
            return self.take(np.setdiff1d(np.arange(n), held)), self.take(np.sort(held))
        held = np.zeros(n, dtype=bool)
        held[rng.permutation(n)[: max(1, round(fraction * n))]] = True
        sides = ~held[self.triplets].any(axis=1), held[self.triplets[:, 0]]
        train, valid = (self._with_triplets(side) for side in sides)
        if not (train.counts() and valid.counts()):
            raise ValueError(
                f"Holding out {held.sum()} of {n} rows leaves {len(train.triplets)} triplets to "
                f"train on and {len(valid.triplets)} to validate on, of which none may count. "
                "Change validation_fraction, or pass X_val and triplets_val."
            )
        return train, valid

    def take(self, rows: np.ndarray) -> Supervision:
        """Return the rows with their labels, or with the triplets that live inside them."""
        if not self.is_judged:
            weights = None if self.weights is None else self.weights[rows]
            return Supervision(self.X[rows], self.y[rows], weights)
        inside = np.asarray(np.isin(self.triplets, rows).all(axis=1))
        part = self._with_triplets(inside)
        triplets = triplets_module.restrict(part.triplets, rows, self.X.shape[0])
        return replace(part, X=self.X[rows], triplets=triplets)

    def _with_triplets(self, chosen: np.ndarray) -> Supervision:
        weights = None if self.triplet_weights is None else self.triplet_weights[chosen]
        return replace(self, triplets=self.triplets[chosen], triplet_weights=weights)

    def counts(self) -> bool:
        """Whether there is a row with a label, or a triplet, that weighs anything."""
        items, weights = (
            (self.triplets, self.triplet_weights) if self.is_judged else (self.y, self.weights)
        )
        return bool(len(items) if weights is None else weights.any())
