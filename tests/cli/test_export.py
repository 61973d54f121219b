"""`hdsl export`: documents and queries for each engine."""

import json

import pytest

from commands import bad, good, told
from hdsl.serving.full_text import TEXT_FORMATS
from hdsl.serving.vector_engines import FORMATS


def test_export(folder, tmp_path):
    path = tmp_path / "index.any"
    model = folder / "model.hdsl"
    assert "90 documents" in good("export", model, "--to", "jsonl", "-o", path).stdout
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (hit,) = told("search", model, "goal", "-k", 1)["neighbours"]
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
    query_text = good("export", model, "--to", "sqlite", "--query", "goal").stdout
    assert "'\"goal\"'" in query_text
    assert "class:" not in query_text
    assert "--query" in bad("export", model, "--to", "postgresql")
    assert "two files" in bad("export", model, "--to", "jsonl", "-o", model)
    assert "two files" in bad("report", model, "-o", model)
