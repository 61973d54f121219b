"""The commands on a model: search, explain, report, export, evaluate and info."""

import base64
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from commands import LABELLED, bad, cosines, good, texts, told, write_csv
from hdsl import load
from hdsl.cli.measure import are_among
from hdsl.serving.full_text import TEXT_FORMATS
from hdsl.serving.vector_engines import FORMATS


def found_by(*arguments):
    return told("search", *arguments)


def test_search(place):
    model = place / "model.hdsl"
    head, *lines = good(
        "search", model, "goal of the striker", "-k", 4
    ).stdout.splitlines()
    assert head.split() == ["learned", "by", "cosine", "id", "label", "document"]
    assert len(lines) == 8  # a neighbour and why
    assert all("sport" in line for line in lines[::2])
    for line, why in zip(lines[::2], lines[1::2], strict=True):
        parts = [float(part) for part in re.findall(r" ([+-][\d.]+)", why)]
        assert sum(parts) == pytest.approx(
            float(line.split()[0]), abs=0.006 * (1 + len(parts))
        )
    facts = found_by(model, "goal", "striker")
    found = load(model)
    assert facts["query"] == "goal striker"
    x = found.rows_of(["goal striker"])
    X = found.documents.X
    scores = cosines(model, x, X)
    hits = facts["neighbours"]
    assert_allclose([hit["similarity"] for hit in hits], np.sort(scores)[::-1][:5])
    assert hits[0]["text"] == found.documents.texts[hits[0]["row"]]
    plain = (X @ x.T).toarray().ravel()
    for hit in hits:
        assert hit["cosine"] == pytest.approx(plain[hit["row"]])
        assert hit["rank by cosine"] == 1 + (plain > plain[hit["row"]] + 1e-12).sum()
        total = sum(part["value"] for part in hit["why"]) + hit["more"]["value"]
        assert total == pytest.approx(hit["similarity"])


def test_a_document_is_found_by_its_id_or_number(place):
    model = place / "model.hdsl"
    by_number, by_id = (found_by(model, "--row", name, "-k", 3) for name in ("4", "d4"))
    assert by_number["neighbours"] == by_id["neighbours"]
    assert 4 not in [hit["row"] for hit in by_id["neighbours"]]
    by_id, by_number = (
        good("explain", model, "--x", x, "--y", y).stdout
        for x, y in (("d3", "d6"), ("3", "6"))
    )
    assert by_id == by_number
    assert "the model has 90" in bad("search", model, "--row", "d90")


def test_words_that_the_model_does_not_know_are_named(place):
    model = place / "model.hdsl"
    facts = found_by(model, "goal", "zebra", "unicorn", "the")
    assert facts["unknown words"] == ["zebra", "unicorn"]
    assert facts["known share"] == pytest.approx(1 / 3)
    shown = good("search", model, "goal zebra").stdout.splitlines()[0]
    assert "'zebra'" in shown
    assert "50 %" in shown
    assert "know" not in good("search", model, "goal striker").stdout
    assert (
        "'zebra'" in good("explain", model, "--x", "goal zebra", "--y", "goal").stderr
    )


def test_search_for_many_queries(place, tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("goal striker\n\nzebra\nprofit of the bank\n" + "goal\n" * 70)
    answers = found_by(place / "model.hdsl", "--queries", path)
    for answer in (answers[0], answers[2], answers[-1]):
        alone = found_by(place / "model.hdsl", answer["query"])["neighbours"]
        assert_allclose(
            [hit["similarity"] for hit in answer["neighbours"]],
            [hit["similarity"] for hit in alone],
        )
    assert answers[1]["neighbours"] == []
    assert answers[1]["known share"] == 0.0
    path.write_text("goal\nzebra\n")
    shown = good("search", place / "model.hdsl", "--queries", path).stdout
    assert "nothing found" in shown


def test_searches_and_mistakes_load_neither_scikit_learn_nor_numba(place):
    commands = {
        ("search", str(place / "model.hdsl"), "goal"): 0,
        ("search", str(place / "model.hdsl"), "--row", "nothing"): 2,
        ("fit", str(place / "texts.csv"), "--text", "boby"): 2,
        ("fit", str(place / "texts.csv"), *LABELLED, "--scale", "-1"): 2,
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


def test_row_numbers_are_those_of_the_file(place, tmp_path):
    """On the page too, which shows no rows that were held out."""
    good("report", place / "model.hdsl", "-o", tmp_path / "r.html")
    page = json.loads(
        re.search(r'"data">(.*?)</script>', (tmp_path / "r.html").read_text())[1]
    )
    code = page["items"]["rows"]
    rows = np.frombuffer(base64.b64decode(code["bytes"]), dtype=code["type"])
    assert_array_equal(
        rows, np.flatnonzero(~load(place / "model.hdsl").documents.is_new)
    )
    assert page["title"] == "texts"  # the name of the data
    assert page["items"]["texts"] == [texts()[row][2] for row in rows]
    shown = told("evaluate", place / "model.hdsl")
    assert page["errors"]["before"] == shown["comparison"]["before"]
    assert page["errors"]["classifier"]["error"] == shown["error"]["LinearSVC"]


def test_explain(place):
    model = place / "model.hdsl"
    shown = good("explain", model, "--x", "goal of the match", "--y", "a goal").stdout
    assert shown.startswith("S(x, y) = ")
    facts = told("explain", model, "--x", 3, "--y", 6, "--rather-than", 1)
    found = load(model)
    rows = found.model[0].transform(found.documents.X)
    scores = found.learned.similarity(rows[[3]], rows[[6, 1]])[0]
    assert facts["total"] == pytest.approx(scores[0] - scores[1])
    assert sum(part["value"] for part in facts["parts"]) == pytest.approx(
        facts["total"]
    )


def test_export(place, tmp_path):
    path = tmp_path / "index.any"
    model = place / "model.hdsl"
    assert "90 documents" in good("export", model, "--to", "jsonl", "-o", path).stdout
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (hit,) = found_by(model, "goal", "-k", 1)["neighbours"]
    query = json.loads(good("export", model, "--to", "jsonl", "--query", "goal").stdout)
    scores = [
        sum(query.get(t, 0) * w for t, w in line["terms"].items()) for line in lines
    ]
    assert max(scores) == pytest.approx(hit["similarity"])
    assert lines[hit["row"]]["text"] == hit["text"]
    assert lines[hit["row"]]["name"] == hit["id"]
    good(
        "export", model, "--to", "pgvector", "-o", tmp_path / "index.sql", "--no-cosine"
    )
    assert "sparsevec(" in (tmp_path / "index.sql").read_text(encoding="utf-8")
    refused = bad("export", model, "--to", "other")
    assert all(repr(name) in refused for name in (*FORMATS, *TEXT_FORMATS))
    asked = good("export", model, "--to", "sqlite", "--query", "goal").stdout
    assert "'\"goal\"'" in asked
    assert "class:" not in asked
    assert "--query" in bad("export", model, "--to", "postgresql")
    assert "two files" in bad("export", model, "--to", "jsonl", "-o", model)
    assert "two files" in bad("report", model, "-o", model)


def test_evaluate_new_texts(place, tmp_path):
    new = write_csv(tmp_path / "new.csv", texts(45, seed=9))
    result = good("evaluate", place / "model.hdsl", new, "-k", 5)
    assert (
        "rror of 5 nearest neighbours among the documents in the model, 45"
        in result.stdout
    )
    assert result.stderr == ""
    result = good("evaluate", place / "model.hdsl", place / "texts.csv")
    assert "90 of 90 rows are in the model already" in result.stderr


def test_info(place, rows_file):
    assert told("info")["cores"] >= 1
    facts = told("info", place / "model.hdsl")
    assert (facts["documents"], facts["class scores"], facts["kind"]) == (90, 3, "HDSL")
    facts = told("info", rows_file)
    assert (facts["rows"], facts["features"], facts["triplets"]) == (60, 12, 6000)
    sp.save_npz(rows_file, sp.eye_array(20_500, 12, format="csr"))
    facts = told("info", rows_file)
    assert (facts["rows"], facts["triplets"]) == (20_500, 2_000_000)  # as a fit samples
    assert "--text" not in bad("info", place / "texts.csv")


def test_rows_are_those_of_the_model_only_where_they_are_equal():
    """Up to the last bits of a value, of any size and however many columns there are."""
    rng = np.random.default_rng(0)
    columns = rng.permutation(2**20)[:1200]
    known = sp.csr_array(
        (1e-10 * rng.random(1200), columns, np.arange(0, 1201, 3)), shape=(400, 2**40)
    )
    others = known.copy()
    others.indices = others.indices + 2**32
    assert not are_among(others, known).any()
    nearly = known[::2].copy()
    nearly.data *= 1.0 + 1e-15
    assert are_among(nearly, known).all()
    empty = sp.csr_array((1, 2**40))
    assert not are_among(empty, empty).any()
