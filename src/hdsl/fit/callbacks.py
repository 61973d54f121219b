"""Several callbacks as one."""

from __future__ import annotations

from collections.abc import Callable

from ..solver.loop import (
    Callback,
    State,
)


def all_of(*listeners: Callable[[State], bool | None] | None) -> Callback | None:
    """Return one callback for several; all are called, also when one ends the run."""
    parts = [part for part in listeners if part is not None]

    def call(state: State) -> bool:
        ends = [part(state) for part in parts]
        return any(ends)

    return call if parts else None
