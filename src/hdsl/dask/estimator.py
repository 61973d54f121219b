"""HDSL on a Dask cluster: the same parameters, blocks in, a plain fitted model out."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks, path
from .. import hdsl as hdsl_module
from ..files import checkpoint as checkpoint_module
from ..parameters import check_parameters, check_same_path, class_rows
from ..refit import Refit
from ..rows import RowNorm, warn_of_lengths
from ..supervision import Supervision
from . import cluster, mapping
from .blocks import RowBlocks, as_local, is_cluster_data
from .comparing import pieces
from .fitting import ClusterFit
from .sources import Source

if TYPE_CHECKING:
    from ..solver.loop import State
    from ..solver.protocols import Loss


class HDSL(hdsl_module.HDSL):
    """`hdsl.HDSL` on a Dask cluster.

    X is a ``dask.array`` of CSR blocks, or a list of blocks that are delayed, futures or CSR
    arrays. The rows stay on the workers. The result has the fitted attributes of `hdsl.HDSL` and
    does all that it does; ``local()`` is the same model without the cluster.

    The model is the same for any number of workers, to the last bit on processors of one kind,
    and the path of `hdsl.HDSL` up to rounding. A worker that dies costs the iterations since the
    last snapshot, ten at most, and the time to build its shards on another worker.

    Parameters
    ----------
    scale, prior, norm, loss, oracle, step, step_size, init, batch_size, objective, landmarks, \
mining, n_targets, n_impostors, class_centers, mine_every, max_iter, tol, early_stopping, \
validation_fraction, n_iter_no_change, scoring, warm_start, checkpoint, n_components, callback, \
random_state, verbose
        As in `hdsl.HDSL`. `mining` is "neighbors" or "random": a function would need all rows in
        one place. `scoring` needs X_val. With `verbose` a line at the end of each run says what
        went over the wire.
    device : {"cpu", "cuda"}, default="cpu"
        With "cuda" each worker computes on the first GPU that it sees; the client needs none. Start
        one worker per GPU (``dask_cuda.LocalCUDACluster`` does), and pass their number as
        `n_shards`.
    n_jobs : None
        Workers use the threads that they were started with.
    storage : "float64"
        Values of X have 8 bytes.
    memory_limit : "auto", float or None, default="auto"
        GiB that the shards of one worker may take; "auto" is the memory limit of the workers.
    client : distributed.Client, default=None
        None is the current client.
    n_shards : int or "auto", default="auto"
        Parts that the comparisons are dealt out to; workers beyond this number are not used. "auto"
        depends on the number of comparisons alone, from 2 to 128. Another number changes results by
        rounding.
    timeout : float, default=300.0
        Seconds without an answer after which a worker counts as lost.
    shards_on_disk : bool, default=False
        Whether workers keep the rows and comparisons of their shards in files of their local
        directory, mapped into memory. For data larger than the memory of all workers; products of
        rows are then not stored, and iterations take longer.

    Attributes
    ----------
    cluster_ : dict
        Of the last fit: n_shards, n_workers, n_lost (workers that died), times_held (shards that
        hold a row, in the mean), bytes_per_worker (estimated before the work), and rounds, bytes
        down (from the client), up, and between workers, each per iteration. With early stopping
        all but n_lost is of the refit.

    See Also
    --------
    hdsl.HDSL : All other parameters and attributes.

    Examples
    --------
    >>> from distributed import Client
    >>> import numpy as np, scipy.sparse as sp
    >>> from hdsl.dask import HDSL
    >>> blocks = [sp.csr_array(np.eye(4)), sp.csr_array(np.eye(4) + 1)]
    >>> with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
    ...     model = HDSL(scale=1.0).fit(blocks, triplets=np.array([[0, 4, 1], [1, 5, 2]]))
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
        step: str = "away",
        step_size: str = "line_search",
        init: str = "zero",
        batch_size: int | None = None,
        objective: str = "triplets",
        landmarks: Any = "all",
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 10,
        n_impostors: int = 10,
        class_centers: str | None = None,
        mine_every: int | None = None,
        max_iter: int = 300,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 300,
        scoring: Callable[..., float] | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_components: int | None = None,
        callback: Callable[[State], bool | None] | None = None,
        random_state: Any = None,
        device: str = "cpu",
        storage: str = "float64",
        n_jobs: int | None = None,
        verbose: int = 0,
        memory_limit: str | float | None = "auto",
        client: Any = None,
        n_shards: int | str = "auto",
        timeout: float = 300.0,
        shards_on_disk: bool = False,
    ) -> None:
        super().__init__(
            scale, prior=prior, norm=norm, loss=loss, oracle=oracle, step=step,
            step_size=step_size, init=init, batch_size=batch_size, objective=objective,
            landmarks=landmarks, mining=mining, n_targets=n_targets, n_impostors=n_impostors,
            class_centers=class_centers, mine_every=mine_every, max_iter=max_iter, tol=tol,
            early_stopping=early_stopping, validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            scoring=scoring, warm_start=warm_start, checkpoint=checkpoint,
            n_components=n_components, callback=callback, random_state=random_state,
            device=device, storage=storage, n_jobs=n_jobs, verbose=verbose,
            memory_limit=memory_limit,
        )  # fmt: skip
        self.client = client
        self.n_shards = n_shards
        self.timeout = timeout
        self.shards_on_disk = shards_on_disk

    # --- fitting ---------------------------------------------------------------------------------

    def _fit(self, X: Any, validation: tuple[Any, ...], goes_on: bool, **given: Any) -> HDSL:
        self._check_own_parameters()
        earlier = None
        if goes_on and hasattr(self, "atoms_"):
            check_same_path(self)
            earlier = path.result_of(self)
        rng = checks.generator(self.random_state)
        checkpoint = checkpoint_module.begin(self.checkpoint, rng)
        checked = copy(self)
        if not is_cluster_data(X):
            X = checks.as_problem_matrix(checks.check_matrix(checked, X, reset=earlier is None))
        client = cluster.find_client(self.client)
        cluster.check_versions(client, self.device)
        rows = RowBlocks(client, X, self.timeout)
        rows.inspect()
        self._check_features(checked, rows, earlier is not None)
        self._normalise(rows, continues=earlier is not None)
        given = {name: as_local_pieces(value) for name, value in given.items()}
        whole = train = self._supervision(rows, given)
        judged = self._judgements(rows, given, whole)
        held, refit_rng = None, deepcopy(rng)
        if any(part is not None for part in validation):
            held = self._validation(checked, rows, whole, validation)
        elif self.early_stopping and validation:
            self._check_hold_out(whole)
            train, held = whole.hold_out(self.validation_fraction, rng)
        run: dict[str, Any] = {"earlier": earlier, "checkpoint": checkpoint}
        fits = [ClusterFit(self, rows, train, held, rng, compared=judged, **run)]
        if whole is not train:
            if judged is not None:
                fits[0].compared = pieces(client, train.compared, train.compared_weights)
            fits += [ClusterFit(self, rows, whole, None, refit_rng, compared=judged, **run)]
        if checkpoint is not None:
            checkpoint.check(fits[-1].identity(given, held))
        checked.norm_, checked.columns_ = rows.norm, rows.columns
        path.learn(fits[0] if len(fits) == 1 else Refit(*fits), checked)
        n_lost = sum(fit.report.get("n_lost", 0) for fit in fits)
        self.cluster_ = {**(fits[-1].report or fits[0].report), "n_lost": n_lost}
        self._take_checkpoint(checkpoint)
        return self

    def _check_own_parameters(self) -> None:
        here = copy(self)
        here.device = "cpu"  # the client needs no GPU
        check_parameters(here)
        checks.check_word("HDSL", "device", self.device, ("cpu", "cuda"))
        if self.device != "cpu" and not isinstance(self.loss, str):
            raise ValueError("A loss of your own needs device='cpu': GPUs compute named ones only.")
        checks.check_word("HDSL", "storage", self.storage, ("float64",))
        if self.objective == "triplets" and callable(self.mining):
            raise ValueError(
                "A function for `mining` is given all rows of X as one matrix, which no machine of "
                "a cluster has. Make the triplets yourself and pass triplets=, as a Dask array "
                "where they are many."
            )
        number = checks.check_number
        number("HDSL", "n_shards", self.n_shards, low=1, integer=True, words=("auto",))
        number("HDSL", "timeout", self.timeout, low=0, strict=True)
        if self.n_jobs is not None:
            raise ValueError(
                f"The 'n_jobs' parameter of hdsl.dask.HDSL has no meaning on a cluster; got "
                f"{self.n_jobs!r}. Leave it at its default: workers use the threads that they were "
                "started with."
            )

    def _check_features(self, checked: HDSL, rows: RowBlocks, continues: bool) -> None:
        n = rows.shape[1]
        if continues and n != self.n_features_in_:
            raise ValueError(
                f"X has {n} features, but HDSL is expecting {self.n_features_in_} features as input"
            )
        checked.n_features_in_ = n

    def _normalise(self, rows: RowBlocks, *, continues: bool) -> None:
        """Say how rows are compared, as RowNorm does."""
        if self.norm is None:
            warn_of_lengths(rows.squares)
            return
        parts = [facts.columns.columns for facts in rows.facts]
        found = RowNorm.of_columns(self, np.concatenate(parts), rows.shape[1], continues=continues)
        rows.norm, rows.columns = found.norm, found.columns

    def _supervision(self, rows: RowBlocks, given: dict[str, Any]) -> Supervision:
        """Return what was given to ``fit``, checked; judgements in blocks are left out."""
        of_classes = class_rows(self)
        in_blocks = is_cluster_data(given["triplets"]) or is_cluster_data(given["quadruplets"])
        if in_blocks and of_classes["landmarks"] is None:
            return Supervision(rows)
        return Supervision.check("HDSL", rows, **given, **of_classes)

    def _judgements(self, rows: RowBlocks, given: dict[str, Any], of: Supervision) -> Source | None:
        """Return judgements in blocks; None where there are labels."""
        if not of.is_judged:
            return None
        if of.compared is None:
            return mapping.compared_blocks(rows, given)
        return pieces(rows.client, of.compared, of.compared_weights)

    def _check_hold_out(self, of: Supervision) -> None:
        if self.scoring is not None:
            raise ValueError(
                "scoring= is called with the validation rows, which early_stopping=True holds out "
                "on the cluster: pass X_val with y_val or triplets_val."
            )
        if of.is_judged and of.compared is None:
            raise ValueError(
                "early_stopping=True holds out a part of judgements that are on the client, or of "
                "labels. With judgements in Dask blocks pass X_val with triplets_val."
            )

    def _validation(
        self, checked: HDSL, rows: RowBlocks, of: Supervision, validation: tuple[Any, ...]
    ) -> Supervision:
        held = of.check_validation(checked, *validation)
        return replace(held, X=RowNorm(rows.norm, rows.columns).apply(held.X))

    # --- use -------------------------------------------------------------------------------------

    def local(self) -> hdsl_module.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        model = hdsl_module.HDSL()
        names = model.get_params().keys()
        model.set_params(**{k: v for k, v in self.get_params().items() if k in names})
        checks.replace_fitted(model, self)
        for name in ("cluster_", "checkpoint_file_"):  # that file is this object's to delete
            model.__dict__.pop(name, None)
        return model

    def transform(self, X: Any, *, cosine: bool = False) -> Any:
        """Return rows whose dot products are the similarity; of blocks, a list of delayed blocks.

        Parameters and values are those of ``hdsl.HDSL.transform``. A ``dask.array`` gives one.
        """
        if is_cluster_data(X):
            return mapping.map_blocks(X, self.local(), "transform", cosine=cosine)
        return super().transform(X, cosine=cosine)

    def rewrite(self, X: Any, *, cosine: bool = False, **limits: Any) -> Any:
        """Return queries whose dot products with rows y are S(x, y); blocks as in ``transform``.

        Parameters and values are those of ``hdsl.HDSL.rewrite``.
        """
        if is_cluster_data(X):
            return mapping.map_blocks(X, self.local(), "rewrite", cosine=cosine, **limits)
        return super().rewrite(X, cosine=cosine, **limits)

    def similarity(self, X: Any, Y: Any = None, *, cosine: bool = False) -> Any:
        """Return S between rows of X and all rows of Y, which is not in blocks where X is."""
        if is_cluster_data(X):
            if Y is None or is_cluster_data(Y):
                raise ValueError(
                    "With X in blocks pass rows Y that fit one machine: all pairs of all rows "
                    "would be n × n. For the nearest rows use search(queries, X, k)."
                )
            return mapping.map_blocks(X, self.local(), "similarity", Y, cosine=cosine)
        return super().similarity(X, Y, cosine=cosine)

    def search(self, queries: Any, X: Any, k: int, *, cosine: bool = False) -> Any:
        """Find, for each query, the k most similar rows of blocks, which stay where they are.

        Parameters
        ----------
        queries : array-like or sparse matrix of shape (n_queries, n_features)
        X : dask.array or list of blocks
        k : int
        cosine : bool, default=False
            By the learned cosine.

        Returns
        -------
        hdsl.search.Neighbors
            Row numbers over all blocks.
        """
        client = cluster.find_client(self.client)
        return mapping.search(client, self.local(), queries, X, k, cosine, self.timeout)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["client"] = None  # a connection is this process's own
        return state


def as_local_pieces(value: Any) -> Any:
    """Return what is small as an object of the client; triplets in blocks stay where they are."""
    if getattr(value, "ndim", 1) == 2 and is_cluster_data(value):
        return value
    return value if isinstance(value, list) and is_cluster_data(value) else as_local(value)
