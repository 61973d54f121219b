"""LocalHDSL: one similarity for all rows, and a correction per region of the space."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from hdsl import HDSL, Solver
from hdsl.evaluate.choose import PartModels, Scores
from hdsl.evaluate.gains import best_of
from hdsl.evaluate.parts import make_parts
from hdsl.explain.parts import one_row
from hdsl.explain.tables import as_names
from hdsl.fit.layouts import PartFitter
from hdsl.fit.path import keep_checkpoint
from hdsl.fit.road import Fit, FitInput
from hdsl.input.errors import ParameterError, short
from hdsl.input.estimators import replace_fitted
from hdsl.input.labels import is_missing
from hdsl.input.matrices import canonical, narrow
from hdsl.input.parameters import check_number, generator
from hdsl.model import SimilarityModel
from hdsl.progress import Progress
from hdsl.similarity import FixedPart, Similarity
from hdsl.similarity.cosine import COSINE, Pairwise
from hdsl.similarity.products import products, row_products
from hdsl.solver.atoms import NOTHING
from hdsl.solver.atoms import names as atom_names
from hdsl.wide_matrices import drop_unused_columns

if TYPE_CHECKING:
    from hdsl.explain import Explanation, Importance
    from hdsl.solver.loop import Result
    from hdsl.supervision.compared_rows import ComparedRows, Supervision

#: What n_regions="auto" chooses from, the simplest first.
CANDIDATES = (0, 2, 4, 8)

#: Features that name a region.
N_NAMED = 3


# --- the similarity -------------------------------------------------------------------


def make_regions(
    regions: Any, X: sp.csr_array, rng: np.random.Generator
) -> tuple[sp.csr_array, np.ndarray]:
    """Return the center of each region, the mean of its rows, and each row's region.

    Parameters
    ----------
    regions : int or ndarray of shape (n_rows,)
        Number of regions that k-means makes, or the region of each row. With 0 all rows
        are in region -1, which has no center.
    X : csr_array of shape (n_rows, n_features)
        Rows as they are compared.
    rng : numpy.random.Generator
        Seeds k-means.
    """
    seed = int(rng.integers(2**31 - 1))
    if np.ndim(regions) == 0 and regions == 0:
        return sp.csr_array((0, X.shape[1])), np.full(X.shape[0], -1)
    if np.ndim(regions) == 0:
        regions = _clusters(X, regions, seed)
    _, assigned = np.unique(regions, return_inverse=True)
    shares = 1.0 / np.bincount(assigned)
    region = np.repeat(assigned, np.diff(X.indptr))  # of each value
    shape = (len(shares), X.shape[1])
    centers = sp.csr_array((X.data * shares[region], (region, X.indices)), shape=shape)
    return centers, assigned


def _clusters(X: sp.csr_array, n_regions: int, seed: int) -> np.ndarray:
    """Return the region of each row, by k-means."""
    (used,), _ = drop_unused_columns(X)
    n_clusters = min(n_regions, X.shape[0])
    kmeans = KMeans(n_clusters, random_state=seed, n_init=3, max_iter=100)
    with warnings.catch_warnings(action="ignore"):
        # There may be fewer distinct rows than regions.
        return kmeans.fit_predict(narrow(used))


@dataclass(frozen=True)
class LocalSimilarity(Pairwise):
    """One similarity that all regions share, and one more per region.

    The region is that of x, the query, so S is not symmetric.

    Parameters
    ----------
    shared : Similarity
    local : sequence of Similarity
        One per region, without prior, of rows that come as the shared one compares
        them.
    centers : csr_array of shape (n_regions, n_features)
        A row is in the region of the nearest one.
    """

    shared: Similarity
    local: Sequence[Similarity]
    centers: sp.csr_array

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self.shared.n_features

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row, of equally near ones the first; -1 for none."""
        if not self.local:
            return np.full(X.shape[0], -1)
        nearness = 2.0 * products(self.index_rows(X), self.centers)
        return np.argmax(nearness - row_products(self.centers, self.centers), axis=1)

    def index_rows(self, X: Any) -> Any:
        """Return rows as S compares them: ``rewrite`` of x times these is S(x, y)."""
        return self.shared.index_rows(X)

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + X(M + N_r), the query side, each row by its own region."""
        total = self.shared.rewrite(X)
        for correction, inside in self._by_region(X):
            total = total + correction.rewrite(inside)
        return total

    def transform(self, X: Any) -> Any:
        """Return rows whose dot products are S in a region, and the shared S elsewhere.

        Columns are the atoms of each region, 0 in rows of another one, then those of
        the shared part and sqrt(prior)·X.
        """
        blocks = [
            correction.transform(inside) for correction, inside in self._by_region(X)
        ]
        blocks.append(self.shared.transform(X))
        if sp.issparse(X):
            return sp.hstack(blocks, format="csr")
        return np.hstack(blocks)

    def _by_region(self, X: Any) -> Iterator[tuple[Similarity, Any]]:
        """Yield the correction of each region, and rows as compared, 0 in others."""
        rows = self.index_rows(X)
        assigned = self.assign(X)
        for region, correction in enumerate(self.local):
            is_inside = (assigned == region)[:, None]
            if sp.issparse(rows):
                yield correction, canonical(rows.multiply(is_inside))
            else:
                yield correction, rows * is_inside


# --- fits of regions ------------------------------------------------------------------


class RegionFitter:
    """Fits of the part of one region, on top of the shared part.

    Parameters
    ----------
    whole : PartFitter
        Of all comparisons.
    chosen : ndarray of int
        The numbers of the comparisons that count in the region; it may have none.
    scale : float
        λ of the part.
    """

    def __init__(self, whole: PartFitter, chosen: np.ndarray, scale: float) -> None:
        self.chosen = chosen
        self.data = whole.data.with_compared(chosen)
        self.fits: PartFitter | None = None
        if len(chosen):
            self.fits = whole.with_data(self.data)
        self.path: Result | None = None
        nothing_fixed = (FixedPart("prior", 0.0),)
        n_features = whole.data.X.shape[1]
        self.similarity = Similarity(*NOTHING, scale, nothing_fixed, n_features)

    def learn(self, shared: Similarity, prior: float, max_iter: int) -> None:
        """Learn the part of the region, on top of a shared one, up to an iteration."""
        fits = self.fits
        assert fits is not None  # a region without comparisons learns nothing
        problem = fits.layout.problem(
            fits.loss,
            self.similarity.scale,
            prior,
            other_margins=learned_margins(shared, self.data),
        )
        self.path = fits.follow(problem, max_iter, self.path)
        self.similarity = replace(
            self.similarity, atoms=self.path.atoms, weights=self.path.weights
        )

    def margins(self) -> np.ndarray:
        """Return the margins of the part of the region."""
        return learned_margins(self.similarity, self.data)


def learned_margins(similarity: Similarity, data: ComparedRows) -> np.ndarray:
    """Return the margins of the learned part of a similarity, one per triplet."""
    Z = similarity.learned(data.X)
    anchors, positives, negatives = data.compared.T
    to_positives = row_products(Z[anchors], Z[positives])
    to_negatives = row_products(Z[anchors], Z[negatives])
    return to_positives - to_negatives


def _comparisons_by_region(
    data: ComparedRows, assigned: np.ndarray, n_regions: int
) -> list[np.ndarray]:
    """Return the numbers of the comparisons whose anchor is in each region."""
    region = assigned[data.compared[:, 0]]
    if data.weights is not None:
        region[data.weights == 0] = -1  # they count for nothing
    return [np.flatnonzero(region == number) for number in range(n_regions)]


class Descent(NamedTuple):
    """The shared part, all parts together, and the region of each row."""

    shared: Result
    similarity: LocalSimilarity
    assigned: np.ndarray


# --- the estimator --------------------------------------------------------------------


class LocalHDSL(SimilarityModel):
    """HDSL with a correction per region of the space.

    Learns S(x, y) = prior·⟨x, y⟩ + xᵀ(M + N_r)y, where r is the region of x, the query.
    M and each N_r are convex combinations of 0 and atoms (e_i ± e_j)(e_i ± e_j)ᵀ, with
    their own scales. Use it where feature pairs mean different things in different
    parts of the data. M is learned first; then the parts of all regions and M again, in
    turn. The problem is convex, so this goes toward the best of all. Dot products of
    ``transform`` are S for two rows of one region, and the shared S otherwise;
    ``similarity`` and ``rewrite`` give S of any two.

    Parameters
    ----------
    model : HDSL or None, default=None
        Has the parameters of the fit; it is cloned. None is ``HDSL()``.
    n_regions : int >= 0 or "auto", default="auto"
        Number of regions that k-means makes; 0 is no regions, M alone. "auto" chooses
        0, 2, 4 or 8 on held-out rows: the fewest within one standard error of the best.
        Other regions have their own number.
    regions : "kmeans" or array-like of shape (n_rows,), default="kmeans"
        How rows are assigned to regions: by k-means of the rows as they are compared,
        or as an array says, such as the labels of another clusterer. New rows have the
        region of the nearest mean.
    local_scale : float > 0 or "auto", default="auto"
        λ of each N_r. "auto" is scale / sqrt(number of regions), the automatic scale
        for as many anchors as a region has on average.
    n_rounds : int >= 1, default=2
        How often the parts of regions, and then M, are learned in turn.

    Attributes
    ----------
    shared_ : HDSL
        M, with all fitted attributes of `HDSL`.
    local_ : list of Similarity
        Each N_r, with its scale.
    centers_ : csr_array of shape (n_regions_, n_features_in_)
        The means of the training rows of each region, as S compares them.
    n_regions_ : int
    region_sizes_ : ndarray of shape (n_regions_,)
        Compared training rows per region.
    choice_ : dict of str to ndarray or None
        With ``n_regions="auto"``, what was tried: n_regions, score on held-out data
        with its standard error, and which was chosen.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X has string column names.

    Notes
    -----
    S is not symmetric: S(x, y) is by the region of x. The learned cosine divides by the
    lengths of both rows, each by its own region.

    Examples
    --------
    Features 0 and 1 mean the same in the rows that have feature 2, and the opposite in
    the others.

    >>> import numpy as np
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
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        callback: Any = None,
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
        checkpoint, callback
            As in ``HDSL.fit``.

        Returns
        -------
        self
        """
        from hdsl.cpu.workers import Workers  # compiled code is loaded by the first fit

        model = HDSL()
        if self.model is not None:
            model = clone(self.model)
        self._check_parameters(model)
        given = FitInput(
            X,
            y,
            triplets,
            sample_weight=sample_weight,
            checkpoint=checkpoint,
            callback=callback,
        )
        fit = Fit(model, given, continues=False)
        regions = self._checked_regions(n_rows=fit.data.X.shape[0])
        learned = copy(self)
        shared = fit.fitted
        rng = generator(model.random_state)
        learned.choice_ = None
        with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
            fit.lay_out(workers, progress)
            fit.solve(progress)
            if fit.result.status == "interrupted":  # no region has its part yet
                if fit.checkpoint is not None:
                    fit.checkpoint.flush()
                raise KeyboardInterrupt
            progress.stage("learning the parts of regions")
            whole = PartFitter(fit.parameters, fit.compared, rng, workers)
            prior = fit.settings.prior
            if isinstance(regions, str):
                regions, learned.choice_ = self._choose(whole, fit.data, prior)
                progress.say(f"{regions} regions")
            elif np.ndim(regions) and fit.compared.rows is not None:
                regions = regions[fit.compared.rows]
            descent = self._descend(whole, regions, fit.result, prior)
        fit.result = descent.shared
        fit.write()
        shared.memory_ = None
        keep_checkpoint(shared, fit.checkpoint)
        learned.shared_ = shared
        learned.local_ = descent.similarity.local
        learned.centers_ = descent.similarity.centers
        learned.n_regions_ = len(descent.similarity.local)
        inside = descent.assigned[descent.assigned >= 0]
        learned.region_sizes_ = np.bincount(inside, minlength=learned.n_regions_)
        replace_fitted(self, learned)
        return self

    def _check_parameters(self, model: Any) -> None:
        """Raise ValueError unless each parameter is within its limits."""
        name = type(self).__name__
        check_number(
            name, "n_regions", self.n_regions, low=0, integer=True, words=("auto",)
        )
        check_number(
            name, "local_scale", self.local_scale, low=0, strict=True, words=("auto",)
        )
        check_number(name, "n_rounds", self.n_rounds, low=1, integer=True)
        is_right = isinstance(model, HDSL) and model.device == "cpu"
        if not is_right or Solver.of(model.solver).init != "zero":
            wanted = "an HDSL with device='cpu' and Solver(init='zero')"
            raise ParameterError(name, "model", wanted, repr(model))

    def _checked_regions(self, n_rows: int) -> Any:
        """Return the number of regions, "auto", or the region of each row."""
        if np.array_equal(self.regions, "kmeans"):
            return self.n_regions
        regions = np.asarray(self.regions)
        if regions.shape != (n_rows,) or any(map(is_missing, regions.tolist())):
            wanted = f"'kmeans' or an array with the region of each of {n_rows} rows"
            raise ParameterError(type(self).__name__, "regions", wanted, short(regions))
        return regions

    def _descend(
        self, whole: PartFitter, regions: Any, shared: Result, prior: float
    ) -> Descent:
        """Return the shared part after block coordinate descent, and all parts.

        In a round the part of each region is learned, then the shared part, on top of
        the others; each makes the mean loss smaller. `regions` are as in
        `make_regions`, and `shared` is where the shared part begins. A region without
        comparisons has no atoms.
        """
        centers, assigned = make_regions(regions, whole.data.X, whole.rng)
        scale = self._scale_of_regions(whole, centers)
        regional = [
            RegionFitter(whole, chosen, scale)
            for chosen in _comparisons_by_region(whole.data, assigned, centers.shape[0])
        ]
        compared = [region for region in regional if region.fits is not None]
        n_more = whole.model.n_iterations
        n_rounds = self.n_rounds
        if not compared:
            n_rounds = 0
        for n_round in range(n_rounds):
            similarity = whole.similarity(shared.atoms, shared.weights, prior)
            other_margins = np.zeros(len(whole.data.compared))
            for region in compared:
                region.learn(similarity, prior, (n_round + 1) * n_more)
                other_margins[region.chosen] = region.margins()
            problem = whole.layout.problem(
                whole.loss, whole.scale, prior, other_margins=other_margins
            )
            shared = whole.follow(problem, shared.n_iter + n_more, shared)
        similarity = whole.similarity(shared.atoms, shared.weights, prior)
        local = [region.similarity for region in regional]
        everywhere = LocalSimilarity(similarity, local, centers)
        return Descent(shared, everywhere, assigned)

    def _scale_of_regions(self, whole: PartFitter, centers: sp.csr_array) -> float:
        """Return λ of the part of each region."""
        if self.local_scale == "auto":
            return whole.scale / max(centers.shape[0], 1) ** 0.5
        return float(self.local_scale)

    def _choose(
        self, whole: PartFitter, data: Supervision, prior: float
    ) -> tuple[int, Any]:
        """Return the number of regions that held-out rows choose, and what was tried.

        It is 0 where these are too few.
        """
        model = whole.model
        runs = []
        for part in make_parts(model, data, None, whole.rng):
            fits = whole.with_data(part.train)
            path = fits.solve(prior, model.n_iterations, None, None)
            models = {
                n_regions: self._descend(fits, n_regions, path, prior).similarity
                for n_regions in CANDIDATES
            }
            runs.append(PartModels(part, models))
        if not runs:
            return 0, None
        scores: Scores[int] = Scores.of(runs)
        for n_regions in CANDIDATES:
            scores.add(n_regions, runs, (COSINE,))
        keys = [(n_regions, COSINE) for n_regions in CANDIDATES]
        chosen = 1 + best_of(scores.gains(keys[1:], keys[0]))
        tried = {
            "n_regions": np.array(CANDIDATES),
            "score": np.array([scores.mean(*key) for key in keys]),
            "error": np.array([scores.error(*key) for key in keys]),
            "chosen": np.arange(len(CANDIDATES)) == chosen,
        }
        return CANDIDATES[chosen], tried

    # --- what was learned -------------------------------------------------------------

    @property
    def similarity_(self) -> LocalSimilarity:  # type: ignore[override]
        """The learned similarity as a plain value, free of the estimator."""
        check_is_fitted(self, "local_")
        return LocalSimilarity(self.shared_.similarity_, self.local_, self.centers_)

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """Number of features of the rows given to ``fit``."""
        return self.shared_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, where the rows given to ``fit`` had some."""
        return self.shared_.feature_names_in_

    def region(self, X: Any) -> np.ndarray:
        """Return the region of each row of X, shape (n_rows,); -1 for none."""
        return self.similarity_.assign(self._check(X))

    def region_names(self, feature_names: Any = None) -> list[str]:
        """Return a name for each region: the features that set its center apart."""
        (centers,), columns = drop_unused_columns(self.similarity_.centers)
        names = as_names(self._feature_names(feature_names), self.n_features_in_)
        mean = centers.sum(axis=0) / max(self.n_regions_, 1)
        if columns is None:
            columns = np.arange(centers.shape[1])
        region_names = []
        for region in range(self.n_regions_):
            excess = centers[[region]].toarray().ravel() - mean
            first = np.argsort(-excess, kind="stable")[:N_NAMED]
            features = columns[first[excess[first] > 0]]
            if len(features):
                region_names.append(", ".join(str(names[k]) for k in features))
            else:
                region_names.append(f"region {region}")
        return region_names

    def matrix(self, region: int = -1) -> Any:
        """Return M, or M + N_r of a region, as a sparse array.

        It has the shape (n_features, n_features).
        """
        return self._in_region(region).matrix()

    def _in_region(self, region: int) -> HDSL:
        """Return a model of M + N_r; of M where the region is -1."""
        similarity = self.similarity_
        model = copy(self.shared_)
        n = self.n_regions_
        check_number("LocalHDSL", "region", region, low=-1, integer=True, high=n)
        if region >= 0:
            shared = similarity.shared
            local = similarity.local[region]
            factors = np.append(
                shared.scale * shared.weights, local.scale * local.weights
            )
            atoms = np.concatenate([shared.atoms, local.atoms])
            model.atoms_, number = np.unique(atoms, axis=0, return_inverse=True)
            model.scale_ = shared.scale + local.scale
            model.weights_ = np.bincount(number.ravel(), factors / model.scale_)
        return model

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name per column of ``transform``; those of N_r start with ``r:``."""
        features = as_names(self._feature_names(input_features), self.n_features_in_)
        names = [
            f"{r}:{name}"
            for r, correction in enumerate(self.similarity_.local)
            for name in atom_names(correction.atoms, features)
        ]
        shared = self.shared_.get_feature_names_out(input_features)
        return np.concatenate([np.array(names, dtype=object), shared])

    def explain(self, x: Any, y: Any, **options: Any) -> Explanation:
        """Return the exact additive parts of S(x, y) in the region of x.

        Or why y rather than z. Parameters and result are those of ``HDSL.explain``; the
        title names the region.
        """
        region = int(self.region(one_row(x))[0])
        explanation = self._in_region(region).explain(x, y, **options)
        if region < 0:
            return explanation
        name = self.region_names(options.get("feature_names"))[region]
        title = f"In region {region} ({name}): {explanation.of}"
        return replace(explanation, of=title)

    def importance(
        self, X: Any = None, *, region: int = -1, **options: Any
    ) -> Importance:
        """Return features and feature pairs by their effect, in M or in M + N_r.

        The other parameters and the result are those of ``HDSL.importance``.
        """
        return self._in_region(region).importance(X, **options)

    def report(self, *args: Any, **options: Any) -> None:
        """Raise ValueError: the page of a model shows one similarity."""
        raise ValueError(
            "A report shows one similarity, but LocalHDSL has one per region: use "
            "importance(region=...) and explain."
        )
