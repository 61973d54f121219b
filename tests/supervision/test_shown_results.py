"""Logs of the first results by cosine: what is not shown has no click, and is no worse for it."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose

import reference
from hdsl.search import top_k
from hdsl.supervision import shown_results
from hdsl.supervision.compared_rows import ComparedRows
from hdsl.supervision.ranked_search import SearchedPart
from hdsl.supervision.shown_results import (
    are_first_results,
    credit_of_unseen,
    credited_gains,
    power_of_log,
    power_of_places,
    shown_rows,
    win_rates,
)
from hdsl.triplets.graded_rows import count_wins


def unit_rows(n_rows, seed=0):
    """Return dense-ish sparse rows at unit length, no two alike."""
    X = np.random.default_rng(seed).random((n_rows, 6))
    return sp.csr_array(X / np.linalg.norm(X, axis=1)[:, None])


def log_of(X, shown, clicked):
    """Return triplets of a log: each clicked row with each other that was shown."""
    return np.array(
        [
            (anchor, row, other)
            for anchor, (rows, clicks) in enumerate(zip(shown, clicked, strict=True))
            for row in rows[clicks]
            for other in rows[~clicks]
        ]
    )


@given(st.data())
def test_shown_rows_are_worth_what_they_win(data):
    X = unit_rows(8)
    rows = st.lists(st.integers(0, 7), min_size=3, max_size=3, unique=True)
    triplets = np.array(data.draw(st.lists(rows, min_size=1, max_size=12)))
    weight = st.sampled_from([0.0, 1.0, 4.0])
    sizes = st.lists(weight, min_size=len(triplets), max_size=len(triplets))
    weights = np.array(data.draw(sizes))
    weights[0] = 1.0
    shown = shown_rows(X, triplets, weights)
    # Few rows say nothing of the power of a place.
    counted = triplets[weights > 0]
    expected = reference.worth_of_shown(X.toarray(), counted, power=0.0)
    pairs = zip(shown.anchors.tolist(), shown.rows.tolist(), strict=True)
    found = zip(shown.places.tolist(), shown.credits.tolist(), strict=True)
    worth = dict(zip(pairs, found, strict=True))
    assert worth.keys() == expected.keys()
    for pair, (place, credit) in expected.items():
        assert worth[pair][0] == place
        assert_allclose(worth[pair][1], credit)


def test_rows_shown_last_say_what_unseen_ones_are_worth():
    X = unit_rows(30)
    shown = top_k(X, X, 11).rows[:, 1:]
    clicked = np.zeros(shown.shape, dtype=bool)
    clicked[:, 2] = True
    clicked[::3, 9] = True
    results = shown_rows(X, log_of(X, shown, clicked), None)
    triplets = log_of(X, shown, clicked)
    worth = reference.worth_of_shown(X.toarray(), triplets, power=0.0)
    last = [credit for place, credit in worth.values() if place > 6]
    assert_allclose(credit_of_unseen(results), np.mean(last))


def biased_log(power, n_events=3000, seed=0):
    """Return rows, and triplets of clicks that are the rarer the farther down a row is."""
    X = unit_rows(300, seed)
    rng = np.random.default_rng(seed)
    shown = top_k(X, X, 11).rows[:, 1:]
    chances = rng.choice([0.1, 0.7], size=shown.shape) * np.arange(1, 11.0) ** -power
    triplets = []
    for anchor in rng.integers(300, size=n_events).tolist():
        is_clicked = rng.random(10) < chances[anchor]
        triplets += [
            (anchor, row, other)
            for row in shown[anchor][is_clicked].tolist()
            for other in shown[anchor][~is_clicked].tolist()
        ]
    return X, np.array(triplets)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_a_log_says_how_fast_people_stop_to_look(power):
    estimate = power_of_log(*biased_log(power))
    assert power - 0.3 <= estimate <= power + 0.05  # a lower bound


def test_weights_only_say_which_comparisons_count():
    X, triplets = biased_log(0.5, n_events=300)
    weights = np.arange(len(triplets)) % 5.0
    shown = shown_rows(X, triplets, weights)
    same = shown_rows(X, triplets[weights > 0], None)
    assert_allclose(shown.credits, same.credits)


def test_a_row_wins_as_often_as_it_is_clicked_when_it_is_shown():
    rng = np.random.default_rng(0)
    chances = np.array([0.8, 0.5, 0.3, 0.2, 0.1, 0.1])
    triplets = []
    for _ in range(4000):
        is_clicked = rng.random(6) < chances
        triplets += [
            (9, row, other)
            for row in np.flatnonzero(is_clicked)
            for other in np.flatnonzero(~is_clicked)
        ]
    wins = count_wins(np.array(triplets), None)
    assert_allclose(win_rates(wins), chances, atol=0.08)
    assert (wins.won / wins.n_comparisons)[0] > 0.9  # the share is too large


@pytest.mark.parametrize("places", [np.ones(5), np.arange(1.0, 6.0)])
def test_nothing_is_known_of_places_without_wins_or_other_places(places):
    assert power_of_places(np.zeros(5), places, np.zeros(5)) == 0.0
    assert power_of_places(np.ones(5), np.ones(5), np.zeros(5)) == 0.0


@given(st.data())
def test_gains_count_what_rows_are_worth_beyond_unseen_ones(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    queries = np.repeat(np.arange(len(sizes)), sizes)
    credit = st.floats(0.0, 2.0)
    credits = np.array(data.draw(st.lists(credit, min_size=len(queries), max_size=16)))
    credits = credits[: len(queries)]
    ranks = np.concatenate([data.draw(st.permutations(range(1, 9)))[:n] for n in sizes])
    unseen = data.draw(credit)
    assert_allclose(
        credited_gains(ranks.astype(float), credits, queries, unseen),
        reference.credited_gains(ranks, credits, queries, unseen),
        atol=1e-9,
    )


def test_a_log_of_the_first_results_is_known_by_where_clicks_are():
    X = unit_rows(200)
    rng = np.random.default_rng(0)
    first = top_k(X, X, 11).rows[:, 1:]
    clicked = rng.random(first.shape) < 0.3
    everything = SearchedPart(np.arange(200), X)
    wins = count_wins(log_of(X, first, clicked), None)
    assert are_first_results(X, everything, wins, rng)
    anywhere = np.array([rng.choice(200, 10, replace=False) for _ in range(200)])
    wins = count_wins(log_of(X, anywhere, clicked), None)
    assert not are_first_results(X, everything, wins, rng)


def test_a_log_shows_any_of_the_rows_that_are_equal():
    X = sp.csr_array(sp.vstack([unit_rows(20)] * 40))
    rng = np.random.default_rng(0)
    scores = (X @ X.T).toarray() + 1e-9 * rng.random((800, 800))
    np.fill_diagonal(scores, -1.0)
    first = np.argsort(-scores, axis=1)[:, :10]
    wins = count_wins(log_of(X, first, rng.random(first.shape) < 0.3), None)
    assert are_first_results(X, SearchedPart(np.arange(800), X), wins, rng)


@pytest.mark.parametrize("n_sampled", [1, 50, 10_000])
def test_a_sample_of_the_rows_takes_no_log_for_another(monkeypatch, n_sampled):
    monkeypatch.setattr(shown_results, "N_SAMPLED", n_sampled)
    X = unit_rows(200)
    rng = np.random.default_rng(0)
    first = top_k(X, X, 11).rows[:, 1:]
    everything = SearchedPart(np.arange(200), X)
    clicks = log_of(X, first, rng.random(first.shape) < 0.3)
    assert are_first_results(X, everything, count_wins(clicks, None), rng)
    anywhere = np.array([rng.choice(200, 10, replace=False) for _ in range(200)])
    others = log_of(X, anywhere, rng.random(first.shape) < 0.3)
    assert not are_first_results(X, everything, count_wins(others, None), rng)


def test_a_judge_of_a_log_lets_an_order_bring_up_other_rows():
    X = unit_rows(200)
    rng = np.random.default_rng(0)
    first = top_k(X, X, 11).rows[:, 1:]
    data = ComparedRows(X, log_of(X, first, rng.random(first.shape) < 0.3))
    judge = data.search(data, rng)
    assert judge.decides
    assert judge.max_harm == 0.0
    n_judged = len(judge.searched.judged_rows)
    in_order = judge.measure(np.arange(1.0, n_judged + 1))
    assert in_order.shape == (len(judge.searched.hidden_rows),)
