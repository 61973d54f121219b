"""What a fit or a command says while it works."""

from .bars import Progress
from .durations import duration

__all__ = ["Progress", "duration"]
