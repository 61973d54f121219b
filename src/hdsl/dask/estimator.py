"""hdsl.dask.HDSL: the estimator of one machine, fitted on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import hdsl as hdsl_module
from ..input.estimators import replace_fitted
from ..settings import Mining, Solver, without_former_names
from .inputs import ClusterFit

if TYPE_CHECKING:
    from ..solver.protocols import Loss


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
    computed again. The `memory_limit` of a fit is not used: workers have limits of
    their own.

    Parameters
    ----------
    scale, norm, loss, solver, min_rows, warm_start, random_state, verbose
        As in `hdsl.HDSL`.
    goal, prior, embedding_weight, embedding_scale, validation_fraction
        As in `hdsl.HDSL`. An automatic prior, and what goes with an embedding, are
        chosen on a sample of the rows, on the client.
    embedding : "auto", int, slice, list of str or None, default="auto"
        As in `hdsl.HDSL`, of each block; names are those of blocks that are frames.
    mining : Mining, {"neighbors", "random"} or None, default=None
        As in `hdsl.HDSL`, without functions: one would need all rows in one place.
    device : "cpu"
    n_jobs : int, default=None
        Threads of the client. Workers use those that they were started with.
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

    _fit_kind = ClusterFit

    @without_former_names
    def __init__(
        self,
        scale: float | str = "auto",
        *,
        prior: float | str = "auto",
        goal: str = "auto",
        norm: str | None = "l2",
        embedding: Any = "auto",
        embedding_weight: float | str = "auto",
        embedding_scale: float | str = "auto",
        loss: str | Loss = "smoothed_hinge",
        solver: Solver | None = None,
        mining: Mining | str | None = None,
        min_rows: int | str = "auto",
        validation_fraction: float = 1 / 3,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        client: Any = None,
    ) -> None:
        super().__init__(
            scale,
            prior=prior,
            goal=goal,
            norm=norm,
            embedding=embedding,
            embedding_weight=embedding_weight,
            embedding_scale=embedding_scale,
            loss=loss,
            solver=solver,
            mining=mining,
            min_rows=min_rows,
            validation_fraction=validation_fraction,
            warm_start=warm_start,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client

    def local(self) -> hdsl_module.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        names = hdsl_module.HDSL().get_params(deep=False)
        model = hdsl_module.HDSL(**{name: getattr(self, name) for name in names})
        replace_fitted(model, self)
        # That file is this object's to delete.
        model.__dict__.pop("checkpoint_file_", None)
        return model

    def __getstate__(self) -> dict[str, Any]:
        # A connection is this process's own.
        return {**super().__getstate__(), "client": None}
