"""LocalHDSL: one similarity for all rows, and one more per region of the space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from . import checks, saving
from . import explain as explain_module
from . import path as path_module
from .arrays import centers_of, csr_from_arrays, csr_to_arrays, parts_from_arrays, parts_to_arrays
from .explain.parts import one_row
from .explain.tables import as_names
from .linear import check_array
from .local_fitting import LocalFit, go_to, learn_local
from .local_regions import check_regions, given_regions
from .local_similarity import Centers, LocalSimilarity, Predicted
from .parameters import check_parameters
from .path_model import PathModel
from .similarity import Similarity
from .solver import atoms as atoms_module
from .solver.blocks import ORDERS
from .supervision import Supervision

if TYPE_CHECKING:
    from .solver.blocks import ProductState
    from .solver.protocols import Loss


class LocalHDSL(PathModel):
    """HDSL with one small part more per region of the space.

    Learns S(x, y) = prior·⟨x, y⟩ + xᵀ(M + N_r)y, where r is the region of x, the query. M and each
    N_r are convex combinations of 0 and atoms (e_i ± e_j)(e_i ± e_j)ᵀ, with their own scales. Use
    it where feature pairs mean different things in different parts of the data. With no regions
    it is `HDSL`. `LocalHDSLCV` chooses their number.

    Parameters
    ----------
    n_regions : int >= 0, default=4
        Number of regions that k-means makes; 0 is no regions, M alone. Other regions have their own
        number.
    regions : "kmeans", clusterer or array-like of int of shape (n_rows,), default="kmeans"
        How rows are assigned to regions. A clusterer is cloned, fitted to the rows as they are
        compared, and must have ``predict``; rows with an answer that no training row has are
        compared by M alone. With an array, the region of each training row, new rows have the
        region of the nearest mean.
    scale : float > 0 or "auto", default="auto"
        λ of M, as in `HDSL`.
    local_scale : float > 0 or "auto", default="auto"
        λ of each N_r. "auto" is scale / sqrt(number of regions), the automatic scale for as many
        anchors as a region has on average.
    prior, norm, loss, oracle, mining, n_targets, n_impostors
        As in `HDSL`.
    step : {"pairwise", "away", "forward", "blended", "corrective"}, default="pairwise"
        The kind of Frank-Wolfe step, as in `HDSL`, in one block (M or one N_r) per iteration.
        "blended" asks the oracle in each iteration, since gaps choose the block. "corrective"
        changes all weights of one block, and adds several atoms to it, at once.
    order : {"largest", "cyclic"}, default="largest"
        The block of a step: that of the largest duality gap, or each in turn.
    max_iter : int, default=300
        Largest number of steps in all blocks together.
    tol : float >= 0, default=1e-3
        Stop when the duality gap, the sum over blocks, is at most this; an exact search of every
        block confirms it, as in `HDSL`.
    early_stopping, validation_fraction, n_iter_no_change, scoring
        As in `HDSL`. With labels, regions are made of the rows that train, and again of all rows
        for the refit.
    checkpoint : str, path-like or None, default=None
        As in `HDSL`. Regions are part of it; those of a clusterer are made again and must be the
        same.
    callback : callable or None, default=None
        Called as callback(state) before each step, with ``n_iter``, ``objective``, ``gap``,
        ``blocks`` and ``seconds``; True stops the run.
    random_state, n_jobs, verbose, memory_limit
        As in `HDSL`.

    Attributes
    ----------
    atoms_, weights_ : ndarrays of shape (n_atoms, 3) and (n_atoms,)
        Of M.
    local_atoms_, local_weights_ : lists of ndarrays, one per region
        Of each N_r.
    scale_, local_scale_, prior_ : float
        The values used.
    n_regions_ : int
    regions_ : hdsl.local_similarity.Centers or Predicted
        Assigns rows, as S compares them, to regions.
    region_sizes_ : ndarray of shape (n_regions_,)
        Training rows per region.
    norm_, columns_, objective_, gap_, gap_is_exact_, n_iter_, n_triplets_, n_features_in_
        As in `HDSL`.
    corrections_ : structured ndarray
        As in `HDSL`; the block of an iteration is in the trace.
    status_ : str
        As in `HDSL`.
    trace_ : structured ndarray, one record per model of the path
        As in `HDSL`, and ``block``: 0 for a step in M, r + 1 for a step in N_r.
    validation_score_ : float
        As in `HDSL`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X has string column names.

    Notes
    -----
    S is not symmetric: S(x, y) is by the region of x. The learned cosine divides by the lengths of
    both rows, each by its own region.

    Examples
    --------
    Features 0 and 1 mean the same in the rows that have feature 2, and the opposite in the others.

    >>> import numpy as np
    >>> from hdsl import LocalHDSL
    >>> X = np.array([[1.0, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]])
    >>> triplets = [[0, 1, 2], [1, 0, 3], [2, 0, 3], [3, 1, 2]]
    >>> model = LocalHDSL(2, regions=[0, 0, 1, 1], prior=0.0, scale=1.0, local_scale=9.0)
    >>> S = model.fit(X, triplets=triplets).similarity(X)
    >>> S[[0, 2]].round(1).tolist()
    [[0.5, 0.5, -0.5, -0.5], [0.5, -0.5, 0.5, -0.5]]
    """

    regions_: Centers | Predicted
    n_regions_: int

    _kind_of_fit, _learn = LocalFit, staticmethod(learn_local)

    # Parameters of HDSL that a product of domains does not have, as HDSL's checks read them.
    batch_size = mine_every = n_components = class_centers = None
    objective, landmarks = "triplets", "all"
    step_size, init, device, storage = "line_search", "zero", "cpu", "float64"

    def __init__(
        self,
        n_regions: int = 4,
        *,
        regions: Any = "kmeans",
        scale: float | str = "auto",
        local_scale: float | str = "auto",
        prior: float | str = "auto",
        norm: str | None = "l2",
        loss: str | Loss = "smoothed_hinge",
        oracle: str = "ascent",
        step: str = "pairwise",
        order: str = "largest",
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 10,
        n_impostors: int = 10,
        max_iter: int = 300,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 300,
        scoring: Callable[..., float] | None = None,
        checkpoint: Any = None,
        callback: Callable[[ProductState], bool | None] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        memory_limit: str | float | None = "auto",
    ) -> None:
        self.n_regions = n_regions
        self.regions = regions
        self.scale = scale
        self.local_scale = local_scale
        self.prior = prior
        self.norm = norm
        self.loss = loss
        self.oracle = oracle
        self.step = step
        self.order = order
        self.mining = mining
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scoring = scoring
        self.checkpoint = checkpoint
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.memory_limit = memory_limit

    # --- fitting ---------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        triplets_val: Any = None,
    ) -> LocalHDSL:
        """Learn the similarity from labels or triplets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Labels to make triplets from; not needed with `triplets`.
        triplets : array-like of int of shape (n_triplets, 3), default=None
            Row numbers of X: the first is more like the second than like the third.
        sample_weight : array-like, default=None
            One weight per triplet where these are given, otherwise one per row, for k-means too.
        X_val, y_val, triplets_val : array-like, default=None
            Validation data, as in ``HDSL.fit``; each row is compared by the region that it is in.

        Returns
        -------
        self
        """
        return self._fit(
            X, (X_val, y_val, triplets_val), False,
            y=y, triplets=triplets, sample_weight=sample_weight,
        )  # fmt: skip

    def _supervised(self, rows: sp.csr_array, given: dict[str, Any]) -> Supervision:
        checked = Supervision.check(type(self).__name__, rows, **given)
        return replace(checked, regions=given_regions(self.regions, rows.shape[0]))

    def _check_parameters(self) -> None:
        name = type(self).__name__
        check_parameters(self)
        checks.check_word(name, "order", self.order, ORDERS)
        checks.check_number(name, "n_regions", self.n_regions, low=0, integer=True)
        checks.check_number(
            name, "local_scale", self.local_scale, low=0, strict=True, words=("auto",)
        )
        check_regions(name, self.regions)

    # --- what was learned ------------------------------------------------------------------------

    @property
    def similarity_(self) -> LocalSimilarity:  # type: ignore[override]
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "local_atoms_")
        d = self.n_features_in_
        shared = Similarity(
            self.atoms_, self.weights_, self.scale_, self.prior_, d, self.norm_, self.columns_
        )
        local = [
            Similarity(atoms, weights, self.local_scale_, 0.0, d)
            for atoms, weights in zip(self.local_atoms_, self.local_weights_, strict=True)
        ]
        return LocalSimilarity(shared, local, self.regions_)

    def region(self, X: Any) -> np.ndarray:
        """Return the region of each row of X, shape (n_rows,); -1 for none."""
        similarity = self.similarity_
        return similarity.assign(self._check(X))

    def region_names(self, feature_names: Any = None) -> list[str]:
        """Return a name for each region: the features that set its center apart.

        Regions that have no centers are numbered.
        """
        similarity = self.similarity_
        names = as_names(self._feature_names(feature_names), self.n_features_in_)
        return similarity.region_names(lambda feature: str(names[feature]))

    def matrix(self, region: int | None = None) -> Any:
        """Return M, or M + N_r of a region, as a sparse array of shape (n_features, n_features)."""
        similarity = self.similarity_
        if region is None:
            return similarity.shared.matrix()
        return similarity.of(self._check_region(region)).matrix()

    def _check_region(self, region: Any) -> int:
        checks.check_number(type(self).__name__, "region", region, low=0, integer=True)
        if region >= self.n_regions_:
            raise ValueError(f"region is {region}, but there are {self.n_regions_} regions.")
        return int(region)

    def at(self, n_iter: int) -> LocalHDSL:
        """Return the model as it was after `n_iter` iterations, from the trace, without a refit."""
        check_is_fitted(self, "local_atoms_")
        checks.check_number(type(self).__name__, "n_iter", n_iter, low=0, integer=True)
        if n_iter >= len(self.trace_):
            raise ValueError(
                f"n_iter must be an int from 0 to {len(self.trace_) - 1}. Got {n_iter!r}."
            )
        return path_module.at(self, int(n_iter), go_to)

    def transform(self, X: Any, *, region: int | None = None) -> Any:  # type: ignore[override]
        """Return rows whose dot products are the similarity inside each region.

        A row has values in the columns of its own region only, so rows of different regions are
        compared by M alone. With `region` all rows take that region: for a query x of region r,
        ``transform(x, region=r) @ transform(Y, region=r).T`` is S(x, y) for all rows of Y.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        region : int, default=None

        Returns
        -------
        array or sparse matrix, as X, of shape (n_rows, n_columns)
            The atoms of M, those of each N_r, then sqrt(prior)·X where prior > 0.
        """
        similarity, X = self.similarity_, self._check(X)
        region = None if region is None else self._check_region(region)
        Z = similarity.transform(X, region=region)
        return checks.as_user_sparse(Z) if sp.issparse(Z) else Z

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``; those of N_r start with ``r:``."""
        similarity, d = self.similarity_, self.n_features_in_
        features = self._feature_names(input_features)
        own = as_names(features, d)
        names = [atoms_module.names(similarity.shared.atoms, own)]
        for number, part in enumerate(similarity.local):
            local = [f"{number}:{name}" for name in atoms_module.names(part.atoms, own)]
            names.append(np.array(local, dtype=object))
        if similarity.prior > 0:
            names.append(np.array([own[i] for i in range(d)], dtype=object))
        return np.concatenate(names)

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        by: str = "pair",
        feature_names: Any = None,
        top: int | None = 10,
    ) -> explain_module.Explanation:
        """Return the exact additive parts of S(x, y) in the region of x, or why y rather than z.

        Parameters and result are those of ``HDSL.explain``; the title names the region.
        """
        similarity, rows = self.similarity_, {"x": x, "y": y, "rather_than": rather_than}
        checked = {name: self._check(one_row(z), name) for name, z in rows.items() if z is not None}
        names = self._feature_names(feature_names)
        region = int(similarity.assign(checked["x"])[0])
        found = explain_module.explain(
            similarity.of(region), **checked, by=by, feature_names=names, top=top
        )
        if region < 0:
            return found
        where = self.region_names(feature_names)[region]
        where = where if where == f"region {region}" else f"the region of {where}"
        return replace(found, of=f"In {where}: {found.of}")

    def importance(
        self,
        X: Any = None,
        *,
        region: int | None = None,
        min_rows: int = 2,
        feature_names: Any = None,
        top: int | None = 10,
    ) -> explain_module.Importance:
        """Return features and feature pairs by their effect, in M or in M + N_r of a region.

        The other parameters and the result are those of ``HDSL.importance``.
        """
        similarity = self.similarity_
        part = similarity.shared if region is None else similarity.of(self._check_region(region))
        X = None if X is None else self._check(X)
        names = self._feature_names(feature_names)
        return explain_module.importance(part, X, min_rows=min_rows, feature_names=names, top=top)

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, as ``HDSL.save`` does; `hdsl.load` reads it.

        Regions must have centers, as those of k-means and of an array have: a file holds no code,
        and so no other clusterer.
        """
        saving.save(self, path)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the regions as plain arrays; raise ValueError unless they have centers.

        Returns
        -------
        dict of str to ndarray
            atoms with the region first, weights, local_scale, sizes, and the centers as CSR arrays.
        """
        check_is_fitted(self, "local_atoms_")
        centers = centers_of(self.regions_)
        return {
            **parts_to_arrays(self.local_atoms_, self.local_weights_),
            "local_scale": np.array([self.local_scale_]),
            "sizes": np.asarray(self.region_sizes_, dtype=np.int64),
            **csr_to_arrays(centers, "centers"),
        }

    def take_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take what `to_arrays` returned, on a model with all other fitted attributes.

        Raises
        ------
        ValueError
            The arrays are not those of regions; the first fault is named.
        """
        d = self.n_features_in_
        scale = float(check_array(arrays, "local_scale", "f", (1,))[0])
        sizes = check_array(arrays, "sizes", "i", (None,)).astype(np.int64)
        if not 0.0 < scale < math.inf:
            raise ValueError("local_scale must be a finite number > 0")
        n = len(sizes)
        parts = parts_from_arrays(arrays, n, d)
        centers = csr_from_arrays(arrays, "centers", d)
        if centers.shape[0] != n:
            raise ValueError(f"there are {centers.shape[0]} centers, but {n} sizes of regions")
        block = self.trace_["block"] if "block" in (self.trace_.dtype.names or ()) else None
        if block is None or block.min() < 0 or block.max() > n:
            raise ValueError("the trace names a block that does not exist")
        self.regions_, self.n_regions_, self.region_sizes_ = Centers(centers), n, sizes
        self.local_scale_ = scale
        self.local_atoms_ = [atoms for atoms, _ in parts]
        self.local_weights_ = [weights for _, weights in parts]
