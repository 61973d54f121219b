"""Comparisons from labels: target neighbours and impostors, random ones, or a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import checks
from . import triplets as triplets_module
from .solver.protocols import Similarity
from .supervision import Supervision
from .triplets.classes import Anchors, ClassRows, class_comparisons, class_factors

if TYPE_CHECKING:
    from .hdsl import HDSL

METHODS = ("neighbors", "random")

CENTERS = ("rows", "classes")

#: Rows (anchor, positive, negative) or (a, b, c, d), and one weight for each or None.
Compared = tuple[np.ndarray, np.ndarray | None]


class Mining(NamedTuple):
    """How triplets are made from labels; the parameters of ``HDSL`` by these names."""

    method: str | Callable[..., np.ndarray]
    n_targets: int
    n_impostors: int
    n_jobs: int | None = None
    device: str = "cpu"
    memory_limit: float | str | None = "auto"

    @classmethod
    def of(cls, model: HDSL) -> Mining:
        """Return how a model makes triplets."""
        return cls(
            model.mining, model.n_targets, model.n_impostors, model.n_jobs, model.device,
            model.memory_limit,
        )  # fmt: skip

    def __call__(
        self,
        supervision: Supervision,
        rng: np.random.Generator,
        similarity: Similarity | None = None,
    ) -> Compared:
        """Return comparisons, given or made from labels, and their weights.

        With a `similarity` neighbours are mined under it, else by dot product. Rows that stand for
        classes are numbered as in the `rows` of the supervision, from n_rows on. Its landmarks must
        be drawn.
        """
        if supervision.compared is not None and similarity is None:
            return supervision.compared, supervision.compared_weights
        if supervision.landmarks is not None:
            return with_landmarks(supervision, self.n_jobs, self.device)
        made, weights = self.among_rows(supervision, rng, similarity)
        if supervision.class_centers is None or similarity is not None:
            return made, weights
        return with_centers(supervision, made, weights, self.n_jobs, self.device)

    def among_rows(
        self,
        supervision: Supervision,
        rng: np.random.Generator,
        similarity: Similarity | None = None,
    ) -> Compared:
        """Return comparisons of rows by their labels, and their weights."""
        X, y, weights = supervision.X, supervision.y, supervision.weights
        if callable(self.method):
            made = checks.check_triplets(self.method(X, y, rng), X.shape[0])
            return made, _of_anchors(weights, made)
        if self.method == "random":
            rows = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
            seed = int(rng.integers(2**31 - 1))
            n_per_row = self.n_targets * self.n_impostors
            made = rows[triplets_module.random_triplets(y[rows], n_per_row, random_state=seed)]
            return made, _of_anchors(weights, made)
        # Equal rows are one point that counts several times: as neighbours of each other they
        # would crowd out the others and say nothing.
        codes = supervision.codes
        rows, weight = triplets_module.distinct_rows(X, codes, weights)
        _check_not_all_equal(codes if weights is None else codes[weights > 0], codes[rows])
        made = triplets_module.neighbor_triplets(
            X[rows], y[rows], self.n_targets, self.n_impostors,
            similarity=similarity, n_jobs=self.n_jobs, device=self.device,
            memory_limit=self.memory_limit,
        )  # fmt: skip
        weight = weight[made[:, 0]]
        return rows[made], None if (weight == weight[0]).all() else weight


def _check_not_all_equal(codes: np.ndarray, distinct: np.ndarray) -> None:
    """Raise ValueError if no class has two rows that differ, although some have two rows."""
    if len(codes) > len(distinct) and np.bincount(distinct).max() == 1:
        raise ValueError(
            "No triplet can be built: the rows of each class are equal, at unit length with "
            "norm='l2', so no row has another one of its class to compare with. Pass triplets= to "
            "give judgements directly."
        )


def _of_anchors(weights: Any, triplets: np.ndarray) -> np.ndarray | None:
    """Return the weights of the triplets' anchors, which must not all be zero."""
    if weights is None:
        return None
    weights = weights[triplets[:, 0]]
    if not weights.any():
        raise ValueError(
            "All triplets have an anchor of weight 0: give a positive sample_weight to some row "
            "that has a neighbour of its own class."
        )
    return weights


def with_centers(
    supervision: Supervision,
    made: np.ndarray,
    weights: np.ndarray | None,
    n_jobs: int | None,
    device: str = "cpu",
) -> Compared:
    """Return the comparisons, and those of their anchors with the centers of classes.

    A row is compared with the center of its class and the nearest centers of others. These
    comparisons weigh as much in sum as those of rows: per anchor, or over all anchors with the same
    sum for each class.
    """
    n_rows, codes = supervision.X.shape[0], supervision.codes
    weights = np.ones(len(made)) if weights is None else weights
    total = np.bincount(made[:, 0], weights, minlength=n_rows)
    anchors = np.flatnonzero(total)
    own, centers = codes[anchors], supervision.centers
    more, place, share = class_comparisons(
        supervision.X[anchors],
        Anchors(anchors, own, own),
        ClassRows(centers, np.arange(centers.shape[0]), n_rows),
        n_jobs=n_jobs,
        device=device,
    )
    share = share * total[anchors]
    if supervision.class_centers == "classes":
        share *= class_factors(total, codes)[own]
    return np.concatenate([made, more]), np.concatenate([weights, share[place]])


def with_landmarks(supervision: Supervision, n_jobs: int | None, device: str = "cpu") -> Compared:
    """Return comparisons of rows with the mean landmarks of their class and of the nearest others.

    The comparisons of a row weigh as much in sum as the row. A row whose class has no landmark but
    itself is left out.
    """
    weights, means = supervision.weights, supervision.means
    anchors = means.anchors(weights)
    made, place, share = class_comparisons(
        supervision.X[anchors],
        Anchors(anchors, supervision.codes[anchors], means.own[anchors]),
        ClassRows(means.rows[: len(means.whole)], means.whole, supervision.X.shape[0]),
        n_jobs=n_jobs,
        device=device,
    )
    check_landmarks_suffice(len(made), supervision)
    share = share if weights is None else share * weights[anchors]
    of = share[place]
    return made, None if (of == of[0]).all() else of


def check_landmarks_suffice(n_compared: int, supervision: Supervision) -> None:
    """Raise ValueError where landmarks make no comparison."""
    if not n_compared:
        n_classes = len(np.unique(supervision.codes[supervision.landmarks]))
        raise ValueError(
            "No comparison can be made: landmarks of two classes are needed, and a row with a "
            "landmark of its class other than itself. Got "
            f"n_landmarks={int(supervision.landmarks.sum())} of n_classes={n_classes}."
        )


def joined(compared: Compared, more: Compared) -> Compared:
    """Return the comparisons, and those of `more` that are not among them."""
    (first, weights), (others, other_weights) = compared, more
    both = np.concatenate([first, others])
    _, position = np.unique(both, axis=0, return_index=True)
    new = np.sort(position[position >= len(first)])
    if weights is not None or other_weights is not None:
        old = np.ones(len(first)) if weights is None else weights
        own = np.ones(len(others)) if other_weights is None else other_weights
        weights = np.concatenate([old, own[new - len(first)]])
    return np.concatenate([first, both[new]]), weights
