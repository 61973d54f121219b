"""Comparisons of some of the rows, restricted and summed."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

import strategies
from hdsl import HDSL
from hdsl.triplets import (
    Judgements,
    choice_triplets,
    deduplicate,
    relevance_triplets,
    restrict,
)


@given(st.data())
def test_restrict_keeps_and_renumbers_comparisons_inside(data):
    n = data.draw(st.integers(2, 10))
    given = data.draw(strategies.comparisons(n))
    rows = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))]
    inside = [t for t, named in enumerate(given.tolist()) if set(named) <= set(rows)]
    slow = [[rows.index(r) for r in given[t]] for t in inside]
    rows = np.array(rows, dtype=np.int64)
    kept = restrict(given, rows, n)
    assert kept.shape == (len(slow), given.shape[1])
    assert kept.tolist() == slow
    kept, weights = restrict(given, rows, n, np.arange(len(given)))
    assert kept.tolist() == slow
    assert weights.tolist() == inside


def test_restrict_takes_a_mask_and_refuses_rows_that_are_not_there():
    triplets = np.array([[0, 1, 3]])
    mask = np.array([True, True, False, True])
    assert restrict(triplets, mask, n_rows=4).tolist() == [[0, 1, 2]]
    assert (
        restrict(triplets, [], n_rows=4).shape
        == restrict([], [1], n_rows=4).shape
        == (0, 3)
    )
    for wrong, rows in (
        (triplets - 1, [0, 1]),
        (triplets, [0, 1, 4]),
        (triplets, mask[:2]),
    ):
        with pytest.raises(ValueError, match="from 0 to 3"):
            restrict(wrong, np.array(rows), n_rows=4)


def same_form(comparison):
    """Return one form for all comparisons that say the same."""
    if len(comparison) == 3:
        return tuple(comparison)
    return (*sorted(comparison[:2]), *sorted(comparison[2:]))


def opposite(comparison):
    a, *rest = comparison
    return (
        (a, *rest[::-1]) if len(comparison) == 3 else (*comparison[2:], *comparison[:2])
    )


@given(st.data(), st.sampled_from([1, 2**29]), st.booleans())
def test_equal_comparisons_become_one_with_the_summed_weight(data, spread, net):
    # Large numbers do not fit in one key.
    given = data.draw(strategies.comparisons(4)) * spread
    values = st.lists(
        st.sampled_from([1.0, 2.0, 0.5]), min_size=len(given), max_size=len(given)
    )
    weights = data.draw(st.none() | values)
    slow: dict = {}
    for t, comparison in enumerate(given.tolist()):
        key = same_form(comparison)
        weight = 1.0 if weights is None else weights[t]
        if net and opposite(key) < key:
            key = opposite(key)
            weight = -weight
        slow[key] = slow.get(key, 0.0) + weight
    if net:
        slow = {c if w > 0 else opposite(c): abs(w) for c, w in slow.items() if w}
    made = deduplicate(given, weights, net=net)
    assert made.triplets.shape == (len(slow), given.shape[1])
    assert list(map(tuple, made.triplets.tolist())) == list(slow)
    assert made.weights.tolist() == list(slow.values())


def test_a_fit_takes_judgements_whole():
    rng = np.random.default_rng(0)
    documents = rng.random((30, 12)) * (rng.random((30, 12)) < 0.4)
    queries = documents[:8] + 0.1
    table = {"query": np.arange(8), "document": np.arange(8) + 10}
    judged = relevance_triplets(queries, documents, table, grade=None, random_state=0)
    assert judged.kind == "judged"
    assert judged.n_documents == 30
    assert judged.grades.queries.tolist() == [*range(30, 38)]
    model = HDSL(prior=4.0, random_state=0)
    whole = model.fit(judged).similarity(judged.X)
    by_hand = model.fit(
        judged.X, triplets=judged.triplets, sample_weight=judged.weights
    )
    assert_array_equal(whole, by_hand.similarity(judged.X))
    with pytest.raises(ValueError, match="have no rows"):
        model.fit(Judgements(judged.triplets))
    with pytest.raises(ValueError, match="do not pass y"):
        model.fit(judged, np.zeros(38))


def test_clicks_say_what_was_shown():
    log = [("q", ["a", "b", "c"], "b"), ("p", ["c", "a"], "c")]
    clicks = choice_triplets(log, ids=["a", "b", "c"], queries=["p", "q"])
    assert clicks.kind == "clicks"
    assert clicks.n_documents == 3
    assert clicks.shown.events.tolist() == [0, 0, 0, 1, 1]
    assert clicks.shown.queries.tolist() == [4, 4, 4, 3, 3]
    assert clicks.shown.rows.tolist() == [0, 1, 2, 2, 0]
    assert clicks.shown.positions.tolist() == [1, 2, 3, 1, 2]
    assert clicks.shown.are_clicked.tolist() == [False, True, False, True, False]


def test_groups_are_one_per_row_or_comparison():
    X = np.eye(4)
    with pytest.raises(ValueError, match=r"groups must have shape \(4,\)"):
        HDSL().fit(X, [0, 0, 1, 1], groups=[1, 2])
    with pytest.raises(ValueError, match=r"one value per triplet"):
        HDSL().fit(X, triplets=[[0, 1, 2]], groups=[1, 2])
