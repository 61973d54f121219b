"""JSON that is read back as it was written, and refuses what would not be."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.readers.tables import read_table
from hdsl.strict_json import MAX_DEPTH, loads, to_plain

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**64, 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(VALUES)
def test_values_come_back_as_from_the_standard_library(value):
    text = json.dumps(value)
    assert repr(loads(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "Expecting value"),
        ("{} x", "Extra data"),
        ("\ufeff{}", "Expecting value"),
        ('{"b": 1, "a": {"c": 1, "c": 1}}', "the name 'c' occurs twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "'1e999' is too large"),
        ("-" + "9" * 400, "is too large"),
        ("9" * 10**6, "is too large"),
        (json.dumps(nested(MAX_DEPTH + 1)), "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_others_let_pass_is_refused(text, fragment):
    with pytest.raises(ValueError, match=fragment):
        loads(text)


def test_the_deepest_value_that_can_be_written_can_be_read():
    deepest = nested(MAX_DEPTH)
    assert loads(json.dumps(to_plain(deepest, "deepest"))) == deepest
    with pytest.raises(ValueError, match="expected numbers"):
        to_plain([deepest], "too deep")


def test_tuples_and_numpy_numbers_become_plain():
    given = {"a": (1, 2), "b": np.int64(3), "c": np.float32(0.5), "d": np.True_, "e": np.str_("x")}
    plain = to_plain(given, "given")
    assert repr(plain) == repr({"a": [1, 2], "b": 3, "c": 0.5, "d": True, "e": "x"})


ENDLESS = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        ({"b": [1, print]}, r"header\['b'\]\[1\] is <built-in"),
        (np.ones(2), r"header is array.*pass it as an array"),
        (float("nan"), "is nan"),
        (-float("inf"), "is -inf"),
        ({1: 2}, "string keys"),
        (2**64, "is 18446744073709551616"),
        ("\ud800\udc00", "header is"),
        ({"\ud800\udc00": 1}, "header is"),
        (ENDLESS, "expected numbers"),
    ],
    ids=repr,
)
def test_what_json_has_no_form_for_is_refused(value, fragment):
    with pytest.raises(ValueError, match=fragment):
        to_plain(value, "header")


@pytest.mark.parametrize(
    ("line", "fragment"),
    [('{"a": NaN}', "NaN is not JSON"), ('{"a": 1, "a": 1}', "'a' occurs twice")],
)
def test_json_lines_are_as_strict(tmp_path, line, fragment):
    path = tmp_path / "table.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=f"table.jsonl, line 1 cannot be read: .*{fragment}"):
        read_table(path, {"column": "a"})
