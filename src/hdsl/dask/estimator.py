"""HDSL on a Dask cluster: the same parameters, blocks in, a plain fitted model out."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import estimators, user_input
from ..backends.dask.building import Source
from ..estimators import path
from ..estimators.parameters import check_parameters, check_same_path
from ..estimators.rows import RowNorm, warn_of_lengths
from ..estimators.supervision import Supervision
from ..files.checkpoint import Checkpoint
from ..triplets import random_triplets
from . import cluster, mapping
from .blocks import RowBlocks, as_local, is_cluster_data
from .fitting import ClusterFit
from .mining import neighbor_blocks

if TYPE_CHECKING:
    from ..core.protocols import Loss
    from ..core.solver import State

#: Comparisons of the client that are sent in one piece.
PIECE = 1 << 20


class HDSL(estimators.HDSL):
    """`hdsl.HDSL` on a Dask cluster.

    X is a ``dask.array`` of CSR blocks, or a list of blocks that are delayed, futures or CSR
    arrays. The rows stay on the workers. The result has the fitted attributes of `hdsl.HDSL` and
    does all that it does; ``local()`` is the same model without the cluster.

    The model is the same for any number of workers, to the last bit on processors of one kind,
    and the path of `hdsl.HDSL` up to rounding. A worker that dies costs the iterations since the
    last snapshot, ten at most, and the time to build its shards on another worker.

    Parameters
    ----------
    scale, prior, norm, loss, oracle, step, step_size, init, batch_size, mining, n_targets, \
n_impostors, max_iter, tol, n_iter_no_change, scoring, warm_start, checkpoint, n_components, \
callback, random_state, verbose
        As in `hdsl.HDSL`. `mining` is "neighbors" or "random". With `verbose` a line at the end
        says what went over the wire.
    device : {"cpu", "cuda"}, default="cpu"
        With "cuda" each worker computes on the first GPU that it sees; the client needs none. Start
        one worker per GPU (``dask_cuda.LocalCUDACluster`` does), and pass their number as
        `n_shards`.
    objective, landmarks, mine_every, early_stopping, validation_fraction, class_centers, n_jobs
        As in `hdsl.HDSL`, but only their defaults are accepted; workers use their own threads. To
        stop early pass X_val with triplets_val.
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
        down (from the client), up, and between workers, each per iteration.

    See Also
    --------
    hdsl.HDSL : All other parameters and attributes.

    Examples
    --------
    >>> from distributed import Client
    >>> import numpy as np, scipy.sparse as sp
    >>> from hdsl.dask import HDSL
    >>> blocks = [sp.csr_array(np.eye(4)), sp.csr_array(np.eye(4) + 1)]
    >>> with Client(n_workers=1, processes=False, dashboard_address=None) as client:
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
        mining: str | Callable[..., np.ndarray] = "neighbors",
        objective: str = "triplets",
        landmarks: Any = "all",
        class_centers: str | None = None,
        n_targets: int = 10,
        n_impostors: int = 10,
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
            step_size=step_size, init=init, batch_size=batch_size, mining=mining,
            objective=objective, landmarks=landmarks, class_centers=class_centers,
            n_targets=n_targets, n_impostors=n_impostors,
            mine_every=mine_every, max_iter=max_iter, tol=tol, early_stopping=early_stopping,
            validation_fraction=validation_fraction, n_iter_no_change=n_iter_no_change,
            scoring=scoring, warm_start=warm_start, checkpoint=checkpoint,
            n_components=n_components, callback=callback, random_state=random_state,
            device=device, n_jobs=n_jobs, verbose=verbose, memory_limit=memory_limit,
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
        rng = user_input.generator(self.random_state)
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        if checkpoint is not None:
            checkpoint.start_from(rng)
        checked = copy(self)
        if not is_cluster_data(X):
            X = user_input.as_problem_matrix(
                user_input.check_matrix(checked, X, reset=earlier is None)
            )
        client = cluster.find_client(self.client)
        cluster.check_versions(client, self.device)
        rows = RowBlocks(client, X, self.timeout)
        rows.inspect()
        self._check_features(checked, rows, earlier is not None)
        self._normalise(rows, continues=earlier is not None)
        given = {name: as_local_pieces(value) for name, value in given.items()}
        compared, supervision = self._comparisons(rows, given, rng)
        held = None
        if any(part is not None for part in validation):
            held = self._validation(checked, rows, supervision, validation)
        fit = ClusterFit(
            self, rows, compared, rng, validation=held, earlier=earlier, checkpoint=checkpoint
        )
        if checkpoint is not None:
            checkpoint.check(fit.identity(given))
        checked.norm_, checked.columns_ = rows.norm, rows.columns
        path.learn(fit, checked)
        self.cluster_ = fit.report
        self.__dict__.pop("checkpoint_file_", None)
        if checkpoint is not None and self.status_ != "interrupted":
            self.checkpoint_file_ = checkpoint.file
        return self

    def _check_own_parameters(self) -> None:
        here = copy(self)
        here.device = "cpu"  # the client needs no GPU
        check_parameters(here)
        if self.step == "corrective":
            raise ValueError(
                "The 'step' parameter of hdsl.dask.HDSL cannot be 'corrective', which asks for all "
                "pairs of atoms at once: use 'away', 'pairwise', 'blended' or 'forward'."
            )
        user_input.check_word("HDSL", "device", self.device, ("cpu", "cuda"))
        if self.device != "cpu" and not isinstance(self.loss, str):
            raise ValueError("A loss of your own needs device='cpu': GPUs compute named ones only.")
        if self.objective != "triplets":
            raise ValueError(
                f"The 'objective' parameter of hdsl.dask.HDSL must be 'triplets'. Got "
                f"{self.objective!r}: give triplets= with means of landmarks as rows."
            )
        number = user_input.check_number
        number("HDSL", "n_shards", self.n_shards, low=1, integer=True, words=("auto",))
        number("HDSL", "timeout", self.timeout, low=0, strict=True)
        for name, way_out in (
            ("mine_every", "fit once more with triplets= mined under the model"),
            ("early_stopping", "pass X_val and triplets_val"),
            ("n_jobs", "workers use the threads that they were started with"),
            ("class_centers", "give triplets= with centres as rows"),
        ):
            if getattr(self, name):
                raise ValueError(
                    f"The {name!r} parameter of hdsl.dask.HDSL has no meaning on a cluster; got "
                    f"{getattr(self, name)!r}. Leave it at its default: {way_out}."
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

    def _comparisons(
        self, rows: RowBlocks, given: dict[str, Any], rng: np.random.Generator
    ) -> tuple[Source, Supervision]:
        """Return the comparisons in blocks, given or made from labels."""
        shape = sp.csr_array(rows.shape)  # the checks ask for the number of rows
        if given["triplets"] is None and given["quadruplets"] is None:
            of = Supervision.check("HDSL", shape, **given)
            if callable(self.mining):
                raise ValueError(
                    "A function for `mining` needs all rows in one place: call it yourself, and "
                    "pass triplets=."
                )
            if self.mining == "random":
                return self._random(rows, of, rng), of
            counts = (self.n_targets, self.n_impostors)
            return neighbor_blocks(rows, of.y, of.weights, *counts), of
        if not is_cluster_data(given["triplets"]) and not is_cluster_data(given["quadruplets"]):
            of = Supervision.check("HDSL", shape, **given)
            return pieces(rows.client, of.compared, of.compared_weights), of
        return mapping.compared_blocks(rows, given), Supervision(shape)

    def _random(self, rows: RowBlocks, of: Supervision, rng: np.random.Generator) -> Source:
        chosen = np.arange(rows.shape[0]) if of.weights is None else np.flatnonzero(of.weights)
        seed, n_per_row = int(rng.integers(2**31 - 1)), self.n_targets * self.n_impostors
        made = chosen[random_triplets(of.y[chosen], n_per_row, random_state=seed)]
        weights = None if of.weights is None else of.weights[made[:, 0]]
        return pieces(rows.client, made, weights)

    def _validation(
        self, checked: HDSL, rows: RowBlocks, of: Supervision, validation: tuple[Any, ...]
    ) -> Supervision:
        X_val, y_val, triplets_val = validation
        if y_val is not None and self.scoring is None:
            raise ValueError(
                "y_val lets all rows of X vote, which are not in one place: pass triplets_val=, "
                "judgements of the rows of X_val, or scoring=."
            )
        held = of.check_validation(checked, X_val, y_val, triplets_val)
        return replace(held, X=RowNorm(rows.norm, rows.columns).apply(held.X))

    # --- use -------------------------------------------------------------------------------------

    def local(self) -> estimators.HDSL:
        """Return the fitted model without the cluster, as `hdsl.HDSL`."""
        model = estimators.HDSL()
        names = model.get_params().keys()
        model.set_params(**{k: v for k, v in self.get_params().items() if k in names})
        user_input.replace_fitted(model, self)
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


def pieces(client: Any, compared: np.ndarray, weights: np.ndarray | None) -> Source:
    """Return comparisons of the client in blocks."""
    steps = range(0, len(compared), PIECE)
    return Source(
        client,
        [
            (compared[k : k + PIECE], None if weights is None else weights[k : k + PIECE])
            for k in steps
        ],
    )
