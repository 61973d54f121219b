"""Random inputs: matrices, comparisons, atoms, and problems built twice, dense and sparse."""

from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product

import hypothesis.strategies as st
import numpy as np
import scipy.sparse as sp
from hypothesis.extra.numpy import arrays

import reference
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.similarity import FixedPart
from hdsl.solver import losses
from hdsl.solver.protocols import Layout, Problem

LOSSES = sorted(reference.LOSSES)
INTEGERS = st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0])  # sums are exact and often tie
FLOATS = st.floats(0.01, 3.0) | st.floats(-3.0, -0.01)
SCALES = st.sampled_from([0.1, 1.0, 10.0, 100.0]) | st.floats(0.1, 100.0)
PRIORS = st.just(0.0) | st.sampled_from([0.01, 0.5, 3.0])


@dataclass(frozen=True)
class Twin:
    """One problem twice; `dense` uses the features and the order of comparisons of `ours`."""

    X: np.ndarray
    triplets: np.ndarray
    weights: np.ndarray | None
    ours: Problem = field(repr=False)
    dense: reference.Problem
    layout: Layout = field(repr=False)

    def inside(self, atoms):
        """Return atoms on columns of X as atoms on the features of the two problems."""
        position = np.full(self.X.shape[1], -1)
        position[self.layout.features] = np.arange(self.layout.n_features)
        ends = position[atoms[:, :2]]
        assert (ends >= 0).all()
        return np.column_stack([np.sort(ends, axis=1), atoms[:, 2]])


def make_twin(
    X,
    triplets,
    loss="smoothed_hinge",
    scale=1.0,
    prior=0.0,
    weights=None,
    n_jobs=1,
    layout=None,
):
    """Build a problem both ways from dense X and triplets or quadruplets in any order.

    `layout` is the class, or a partial of it; the CPU's where it is None.
    """
    X = np.asarray(X, dtype=float)
    triplets = np.asarray(triplets)
    order = np.argsort(triplets[:, 0], kind="stable")
    ordered_weights = None
    if weights is not None:
        weights = np.asarray(weights, dtype=float)
        ordered_weights = weights[order]
    layout = layout or partial(CPULayout, workers=Workers(n_jobs))
    layout = layout(sp.csr_array(X), triplets, weights)
    ours = layout.problem(losses.get(loss), scale, prior)
    dense = reference.Problem(
        X[:, layout.features],
        triplets[order],
        loss,
        scale,
        prior,
        ordered_weights,
    )
    return Twin(X, triplets, weights, ours, dense, layout)


def random_arrays(seed, n=10, d=8, T=30, density=0.5):
    """Return X with rows of length 1, no empty column and few ties, and random triplets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[rng.integers(n, size=d), np.arange(d)] += 1.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    others = np.array([rng.choice(n, size=2, replace=False) for _ in range(T)])
    triplets = np.column_stack([rng.integers(n, size=T), others])
    # The order of CPULayout: feature numbers are then column numbers.
    layout = CPULayout(sp.csr_array(X), triplets, workers=Workers(1))
    return X[:, np.append(layout.features, np.flatnonzero(~X.any(axis=0)))], triplets


def random_twin(seed, *, n=10, d=8, T=30, density=0.5, **parameters):
    """Build a well-scaled problem both ways from a seed."""
    return make_twin(*random_arrays(seed, n, d, T, density), **parameters)


@st.composite
def matrices(draw, elements=None, min_features=2, max_features=12):
    """Dense arrays, mostly zeros: empty rows and columns, equal rows and columns, negatives."""
    n = draw(st.integers(2, 10))
    d = draw(st.integers(min_features, max_features))
    if elements is None:
        elements = draw(st.sampled_from([INTEGERS, FLOATS]))
    X = draw(arrays(np.float64, (n, d), elements=elements, fill=st.just(0.0)))
    if draw(st.booleans()):
        X = X[draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))]
    if draw(st.booleans()):
        X = X[:, draw(st.lists(st.integers(0, d - 1), min_size=d, max_size=d))]
    if X.any(axis=0).sum() < min_features:  # validation requires two
        X[0, :min_features] = 1.0
    return X


@cache
def every_comparison(n, width):
    """Return all triplets or quadruplets of n rows; to draw one number of a row of them is fast."""
    if width == 3:
        every = [t for t in product(range(n), repeat=3) if t[1] != t[2]]
    else:
        every = [q for q in product(range(n), repeat=4) if {*q[:2]} != {*q[2:]}]
    return np.array(every)


@st.composite
def triplets(draw, n, sizes=None, width=3):
    """Triplets of n rows: duplicates, a row as its own positive or negative; never p = q."""
    every = every_comparison(n, width)
    if sizes is None:
        sizes = st.integers(1, 30)
    size = draw(sizes)
    number = st.integers(0, len(every) - 1)
    return every[draw(st.lists(number, min_size=size, max_size=size))]


def quadruplets(n, sizes=None):
    """Quadruplets of n rows: duplicates, pairs of a row with itself; never twice the same pair."""
    return triplets(n, sizes, width=4)


def comparisons(n, sizes=None):
    """Triplets or quadruplets of n rows."""
    return triplets(n, sizes) | quadruplets(n, sizes)


@st.composite
def atoms(draw, d):
    """One atom on d features."""
    i = draw(st.integers(0, d - 2))
    return i, draw(st.integers(i + 1, d - 1)), draw(st.sampled_from([1, -1]))


@st.composite
def models(draw, d):
    """Distinct atoms, shape (k, 3), and their weights, which sum to 1."""
    chosen = draw(st.lists(atoms(d), min_size=1, max_size=5, unique=True))
    k = len(chosen)
    raw = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=k, max_size=k)))
    return np.array(chosen), raw / raw.sum()


@st.composite
def fixed_parts(draw, d):
    """The plain dot product of d columns, alone or of the first of them beside another part.

    The other part is sparse or, where two columns are left for atoms, perhaps dense.
    """
    cut = draw(st.none() | st.integers(1, d - 1))
    prior = FixedPart("prior", draw(PRIORS), stop=cut)
    if cut is None:
        return (prior,)
    by_feature = cut < 2 or draw(st.booleans())
    other = FixedPart("meaning", draw(PRIORS), start=cut, by_feature=by_feature)
    return (prior, other)


def models_beside(fixed, d):
    """Atoms and weights of the columns that are in no dense part."""
    n_paired = d if fixed[-1].by_feature else fixed[-1].start
    return models(n_paired)


@st.composite
def directions_beside(draw, fixed, d):
    """None, or up to three rows of V that are learned in the columns of a dense part."""
    if fixed[-1].by_feature:
        return None
    shape = (draw(st.integers(0, 3)), d - fixed[-1].start)
    return draw(st.none() | arrays(np.float64, shape, elements=INTEGERS | FLOATS))


@st.composite
def triplet_weights(draw, T):
    """No weights, or T positive ones."""
    weight = st.sampled_from([1.0, 2.0, 3.0]) | st.floats(0.1, 5.0)
    return draw(st.none() | st.lists(weight, min_size=T, max_size=T))


@st.composite
def twins(draw, loss=LOSSES, layout=None, compared=triplets):
    """Problems built both ways, with this loss or one of a list of them."""
    X = draw(matrices())
    T = draw(compared(len(X)))
    if isinstance(loss, list):
        loss = draw(st.sampled_from(loss))
    weights = draw(triplet_weights(len(T)))
    return make_twin(X, T, loss, draw(SCALES), draw(PRIORS), weights, layout=layout)


@st.composite
def exact_twins(draw, max_features=12, layout=None, compared=triplets):
    """Problems whose scores at M = 0 have no rounding errors, so equal scores are exact ties."""
    X = draw(matrices(elements=INTEGERS, max_features=max_features))
    T = draw(compared(len(X), sizes=st.sampled_from([1, 2, 4, 8, 16])))
    return make_twin(X, T, layout=layout)


@st.composite
def twins_with_margins(draw):
    """A problem both ways, and the margins of a random model of it."""
    twin = draw(twins())
    model = draw(models(twin.dense.d))
    return twin, twin.dense.margins(*model)


@st.composite
def subsets(draw, T):
    """Sorted positions of some of T comparisons, each at most once."""
    chosen = draw(st.sets(st.integers(0, T - 1), min_size=1))
    return np.array(sorted(chosen))


# --- hard inputs ----------------------------------------------------------------------

#: Powers of ten, for the values of a matrix or for one entry.
EXPONENTS = st.just(0) | st.sampled_from([-150, -80, -60, -20, -8, 8, 20, 60, 80, 150])


@st.composite
def hard_matrices(draw):
    """Dense arrays with values of any size: equal rows, one feature per row, empty rows, outliers.

    At least two columns are not empty.
    """
    X = draw(matrices(max_features=6))
    n, d = X.shape
    kind = draw(
        st.sampled_from(["as it is", "equal rows", "one feature per row", "outlier"])
    )
    if kind == "equal rows":
        X = np.tile(X[np.count_nonzero(X, axis=1).argmax()], (n, 1))
    elif kind == "one feature per row":
        X = X * (np.arange(d) == np.abs(X).argmax(axis=1)[:, None])
    elif kind == "outlier":
        row = draw(st.integers(0, n - 1))
        column = draw(st.integers(0, d - 1))
        X[row, column] = 10.0 ** draw(EXPONENTS)
    if np.count_nonzero(X.any(axis=0)) < 2:
        X[:2, :2] = np.eye(2)
    return X * 10.0 ** draw(EXPONENTS)


@st.composite
def hard_triplets(draw, n):
    """Triplets of n rows: a single one, contradictory ones, repeated ones."""
    T = draw(triplets(n, sizes=st.integers(1, 8)))
    if draw(st.booleans()):
        T = np.concatenate([T, T[:, [0, 2, 1]]])
    return T


@st.composite
def hard_weights(draw, T):
    """No weights, or T of them: tiny, huge or 0, at least one positive."""
    weight = st.sampled_from([1.0, 0.0, 5e-324, 1e-300, 1e-12, 1e12, 1e149])
    weights = draw(st.none() | st.lists(weight, min_size=T, max_size=T))
    if weights is not None and not any(weights):
        weights[0] = draw(st.sampled_from([5e-324, 1.0, 1e149]))
    return weights


@st.composite
def hard_parameters(draw):
    """Parameters of HDSL: any scale and prior, every loss, oracle, step, init and norm, batches."""
    step = draw(
        st.sampled_from(["forward", "away", "pairwise", "blended", "corrective"])
    )
    size = st.sampled_from([1e-300, 1e-9, 1e-3, 1.0, 100.0, 1e6, 1e12, 1e300])
    return {
        "scale": draw(st.just("auto") | size),
        "prior": draw(st.sampled_from(["auto", 0.0]) | size),
        "loss": draw(st.sampled_from(LOSSES)),
        "oracle": draw(st.sampled_from(["exact", "heuristic", "ascent"])),
        "step": step,
        "init": draw(st.sampled_from(["zero", "oracle", "random"])),
        "norm": draw(st.sampled_from(["l2", None])),
        "batch_size": draw(st.none() | st.integers(1, 4)),
        "max_iter": draw(st.sampled_from([1, 5, 40])),
        "tol": draw(st.sampled_from([0.0, 1e-9, 1e-3])),
    }
