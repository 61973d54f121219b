"""Boosts of documents by their ids, in queries of engines: what is remembered."""

import json
import sqlite3

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.engines import PostgreSQL
from hdsl import HDSL, Rows, Solver
from hdsl.serving import export_query, export_rows, full_text_query
from small_fits import X as ROWS
from small_fits import Y as LABELS

BOOSTS = {3: 0.75, 7: 0.75, 5: 0.5, 1: 0.0}


@pytest.fixture(scope="module", params=["words", "words and an embedding"])
def exported(request):
    """Return a rewritten query, the rows of the index, and scores with boosts."""
    rng = np.random.default_rng(0)
    rows = ROWS
    query = ROWS[:1]
    if request.param != "words":
        Z = rng.normal(size=(ROWS.shape[0], 3)).astype(np.float32)
        rows = Rows(ROWS, Z)
        query = rows[:1]
    model = HDSL(prior=2.0, solver=Solver(max_iter=5), random_state=0).fit(rows, LABELS)
    scores = model.similarity(query, rows, cosine=True)[0]
    for row, boost in BOOSTS.items():
        scores[row] += boost
    rewritten = model.rewrite(query, cosine=True)
    return rewritten, model.index_rows(rows, cosine=True), scores


def test_pgvector_adds_boosts(exported, tmp_path):
    from serving.test_export import load_with_psql

    if PostgreSQL.missing() is not None:
        pytest.skip(
            f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt"
        )
    query, index, expected = exported
    path = tmp_path / "index.sql"
    path.write_text("".join(export_rows("pgvector", index)))
    with PostgreSQL(ROWS.shape[1]) as engine:
        load_with_psql(engine, path)
        cursor = engine.db.cursor()
        cursor.execute(export_query("pgvector", query, k=20, boosts=BOOSTS))
        ids, scores = zip(*cursor.fetchall(), strict=True)
    assert_allclose(
        np.array(scores, dtype=float), np.sort(expected)[::-1][:20], atol=1e-5
    )
    assert_allclose(expected[list(ids)], np.sort(expected)[::-1][:20], atol=1e-5)


def test_qdrant_adds_boosts(exported, tmp_path):
    q = pytest.importorskip("qdrant_edge")
    query, index, expected = exported
    config = {"sparse_vectors": {"terms": q.EdgeSparseVectorParams()}}
    if isinstance(index, Rows):
        vector = q.EdgeVectorParams(size=3, distance=q.Distance.Dot)
        config["vectors"] = {"meaning": vector}
    shard = q.EdgeShard.create(str(tmp_path), q.EdgeConfig(**config))
    for line in export_rows("qdrant", index):
        points = []
        for point in json.loads(line)["points"]:
            vectors = point["vector"]
            vectors["terms"] = q.SparseVector(**vectors["terms"])
            points.append(q.Point(point["id"], vectors, point["payload"]))
        shard.update(q.UpdateOperation.upsert_points(points))
    body = json.loads(export_query("qdrant", query, k=6, boosts=BOOSTS))

    def prefetch(search):
        if "query" not in search:
            (condition,) = search["filter"]["must"]
            has_id = q.HasIdCondition(set(condition["has_id"]))
            return q.Prefetch(limit=search["limit"], filter=q.Filter(must=[has_id]))
        vector = search["query"]
        if isinstance(vector, dict):
            vector = q.SparseVector(**vector)
        nearest = q.Query.Nearest(vector, using=search["using"])
        return q.Prefetch(limit=search["limit"], query=nearest)

    def expression(value):
        if isinstance(value, str):
            return q.Expression.Variable(value)
        if isinstance(value, float):
            return q.Expression.Constant(value)
        if "mult" in value:
            return q.Expression.Mult([expression(factor) for factor in value["mult"]])
        return q.Expression.Condition(q.HasIdCondition(set(value["has_id"])))

    formula = [expression(addend) for addend in body["query"]["formula"]["sum"]]
    request = q.QueryRequest(
        limit=body["limit"],
        prefetches=[prefetch(search) for search in body["prefetch"]],
        query=q.Formula(q.Expression.Sum(formula), defaults=body["query"]["defaults"]),
    )
    points = shard.query(request)
    shard.close()
    assert_allclose(
        [point.score for point in points], np.sort(expected)[::-1][:6], atol=1e-5
    )
    assert_allclose(
        expected[[point.id for point in points]],
        np.sort(expected)[::-1][:6],
        atol=1e-5,
    )


def test_json_has_the_boosts(exported):
    query, _, _ = exported
    asked = json.loads(export_query("jsonl", query, boosts=BOOSTS))
    assert asked["boosts"] == {"3": 0.75, "7": 0.75, "5": 0.5}


def test_sqlite_adds_boosts_to_its_scores():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE documents USING fts5(body)")
    texts = ["a red car", "a blue boat", "a car and a boat", "nothing"]
    for row, text in enumerate(texts):
        db.execute("INSERT INTO documents(rowid, body) VALUES (?, ?)", (row, text))
    terms = [("car", 1.0), ("boat", 0.5)]
    plain = dict(db.execute(full_text_query("sqlite", terms)))
    boosted = dict(
        db.execute(full_text_query("sqlite", terms, boosts={3: 0.5, 0: 0.25}))
    )
    assert boosted == pytest.approx({**plain, 0: plain[0] + 0.25, 3: 0.5})


def test_postgresql_adds_boosts_to_its_scores():
    if PostgreSQL.missing() is not None:
        pytest.skip(
            f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt"
        )
    with PostgreSQL(2) as engine:
        cursor = engine.db.cursor()
        cursor.execute("CREATE TEMP TABLE texts (id text, body tsvector)")
        for name, text in (("o'c", "car"), ("b", "boat"), ("c", "ship")):
            cursor.execute(
                "INSERT INTO texts VALUES (%s, to_tsvector('simple', %s))", (name, text)
            )
        asked = {"table": "texts", "boosts": {"o'c": 0.5, "c": 0.25}}
        cursor.execute(full_text_query("postgresql", [("car", 1.0)], **asked))
        boosted = {name: float(score) for name, score in cursor.fetchall()}
        cursor.execute(full_text_query("postgresql", [("car", 1.0)], table="texts"))
        ((_, plain),) = cursor.fetchall()
    assert boosted == pytest.approx({"o'c": float(plain) + 0.5, "c": 0.25})


def test_elasticsearch_adds_boosts_to_its_scores():
    body = json.loads(
        full_text_query("elasticsearch", [("car", 1.0)], boosts={"a": 2.0, 7: 2.0})
    )
    *_, clause = body["query"]["bool"]["should"]
    assert clause == {
        "constant_score": {"filter": {"terms": {"_id": ["a", "7"]}}, "boost": 2.0}
    }


@pytest.mark.parametrize("boost", [-1.0, np.nan, np.inf])
def test_a_boost_that_is_none_is_refused(boost):
    with pytest.raises(ValueError, match="finite number"):
        export_query("jsonl", [[1.0]], boosts={0: boost})
    with pytest.raises(ValueError, match="finite number"):
        full_text_query("sqlite", [("car", 1.0)], boosts={0: boost})
