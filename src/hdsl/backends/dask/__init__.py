"""The problem on a Dask cluster: shards that live on workers, and a client that asks them.

``member`` runs on a worker, ``team`` sends the questions, ``problem`` is what the solver sees,
``building`` brings comparisons and rows to the shards by the ``tasks`` that run on workers, from
``sources`` of blocks, ``folding`` is the order of all sums, and ``stages`` tells a log how long the
set-up takes.
"""

from contextlib import suppress
from typing import Any

from scipy import sparse

with suppress(ImportError):
    from dask.sizeof import sizeof

    @sizeof.register(sparse.sparray)
    def _size_of_sparse_array(array: Any) -> int:
        """Return the bytes of a sparse array.

        Dask knows spmatrix only, and would take an array of any size for 56 bytes: it would send
        blocks from worker to worker instead of the few rows taken out of them.
        """
        return sum(sizeof(part) for part in vars(array).values())
