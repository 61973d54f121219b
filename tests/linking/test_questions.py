"""Pairs to ask about: doubtful ones, and all pairs of a record that has several."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import binom

from hdsl.linking.entities import components
from hdsl.linking.questions import (
    Audit,
    Worth,
    correction_by_audit,
    doubtful_pairs,
    pairs_held,
    within_budget,
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
    assert chosen.tolist() == [3, 2, 5]


def test_links_and_other_pairs_are_asked_about_in_turn():
    pairs = np.array([[0, 10], [1, 11], [2, 12], [3, 13], [4, 14]])
    probability = np.array([0.55, 0.6, 0.65, 0.05, 0.01])
    chosen = doubtful_pairs(
        pairs, probability, by_doubt(probability), 4, by_record=False
    )
    assert chosen.tolist() == [0, 3, 1, 4]


def test_all_likely_pairs_of_a_record_are_asked_about():
    probability = np.array([0.9, 0.55, 0.01, 0.8, 0.99, 0.7])
    chosen = doubtful_pairs(
        PAIRS, probability, by_doubt(probability), 4, by_record=True
    )
    # Record 0 with both likely ones; record 10 is asked about already.
    assert {*chosen.tolist()} == {1, 0, 5, 4}


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


@given(st.integers(1, 60), st.data())
def test_the_bound_of_an_audit_holds_in_95_of_100(n, data):
    """Whatever share is wrong, at most one audit in twenty says less: all outcomes."""
    share = data.draw(st.floats(0.001, 0.999))
    too_low = [
        k for k in range(n + 1) if Audit.of_answers(10**6, n, k).most_wrong < share
    ]
    assert binom.pmf(too_low, n, share).sum() <= 0.05 + 1e-9


def test_an_audit_of_all_links_knows_the_share():
    assert Audit.of_answers(40, 40, 3).most_wrong == 3 / 40


def test_an_audit_corrects_what_was_thought_of_links():
    rng = np.random.default_rng(0)
    probability = np.sort(rng.uniform(0.5, 1.0, 500))[::-1]
    log_odds = logit(np.clip(probability, 1e-9, 1 - 1e-9))
    expected = (1 - probability).mean()
    worse = correction_by_audit(log_odds, Audit.of_answers(500, 90, 60), 0.5)
    assert worse.shift < 0.0
    share = (60 + 10 * expected) / 100
    assert expit(-worse(log_odds)).mean() == pytest.approx(share, abs=1e-6)
    better = correction_by_audit(log_odds, Audit.of_answers(500, 90, 0), 0.5)
    assert better.stretch > 1.0
    assert expit(-better(log_odds)).mean() == pytest.approx(expected / 10, abs=1e-6)
    # No pair becomes a link that was none.
    assert better(np.array([-1.0, 0.0])).tolist() == [-1.0, 0.0]


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 1))
def test_links_within_a_budget_are_the_most_that_keep_it(values, budget):
    probability = np.sort(values)[::-1]
    n = within_budget(probability, budget)
    assert (1 - probability[:n]).sum() <= budget * n + 1e-9
    assert n in (0, len(values)) or probability[n] < probability[n - 1]
