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
    few = peers.draw_answers(people, 10, draw=0)
    many = peers.draw_answers(people, 30, draw=0)
    assert {*few.matches} <= {*many.matches} <= people.matches
    assert {*few.non_matches} <= {*many.non_matches}
    assert not {*many.non_matches} & people.matches
    assert len(few.matches) == len(few.non_matches) == 5
    assert peers.draw_answers(people, 10, draw=1) != few


def test_the_linker_needs_no_answers(people):
    pairs = peers.WAYS["linker"](people, peers.Answers([], []))
    assert people.score(pairs)["f1"] > 0.95


def test_the_loop_gets_true_answers_to_its_questions(people, monkeypatch):
    monkeypatch.setattr(peers, "N_ROUNDS", 2)
    rounds = peers.ROUNDS["linker loop"](people)
    assert [entry["answers"] for entry in rounds] == [0, 20, 40]
    assert rounds[-1]["f1"] >= rounds[0]["f1"] - 0.01


def line_of(method, n, draw, **answer):
    cell = {"set": "3", "method": method, "labels": n, "draw": draw}
    return {"cell": cell, "cpu": 2.0, **answer}


def test_the_page_has_the_draws_and_counts_where_more_labels_harm(tmp_path):
    lines = [
        line_of(method, n, draw, f1=0.5 + n / 1000 + draw / 100, wrong=wrong)
        for method, counts in (("splink", (9, 90)), ("linker", (9, 10)))
        for n, wrong in zip((0, 50), counts, strict=True)
        for draw in range(1 + (n > 0))
    ]
    lines.append(line_of("dedupe", 50, 0, left_out="dedupe is not installed"))
    loop = {"answers": 20, "f1": 0.9, "precision": 1.0, "recall": 0.8}
    lines.append(line_of("linker loop", 20, 0, rounds=[loop]))
    table, harm, rounds = peers.publish(Settings(tmp_path), lines).tables
    assert [row[:4] for row in table.rows] == [
        ["FEBRL3", "Linker", "50.00", "55.50 (55.00 to 56.00)"],
        ["FEBRL3", "Splink", "50.00", "55.50 (55.00 to 56.00)"],
        ["FEBRL3", "dedupe", "–", "left out"],
    ]
    assert harm.rows == [["Linker", "1", "1", "0"], ["Splink", "1", "1", "1"]]
    assert rounds.rows == [["FEBRL3", "Linker", "20", "90.00", "100.00", "80.00"]]


def test_without_the_package_it_says_what_is_needed(tmp_path):
    if importlib.util.find_spec("recordlinkage") is not None:
        pytest.skip("recordlinkage is installed")
    with pytest.raises(MissingDataError, match="recordlinkage"):
        peers.cells(Settings(tmp_path))
