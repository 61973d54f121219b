"""Rows, and labels or comparisons of them, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import triplets as triplets_module
from ..input.comparisons import check_comparisons, check_weights
from ..input.labels import check_classes, check_labels, check_same_labels
from ..input.matrices import check_matrix
from ..labels import LabelSets, label_sets


@dataclass(frozen=True)
class Supervision:
    """Rows, and labels or comparisons of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
        As they are compared: at unit length where the model says so.
    y : ndarray of shape (n_rows,), LabelSets or None
        One label per row, or several.
    weights : ndarray of shape (n_rows,) or None
        Weights of labelled rows.
    compared : ndarray of shape (n, 3) or (n, 4), or None
        Triplets or quadruplets, given or made from the labels.
    compared_weights : ndarray of shape (n,) or None
    rows : ndarray of shape (n_rows,) or None
        The numbers of labelled rows that are a part of others.
    """

    X: sp.csr_array
    y: Any = None
    weights: Any = None
    compared: Any = None
    compared_weights: Any = None
    rows: Any = None

    @property
    def is_judged(self) -> bool:
        """Whether there are judgements only, no labels."""
        return self.y is None

    @property
    def codes(self) -> np.ndarray:
        """Class numbers of the labels; rows with the same ones of several are a class."""
        if isinstance(self.y, LabelSets):
            return self.y.codes
        return np.unique(self.y, return_inverse=True)[1]

    @property
    def anchors(self) -> np.ndarray:
        """The rows that comparisons start from, sorted."""
        return np.flatnonzero(
            np.bincount(self.compared[:, 0], minlength=self.X.shape[0])
        )

    @classmethod
    def check(
        cls,
        owner: str,
        X: sp.csr_array,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
    ) -> Supervision:
        """Return what was given to ``fit``, checked; X is checked already."""
        n_rows = X.shape[0]
        if triplets is not None and quadruplets is not None:
            raise ValueError(
                "fit takes triplets or quadruplets, but got both. A triplet (a, p, q) "
                "is the quadruplet (a, p, a, q): pass all judgements as quadruplets."
            )
        if triplets is not None or quadruplets is not None:
            kind, width = ("triplet", 3) if quadruplets is None else ("quadruplet", 4)
            given = triplets if quadruplets is None else quadruplets
            compared = check_comparisons(given, n_rows, f"{kind}s", width)
            weights = check_weights(sample_weight, len(compared), kind)
            return cls(X, compared=compared, compared_weights=weights)
        if y is None:
            raise ValueError(
                f"{owner} requires y to be passed, but the target y is None. Give "
                "labels, fit(X, y), or judgements, fit(X, triplets=T) or fit(X, "
                "quadruplets=Q)."
            )
        weights = check_weights(sample_weight, n_rows, "row of X")
        if (sets := label_sets(y)) is not None:
            return cls(X, sets.check(X).check_differ(), weights)
        check_labels(y, n_rows)
        return cls(X, np.asarray(y).ravel(), weights)

    def check_validation(
        self, owner: Any, X_val: Any, y_val: Any, triplets_val: Any
    ) -> Supervision | None:
        """Return validation data, checked, with the same features; None where none are given."""
        given = {"X_val": X_val, "y_val": y_val, "triplets_val": triplets_val}
        came = [name for name, value in given.items() if value is not None]
        if not came:
            return None
        if X_val is None or (y_val is None) == (triplets_val is None):
            raise ValueError(
                "Validation data are X_val with y_val, or X_val with triplets_val. Got "
                f"{' and '.join(came)}."
            )
        X = sp.csr_array(check_matrix(owner, X_val, reset=False, name="X_val"))
        X = X.astype(np.float64, copy=False)
        if triplets_val is not None:
            compared = check_comparisons(triplets_val, X.shape[0], "triplets_val")
            return Supervision(X, compared=compared)
        if self.is_judged:
            raise ValueError(
                "y_val needs labels of X to vote with, but fit was given judgements. "
                "Pass triplets_val=, judgements of the rows of X_val."
            )
        sets = label_sets(y_val)
        several = isinstance(self.y, LabelSets)
        is_plain = sets is None or (
            not several and (sets.size == 1).all()
        )  # a column of labels
        if several == is_plain:
            raise ValueError(
                "y and y_val must both have one label per row, or both several."
            )
        if sets is not None and several:
            return Supervision(X, sets.check(X, "_val"))
        y = check_classes("fit", np.ravel(y_val), X.shape[0], "_val")
        check_same_labels(y, self.y, "y_val")
        return Supervision(X, y)

    def take(self, rows: np.ndarray) -> Supervision:
        """Return the rows with their labels, or with the comparisons that lie inside them."""
        if not self.is_judged:
            weights = None if self.weights is None else self.weights[rows]
            numbers = rows if self.rows is None else self.rows[rows]
            return Supervision(self.X[rows], self.y[rows], weights, rows=numbers)
        part = self.with_compared(np.asarray(np.isin(self.compared, rows).all(axis=1)))
        compared = triplets_module.restrict(part.compared, rows, self.X.shape[0])
        return replace(part, X=self.X[rows], compared=compared)

    def with_compared(self, chosen: np.ndarray) -> Supervision:
        """Return the same rows with some of the comparisons."""
        weights = (
            None if self.compared_weights is None else self.compared_weights[chosen]
        )
        return replace(self, compared=self.compared[chosen], compared_weights=weights)

    def counts(self) -> bool:
        """Return whether there is a row with a label, or a comparison, of positive weight."""
        weights = self.compared_weights if self.is_judged else self.weights
        n = len(self.compared if self.is_judged else self.y)
        return bool(n if weights is None else weights.any())
