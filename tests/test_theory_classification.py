"""The bounds on classification by a similarity hold, and how loose they are."""

import numpy as np
import pytest

import reference
from hdsl import HDSL, theory

D, N, SCALE, PRIOR = 6, 400, 0.5, 0.2
ATOMS = reference.all_atoms(D)


def population(n=5000, seed=0):
    """Rows in [0, 1] of length 1 at most, and signs that two features decide, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, D)) * (rng.random((n, D)) < 0.5)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    y = np.where(X[:, 0] - X[:, 1] + 0.2 * rng.normal(size=n) > 0, 1, -1)
    return X, y


X, Y = population()
VALUE = reference.LOSSES["smoothed_hinge"][0]


def matrices(rng, rows, y):
    """All vertices of the domain, some of its inside, and a model learned from the rows."""
    vertices = [np.zeros((D, D))] + [reference.atom_matrix(atom, D, SCALE) for atom in ATOMS]
    mixed = [np.tensordot(rng.dirichlet(np.full(len(vertices), 0.1)), vertices, 1) for _ in "12345"]
    model = HDSL(SCALE, prior=PRIOR, norm=None, objective="classification", max_iter=50, tol=0.0)
    return [*vertices, *mixed, model.fit(rows, y).matrix().toarray()]


def differences(rows, y):
    return rows[y > 0].mean(axis=0) - rows[y < 0].mean(axis=0)


def similarity_to(M, difference):
    return (PRIOR * np.eye(D) + M) @ difference


@pytest.mark.filterwarnings("ignore:Rows differ in length")
def test_the_goodness_and_landmark_bounds_hold():
    rng, gaps, apart = np.random.default_rng(1), [], []
    true = differences(X, Y)
    for _ in range(12):
        drawn = rng.integers(len(X), size=N)
        rows, y = X[drawn], Y[drawn]
        found = differences(rows, y)  # the rows are the landmarks
        m = int(min((y > 0).sum(), (y < 0).sum()))
        bound = theory.goodness_bound(N, m, SCALE, d=D, prior=PRIOR)
        eta = theory.landmark_bound(m, SCALE, d=D, prior=PRIOR)
        for M in matrices(rng, rows, y):
            w = similarity_to(M, found)
            risk, empirical = VALUE(Y * (X @ w)).mean(), VALUE(y * (rows @ w)).mean()
            gaps.append((risk - empirical) / bound)
            apart.append(np.abs(X @ (w - similarity_to(M, true))).max() / eta)
            # The share of wrong rows is at most the risk over the loss at 0.
            assert np.mean(Y * (X @ w) <= 0) <= risk / 0.5
    assert max(gaps) < 1  # δ is 5 %, but the bound is loose: it never fails
    assert max(apart) < 1
    # How loose: docs/theory.md has the figures.
    assert 100 < 1 / max(gaps) < 400
    assert 4 < 1 / max(apart) < 12


@pytest.mark.filterwarnings("ignore:Rows differ in length")
def test_the_classifier_bound_holds():
    rng, n_landmarks, size, ratios = np.random.default_rng(2), 20, 2.0, []
    for _ in range(6):
        drawn = rng.integers(len(X), size=N + n_landmarks)
        landmarks, rows, y = X[drawn[:n_landmarks]], X[drawn[n_landmarks:]], Y[drawn[n_landmarks:]]
        bound = theory.classifier_bound(N, n_landmarks, size, SCALE, d=D, prior=PRIOR)
        for M in matrices(rng, rows, y):
            S, S_rows = (A @ similarity_to(M, landmarks.T) for A in (X, rows))
            # The weights that fit this sample best beyond the population, of one landmark each.
            over = (y @ S_rows) / N - (Y @ S) / len(Y)
            coef = np.zeros(n_landmarks)
            best = np.abs(over).argmax()
            coef[best] = size * np.sign(over[best])
            risk = VALUE(Y * (S @ coef)).mean()
            ratios.append((risk - VALUE(y * (S_rows @ coef)).mean()) / bound)
    assert 10 < 1 / max(ratios) < 50


def test_goodness_is_the_hinge_loss_of_mean_similarities():
    rng = np.random.default_rng(0)
    S, y, own = rng.normal(size=(9, 7)), np.arange(9) % 2, np.arange(7) % 2
    expected = 0.0
    for row in range(9):
        same, other = S[row, own == y[row]].mean(), S[row, own != y[row]].mean()
        expected += max(0.0, 1.0 - (same - other) / 0.5) / 9
    assert theory.goodness(S, y, own, gamma=0.5) == pytest.approx(expected)
    with pytest.raises(ValueError, match="two classes"):
        theory.goodness(S, y, np.zeros(7))


def test_the_dimension_counts_by_its_logarithm():
    bounds = [
        [
            theory.landmark_bound(100, 1.0, d=d, prior=0.5),
            theory.goodness_bound(1000, 100, 1.0, d=d),
            theory.classifier_bound(1000, 100, 1.0, 1.0, d=d),
        ]
        for d in (100, 10_000)
    ]
    assert (np.divide(bounds[1], bounds[0]) < 1.5).all()
    for n in (1, 7):  # arrays are taken entry by entry
        assert theory.goodness_bound([n], 5, 1.0, d=3)[0] == theory.goodness_bound(n, 5, 1.0, d=3)
    for wrong in ({"d": 1}, {"d": 3, "delta": 0.0}, {"d": 3, "prior": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            theory.landmark_bound(10, 1.0, **wrong)
