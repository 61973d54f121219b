"""The synthetic recovery problem."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.datasets import make_recovery

SMALL = {"n_rows": 80, "n_features": 120, "n_triplets": 500, "density": 0.2, "n_atoms": 31}


def small(random_state=0, **changes):
    return make_recovery(**{**SMALL, "block_size": 20, **changes}, random_state=random_state)


def test_defaults_are_those_of_the_paper():
    X, triplets, M, atoms, weights = make_recovery(random_state=0)
    assert X.shape == (5000, 2000)
    assert triplets.shape == (30_000, 3)
    assert M.shape == (2000, 2000)
    assert atoms.shape == (100, 3)
    assert weights.shape == (100,)
    # 10 million draws: the density is within five standard deviations of 2 %.
    assert X.nnz / 1e7 == pytest.approx(0.02, abs=5 * np.sqrt(0.02 * 0.98 / 1e7))


def test_rows_are_uniform_in_0_1():
    X = small(n_rows=400).X
    assert X.has_canonical_format
    assert X.data.min() > 0
    assert X.data.max() <= 1
    assert X.data.mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * X.nnz))


def test_atoms_are_distinct_pairs_inside_two_blocks():
    _, _, _, atoms, weights = small()
    i, j, sign = atoms.T
    assert (i < j).all()
    assert set(sign) == {-1, 1}
    assert len({*zip(i, j, strict=True)}) == SMALL["n_atoms"]
    first = (i >= 12) & (j < 32)
    second = (i >= 72) & (j < 92)
    assert (first | second).all()
    assert abs(int(first.sum()) - int(second.sum())) == 1
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_matrix_is_that_of_the_atoms():
    truth = small()
    M = reference.model_matrix(truth.atoms, truth.weights, SMALL["n_features"], 1.0)
    assert_allclose(truth.matrix.toarray(), M, atol=1e-15)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5])
def test_judgements_are_those_of_the_hidden_similarity(alpha):
    truth = small(alpha=alpha)
    X, M = truth.X.toarray(), truth.matrix.toarray()
    S = X @ M @ X.T
    anchor, positive, negative = truth.triplets.T
    for a, p, q in truth.triplets:
        assert len({a, p, q}) == 3
    near, far = S[anchor, positive], S[anchor, negative]
    assert (near >= far - 1e-12).all()
    # Equal similarities may be ranked either way; otherwise the ranks say who can be drawn.
    share = max(1, int(alpha * (len(X) - 1)))
    np.fill_diagonal(S, np.nan)
    assert ((S[anchor] > near[:, None] + 1e-12).sum(axis=1) < share).all()
    assert ((S[anchor] < far[:, None] - 1e-12).sum(axis=1) < share).all()


def test_weaker_supervision_is_less_sure():
    def gap(alpha):
        truth = small(alpha=alpha)
        S = (truth.X @ truth.matrix @ truth.X.T).toarray()
        anchor, positive, negative = truth.triplets.T
        return (S[anchor, positive] - S[anchor, negative]).mean()

    assert gap(0.05) > gap(0.2) > gap(0.5) > 0


def test_seeds():
    one, same, other = small(0), small(0), small(1)
    for a, b in zip(one, same, strict=True):
        assert_array_equal(*(M.toarray() if hasattr(M, "toarray") else M for M in (a, b)))
    assert (one.triplets != other.triplets).any()
    assert (one.atoms != other.atoms).any()


def test_two_rows_make_no_triplet():
    with pytest.raises(ValueError, match="'n_rows' parameter of make_recovery"):
        small(n_rows=2)


def test_three_rows_are_enough():
    assert all(len({*t}) == 3 for t in small(n_rows=3).triplets.tolist())


@pytest.mark.parametrize("alpha", [0, 0.51, -0.1, np.nan])
def test_alpha_outside_its_range(alpha):
    with pytest.raises(ValueError, match=r"'alpha'.*\(0, 0\.5\]"):
        small(alpha=alpha)


@pytest.mark.parametrize("sizes", [{"n_features": 79}, {"n_atoms": 400}])
def test_blocks_that_do_not_fit(sizes):
    with pytest.raises(ValueError, match="do not fit"):
        small(**sizes)


@pytest.mark.parametrize("name", ["n_rows", "n_triplets", "n_atoms"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "many"])
def test_sizes_that_are_none(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of make_recovery"):
        small(**{name: value})
