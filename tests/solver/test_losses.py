"""Losses against their formulas in sixty digits, and their compiled functions against them."""

import re
from decimal import Decimal, localcontext
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from hdsl import HDSL
from hdsl.cpu.kernels import losses as kernels
from hdsl.solver import losses
from strategies import LOSSES

KINKS = [-30.0, 0.0, 1.0]
MARGINS = (
    st.floats(-1e6, 1e6)
    | st.floats(-40.0, 40.0)
    | st.floats(-0.5, 1.5)
    | st.sampled_from([-1e6, *KINKS, 1e6])
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
    """The class, its compiled function and the dense reference are the same loss."""
    loss = losses.get(name)
    at = np.array([margin])
    code = losses.kernel_code(loss)
    with localcontext() as context:
        context.prec = 60
        expected = exact_values(name, Decimal(margin))
    methods = loss.value, loss.derivative, loss.curvature
    for order, (method, slow) in enumerate(
        zip(methods, reference.LOSSES[name], strict=True)
    ):
        # a few units in the last place of exp and log1p; below 1e-300 numbers lose
        # digits
        close = {"rtol": 1e-14, "atol": 1e-300}
        assert_allclose(kernels.loss(code, margin, order), method(at)[0], **close)
        if order < 2 or margin not in KINKS:
            assert_allclose(method(at), float(expected[order]), **close)
            assert_allclose(slow(at), method(at), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", LOSSES)
@given(margin=st.floats(-40.0, 40.0))
def test_finite_differences(name, margin):
    loss = losses.get(name)
    h = 1e-4
    left = np.array([margin - h])
    here = np.array([margin])
    right = np.array([margin + h])
    slope = (loss.value(right) - loss.value(left)) / (2 * h)
    bend = (loss.derivative(right) - loss.derivative(left)) / (2 * h)
    size = 1 + loss.value(here)
    # h² f''' / 6 for the smooth losses, h f'' / 4 next to a kink of the hinges
    assert_allclose(slope, loss.derivative(here), atol=2e-4 * size.item())
    if np.abs(margin - np.array(KINKS)).min() > 2 * h:
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
    [
        ("smoothed_hinge", 0.5),
        ("squared_hinge", 0.5),
        ("logistic", 0.0),
        ("exponential", -30.0),
    ],
)
def test_smoothness_is_reached(name, steepest):
    """A larger constant would be safe and slow; this one is the least."""
    loss = losses.get(name)
    low, high = loss.derivative(np.array([steepest, steepest + 1e-4]))
    assert (high - low) / 1e-4 == pytest.approx(loss.smoothness, rel=1e-4)
    assert loss.smoothness == pytest.approx(reference.SMOOTHNESS[name], rel=1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_margins_of_any_size_and_shape(name):
    loss = losses.get(name)
    far = np.array([-1e6, 1e6])
    for method in (loss.value, loss.derivative, loss.curvature):
        assert np.isfinite(method(far)).all()
        assert method(far)[1] == 0.0
        for shape in [(), (0,), (2, 3)]:
            result = method(np.full(shape, 0.25))
            assert result.shape == shape
            assert (result == method(np.array([0.25]))).all()


def test_losses_are_listed_by_their_names():
    assert sorted(losses.LOSSES) == LOSSES
    for name in LOSSES:
        assert losses.LOSSES[name].name == name
        assert type(losses.get(name)) is losses.LOSSES[name]


def test_every_code_has_a_branch_in_both_kernels():
    """What NumPy, the CPU and the card call by one number is one loss."""
    codes = {
        cls.code: name for name, cls in losses.LOSSES.items() if cls.code is not None
    }
    assert len(codes) == sum(losses.has_kernel(name) for name in LOSSES)
    margins = np.array([-31.0, -0.5, 0.25, 1.5])
    of_kernels = [
        [kernels.loss(code, margin, 0) for margin in margins] for code in codes
    ]
    of_numpy = [losses.get(name).value(margins) for name in codes.values()]
    assert_allclose(of_kernels, of_numpy, rtol=1e-14)
    base = files("hdsl.cuda.kernels").joinpath("base.cu").read_text()
    listed = re.search(r"enum \{ (.*) \};", base)[1].split(", ")
    assert {code: codes[code].upper() for code in codes} == dict(enumerate(listed))
    for function in ("loss_value", "loss_slope", "loss_curvature"):
        body = re.search(rf"double {function}\(.*?\n}}", base, re.DOTALL)[0]
        # the last one is what is left
        assert re.findall(r"code == (\w+)", body) == listed[:-1]
    tail = float(re.search(r"#define TAIL \((.*)\)", base)[1])
    assert tail == losses.EXPONENTIAL_TAIL


def test_another_loss_has_no_code():
    """It comes back as it is, and NumPy computes it; that of its parent is not its own."""
    child = type("Child", (losses.Logistic,), {})()
    assert losses.get(child) is child
    assert losses.kernel_code(child) is None
    assert losses.kernel_code(losses.checked(child)) is None


def test_a_loss_without_a_code_is_refused_on_a_card(monkeypatch):
    slow = type("Slow", (losses.Logistic,), {"name": "slow", "code": None})
    monkeypatch.setitem(losses.LOSSES, "slow", slow)
    rows = np.eye(4)
    labels = [0, 0, 1, 1]
    learned = HDSL(loss="slow", scale=1.0, prior=0.0).fit(rows, labels)
    expected = HDSL(loss="logistic", scale=1.0, prior=0.0).fit(rows, labels)
    assert_allclose(learned.objective_, expected.objective_, rtol=1e-12)
    refused = "must be one of smoothed_hinge, .* Got 'slow': .* needs device='cpu'"
    with pytest.raises(ValueError, match=refused):
        HDSL(loss="slow", device="cuda").fit(rows, labels)


@pytest.mark.parametrize("missing", ["value", "derivative", "curvature"])
def test_a_loss_has_three_methods(missing):
    methods = dict.fromkeys(("value", "derivative", "curvature"), len)
    assert losses.is_loss(type("Own", (), methods)())
    assert not losses.is_loss(type("Own", (), {**methods, missing: 0.0})())
