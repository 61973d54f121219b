"""The pairwise coverings that other tests choose their parameters by."""

from itertools import combinations, product

import pytest

from pairwise import pairwise


def held(rows):
    """Return the pairs of values, with the parameters they belong to, that some row holds."""
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1, 2), (4, 3, 2, 2), (5, 4, 3, 3, 2)])
def test_every_pair_of_values_occurs_in_few_rows(sizes):
    values = [range(size) for size in sizes]
    rows = pairwise(*values)
    assert held(rows) == held(product(*values))
    largest, second = sorted(sizes)[:-3:-1]
    assert largest * second <= len(rows) <= 1.6 * largest * second
    assert pairwise(*values) == rows


def test_one_parameter_gives_each_value_once():
    assert pairwise("abc") == [("a",), ("b",), ("c",)]


def test_only_allowed_rows_occur_and_hold_every_pair_they_can():
    def allowed(a, b, c):
        return not (a == 0 and b > 0)

    values = range(3), range(3), range(2)
    rows = pairwise(*values, allowed=allowed)
    assert all(allowed(*row) for row in rows)
    assert held(rows) == held(row for row in product(*values) if allowed(*row))
