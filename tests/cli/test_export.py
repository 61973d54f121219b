"""`hdsl export`: documents and queries for each engine."""

import json

import numpy as np
import pytest

from commands import LABELLED, bad, good, told
from hdsl import load, save
from hdsl.serving.full_text import TEXT_FORMATS
from hdsl.serving.vector_engines import FORMATS
from hdsl.text import Collection


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


def rows_of_sql(path):
    """Return the columns of an export to pgvector by name: terms as dicts by index."""
    lines = path.read_text(encoding="utf-8").split("\n")
    start = lines.index("COPY hdsl_documents FROM STDIN;")
    definitions = [line.split() for line in lines[2 : start - 1]]
    names = [definition[0].strip('"') for definition in definitions]
    rows = [line.split("\t") for line in lines[start + 1 : lines.index("\\.")]]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns["terms"] = [terms_of(text) for text in columns["terms"]]
    return columns


def terms_of(sparsevec):
    """Return the values of a sparsevec by index."""
    entries = sparsevec[1:].partition("}")[0].split(",")
    pairs = [entry.split(":") for entry in entries if entry]
    return {int(index): float(value) for index, value in pairs}


def products(query, rows):
    """Return what the operator <#> of pgvector orders by, with its sign turned."""
    return np.array(
        [sum(query.get(i, 0.0) * value for i, value in row.items()) for row in rows]
    )


@pytest.mark.parametrize("option", ["--cosine", "--no-cosine"])
def test_exported_rows_come_as_the_search_has_them(folder, tmp_path, option):
    """Rows are divided by their lengths, or have them beside, and never both."""
    model = folder / "model.hdsl"
    path = tmp_path / "index.sql"
    good("export", model, "--to", "pgvector", "-o", path, option)
    text = "goal striker today"
    query = terms_of(
        good("export", model, "--to", "pgvector", "--query", text, option).stdout
    )
    columns = rows_of_sql(path)
    assert ("length" in columns) == (option == "--no-cosine")
    scores = products(query, columns["terms"])
    if "length" in columns:
        scores /= np.array(columns["length"], dtype=float)
    hits = told("search", model, text, "-k", 90)["neighbours"]
    ranked = scores[[hit["row"] for hit in hits]]
    learned = np.array([hit["similarity"] for hit in hits])
    np.testing.assert_allclose(ranked * learned[0] / ranked[0], learned, atol=1e-5)
    if option == "--cosine":
        np.testing.assert_allclose(ranked, learned, atol=1e-5)


def test_a_full_text_query_names_the_class_scores_that_it_leaves_out(folder):
    result = good("export", folder / "model.hdsl", "--to", "sqlite", "--query", "goal")
    assert "class scores" in result.stderr
    result = good("export", folder / "model.hdsl", "--to", "qdrant", "--query", "goal")
    assert "class scores" not in result.stderr


def test_what_is_exported_and_searched_is_what_was_measured(folder, tmp_path):
    collection = load(folder / "model.hdsl")
    collection.learned.ranking_ = "product"
    model = tmp_path / "product.hdsl"
    save(Collection(collection.model, collection.words, collection.documents), model)
    scored = load(model).scored
    (hit,) = told("search", model, "goal", "-k", 1)["neighbours"]
    row = load(model).row_of_text("goal")
    products = scored.index_rows(load(model).documents.X) @ scored.rewrite(row).T
    assert hit["similarity"] == pytest.approx(products.toarray().max())
    good("export", model, "--to", "jsonl", "-o", tmp_path / "as_measured.jsonl")
    good("export", model, "--to", "jsonl", "-o", tmp_path / "S.jsonl", "--no-cosine")
    good("export", model, "--to", "jsonl", "-o", tmp_path / "cosine.jsonl", "--cosine")
    as_measured = (tmp_path / "as_measured.jsonl").read_text(encoding="utf-8")
    assert as_measured == (tmp_path / "S.jsonl").read_text(encoding="utf-8")
    assert as_measured != (tmp_path / "cosine.jsonl").read_text(encoding="utf-8")


def test_a_text_index_has_no_ngrams_of_characters(folder, tmp_path):
    model = tmp_path / "m.hdsl"
    command = ("fit", folder / "texts.csv", *LABELLED, "--max-iter", 2, "-o", model)
    good(*command, "--tokens", "characters")
    message = bad("export", model, "--to", "sqlite", "--query", "goal")
    assert "--tokens words" in message
