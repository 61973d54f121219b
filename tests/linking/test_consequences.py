"""What follows from answers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hdsl.linking.consequences import Consequences

N = 7

PAIRS = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)).filter(
        lambda pair: pair[0] < pair[1]
    ),
    max_size=8,
    unique=True,
)

EVERY_PAIR = np.array([(a, b) for a in range(N) for b in range(a + 1, N)])


def pairs_of(pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def answers(matches, non_matches, pairs):
    known = Consequences(pairs_of(matches), pairs_of(non_matches), 10)
    return known.answers(pairs_of(pairs)).tolist()


def test_a_match_of_a_match_is_a_match():
    assert answers([(0, 1), (1, 2)], [], [(0, 2)]) == [1.0]


def test_what_differs_from_one_record_differs_from_its_matches():
    known = answers([(0, 1), (2, 3)], [(1, 2)], [(0, 2), (0, 3), (1, 3)])
    assert known == [0.0, 0.0, 0.0]


def test_other_pairs_of_a_matched_record_are_unknown():
    assert np.isnan(answers([(0, 1)], [(0, 4)], [(0, 2), (4, 5)])).all()


def test_nothing_follows_from_answers_that_contradict_one_another():
    matches = [(0, 1), (1, 2), (2, 3)]
    known = answers(matches, [(0, 2)], [(0, 1), (0, 2), (0, 3)])
    assert known[:2] == [1.0, 0.0]
    assert np.isnan(known[2])


@given(PAIRS, PAIRS)
def test_answers_stay_as_they_are(matches, others):
    others = [pair for pair in others if pair not in matches]
    assert answers(matches, others, matches) == [1.0] * len(matches)
    assert answers(matches, others, others) == [0.0] * len(others)


@given(PAIRS, PAIRS)
def test_true_answers_have_true_consequences(yes, no):
    """Any grouping of records: nothing false follows from a part of its pairs."""
    groups = np.arange(N) % 3
    is_match = [groups[a] == groups[b] for a, b in yes + no]
    asked = pairs_of(yes + no)
    matches = asked[np.array(is_match, dtype=bool)]
    others = asked[~np.array(is_match, dtype=bool)]
    known = Consequences(matches, others, N).answers(EVERY_PAIR)
    truth = groups[EVERY_PAIR[:, 0]] == groups[EVERY_PAIR[:, 1]]
    np.testing.assert_array_equal(known[~np.isnan(known)], truth[~np.isnan(known)])
