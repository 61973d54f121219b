"""Comparisons of some of the rows, restricted and summed."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import strategies
from hdsl.triplets import deduplicate, restrict


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
