"""What a fit learns from: checked, split by rows, and refused in plain words."""

import re
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from numpy.testing import assert_allclose, assert_array_equal

import strategies
from hdsl import HDSL, Solver
from hdsl.evaluate.parts import turns
from hdsl.supervision.check import check_supervision, check_validation
from hdsl.supervision.compared_rows import MOST_PER_ANCHOR, ComparedRows, Miner
from hdsl.supervision.labeled_rows import LabeledRows, groups_and_equals, sample_rows


def numbered(n, d=4):
    """Return rows that hold their own number."""
    return sp.csr_array(np.column_stack([np.arange(1.0, n + 1), np.ones((n, d - 1))]))


def numbers(X):
    return (X.toarray()[:, 0] - 1).astype(int)


def labelled(y, weights=None):
    return check_supervision("HDSL", numbered(len(y)), y, sample_weight=weights)


def judged(n, compared, weights=None):
    """Return the supervision of triplets or quadruplets."""
    kind = {3: "triplets", 4: "quadruplets"}[np.shape(compared)[1]]
    return check_supervision(
        "HDSL", numbered(n), **{kind: compared}, sample_weight=weights
    )


@st.composite
def judgements(draw):
    """Triplets or quadruplets of a few rows, and their weights."""
    n = draw(st.integers(4, 12))
    compared = draw(strategies.triplets(n))
    if draw(st.booleans()):
        first = draw(
            st.lists(
                st.integers(0, n - 1), min_size=len(compared), max_size=len(compared)
            )
        )
        compared = np.column_stack([first, compared])
        pairs = np.sort(compared.reshape(-1, 2, 2), axis=2)
        compared = compared[(pairs[:, 0] != pairs[:, 1]).any(axis=1)]
        assume(len(compared))
    return n, compared, draw(strategies.triplet_weights(len(compared)))


# --- what is given --------------------------------------------------------------------


def test_labels_or_judgements():
    by_labels = labelled(["b", "a", "b", "c"], [1.0, 2.0, 0.0, 1.0])
    assert isinstance(by_labels, LabeledRows)
    assert by_labels.y.tolist() == ["b", "a", "b", "c"]
    assert by_labels.codes.tolist() == [1, 0, 1, 2]
    assert by_labels.weights.tolist() == [1.0, 2.0, 0.0, 1.0]
    for compared in ([[0, 1, 2], [3, 1, 0]], [[0, 1, 2, 3], [3, 1, 3, 0]]):
        by_judgements = judged(4, compared, [1.0, 2.0])
        assert isinstance(by_judgements, ComparedRows)
        assert by_judgements.compared.tolist() == compared
        assert by_judgements.weights.tolist() == [1.0, 2.0]
    both = check_supervision("HDSL", numbered(4), [0, 0, 1, 1], triplets=[[0, 1, 2]])
    assert isinstance(both, ComparedRows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {},
            "HDSL requires y to be passed, but the target y is None. Give labels, "
            "fit(X, y), or judgements, fit(X, triplets=T) or fit(X, quadruplets=Q).",
        ),
        ({"y": [0, 1]}, "y has 2 labels, but X has 4 rows"),
        ({"y": [0, 0, 0, 0]}, "No triplet can be built: y has one class, 0."),
        (
            {"y": [0, 0, 1, 1], "sample_weight": [1.0]},
            "sample_weight must have shape (4,), one per row of X.",
        ),
        ({"triplets": [[0, 1, 4]]}, "triplets[0] names row 4, but X has 4 rows."),
        ({"triplets": [[0, 1, 1]]}, "triplets[0] compares the pair (0, 1) with itself"),
        (
            {"triplets": [[0, 1, 2]], "sample_weight": [1.0, 1.0]},
            "must have shape (1,), one per triplet",
        ),
        (
            {"quadruplets": [[0, 1, 2, 3]], "sample_weight": [1.0, 1.0]},
            "must have shape (1,), one per quadruplet",
        ),
        (
            {"triplets": [[0, 1, 2]], "quadruplets": [[0, 1, 0, 2]]},
            "fit takes triplets or quadruplets, but got both.",
        ),
        (
            {"quadruplets": [[0, 1, 2]]},
            "quadruplets must have shape (n_quadruplets, 4)",
        ),
        ({"triplets": [[0, 1, 2, 3]]}, "triplets must have shape (n_triplets, 3)"),
        (
            {"quadruplets": [[0, 1, 2, 4]]},
            "quadruplets[0] names row 4, but X has 4 rows.",
        ),
        (
            {"quadruplets": [[0, 1, 2, 3], [0, 1, 1, 0]]},
            "quadruplets[1] compares the pair (0, 1) with itself",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_supervision("HDSL", numbered(4), **given)


# --- validation data ------------------------------------------------------------------

VAL = numbered(3).toarray()


def owner():
    """Return a model that knows its features."""
    model = HDSL()
    model.n_features_in_ = 4
    return model


def test_validation_data_are_checked_and_unchanged():
    one_feature = VAL * [1, 0, 0, 0]  # too few to learn from, enough to be scored
    for rows in (VAL, VAL.astype(np.float32), sp.csc_array(VAL), one_feature):
        by_labels = check_validation(
            labelled([0, 0, 1, 1]), owner(), rows, [[1], [0], [7]], None
        )
        assert by_labels.y.tolist() == [1, 0, 7]
        assert by_labels.X.dtype == np.float64
        assert_array_equal(
            by_labels.X.toarray(), rows.toarray() if sp.issparse(rows) else rows
        )
    for train in (
        labelled([0, 0, 1, 1]),
        judged(4, [[0, 1, 2]]),
        judged(4, [[0, 1, 2, 3]]),
    ):
        for compared in ([[0, 1, 2]], [[0, 1, 1, 2]]):
            by_judgements = check_validation(train, owner(), VAL, None, compared)
            assert isinstance(by_judgements, ComparedRows)
            assert by_judgements.compared.tolist() == compared


EXPECTED = "Validation data are X_val with y_val, or X_val with triplets_val. Got "


@pytest.mark.parametrize(
    ("X_val", "y_val", "triplets_val", "message"),
    [
        (VAL, None, None, EXPECTED + "X_val."),
        (None, [0, 1, 1], None, EXPECTED + "y_val."),
        (None, None, [[0, 1, 2]], EXPECTED + "triplets_val."),
        (VAL, [0, 1, 1], [[0, 1, 2]], EXPECTED + "X_val and y_val and triplets_val."),
        (
            VAL,
            [0, 1],
            None,
            "y_val has 2 labels, but X_val has 3 rows: one label per row is",
        ),
        (VAL[:, :3], [0, 1, 1], None, "X_val has 3 features, but HDSL is expecting 4"),
        (np.full((2, 4), np.nan), [0, 1], None, "X_val[0, 0] is NaN"),
        (VAL, None, [[0, 1, 3]], "triplets_val[0] names row 3, but X_val has 3 rows."),
        (
            VAL,
            None,
            [[0, 1, 1, 3]],
            "triplets_val[0] names row 3, but X_val has 3 rows.",
        ),
        (VAL, [*"011"], None, "No label of y_val, such as '0', is in y"),
        (VAL, np.array([0, None, 1]), None, "y_val contains NaN: 1 of 3 rows"),
    ],
)
def test_bad_validation_data_are_refused(X_val, y_val, triplets_val, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_validation(labelled([0, 0, 1, 1]), owner(), X_val, y_val, triplets_val)


def test_labels_cannot_validate_judgements():
    for compared in ([[0, 1, 2]], [[0, 1, 2, 3]]):
        with pytest.raises(
            ValueError, match=r"y_val needs labels of X to vote with.*triplets_val="
        ):
            check_validation(judged(4, compared), owner(), VAL, [0, 1, 1], None)


# --- rows held out --------------------------------------------------------------------


def parts_of(whole, fraction, seed=0, groups=None):
    """Return what is learned from and held out in each turn, with the numbers of the latter."""
    anchors = whole.unit_rows()
    units = groups_and_equals(groups, anchors)
    rng = np.random.default_rng(seed)
    masks = turns(units, fraction, rng, whole.classes_of_units())
    return [whole.split(mask) for mask in masks]


@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=20).filter(
        lambda sizes: max(sizes) > 1
    ),
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_each_class_gives_its_share_of_each_fold(sizes, n_folds, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    whole = labelled(y)
    number = sp.csr_array(np.arange(1.0, len(y) + 1)[:, None])  # rows know their places
    parts = parts_of(replace(whole, X=number), 1.0 / n_folds, seed)
    count = np.bincount(y, minlength=len(sizes))
    held = np.concatenate([numbers for _, _, numbers in parts])
    assert sorted(held) == [row for row in range(len(y)) if count[y[row]] > 1]
    for train, held_out, chosen in parts:
        learned = train.X.toarray()[:, 0].astype(int) - 1
        assert not {*learned} & {*chosen.tolist()}
        assert held_out.X.shape[0] == len(chosen)
        for c, size in enumerate(count):
            assert abs((y[chosen] == c).sum() - size * (size > 1) / n_folds) < 1


@given(judgements(), st.integers(0, 99))
def test_judgements_of_held_out_rows_are_not_learned_from(case, seed):
    n, compared, weights = case
    whole = judged(n, compared, weights)
    for train, held, chosen in parts_of(whole, 1.0 / 3, seed):
        if compared.shape[1] == 3:
            assert not {*held.compared[:, 0]} & {*train.compared[:, 0]}
        assert len(train.compared) + len(held.compared) <= len(compared)
        assert_array_equal(held.compared, compared[chosen])


@pytest.mark.parametrize("is_dense", [False, True])
def test_what_other_anchors_say_of_a_held_out_row_is_not_held_out(is_dense):
    """Where every two rows are compared from both sides, nothing is learned of a held-out row."""
    rows = np.arange(30)
    n = 30
    T = np.array(
        [(a, b, c) for a in rows for b in rows for c in rows if len({a, b, c}) == 3]
    )
    T = T if is_dense else T[T[:, 0] % 6 == 0]
    for train, held, _ in parts_of(judged(n, T), 1.0 / 3):
        learned = {
            frozenset(pair)
            for a, b, c in train.compared.tolist()
            for pair in ((a, b), (a, c))
        }
        anchors = {*held.compared[:, 0].tolist()}
        assert anchors
        assert bool(anchors & {*train.compared.ravel().tolist()}) != is_dense
        for a, b, c in held.compared.tolist():
            assert not {frozenset((a, b)), frozenset((a, c))} <= learned


@given(st.integers(1, 99), st.integers(1, 400))
def test_each_turn_holds_out_its_share(percent, n):
    fraction = percent / 100
    masks = list(turns(np.arange(n), fraction, np.random.default_rng(0)))
    assert len(masks) == max(1, round(1 / fraction))
    for is_held_out in masks:
        assert abs(is_held_out.sum() - fraction * n) < 1


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(0, 99))
def test_groups_and_equal_rows_are_held_out_together(groups, seed):
    groups = np.array(groups)
    keys = np.random.default_rng(seed).integers(12, size=len(groups))
    units = groups_and_equals(groups, keys)
    for mask in turns(units, 1 / 3, np.random.default_rng(seed)):
        for values in (groups, keys):
            assert not {*values[mask].tolist()} & {*values[~mask].tolist()}


# --- a sample of the rows -------------------------------------------------------------


def sampled(whole, limit, seed):
    """Return the rows of a sample."""
    rng = np.random.default_rng(seed)
    return sample_rows(whole.codes, whole.weights, limit, Miner().n_targets, rng)


def test_few_rows_are_all_compared():
    whole = labelled(np.arange(40) % 2)
    for limit in (None, 40, 50):
        assert sampled(whole, limit, seed=0) is None


def test_of_many_rows_each_class_gives_its_share():
    y = np.repeat([0, 1, 2], [6000, 3000, 1000])
    rows = sampled(labelled(y), 1000, seed=0)
    assert_allclose(np.bincount(y[rows]), [600, 300, 100], atol=1)


def test_a_sample_of_anchors_has_all_that_is_said_of_them():
    rng = np.random.default_rng(0)
    anchors = np.repeat(np.arange(50), 300)
    T = np.column_stack([anchors, rng.integers(50, 80, size=(len(anchors), 2))])
    T = T[T[:, 1] != T[:, 2]]
    sample = judged(80, T).sample(5, rng)
    chosen = np.unique(numbers(sample.X)[sample.compared[:, 0]])
    assert len(chosen) == 5
    n_said = np.isin(T[:, 0], chosen).sum()
    assert len(sample.compared) == min(n_said, 5 * MOST_PER_ANCHOR)


def test_small_classes_are_in_the_sample_with_rows_to_compare_or_not_at_all():
    y = np.arange(20_000) // 2
    rows = sampled(labelled(y), 1000, seed=0)
    assert len(rows) == pytest.approx(1000, abs=4)
    assert set(np.bincount(y[rows])) <= {0, 2}
    made = labelled(y).compare(Miner(max_anchors=1000), np.random.default_rng(0))
    assert made.X.shape[0] == len(made.rows)
    labels = y[made.rows]
    assert_array_equal(labels[made.compared[:, 0]], labels[made.compared[:, 1]])
    for limit in (2, 10, 21):  # fewer than two classes have their share
        whole = labelled(np.arange(400) % 3)
        assert len(np.unique(sampled(whole, limit, seed=limit) % 3)) >= 2


# --- some of the rows -----------------------------------------------------------------


@given(judgements(), st.data())
def test_take_renumbers_the_judgements_inside(case, data):
    n, compared, weights = case
    rows = np.array(
        data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    )
    part = judged(n, compared, weights).take(rows)
    assert_array_equal(numbers(part.X), rows)
    inside = [k for k, t in enumerate(compared) if set(t) <= set(rows)]
    assert_array_equal(rows[part.compared], compared[inside])
    if weights is not None:
        assert_array_equal(part.weights, np.array(weights)[inside])


def test_take_selects_labels_and_weights_with_their_rows():
    part = labelled(np.array(["a", "b", "a", "b"]), [1.0, 2, 3, 4]).take(
        np.array([3, 0])
    )
    assert numbers(part.X).tolist() == [3, 0]
    assert part.y.tolist() == ["b", "a"]
    assert part.weights.tolist() == [4.0, 1.0]


def test_a_row_of_weight_0_is_absent_from_the_choice_of_the_prior():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.random((240, 12)) * (rng.random((240, 12)) < 0.4)
    X[np.arange(240), y] += 0.5
    weights = (rng.random(240) < 0.7) * 1.0
    here = weights > 0
    a = HDSL(random_state=0, solver=Solver(max_iter=3)).fit(X, y, sample_weight=weights)
    b = HDSL(random_state=0, solver=Solver(max_iter=3)).fit(X[here], y[here])
    assert_allclose(a.choice_["score"], b.choice_["score"], rtol=1e-12)
