"""Blocks on a cluster that can be had again after a worker was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def itself(value: Any) -> Any:
    """Return the value."""
    return value


@dataclass
class Source:
    """Blocks that can be had again after a worker was lost.

    Parameters
    ----------
    client : distributed.Client
    raw : list or Source
        Delayed objects, which are loaded when they are needed, futures, whose graph Dask knows, or
        objects of the client.
    prepare : callable, default=None
        From a raw block to the block; None takes it as it is.
    args : tuple
        More arguments of `prepare`.
    each : list of tuple, default=None
        More arguments of `prepare`, others for each block.
    """

    client: Any
    raw: list[Any] | Source
    prepare: Callable[..., Any] | None = None
    args: tuple = ()
    each: list[tuple] | None = None
    _made: list[Any] = field(default_factory=list, init=False)

    def futures(self) -> list[Any]:
        """Return the blocks as futures; those that are lost are made again."""
        self._made = self._made or [None] * self.n_blocks
        if not all(map(is_usable, self._made)):
            raw = self.raw.futures() if isinstance(self.raw, Source) else self.raw
            for k, block in enumerate(raw):
                if not is_usable(self._made[k]):
                    self._made[k] = self._start(block, () if self.each is None else self.each[k])
            if isinstance(self.raw, Source):
                self.raw.release()  # Dask keeps a raw block for as long as it is asked for
        return list(self._made)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.raw.n_blocks if isinstance(self.raw, Source) else len(self.raw)

    def _start(self, block: Any, own: tuple) -> Any:
        """Return a block as a future."""
        from dask import is_dask_collection

        if is_dask_collection(block):
            block = self.client.compute(block)
        elif not hasattr(block, "key"):
            block = held(self.client, block)
        if self.prepare is None:
            return block
        return self.client.submit(self.prepare, block, *self.args, *own, pure=False)

    def release(self) -> None:
        """Let the blocks go; `futures` makes them again."""
        self._made = []
        if isinstance(self.raw, Source):
            self.raw.release()


class Joined(Source):
    """The blocks of several sources, one after the other.

    Parameters
    ----------
    parts : Source
    """

    def __init__(self, *parts: Source) -> None:
        super().__init__(parts[0].client, [])
        self.parts = parts

    def futures(self) -> list[Any]:
        """Return the blocks as futures; those that are lost are made again."""
        return [block for part in self.parts for block in part.futures()]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(part.n_blocks for part in self.parts)

    def release(self) -> None:
        """Let the blocks go; `futures` makes them again."""
        for part in self.parts:
            part.release()


def held(client: Any, value: Any) -> Any:
    """Return an object of the client as a future that Dask can make again on any worker."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        return client.submit(itself, value, pure=False)


def is_usable(future: Any) -> bool:
    """Whether a future is there, or will be."""
    return future is not None and future.status in ("pending", "finished", "lost")
