"""Early stopping on held-out rows: they choose the length of a fit to all rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .callbacks import Tasks
from .cuda.runtime import BrokenDeviceError
from .files.checkpoint import Checkpoint
from .fitting import Learned
from .monitor import Monitor, Score
from .progress import Progress
from .solver.snapshot import Arrays, check_arrays, part_of
from .supervision import Supervision

if TYPE_CHECKING:
    from .cpu.workers import Workers


class Part(Protocol):
    """A fit, on one machine or on several."""

    model: Any
    supervision: Supervision
    checkpoint: Checkpoint | None
    found: Arrays | None
    limit: int
    saved_too: dict[str, Arrays]

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Learn."""

    def score(self) -> Score:
        """Return what models are scored by."""


class Refit:
    """A fit to a part of the rows that chooses the length of a fit to all rows.

    Parameters
    ----------
    choosing : Part
        Has validation data.
    whole : Part
        The same model, with all rows; it begins where `choosing` begins.
    """

    n_runs = 2

    def __init__(self, choosing: Part, whole: Part) -> None:
        self.choosing, self.whole = choosing, whole
        self.model, self.supervision = whole.model, whole.supervision

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Choose the length, then learn from all rows.

        A choice that an interrupt or a callback ends is not followed by a refit. An interrupt of
        the refit leaves the refit so far; before its first iteration, and where there is no memory
        for it, it leaves the chosen model of the first run.
        """
        found, chosen = self.whole.found, None
        if found is None or "refit.n_iter" not in found:
            chosen = self.choosing.run(workers, progress, tasks)
            scores = chosen.scores
            assert scores is not None
            stopped = chosen.result.status == "callback" and not scores.gave_up
            if stopped or chosen.result.status == "interrupted":
                return chosen
            self.whole.found = None
        else:
            scores = self.scores_from(found)
        self.whole.limit = scores.chosen_n_iter
        self.whole.saved_too = {
            "scores": scores.snapshot(),
            "refit": {"n_iter": np.array(self.whole.limit), "gave_up": np.array(scores.gave_up)},
        }
        try:
            learned = self.whole.run(workers, progress, tasks)
        except KeyboardInterrupt:
            if chosen is None:  # the checkpoint has no model of the first run
                raise
            result = replace(chosen.result, status="interrupted")
            return chosen._replace(result=result)
        except (MemoryError, BrokenDeviceError) as error:
            if chosen is None:
                raise
            warnings.warn(
                f"The refit on all rows was given up: {error} The model has not learned from the "
                "rows held out.",
                UserWarning,
                stacklevel=5,
            )
            return chosen
        return learned._replace(scores=scores, is_refit=True)

    def scores_from(self, found: Arrays) -> Monitor:
        """Return the scores that chose the length, from the checkpoint of a refit."""
        checkpoint = self.whole.checkpoint
        assert checkpoint is not None
        n_features = self.supervision.X.shape[1]
        scores = Monitor(self.choosing.score(), np.nan, np.nan, n_features)
        with checkpoint.explain_damage():
            part = part_of(found, "refit")
            check_arrays(part, {"n_iter": (np.int64, ()), "gave_up": (np.bool_, ())})
            scores.restore(part_of(found, "scores"))
            scores.gave_up = bool(part["gave_up"])
            n_iter = scores.chosen_n_iter
            if not scores.scores or not part["n_iter"] == n_iter <= self.choosing.limit:
                raise ValueError("the scores do not choose the length of the refit.")
        return scores
