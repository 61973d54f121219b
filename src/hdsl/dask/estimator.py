"""hdsl.dask.HDSL: the estimator of one machine, fitted on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import hdsl as hdsl_module
from ..input.estimators import replace_fitted
from .road import learn

if TYPE_CHECKING:
    from ..solver.protocols import Loss
    from ..solver.state import State


class HDSL(hdsl_module.HDSL):
    """HDSL on a Dask cluster, for rows and comparisons that one machine does not hold.

    ``fit`` takes X as a ``dask.array`` of sparse or dense blocks of rows, a list of
    blocks (CSR matrices, delayed objects or futures), or one matrix; triplets and
    quadruplets likewise, labels and weights as one array. Rows with an embedding are a
    tuple (X, Z) of two of these, in blocks of the same rows. The result has the fitted
    attributes of `hdsl.HDSL` and does all that it does; ``local()`` is the same model
    without the cluster.

    The model is the same for any number of workers, to the last bit on processors of
    one kind, and that of `hdsl.HDSL` up to rounding. What dies with a worker is
    computed again.

    Parameters
    ----------
    scale, norm, loss, oracle, step, init, batch_size, max_iter, tol, warm_start
        As in `hdsl.HDSL`.
    prior, goal, embedding_weight, validation_fraction
        As in `hdsl.HDSL`. An automatic prior, and the weight of an embedding, are
        chosen on a sample of the rows, on the client.
    embedding : int, slice, list of str or None, default=None
        As in `hdsl.HDSL`, of each block; names are those of blocks that are frames.
    mining, n_targets, n_impostors, min_rows, max_anchors
        As in `hdsl.HDSL`. `mining` is "neighbors" or "random": a function would need
        all rows in one place.
    checkpoint, callback, random_state, verbose
        As in `hdsl.HDSL`.
    device : "cpu"
    n_jobs : int, default=None
        Threads of the client. Workers use those that they were started with.
    memory_limit : "auto", float or None, default="auto"
        Not used: workers have limits of their own.
    client : distributed.Client, default=None
        None is the current client.

    See Also
    --------
    hdsl.HDSL : All other parameters and attributes.

    Examples
    --------
    >>> from distributed import Client
    >>> import numpy as np, scipy.sparse as sp
    >>> from hdsl.dask import HDSL
    >>> blocks = [sp.csr_array(np.eye(4)), sp.csr_array(np.eye(4) + 1)]
    >>> triplets = np.array([[0, 4, 1], [1, 5, 2]])
    >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
    ...     model = HDSL(scale=1.0, prior=1.0).fit(blocks, triplets=triplets)
    >>> model.n_features_in_
    4
    """

    _learn = staticmethod(learn)

    def __init__(
        self,
        scale: float | str = "auto",
        *,
        prior: float | str = "auto",
        goal: str = "auto",
        norm: str | None = "l2",
        embedding: Any = None,
        embedding_weight: float | str = "auto",
        loss: str | Loss = "smoothed_hinge",
        oracle: str = "ascent",
        step: str = "corrective",
        init: str = "zero",
        batch_size: int | None = None,
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 10,
        n_impostors: int = 10,
        min_rows: int | str = "auto",
        max_anchors: int | None = 20_000,
        max_iter: int | str = 15,
        tol: float = 1e-3,
        validation_fraction: float = 1 / 3,
        warm_start: bool = False,
        checkpoint: Any = None,
        callback: Callable[[State], bool | None] | None = None,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        memory_limit: str | float | None = "auto",
        client: Any = None,
    ) -> None:
        super().__init__(
            scale,
            prior=prior,
            goal=goal,
            norm=norm,
            embedding=embedding,
            embedding_weight=embedding_weight,
            loss=loss,
            oracle=oracle,
            step=step,
            init=init,
            batch_size=batch_size,
            mining=mining,
            n_targets=n_targets,
            n_impostors=n_impostors,
            min_rows=min_rows,
            max_anchors=max_anchors,
            max_iter=max_iter,
            tol=tol,
            validation_fraction=validation_fraction,
            warm_start=warm_start,
            checkpoint=checkpoint,
            callback=callback,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            memory_limit=memory_limit,
        )
        self.client = client

    def local(self) -> hdsl_module.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        names = hdsl_module.HDSL().get_params()
        model = hdsl_module.HDSL(**{name: getattr(self, name) for name in names})
        replace_fitted(model, self)
        # That file is this object's to delete.
        model.__dict__.pop("checkpoint_file_", None)
        return model

    def __getstate__(self) -> dict[str, Any]:
        # A connection is this process's own.
        return {**super().__getstate__(), "client": None}
