"""`hdsl demo`: it learns, and writes a page and a model."""

import pytest

from commands import told
from hdsl import load
from hdsl.text import Collection


@pytest.mark.slow
def test_demo(tmp_path):
    page = tmp_path / "demo.html"
    model = tmp_path / "demo.hdsl"
    facts = told("demo", "-o", page, "--model", model)
    assert facts["error"]["learned"] < 0.75 * facts["error"]["cosine"]
    assert facts["comparison"]["verdict"] == "better"
    assert "LinearSVC" in facts["error"]
    assert page.stat().st_size > 50_000
    assert len(facts["neighbours"]) == 3
    collection = load(model)
    assert isinstance(collection, Collection)
    assert collection.documents.n_rows == facts["rows"]
