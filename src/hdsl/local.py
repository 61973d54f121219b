"""LocalHDSL: one similarity for all rows, and a correction per region of the space."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from . import checks, choosing, fitting, saving, supervision
from . import explain as explain_module
from .arrays import similarity_from_arrays, similarity_to_arrays
from .explain.parts import one_row
from .explain.tables import as_names
from .files.tables import csr_from_arrays, csr_to_arrays, get_array, get_value, nested, part_of
from .hdsl import HDSL
from .model import SimilarityModel
from .progress import Progress
from .similarity import Pairwise, Similarity, products
from .solver import losses
from .solver.atoms import NOTHING
from .solver.atoms import names as atom_names
from .solver.columns import drop_unused_columns
from .solver.loop import frank_wolfe
from .solver.protocols import Base
from .supervision import Mining, Supervision

if TYPE_CHECKING:
    from .cpu.workers import Workers
    from .solver.loop import Result

#: What n_regions="auto" chooses from, the simplest first.
CANDIDATES = (0, 2, 4, 8)

#: Restarts of k-means, and its largest number of iterations.
KMEANS: dict[str, Any] = {"n_init": 3, "max_iter": 100}

#: Features that name a region.
N_NAMED = 3


# --- regions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Regions:
    """Regions of the rows that are nearest to a center.

    Parameters
    ----------
    centers : csr_array of shape (n_regions, n_features)
        The means of the training rows of each region.
    """

    centers: sp.csr_array

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return self.centers.shape[0]

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row, of equally near centers the first; -1 for none."""
        if self.n_regions == 0:
            return np.full(X.shape[0], -1)
        squares = np.asarray(self.centers.multiply(self.centers).sum(axis=1)).ravel()
        return np.argmax(2.0 * products(X, self.centers) - squares, axis=1)

    def features(self, region: int) -> list[int]:
        """Return the features that set a center apart from the others, the first ones first."""
        (centers,), columns = drop_unused_columns(self.centers)
        own, mean = centers[[region]].toarray().ravel(), np.asarray(centers.mean(axis=0)).ravel()
        first = np.argsort(mean - own, kind="stable")[:N_NAMED]
        first = first[own[first] > mean[first]]
        return (first if columns is None else columns[first]).tolist()


def make_regions(
    regions: Any, n_regions: int, X: sp.csr_array, seed: int
) -> tuple[Regions, np.ndarray]:
    """Return what assigns rows to regions, and the region of each row of X.

    Parameters
    ----------
    regions : "kmeans" or ndarray of shape (n_rows,)
    n_regions : int
        For k-means; 0 is no regions, whatever `regions` is.
    X : csr_array of shape (n_rows, n_features)
        Rows as they are compared.
    seed : int
        For k-means.
    """
    if n_regions == 0:
        return Regions(sp.csr_array((0, X.shape[1]))), np.full(X.shape[0], -1)
    (narrow,), columns = drop_unused_columns(X)
    answers = regions
    if isinstance(regions, str):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct rows than regions
            kmeans = KMeans(min(n_regions, X.shape[0]), random_state=seed, **KMEANS)
            arrays = narrow.data, narrow.indices, narrow.indptr  # with indices of 32 bits
            answers = kmeans.fit(sp.csr_matrix(arrays, shape=narrow.shape)).labels_
    labels, code = np.unique(answers, return_inverse=True)
    share = 1.0 / np.bincount(code)[code]
    centers = sp.csr_array((share, (code, np.arange(X.shape[0])))) @ narrow
    centers.sort_indices()
    indices = centers.indices if columns is None else columns[centers.indices]
    arrays = centers.data, indices, centers.indptr
    return Regions(sp.csr_array(arrays, shape=(len(labels), X.shape[1]))), code


# --- the similarity ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalSimilarity(Pairwise):
    """One similarity that all regions share, and one more per region.

    The region is that of x, the query. So S is not symmetric, and queries of one region are
    compared by a plain `Similarity`, which `in_region` returns.

    Parameters
    ----------
    shared : Similarity
    local : sequence of Similarity
        One per region, without prior, of rows that come as the shared one compares them.
    regions : Regions
    """

    shared: Similarity
    local: Sequence[Similarity]
    regions: Regions

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self.shared.n_features

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row, -1 for none."""
        return self.regions.assign(self.index_rows(X))

    def in_region(self, region: int) -> Similarity:
        """Return the similarity of the queries of a region; of -1, the shared one."""
        if region < 0:
            return self.shared
        parts = (self.shared, self.local[region])
        total = sum(part.scale for part in parts)
        atoms = np.concatenate([part.atoms for part in parts])
        weights = np.concatenate([part.weights * (part.scale / total) for part in parts])
        atoms, place = np.unique(atoms, axis=0, return_inverse=True)
        weights = np.bincount(place.ravel(), weights, len(atoms))
        return replace(self.shared, atoms=atoms, weights=weights, scale=total)

    def index_rows(self, X: Any) -> Any:
        """Return rows as S compares them; their dot products with ``rewrite`` of x are S(x, y)."""
        return self.shared.index_rows(X)

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + X(M + N_r), the query side, each row by its own region."""
        assigned = self.assign(X)
        rows = [np.flatnonzero(assigned == region) for region in np.unique(assigned)]
        parts = [self.in_region(int(assigned[own[0]])).rewrite(X[own]) for own in rows]
        order = np.argsort(np.concatenate(rows), kind="stable")
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts, format="csr")[order])
        return np.concatenate(parts)[order]

    def transform(self, X: Any) -> Any:
        """Return rows whose dot products are S for rows of one region, and the shared S otherwise.

        Columns are the atoms of each region, 0 in rows of another one, then those of the shared
        part and sqrt(prior)·X.
        """
        X = self.index_rows(X)
        assigned = self.regions.assign(X)
        parts = []
        for number, part in enumerate(self.local):
            inside = (assigned == number).astype(X.dtype)[:, None]
            Z = part.transform(X)
            parts.append(sp.csr_array(Z.multiply(inside)) if sp.issparse(Z) else Z * inside)
        parts.append(replace(self.shared, norm=None, columns=None).transform(X))
        if sp.issparse(X):
            return sp.hstack([sp.csr_array(part) for part in parts], format="csr", dtype=X.dtype)
        return np.hstack(parts)


# --- the estimator -------------------------------------------------------------------------------


class LocalHDSL(SimilarityModel):
    """HDSL with a correction per region of the space.

    Learns S(x, y) = prior·⟨x, y⟩ + xᵀ(M + N_r)y, where r is the region of x, the query. M and each
    N_r are convex combinations of 0 and atoms (e_i ± e_j)(e_i ± e_j)ᵀ, with their own scales. Use
    it where feature pairs mean different things in different parts of the data. M is learned first;
    then the parts of all regions and M again, in turn. The problem is convex, so this goes toward
    the best of all.

    Parameters
    ----------
    model : HDSL or None, default=None
        Has the parameters of the fit; it is cloned. None is ``HDSL()``.
    n_regions : int >= 0 or "auto", default="auto"
        Number of regions that k-means makes; 0 is no regions, M alone. "auto" chooses 0, 2, 4 or 8
        on held-out rows: the fewest within one standard error of the best. Other regions have their
        own number.
    regions : "kmeans" or array-like of shape (n_rows,), default="kmeans"
        How rows are assigned to regions: by k-means of the rows as they are compared, or as an
        array says, such as the labels of another clusterer. New rows have the region of the nearest
        mean.
    local_scale : float > 0 or "auto", default="auto"
        λ of each N_r. "auto" is scale / sqrt(number of regions), the automatic scale for as many
        anchors as a region has on average.
    n_rounds : int >= 1, default=2
        How often the parts of regions, and then M, are learned in turn.

    Attributes
    ----------
    shared_ : HDSL
        M, with all fitted attributes of `HDSL`.
    local_ : list of Similarity
        Each N_r.
    local_scale_ : float
    regions_ : Regions
        Assigns rows, as S compares them, to regions.
    n_regions_ : int
    region_sizes_ : ndarray of shape (n_regions_,)
        Compared training rows per region.
    choice_ : dict of str to ndarray or None
        With ``n_regions="auto"``, what was tried: n_regions, score, error (its standard error).
    n_features_in_ : int
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
    >>> from hdsl import HDSL, LocalHDSL
    >>> X = np.array([[1.0, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]])
    >>> triplets = [[0, 1, 2], [1, 0, 3], [2, 0, 3], [3, 1, 2]]
    >>> shared = HDSL(scale=1.0, prior=0.0)
    >>> model = LocalHDSL(shared, regions=[0, 0, 1, 1], local_scale=9.0).fit(X, triplets=triplets)
    >>> S = model.similarity(X)
    >>> bool(S[0, 1] > S[0, 2]), bool(S[2, 0] > S[2, 3])
    (True, True)
    """

    def __init__(
        self,
        model: HDSL | None = None,
        *,
        n_regions: int | str = "auto",
        regions: Any = "kmeans",
        local_scale: float | str = "auto",
        n_rounds: int = 2,
    ) -> None:
        self.model = model
        self.n_regions = n_regions
        self.regions = regions
        self.local_scale = local_scale
        self.n_rounds = n_rounds

    def fit(
        self, X: Any, y: Any = None, *, triplets: Any = None, sample_weight: Any = None
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
            One weight per triplet where these are given, otherwise one per row.

        Returns
        -------
        self
        """
        from .cpu.workers import Workers  # compiled code is loaded by the first fit

        model = HDSL() if self.model is None else clone(self.model)
        self._check_parameters(model)
        given = {"y": y, "triplets": triplets, "sample_weight": sample_weight}
        learned = copy(self)
        learned.shared_, learned.choice_ = model.fit(X, **given), None  # type: ignore[assignment]
        run = fitting.prepare(model, X, given)
        data, rng, regions, n_regions = run.data, run.rng, self.regions, self.n_regions
        if not isinstance(regions, str):
            regions = np.asarray(regions)
            if len(regions) != data.X.shape[0]:
                raise ValueError(
                    f"regions has {len(regions)} values for {data.X.shape[0]} rows of X."
                )
        with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
            if not isinstance(regions, str):
                n_regions = 1  # they have their own number
            elif n_regions == "auto":
                n_regions = learned._choose(data, rng, workers)
                progress.say(f"{n_regions} regions")
            made, assigned = make_regions(regions, int(n_regions), data.X, _seed(rng))
            data, assigned = _compared(model, data, assigned, rng)
            path, learned.local_ = self._descend(
                model, model.scale_, data, assigned, made.n_regions, fitting.path_so_far(model),
                rng, workers,
            )  # fmt: skip
        found = fitting.Learned(path, model.scale_, model.prior_, len(data.compared), model.choice_)
        fitting.store(model, found)
        learned.regions_, learned.n_regions_ = made, made.n_regions
        learned.local_scale_ = self._local_scale(model.scale_, made.n_regions)
        learned.region_sizes_ = np.bincount(assigned[assigned >= 0], minlength=made.n_regions)
        learned._take_features(model)
        self.__dict__ = learned.__dict__
        return self

    def _local_scale(self, scale: float, n_regions: int) -> float:
        if self.local_scale != "auto":
            return float(self.local_scale)
        return scale / math.sqrt(max(n_regions, 1))

    def _descend(
        self, model: HDSL, scale: float, data: Supervision, assigned: np.ndarray, n_regions: int,
        shared: Result, rng: np.random.Generator, workers: Workers,
    ) -> tuple[Result, list[Similarity]]:  # fmt: skip
        """Return the shared part after some rounds of block coordinate descent, and each N_r.

        In a round the part of each region is learned, then the shared part, on top of the others;
        each makes the mean loss smaller. `data` has comparisons, `assigned` is the region of each
        row, -1 for none, and `shared` is where the shared part begins. A region without comparisons
        has no atoms.
        """
        local, prior = self._local_scale(scale, n_regions), model.prior_

        def laid_out(part: Supervision, columns: np.ndarray | None = None) -> Any:
            given = part.X, part.compared, part.compared_weights
            return fitting.make_layout(model, *given, workers, columns)

        def solve(problem: Any, max_iter: int, earlier: Result | None) -> Result:
            how = fitting.solver(model, replace(data, y=None), max_iter)  # comparisons alone
            return frank_wolfe(problem, *how, rng=rng, earlier=earlier)

        data = data.with_compared(np.argsort(data.compared[:, 0], kind="stable"))  # as in layouts
        region = assigned[data.compared[:, 0]]
        inside = {r: region == r for r in np.unique(region[region >= 0]).tolist()}
        layouts = {r: laid_out(data.with_compared(own)) for r, own in inside.items()}
        parts: dict[int, Result] = {}
        loss, n_more = losses.checked(losses.get(model.loss)), fitting.n_steps(model)
        if inside:
            whole = laid_out(data, np.unique(shared.atoms[:, :2]))
        for done in range(1, self.n_rounds + 1 if inside else 1):
            base = Base(shared.atoms, scale * shared.weights)
            offset = np.zeros(len(region))
            for r, layout in layouts.items():
                problem = layout.problem(loss, local, prior, base)
                parts[r] = solve(problem, n_more * done, parts.get(r))
                own = Base(parts[r].atoms, local * parts[r].weights)
                offset[inside[r]] = layout.problem(loss, scale, prior, own).margins(*NOTHING)
            problem = whole.problem(loss, scale, prior)
            problem.offset = offset
            shared = solve(problem, shared.n_iter + n_more, shared)
        pairs = {r: (part.atoms, part.weights) for r, part in parts.items()}
        every = [pairs.get(r, NOTHING) for r in range(n_regions)]
        return shared, [Similarity(*pair, local, 0.0, data.X.shape[1]) for pair in every]  # type: ignore[call-arg]

    def _choose(self, data: Supervision, rng: np.random.Generator, workers: Workers) -> int:
        """Return the number of regions that held-out rows speak for; 0 where these are too few."""
        model = self.shared_
        tried: list[list[choosing.Score]] = [[] for _ in CANDIDATES]
        for part in choosing.make_parts(model, data, None, rng):
            fits = fitting.Fits(model, part.train, rng, workers)
            path = fits.solve(model.prior_, fitting.n_steps(model), None, None)
            for scores, n_regions in zip(tried, CANDIDATES, strict=True):
                made, assigned = make_regions("kmeans", n_regions, part.train.X, _seed(rng))
                found, local = self._descend(
                    model, fits.scale, part.train, assigned, made.n_regions, path, rng, workers
                )
                shared = fits.similarity(found.atoms, found.weights, model.prior_)
                scores.append(part.judge(LocalSimilarity(shared, local, made)))  # type: ignore[arg-type]
        if not tried[0]:
            return 0
        joined = [
            choosing.Score(*map(np.concatenate, zip(*scores, strict=True))) for scores in tried
        ]
        self.choice_ = {
            "n_regions": np.array(CANDIDATES),
            "score": np.array([score.units.mean() for score in joined]),
            "error": np.array([choosing.standard_error(score.units) for score in joined]),
        }
        return CANDIDATES[choosing.simplest(joined, joined[0])[1]]

    def _check_parameters(self, model: Any) -> None:
        name, number = type(self).__name__, checks.check_number
        number(name, "n_regions", self.n_regions, low=0, integer=True, words=("auto",))
        number(name, "local_scale", self.local_scale, low=0, strict=True, words=("auto",))
        number(name, "n_rounds", self.n_rounds, low=1, integer=True)
        if getattr(model, "device", None) != "cpu" or model.init != "zero":
            raise ValueError(
                f"The 'model' parameter of {name} must be an HDSL with device='cpu' and "
                f"init='zero'. Got {model!r} instead."
            )
        if isinstance(self.regions, str) or np.ndim(self.regions) != 1:
            also = " or an array of the region of each row"
            checks.check_word(name, "regions", self.regions, ("kmeans",), also=also)

    def _take_features(self, shared: HDSL) -> None:
        self.n_features_in_ = shared.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(shared, "feature_names_in_"):
            self.feature_names_in_ = shared.feature_names_in_

    # --- what was learned ------------------------------------------------------------------------

    @property
    def similarity_(self) -> LocalSimilarity:  # type: ignore[override]
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "local_")
        return LocalSimilarity(self.shared_.similarity_, self.local_, self.regions_)

    def region(self, X: Any) -> np.ndarray:
        """Return the region of each row of X, shape (n_rows,); -1 for none."""
        similarity = self.similarity_
        return similarity.assign(self._check(X))

    def region_names(self, feature_names: Any = None) -> list[str]:
        """Return a name for each region: the features that set its center apart."""
        check_is_fitted(self, "local_")
        names = as_names(self._feature_names(feature_names), self.n_features_in_)
        named = [self.regions_.features(region) for region in range(self.n_regions_)]
        return [
            ", ".join(str(names[f]) for f in features) or f"region {region}"
            for region, features in enumerate(named)
        ]

    def matrix(self, region: int | None = None) -> Any:
        """Return M, or M + N_r of a region, as a sparse array of shape (n_features, n_features)."""
        return self._in_region(region).matrix()

    def _in_region(self, region: int | None) -> HDSL:
        """Return a model of M + N_r; of M where the region is None or -1."""
        similarity, part = self.similarity_, copy(self.shared_)
        checks.check_number(
            type(self).__name__, "region", region, low=-1, integer=True, high=self.n_regions_,
            words=(None,),
        )  # fmt: skip
        found = similarity.in_region(-1 if region is None else int(region))
        part.atoms_, part.weights_, part.scale_ = found.atoms, found.weights, found.scale
        return part

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``; those of N_r start with ``r:``."""
        similarity, d = self.similarity_, self.n_features_in_
        own = as_names(self._feature_names(input_features), d)
        names = [
            f"{number}:{name}"
            for number, part in enumerate(similarity.local)
            for name in atom_names(part.atoms, own)
        ]
        shared = self.shared_.get_feature_names_out(input_features)
        return np.concatenate([np.array(names, dtype=object), shared])

    def explain(self, x: Any, y: Any, **options: Any) -> explain_module.Explanation:
        """Return the exact additive parts of S(x, y) in the region of x, or why y rather than z.

        Parameters and result are those of ``HDSL.explain``; the title names the region.
        """
        region = int(self.region(one_row(x))[0])
        found = self._in_region(region).explain(x, y, **options)
        if region < 0:
            return found
        where = self.region_names(options.get("feature_names"))[region]
        return replace(found, of=f"In region {region} ({where}): {found.of}")

    def importance(
        self, X: Any = None, *, region: int | None = None, **options: Any
    ) -> explain_module.Importance:
        """Return features and feature pairs by their effect, in M or in M + N_r of a region.

        The other parameters and the result are those of ``HDSL.importance``.
        """
        return self._in_region(region).importance(X, **options)

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, as ``HDSL.save`` does; `hdsl.load` reads it."""
        saving.save(self, path)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what was learned as plain arrays, and what is no array."""
        check_is_fitted(self, "local_")
        parts = {str(r): similarity_to_arrays(part) for r, part in enumerate(self.local_)}
        parts["shared"] = self.shared_.to_arrays()
        arrays = nested(**{name: part for name, (part, _) in parts.items()})
        arrays["sizes"] = np.asarray(self.region_sizes_, dtype=np.int64)
        arrays |= csr_to_arrays(self.regions_.centers, "centers")
        header: dict[str, Any] = {name: part for name, (_, part) in parts.items()}
        return arrays, {**header, "local_scale": float(self.local_scale_)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> LocalHDSL:
        """Return the model that `to_arrays` was called on.

        Raises
        ------
        ValueError
            Arrays and header are not those of such a model; the first fault is named.
        """
        shared = HDSL.from_arrays(part_of(arrays, "shared"), get_value(header, "shared", dict))
        regions = Regions(csr_from_arrays(arrays, "centers", shared.n_features_in_))
        self = cls(clone(shared), n_regions=regions.n_regions)
        self.local_ = [
            similarity_from_arrays(part_of(arrays, str(r)), get_value(header, str(r), dict))
            for r in range(regions.n_regions)
        ]
        if any(part.n_features != shared.n_features_in_ for part in self.local_):
            raise ValueError("the parts of regions have another number of features")
        self.shared_, self.regions_, self.n_regions_ = shared, regions, regions.n_regions
        self.region_sizes_ = get_array(arrays, "sizes", "i", (self.n_regions_,))
        self.local_scale_ = get_value(header, "local_scale", float)
        self.choice_ = None  # type: ignore[assignment]
        self._take_features(shared)
        return self


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))


def _compared(
    model: HDSL, data: Supervision, assigned: np.ndarray, rng: np.random.Generator
) -> tuple[Supervision, np.ndarray]:
    """Return rows with comparisons, and the regions of these rows."""
    how = Mining.of(model)
    if data.compared is None and not callable(how.mining):
        rows = supervision.sample_rows(how, data, rng)
        if rows is not None:
            data, assigned = data.take(rows), assigned[rows]
    return supervision.compare(how._replace(max_anchors=None), data, rng), assigned
