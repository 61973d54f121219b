"""What every implementation of Layout, Problem and Gradient promises, against dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.cpu.comparisons import Pairs
from hdsl.cpu.kernels.losses import CHUNK
from hdsl.layout import sides_of
from hdsl.rows import Rows
from hdsl.solver import losses
from hdsl.solver.atoms import ZERO, Atom, Correction, Move, direction_atoms
from hdsl.solver.oracle import climb
from layouts import (
    LAYOUTS,
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
    exact_twins,
    make_twin,
    matrices,
    models,
    random_arrays,
    subsets,
    triplet_weights,
)

# --- an embedding beside the features -------------------------------------------------


@every_layout
@fewer
@given(data=st.data())
def test_an_embedding_counts_in_inner_products_alone(layout, data):
    X = data.draw(matrices())
    T = data.draw(comparisons(len(X)))
    order = np.argsort(T[:, 0], kind="stable")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    Z = rng.integers(-4, 5, size=(len(X), 3)).astype(np.float32)
    rows = Rows(sp.csr_array(X), Z)
    laid_out = layout(rows, T)
    problem = laid_out.problem(losses.get("smoothed_hinge"), 1.0, 2.0)
    sides = sides_of(T[order].T)
    inner = X @ X.T + Z.astype(float) @ Z.astype(float).T
    expected = 2.0 * (inner[sides[0], sides[1]] - inner[sides[2], sides[3]])
    margins = flat(problem.margins(*NOTHING))
    assert_allclose(margins, expected, atol=1e-12 * (1 + np.abs(inner).max()))
    statistics = laid_out.statistics()
    squares = np.square(X).sum(axis=1) + np.square(Z.astype(float)).sum(axis=1)
    assert laid_out.n_features == problem.n_features <= X.shape[1]
    assert statistics.own_similarity <= squares.max() * (1 + 1e-9)
    assert statistics.own_similarity >= squares.min() * (1 - 1e-9)


# --- margins, value and steps ---------------------------------------------------------


@every_layout
@fewer
@given(data=st.data())
def test_margins_and_value(layout, data):
    twin = data.draw(some_twins(layout=layout))
    ours = twin.ours
    dense = twin.dense
    model = data.draw(models(dense.d))
    tolerance = 1e-13 * dense.margin_size()
    margins = ours.margins(*model)
    assert (ours.n_features, ours.n_comparisons) == (dense.d, dense.T)
    assert_allclose(flat(margins), dense.margins(*model), rtol=0, atol=tolerance)
    assert_allclose(flat(ours.margins(*NOTHING)), dense.offset, rtol=0, atol=tolerance)
    # Nothing is left behind.
    assert_array_equal(flat(ours.margins(*model)), flat(margins))
    assert ours.value(margins) == pytest.approx(dense.value(flat(margins)), rel=1e-12)
    ours.reset()
    assert_allclose(flat(ours.margins(*model)), flat(margins), rtol=0, atol=tolerance)


def draw_moves(dense, m, data):
    """Return a move toward an atom, away from one, between two, to 0, and a change of many weights.

    With each comes the change of the margins.
    """
    a, b = (Atom(*data.draw(atoms(dense.d))) for _ in range(2))
    at_a, at_b = (dense.margins([atom], [1.0]) for atom in (a, b))
    some, change = data.draw(models(dense.d))
    changed = reference.atom_margins(dense, some) @ change
    limit = data.draw(st.sampled_from([0.3, 1.0]))
    return (
        (Move("", a, None, limit), at_a - m),
        (Move("", None, a, limit), m - at_a),
        (Move("", a, b, limit), at_a - at_b),
        (Move("", ZERO, None, limit), dense.offset - m),
        (Correction("", a, None, limit, some, change), changed),
    )


@every_layout
@fewer
@given(data=st.data())
def test_steps_minimise(layout, data):
    twin = data.draw(some_twins(layout=layout))
    ours = twin.ours
    dense = twin.dense
    margins, m = draw_margins(twin, data)
    moves = draw_moves(dense, m, data)
    some = [moves[0][0].toward]
    for move, way in moves:
        step = ours.step(margins, move)
        limit = move.max_step_size
        assert_array_equal(flat(margins), m)
        room = 1e-12 * dense.margin_size()  # of rounding, in margins
        slope = dense.slope(m, way, 0.0)
        if step is None:
            assert slope >= -room * (dense.omega @ np.abs(dense.ell1(m)))
            continue
        assert 0.0 < step.step_size <= limit
        there = m + step.step_size * way
        best = dense.line_search(m, way, limit)
        assert_allclose(flat(step.margins), there, rtol=1e-15, atol=4 * room)
        # A search ends where the slope is this much of the first one.
        room = room * (1 + dense.omega @ np.abs(dense.ell1(there))) - 1e-13 * slope
        found = dense.value(there)
        assert found <= dense.value(m + best * way) * (1 + 1e-9) + room
        assert step.value == pytest.approx(found, rel=1e-9, abs=room)
        there = flat(step.margins)
        scores = ours.gradient(step.margins).scores(np.array(some))
        size = dense.score_size(there)
        assert_allclose(
            scores, dense.scores(there, some), rtol=0, atol=1e-12 * max(size, 1e-290)
        )


@pytest.mark.parametrize("layout", [LAYOUTS["cpu"], LAYOUTS["cpu on 3 threads"]])
@fewer
@given(data=st.data())
def test_what_steps_are_built_on(layout, data):
    twin = data.draw(some_twins(layout=layout))
    ours = twin.ours
    dense = twin.dense
    margins, m = draw_margins(twin, data)
    sizes = data.draw(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=3))
    room = dense.margin_size()
    for move, way in draw_moves(dense, m, data):
        direction = ours.direction(margins, move)
        assert_allclose(flat(direction), way, rtol=0, atol=2e-12 * room)
        way = flat(direction)
        slopes = ours.slopes(margins, direction, sizes)
        assert slopes.shape == (len(sizes), 2)
        for size, (first, second) in zip(sizes, slopes, strict=True):
            there = m + size * way
            # e^-m turns the rounding of a margin, 1e-16 of it, into that much of the
            # slope
            terms = dense.omega @ np.abs(way * dense.ell1(there))
            expected = dense.slope(m, way, size)
            assert first == pytest.approx(expected, abs=1e-12 * terms * room)
            # A kink leaves the second derivative open: rounding decides the side.
            if np.abs(there[:, None] - [-30.0, 0.0, 1.0]).min() > 1e-9:
                expected = dense.curvature(m, way, size)
                assert second == pytest.approx(expected, rel=1e-9, abs=1e-300)
            step = ours.advance(margins, ours.direction(margins, move), size)
            assert_allclose(flat(step.margins), there, rtol=1e-15, atol=1e-12 * room)
            assert step.step_size == size
            assert step.value == pytest.approx(ours.value(step.margins), rel=1e-13)
        assert_array_equal(flat(margins), m)


@every_layout
@fewer
@given(data=st.data(), factor=st.floats(0.01, 100.0))
def test_weights_are_repetitions(layout, data, factor):
    """A weight k is k copies, a weight 0 is none, and only ratios matter."""
    X = data.draw(matrices())
    T = data.draw(comparisons(len(X), sizes=st.integers(1, 8)))
    times = data.draw(
        st.lists(st.integers(0, 3), min_size=len(T), max_size=len(T)).filter(any)
    )
    model = data.draw(models(int(X.any(axis=0).sum())))
    answers = []
    for compared, weights in (
        (T, factor * np.array(times)),
        (np.repeat(T, times, axis=0), None),
    ):
        problem = make_twin(X, compared, scale=2.0, weights=weights, layout=layout).ours
        margins = problem.margins(*model)
        gradient = problem.gradient(margins)
        answers.append(
            (problem.value(margins), gradient.dot(margins), gradient.scores(model[0]))
        )
    for a, b in zip(*answers, strict=True):
        assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@every_layout
def test_a_triplet_is_a_quadruplet_with_one_row_twice(layout):
    X, T = random_arrays(2)
    model = np.array([[0, 1, 1], [2, 5, -1]]), np.array([0.4, 0.6])
    answers = []
    for compared in (T, T[:, [0, 1, 0, 2]]):
        twin = make_twin(
            X, compared, "logistic", 3.0, 0.5, np.arange(1.0, 31.0), layout=layout
        )
        margins = twin.ours.margins(*model)
        gradient = twin.ours.gradient(margins)
        answers += [
            [flat(margins), gradient.diagonal, *gradient.partners(np.arange(8))]
        ]
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


# --- directions of an embedding -------------------------------------------------------


@st.composite
def embedded_twins(draw, layout):
    """A problem with both kinds of atoms, its dense twin, and some directions."""
    X = draw(matrices())
    T = np.asarray(draw(comparisons(len(X))))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    Z = rng.normal(size=(len(X), draw(st.integers(1, 5)))).astype(np.float32)
    loss = draw(st.sampled_from(losses_of(layout)))
    prior = draw(st.sampled_from([0.0, 0.5]))
    laid_out = layout(Rows(sp.csr_array(X), Z), T)
    ours = laid_out.problem(losses.get(loss), 2.0, prior, 3.0)
    ordered = T[np.argsort(T[:, 0], kind="stable")]
    columns = np.column_stack([X[:, laid_out.features], Z.astype(float)])
    dense = reference.Problem(columns, ordered, loss, 2.0, prior)
    numbers = ours.directions.add(
        rng.normal(size=(draw(st.integers(1, 40)), Z.shape[1]))
    )
    return ours, dense, ours.directions.take(numbers)


def dense_atoms(dense, paired, vectors):
    """Return λ(e_i ± e_j)(e_i ± e_j)ᵀ of pairs and 3·uuᵀ of directions, in the last columns."""
    answer = [reference.atom_matrix(atom, dense.d, dense.scale) for atom in paired]
    for vector in vectors:
        whole = np.append(np.zeros(dense.d - len(vector)), vector)
        answer.append(3.0 * np.outer(whole, whole))
    return answer


@every_layout
@fewer
@given(data=st.data())
def test_both_kinds_of_atoms_against_dense_algebra(layout, data):
    """Margins, scores, the block of the gradient, second derivatives, steps."""
    ours, dense, vectors = data.draw(embedded_twins(layout))
    paired, shares = data.draw(models(ours.n_features))
    some = np.concatenate([paired, direction_atoms(np.arange(len(vectors)))])
    shares = np.append(0.5 * shares, np.full(len(vectors), 0.5 / len(vectors)))
    matrices_of_atoms = dense_atoms(dense, paired, vectors)
    M = np.tensordot(shares, matrices_of_atoms, axes=1)
    room = 1e-9 * (1.0 + np.abs(dense.A).sum(axis=(1, 2)).max())
    margins = ours.margins(some, shares)
    m = flat(margins)
    assert_allclose(m, dense.offset + dense.margins_of(M), atol=room)

    gradient = ours.gradient(margins)
    G = -dense.gradient(m)
    width = vectors.shape[1]
    inside = G[-width:, -width:]
    assert gradient.direction_scale == 3.0
    # Products of the embedding are in single precision.
    pulls = dense.omega * np.abs(dense.ell1(m))
    single = 1e-5 * (1.0 + np.square(dense.X).sum(axis=1).max()) * pulls.sum()
    assert_allclose(gradient.block, 0.5 * (inside + inside.T), atol=single)
    scores = [(B * G).sum() for B in matrices_of_atoms]
    assert_allclose(gradient.scores(some), scores, atol=3 * width * single + room)
    size = room * (1.0 + pulls.sum())
    assert_allclose(gradient.dot(margins), (M * G).sum(), atol=size)

    V = np.column_stack([dense.margins_of(B) for B in matrices_of_atoms])
    if np.abs(m[:, None] - [-30.0, 0.0, 1.0]).min() > 1e-9:  # a kink is on either side
        curvatures = dense.omega * dense.ell2(m)
        expected = (V.T * curvatures) @ V
        found = ours.curvature(margins, some)
        atol = room * (1.0 + np.abs(V).max())
        assert_allclose(found, expected, rtol=1e-7, atol=atol)

    own = Atom(*some[-1].tolist())
    first = Atom(*some[0].tolist())
    lengths = 1.0, shares[-1] / (1.0 - shares[-1]), shares[0]
    ways = (V[:, -1] - V @ shares, V @ shares - V[:, -1], V[:, -1] - V[:, 0])
    moves = [
        Move("forward", own, None, lengths[0]),
        Move("away", None, own, lengths[1]),
        Move("pairwise", own, first, lengths[2]),
        Correction(
            "correct", own, None, 1.0, some, 0.5 * (np.eye(len(some))[-1] - shares)
        ),
    ]
    ways = [*ways, 0.5 * ways[0]]
    for move, way in zip(moves, ways, strict=True):
        best = dense.line_search(m, way, move.max_step_size)
        value = dense.value(m + best * way)
        step = ours.step(margins, move)
        if step is None:
            assert dense.value(m) <= value + room
            continue
        assert step.value == pytest.approx(value, rel=1e-7, abs=room)
        there = m + step.step_size * way
        assert_allclose(flat(step.margins), there, atol=10 * room)
        again = ours.gradient(step.margins)
        C = -dense.gradient(flat(step.margins))
        assert_allclose(again.diagonal, np.diag(C)[:-width], atol=1e3 * room)


@every_layout
@fewer
@given(data=st.data())
def test_the_best_direction_is_the_best_of_all(layout, data):
    ours, _, vectors = data.draw(embedded_twins(layout))
    gradient = ours.gradient(ours.margins(*NOTHING))
    vertices = gradient.best_directions(3)
    found = np.array([vertex.score for vertex in vertices])
    scores = gradient.scores(np.array([vertex.atom for vertex in vertices]))
    room = 1e-5 * (1e-9 + np.abs(gradient.block).sum())
    assert_allclose(found, scores, atol=3 * room)
    along = 3.0 * np.einsum("kj,kj->k", vectors @ gradient.block, vectors)
    assert along.max() <= found[0] + room


# --- numbers of features, statistics --------------------------------------------------


@every_layout
@fewer
@given(data=st.data())
def test_numbers_of_features(layout, data):
    """Empty columns are no features, the fullest come first, and atoms translate both ways."""
    X = data.draw(matrices())
    compared = data.draw(comparisons(len(X)))
    twin = make_twin(X, compared, layout=layout)
    used = np.flatnonzero(X.any(axis=0))
    keys = reference.column_keys(X, compared)[:, used]
    features = used[np.lexsort((-keys[1].astype(np.float32), -keys[0]))].tolist()
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
    found = twin.layout.statistics()
    dense = twin.dense
    own = np.ones(len(T)) if weights is None else np.array(weights) / np.max(weights)
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


# --- gradients ------------------------------------------------------------------------


def draw_batch(twin, data):
    """Return the numbers of a batch, or None, and the dense problem of these comparisons."""
    batch = data.draw(st.none() | subsets(twin.dense.T))
    return (
        (None, twin.dense) if batch is None else (batch, twin.dense.subproblem(batch))
    )


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
    # ⟨M, -∇f⟩ is of the learned part alone, whatever the prior; any model may be asked
    # about.
    model = data.draw(models(part.d))
    expected = -(
        reference.model_matrix(*model, part.d, part.scale) * part.gradient(own)
    ).sum()
    size = (part.omega @ np.abs(part.ell1(own))) * twin.dense.margin_size()
    size += part.score_size(own)
    others = twin.ours.margins(*model)
    assert gradient.dot(others) == pytest.approx(expected, abs=1e-12 * size)
    assert model[1] @ gradient.scores(model[0]) == pytest.approx(
        expected, abs=1e-12 * size
    )


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
    features = np.array(
        data.draw(st.lists(st.integers(0, part.d - 1), min_size=1, max_size=12))
    )
    found = twin.ours.gradient(margins, batch).partners(features, after=after)
    reference.check_partners(found, C, features, after, tolerance)


@every_layout
@fewer
@given(data=st.data(), after=st.booleans(), count=st.integers(0, 13))
def test_ties_go_to_the_smallest(layout, data, after, count):
    """Without rounding the answer is the first of the best, also among those with S_ij = 0."""
    twin = data.draw(exact_twins(layout=layout, compared=comparisons))
    gradient = twin.ours.gradient(twin.ours.margins(*NOTHING))
    features = np.arange(twin.dense.d)
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
    assert climb(gradient, starts, count)[0] == (score, atom)


@every_layout
@fewer
@given(data=st.data())
def test_drift_bounds_every_row(layout, data):
    twin = data.draw(some_twins(layout=layout))
    S = []
    gradients = []
    size = 0.0
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
    X = [[2.0, 1.0], [2.0, 1.0], [0.0, 0.0]]
    T = [[0, 1, 2], [0, 2, 1]]
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
    for name in ("least_products", "least_per_feature"):
        monkeypatch.setattr(Pairs, name, 1)
    X, T = random_arrays(0, T=2 * CHUNK + 3)
    weights = np.random.default_rng(1).random(len(T))
    twin = make_twin(X, T, "logistic", 3.0, 0.5, weights, layout=layout)
    ours = twin.ours
    dense = twin.dense
    some = np.array([[0, 1, 1], [2, 7, -1], [3, 4, 1]])
    margins = ours.margins(some, np.array([0.5, 0.2, 0.3]))
    m = flat(margins)
    way = dense.margins(some[1:2], [1.0]) - m
    step = ours.step(margins, Move("forward", Atom(2, 7, -1), None, 1.0))
    there = m + step.step_size * way
    best = dense.line_search(m, way, 1.0)
    assert step.step_size == pytest.approx(best, rel=1e-6)
    assert_allclose(flat(step.margins), there, rtol=1e-13, atol=1e-13)
    assert step.value == pytest.approx(dense.value(there), rel=1e-12)
    gradient = ours.gradient(margins)
    assert_gradient(gradient, dense, m, some)
    expected = (m - dense.offset) @ (-dense.omega * dense.ell1(m))
    assert gradient.dot(margins) == pytest.approx(expected, rel=1e-10)


@every_layout
@fewer
@given(data=st.data())
def test_second_derivatives(layout, data):
    """They are the dense ones, for atoms that the model has or has not."""
    twin = data.draw(some_twins(layout=layout))
    margins, m = draw_margins(twin, data)
    some, _ = data.draw(models(twin.dense.d))
    V = reference.atom_margins(twin.dense, some)
    bend = twin.dense.omega * losses.get(twin.dense.loss).curvature(m)
    expected = V.T @ (bend[:, None] * V)
    found = twin.ours.curvature(margins, some)
    # Terms of an entry, products of four values of X, may be large and cancel.
    size = bend.sum() * (8 * twin.dense.scale * np.abs(twin.dense.X).max() ** 2) ** 2
    assert_allclose(found, expected, rtol=0, atol=1e-11 + 1e-13 * size)


@every_layout
@fewer
@given(data=st.data())
def test_an_ascent_to_many_vertices(layout, data):
    """They are distinct, have their true scores, and come best first."""
    twin = data.draw(some_twins(layout=layout))
    gradient = twin.ours.gradient(draw_margins(twin, data)[0])
    starts = data.draw(st.lists(st.integers(0, twin.dense.d - 1), max_size=3))
    found = climb(gradient, starts, 2)
    listed = np.array([vertex.atom for vertex in found])
    assert len(np.unique(listed, axis=0)) == len(found)
    scores = np.array([vertex.score for vertex in found])
    assert (np.diff(scores) <= 0).all()
    # Terms of a score may be large and cancel.
    size = 1e-11 * (1 + np.abs(scores).max()) + 4 * gradient.scale * gradient.rounding
    assert_allclose(gradient.scores(listed), scores, rtol=0, atol=size)


@fewer
@given(data=st.data())
def test_a_fixed_model_below(data):
    """Its margins, in the order of the comparisons as given, are an offset, as the prior's are."""
    twin = data.draw(some_twins(LAYOUTS["cpu"]))
    dense = twin.dense
    M = reference.model_matrix(*data.draw(models(dense.d)), dense.d, scale=2.0)
    below = dense.margins_of(M)
    order = np.argsort(twin.triplets[:, 0], kind="stable")
    as_given = np.empty(len(order))
    as_given[order] = below
    ours = twin.layout.problem(
        losses.get(dense.loss), dense.scale, dense.prior, other_margins=as_given
    )
    offset = dense.offset + below
    room = 1e-12 * (dense.margin_size() + np.abs(offset).max())
    assert_allclose(flat(ours.margins(*NOTHING)), offset, rtol=0, atol=room)
    model = data.draw(models(dense.d))
    margins = ours.margins(*model)
    expected = offset + dense.margins(*model) - dense.offset
    assert_allclose(flat(margins), expected, rtol=0, atol=2 * room)
    way = flat(
        ours.direction(margins, Move("", None, Atom(*model[0][0].tolist()), 1.0))
    )
    expected -= offset + dense.margins(model[0][:1], [1.0]) - dense.offset
    assert_allclose(way, expected, rtol=0, atol=4 * room)
    # ⟨M, -∇f⟩ is of the learned part alone.
    gradient = ours.gradient(margins)
    learned = float(model[1] @ gradient.scores(model[0]))
    size = (
        dense.omega @ np.abs(dense.ell1(flat(margins)))
    ) * room + 1e-12 * dense.score_size(flat(margins))
    assert gradient.dot(margins) == pytest.approx(learned, abs=10 * size)
