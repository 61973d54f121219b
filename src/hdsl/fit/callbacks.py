"""Several callbacks as one."""

from __future__ import annotations

from collections.abc import Callable

from ..solver.loop import Callback, State


def all_of(*listeners: Callable[[State], bool | None] | None) -> Callback | None:
    """Return one callback for several; all are called, also when one ends the run."""
    callbacks = [listener for listener in listeners if listener is not None]
    if not callbacks:
        return None

    def call(state: State) -> bool:
        ends = [callback(state) for callback in callbacks]
        return any(ends)

    return call
