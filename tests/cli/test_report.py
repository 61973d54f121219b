"""`hdsl report`: the page is of the rows that were learned from."""

import base64
import json
import re

import numpy as np
from numpy.testing import assert_array_equal

from commands import LABELLED, good, texts, told
from hdsl import load
from hdsl.class_scores import sample as class_scores_sample
from hdsl.cli import measure
from hdsl.report import measured


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
    monkeypatch.setattr(class_scores_sample, "FEWEST_ROWS", 30)
    model = tmp_path / "model.hdsl"
    result = good("fit", folder / "texts.csv", *LABELLED, "-o", model, "--max-iter", 2)
    assert re.search(r"LinearSVC .* learned from 30 of 72 rows", result.stdout)
    facts = load(model).documents.facts["classifier"]
    assert (facts["n_learned"], facts["n_rows"]) == (30, 72)
    good("report", model, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert '"n_learned": 30' in page or '"n_learned":30' in page
