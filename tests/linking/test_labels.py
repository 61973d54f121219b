"""Known pairs as files have them: repeated, contradictory, of unknown records."""

import time
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from hdsl.linking import Linker
from hdsl.linking.labels import LabelReport, read_labels
from hdsl.linking.tables import read_tables, text_of
from products import TEXTS, make_tables


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


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_ids_a_thousandth_of_a_second_apart_are_different():
    start = datetime(2024, 3, 1, 10)
    times = [start + timedelta(milliseconds=k) for k in range(3)]
    table = pd.DataFrame({"at": times, "title": ["red pie", "blue jam", "red pie"]})
    links = Linker(id_column="at").fit(table).candidates(1)
    assert len(links) == 3
