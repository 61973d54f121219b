"""Pairs to ask about: doubtful ones, and all pairs of a record that has several."""

import numpy as np

from hdsl.linking.questions import doubtful_pairs, spread_pairs

PAIRS = np.array([[0, 10], [0, 11], [0, 12], [1, 10], [2, 13], [3, 14]])


def test_the_least_certain_pair_comes_first_and_a_record_comes_once():
    probability = np.array([0.9, 0.6, 0.3, 0.5, 0.99, 0.7])
    chosen = doubtful_pairs(PAIRS, probability, 3, by_record=False)
    assert chosen.tolist() == [3, 1, 5]


def test_all_likely_pairs_of_a_record_are_asked_about():
    probability = np.array([0.9, 0.55, 0.01, 0.8, 0.99, 0.7])
    chosen = doubtful_pairs(PAIRS, probability, 4, by_record=True)
    # Record 0 with both likely ones; record 10 is asked about already.
    assert chosen.tolist() == [1, 0, 5, 4]


def test_no_more_pairs_than_asked_for():
    probability = np.full(6, 0.5)
    for by_record in (True, False):
        assert len(doubtful_pairs(PAIRS, probability, 2, by_record=by_record)) == 2
        none = doubtful_pairs(PAIRS[:0], probability[:0], 2, by_record=by_record)
        assert len(none) == 0


def test_scores_are_asked_about_from_the_highest_to_the_lowest():
    score = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.1])
    assert spread_pairs(PAIRS, score, 2).tolist() == [0, 5]
    assert spread_pairs(PAIRS, score, 10).tolist() == [0, 4, 5]
