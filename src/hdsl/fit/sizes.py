"""The numbers that a run goes by: scale, prior and number of iterations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..choose.candidates import FIXED_STEPS, Choice
from ..files.digests import digest
from ..input.matrices import (
    check_margins,
)
from ..model_arrays import choice_from
from ..solver.loop import (
    Arrays,
)
from ..solver.protocols import Statistics
from ..supervision.supervision import Supervision

if TYPE_CHECKING:
    from .road import LaidOutRun


#: scale="auto" makes the learned part this many times as large as the typical margin,
#: for one anchor. It grows with the root of the number of anchors, as the excess risk
#: grows with scale / sqrt(rows), and with the number of values that a row rests on
#: where these are many, as they share the margin of the dot product.
SCALE_MARGIN = 9.0

SCALE_VALUES = 80.0

#: min_rows="auto" is this power of the number of rows.
MIN_ROWS_POWER = 0.125


def automatic_scale(statistics: Statistics) -> float:
    """Return the scale that suits the data."""
    share = max(1.0, statistics.values_per_anchor / SCALE_VALUES)
    return (
        SCALE_MARGIN
        * math.sqrt(statistics.n_anchors)
        * share
        / statistics.typical_margin
    )


def own_similarity(statistics: Statistics) -> float:
    """Return the mean ‖x‖² of the anchors, which automatic priors are divided by."""
    return statistics.own_similarity if statistics.own_similarity > 0 else 1.0


def least_rows(model: Any, n_rows: int) -> int:
    """Return the number of rows that a feature must have to be paired."""
    if model.min_rows != "auto":
        return int(model.min_rows)
    return max(1, round(n_rows**MIN_ROWS_POWER))


def n_iterations(model: Any) -> int:
    """Return the number of iterations where nothing is chosen."""
    return FIXED_STEPS if model.max_iter == "auto" else int(model.max_iter)


class Settings(NamedTuple):
    """The numbers that a run goes by."""

    scale: float
    prior: float
    max_iter: int

    @classmethod
    def chosen(
        cls, model: Any, statistics: Statistics, choice: Choice | None
    ) -> tuple[Settings, Arrays | None]:
        """Return the numbers as given, automatic or chosen, and what was tried."""
        scale = (
            automatic_scale(statistics) if model.scale == "auto" else float(model.scale)
        )
        if choice is None:
            return cls(scale, float(model.prior), n_iterations(model)), None
        unit = own_similarity(statistics) if model.prior == "auto" else 1.0
        table = choice.table
        if table is not None:
            table = {**table, "prior": table["prior"] / unit}
        return cls(scale, choice.prior / unit, choice.n_iter), table

    def as_array(self, data: Supervision) -> np.ndarray:
        """Return the numbers, and a fingerprint of the comparisons that they go with."""
        sha = digest(data.compared, data.compared_weights)["sha256"]
        return np.array([*self, int(sha[:12], 16)], dtype=np.float64)

    @classmethod
    def restored(cls, arrays: Arrays, data: Supervision) -> Settings:
        """Return the numbers of a checkpoint; raise ValueError where no run has them."""
        size = arrays["size"]
        if (
            size.shape != (4,)
            or not (np.isfinite(size) & (size >= 0)).all()
            or size[0] == 0
        ):
            raise ValueError("scale and prior are not numbers that a run can have.")
        scale, prior, max_iter, _ = size.tolist()
        found = cls(scale, prior, int(max_iter))
        if found.as_array(data)[3] != size[3]:
            raise ValueError("`mining` gave other triplets than when the run began.")
        return found


def settings_of_run(
    model: Any, run: Any, laid_out: LaidOutRun
) -> tuple[Settings, Arrays | None]:
    """Return the numbers that a run goes by, checked with its rows, and what was tried.

    They are those of the path that it continues, those of its checkpoint, or new ones.
    """
    earlier = run.earlier
    checkpoint = run.checkpoint
    (layout, choice, data, X) = laid_out
    table: Arrays | None
    if earlier is None and checkpoint is not None and checkpoint.arrays is not None:
        with checkpoint.explain_damage():
            size = Settings.restored(checkpoint.arrays, data)
            check_margins(X, size.scale, size.prior)
            return size, choice_from(checkpoint.arrays)
    if earlier is not None:
        size = Settings(
            model.scale_, model.prior_, earlier.n_iter + n_iterations(model)
        )
        table = getattr(model, "choice_", None)
    else:
        size, table = Settings.chosen(model, layout.statistics(), choice)
    check_margins(X, size.scale, size.prior)
    return size, table
