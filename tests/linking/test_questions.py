"""Pairs to ask about: doubtful ones, and all pairs of a record that has several."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.linking.bridges import pairs_held
from hdsl.linking.entities import components
from hdsl.linking.questions import (
    Worth,
    doubtful_pairs,
    spread_pairs,
    worth_of_answers,
)


def by_doubt(probability):
    """Worth where all entities are small: doubt alone counts."""
    doubt = np.minimum(probability, 1 - probability)
    return Worth(np.zeros(len(doubt), dtype=bool), doubt)


PAIRS = np.array([[0, 10], [0, 11], [0, 12], [1, 10], [2, 13], [3, 14]])


def test_the_least_certain_pair_comes_first_and_a_record_comes_once():
    probability = np.array([0.9, 0.6, 0.3, 0.5, 0.99, 0.7])
    chosen = doubtful_pairs(
        PAIRS, probability, by_doubt(probability), 3, by_record=False
    )
    assert chosen.tolist() == [3, 1, 5]


def test_all_likely_pairs_of_a_record_are_asked_about():
    probability = np.array([0.9, 0.55, 0.01, 0.8, 0.99, 0.7])
    chosen = doubtful_pairs(
        PAIRS, probability, by_doubt(probability), 4, by_record=True
    )
    # Record 0 with both likely ones; record 10 is asked about already.
    assert chosen.tolist() == [1, 0, 5, 4]


def test_no_more_pairs_than_asked_for():
    probability = np.full(6, 0.5)
    worth = by_doubt(probability)
    none = Worth(worth.hangs[:0], worth.change[:0])
    for by_record in (True, False):
        chosen = doubtful_pairs(PAIRS, probability, worth, 2, by_record=by_record)
        assert len(chosen) == 2
        chosen = doubtful_pairs(
            PAIRS[:0], probability[:0], none, 2, by_record=by_record
        )
        assert len(chosen) == 0


def test_a_link_that_holds_an_entity_comes_before_the_least_certain_pair():
    pairs = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [4, 5], [6, 7]])
    probability = np.array([0.9, 0.9, 0.9, 0.8, 0.5, 0.99])
    worth = worth_of_answers(pairs, probability, 8)
    chosen = doubtful_pairs(pairs, probability, worth, 3, by_record=False)
    assert chosen[:2].tolist() == [3, 4]


def test_of_doubtful_pairs_that_which_decides_on_more_comes_first():
    # Entities of three records each may be one; or two records that are alone.
    pairs = np.array([[0, 1], [1, 2], [3, 4], [4, 5], [2, 3], [6, 7]])
    probability = np.array([1.0, 1.0, 1.0, 1.0, 0.3, 0.4])
    worth = worth_of_answers(pairs, probability, 8)
    assert worth.change[4] == pytest.approx(0.3 * 9)
    assert worth.change[5] == pytest.approx(0.4)
    chosen = doubtful_pairs(pairs, probability, worth, 1, by_record=False)
    assert chosen.tolist() == [4]


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12))
def test_a_link_holds_the_pairs_that_are_apart_without_it(drawn):
    links = np.array(
        sorted({(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1]})
    ).reshape(-1, 2)
    held = pairs_held(links, 8)

    def n_together(remaining):
        sizes = np.bincount(components(remaining, 8))
        return int((sizes * (sizes - 1) // 2).sum())

    for number in range(len(links)):
        without = n_together(np.delete(links, number, axis=0))
        assert held[number] == n_together(links) - without


def test_the_first_round_is_about_doubt_alone():
    pairs = np.array([[0, 1], [1, 2], [4, 5]])
    probability = np.array([0.95, 0.9, 0.5])
    for is_first_round, first in ((True, 2), (False, 1)):
        worth = worth_of_answers(pairs, probability, 6, is_first_round=is_first_round)
        chosen = doubtful_pairs(pairs, probability, worth, 1, by_record=False)
        assert chosen.tolist() == [first]


def test_scores_are_asked_about_from_the_highest_to_the_lowest():
    score = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.1])
    assert spread_pairs(PAIRS, score, 2).tolist() == [0, 5]
    assert spread_pairs(PAIRS, score, 10).tolist() == [0, 4, 5]
