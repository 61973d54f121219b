"""A warning where rounding hides what a run achieves."""

import math

from ..input.errors import warn
from ..solver.loop import Result

#: Rounding that moves the objective by this share of it is visible.
VISIBLE_DRIFT = 1e-6


def warn_of_rounding(result: Result) -> None:
    """Warn where the model has another objective than the steps that led to it say."""
    is_close = math.isclose(
        result.objective_by_steps,
        result.objective,
        rel_tol=VISIBLE_DRIFT,
        abs_tol=1e-12,
    )
    if is_close or result.status == "interrupted":
        return
    warn(
        f"Rounding hides the objective: {result.objective_by_steps:.9g} by the steps, "
        f"{result.objective:.9g} by the model they led to. The values of X differ too "
        "much in size for the scale: give rows of like length "
        "(sklearn.preprocessing.normalize) or a smaller scale."
    )
