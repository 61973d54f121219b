"""Learned terms and weights as queries of full-text engines, which give the weighted sums."""

import json
import sqlite3

import pytest
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.engines import PostgreSQL
from hdsl import HDSL
from hdsl.serving import expand_query, full_text_query

TEXTS = ["the car stopped", "an automobile stopped", "a boat sailed", "it's a ship", "car o'clock"]
TERMS = [("car", 1.0), ("o'clock", 0.5), ('quo"te', 0.25), ("back\\slash", 0.1), ("\0", 1.0),
         ("car stopped", 2.0), ("');DROP TABLE documents;--", 0.1), ("boat", -1e-7)]  # fmt: skip


def answers(execute, to, **of):
    """Return the scores of all documents by key."""
    return {key: float(score) for key, score in execute(full_text_query(to, TERMS, **of))}


def test_a_query_grows_by_what_was_learned():
    vectorizer = TfidfVectorizer()
    X = vectorizer.fit_transform(["car", "automobile", "boat"])
    model = HDSL(prior=1.0, max_iter=5).fit(X, triplets=[[0, 1, 2]])
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
    db.executemany('INSERT INTO "my docs"(rowid, title, body) VALUES (?, ?, ?)',
                   [(k, "car", text) for k, text in enumerate(TEXTS)])  # fmt: skip
    found = answers(db.execute, "sqlite", table="my docs")
    assert set(found) == {0, 2, 4}  # not by the title
    (alone,) = db.execute("""SELECT -rank FROM "my docs" WHERE body MATCH 'boat'""").fetchone()
    assert found[2] == pytest.approx(-1e-7 * alone)
    assert list(found) == [0, 4, 2]


def test_postgresql_sums_its_scores_of_terms():
    if PostgreSQL.missing() is not None:
        pytest.skip(f"{PostgreSQL.missing()} is not installed: see requirements/engines.txt")
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
        ((alone,),) = execute("SELECT ts_rank(words, 'boat', 1) FROM texts WHERE id = 2")
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
