"""Strings, numbers and dates of pairs: what each number says, and of later records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz

from hdsl.linking.features import (
    StringSimilarities,
    WholeRecords,
    amount,
    day,
    first_number,
    folded,
)
from hdsl.linking.tables import read_tables

LEFT = {
    "title": ["Sony DSC-W55 camera 7 MP", "Canon EOS 400D", "red apple"],
    "price": ["$199.00", "1,299", None],
    "since": ["2007-02-01", "2006-08-24", "2001-01-01"],
}
RIGHT = {
    "title": ["camera SONY dsc w55 7.2 MP", "Canon EOS 30D", ""],
    "price": ["149", "1299.00", "3"],
    "since": ["2007-02-11", "2006-08-24", "2001-01-01"],
}


SPACES = st.sampled_from([" ", "  ", "\t", "\u00a0", "\u3000", "\x1c", "\u200b"])
TEXTS = st.lists(st.sampled_from(["sony", "ß", "7.2", "\U0001f600", "a"]) | SPACES)


@pytest.fixture
def similarities():
    return StringSimilarities.of_tables(read_tables(LEFT, RIGHT, None, None))


def numbers_of(similarities, left, right):
    """The numbers of a pair, by subject and name."""
    names = [
        (each.subject, name) for each in similarities.comparisons for name in each.names
    ]
    values = similarities.compare(np.array([[left, right]]))[0]
    return dict(zip(names, values.tolist(), strict=True))


def test_each_number_says_what_it_is_called(similarities):
    numbers = numbers_of(similarities, 0, 3)
    assert numbers["price", "relative difference"] == pytest.approx(50 / 199)
    assert numbers["price", "difference"] == pytest.approx(np.log(51))
    assert numbers["since", "days apart"] == pytest.approx(np.log(11))
    assert numbers["title", "equal"] == 0.0
    assert numbers["words with digits", "both have"] == 4.0  # w55, 7, 2007, 02
    assert numbers["words with digits", "only the left has"] == 3.0  # 199, 00, 01
    assert numbers["words of letters and digits", "both have"] == 1.0
    assert 50 < numbers["whole record", "words in any order"] < 100


def test_numbers_that_are_written_in_another_way_are_equal(similarities):
    numbers = numbers_of(similarities, 1, 4)
    assert numbers["price", "relative difference"] == 0.0
    assert numbers["since", "days apart"] == 0.0
    assert numbers["since", "equal"] == 1.0


def test_what_is_missing_is_missing(similarities):
    numbers = numbers_of(similarities, 2, 5)
    for (subject, _), value in numbers.items():
        assert np.isnan(value) == (subject in ("title", "price"))


def test_columns_are_numbers_or_dates_if_nearly_all_values_are(similarities):
    assert similarities.column_kinds == {"price": "amounts", "since": "days"}
    mixed = {"title": ["a1", "b2"], "code": ["12", "x7"]}
    tables = read_tables(mixed, None, None, None)
    assert StringSimilarities.of_tables(tables).column_kinds == {}


def test_later_records_are_compared_as_if_they_had_been_there(similarities):
    kinds = similarities.column_kinds
    tables = read_tables(LEFT, RIGHT | {"since": ["soon"] * 3}, None, None)
    later = StringSimilarities.of_tables(tables, kinds)
    assert later.column_kinds == kinds
    joined = similarities.joined(similarities, np.array([*range(6), 6 + 3, 6 + 4]))
    values = joined.compare(np.array([[0, 3], [0, 6], [1, 4], [1, 7]]))
    np.testing.assert_array_equal(values[[0, 2]], values[[1, 3]])
    assert np.isnan(numbers_of(later, 0, 3)["since", "days apart"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12.0),
        ("$1,299.50", 1299.5),
        ("4.5 kg", 4.5),
        ("-3", -3.0),
        ("DSC-12", np.nan),
        ("12 of 13", np.nan),
        ("1" * 400, np.nan),
        ("", np.nan),
    ],
)
def test_a_text_is_an_amount_or_none(text, value):
    np.testing.assert_equal(amount(text), value)


def test_days_and_first_numbers():
    assert day("2024-03-01") - day("2024/02/28") == 2.0
    assert day("20240301") == day("2024-03-01 12:30")
    for text in ("2024-02-30", "2024-3-1", "12", "20241"):
        assert np.isnan(day(text))
    assert first_number("about 3.5 or 4") == 3.5
    assert np.isnan(first_number("none"))


@given(TEXTS.map("".join), TEXTS.map("".join))
def test_words_are_put_in_order_as_rapidfuzz_does(left, right):
    left = folded(left)
    right = folded(right)
    whole = WholeRecords.of_texts([left, right])
    position = whole.names.index("words in any order")
    numbers = whole.compare(np.array([0]), np.array([1]), n_jobs=1)
    expected = fuzz.token_sort_ratio(left, right)
    assert numbers[0, position] == np.float32(expected)
