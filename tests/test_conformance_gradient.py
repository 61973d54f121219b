"""What every implementation of Gradient promises, against dense matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl.cpu.pairs
import reference
from hdsl.cpu.kernels.compiler import CHUNK
from hdsl.solver import losses
from hdsl.solver.atoms import Atom
from hdsl.solver.protocols import Move
from layouts import NOTHING, assert_gradient, draw_margins, every_layout, fewer, flat, some_twins
from strategies import atoms, comparisons, exact_twins, make_twin, models, random_arrays, subsets


def draw_batch(twin, data):
    """Return the numbers of a batch, or None, and the dense problem of these comparisons."""
    batch = data.draw(st.none() | subsets(twin.dense.T))
    return (None, twin.dense) if batch is None else (batch, twin.dense.subproblem(batch))


@every_layout
@fewer
@given(data=st.data())
def test_gradient(layout, data):
    """Over all comparisons, or over a batch, which is the problem of these alone."""
    twin = data.draw(some_twins(layout=layout))
    margins, m = draw_margins(twin, data)
    batch, part = draw_batch(twin, data)
    own = m if batch is None else m[batch]
    some_atoms = np.array(data.draw(st.lists(atoms(part.d), min_size=1, max_size=6)))
    gradient = twin.ours.gradient(margins, batch)
    assert gradient.covers_all == (batch is None)
    assert_gradient(gradient, part, own, some_atoms)
    # ⟨M, -∇f⟩ is of the learned part alone, whatever the prior; any model may be asked about.
    model = data.draw(models(part.d))
    expected = -(reference.model_matrix(*model, part.d, part.scale) * part.gradient(own)).sum()
    size = (part.omega @ np.abs(part.ell1(own))) * twin.dense.margin_size()
    size += part.score_size(own)
    others = twin.ours.margins(*model)
    assert gradient.dot(others) == pytest.approx(expected, abs=1e-12 * size)
    assert model[1] @ gradient.scores(model[0]) == pytest.approx(expected, abs=1e-12 * size)


@every_layout
@fewer
@given(data=st.data())
def test_parts_of_a_batch_add_up(layout, data):
    """With the weight of the whole batch, which is that of its parts."""
    twin = data.draw(some_twins(layout=layout))
    margins, m = draw_margins(twin, data)
    everything = np.arange(twin.dense.T)
    batch = data.draw(subsets(twin.dense.T))
    rest = np.setdiff1d(everything, batch)
    total = twin.ours.weight_of(everything)
    share = twin.dense.omega[batch].sum()
    assert twin.ours.weight_of(batch) == pytest.approx(share * total, rel=1e-12)
    parts = [twin.ours.gradient(margins, p, total).diagonal for p in (batch, rest) if len(p)]
    expected = twin.ours.gradient(margins).diagonal
    size = twin.dense.score_size(m) / twin.dense.scale
    assert_allclose(sum(parts), expected, rtol=0, atol=1e-12 * size)


@every_layout
@fewer
@given(data=st.data(), after=st.booleans())
def test_partners(layout, data, after):
    twin = data.draw(some_twins(layout=layout))
    margins, m = draw_margins(twin, data)
    batch, part = draw_batch(twin, data)
    own = m if batch is None else m[batch]
    C = -part.gradient(own)
    tolerance = 1e-12 * part.score_size(own) / part.scale
    features = np.array(data.draw(st.lists(st.integers(0, part.d - 1), min_size=1, max_size=12)))
    found = twin.ours.gradient(margins, batch).partners(features, after=after)
    reference.check_partners(found, C, features, after, tolerance)


@every_layout
@fewer
@given(data=st.data(), after=st.booleans(), count=st.integers(0, 13))
def test_ties_go_to_the_smallest(layout, data, after, count):
    """Without rounding the answer is the first of the best, also among those with S_ij = 0."""
    twin = data.draw(exact_twins(layout=layout, compared=comparisons))
    gradient, features = twin.ours.gradient(twin.ours.margins(*NOTHING)), np.arange(twin.dense.d)
    C = -twin.dense.gradient(np.zeros(twin.dense.T))
    largest = np.argsort(-np.diag(C), kind="stable")[:count]
    assert_array_equal(gradient.largest_diagonal(count), largest)
    values = reference.partner_values(C, features, after)
    value, partner, _ = gradient.partners(features, after=after)
    assert_array_equal(value, values.max(axis=1))
    assert_array_equal(partner, np.where(np.isneginf(value), -1, values.argmax(axis=1)))
    feature = st.integers(0, twin.dense.d - 1)
    starts = data.draw(st.lists(feature, min_size=count == 0, max_size=4))
    atom, _ = reference.climb(C, C + C.T, [*largest, *starts])
    score = C[atom[0], atom[0]] + C[atom[1], atom[1]] + abs((C + C.T)[atom[:2]])
    assert gradient.climb(starts, count) == (score, atom)


@every_layout
@fewer
@given(data=st.data())
def test_drift_bounds_every_row(layout, data):
    twin = data.draw(some_twins(layout=layout))
    S, gradients, size = [], [], 0.0
    for _ in range(2):
        margins, m = draw_margins(twin, data)
        C = -twin.dense.gradient(m)
        S.append(C + C.T)
        gradients.append(twin.ours.gradient(margins))
        size += twin.dense.score_size(m) / twin.dense.scale
    change = np.abs(S[0] - S[1])
    np.fill_diagonal(change, 0.0)
    drift = gradients[0].drift_since(gradients[1])
    assert (change.max(axis=1) <= drift + 1e-12 * size).all()
    assert not gradients[0].drift_since(gradients[0]).any()


@every_layout
def test_gradient_of_satisfied_and_of_contradictory_comparisons(layout):
    """Where nothing pulls it is zero; where two pull against each other it only cancels."""
    X, T = [[2.0, 1.0], [2.0, 1.0], [0.0, 0.0]], [[0, 1, 2], [0, 2, 1]]
    problem = make_twin(X, T[:1], prior=1.0, layout=layout).ours
    gradient = problem.gradient(problem.margins(np.array([[0, 1, 1]]), np.ones(1)))
    assert gradient.is_zero()
    assert not gradient.diagonal.any()
    problem = make_twin(X, T, layout=layout).ours
    gradient = problem.gradient(problem.margins(*NOTHING))
    assert not gradient.is_zero()
    assert not gradient.diagonal.any()


@every_layout
def test_sums_over_several_chunks(layout, monkeypatch):
    """Sums over many comparisons are the dense ones, in whatever pieces they are made."""
    for name in ("LEAST_PRODUCTS", "LEAST_SHARE"):
        monkeypatch.setattr(hdsl.cpu.pairs, name, 1)
    monkeypatch.setattr(hdsl.cpu.rows, "ENTRY_BLOCK", 7)
    X, T = random_arrays(0, T=2 * CHUNK + 3)
    weights = np.random.default_rng(1).random(len(T))
    twin = make_twin(X, T, "logistic", 3.0, 0.5, weights, layout=layout)
    ours, dense = twin.ours, twin.dense
    some = np.array([[0, 1, 1], [2, 7, -1], [3, 4, 1]])
    margins = ours.margins(some, np.array([0.5, 0.2, 0.3]))
    move = Move("away", None, Atom(2, 7, -1), 1.0)
    m, way = flat(margins), flat(ours.direction(margins, move))
    step = ours.step(margins, move, 0.25)
    assert_allclose(flat(step.margins), m + 0.25 * way, rtol=1e-14, atol=1e-15)
    assert step.value == pytest.approx(dense.value(m + 0.25 * way), rel=1e-12)
    (found,) = ours.slopes(margins, ours.direction(margins, move), [0.25])
    expected = dense.slope(m, way, 0.25), dense.curvature(m, way, 0.25)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
    gradient = ours.gradient(margins)
    assert_gradient(gradient, dense, m, some)
    expected = (m - dense.offset) @ (-dense.omega * dense.ell1(m))
    assert gradient.dot(margins) == pytest.approx(expected, rel=1e-10)


@every_layout
@fewer
@given(data=st.data())
def test_second_derivatives_and_changes_of_weights(layout, data):
    """They are the dense ones, for atoms that the model has or has not."""
    twin = data.draw(some_twins(layout=layout))
    margins, m = draw_margins(twin, data)
    some, change = data.draw(models(twin.dense.d))
    V = reference.atom_margins(twin.dense, some)
    bend = twin.dense.omega * losses.get(twin.dense.loss).curvature(m)
    expected = V.T @ (bend[:, None] * V)
    found = twin.ours.curvature(margins, some)
    # Terms of an entry, products of four values of X, may be large and cancel.
    size = bend.sum() * (8 * twin.dense.scale * np.abs(twin.dense.X).max() ** 2) ** 2
    assert_allclose(found, expected, rtol=0, atol=1e-11 + 1e-13 * size)
    shift = flat(twin.ours.shift(some, change))
    assert_allclose(shift, V @ change, rtol=0, atol=1e-12 * (1 + np.abs(V).max()))


@every_layout
@fewer
@given(data=st.data())
def test_an_ascent_to_many_vertices(layout, data):
    """They are distinct, have their true scores, and come best first; the first is a climb's."""
    twin = data.draw(some_twins(layout=layout))
    gradient = twin.ours.gradient(draw_margins(twin, data)[0])
    starts = data.draw(st.lists(st.integers(0, twin.dense.d - 1), max_size=3))
    found = gradient.climb_all(starts, 2)
    listed = np.array([vertex.atom for vertex in found])
    assert len(np.unique(listed, axis=0)) == len(found)
    scores = np.array([vertex.score for vertex in found])
    assert (np.diff(scores) <= 0).all()
    # Terms of a score may be large and cancel.
    size = 1e-11 * (1 + np.abs(scores).max()) + 4 * gradient.scale * gradient.rounding
    assert_allclose(gradient.scores(listed), scores, rtol=0, atol=size)
    assert scores[0] == pytest.approx(gradient.climb(starts, 2).score, abs=size)
