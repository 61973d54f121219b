"""Small fits: rows with labels and triplets, a small model, and questions about fitted models."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import reference
import strategies
from hdsl import HDSL
from hdsl.settings import nested_parameters

STEPS = ["forward", "away", "pairwise", "blended", "corrective"]
ORACLES = ["ascent", "heuristic", "exact"]
FORMS = {
    "dense": np.asarray,
    "sparse": sp.csr_array,
    "float32": lambda A: A.astype(np.float32),
}


def labelled_rows(seed=3, n=60, d=12):
    """Rows in eighths, which float32 holds; the label is the larger of two features.

    Column 3 is empty.
    """
    rng = np.random.default_rng(seed)
    A = rng.integers(1, 24, size=(n, d)) / 8 * (rng.random((n, d)) < 0.5)
    A[:, :2] += 1 / 8
    A[:, 3] = 0.0
    return A, (A[:, 0] > A[:, 1]).astype(int)


def labelled_counts(seed=0, n=60, d=12):
    """Return counts of three classes, each with four features of its own under noise; labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    A = rng.integers(0, 4, size=(n, d)) * (rng.random((n, d)) < 0.3)
    A[np.arange(n), 4 * y + rng.integers(4, size=n)] += 3
    return A.astype(float), y


ROWS, LABELS = labelled_rows()
X = ROWS[:40]
Y = LABELS[:40]
X_VAL = ROWS[40:]
Y_VAL = LABELS[40:]
N, D = X.shape
_, T = strategies.random_arrays(0, n=40, T=80)
_, T_VAL = strategies.random_arrays(1, n=20, T=80)

LEARN = {"labels": {"y": Y}, "triplets": {"triplets": T}}
KINDS = ["labels", "triplets"]
both_kinds = pytest.mark.parametrize("kind", KINDS)
any_length = pytest.mark.filterwarnings("ignore:Rows differ in length:UserWarning")


def as_quadruplets(triplets):
    """Return (a, p, a, q) for each triplet (a, p, q)."""
    return triplets[:, [0, 1, 0, 2]]


def small(**parameters):
    """Return a model of the paper's domain, whose weights sum to 1."""
    defaults = {
        "norm": None,
        "init": "oracle",
        "step": "away",
        "scale": 0.3,
        "prior": 0.0,
        "max_iter": 25,
        "tol": 0.0,
        "random_state": 0,
        "n_targets": 2,
        "n_impostors": 2,
        "min_rows": 1,
    }
    return HDSL(**nested_parameters(**{**defaults, **parameters}))


def frame(A):
    """Return rows as a DataFrame with named columns."""
    return pytest.importorskip("pandas").DataFrame(A).add_prefix("word")


def interrupt_at(n_iter):
    """Return a callback that raises KeyboardInterrupt at an iteration."""

    def callback(state):
        if state.n_iter == n_iter:
            raise KeyboardInterrupt

    return callback


def without_interrupt(function, *args, **kwargs):
    """Call a function that must not let an interrupt out: it would end pytest itself."""
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:
        pytest.fail("the interrupt came out")


def assert_same_model(model, other):
    """Compare two fitted models bit for bit."""
    assert_array_equal(model.atoms_, other.atoms_)
    assert_array_equal(model.weights_, other.weights_)
    assert model.scale_ == other.scale_
    assert model.prior_ == other.prior_
    assert model.n_iter_ == other.n_iter_


def assert_whole(model, rows=X, triplets=T, weights=None):
    """Check that the parts of a model agree with each other and with dense algebra."""
    dense = reference.Problem(
        rows, triplets, model.loss, model.scale_, model.prior_, weights
    )
    value = dense.value(dense.margins(model.atoms_, model.weights_))
    assert model.objective_ == pytest.approx(value, rel=1e-11)
    assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
    assert (model.weights_ > 0).all()
    for k in range(len(model.trace_)):
        assert len(model.at(k).weights_) == model.trace_["n_atoms"][k]
    replayed = model.at(len(model.trace_) - 1).at(model.n_iter_)
    assert_array_equal(replayed.atoms_, model.atoms_)
    assert_allclose(replayed.weights_, model.weights_, rtol=0, atol=1e-12)


def dense(Z):
    """Return an array of a matrix of any kind."""
    if sp.issparse(Z):
        return Z.toarray()
    return np.asarray(Z)
