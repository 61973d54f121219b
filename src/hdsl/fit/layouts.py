"""Rows and their comparisons, laid out on the machine of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cuda import runtime
from ..input.matrices import used_columns
from ..rows import Rows, sparse_block
from ..solver.protocols import Layout
from ..supervision.compared_rows import ComparedRows
from .automatic import least_rows
from .lengths import warn_of_lengths
from .memory import check_card, check_memory

if TYPE_CHECKING:
    from ..cpu.workers import Workers


class LaidOut(NamedTuple):
    """Rows and comparisons that a run solves the problem of.

    Parameters
    ----------
    layout : Layout
    data : ComparedRows or None
        None where no single machine has the rows.
    margin_rows : csr_array or Rows
        Rows by which the size of margins is checked: all or, on a cluster, one like the
        longest.
    """

    layout: Layout
    data: ComparedRows | None
    margin_rows: Any


def row_norm(
    model: Any, X: sp.csr_array | Rows, continues: bool
) -> tuple[str | None, np.ndarray | None]:
    """Return the norm of a model that learns from X, and the columns that count in it."""
    X = sparse_block(X)
    if model.norm is None:
        warn_of_lengths(X)
        return None, None
    columns = used_columns(X)
    if continues:
        if model.columns_ is None:
            return model.norm, None
        columns = np.union1d(columns, model.columns_)
    if len(columns) == X.shape[1]:
        return model.norm, None
    return model.norm, columns


def make_layout(
    model: Any,
    data: ComparedRows,
    workers: Workers,
    *,
    columns: np.ndarray | None = None,
) -> Layout:
    """Return rows and their comparisons laid out for the fits of a model.

    `columns` are features although they may be rare or empty. NotEnoughMemory is raised
    before the work.
    """
    options: dict[str, Any] = {"workers": workers, "columns": columns}
    n_rows = data.X.shape[0]
    least = least_rows(model, n_rows)
    if least > 1:
        options["min_rows"] = least
    layout: Layout
    if model.device == "cpu":
        from ..cpu.layout import CPULayout  # compiled code is loaded by the first fit

        check_memory(model, data.X, data.compared)
        layout = CPULayout(data.X, data.compared, data.weights, **options)
    else:
        from ..cuda.layout import CUDALayout

        device = runtime.get_device(model.device)
        check_card(model, device, data.X, data.compared)
        layout = CUDALayout(
            data.X, data.compared, data.weights, device=device, **options
        )
    if layout.n_features < 2 and not isinstance(data.X, Rows):
        raise ValueError(
            "At least 2 features with a non-zero value are needed, as an atom pairs "
            f"two. The {n_rows} rows to learn from have {layout.n_features}: give "
            "more rows."
        )
    return layout
