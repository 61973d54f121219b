"""Tables and JSON as commands print them."""

import json

import numpy as np
import pytest

from hdsl.cli import output
from hdsl.cli.output import LEAST_WIDTH, WIDTH, one_line, show, show_json, table_lines


def test_columns_are_aligned_by_what_a_terminal_shows():
    rows = [("a", "1", "end"), ("日本", "10", ""), ("e\u0301", "100", "x")]
    assert table_lines(rows, right=(1,)) == [
        "a       1  end",
        "日本   10",
        "e\u0301     100  x",
    ]


def test_a_wide_table_is_cut():
    short, long = table_lines([("a", "b"), ("a", "x" * 200)])
    assert short == "a  b"
    assert long == "a  " + "x" * (WIDTH - 4) + "…"


@pytest.mark.parametrize("columns", [1, 20])
def test_a_narrow_terminal_shows_the_last_column(monkeypatch, columns):
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    header = ("learned", "by cosine", "document")
    (_, line) = table_lines([header, ("0.75", "3rd", "Open a file " * 9)])
    assert "Open a file" in line
    assert len(line) == LEAST_WIDTH


def test_facts_become_json_that_every_reader_takes(capsys):
    facts = {"n": np.int64(3), "scores": np.array([0.5, np.nan]), 7: ("é", None)}
    show_json(facts | {"x": float("inf"), "path": type(None)})
    shown = capsys.readouterr().out
    assert "é" in shown
    assert json.loads(shown) == {
        "n": 3,
        "scores": [0.5, None],
        "7": ["é", None],
        "x": None,
        "path": str(type(None)),
    }


def test_one_line_has_no_control_characters():
    assert one_line("a\n\tb\x1b[0m") == "a b [0m"
    assert one_line("abcdef", 4) == "abc…"


def test_what_a_terminal_would_obey_is_escaped(capsys):
    """Control characters of 7 and 8 bits, marks of direction, and bytes that are no text."""
    name = "a\x1b[31m\x9b31m\u202e\udc9b é"
    show(f"first {name}\nsecond")
    text = capsys.readouterr().out
    assert text == "first a\\x1b[31m\\x9b31m\\u202e\\udc9b é\nsecond\n"
    show_json({"name": name})
    text = capsys.readouterr().out
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text) == {"name": name}
