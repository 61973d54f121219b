"""What an experiment is computed with, and what it is computed of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")

#: What to compute: a small dict of names and numbers.
Cell = dict[str, Any]

#: A cell with its answer, as JSON holds them.
Line = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Where data come from and results go, and how much is computed.

    Parameters
    ----------
    out : Path
        Folder of the results.
    data : Path or None
        Folder of the real data sets, in the layout that `reproduce.datasets` reads.
    jobs : int
        Number of processes.
    quick : bool
        Whether to run a smaller version, of less than a minute per experiment.
    model : Path or None
        Folder of a sentence model; None is that of an installed package.
    sets : tuple of str
        Names of the sets to run, where an experiment asks for them; empty is all.
    """

    out: Path
    data: Path | None = None
    jobs: int = 2
    quick: bool = False
    model: Path | None = None
    sets: tuple[str, ...] = ()

    @property
    def size(self) -> str:
        """Return "quick" or "full"."""
        return self.by_size(full="full", quick="quick")

    def by_size(self, *, full: Value, quick: Value) -> Value:
        """Return the value for a run of this size."""
        if self.quick:
            return quick
        return full
