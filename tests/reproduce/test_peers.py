"""Linking people: methods on a small table of people, and the loop of questions."""

import importlib.util

import pytest

from people import COLUMNS, make_people
from reproduce import peers
from reproduce.sets import MissingDataError
from reproduce.settings import Settings


@pytest.fixture
def people():
    table, matches = make_people(60)
    return peers.People(
        {"rec_id": table["id"]} | {n: table[n] for n in COLUMNS}, None, matches
    )


def test_answers_are_true_and_stay_with_more_of_them(people, monkeypatch):
    ids = people.left["rec_id"]
    pairs = [(a, b) for a in ids[:12] for b in ids[12:40]]
    monkeypatch.setattr(peers, "blocked_pairs", lambda people: pairs)
    few = peers.draw_answers(people, 10)
    many = peers.draw_answers(people, 30)
    assert {*few.matches} <= {*many.matches} <= people.matches
    assert {*few.non_matches} <= {*many.non_matches}
    assert not {*many.non_matches} & people.matches
    assert len(few.matches) == len(few.non_matches) == 5


def test_the_linker_needs_no_answers(people):
    pairs = peers.WAYS["linker"](people, peers.Answers([], []))
    assert people.score(pairs)["f1"] > 0.95


def test_the_page_has_a_row_per_method_and_a_column_per_number_of_labels(tmp_path):
    lines = [
        {
            "cell": {"set": "3", "method": method, "labels": n},
            "f1": 0.5 + n / 1000,
            "cpu": 2.0,
        }
        for n in (0, 50)
        for method in ("splink", "linker")
    ]
    loop = {"answers": 20, "f1": 0.9, "precision": 1.0, "recall": 0.8}
    lines.append(
        {"cell": {"set": "3", "method": "loop", "labels": 20}, "rounds": [loop]}
    )
    table, rounds = peers.publish(Settings(tmp_path), lines).tables
    assert [row[:4] for row in table.rows] == [
        ["FEBRL3", "Linker", "50.00", "55.00"],
        ["FEBRL3", "Splink", "50.00", "55.00"],
    ]
    assert rounds.rows == [["FEBRL3", "20", "90.00", "100.00", "80.00"]]


def test_without_the_package_it_says_what_is_needed(tmp_path):
    if importlib.util.find_spec("recordlinkage") is not None:
        pytest.skip("recordlinkage is installed")
    with pytest.raises(MissingDataError, match="recordlinkage"):
        peers.cells(Settings(tmp_path))
