"""What a model remembers of judged queries on the command line: shown, and forgotten."""

import json
import re

import numpy as np
import pytest

from commands import bad, good, told, write_csv
from hdsl import load

TOPICS = ["rivers", "engines", "violins", "deserts", "vaccines"]
FIT = ("--text", "body", "--id", "id", "--prior", 16, "--max-iter", 2)
TABLES = ("--judgements", "qrels.csv", "--queries", "queries.csv")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with a model of queries that share few words with their documents."""
    folder = tmp_path_factory.mktemp("judged")
    rng = np.random.default_rng(0)
    words = [f"word{k}" for k in range(60)]

    def text(topic, common, n_words):
        drawn = rng.choice(words, n_words, replace=False).tolist()
        return " ".join([*drawn, *common[topic : topic + 1]])

    said = [f"about{topic}" for topic in TOPICS]
    rows = [
        (f"d{k}", text(k % 5, TOPICS if k % 4 == 0 else [], 12)) for k in range(100)
    ]
    queries = [
        (f"q{k}", f"{said[k % 5]} {TOPICS[k % 5]} {words[k]}") for k in range(40)
    ]
    qrels = [(f"q{k}", f"d{row}") for k in range(40) for row in range(k % 5, 100, 5)]
    write_csv(folder / "texts.csv", rows, ("id", "body"))
    write_csv(folder / "queries.csv", queries, ("id", "body"))
    write_csv(folder / "qrels.csv", qrels, ("query", "document"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        good("fit", "texts.csv", *FIT, *TABLES)
    return folder


@pytest.fixture
def inside(home, monkeypatch):
    monkeypatch.chdir(home)
    return home


def test_a_search_names_the_known_queries(inside):
    collection = load("model.hdsl")
    known = collection.memory.names[0]
    assert collection.memory.weight > 0.0
    hits = told("search", "model.hdsl", known)["neighbours"]
    first = hits[0]["remembered"][0]
    assert first["query"] == known
    assert first["similarity"] == pytest.approx(1.0)
    total = sum(reason["value"] for reason in [*hits[0]["why"], *hits[0]["remembered"]])
    total += hits[0]["more"]["value"]
    assert total == pytest.approx(hits[0]["similarity"])
    shown = good("search", "model.hdsl", known).stdout
    assert f'judged relevant for "{known}", a query like this (1.00)' in shown
    assert (
        "judged relevant" not in good("search", "model.hdsl", known, "--plain").stdout
    )
    assert "judged relevant for" in str(collection.search(known))
    without = good("search", "model.hdsl", known, "--no-memory").stdout
    assert "judged relevant" not in without
    explained = good("explain", "model.hdsl", "--x", known, "--y", hits[0]["id"])
    assert "judged relevant for" in explained.stdout


def test_what_is_remembered_is_told_from_what_generalises(inside):
    facts = told("evaluate", "model.hdsl")["search"]["memory"]
    assert facts["remembered"]["n_queries"] == 8
    assert facts["remembered"]["measures"]["nDCG@10"]["gain"] > 0.1
    assert "memory" not in told("evaluate", "model.hdsl", "--no-memory")["search"]
    shown = good("evaluate", "model.hdsl").stdout
    assert "documents that were judged for known queries" in shown


def test_a_judgement_is_forgotten(inside):
    memory = load("model.hdsl").memory
    known = memory.names[0]
    row = memory.relevance.documents[memory.relevance.queries == 0][0]
    command = ("forget", "model.hdsl", "--query", known, "-o", "less.hdsl")
    result = good(*command, "--document", f"d{row}")
    n_left = int(re.search(r"([\d,]+) judgements", result.stdout)[1].replace(",", ""))
    assert n_left == len(memory.relevance.queries) - 1
    assert len(load("less.hdsl").memory.relevance.queries) == n_left
    good(*command)
    assert known not in load("less.hdsl").memory.names.tolist()
    good("forget", "less.hdsl", "--query", memory.names[1])
    assert load("less.hdsl").memory.n_queries == memory.n_queries - 2
    assert "nothing was forgotten" in bad("forget", "less.hdsl", "--query", known)


def test_queries_for_engines_have_the_boosts(inside):
    collection = load("model.hdsl")
    known = collection.memory.names[0]
    boosts = collection.boosts(known)
    command = ("export", "model.hdsl", "--query", known, "--to")
    asked = json.loads(good(*command, "jsonl").stdout)
    assert asked["boosts"] == {str(row): boost for row, boost in boosts.items()}
    left_out = good(*command, "elasticsearch")
    assert "--best-score" in left_out.stderr
    assert "constant_score" not in left_out.stdout
    body = json.loads(good(*command, "elasticsearch", "--best-score", 20).stdout)
    clauses = body["query"]["bool"]["should"]
    boosted = [c["constant_score"] for c in clauses if "constant_score" in c]
    first = collection.documents.ids[next(iter(boosts))]
    assert first in boosted[0]["filter"]["terms"]["_id"]
    scaled = collection.boosts(known, best_score=20.0)
    assert boosted[0]["boost"] == pytest.approx(next(iter(scaled.values())))
    assert "--best-score" in good(*command, "sqlite").stderr


def test_new_documents_have_no_memory(inside):
    collection = load("model.hdsl")
    documents = collection.documents
    collection.documents = type(documents)(documents.X[:10])
    assert collection.memory is None
    assert not collection.search("rivers", 3)[0]["remembered"]
