"""The comparisons of a fit on a cluster: given, or made from labels as on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..mining import check_landmarks_suffice
from ..supervision import Supervision
from ..triplets import random_triplets
from ..triplets.classes import ClassRows, class_factors
from . import classes, mapping
from .blocks import Blocks
from .mining import neighbor_blocks, only_new, with_weights
from .sources import Joined, Source

if TYPE_CHECKING:
    from ..similarity import Similarity
    from .estimator import HDSL

#: Comparisons of the client that are sent in one piece.
PIECE = 1 << 20


class Comparisons:
    """Blocks of comparisons, and the rows that they name.

    Parameters
    ----------
    model : HDSL
        Holds the parameters.
    of : Supervision
        Its X is on the cluster; landmarks are drawn.
    given : Source or None
        Judgements; None where there are labels.
    rng : numpy.random.Generator

    Attributes
    ----------
    rows : Blocks
        Those of X, and after them those that stand for classes.
    """

    def __init__(
        self, model: HDSL, of: Supervision, given: Source | None, rng: np.random.Generator
    ) -> None:
        self._model, self._of = model, of
        self.rows: Blocks = of.X
        self._mined: list[Source] = []  # among neighbours, one more each time
        self._is_weighted = False
        if given is not None:
            self._first = given
        elif of.landmarks is not None:
            self._first = self._with_landmarks()
        else:
            self._first = self._among_rows(rng)
            if of.class_centers is not None:
                self._first = self._with_centers(self._first)

    @property
    def source(self) -> Source:
        """All comparisons."""
        if not self._mined[1:]:
            return self._first
        more = [self._weighted(part) for part in self._mined[1:]]
        return Joined(self._first, *more)

    def mine_again(self, similarity: Similarity) -> None:
        """Add triplets of neighbours under a similarity that are not there yet."""
        made = self._neighbors(similarity).futures()
        earlier = zip(*(part.futures() for part in self._mined), strict=True)
        client = self.rows.client
        new = [
            client.submit(only_new, block, *known, pure=False)
            for block, known in zip(made, earlier, strict=True)
        ]
        self._mined.append(Source(client, new))

    def _neighbors(self, similarity: Similarity | None = None) -> Source:
        of, model = self._of, self._model
        counts = (model.n_targets, model.n_impostors)
        return neighbor_blocks(of.X, of.y, of.weights, *counts, similarity)

    def _among_rows(self, rng: np.random.Generator) -> Source:
        of, model = self._of, self._model
        if model.mining == "neighbors":
            self._mined = [self._neighbors()]
            return self._mined[0]
        rows = np.arange(of.X.shape[0]) if of.weights is None else np.flatnonzero(of.weights)
        seed, n_per_row = int(rng.integers(2**31 - 1)), model.n_targets * model.n_impostors
        made = rows[random_triplets(of.y[rows], n_per_row, random_state=seed)]
        return pieces(of.X.client, made, None if of.weights is None else of.weights[made[:, 0]])

    def _weighted(self, part: Source) -> Source:
        """Return blocks with weights, where all others have some."""
        return Source(part.client, part, with_weights) if self._is_weighted else part

    # --- rows that stand for classes -------------------------------------------------------------

    def _with_centers(self, made: Source) -> Source:
        """Return comparisons of rows, and those of their anchors with the centers of classes."""
        of, rows, self._is_weighted = self._of, self.rows, True
        client, total = rows.client, np.zeros(rows.shape[0])
        asked = [client.submit(classes.anchor_totals, b, pure=False) for b in made.futures()]
        for anchors, sums in rows.results(asked):
            total[anchors] += sums
        if of.class_centers == "classes":
            total *= class_factors(total, of.codes)[of.codes]
        centers = classes.centers(rows, of)
        standing = ClassRows(centers, np.arange(centers.shape[0]), rows.shape[0])
        more = classes.class_blocks(rows, standing, of.codes, of.codes, total)
        self.rows = rows.followed_by(centers)
        return Joined(self._weighted(made), more)

    def _with_landmarks(self) -> Source:
        """Return comparisons of rows with the mean landmarks of their class and of others."""
        of, rows = self._of, self.rows
        means = classes.landmark_means(rows, of)
        total = np.zeros(rows.shape[0])
        anchors = means.anchors(of.weights)
        total[anchors] = 1.0 if of.weights is None else of.weights[anchors]
        standing = ClassRows(means.rows[: len(means.whole)], means.whole, rows.shape[0])
        made = classes.class_blocks(rows, standing, of.codes, means.own, total)
        client = rows.client
        asked = [client.submit(mapping.count_compared, b, pure=False) for b in made.futures()]
        check_landmarks_suffice(sum(rows.results(asked)), of)
        self.rows = rows.followed_by(means.rows)
        return made


def pieces(client: Any, compared: np.ndarray, weights: np.ndarray | None) -> Source:
    """Return comparisons of the client in blocks."""
    steps = range(0, len(compared), PIECE)
    return Source(
        client,
        [
            (compared[k : k + PIECE], None if weights is None else weights[k : k + PIECE])
            for k in steps
        ],
    )
