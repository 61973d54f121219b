"""Known pairs as files have them, and what follows from answers."""

import time
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.linking import Linker
from hdsl.linking.known import Consequences, LabelReport, read_labels
from hdsl.linking.tables import read_tables, text_of
from products import TEXTS, make_tables

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


def test_a_complete_list_leaves_no_other_match_of_its_records():
    known = Consequences(pairs_of([(0, 1)]), pairs_of([]), 6, is_complete=True)
    answers = known.answers(pairs_of([(0, 1), (0, 2), (3, 1), (3, 4)]))
    np.testing.assert_array_equal(answers, [1.0, 0.0, 0.0, np.nan])


@pytest.fixture
def tables():
    table = {"key": ["a", "b", "c", "d"], "name": TEXTS}
    return read_tables(table, table, None, "key")


def test_a_pair_that_is_listed_twice_is_one_pair(tables):
    labels = read_labels(tables, [("a", "b"), ("c", "d"), ("a", "b")], [("b", "c")])
    assert labels.matches.tolist() == [[0, 5], [2, 7]]
    assert labels.non_matches.tolist() == [[1, 6]]
    assert labels.report.repeated == [("a", "b")]
    (sentence,) = labels.report.sentences()
    assert "more than once" in sentence
    assert "('a', 'b')" in sentence


def test_a_pair_that_is_match_and_non_match_is_left_out(tables):
    labels = read_labels(tables, [("a", "b"), ("a", "c")], [("a", "b"), ("a", "b")])
    assert labels.matches.tolist() == [[0, 6]]
    assert len(labels.non_matches) == 0
    assert labels.report.contradictory == [("a", "b")]
    assert labels.report.repeated == []
    assert labels.report.faults() == {("a", "b"): "both yes and no: left out"}


def test_the_faults_of_many_pairs_are_found_at_once():
    pairs = [(str(n), "x") for n in range(40_000)]
    report = LabelReport(repeated=[], contradictory=[], unknown=pairs)
    start = time.perf_counter()
    faults = report.faults()
    assert {faults[pair] for pair in pairs} == {"no such record: left out"}
    assert time.perf_counter() - start < 5.0  # by a search of the list per pair 30


def test_both_orders_of_a_pair_are_one_pair_in_one_table():
    tables = read_tables(
        {"key": ["a", "b", "c", "d"], "name": TEXTS}, None, None, "key"
    )
    labels = read_labels(tables, [("a", "b"), ("b", "a"), ("c", "d")], [("d", "c")])
    assert labels.matches.tolist() == [[0, 1]]
    assert labels.report.repeated == [("a", "b"), ("b", "a")]
    assert labels.report.contradictory == [("c", "d"), ("d", "c")]
    with pytest.raises(ValueError, match="itself"):
        read_labels(tables, [("b", "b")], [])


def test_pairs_of_unknown_records_are_left_out_unless_they_are_most(tables):
    labels = read_labels(tables, [("a", "b"), ("x", "b")], [("a", "y"), ("c", "c")])
    assert labels.matches.tolist() == [[0, 5]]
    assert labels.non_matches.tolist() == [[2, 6]]
    assert labels.report.unknown == [("x", "b"), ("a", "y")]
    with pytest.raises(ValueError, match=r"'x'.*id_column"):
        read_labels(tables, [("a", "b"), ("x", "b"), ("y", "c")], [])


def test_labels_with_faults_give_the_linker_of_those_without():
    left, right, matches = make_tables(30)
    given = [tuple(pair) for pair in matches[:20].tolist()]
    faulty = [*given, given[3], (29, 0), (99, 0)]
    clean = Linker(["title"], random_state=0).fit(left, right, given, [(1, 0)])
    with pytest.warns(UserWarning, match="Known pairs") as warnings:
        linker = Linker(["title"], random_state=0).fit(
            left, right, faulty, [(29, 0), (1, 0)]
        )
    messages = [str(warning.message) for warning in warnings]
    assert len(messages) == 3
    pairs = matches[20:]
    same = clean.predict_proba(pairs)
    np.testing.assert_array_equal(linker.predict_proba(pairs), same)


def test_dates_are_dates():
    days = pd.to_datetime(["2024-03-01 00:00", "2023-12-30 12:00"])
    assert [*map(text_of, days)] == ["2024-03-01", "2023-12-30 12:00:00"]
    assert [*map(text_of, days.to_numpy())] == [*map(text_of, days)]
    assert text_of(datetime(2024, 3, 1)) == "2024-03-01"
    assert text_of(datetime(2024, 3, 1, 0, 0, 0, 1000)) == "2024-03-01 00:00:00.001"
    late = pd.Timestamp("2024-03-01T10:00:00.000000250", tz="UTC")
    assert text_of(late) == "2024-03-01 10:00:00.00000025+00:00"
    late = np.datetime64("2024-03-01T10:00:00.500")
    assert text_of(late) == text_of(late.astype("M8[ns]")) == "2024-03-01 10:00:00.5"
    assert text_of(np.datetime64("2024-03", "M")) == "2024-03-01"
    assert text_of(pd.NaT) == ""
    assert text_of(np.datetime64("NaT", "D")) == ""


def test_a_complete_list_says_that_other_pairs_do_not_match():
    left, right, matches = make_tables(40)
    right = {name: values + values for name, values in right.items()}  # each twice
    complete = Linker(["title"], random_state=0).fit(
        left, right, matches[:25], [(0, 1)], complete=True
    )
    open_list = Linker(["title"], random_state=0).fit(
        left, right, matches[:25], [(0, 1)]
    )
    copies = matches[:25] + np.array([0, 40])
    assert (
        complete.predict_proba(copies).mean() < open_list.predict_proba(copies).mean()
    )


def test_ids_a_thousandth_of_a_second_apart_are_different():
    start = datetime(2024, 3, 1, 10)
    times = [start + timedelta(milliseconds=k) for k in range(3)]
    table = pd.DataFrame({"at": times, "title": ["red pie", "blue jam", "red pie"]})
    links = Linker(id_column="at").fit(table).predict(0.0)
    assert len(links) == 1
