"""What maps over blocks: the use of a fitted model, and comparisons that are not on the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import checks
from ..search import Neighbors, top_k
from .blocks import RowBlocks, as_blocks, canonical_block
from .sources import Source, held
from .stages import stage
from .tasks import Compared
from .team import wait_for

if TYPE_CHECKING:
    from ..hdsl import HDSL


def use(block: Any, model: HDSL, method: str, *args: Any, **options: Any) -> Any:
    """Call a method of a model on a block."""
    return getattr(model, method)(block, *args, **options)


def map_blocks(X: Any, model: HDSL, method: str, *args: Any, **options: Any) -> Any:
    """Return what a method gives for each block: a Dask array for one, else a list of delayed."""
    from dask import array, delayed

    work = delayed(use, pure=True)
    if not isinstance(X, array.Array):
        return [work(block, model, method, *args, **options) for block in X]
    parts = np.asarray(X.to_delayed(), dtype=object).ravel()
    empty = sp.csr_array((1, X.shape[1]))
    sample = getattr(model, method)(empty, *args, **options)
    made = [
        array.from_delayed(
            work(part, model, method, *args, **options),
            shape=(n, sample.shape[1]),
            dtype=sample.dtype,
            meta=sample[:0],
        )
        for part, n in zip(parts, X.chunks[0], strict=True)
    ]
    return array.concatenate(made, axis=0)


# --- search --------------------------------------------------------------------------------------


def count_rows(block: Any) -> int:
    """Return the number of rows of a block."""
    return int(block.shape[0])


def nearest(block: Any, model: HDSL, queries: Any, k: int, first: int, cosine: bool) -> Neighbors:
    """Return the best rows of a block, in the numbers of all rows."""
    index = model.index_rows(canonical_block(block), cosine=cosine)
    found = top_k(queries, index, k)
    rows = np.where(found.rows < 0, -1, found.rows + first)
    return Neighbors(found.scores, rows, found.size)


def merge(k: int, *parts: Neighbors) -> Neighbors:
    """Return the best rows of all blocks; of equals the one with the smaller number."""
    scores = np.concatenate([part.scores for part in parts], axis=1)
    rows = np.concatenate([part.rows for part in parts], axis=1)
    order = np.lexsort((np.where(rows < 0, np.iinfo(np.int64).max, rows), -scores), axis=1)[:, :k]
    size = np.minimum(sum(part.size for part in parts), k)
    return Neighbors(
        np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1), size
    )


def search(
    client: Any, model: HDSL, queries: Any, X: Any, k: int, cosine: bool, timeout: float
) -> Neighbors:
    """Return the k most similar rows of blocks for each query."""
    checks.check_number("search", "k", k, low=1, integer=True)
    rewritten = model.rewrite(queries, cosine=cosine)
    blocks = Source(client, as_blocks(X)).futures()
    counts = [client.submit(count_rows, block, pure=False) for block in blocks]
    wait_for(counts, timeout, what="The blocks of X were not there")
    starts = np.cumsum([0, *client.gather(counts)])[:-1].tolist()
    sent, fitted = held(client, rewritten), held(client, model)
    found = [
        client.submit(nearest, block, fitted, sent, k, first, cosine, pure=False)
        for block, first in zip(blocks, starts, strict=True)
    ]
    best = client.submit(merge, k, *found, pure=False)
    wait_for([best], timeout, what="The search was not done")
    return best.result(timeout=timeout)


# --- comparisons ---------------------------------------------------------------------------------


def checked_block(block: Any, weights: Any, n_rows: int, width: int, first: int) -> Compared | str:
    """Return a block of comparisons and its weights, or what is wrong with it."""
    check = checks.check_triplets if width == 3 else checks.check_quadruplets
    try:
        compared = check(np.asarray(block), n_rows)
        kind = "triplet" if width == 3 else "quadruplet"
        own = None if weights is None else weights[first : first + len(compared)]
        if own is not None and own.any():
            checks.check_weights(own, len(compared), kind)
    except ValueError as error:
        return f"In the block that begins at {first}: {error}"
    return compared, own


def count_compared(block: Compared) -> int:
    """Return the number of comparisons of a block."""
    return len(block[0])


def complaint(block: Compared | str) -> str | None:
    """Return what is wrong with a block of comparisons."""
    return block if isinstance(block, str) else None


def compared_blocks(rows: RowBlocks, given: dict[str, Any]) -> Source:
    """Return comparisons that are in blocks on the cluster, checked there."""
    client = rows.client
    width = 3 if given["quadruplets"] is None else 4
    value = given["triplets"] if width == 3 else given["quadruplets"]
    raw = Source(client, as_blocks(value)).futures()
    with stage("count the comparisons"):
        counts = [client.submit(count_rows, block, pure=False) for block in raw]
        starts = np.cumsum([0, *rows.results(counts)])
    weights = checks.check_weights(given["sample_weight"], int(starts[-1]), "triplet")
    if weights is not None:
        weights = held(client, weights)
    args = (rows.shape[0], width)
    made = [
        client.submit(checked_block, block, weights, *args, int(first), pure=False)
        for block, first, last in zip(raw, starts[:-1], starts[1:], strict=True)
        if last > first
    ]
    if not made:
        raise ValueError("triplets is empty: at least one triplet is needed.")
    with stage("check the comparisons"):
        found = rows.results([client.submit(complaint, block, pure=False) for block in made])
    wrong = [text for text in found if text is not None]
    if wrong:
        raise ValueError(wrong[0])
    return Source(client, made)
