"""A fitted model as one HTML page: what was learned, its path, its pairs, why two items match.

The page holds the steps of the path, not its models: its script replays them, by the
rule of `solver.trace`. It loads nothing from outside. Names and texts come from the
user and may be anything, so they travel as JSON that cannot end its element, and are
shown as text only.
"""

from .content import More
from .page import check_path, page, write

__all__ = [
    "More",
    "check_path",
    "page",
    "write",
]
