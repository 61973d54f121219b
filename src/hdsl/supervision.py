"""What a fit learns from: rows with labels or comparisons, checked once and split by rows."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import checks
from . import triplets as triplets_module
from .landmarks import LandmarkMeans, draw_landmarks
from .similarity import unit_rows
from .triplets.rows import row_keys

#: A choice by fewer held-out rows or comparisons is uncertain.
FEW_ROWS, FEW_COMPARISONS = 50, 200


@dataclass(frozen=True)
class Supervision:
    """Rows, and labels or comparisons of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or None
        Labels.
    weights : ndarray of shape (n_rows,) or None
        Weights of labelled rows.
    compared : ndarray of shape (n, 3) or (n, 4), or None
        Triplets or quadruplets, given or made from the labels.
    compared_weights : ndarray of shape (n,) or None
    class_centers : {"rows", "classes"} or None
        Whether comparisons may name the centers of classes too, as rows after those of X, and what
        these comparisons are weighted by.
    landmarks : "all", int, ndarray of bool of shape (n_rows,), or None
        Rows whose means stand for their classes: all or so many, both to be drawn, or those where
        it is True. None where rows are compared with rows.
    regions : ndarray of shape (n_rows,) or None
        The region of each row, where regions are given.
    """

    X: sp.csr_array
    y: Any = None
    weights: Any = None
    compared: Any = None
    compared_weights: Any = None
    class_centers: str | None = None
    landmarks: Any = None
    regions: Any = None

    @property
    def is_judged(self) -> bool:
        """Whether there are judgements only, no labels."""
        return self.y is None

    @property
    def codes(self) -> np.ndarray:
        """Class numbers of the labels."""
        _, codes = np.unique(self.y, return_inverse=True)
        return codes

    @cached_property
    def centers(self) -> sp.csr_array:
        """The mean row of each class, as long as its rows are in the mean; (n_classes, d)."""
        means = sp.csr_array(self.averages @ self.X)
        lengths = self.averages @ np.sqrt(self.X.multiply(self.X).sum(axis=1))
        return sp.csr_array(unit_rows(means).multiply(lengths[:, None]))

    @property
    def averages(self) -> sp.csr_array:
        """What gives the means of the classes when multiplied with the rows; (n_classes, n)."""
        codes = self.codes
        weights = np.ones(len(codes)) if self.weights is None else self.weights
        total = np.bincount(codes, weights)
        share = weights / np.where(total > 0, total, 1.0)[codes]
        return sp.csr_array((share, (codes, np.arange(len(codes)))))

    @cached_property
    def means(self) -> LandmarkMeans:
        """The means of the landmarks of each class; they must be drawn."""
        return self.means_from(row_keys(self.X), lambda average: average @ self.X)

    def means_from(
        self, keys: np.ndarray, times_rows: Callable[[sp.csr_array], sp.csr_array]
    ) -> LandmarkMeans:
        """Return the means of landmarks of rows that are elsewhere.

        `keys` are those of the rows, and `times_rows` multiplies a matrix with them.
        """
        average, whole, own = LandmarkMeans.plan(keys, self.codes, self.landmarks, self.weights)
        return LandmarkMeans(sp.csr_array(times_rows(average)), whole, own)

    @property
    def rows(self) -> sp.csr_array:
        """The rows that comparisons name: those of X, and after them those that stand for classes.

        These are the means of landmarks, or the centers of classes.
        """
        if self.is_judged or (self.class_centers is None and self.landmarks is None):
            return self.X
        more = self.centers if self.landmarks is None else self.means.rows
        return sp.vstack([self.X, more], format="csr")

    def draw(self, rng: np.random.Generator) -> Supervision:
        """Return the same with its landmarks drawn, if there are any to draw."""
        if self.landmarks is None or getattr(self.landmarks, "dtype", None) == np.bool_:
            return self
        drawn = draw_landmarks(self.landmarks, self.codes, self.weights, rng)
        return replace(self, landmarks=drawn)

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
        class_centers: str | None = None,
        landmarks: Any = None,
    ) -> Supervision:
        """Return what was given to ``fit``, checked; X is checked already."""
        n_rows = X.shape[0]
        judged = triplets is not None or quadruplets is not None
        if landmarks is not None and (judged or y is None):
            raise ValueError(
                f"{owner} with objective='classification' compares rows with the landmarks of "
                "classes: pass labels, fit(X, y), or set objective='triplets'."
            )
        if triplets is not None and quadruplets is not None:
            raise ValueError(
                "fit takes triplets or quadruplets, but got both. A triplet (a, p, q) is the "
                "quadruplet (a, p, a, q): pass all judgements as quadruplets."
            )
        if judged:
            kind = "triplet" if quadruplets is None else "quadruplet"
            if quadruplets is None:
                compared = checks.check_triplets(triplets, n_rows)
            else:
                compared = checks.check_quadruplets(quadruplets, n_rows)
            weights = checks.check_weights(sample_weight, len(compared), kind)
            return cls(X, compared=compared, compared_weights=weights)
        if y is None:
            raise ValueError(
                f"{owner} requires y to be passed, but the target y is None. Give labels, "
                "fit(X, y), or judgements, fit(X, triplets=T) or fit(X, quadruplets=Q)."
            )
        checks.check_labels(y, n_rows)
        weights = checks.check_weights(sample_weight, n_rows, "row of X")
        of = cls(X, np.asarray(y).ravel(), weights, class_centers=class_centers)
        if isinstance(landmarks, str | numbers.Integral | None):
            return replace(of, landmarks=landmarks)
        is_landmark = draw_landmarks(landmarks, of.codes, weights, np.random.default_rng(0))
        return replace(of, landmarks=is_landmark)  # given: nothing is drawn

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
        X_val = checks.check_matrix(owner, X_val, reset=False, name="X_val")
        X = sp.csr_array(X_val).astype(np.float64)
        if triplets_val is not None:
            compared = checks.check_comparisons(triplets_val, X.shape[0])
            return Supervision(X, compared=compared)
        if self.is_judged:
            raise ValueError(
                "y_val needs labels of X to vote with, but fit was given judgements. Pass "
                "triplets_val=, judgements of the rows of X_val."
            )
        y = np.asarray(y_val).ravel()
        checks.check_one_label_per_row(y, X.shape[0], "_val")
        return Supervision(X, y)

    def hold_out(
        self, fraction: float, rng: np.random.Generator
    ) -> tuple[Supervision, Supervision]:
        """Return a part to train on and a part to validate on; no row is in both.

        With labels, a share of each class; a class of one row trains. With judgements a share of
        the rows is held out: comparisons without such a row train. Triplets with a held-out anchor
        validate (a new row is compared with any others, as in use), and quadruplets with a
        held-out row in both pairs. The rest is left out.
        """
        hold_out = self._hold_out_judged if self.is_judged else self._hold_out_labelled
        train, held = hold_out(fraction, rng)
        n, enough = (
            (len(held.compared), FEW_COMPARISONS) if self.is_judged else (held.X.shape[0], FEW_ROWS)
        )
        if n < enough:
            what = "comparisons" if self.is_judged else "rows"
            warnings.warn(
                f"Early stopping holds out {n} {what}, fewer than {enough}: its choice of a model "
                "is uncertain. Pass X_val, choose by folds with HDSLCV, or use "
                "early_stopping=False.",
                UserWarning,
                stacklevel=4,
            )
        return train, held

    def _hold_out_labelled(
        self, fraction: float, rng: np.random.Generator
    ) -> tuple[Supervision, Supervision]:
        n, codes = self.X.shape[0], self.codes
        rows = rng.permutation(n)
        sizes = np.bincount(codes)
        rows = rows[sizes[codes[rows]] > 1]
        if self.weights is not None:  # a row of weight 0 counts as absent
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

    def _hold_out_judged(
        self, fraction: float, rng: np.random.Generator
    ) -> tuple[Supervision, Supervision]:
        n = self.X.shape[0]
        is_held = np.zeros(n, dtype=bool)
        is_held[rng.permutation(n)[: max(1, round(fraction * n))]] = True
        held = is_held[self.compared]
        if held.shape[1] == 3:
            validates = held[:, 0]
        else:
            validates = held[:, :2].any(axis=1) & held[:, 2:].any(axis=1)
        train, valid = (self._with_compared(part) for part in (~held.any(axis=1), validates))
        if not (train.counts() and valid.counts()):
            raise ValueError(
                f"Holding out {is_held.sum()} of {n} rows leaves {len(train.compared)} judgements "
                f"to train on and {len(valid.compared)} to validate on; at least one of positive "
                "weight is needed for each. Change validation_fraction, or pass X_val and "
                "triplets_val."
            )
        return train, valid

    def take(self, rows: np.ndarray) -> Supervision:
        """Return the rows with their labels, or with the comparisons that lie inside them."""
        if not self.is_judged:
            weights = None if self.weights is None else self.weights[rows]
            is_drawn = isinstance(self.landmarks, np.ndarray)
            return replace(
                Supervision(self.X[rows], self.y[rows], weights),
                class_centers=self.class_centers,
                landmarks=self.landmarks[rows] if is_drawn else self.landmarks,
                regions=None if self.regions is None else self.regions[rows],
            )
        inside = np.asarray(np.isin(self.compared, rows).all(axis=1))
        part = self._with_compared(inside)
        compared = triplets_module.restrict(part.compared, rows, self.X.shape[0])
        return replace(part, X=self.X[rows], compared=compared)

    def _with_compared(self, chosen: np.ndarray) -> Supervision:
        weights = None if self.compared_weights is None else self.compared_weights[chosen]
        return replace(self, compared=self.compared[chosen], compared_weights=weights)

    def counts(self) -> bool:
        """Return whether there is a row with a label, or a comparison, of positive weight."""
        items, weights = (
            (self.compared, self.compared_weights) if self.is_judged else (self.y, self.weights)
        )
        return bool(len(items) if weights is None else weights.any())
