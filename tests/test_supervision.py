"""What a fit learns from: checked, shared out by rows, and refused in plain words."""

import re

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from numpy.testing import assert_allclose, assert_array_equal

import strategies
from hdsl import HDSL
from hdsl.estimators.supervision import Supervision


def numbered(n, d=4):
    """Rows that tell their own number."""
    return sp.csr_array(np.column_stack([np.arange(1.0, n + 1), np.ones((n, d - 1))]))


def numbers(X):
    return (X.toarray()[:, 0] - 1).astype(int)


def labelled(y, weights=None):
    return Supervision.check("HDSL", numbered(len(y)), y, None, weights)


def judged(n, triplets, weights=None):
    return Supervision.check("HDSL", numbered(n), None, triplets, weights)


# --- what is given -------------------------------------------------------------------------------


def test_labels_or_judgements():
    by_labels = labelled(["b", "a", "b", "c"], [1.0, 2.0, 0.0, 1.0])
    assert not by_labels.is_judged
    assert by_labels.y.tolist() == ["b", "a", "b", "c"]
    assert by_labels.codes.tolist() == [1, 0, 1, 2]
    assert by_labels.weights.tolist() == [1.0, 2.0, 0.0, 1.0]
    assert (by_labels.triplets, by_labels.triplet_weights) == (None, None)
    by_triplets = judged(4, [[0, 1, 2], [3, 1, 0]], [1.0, 2.0])
    assert by_triplets.is_judged
    assert by_triplets.triplets.tolist() == [[0, 1, 2], [3, 1, 0]]
    assert by_triplets.triplet_weights.tolist() == [1.0, 2.0]
    assert (by_triplets.y, by_triplets.weights) == (None, None)
    both = Supervision.check("HDSL", numbered(4), [0, 0, 1, 1], [[0, 1, 2]], None)
    assert both.is_judged
    assert both.y is None


@pytest.mark.parametrize(
    ("y", "triplets", "weights", "message"),
    [
        (None, None, None, "HDSL requires y to be passed, but the target y is None. Give labels, "
         "fit(X, y), or judgements, fit(X, triplets=T)."),
        ([0, 1], None, None, "y has 2 labels, but X has 4 rows: one label per row is expected."),
        ([0, 0, 0, 0], None, None, "No triplet can be built: y has one class, 0."),
        ([0, 0, 1, 1], None, [1.0], "sample_weight must have shape (4,), one weight per row of X."),
        (None, [[0, 1, 4]], None, "triplets[0] names row 4, but X has 4 rows."),
        (None, [[0, 1, 1]], None, "triplets[0] has row 1 as both positive and negative"),
        (None, [[0, 1, 2]], [1.0, 1.0], "must have shape (1,), one weight per triplet"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_from(y, triplets, weights, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Supervision.check("HDSL", numbered(4), y, triplets, weights)


# --- validation data -----------------------------------------------------------------------------

VAL = numbered(3).toarray()


def owner():
    """A model that knows its features."""
    model = HDSL()
    model.n_features_in_ = 4
    return model


def test_validation_data_are_checked_and_kept():
    one_feature = VAL * [1, 0, 0, 0]  # too few to learn from, enough to be scored
    for rows in (VAL, VAL.astype(np.float32), sp.csc_array(VAL), one_feature):
        by_labels = labelled([0, 0, 1, 1]).check_validation(owner(), rows, [[1], [0], [7]], None)
        assert by_labels.y.tolist() == [1, 0, 7]
        assert by_labels.X.dtype == np.float64
        assert_array_equal(by_labels.X.toarray(), rows.toarray() if sp.issparse(rows) else rows)
    for train in (labelled([0, 0, 1, 1]), judged(4, [[0, 1, 2]])):
        by_triplets = train.check_validation(owner(), VAL, None, [[0, 1, 2]])
        assert by_triplets.is_judged
        assert by_triplets.triplets.tolist() == [[0, 1, 2]]


PAIRS = "Validation data are X_val with y_val, or X_val with triplets_val. Got "


@pytest.mark.parametrize(
    ("X_val", "y_val", "triplets_val", "message"),
    [
        (VAL, None, None, PAIRS + "X_val."),
        (None, [0, 1, 1], None, PAIRS + "y_val."),
        (None, None, [[0, 1, 2]], PAIRS + "triplets_val."),
        (None, [0, 1, 1], [[0, 1, 2]], PAIRS + "y_val and triplets_val."),
        (VAL, [0, 1, 1], [[0, 1, 2]], PAIRS + "X_val and y_val and triplets_val."),
        (VAL, [0, 1], None, "y_val has 2 labels, but X_val has 3 rows: one label a row is"),
        (VAL[:, :3], [0, 1, 1], None, "X_val has 3 features, but HDSL is expecting 4"),
        (np.full((2, 4), np.nan), [0, 1], None, "X_val[0, 0] is NaN"),
        (VAL, None, [[0, 1, 3]], "triplets[0] names row 3, but X has 3 rows."),
    ],
)  # fmt: skip
def test_validation_data_that_are_refused(X_val, y_val, triplets_val, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        labelled([0, 0, 1, 1]).check_validation(owner(), X_val, y_val, triplets_val)


def test_labels_cannot_validate_what_was_judged():
    with pytest.raises(ValueError, match=r"y_val needs labels of X to vote with.*triplets_val="):
        judged(4, [[0, 1, 2]]).check_validation(owner(), VAL, [0, 1, 1], None)


# --- rows held out -------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=20).filter(lambda sizes: max(sizes) > 1),
    st.sampled_from([0.01, 0.1, 0.25, 0.5]),
    st.integers(0, 99),
)
def test_labels_are_shared_out_by_class(sizes, fraction, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    whole = labelled(y, np.arange(1.0, len(y) + 1))
    train, held = whole.hold_out(fraction, np.random.default_rng(seed))
    rows = [numbers(part.X) for part in (train, held)]
    assert sorted(np.concatenate(rows)) == list(range(len(y)))
    for part, own in zip((train, held), rows, strict=True):
        assert_array_equal(part.y, y[own])
        assert_array_equal(part.weights, own + 1.0)
        assert part.triplets is None
    assert len(np.unique(train.y)) == len(sizes)
    # In all and of each class, as near to the share as whole rows allow; one row at least.
    shared = [size for size in sizes if size > 1]
    assert len(held.y) >= 1
    assert abs(len(held.y) - fraction * sum(shared)) < 1 + 1e-9
    for c, size in enumerate(sizes):
        assert abs((held.y == c).sum() - fraction * size * (size > 1)) < 1 + 1e-9


def test_every_row_may_be_held_out():
    whole, rng = labelled(np.repeat([0, 1], 5)), np.random.default_rng(0)
    held = np.concatenate([numbers(whole.hold_out(0.2, rng)[1].X) for _ in range(200)])
    often = np.bincount(held) / 200
    assert_allclose(often, 0.2, atol=0.1)  # 3.5 standard deviations


def test_classes_of_one_row_alone_cannot_be_shared_out():
    with pytest.raises(ValueError, match=r"No row can be held out: .* Pass X_val and y_val."):
        labelled([0, 1, 2]).hold_out(0.5, np.random.default_rng(0))


def test_a_large_share_leaves_rows_of_each_class_to_train_on():
    for seed in range(20):
        train, _ = labelled(np.repeat([0, 1], 4)).hold_out(0.9, np.random.default_rng(seed))
        assert np.unique(train.y).tolist() == [0, 1]


@st.composite
def judgements(draw):
    n = draw(st.integers(4, 12))
    triplets = draw(strategies.triplets(n))
    return n, triplets, draw(strategies.triplet_weights(len(triplets)))


@given(judgements(), st.sampled_from([0.1, 0.3, 0.5]), st.integers(0, 99))
def test_no_row_trains_and_validates(case, fraction, seed):
    n, triplets, weights = case
    whole = judged(n, triplets, weights)
    try:
        train, held = whole.hold_out(fraction, np.random.default_rng(seed))
    except ValueError as error:
        assume("Holding out" not in str(error))
        raise
    assert len(train.triplets)
    assert len(held.triplets)
    anchors = np.unique(held.triplets[:, 0])
    assert not np.isin(train.triplets, anchors).any()
    assert len(anchors) <= max(1, round(fraction * n))
    for part in (train, held):
        kept = [k for k, t in enumerate(triplets.tolist()) if t in part.triplets.tolist()]
        assert_array_equal(part.triplets, triplets[kept])
        if weights is not None:
            assert_array_equal(part.triplet_weights, np.array(weights)[kept])


def test_triplets_of_no_side_are_those_with_a_held_out_row_that_is_not_the_anchor():
    rng = np.random.default_rng(0)
    triplets = np.array([rng.choice(20, size=3, replace=False) for _ in range(400)])
    train, held = judged(20, triplets).hold_out(0.2, rng)
    rows = np.unique(held.triplets[:, 0])
    assert len(rows) == 4
    inside = np.isin(triplets, rows)
    assert_array_equal(train.triplets, triplets[~inside.any(axis=1)])
    assert_array_equal(held.triplets, triplets[inside[:, 0]])


def test_the_seed_decides_what_is_held_out():
    for whole in (labelled(np.arange(40) % 2), judged(9, strategies.random_arrays(0, 9, T=200)[1])):
        one, same, other = (
            whole.hold_out(0.2, np.random.default_rng(seed))[1] for seed in (0, 0, 1)
        )
        for name in ("y", "triplets"):
            assert_array_equal(getattr(one, name), getattr(same, name))
        apart = numbers(one.X).tolist() != numbers(other.X).tolist()
        assert apart or not np.array_equal(one.triplets, other.triplets)


def test_nothing_left_on_a_side():
    with pytest.raises(ValueError, match=r"Holding out 1 of 3 rows leaves 0 triplets to train on "
                       r"and \d to validate on, of which none may count. Change "
                       "validation_fraction, or pass X_val and triplets_val."):  # fmt: skip
        judged(3, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]).hold_out(0.1, np.random.default_rng(0))


@pytest.mark.parametrize("side", [0, 1])
def test_triplets_of_weight_0_are_nothing_on_a_side(side):
    triplets = strategies.random_arrays(0, 12, T=200)[1]
    part = judged(12, triplets).hold_out(0.2, np.random.default_rng(0))[side]
    weights = np.array([float(t not in part.triplets.tolist()) for t in triplets.tolist()])
    with pytest.raises(ValueError, match="Holding out"):
        judged(12, triplets, weights).hold_out(0.2, np.random.default_rng(0))


# --- some of the rows ----------------------------------------------------------------------------


@given(judgements(), st.data())
def test_take_renumbers_what_lives_inside(case, data):
    n, triplets, weights = case
    rows = np.array(data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))])
    part = judged(n, triplets, weights).take(rows)
    assert_array_equal(numbers(part.X), rows)
    inside = [k for k, t in enumerate(triplets) if set(t) <= set(rows)]
    assert_array_equal(rows[part.triplets], triplets[inside])
    if weights is not None:
        assert_array_equal(part.triplet_weights, np.array(weights)[inside])


def test_take_keeps_labels_and_weights_with_their_rows():
    part = labelled(np.array(["a", "b", "a", "b"]), [1.0, 2, 3, 4]).take(np.array([3, 0]))
    assert numbers(part.X).tolist() == [3, 0]
    assert part.y.tolist() == ["b", "a"]
    assert part.weights.tolist() == [4.0, 1.0]
