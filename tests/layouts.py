"""Every implementation of Layout, Problem and Gradient, for the tests of what they all promise.

A new implementation is one more line in LAYOUTS. Margins are handles: tests look inside
them only through `flat`.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import settings
from numpy.testing import assert_allclose

from devices import DEVICES
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.cuda.layout import CUDALayout
from strategies import LOSSES, comparisons, models, twins


class EagerWorkers(Workers):
    """Threads that share the smallest work."""

    def split(self, n_items, *, grain=1, work=None):
        return super().split(n_items, grain=1, work=work)


class Hyperbola:
    """A user's loss, without a compiled function: a hyperbola in place of the hinge."""

    def value(self, margin):
        return np.hypot(1.0, margin - 1.0) - (margin - 1.0)

    def derivative(self, margin):
        return (margin - 1.0) / np.hypot(1.0, margin - 1.0) - 1.0

    def curvature(self, margin):
        return np.hypot(1.0, margin - 1.0) ** -3.0


ONE = Workers(1)
LAYOUTS = {
    "cpu": partial(CPULayout, workers=ONE),
    "cpu on 3 threads": partial(CPULayout, workers=EagerWorkers(3)),
    **{
        f"cuda on {name}": partial(CUDALayout, workers=ONE, device=device)
        for name, device in DEVICES.items()
    },
}
ALL_LOSSES = [*LOSSES, Hyperbola()]
fewer = settings(max_examples=settings().max_examples // 3)
NOTHING = np.empty((0, 3), dtype=np.int64), np.empty(0)
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def losses_of(layout):
    """Return the losses that a layout serves: a card computes those of the library only."""
    if getattr(layout, "func", None) is CUDALayout:
        return LOSSES
    return ALL_LOSSES


def some_twins(layout):
    return twins(losses_of(layout), layout=layout, compared=comparisons)


def flat(margins):
    """Return margins as one array, in the order of the comparisons."""
    if isinstance(margins, tuple):  # one array per shard
        return np.concatenate(margins)
    return np.asarray(margins)


def draw_margins(twin, data):
    """Return the margins of a random model, as a handle and as an array."""
    margins = twin.ours.margins(*data.draw(models(twin.dense.d)))
    return margins, flat(margins)


def assert_gradient(gradient, dense, m, some_atoms):
    """Compare all that is additive over comparisons with C = -∇f, d × d."""
    C = -dense.gradient(m)
    S = C + C.T
    size = 1e-12 * max(dense.score_size(m), 1e-290)
    tolerance = {"rtol": 0.0, "atol": size / dense.scale}
    assert (gradient.n_features, gradient.scale) == (dense.d, dense.scale)
    assert_allclose(gradient.diagonal, np.diag(C), **tolerance)
    last = np.arange(dense.d)[-8:]
    for features in (last, last[::-1][:3], last[:1]):
        _, partner, entry = gradient.partners(features)
        assert_allclose(entry, S[features, partner], **tolerance)
    assert_allclose(
        gradient.scores(some_atoms), dense.scores(m, some_atoms), rtol=0, atol=size
    )
    assert gradient.is_zero() == (not dense.ell1(m).any())
    pulls = 2 * np.abs(dense.omega * dense.ell1(m)).sum()
    largest_rounding = 1e-12 * np.square(dense.X).max() * pulls * (1 + 1e-9)
    assert 0.0 <= gradient.rounding <= largest_rounding
