"""`hdsl search`: neighbours, reasons, unknown words, many queries; and what it does not load."""

import re
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from commands import LABELLED, bad, cosines, good, told
from hdsl import load
from hdsl.cli.search import show_hits
from hdsl.serving import expand_query


def test_search(folder):
    model = folder / "model.hdsl"
    head, *lines = good("search", model, "goal striker", "-k", 4).stdout.splitlines()
    assert head.split() == ["learned", "by", "cosine", "id", "label", "document"]
    assert len(lines) == 8  # a neighbour and why
    assert all("sport" in line for line in lines[::2])
    for line, why in zip(lines[::2], lines[1::2], strict=True):
        parts = [float(term) for term in re.findall(r" ([+-][\d.]+)", why)]
        assert sum(parts) == pytest.approx(
            float(line.split()[0]), abs=0.006 * (1 + len(parts))
        )
    facts = told("search", model, "goal", "striker")
    collection = load(model)
    assert facts["query"] == "goal striker"
    x = collection.rows_of(["goal striker"])
    X = collection.documents.X
    scores = cosines(model, x, X)
    hits = facts["neighbours"]
    assert_allclose([hit["similarity"] for hit in hits], np.sort(scores)[::-1][:5])
    assert hits[0]["text"] == collection.documents.texts[hits[0]["row"]]
    plain = (X @ x.T).toarray().ravel()
    for hit in hits:
        assert hit["cosine"] == pytest.approx(plain[hit["row"]])
        assert hit["rank by cosine"] == 1 + (plain > plain[hit["row"]] + 1e-12).sum()
        total = sum(term["value"] for term in hit["why"]) + hit["more"]["value"]
        assert total == pytest.approx(hit["similarity"])


def test_plain_search_finds_one_particular_document(folder):
    model = folder / "model.hdsl"
    text = load(model).documents.texts[7]
    facts = told("search", model, text, "--plain")
    assert facts["order"] == "cosine"
    assert facts["neighbours"][0]["row"] == 7
    assert facts["neighbours"][0]["cosine"] == pytest.approx(1.0)
    head, first, why, *_ = good("search", model, text, "--plain").stdout.splitlines()
    assert head.split()[:3] == ["cosine", "as", "learned"]
    assert first.split()[0] == "1.00"
    parts = [float(term) for term in re.findall(r" ([+-][\d.]+)", why)]
    assert sum(parts) == pytest.approx(1.0, abs=0.006 * (1 + len(parts)))
    by_row = told("search", model, "--row", "7", "--plain", "-k", 3)["neighbours"]
    assert by_row == load(model).search(None, 3, row=7, plain=True)


def test_a_query_is_shown_with_the_terms_that_were_learned(folder, tmp_path):
    """They are those that an export of the query has."""
    model = folder / "model.hdsl"
    facts = told("search", model, "goal zebra", "--expand")
    terms = {term["term"]: term["weight"] for term in facts["terms"]}
    assert terms == dict(expand_query(load(model), "goal zebra"))
    assert [term["term"] for term in facts["terms"] if term["typed"]] == ["goal"]
    assert facts["unknown words"] == ["zebra"]
    lines = good("search", model, "goal zebra", "--expand").stdout.splitlines()
    assert lines[0].split() == ["term", "weight"]
    assert ["goal", f"{terms['goal']:+.3f}", "typed"] in [
        line.split() for line in lines
    ]
    assert any(line.endswith("learned") for line in lines)
    assert "zebra" in lines[-2]
    queries = tmp_path / "queries.txt"
    queries.write_text("goal zebra\nprofit\n")
    both = told("search", model, "--queries", queries, "--expand")
    assert both[0] == facts
    assert (
        "goal zebra" in good("search", model, "--queries", queries, "--expand").stdout
    )
    assert "--row" in bad("search", model, "--row", 3, "--expand")


def test_a_document_is_found_by_its_id_or_number(folder):
    model = folder / "model.hdsl"
    by_number = told("search", model, "--row", "4", "-k", 3)
    by_id = told("search", model, "--row", "d4", "-k", 3)
    assert by_number["neighbours"] == by_id["neighbours"]
    assert 4 not in [hit["row"] for hit in by_id["neighbours"]]
    by_id = good("explain", model, "--x", "d3", "--y", "d6").stdout
    by_number = good("explain", model, "--x", "3", "--y", "6").stdout
    assert by_id == by_number
    assert "the model has 90" in bad("search", model, "--row", "d90")


def test_words_that_the_model_does_not_know_are_named(folder):
    model = folder / "model.hdsl"
    facts = told("search", model, "goal", "zebra", "unicorn")
    assert facts["unknown words"] == ["zebra", "unicorn"]
    assert facts["known share"] == pytest.approx(1 / 3)
    shown = good("search", model, "goal zebra").stdout.splitlines()[0]
    assert "'zebra'" in shown
    assert "50 %" in shown
    assert "know" not in good("search", model, "goal striker").stdout
    assert (
        "'zebra'" in good("explain", model, "--x", "goal zebra", "--y", "goal").stderr
    )


def test_search_for_many_queries(folder, tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("goal striker\n\nzebra\nprofit of the bank\n" + "goal\n" * 70)
    answers = told("search", folder / "model.hdsl", "--queries", path)
    for answer in (answers[0], answers[2], answers[-1]):
        alone = told("search", folder / "model.hdsl", answer["query"])["neighbours"]
        assert_allclose(
            [hit["similarity"] for hit in answer["neighbours"]],
            [hit["similarity"] for hit in alone],
        )
    assert answers[1]["neighbours"] == []
    assert answers[1]["known share"] == 0.0
    path.write_text("goal\nzebra\n")
    shown = good("search", folder / "model.hdsl", "--queries", path).stdout
    assert "nothing found" in shown


def test_searches_and_mistakes_load_neither_scikit_learn_nor_numba(folder):
    commands = {
        ("search", str(folder / "model.hdsl"), "goal"): 0,
        ("search", str(folder / "model.hdsl"), "goal", "--expand"): 0,
        ("search", str(folder / "model.hdsl"), "--row", "nothing"): 2,
        ("fit", str(folder / "texts.csv"), "--text", "boby"): 2,
        ("fit", str(folder / "texts.csv"), *LABELLED, "--scale", "-1"): 2,
    }
    code = f"""if True:
        import sys
        from hdsl.cli import main
        for command, code in {commands!r}.items():
            assert main(command) == code, command
        heavy = {{"sklearn", "numba", "pandas"}} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def make_hit(values, name="reason"):
    """Return a neighbour with reasons of some values, and five more of 0.1 in all."""
    return {
        "row": 3,
        "id": None,
        "label": None,
        "text": None,
        "similarity": sum(values) + 0.1,
        "rank by cosine": 2,
        "why": [{"name": name, "value": value} for value in values],
        "more": {"n": 5, "value": 0.1},
    }


def test_reasons_that_are_small_or_do_not_fit_are_one_sum(capsys):
    show_hits([make_hit([0.5, 0.2, 0.001])])
    header, line, reasons = capsys.readouterr().out.splitlines()
    assert header.split() == ["learned", "by", "cosine", "document"]
    assert line.split() == ["0.80", "2nd", "row", "3"]
    assert reasons.strip() == "= reason +0.50, reason +0.20, and 6 more +0.10"
    show_hits([make_hit([0.5, 0.2, 0.1], name="r" * 40)])
    reasons = capsys.readouterr().out.splitlines()[2]
    assert reasons.strip() == f"= {'r' * 40} +0.50, and 7 more +0.40"
    show_hits([make_hit([0.0001])])
    assert len(capsys.readouterr().out.splitlines()) == 2
