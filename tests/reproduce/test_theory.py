"""The bounds: their formulas, that they hold, and where the printed ones do not."""

import doctest
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import normalize

import reference
from hdsl import HDSL, Solver
from reproduce import theory
from reproduce.datasets import make_recovery
from strategies import LOSSES, matrices, models, random_arrays, random_twin, twins

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"

smoothed_hinge = reference.LOSSES["smoothed_hinge"][0]


# --- convergence ----------------------------------------------------------------------


@given(twins())
def test_sharp_constant_lies_between_curvature_and_printed_constant(twin):
    data = {"loss": twin.dense.loss, "sample_weight": twin.weights}
    printed, sharp = (
        theory.lipschitz_constant(twin.X, twin.triplets, form=form, **data)
        for form in ("printed", "sharp")
    )
    assert_allclose(printed, twin.dense.lipschitz(), rtol=1e-10, atol=1e-12)
    assert sharp <= printed * (1 + 1e-12)
    assert sharp == theory.lipschitz_constant(twin.X, twin.triplets, **data)
    V = twin.dense.vertices - twin.dense.offset[:, None]  # ⟨Aᵗ, B⟩
    G = V.T @ (twin.dense.omega[:, None] * V)
    between = np.diag(G)[:, None] + np.diag(G) - 2 * G  # mean of ⟨Aᵗ, B - B'⟩²
    for largest, factor in (
        (between.max(), 8),
        (np.diag(G).max(), 4),
    ):  # two atoms; an atom and 0
        curvature = reference.SMOOTHNESS[twin.dense.loss] * largest
        assert curvature <= factor * sharp * twin.dense.scale**2 * (1 + 1e-9) + 1e-12


def test_sharp_constant_can_be_exact():
    """One triplet under which two atoms have margins 4λ and -4λ: (8λ)² is 8Lλ²."""
    X = np.array([[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    assert_allclose(theory.lipschitz_constant(X, [[0, 1, 2]]), 8.0)


@pytest.mark.parametrize(
    ("loss", "prior", "init"),
    [
        (loss, (0.0, 0.5)[j % 2], ("zero", "random")[j // 2 % 2])
        for j, loss in enumerate(LOSSES)
    ],
)
def test_forward_steps_stay_below_the_convergence_bound(loss, prior, init):
    """Proposition 1 with the sharp L, on whole runs, in the paper's domain and in that with 0."""
    for seed, scale in ((0, 1.0), (1, 10.0)):
        X, triplets = random_arrays(seed)
        model = HDSL(
            scale,
            prior=prior,
            norm=None,
            loss=loss,
            solver=Solver(
                oracle="exact", step="forward", init=init, max_iter=100, tol=0.0
            ),
            random_state=seed,
        ).fit(X, triplets=triplets)
        dense = random_twin(seed, loss=loss, scale=scale, prior=prior).dense
        if init == "zero":
            dense.vertices = np.column_stack([dense.vertices, dense.offset])
        best = dense.optimum()
        assert best.upper - best.lower <= 1e-8
        k = np.arange(1, len(model.trace_))
        L = theory.lipschitz_constant(X, triplets, loss=loss)
        excess = model.trace_["objective"][1:] - best.upper
        assert (excess <= theory.convergence_bound(k, scale, L)).all()


# --- sizes ----------------------------------------------------------------------------


@pytest.mark.parametrize("norm", theory.NORMS)
@given(matrices(max_features=5))
def test_data_bound_covers_all_rows(norm, X):
    p, _ = theory.NORMS[norm]
    lengths = [np.linalg.norm(x, p) for x in X]
    apart = [np.linalg.norm(x - z, p) for x, z in product(X, X)]
    largest = max(lengths, default=0.0) * max(apart, default=0.0)
    bound = theory.data_bound(sp.csr_array(X), norm=norm)
    assert bound >= largest * (1 - 1e-12)
    if norm == "max":
        assert_allclose(bound, largest, rtol=1e-12)
    assert_allclose(theory.data_bound(X, norm=norm), bound, rtol=1e-12)


@given(models(6), st.floats(0.01, 100))
def test_domain_bound_is_reached_by_an_atom_and_exceeded_by_no_model(model, scale):
    M = reference.model_matrix(*model, 6, scale)
    atom = reference.atom_matrix((1, 4, -1), 6, scale)
    for norm, dual in {
        "max": np.sum,
        "fro": lambda A: np.sqrt((A**2).sum()),
        "l1": np.max,
    }.items():
        bound = theory.domain_bound(scale, norm=norm)
        assert dual(np.abs(M)) <= bound * (1 + 1e-9)
        assert_allclose(dual(np.abs(atom)), bound, rtol=1e-12)
    assert_allclose(
        np.linalg.norm(M, "nuc"), theory.domain_bound(scale, norm="fro"), rtol=1e-9
    )


# --- the formulas ---------------------------------------------------------------------


def test_printed_forms_are_those_of_the_paper():
    n = 100
    k = 7
    scale = 3.0
    delta = 0.1
    B_X = 2.0
    L = 1.5
    rademacher = 8 * scale * B_X * np.sqrt(2 * np.log(k) / 33)
    B_D = 4 * scale
    deviation = 2 * rademacher + 3 * B_X * B_D * np.sqrt(2 * np.log(2 / delta) / n)
    confidence = 5 * B_X * B_D * np.sqrt(np.log(4 / delta) / n)
    excess = 16 * L * scale**2 / (k + 2) + 2 * rademacher + confidence
    given = {"B_X": B_X, "form": "printed"}
    assert_allclose(theory.rademacher_bound(n, scale, k=k, **given), rademacher)
    assert_allclose(
        theory.deviation_bound(n, scale, k=k, delta=delta, **given), deviation
    )
    assert_allclose(
        theory.excess_risk_bound(n, k, scale, L, delta=delta, **given), excess
    )


@pytest.mark.parametrize(
    ("delta", "zero"), [(1e-9, 0.5), (0.05, math.log(2)), (0.999, 30.0)]
)
@given(st.integers(3, 1000), st.floats(1e-3, 100.0))
def test_confidence_covers_what_is_proved(delta, zero, n, size):
    """McDiarmid's term, and for the excess risk Hoeffding's for a U-statistic of order 3."""
    width = zero + size
    mcdiarmid = 3 * width * np.sqrt(np.log(1 / delta) / (2 * n))
    given = {"d": 2, "norm": "l1", "B_X": size}
    twice = 2 * theory.rademacher_bound(n, 1.0, **given)
    given.update(delta=delta, loss_at_zero=zero)
    assert theory.deviation_bound(n, 1.0, **given) >= twice + mcdiarmid
    mcdiarmid = 3 * width * np.sqrt(np.log(2 / delta) / (2 * n))
    hoeffding = width * np.sqrt(np.log(2 / delta) / (2 * (n // 3)))
    assert (
        theory.excess_risk_bound(n, 1, 1.0, 0.0, **given)
        >= twice + mcdiarmid + hoeffding
    )


# --- Monte-Carlo: what holds ----------------------------------------------------------


def atom_vectors(d):
    return np.array([reference.atom_vector(atom, d) for atom in reference.all_atoms(d)])


def losses_of_atoms(X, triplets, scale):
    """Return the smoothed hinge loss of each triplet under each atom alone."""
    a, p, q = (X @ atom_vectors(X.shape[1]).T)[triplets.T]
    return smoothed_hinge(scale * a * (p - q))


def draw_rows(n, d, rng):
    """Random sets of features, and labels that have nothing to do with them."""
    return (rng.random((n, d)) < 0.5).astype(float), rng.integers(2, size=n)


def rademacher_draws(n, d, scale, n_draws, seed=0):
    """Draw the quantity whose mean is R_n(F^(1)): the largest over single atoms."""
    rng = np.random.default_rng(seed)
    m = n // 3
    for _ in range(n_draws):
        X, y = draw_rows(n, d, rng)
        triplets = np.arange(3 * m).reshape(3, m).T
        a, p, q = y[triplets.T]
        signs = rng.choice([-1, 1], size=m) * ((a == p) & (a != q))
        at_zero = 0.5 * signs.sum() / m
        yield (signs @ losses_of_atoms(X, triplets, scale)).max() / m, at_zero


@pytest.mark.parametrize(
    ("n", "scale", "expected"), [(90, 1.0, 0.20), (300, 1.0, 0.11)]
)
def test_lemma_1_fails_as_printed(n, scale, expected):
    """One atom, chosen by the data: the complexity is not 0. All atoms: the bound holds."""
    draws, at_zero = np.array(list(rademacher_draws(n, 20, scale, 200))).T
    estimate = draws.mean()
    error = draws.std() / np.sqrt(len(draws))
    assert_allclose(estimate, expected, atol=0.02)
    assert (
        theory.rademacher_bound(n, scale, k=1, form="printed")
        == 0.0
        < estimate - 5 * error
    )
    assert theory.rademacher_bound(n, scale, d=20) > estimate + 5 * error
    assert (
        theory.rademacher_bound(n, scale, d=20)
        > np.maximum(draws, at_zero).mean() + 5 * error
    )


def test_theorem_1_fails_as_printed_for_a_small_scale():
    """Then all losses are 1/2 and only the labels are random, which the paper's B leaves out."""
    n = 60
    share = 0.8
    scale = 1e-4
    rng = np.random.default_rng(0)
    one = rng.binomial(n, share, size=2000)
    sizes = np.stack([one, n - one])
    triplets = (sizes * (sizes - 1) * (n - sizes)).sum(axis=0) / (n * (n - 1) * (n - 2))
    expected = share**2 * (1 - share) + (1 - share) ** 2 * share
    deviations = 0.5 * (expected - triplets)
    printed = theory.deviation_bound(n, scale, k=2 * 20 * 19, form="printed")
    assert (deviations > printed).mean() > 0.3 > 0.05
    assert (deviations <= theory.deviation_bound(n, scale, d=20)).all()


def test_theorem_1_holds_on_draws():
    """Features and labels are independent, so the risk is known."""
    n = 30
    d = 6
    scale = 0.5
    rng = np.random.default_rng(0)
    rows = np.array(list(product([0.0, 1.0], repeat=d)))
    risk = np.zeros(d * (d - 1))
    for b, values in enumerate(atom_vectors(d) @ rows.T):
        level, count = np.unique(values, return_counts=True)
        a, p, q = np.meshgrid(level, level, level, indexing="ij")
        weight = np.einsum("i,j,k->ijk", *[count / len(rows)] * 3)
        risk[b] = 0.25 * (weight * smoothed_hinge(scale * a * (p - q))).sum()
    every = np.array([t for t in product(range(n), repeat=3) if len(set(t)) == 3])
    worst = []
    for _ in range(20):
        X, y = draw_rows(n, d, rng)
        a, p, q = y[every.T]
        inside = every[(a == p) & (a != q)]
        worst.append(
            (risk - losses_of_atoms(X, inside, scale).sum(axis=0) / len(every)).max()
        )
    assert max(worst) > 0.05
    assert max(worst) <= theory.deviation_bound(n, scale, d=d)


@pytest.mark.parametrize("replace", [True, False])
def test_sufficient_triplets_suffice_and_far_fewer_do_not(replace):
    n = 40
    d = 6
    scale = 0.25
    accuracy = 0.25
    rng = np.random.default_rng(0)
    X, y = draw_rows(n, d, rng)
    every = np.array(list(product(range(n), repeat=3)))
    a, p, q = y[every.T]
    every = every[(a == p) & (a != q) & (every[:, 0] != every[:, 1])]
    losses = losses_of_atoms(X, every, scale)
    many = theory.sufficient_triplets(accuracy, scale, d=d)
    assert 100 < many < len(every)

    def deviations(size):
        drawn = [
            losses[rng.choice(len(every), size, replace)].mean(axis=0)
            for _ in range(200)
        ]
        return np.abs(drawn - losses.mean(axis=0)).max(axis=1)

    assert deviations(many).max() <= accuracy
    assert (deviations(many // 200) > accuracy).mean() > 0.05


# --- beside a run ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def recovery():
    found = make_recovery(
        200, 60, n_triplets=1000, density=0.2, n_atoms=10, block_size=15, random_state=0
    )
    return found.X, found.triplets[:600], found.triplets[600:]


@pytest.mark.parametrize(
    ("loss", "scale", "prior", "norm", "init"),
    [
        ("smoothed_hinge", 20.0, 0.0, None, "oracle"),
        ("logistic", 1.0, 3.0, None, "zero"),
        ("smoothed_hinge", 20.0, 1.0, "l2", "zero"),
    ],
)
def test_gap_path_has_risks_and_bounds_of_each_model(
    recovery, loss, scale, prior, norm, init
):
    X, train, test = recovery
    model = HDSL(
        scale,
        prior=prior,
        norm=norm,
        solver=Solver(init=init, step="away", max_iter=50, tol=0.0),
        loss=loss,
        random_state=0,
    ).fit(X, triplets=train)
    path = theory.gap_path(model, X, X, test, n_iter=[0, 1, model.n_iter_], delta=0.1)
    assert_array_equal(path.n_iter, [0, 1, model.n_iter_])
    assert_array_equal(path.n_atoms, [len(model.at(k).weights_) for k in path.n_iter])
    assert path.n_atoms[0] == (init == "oracle")
    X = X if norm is None else sp.csr_array(normalize(X))
    dense = X.toarray()
    ell = reference.LOSSES[loss][0]
    for triplets, risks in ((train, path.train_risk), (test, path.test_risk)):
        a, p, q = dense[triplets.T]
        for k, risk in zip(path.n_iter, risks, strict=True):
            M = model.at(k).matrix().toarray() + prior * np.eye(60)
            assert_allclose(
                risk, ell(((a @ M) * (p - q)).sum(axis=1)).mean(), rtol=1e-9
            )
    assert_allclose(path.gap, path.test_risk - path.train_risk)
    both = sp.vstack([X, X])  # rows learned from, and rows held out
    zero = float(ell(np.zeros(1))[0]) + prior * theory.data_bound(both, norm="fro")
    given = {"delta": 0.1, "B_X": theory.data_bound(both)}
    bound = theory.deviation_bound(200, scale, d=60, loss_at_zero=zero, **given)
    assert_allclose(path.bound, bound)
    k = np.maximum(path.n_atoms, 1)
    printed = theory.deviation_bound(200, scale, k=k, form="printed", **given)
    assert_allclose(path.printed_bound, printed)
    assert (path.gap < path.bound).all()


# --- messages -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: theory.convergence_bound(0, 1.0, 1.0), "'k'"),
        (lambda: theory.rademacher_bound(2, 1.0, d=9), "'n'"),
        (lambda: theory.rademacher_bound(9, 1.0), "d="),
        (lambda: theory.rademacher_bound(9, 1.0, d=3, norm="l2"), "'max', 'fro', 'l1'"),
        (lambda: theory.deviation_bound(9, 1.0, d=3, delta=1), "'delta'"),
        (
            lambda: theory.excess_risk_bound(9, 1, 1.0, 1.0, d=3, loss_at_zero=-1),
            "loss_at_zero",
        ),
        (lambda: theory.domain_bound(-1.0), "'scale'"),
        (lambda: theory.lipschitz_constant(np.eye(3), [[0, 1, 3]]), "row 3"),
    ],
)
def test_wrong_arguments_raise(call, word):
    with pytest.raises(ValueError, match=word):
        call()


# --- the page -------------------------------------------------------------------------


def test_examples_of_the_page_run():
    if not PAGE.is_file():
        pytest.skip(f"{PAGE} is not there: an installed library has no pages")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    ran = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=flags, encoding="utf-8"
    )
    assert ran.failed == 0
    assert ran.attempted > 10
