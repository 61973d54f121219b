"""`hdsl report`: the page is of the rows that were learned from."""

import base64
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from commands import LABELLED, good, texts, told
from hdsl import load, save
from hdsl.class_scores import training
from hdsl.cli import measure
from hdsl.evaluate import measured
from hdsl.text import Collection
from pages import number


def test_row_numbers_are_those_of_the_file(folder, tmp_path):
    """On the page too, which shows no rows that were held out."""
    good("report", folder / "model.hdsl", "-o", tmp_path / "r.html")
    page = json.loads(
        re.search(r'"data">(.*?)</script>', (tmp_path / "r.html").read_text())[1]
    )
    code = page["items"]["rows"]
    rows = np.frombuffer(base64.b64decode(code["bytes"]), dtype=code["type"])
    assert_array_equal(
        rows, np.flatnonzero(~load(folder / "model.hdsl").documents.is_new)
    )
    assert page["title"] == "texts"  # the name of the data
    assert page["items"]["texts"] == [texts()[row][2] for row in rows]
    shown = told("evaluate", folder / "model.hdsl")
    assert page["errors"]["before"] == shown["comparison"]["before"]
    assert page["errors"]["classifier"]["error"] == shown["error"]["LinearSVC"]


def test_a_report_fits_no_classifier_again(folder, tmp_path, monkeypatch):
    """It stands in the model file; facts that are not of these rows are measured anew."""
    collection = load(folder / "model.hdsl")
    facts = collection.documents.facts["classifier"]
    assert facts["n_learned"] == facts["n_rows"] == 72
    monkeypatch.setattr(measured, "_classifier_error", lambda *rows: None)
    assert measure.held_out(collection).classifier.to_dict() == facts
    for name, value in {"n": 9, "n_rows": 9, "n_wrong": "many", "n_learned": 0}.items():
        collection.documents.facts["classifier"] = facts | {name: value}
        assert measure.held_out(collection).classifier is None
    collection.documents.facts["classifier"] = None
    assert measure.held_out(collection).classifier is None


def test_a_classifier_that_learned_from_a_sample_says_so(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "COMPARISON_SIZE", 1)
    monkeypatch.setattr(training, "FEWEST_ROWS", 30)
    model = tmp_path / "model.hdsl"
    result = good("fit", folder / "texts.csv", *LABELLED, "-o", model, "--max-iter", 2)
    assert re.search(r"LinearSVC .* learned from 30 of 72 rows", result.stdout)
    facts = load(model).documents.facts["classifier"]
    assert (facts["n_learned"], facts["n_rows"]) == (30, 72)
    good("report", model, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert '"n_learned": 30' in page or '"n_learned":30' in page


@pytest.mark.parametrize("ranking", ["cosine", "product"])
def test_the_page_finds_what_a_search_finds(folder, tmp_path, chromium, ranking):
    model = tmp_path / "model.hdsl"
    command = ["fit", folder / "texts.csv", *LABELLED, "-o", model, "--max-iter", 5]
    good(*command, "--no-class-scores", "--test", 0, "--prior", 4)
    collection = load(model)
    collection.model.ranking_ = ranking
    save(Collection(collection.model, collection.words, collection.documents), model)
    good("report", model, "-o", tmp_path / "r.html")
    page = chromium.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    for query, text in (
        (["--row", 7], "Row 7"),
        (["goal profit"], "Goal, PROFIT"),
    ):
        page.locator("#query").fill(text)
        page.locator("#query").press("Enter")
        for rank, option in (("before", ["--plain"]), ("after", [])):
            hits = told("search", model, *query, "-k", 6, *option)["neighbours"]
            score = "cosine" if rank == "before" else "similarity"
            shown = page.locator(f"#{rank} button").all_inner_texts()
            values = [number(line.split()[0]) for line in shown]
            expected = [hit[score] for hit in hits]
            assert_allclose(values, expected, rtol=6e-3)
            rows = [int(re.search(r"Row (\d+)", line)[1]) for line in shown]
            assert_same_ranks(rows, [hit["row"] for hit in hits], expected)
        assert page.locator("#cosine").is_visible() == (ranking == "cosine")
        assert page.locator("#unknown").inner_text() == ""
    terms = told("search", model, "goal profit", "--expand")["terms"]
    lines = page.locator("#terms tbody tr").all()
    cells = [line.locator("td").all_inner_texts() for line in lines]
    assert_allclose(
        [number(cell[3]) for cell in cells],
        [term["weight"] for term in terms],
        atol=6e-3,
    )
    assert {cell[0].removesuffix(" added") for cell in cells} == {
        term["term"] for term in terms
    }
    added = {cell[0].split()[0] for cell in cells if cell[0].endswith(" added")}
    assert added == {term["term"] for term in terms if not term["typed"]}
    sums = [sum(number(text or "0") for text in cell[1:3]) for cell in cells]
    assert_allclose(sums, [number(cell[3]) for cell in cells], atol=2e-2)
    page.locator("#query").fill("Row 7")
    page.locator("#query").press("Enter")
    assert not page.locator("#expansion").is_visible()
    page.close()


def assert_same_ranks(rows, expected, scores):
    """Compare ranks, but for those of equal scores."""
    for k, row in enumerate(rows):
        if row != expected[k]:
            other = expected.index(row) if row in expected else k
            assert scores[other] == pytest.approx(scores[k])
