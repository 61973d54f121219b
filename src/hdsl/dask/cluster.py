"""What a cluster must have before a fit: workers, equal versions, and room."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..cuda import runtime
from ..memory import NotEnoughMemory
from .building import Builder
from .sources import held
from .tasks import deal, gather, pick, rows_of, take_rows
from .team import is_done

#: What must be equal on the client and on all workers.
PACKAGES = ("numpy", "numba", "hdsl")

#: Anchors of the sample that the need for memory is estimated from.
SAMPLE = 200

#: Seconds for a worker to tell its versions.
ASK = 60.0


def find_client(client: Any) -> Any:
    """Return the client of a fit: the one given, or the current one."""
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError(
            "hdsl.dask needs Dask: install hdsl[dask], or dask and distributed."
        ) from None
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "There is no Dask client. Make one first, client = distributed.Client(...), or pass "
            "it: hdsl.dask.HDSL(client=client)."
        ) from None


def versions() -> dict[str, str]:
    """Return the versions here."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def usable_versions(device: str) -> dict[str, str]:
    """Return the versions of a worker; raise DeviceError where it has not the device."""
    if device != "cpu":
        runtime.get_device(device)
    return versions()


def check_versions(client: Any, device: str = "cpu") -> None:
    """Raise RuntimeError where a worker has another version of what results depend on, or no GPU.

    Parameters
    ----------
    client : distributed.Client
    device : str, default="cpu"
        What workers are to compute on.
    """
    workers = sorted(client.nthreads())
    if not workers:
        raise RuntimeError(
            "The cluster has no workers: start some, or wait for them with "
            "client.wait_for_workers(1, timeout=60)."
        )
    futures = {
        at: client.submit(usable_versions, device, workers=[at], pure=False) for at in workers
    }
    waited = 0.0
    while futures and not is_done([*futures.values()], 1.0):
        waited += 1.0
        alive = client.nthreads()
        futures = {at: future for at, future in futures.items() if at in alive}
        if waited >= ASK:
            raise RuntimeError(f"Workers did not tell their versions within {ASK:g} s.")
    here = versions()
    for address, future in futures.items():
        if future.status not in ("finished", "error"):
            continue  # it has died in the meantime
        if future.status != "finished":
            error = future.exception(timeout=ASK)
            if isinstance(error, runtime.DeviceError):
                raise RuntimeError(f"Worker {address}: {error}") from error
            raise RuntimeError(
                f"Worker {address} cannot run hdsl: {error!r}. Install the same hdsl there "
                f"({here['hdsl']})."
            )
        there = told(client, address, future)
        if there is None:
            continue
        for name, own in here.items():
            if there[name] != own:
                raise RuntimeError(
                    f"Worker {address} has {name} {there[name]}, the client has {own}: results "
                    "would depend on where shards are. Use the same versions on all machines."
                )


def told(client: Any, address: str, future: Any) -> Any:
    """Return what a worker has told; None where it has died before it could be fetched."""
    for _ in range(int(ASK)):
        try:
            return future.result(timeout=1.0)
        except TimeoutError:
            if address not in client.nthreads():
                return None
    raise RuntimeError(f"Worker {address} did not tell its versions within {ASK:g} s.")


def check_room(
    builder: Builder, memory_limit: str | float | None, *, batch_size: int | None, prior: bool
) -> int:
    """Raise NotEnoughMemory where the shards of a worker do not fit it; return their bytes.

    The need is estimated from a sample of the anchors.
    """
    from ..cpu.memory import estimate, for_features

    client, places = builder.client, builder.places
    sample = np.linspace(0, len(places.anchors) - 1, SAMPLE).astype(int)
    chosen = np.unique(places.anchors[sample])
    mask = np.full(int(builder.starts[-1]), -1, dtype=np.int32)
    mask[chosen] = 0
    mask = held(client, mask)
    dealt = [client.submit(deal, b, mask, 1, pure=False) for b in builder.compared.futures()]
    parts = [client.submit(pick, block, 0, pure=False) for block in dealt]
    compared = client.submit(gather, *parts, pure=False)
    needed_rows = client.submit(rows_of, compared, pure=False)
    blocks = zip(builder.rows.futures(), builder.starts[:-1].tolist(), strict=True)
    taken = [client.submit(take_rows, b, needed_rows, first, pure=False) for b, first in blocks]
    (numbers, _, names), *rows = builder.results([compared, *taken])
    X = sp.csr_array(sp.vstack(rows, format="csr"))
    need = estimate(X, numbers, batch_size=batch_size, prior=prior)
    if not builder.storage.products:
        need = need._replace(products=0)
    more = int(places.sizes.max()) / len(numbers)  # comparisons of a shard, and of the sample
    per_shard = more * (need.total - need.matrix - need.setup) + for_features(len(builder.features))
    per_row = (need.matrix + 12 * X.nnz - for_features(len(np.unique(X.indices)))) / len(names)
    per_shard += per_row * int(builder.rows_of_shards.max())
    workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"].values()
    n = max(1, min(len(workers), places.n_shards))
    most = -(-places.n_shards // n)
    needed = int(per_shard * most + more * need.setup)
    if builder.storage.on_disk:  # one is in memory while it is built; vectors of all are
        needed = int(per_shard + more * (need.setup + most * (need.comparisons + need.atoms)))
    if memory_limit is None:
        return needed
    limits = [worker["memory_limit"] or np.inf for worker in workers] or [np.inf]
    is_limit = memory_limit != "auto"
    allowed = float(memory_limit) * 2**30 if is_limit else min(limits)
    if needed > allowed:
        enough = int(np.ceil(per_shard * places.n_shards / allowed))
        ways: tuple[str, ...] = (
            f"use {max(enough, n + 1)} workers or more",
            "give workers more memory",
            "pass shards_on_disk=True to keep shards in files of the workers",
            "pass memory_limit=None to go on anyway",
        )
        if builder.storage.on_disk:
            ways = (f"pass n_shards={2 * places.n_shards} or more", ways[1], ways[3])
        raise NotEnoughMemory(
            f"To fit {places.n_comparisons} triplets on {n} workers, each worker",
            needed,
            int(allowed),
            True,
            ways,
        )
    return needed
