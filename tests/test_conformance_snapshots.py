"""Snapshots of every implementation: restored to the last bit, refused where damaged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from layouts import draw_margins, every_layout, fewer, flat, some_twins
from strategies import make_twin, models, random_arrays


def answers(problem, margins, gradient, some_atoms):
    """Return what a problem says at some margins, and of a gradient without its slopes."""
    return [
        flat(margins), problem.value(margins), gradient.diagonal, gradient.entries(some_atoms),
        gradient.scores(some_atoms), gradient.rows(np.arange(2)), gradient.rounding,
        gradient.drift_since(problem.gradient(margins)), *gradient.partners(np.arange(2)),
    ]  # fmt: skip


@every_layout
@fewer
@given(data=st.data())
def test_a_snapshot_restores_margins_and_gradients(layout, data):
    """A fresh problem answers as the first one did, to the last bit."""
    twin = data.draw(some_twins(layout=layout))
    some_atoms = data.draw(models(twin.dense.d))[0]
    margins, _ = draw_margins(twin, data)
    gradient = twin.ours.gradient(margins)
    expected = answers(twin.ours, margins, gradient, some_atoms)
    arrays, own = twin.ours.snapshot(margins), gradient.snapshot()
    assert all(isinstance(array, np.ndarray) for array in [*arrays.values(), *own.values()])
    fresh = make_twin(
        twin.X, twin.triplets, twin.dense.loss, twin.dense.scale, twin.dense.prior, twin.weights,
        layout=layout,
    ).ours  # fmt: skip
    restored = fresh.restore(arrays), fresh.restore_gradient(own)
    for a, b in zip(answers(fresh, *restored, some_atoms), expected, strict=True):
        assert_array_equal(a, b)
    again = fresh.snapshot(restored[0])
    assert again.keys() == arrays.keys()
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


def damages(array):
    """Yield what an array of a snapshot may have become."""
    yield array.astype(np.float32 if array.dtype == np.float64 else np.int32)
    yield array[..., np.newaxis]
    if not array.size:
        return
    yield array.ravel()[: array.size - 1]
    if array.dtype == np.float64:
        for bad in (np.nan, np.inf):
            yield np.where(np.arange(array.size) == array.size // 2, bad, array)
    else:
        for bad in (-1, 10**6):
            yield np.full_like(array, bad)
        yield array[:, ::-1].copy()


@every_layout
def test_a_damaged_snapshot_is_refused(layout):
    twin = make_twin(*random_arrays(1), layout=layout)
    margins = twin.ours.margins(np.array([[0, 1, 1]]), np.ones(1))
    gradient = twin.ours.gradient(margins)
    gradient.entries(np.array([[0, 1, 1], [2, 5, -1]]))
    for restore, arrays in (
        (twin.ours.restore, twin.ours.snapshot(margins)),
        (twin.ours.restore_gradient, gradient.snapshot()),
    ):
        restore(arrays)
        with pytest.raises(ValueError, match="'what'"):
            restore({**arrays, "what": np.zeros(3)})
        for name in arrays:
            with pytest.raises(ValueError, match="is missing"):
                restore({k: v for k, v in arrays.items() if k != name})
            for damaged in damages(arrays[name]):
                with pytest.raises(ValueError, match=r"expected|exist|finite"):
                    restore({**arrays, name: damaged})
