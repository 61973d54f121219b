"""How much memory a fit takes, and the limits on it."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp

from .. import memory
from ..cuda import runtime
from ..rows import Rows, sparse_block
from .automatic import least_rows


def estimate_fit(model: Any, X: sp.csr_array, compared: np.ndarray) -> Any:
    """Return the memory that a fit of a model to these comparisons takes."""
    from ..cpu.memory import estimate

    return estimate(
        sparse_block(X),
        compared,
        batch_size=model.batch_size,
        min_rows=least_rows(model, X.shape[0]),
        n_threads=int(joblib.effective_n_jobs(model.n_jobs)),
    )


def embedding_bytes(X: Any) -> int:
    """Return the bytes of an embedding at unit length, and of one times its weight."""
    if isinstance(X, Rows):
        return 2 * int(X.dense.nbytes)
    return 0


def check_memory(model: Any, X: sp.csr_array, compared: np.ndarray) -> None:
    """Refuse what cannot fit, before the work."""
    if model.memory_limit is None:
        return
    memory.check_fits(
        f"To fit {len(compared)} triplets of {X.shape[0]} rows with "
        f"{sparse_block(X).nnz} values, "
        f"{model.owner}",
        estimate_fit(model, X, compared).total + embedding_bytes(X),
        model.memory_limit,
        ("fit fewer triplets", "pass memory_limit=None to go on anyway"),
    )


def check_card(
    model: Any, device: runtime.Device, X: sp.csr_array, compared: np.ndarray
) -> None:
    """Refuse what a card has no room for, before the work."""
    from ..cuda.memory import estimate

    if model.memory_limit is None:
        return
    memory.check_fits(
        "The fit on the GPU",
        estimate(X, compared, corrects=model.step == "corrective"),
        model.memory_limit,
        ("give fewer comparisons or rows", "take device='cpu'"),
        device.free(),
    )
