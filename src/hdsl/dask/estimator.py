"""hdsl.dask.HDSL: the fit of one machine, on shards of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import checks, choosing, fitting, supervision
from .. import hdsl as hdsl_module
from ..cpu.workers import Workers
from ..files import checkpoint as checkpoint_module
from ..files.checkpoint import Checkpoint, digest
from ..progress import Progress
from ..similarity import unit_rows
from ..solver import losses
from ..solver.loop import Arrays, Rests, Result, State
from ..supervision import Mining, Supervision
from . import data as blocks
from .data import Compared, Rows, build, compared_blocks, held
from .mining import compare
from .problem import ClusterError, DaskLayout, gather

if TYPE_CHECKING:
    from ..solver.protocols import Loss

#: Most rows, and anchors of comparisons, that the prior is chosen on: they go to the client.
CHOICE_ROWS, CHOICE_ANCHORS = 20_000, 5_000

#: A fit gives up after so many times that Dask gave up a task.
MOST_LOSSES = 20


class HDSL(hdsl_module.HDSL):
    """HDSL on a Dask cluster, for rows and comparisons that one machine does not hold.

    ``fit`` takes X as a ``dask.array`` of sparse or dense blocks of rows, a list of blocks (CSR
    matrices, delayed objects or futures), or one matrix; triplets and quadruplets likewise, labels
    and weights as one array. The result has the fitted attributes of `hdsl.HDSL` and does all that
    it does; ``local()`` is the same model without the cluster.

    The model is the same for any number of workers, to the last bit on processors of one kind, and
    that of `hdsl.HDSL` up to rounding. What dies with a worker is computed again.

    Parameters
    ----------
    scale, prior, norm, loss, oracle, step, init, batch_size, mining, n_targets, n_impostors, \
min_rows, max_anchors, max_iter, tol, validation_fraction, warm_start, checkpoint, callback, \
random_state, verbose
        As in `hdsl.HDSL`. `mining` is "neighbors" or "random": a function would need all rows in
        one place. An automatic prior is chosen on a sample of the rows, on the client.
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

    def __init__(
        self,
        scale: float | str = "auto",
        *,
        prior: float | str = "auto",
        norm: str | None = "l2",
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
        max_iter: int | str = "auto",
        tol: float = 1e-3,
        validation_fraction: float = 0.3,
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
            scale, prior=prior, norm=norm, loss=loss, oracle=oracle, step=step, init=init,
            batch_size=batch_size, mining=mining, n_targets=n_targets, n_impostors=n_impostors,
            min_rows=min_rows, max_anchors=max_anchors, max_iter=max_iter, tol=tol,
            validation_fraction=validation_fraction, warm_start=warm_start, checkpoint=checkpoint,
            callback=callback, device=device, random_state=random_state, n_jobs=n_jobs,
            verbose=verbose, memory_limit=memory_limit,
        )  # fmt: skip
        self.client = client

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        triplets_val: Any = None,
    ) -> HDSL:
        """Learn the similarity from blocks; parameters are those of ``hdsl.HDSL.fit``."""
        given = _given(y, triplets, quadruplets, sample_weight)
        return learn(self, X, given, (X_val, y_val, triplets_val), continues=self.warm_start)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
    ) -> HDSL:
        """Continue the path; parameters are those of ``hdsl.HDSL.partial_fit``."""
        given = _given(y, triplets, quadruplets, sample_weight)
        return learn(self, X, given, (None, None, None), continues=True)

    def local(self) -> hdsl_module.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        model = hdsl_module.HDSL()
        names = model.get_params()
        model.set_params(**{k: v for k, v in self.get_params().items() if k in names})
        checks.replace_fitted(model, self)
        model.__dict__.pop("checkpoint_file_", None)  # that file is this object's to delete
        return model

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}  # a connection is this process's own


def _given(y: Any, triplets: Any, quadruplets: Any, sample_weight: Any) -> dict[str, Any]:
    """Return what was given, labels and weights as objects of the client."""
    y, sample_weight = (
        part.compute() if hasattr(part, "__dask_graph__") else part for part in (y, sample_weight)
    )
    return {
        "y": y,
        "triplets": triplets,
        "quadruplets": quadruplets,
        "sample_weight": sample_weight,
    }


# --- the road of a fit, as in ``fitting`` ----------------------------------------------------------


def learn(
    model: HDSL, X: Any, given: dict[str, Any], validation: tuple[Any, ...], *, continues: bool
) -> HDSL:
    """Fit a model to blocks; parameters are those of ``fitting.learn``."""
    fitting.check_parameters(model)
    _check_possible(model)
    earlier = None
    if continues and hasattr(model, "atoms_"):
        fitting.check_same_path(model)
        earlier = fitting.path_so_far(model)
    rng = checks.generator(model.random_state)
    checkpoint = checkpoint_module.begin(model.checkpoint, rng)
    learned, client = copy(model), blocks.find_client(model.client)
    blocks.check_versions(client)
    run = _Run(model, learned, client, rng, earlier, checkpoint)
    run.load(X, given, validation)
    with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
        found = run.follow_path(workers, progress)
        fitting.store(learned, found)
        checks.replace_fitted(model, learned)
        progress.say(fitting.summary(model))
    fitting.keep_checkpoint(model, checkpoint)
    return model


def _check_possible(model: HDSL) -> None:
    checks.check_word("hdsl.dask.HDSL", "device", model.device, ("cpu",))
    if callable(model.mining):
        raise ValueError(
            "A function for `mining` is given all rows of X as one matrix, which no machine of a "
            "cluster has. Make the triplets yourself and pass triplets=, in blocks where they are "
            "many."
        )
