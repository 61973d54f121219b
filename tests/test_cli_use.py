"""The commands on a model: search, explain, report, export, evaluate and info."""

import base64
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from commands import LABELLED, bad, cosines, good, load_scored, texts, write_csv
from hdsl import LocalHDSL, SimilarityClassifier
from hdsl.text import TEST, load_collection


def test_search(place):
    model = place / "model.hdsl"
    shown = good("search", model, "goal of the striker", "-k", 4).stdout
    head, *lines = shown.splitlines()
    assert head.split() == ["learned", "by", "cosine", "label", "document"]
    assert len(lines) == 8  # a neighbour and why
    assert all("sport" in line for line in lines[::2])
    for line, why in zip(lines[::2], lines[1::2], strict=True):
        parts = [float(part) for part in re.findall(r" ([+-][\d.]+)", why)]
        assert sum(parts) == pytest.approx(float(line.split()[0]), abs=0.006 * (1 + len(parts)))
    facts = json.loads(good("search", model, "goal", "striker", "--json").stdout)
    assert facts["query"] == "goal striker"
    collection = load_collection(model)
    scores = cosines(load_scored(model), collection.rows_of(["goal striker"]), collection.X)
    hits = facts["neighbours"]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], np.sort(scores)[::-1][:5])
    assert hits[0]["text"] == collection.texts[hits[0]["row"]]
    plain = (collection.X @ collection.rows_of(["goal striker"]).T).toarray().ravel()
    for hit in hits:
        assert hit["cosine"] == pytest.approx(plain[hit["row"]])
        assert hit["rank by cosine"] == 1 + (plain > plain[hit["row"]] + 1e-12).sum()
        total = sum(part["value"] for part in hit["why"]) + hit["more"]["value"]
        assert total == pytest.approx(hit["similarity"])
    hits = json.loads(good("search", model, "--row", 4, "-k", 3, "--json").stdout)["neighbours"]
    assert len(hits) == 3
    assert 4 not in [hit["row"] for hit in hits]


def test_search_for_many_queries(place, tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("goal striker\n\nzebra\nprofit of the bank\n")
    result = good("search", place / "model.hdsl", "--queries", path, "--json")
    assert result.stderr == "hdsl: warning: 1 query has no word that the model knows.\n"
    answers = json.loads(result.stdout)
    assert [answer["query"] for answer in answers] == [
        "goal striker", "zebra", "profit of the bank"
    ]  # fmt: skip
    for answer in answers[::2]:
        alone = good("search", place / "model.hdsl", answer["query"], "--json").stdout
        rows = [hit["row"] for hit in json.loads(alone)["neighbours"]]
        assert [hit["row"] for hit in answer["neighbours"]] == rows
    assert answers[1]["neighbours"] == []
    shown = good("search", place / "model.hdsl", "--queries", path).stdout
    assert "\nzebra\n  nothing found\n" in shown


def test_row_numbers_are_those_of_the_file(place, tmp_path):
    """In search, evaluate, explain, export and on the page, also beside rows held out."""
    good("report", place / "model.hdsl", "-o", tmp_path / "r.html")
    page = json.loads(re.search(r'"data">(.*?)</script>', (tmp_path / "r.html").read_text())[1])
    code = page["items"]["rows"]
    rows = np.frombuffer(base64.b64decode(code["bytes"]), dtype=code["type"])
    part = load_collection(place / "model.hdsl").part
    assert_array_equal(rows, np.flatnonzero(part != TEST))
    assert page["items"]["texts"] == [texts()[row][2] for row in rows]


def test_control_characters_are_not_printed(tmp_path):
    rows = [(a, b, f"{c} \x1b[31m\x07 [bold]") for a, b, c in texts(30)]
    path = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    shown = good("fit", path, *LABELLED, "--max-iter", 20, "-o", out).stdout
    shown += good("search", out, "goal").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]" in shown  # texts are no markup


def test_explain(place):
    model = place / "model.hdsl"
    shown = good("explain", model, "--x", "goal of the match", "--y", "a goal").stdout
    assert shown.startswith("S(x, y) = ")
    asked = ("--x", 3, "--y", 6, "--rather-than", 1, "--json")
    facts = json.loads(good("explain", model, *asked).stdout)
    X = load_collection(model).X
    scored = load_scored(model)
    scores = scored.model.similarity(scored.rows(X[[3]]), scored.rows(X[[6, 1]]))[0]
    assert facts["total"] == pytest.approx(scores[0] - scores[1])
    assert sum(part["value"] for part in facts["parts"]) == pytest.approx(facts["total"])


def test_report(place, tmp_path):
    good("report", place / "model.hdsl", "-o", tmp_path / "r.html", "--title", "Goals & <more>")
    page = (tmp_path / "r.html").read_text()
    assert "Goals &amp; &lt;more&gt;" in page
    assert "striker" in page


def test_export(place, tmp_path):
    path, model = tmp_path / "index.jsonl", place / "model.hdsl"
    result = good("export", model, "--to", "jsonl", "-o", path)
    assert result.stdout.startswith(f"{path}: 90 documents, ")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (hit,) = json.loads(good("search", model, "goal", "-k", 1, "--json").stdout)["neighbours"]
    query = json.loads(good("export", model, "--to", "jsonl", "--query", "goal").stdout)
    scores = [sum(query.get(t, 0) * w for t, w in line["terms"].items()) for line in lines]
    assert max(scores) == pytest.approx(hit["similarity"])
    assert lines[hit["row"]]["text"] == hit["text"]
    assert set(lines[0]) == {"id", "length", "label", "text", "terms"}
    good("export", model, "--to", "pgvector", "-o", tmp_path / "index.sql", "--no-cosine")
    assert "sparsevec(" in (tmp_path / "index.sql").read_text(encoding="utf-8")
    assert "must be one of 'pgvector', 'qdrant', 'jsonl'" in bad("export", model, "--to", "other")
    assert "must end in .sql" in bad("export", model, "--to", "pgvector", "-o", path)


def test_evaluate_new_texts(place, tmp_path):
    new = write_csv(tmp_path / "new.csv", texts(45, seed=9))
    result = good("evaluate", place / "model.hdsl", new, "-k", 5)
    assert "Error of 5 nearest neighbours among the documents in the model, 45" in result.stdout
    assert result.stderr == ""


def test_info(place, rows_file, tmp_path):
    assert json.loads(good("info", "--json").stdout)["cores"] >= 1
    facts = json.loads(good("info", place / "model.hdsl", "--json").stdout)
    assert facts["documents"] == 90
    path, rng = tmp_path / "classifier.hdsl", np.random.default_rng(0)
    rows, regions = rng.random((40, 6)), LocalHDSL(2, max_iter=5, random_state=0)
    SimilarityClassifier(regions, C=9.0, random_state=0).fit(rows, np.arange(40) % 2).save(path)
    facts = json.loads(good("info", path, "--json").stdout)
    assert (facts["features"], facts["classes"], facts["regions"]) == (6, 2, 2)
    assert "holds a SimilarityClassifier and no documents" in bad("search", path, "goal")
    facts = json.loads(good("info", rows_file, "--json").stdout)
    assert (facts["rows"], facts["features"], facts["triplets"]) == (60, 12, 900)
    np.save(tmp_path / "T.npy", np.array([[0, 1, 2]]))
    assert "triplets" in good("info", rows_file, "--triplets", tmp_path / "T.npy").stdout
