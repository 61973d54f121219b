"""Records that come into lists stand where a sort of all puts them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import reference
from hdsl.linking.lists import Entries, merge_into
from hdsl.linking.nearest import DEPTH


@given(
    n_lists=st.integers(1, 4),
    width=st.integers(DEPTH, DEPTH + 1),
    n_entries=st.integers(0, 60),
    seed=st.integers(0, 99),
)
def test_lists_are_merged_as_by_the_slow_twin(n_lists, width, n_entries, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.permuted(np.tile(np.arange(90), (n_lists, 1)), axis=1)[:, :width]
    neighbors = np.where(rng.random(numbers.shape) < 0.2, -1, numbers).astype(np.int32)
    scores = rng.integers(5, size=numbers.shape) / 4.0
    scores[neighbors < 0] = -np.inf
    entries = Entries(
        rows=rng.integers(n_lists, size=n_entries),
        numbers=100 + np.arange(n_entries),
        scores=rng.integers(5, size=n_entries) / 4.0,
    )
    is_unsorted = rng.random(n_lists) < 0.7
    expected = []
    for row in range(n_lists):
        is_row = entries.rows == row
        if not (is_unsorted[row] or is_row.any()):
            expected.append([*zip(neighbors[row], scores[row], strict=True)])
            continue
        new = zip(entries.numbers[is_row], entries.scores[is_row], strict=True)
        expected.append(reference.merged_list(neighbors[row], scores[row], new, DEPTH))
    merge_into(neighbors, scores, is_unsorted, entries)
    result = [[*zip(*row, strict=True)] for row in zip(neighbors, scores, strict=True)]
    assert result == expected
