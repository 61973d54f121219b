"""Losses against their formulas in sixty digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.core import losses
from strategies import LOSSES

MARGINS = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(-40.0, 40.0),
    st.floats(-0.5, 1.5),
    st.sampled_from([-1e6, -30.0, 0.0, 1.0, 1e6]),
)
ONE = Decimal(1)


def exact_values(name, m):
    """Return value, derivative and second derivative at a Decimal."""
    if name == "smoothed_hinge":
        if 0 < m < 1:
            return (1 - m) ** 2 / 2, m - 1, ONE
        return (Decimal(0), Decimal(0), 0 * m) if m >= 1 else (ONE / 2 - m, -ONE, 0 * m)
    if name == "squared_hinge":
        return ((1 - m) ** 2, 2 * (m - 1), 2 * ONE) if m < 1 else (0 * m, 0 * m, 0 * m)
    if name == "logistic":
        tiny = (-abs(m)).exp()
        # ln(1 + x) = x - x²/2 + ... where 1 + x would lose x
        log = tiny - tiny**2 / 2 if tiny < Decimal("1e-20") else (1 + tiny).ln()
        return max(-m, Decimal(0)) + log, -1 / (1 + m.exp()), tiny / (1 + tiny) ** 2
    if m < -30:
        return Decimal(30).exp() * (-29 - m), -Decimal(30).exp(), 0 * m
    return (-m).exp(), -(-m).exp(), (-m).exp()


@pytest.mark.parametrize("name", LOSSES)
@given(margin=MARGINS)
def test_formulas(name, margin):
    loss, at = losses.get(name), np.array([margin])
    with localcontext() as context:
        context.prec = 60
        value, derivative, curvature = exact_values(name, Decimal(margin))
    # a few units in the last place of exp and log1p; below 1e-300 numbers lose digits
    assert_allclose(loss.value(at), float(value), rtol=1e-14, atol=1e-300)
    assert_allclose(loss.derivative(at), float(derivative), rtol=1e-14, atol=1e-300)
    if margin not in {0.0, 1.0, -30.0}:
        assert_allclose(loss.curvature(at), float(curvature), rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("name", LOSSES)
def test_the_reference_has_the_same_formulas(name):
    """The dense reference is written apart; both must mean the same loss."""
    m = np.concatenate([np.linspace(-35.3, 35.3, 201), [-1e6, -30.0, 0.0, 1.0, 1e6]])
    loss, (value, derivative, curvature) = losses.get(name), reference.LOSSES[name]
    assert_allclose(loss.value(m), value(m), rtol=1e-13)
    assert_allclose(loss.derivative(m), derivative(m), rtol=1e-13)
    smooth = ~np.isin(m, [-30.0, 0.0, 1.0])
    assert_allclose(loss.curvature(m)[smooth], curvature(m)[smooth], rtol=1e-13)
    assert loss.smoothness == pytest.approx(reference.SMOOTHNESS[name], rel=1e-15)


@pytest.mark.parametrize("name", LOSSES)
@given(margin=st.floats(-40.0, 40.0))
def test_finite_differences(name, margin):
    loss, h = losses.get(name), 1e-4
    left, here, right = np.array([margin - h]), np.array([margin]), np.array([margin + h])
    slope = (loss.value(right) - loss.value(left)) / (2 * h)
    bend = (loss.derivative(right) - loss.derivative(left)) / (2 * h)
    size = 1 + loss.value(here)
    # h² f''' / 6 for the smooth losses, h f'' / 4 next to a kink of the hinges
    assert_allclose(slope, loss.derivative(here), atol=2e-4 * size.item())
    if np.abs(margin - np.array([-30.0, 0.0, 1.0])).min() > 2 * h:
        assert_allclose(bend, loss.curvature(here), atol=1e-6 * size.item())


@pytest.mark.parametrize("name", LOSSES)
@given(a=MARGINS, b=MARGINS)
def test_convex_falling_and_smooth(name, a, b):
    """The derivative is negative, rises, and no faster than the smoothness constant says."""
    loss = losses.get(name)
    low, high = loss.derivative(np.array([min(a, b), max(a, b)]))
    assert low <= high <= 0.0
    assert high - low <= loss.smoothness * abs(a - b) * (1 + 1e-12) + 1e-15 * abs(low)


@pytest.mark.parametrize(
    ("name", "steepest"),
    [("smoothed_hinge", 0.5), ("squared_hinge", 0.5), ("logistic", 0.0), ("exponential", -30.0)],
)
def test_smoothness_is_reached(name, steepest):
    """A larger constant would be safe and slow; this one is the least."""
    loss = losses.get(name)
    low, high = loss.derivative(np.array([steepest, steepest + 1e-4]))
    assert (high - low) / 1e-4 == pytest.approx(loss.smoothness, rel=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_far_margins_are_finite(name):
    loss, far = losses.get(name), np.array([-1e6, 1e6])
    for result in (loss.value(far), loss.derivative(far), loss.curvature(far)):
        assert np.isfinite(result).all()
        assert result[1] == 0.0
    assert losses.get("logistic").value(far)[0] == 1e6


@pytest.mark.parametrize("name", LOSSES)
def test_continuous_where_the_pieces_meet(name):
    loss = losses.get(name)
    for kink in (-30.0, 0.0, 1.0):
        around = np.array([np.nextafter(kink, -np.inf), kink, np.nextafter(kink, np.inf)])
        for result in (loss.value(around), loss.derivative(around)):
            assert_allclose(result, result[1], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_what_a_loss_says_of_itself(name):
    loss = losses.get(name)
    enough = np.array([1.0, 1.5, 30.0])
    assert loss.name == name
    assert loss.reaches_zero == (not loss.value(enough).any())
    assert loss.reaches_zero == (not loss.derivative(enough).any())
    assert loss.piecewise_linear == (name in {"smoothed_hinge", "squared_hinge"})


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_shapes(name, shape):
    loss, margins = losses.get(name), np.full(shape, 0.25)
    for method in (loss.value, loss.derivative, loss.curvature):
        result = method(margins)
        assert result.shape == shape
        assert_array_equal(result, np.full(shape, method(np.array([0.25]))[0]))


@pytest.mark.parametrize("name", LOSSES)
def test_narrow_margins_lose_nothing_more(name):
    """Margins of 32 bits are computed with in 64."""
    loss, narrow = losses.get(name), np.array([-2.3, 0.1, 0.7, 1.9], dtype=np.float32)
    for method in (loss.value, loss.derivative, loss.curvature):
        assert_array_equal(method(narrow), method(narrow.astype(np.float64)))
