"""Draws without replacement."""

import itertools
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from hdsl.triplets.grades import sample_ranges


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 8), st.integers(0, 100))
def test_a_sample_has_distinct_numbers_of_each_range(sizes, n, seed):
    size = np.array(sizes, dtype=np.int64)
    drawn = sample_ranges(size, n, np.random.default_rng(seed))
    stops = np.cumsum(size)
    assert (np.diff(drawn) > 0).all()
    per_range = [
        ((drawn >= b - s) & (drawn < b)).sum() for s, b in zip(size, stops, strict=True)
    ]
    assert per_range == np.minimum(size, n).tolist()


@pytest.mark.parametrize("size", [4, 5])
def test_all_subsets_are_equally_likely(size):
    n_ranges = 5_000
    drawn = sample_ranges(np.full(n_ranges, size), 2, np.random.default_rng(0))
    pairs = Counter(map(tuple, (drawn % size).reshape(-1, 2).tolist()))
    subsets = list(itertools.combinations(range(size), 2))
    expected = n_ranges / len(subsets)
    assert set(pairs) == set(subsets)
    # five standard deviations of a binomial count
    assert max(abs(count - expected) for count in pairs.values()) < 5 * expected**0.5
