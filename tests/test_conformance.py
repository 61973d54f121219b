"""What every implementation of Layout and Problem promises, against dense matrices."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.solver import losses
from hdsl.solver.atoms import Atom
from hdsl.solver.protocols import Move
from layouts import (
    NOTHING,
    assert_gradient,
    draw_margins,
    every_layout,
    fewer,
    flat,
    losses_of,
    some_twins,
)
from pairwise import pairwise
from strategies import (
    atoms,
    comparisons,
    make_twin,
    matrices,
    models,
    random_arrays,
    triplet_weights,
)

# --- margins, value and steps --------------------------------------------------------------------


@every_layout
@fewer
@given(data=st.data())
def test_margins_and_value(layout, data):
    twin = data.draw(some_twins(layout=layout))
    ours, dense = twin.ours, twin.dense
    model = data.draw(models(dense.d))
    tolerance = 1e-13 * dense.margin_size()
    margins = ours.margins(*model)
    assert (ours.n_features, ours.n_comparisons) == (dense.d, dense.T)
    assert_allclose(flat(margins), dense.margins(*model), rtol=0, atol=tolerance)
    assert_allclose(flat(ours.margins(*NOTHING)), dense.offset, rtol=0, atol=tolerance)
    assert_array_equal(flat(ours.margins(*model)), flat(margins))  # nothing is left behind
    assert ours.value(margins) == pytest.approx(dense.value(flat(margins)), rel=1e-12)
    assert ours.largest_margin(margins) == np.abs(flat(margins)).max()


@every_layout
@fewer
@given(data=st.data())
def test_steps(layout, data):
    """Toward an atom, away from one and between two, of a given size."""
    twin = data.draw(some_twins(layout=layout))
    ours, dense = twin.ours, twin.dense
    margins, m = draw_margins(twin, data)
    a, b = (Atom(*data.draw(atoms(dense.d))) for _ in range(2))
    at_a, at_b = (dense.margins([atom], [1.0]) for atom in (a, b))
    sizes = data.draw(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=3))
    room = dense.margin_size()
    for toward, away, way in (
        (a, None, at_a - m),
        (None, a, m - at_a),
        (a, b, at_a - at_b),
    ):
        move = Move("", toward, away, 1.0)
        direction = ours.direction(margins, move)
        assert_allclose(flat(direction), way, rtol=0, atol=2e-12 * room)
        way = flat(direction)
        slopes = ours.slopes(margins, direction, sizes)
        assert slopes.shape == (len(sizes), 2)
        for size, (first, second) in zip(sizes, slopes, strict=True):
            there = m + size * way
            # e^-m turns the rounding of a margin, 1e-16 of it, into that much of the slope
            terms = dense.omega @ np.abs(way * dense.ell1(there))
            expected = dense.slope(m, way, size)
            assert first == pytest.approx(expected, abs=1e-12 * terms * room)
            # A kink leaves the second derivative open: rounding decides the side.
            if np.abs(there[:, None] - [-30.0, 0.0, 1.0]).min() > 1e-9:
                expected = dense.curvature(m, way, size)
                assert second == pytest.approx(expected, rel=1e-9, abs=1e-300)
            step = ours.advance(margins, direction, size)
            assert_allclose(flat(step.margins), there, rtol=1e-15, atol=1e-12 * room)
            assert step.step_size == size
            assert step.value == ours.value(step.margins)
            assert step.largest_margin == ours.largest_margin(step.margins)
            again = ours.step(margins, move, size)
            assert (again is None) == (size == 0.0)
            if again is not None:
                assert_array_equal(flat(again.margins), flat(step.margins))
                assert again == (
                    again.margins,
                    size,
                    pytest.approx(step.value, rel=1e-13),
                    step[-1],
                )
        assert_array_equal(flat(margins), m)


@every_layout
@fewer
@given(data=st.data())
def test_line_search_minimises(layout, data):
    twin = data.draw(some_twins(layout=layout))
    ours, dense = twin.ours, twin.dense
    margins, m = draw_margins(twin, data)
    atom, limit = Atom(*data.draw(atoms(dense.d))), data.draw(st.sampled_from([0.3, 1.0]))
    move = Move("forward", atom, None, limit)
    way = flat(ours.direction(margins, move))
    step = ours.step(margins, move)
    best = dense.line_search(m, way, limit)
    slope = partial(dense.slope, m, way)
    terms = dense.omega @ np.abs(way * dense.ell1(m)) * dense.margin_size()
    if step is None:
        assert slope(0.0) >= -1e-12 * terms
        return
    assert 0.0 < step.step_size <= limit
    found = dense.value(m + step.step_size * way)
    assert found <= dense.value(m + best * way) * (1 + 1e-9) + 1e-12
    assert step.value == pytest.approx(found, rel=1e-9, abs=1e-12)


# --- what must make no difference ----------------------------------------------------------------


@every_layout
@fewer
@given(data=st.data(), factor=st.floats(0.01, 100.0))
def test_weights_are_repetitions(layout, data, factor):
    """A weight k is k copies, a weight 0 is none, and only ratios matter."""
    X = data.draw(matrices())
    T = data.draw(comparisons(len(X), sizes=st.integers(1, 8)))
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(T), max_size=len(T)).filter(any))
    model = data.draw(models(int(X.any(axis=0).sum())))
    answers = []
    for compared, weights in (
        (T, factor * np.array(times)),
        (np.repeat(T, times, axis=0), None),
    ):
        problem = make_twin(X, compared, scale=2.0, weights=weights, layout=layout).ours
        margins = problem.margins(*model)
        gradient = problem.gradient(margins)
        answers.append((problem.value(margins), gradient.dot(margins), gradient.scores(model[0])))
    for a, b in zip(*answers, strict=True):
        assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@every_layout
def test_a_triplet_is_a_quadruplet_with_one_row_twice(layout):
    X, T = random_arrays(2)
    model = np.array([[0, 1, 1], [2, 5, -1]]), np.array([0.4, 0.6])
    answers = []
    for compared in (T, T[:, [0, 1, 0, 2]]):
        twin = make_twin(X, compared, "logistic", 3.0, 0.5, np.arange(1.0, 31.0), layout=layout)
        margins = twin.ours.margins(*model)
        gradient = twin.ours.gradient(margins)
        answers += [[flat(margins), gradient.diagonal, gradient.rows(np.arange(8))]]
        answers[-1] += [np.array(twin.layout.statistics())]
    for a, b in zip(*answers, strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@every_layout
def test_problems_share_a_layout(layout):
    """One layout serves several losses, scales and priors."""
    twin = make_twin(*random_arrays(4), layout=layout)
    model = np.array([[0, 1, 1], [2, 3, -1]]), np.array([0.5, 0.5])
    for loss, (scale, prior) in pairwise(losses_of(layout), [(1.0, 0.0), (7.0, 2.0)]):
        ours = twin.layout.problem(losses.get(loss), scale, prior)
        dense = reference.Problem(twin.dense.X, twin.dense.triplets, loss, scale, prior)
        margins = ours.margins(*model)
        assert_allclose(flat(margins), dense.margins(*model), atol=1e-13 * scale)
        assert_gradient(ours.gradient(margins), dense, flat(margins), model[0])
        assert 0.0 < ours.exact_search_cost() < np.inf
        with pytest.raises(ValueError, match="shorter"):
            ours.margins(model[0], model[1][:1])


# --- numbers of features, statistics -------------------------------------------------------------


@every_layout
@fewer
@given(data=st.data())
def test_numbers_of_features(layout, data):
    """Empty columns are no features, the fullest come first, and atoms translate both ways."""
    X = data.draw(matrices())
    twin = make_twin(X, data.draw(comparisons(len(X))), layout=layout)
    full = np.count_nonzero(X, axis=0)
    features = sorted(np.flatnonzero(full), key=lambda j: (-full[j], j))
    assert twin.layout.features.tolist() == features
    assert twin.layout.n_features == twin.ours.n_features == len(features)
    own = np.array(reference.all_atoms(len(features)))
    users = twin.ours.to_user(own)
    expected = np.sort(np.array(features)[own[:, :2]], axis=1)
    assert_array_equal(users, np.column_stack([expected, own[:, 2]]))
    assert_array_equal(twin.ours.from_user(users), own)
    assert_array_equal(twin.ours.from_user(users[:0]), users[:0])
    no_atom = np.array([[-1, -1, 0]])
    assert_array_equal(twin.ours.to_user(no_atom), no_atom)


@every_layout
@fewer
@given(data=st.data())
def test_statistics(layout, data):
    """They are the dense ones, whatever the implementation."""
    X = data.draw(matrices())
    T = data.draw(comparisons(len(X)))
    weights = data.draw(triplet_weights(len(T)) | st.just([0.0] * (len(T) - 1) + [2.0]))
    twin = make_twin(X, T, weights=weights, layout=layout)
    found, dense = twin.layout.statistics(), twin.dense
    own = np.ones(len(T)) if weights is None else np.array(weights) / np.max(weights)
    assert found.total_weight == pytest.approx(own.sum(), rel=1e-12)
    margins = np.abs(np.trace(dense.A, axis1=1, axis2=2))
    margins[margins < 1e-12] = 0.0
    typical = dense.omega @ margins
    typical = np.square(X).sum() / len(X) if typical == 0.0 else typical
    assert found.typical_margin == pytest.approx(typical, rel=1e-12)
    assert found.n_anchors == len(set(T[own > 0, 0]))
    squares = np.square(dense.X)
    fourth = np.square(squares).sum(axis=1)
    values = np.square(squares.sum(axis=1)) / np.where(fourth > 0, fourth, 1.0)
    expected = dense.omega @ values[dense.triplets[:, 0]]
    assert found.values_per_anchor == pytest.approx(expected, rel=1e-12)
    own = dense.omega @ squares.sum(axis=1)[dense.triplets[:, 0]]
    assert found.own_similarity == pytest.approx(own, rel=1e-12)
