"""The reference itself: its gradient is the derivative of its value, its optimum is certified."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from layouts import ALL_LOSSES
from pairwise import pairwise
from strategies import LOSSES, make_twin, random_arrays, random_twin


@pytest.mark.parametrize(("loss", "width"), pairwise(ALL_LOSSES, [3, 4]))
def test_reference_gradient_is_the_derivative_of_its_value(loss, width):
    X, T = random_arrays(0)
    T = np.column_stack([T, T[::-1, 0]])[:, :width]
    problem = make_twin(X, T, loss, 5.0, 0.5).dense
    M = reference.model_matrix(
        [(0, 1, 1), (2, 5, -1)], [0.3, 0.7], problem.d, problem.scale
    )
    margins = problem.offset + problem.margins_of(M)
    G = problem.gradient(margins)
    h = 1e-6
    for i, j in np.ndindex(*M.shape):
        E = np.zeros_like(M)
        E[i, j] = h
        rise = problem.value(margins + problem.margins_of(E))
        fall = problem.value(margins - problem.margins_of(E))
        assert G[i, j] == pytest.approx((rise - fall) / (2 * h), abs=1e-7)


@pytest.mark.parametrize(
    ("loss", "scale", "seed"), pairwise(LOSSES, [0.5, 5.0], [0, 1, 2])
)
def test_reference_optimum_is_certified(loss, scale, seed):
    upper, lower = random_twin(seed, loss=loss, scale=scale).dense.optimum()
    assert 0 <= upper - lower <= 1e-10


def test_reference_optimum_by_hand():
    """One triplet, two features: margins run from 0 (e1 - e2) to 4·scale (e1 + e2)."""
    X = [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    T = [[0, 1, 2]]
    assert_allclose(
        make_twin(X, T, scale=0.1).dense.optimum(), 0.5 * (1 - 0.4) ** 2, atol=1e-10
    )
    assert make_twin(X, T, scale=1.0).dense.optimum().upper == pytest.approx(
        0.0, abs=1e-15
    )
