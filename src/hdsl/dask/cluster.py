"""The client of a fit: found and checked, given objects to keep, and asked for results."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

#: How often a task that Dask gave up is tried again.
MOST_RETRIES = 10


class ClusterError(RuntimeError):
    """The cluster lost what a fit needs: its scheduler, a client, or data that it cannot remake."""


def find_client(client: Any) -> Any:
    """Return the client of a fit, given or the current one; it must be usable."""
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("hdsl.dask needs Dask: install hdsl[dask].") from None
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "There is no Dask client. Make one first, client = "
                "distributed.Client(...), or pass it: hdsl.dask.HDSL(client=client)."
            ) from None
    check_client(client)
    return client


def check_client(client: Any) -> None:
    """Raise ClusterError unless a client has workers, with the same libraries as its own."""
    n_workers = 0
    if client.status == "running":
        n_workers = len(client.nthreads())
    if not n_workers:
        raise ClusterError(
            f"The Dask client is {client.status} and has {n_workers} workers: make a "
            "new one, or wait for workers with client.wait_for_workers(1)."
        )
    # Results depend on these.
    client.get_versions(check=True, packages=["numba", "hdsl"])


def send(client: Any, value: Any) -> Any:
    """Return an object of the client as a future that Dask can make again on any worker.

    What is scattered is lost with its worker; what a task returns is not.
    """
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        return client.submit(identity, value, pure=False)


def identity(value: Any) -> Any:
    """Return the value."""
    return value


def gather(client: Any, futures: Sequence[Any]) -> list[Any]:
    """Return the results of futures; raise ClusterError where they cannot be had any more.

    Dask computes what dies with a worker again. It gives up a task that was at work
    when several workers died, and is then asked once more.
    """
    from distributed import KilledWorker

    try:
        for _ in range(MOST_RETRIES):
            with suppress(KilledWorker):
                return client.gather([*futures])
            client.retry(futures)
        return client.gather([*futures])
    except CancelledError as error:
        raise ClusterError(
            f"The cluster lost what the fit needs ({error}): its scheduler is gone, "
            "the client is closed, or blocks given as futures died with a worker. "
            "Give blocks as delayed objects or as a dask.array, which can be loaded "
            "again, and fit again."
        ) from error
