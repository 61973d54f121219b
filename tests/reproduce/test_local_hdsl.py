"""LocalHDSL: one similarity for all rows, and a correction per region."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import reference
from hdsl import HDSL, Solver
from hdsl.settings import nested_parameters
from hdsl.solver.losses import SmoothedHinge
from reproduce.local_hdsl import LocalHDSL
from sklearn_checks import every_check

RNG = np.random.default_rng(3)
N = 60
D = 10
X = RNG.integers(1, 24, size=(N, D)) / 8 * (RNG.random((N, D)) < 0.5)
X[:, :2] += 1 / 8
Y = (X[:, 0] > X[:, 1]).astype(int)
R = np.arange(N) % 3
T = RNG.integers(N, size=(400, 3))
T = T[T[:, 1] != T[:, 2]]


def small(n_regions=3, **parameters):
    shared = {
        "scale": 2.0,
        "prior": 0.1,
        "max_iter": 8,
        "random_state": 0,
        "min_rows": 1,
        "n_targets": 2,
        "n_impostors": 2,
    } | parameters
    return LocalHDSL(
        HDSL(**nested_parameters(**shared)), n_regions=n_regions, local_scale=2.0
    )


@pytest.fixture(scope="module")
def model():
    return small().fit(X, Y)


@every_check(
    LocalHDSL(
        HDSL(prior=1.0, solver=Solver(max_iter=4), random_state=0),
        n_regions=2,
        n_rounds=1,
    )
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # small classes
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def dense_similarity(model, A, B, assigned):
    """Return S by dense matrices, row by row."""
    d = A.shape[1]
    shared = model.shared_
    M = reference.model_matrix(shared.atoms_, shared.weights_, d, shared.scale_)
    if shared.norm_ == "l2":
        A, B = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (A, B))
    S = np.empty((len(A), len(B)))
    for k, region in enumerate(assigned):
        part = model.local_[region]
        own = reference.model_matrix(part.atoms, part.weights, d, part.scale)
        S[k] = A[k] @ (M + own + shared.prior_ * np.eye(d)) @ B.T
    return S


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_every_way_to_compare_is_the_same_similarity(model, form):
    A = X[:20]
    B = X[20:]
    S = dense_similarity(model, A, B, model.region(A))
    assert len(np.unique(model.region(A))) > 1
    assert_allclose(model.similarity(form(A), form(B)), S, atol=1e-9)
    products = model.rewrite(form(A)) @ model.index_rows(form(B)).T
    assert_allclose(
        products.toarray() if sp.issparse(products) else products, S, atol=1e-9
    )
    scores = model.pair_score(form(A), form(B[:20]))
    assert_allclose(scores, np.diag(S), atol=1e-9)
    for k, region in enumerate(model.region(A)):
        x, y = (rows / np.linalg.norm(rows) for rows in (A[k], B[k]))
        assert x @ model.matrix(region) @ y + 0.1 * x @ y == pytest.approx(S[k, k])
        assert model.explain(A[k], B[k]).total == pytest.approx(S[k, k])


def test_transform_compares_rows_of_a_region_by_its_similarity(model):
    Z = model.transform(X)
    regions = model.region(X)
    assert Z.shape[1] == len(model.get_feature_names_out())
    same = regions[:, None] == regions
    assert_allclose(
        (Z @ Z.T)[same], dense_similarity(model, X, X, regions)[same], atol=1e-9
    )


def test_rounds_go_to_the_optimum_of_all_parts_together():
    # 0.448100211771 is the certified optimum of the product of domains, gap 1e-7.
    rng = np.random.default_rng(0)
    A = rng.random((40, 12)) * (rng.random((40, 12)) < 0.4) + 1e-3
    triplets = rng.integers(40, size=(300, 3))
    triplets = triplets[triplets[:, 1] != triplets[:, 2]]
    regions = rng.integers(3, size=40)
    shared = HDSL(
        5.0,
        prior=0.5,
        norm=None,
        solver=Solver(max_iter=50, tol=1e-9, oracle="exact"),
        min_rows=1,
    )
    objectives = []
    for n_rounds in (1, 2, 10):
        model = LocalHDSL(shared, regions=regions, local_scale=4.0, n_rounds=n_rounds)
        model.fit(A, triplets=triplets)
        S = dense_similarity(model, A, A, regions)
        a, p, q = triplets.T
        mean = SmoothedHinge().value(S[a, p] - S[a, q]).mean()
        assert model.shared_.objective_ == pytest.approx(mean, rel=1e-9)
        objectives.append(mean)
    assert objectives[0] > objectives[1] > objectives[2]
    assert objectives[2] == pytest.approx(0.448100211771, abs=1e-6)


def test_without_regions_it_is_hdsl():
    model = small(0).fit(X, Y)
    plain = clone(model.shared_).fit(X, Y)
    assert_allclose(model.similarity(X), plain.similarity(X), atol=1e-12)
    assert model.n_regions_ == 0
    assert (model.region(X) == -1).all()


def contradiction(n=400):
    """Two features that say the opposite in the rows with one mark and in those with another."""
    rng = np.random.default_rng(0)
    mark, kind = rng.integers(2, size=(2, n))
    A = np.hstack([3 * np.eye(2)[mark], np.eye(2)[kind], 0.3 * rng.random((n, 6))])
    return A, 2 * mark + (kind ^ mark)


def test_regions_are_chosen_and_named(tmp_path):
    A, y = contradiction()
    model = LocalHDSL(
        HDSL(prior=1.0, solver=Solver(max_iter=5), random_state=0), n_regions="auto"
    ).fit(A, y)
    assert model.n_regions_ in model.choice_["n_regions"]
    assert len(model.region_names([f"w{k}" for k in range(10)])) == model.n_regions_
    two = small(2).fit(A, y)
    assert {name.split(",")[0] for name in two.region_names()} == {"x0", "x1"}


def test_given_regions():
    given = small().set_params(regions=R).fit(X, triplets=T)
    assert given.n_regions_ == 3
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    means = np.array([unit[r == R].mean(axis=0) for r in range(3)])
    distances = np.linalg.norm(unit[:, None] - means, axis=2)
    nearest = distances[np.arange(N), given.region(X)]
    assert_allclose(nearest, distances.min(axis=1), rtol=1e-9)
    only = small().set_params(regions=R).fit(X, triplets=T[R[T[:, 0]] == 1])
    assert len(only.local_[0].weights) == 0 < len(only.local_[1].weights)


def test_given_regions_of_a_sample_of_the_rows():
    marked = np.hstack([X, 3 * np.eye(3)[R]])
    given = small(max_anchors=30).set_params(regions=R).fit(marked, Y)
    assert given.region_sizes_.sum() == 30
    assert_array_equal(given.centers_.toarray()[:, D:] > 0, np.eye(3))


def test_comparisons_of_weight_0_are_absent():
    counts = R[T[:, 0]] != 1
    given = small().set_params(regions=R)
    weighted = clone(given).fit(X, triplets=T, sample_weight=counts.astype(float))
    absent = given.fit(X, triplets=T[counts])
    assert len(weighted.local_[1].weights) == 0 < len(weighted.local_[0].weights)
    assert weighted.shared_.objective_ == pytest.approx(
        absent.shared_.objective_, rel=0.01
    )


def test_an_interrupt_leaves_the_model_as_it_was(model):
    def interrupt(state):
        raise KeyboardInterrupt

    again = deepcopy(model)
    before = model.similarity(X)
    with pytest.raises(KeyboardInterrupt):
        again.fit(X, Y, callback=interrupt)
    assert_array_equal(again.similarity(X), before)


def test_it_has_no_model_file_and_no_report(model, tmp_path):
    with pytest.raises(ValueError, match="save it with joblib"):
        model.save(tmp_path / "model.hdsl")
    with pytest.raises(ValueError, match="per region"):
        model.report(tmp_path / "page.html", X)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"n_regions": -1}, "n_regions"),
        ({"regions": "areas"}, "regions"),
        ({"regions": None}, "regions"),
        ({"regions": [0, 1]}, "60"),
        ({"local_scale": 0.0}, "local_scale"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"model": HDSL(solver=Solver(init="oracle"))}, "init"),
    ],
)
def test_bad_parameters_are_refused(changes, word):
    with pytest.raises(ValueError, match=word):
        small().set_params(**changes).fit(X, Y)
