"""Queries that are no documents: what is learned from them, measured, and never returned."""

import json
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from commands import TOPICS, bad, good, hdsl, rows_and_labels, texts, told, write_csv
from hdsl import HDSL, Solver, load
from hdsl.evaluate import compare_searches, ranking_quality
from hdsl.text import Queries
from hdsl.triplets import relevance_triplets

N_QUERIES = 30
FIT = ("--text", "body", "--id", "id", "--prior", 8, "--max-iter", 5)
FIT += ("--weights", "tfidf")
TABLES = ("--judgements", "qrels.csv", "--queries", "queries.csv")


def question(k):
    """Return the text of a query: a word of a topic, and one that no document has."""
    words = TOPICS[list(TOPICS)[k % 3]].split()
    return f"{words[k % 8]} please"


def judgements():
    """Return (query, document, grade): every second text of the topic is relevant."""
    return [
        (f"q{k}", f"d{row}", 1 + row % 2)
        for k in range(N_QUERIES)
        for row in range(k % 3, 90, 6)
    ]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a folder with documents, queries, judgements and clicks, entered."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "texts.csv", texts())
    queries = [(f"q{k}", question(k)) for k in range(N_QUERIES)]
    queries.append(("q-without", "nothing of it"))
    write_csv(tmp_path / "queries.csv", queries, ("id", "body"))
    header = ("query", "document", "grade")
    write_csv(tmp_path / "qrels.csv", judgements(), header)
    return tmp_path


def clicks(n_gone=0):
    """Return (query, event, document, clicked): the text of the topic is clicked of two."""
    lines = []
    for event in range(120):
        query = question(event % N_QUERIES)
        right = f"d{event % 3 + 3 * (event % 29)}"
        wrong = f"d{(event + 1) % 3 + 3 * (event % 29)}"
        lines += [(query, event, right, 1), (query, event, wrong, 0)]
    gone = [(question(0), 0, f"gone{k}", 0) for k in range(n_gone)]
    return lines + gone


def test_queries_are_learned_from_and_never_come_back(home):
    result = good("fit", "texts.csv", *FIT, *TABLES)
    assert "1 query of 31 without a relevant row left out" in result.stderr
    assert "judgements of 30 queries" in result.stdout
    assert "6 queries held out" in result.stdout
    assert "nDCG@10" in result.stdout
    assert "queries better" in result.stdout
    collection = load("model.hdsl")
    assert collection.documents.n_rows == 90
    assert collection.queries.n_queries == N_QUERIES
    assert "please" not in collection.feature_names.tolist()
    hits = told("search", "model.hdsl", question(0), "-k", 200)["neighbours"]
    assert len(hits) == 90
    assert {hit["id"] for hit in hits} == {f"d{k}" for k in range(90)}
    good("export", "model.hdsl", "--to", "jsonl", "-o", "index.jsonl")
    assert len((home / "index.jsonl").read_text().splitlines()) == 90
    good("report", "model.hdsl", "-o", "report.html")
    page = (home / "report.html").read_text()
    content = page.partition('id="data"')[2].partition(">")[2].partition("</script>")[0]
    items = json.loads(content)["items"]["texts"]
    assert not any(question(k) in items for k in range(N_QUERIES))
    assert told("info", "model.hdsl")["queries"] == N_QUERIES


def test_a_query_of_the_fit_is_named_by_its_id(home):
    good("fit", "texts.csv", *FIT, *TABLES)
    by_id = told("search", "model.hdsl", "--row", "q3")["neighbours"]
    typed = told("search", "model.hdsl", question(3))["neighbours"]
    assert by_id == typed
    assert told("search", "model.hdsl", "--row", "query:q3")["neighbours"] == typed
    explained = told("explain", "model.hdsl", "--x", "q3", "--y", "d0")
    assert explained == told("explain", "model.hdsl", "--x", question(3), "--y", "d0")
    assert "no document 'q99'" in bad("search", "model.hdsl", "--row", "q99")
    collection = load("model.hdsl")
    numbered = Queries(
        type(collection.documents)(collection.queries.rows.X),
        collection.queries.relevance,
    )
    collection.queries = numbered
    assert collection.search(None, row="query:3") == collection.search(
        None, row="query:3"
    )
    assert not collection.is_query("3")  # the document
    assert not collection.is_query("query:99")


def assert_search(shown, searches, collection, relevant):
    """What is shown is what searches find, and BM25 by the same words."""
    texts = collection.queries.rows.texts[list(relevant)]
    scores = collection.bm25_scores(texts).toarray()
    ranked = np.argsort(-scores, axis=1, kind="stable")
    quality = ranking_quality(ranked[:, :100], list(relevant.values()))
    shown = deepcopy(shown)
    bm25 = [measure.pop("bm25")["mean"] for measure in shown["measures"].values()]
    expected = [quality.ndcg, quality.mrr, quality.recall]
    assert_allclose(bm25, expected, atol=0.02)  # ties may be ranked otherwise
    assert shown == searches.to_dict()


def test_queries_held_out_are_measured_and_not_learned_from(home):
    facts = told("fit", "texts.csv", *FIT, *TABLES)
    assert (facts["rows held out"], facts["queries held out"]) == (0, 6)
    collection = load("model.hdsl")
    queries = collection.queries
    is_known = ~queries.rows.is_new
    known = queries.relevance.of_queries(is_known)
    number = np.cumsum(is_known) - 1
    table = {
        "query": number[known.queries],
        "document": known.documents,
        "grade": known.grades,
    }
    D = collection.documents.X
    judged = relevance_triplets(queries.rows.X[is_known], D, table, random_state=0)
    model = HDSL(prior=8, solver=Solver(max_iter=5), random_state=0).fit(
        judged.X, triplets=judged.triplets, sample_weight=judged.weights
    )
    assert_array_equal(model.atoms_, collection.learned.atoms_)
    held_out = queries.held_out.by_query()
    Q = queries.rows.X[list(held_out)]
    searches = compare_searches(
        collection.scored,
        Q,
        D,
        list(held_out.values()),
        memory=collection.memory,
    )
    assert searches.n_queries == 6
    assert_search(facts["search"], searches, collection, held_out)
    again = told("evaluate", "model.hdsl")
    assert again["search"] == facts["search"]
    assert again["held out"]
    assert again["n"] == 6


def test_new_queries_search_the_documents_in_the_model(home):
    good("fit", "texts.csv", *FIT, *TABLES, "--test", 0)
    assert "held out" in bad("evaluate", "model.hdsl")
    result = good("evaluate", "model.hdsl", *TABLES, "--json")
    assert "30 of 30 queries were learned from" in result.stderr
    facts = json.loads(result.stdout)
    collection = load("model.hdsl")
    searches = compare_searches(
        collection.scored,
        collection.queries.rows.X,
        collection.documents.X,
        list(collection.queries.relevance.by_query().values()),
    )
    judged = collection.queries.relevance.by_query()
    assert_search(facts["search"], searches, collection, judged)
    again = json.loads(
        good("evaluate", "model.hdsl", "texts.csv", *TABLES, "--json").stdout
    )
    assert again["search"]["measures"] == facts["search"]["measures"]
    write_csv(
        home / "new.csv", [("n1", "goal striker"), ("n2", "soil rose")], ("no", "t")
    )
    new = [("n1", "d0"), ("n2", "d2")]
    write_csv(home / "new_qrels.csv", new, ("query", "document"))
    command = ["--judgements", "new_qrels.csv", "--queries", "new.csv"]
    shown = told(
        "evaluate", "model.hdsl", *command, "--query-text", "t", "--query-id", "no"
    )
    assert (shown["n"], shown["held out"]) == (2, True)
    refused = bad("evaluate", "model.hdsl", *command)
    assert "with --query-text and --query-id" in refused


def test_a_model_of_bm25_ranks_by_its_score(home):
    """Before learning, for held-out queries, as `bm25_scores` does."""
    good("fit", "texts.csv", *FIT, *TABLES, "--weights", "bm25")
    collection = load("model.hdsl")
    assert collection.learned.ranking_ == "product"
    assert collection.learned.norm_ is None
    held_out = collection.queries.rows.is_new
    texts_held_out = collection.queries.rows.texts[held_out]
    scores = collection.bm25_scores(texts_held_out).toarray()
    Q = collection.queries.rows.X[held_out]
    products = (Q @ collection.documents.X.T).toarray()
    assert_allclose(
        products / products.max(axis=1, keepdims=True),
        scores / scores.max(axis=1, keepdims=True),
        atol=1e-9,
    )


def test_queries_may_stand_in_the_judgements_as_texts(home):
    by_id = told("fit", "texts.csv", *FIT, *TABLES)
    rows = [(question(int(q[1:])), d, grade) for q, d, grade in judgements()]
    write_csv(home / "typed.csv", rows, ("query", "document", "grade"))
    typed = told("fit", "texts.csv", *FIT, "--judgements", "typed.csv")
    assert typed["queries"] == 24  # some are typed twice
    assert typed["features"] == by_id["features"]
    assert question(3) in load("model.hdsl").queries.rows.texts.tolist()


def test_a_grade_of_qrels_with_an_underline_is_none(home):
    (home / "qrels.txt").write_text("q0 0 d0 1_0\n")
    command = ["--judgements", "qrels.txt", "--queries", "queries.csv"]
    assert "line 1 is not a line of TREC's qrels" in bad(
        "fit", "texts.csv", *FIT, *command
    )


def test_qrels_of_trec_are_the_same_judgements(home):
    by_table = told("fit", "texts.csv", *FIT, *TABLES)
    lines = [f"{q} 0 {d} {grade}" for q, d, grade in judgements()]
    (home / "qrels.txt").write_text("\n".join([*lines, ""]))
    command = ["--judgements", "qrels.txt", "--queries", "queries.csv"]
    by_qrels = told("fit", "texts.csv", *FIT, *command)
    assert by_qrels["search"] == by_table["search"]
    assert by_qrels["strongest pairs"] == by_table["strongest pairs"]
    (home / "qrels.txt").write_text("q0 d1 1\n")
    assert "line 1" in bad("fit", "texts.csv", *FIT, *command)


def test_rows_of_numbers_have_queries_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = rows_and_labels()
    sp.save_npz("X.npz", X[:40])
    sp.save_npz("Q.npz", X[40:])
    lines = [(q, d) for q in range(20) for d in range(40) if y[40 + q] == y[d]]
    write_csv(tmp_path / "qrels.csv", lines, ("query", "document"))
    command = ["--judgements", "qrels.csv", "--queries", "Q.npz"]
    facts = told("fit", "X.npz", *command, "--prior", 8, "--max-iter", 5)
    assert (facts["rows"], facts["queries"], facts["queries held out"]) == (40, 20, 4)
    collection = load("model.hdsl")
    assert collection.queries.rows.X.shape == (20, 12)
    assert_allclose(collection.queries.rows.X.toarray() > 0, X[40:].toarray() > 0)
    assert told("evaluate", "model.hdsl", *command)["n"] == 20
    typed = ["--judgements", "qrels.csv"]
    assert "--queries" in bad("fit", "X.npz", *typed)
    sp.save_npz("Q.npz", sp.csr_array((20, 99)))
    assert "12 features" in hdsl("fit", "X.npz", *command).stderr


# --- clicks ---------------------------------------------------------------------------


def test_anchors_of_clicks_may_be_typed(home):
    header = ("query", "event", "document", "clicked")
    write_csv(home / "clicks.csv", clicks(), header)
    facts = told("fit", "texts.csv", *FIT, "--clicks", "clicks.csv")
    assert (facts["rows"], facts["queries"]) == (90, 24)
    assert facts["search"]["n_queries"] == facts["queries held out"] == 5
    assert facts["triplets"] < 120
    ids = {question(k): f"q{k}" for k in range(N_QUERIES)}
    by_id = [(ids[query], *line) for query, *line in clicks()]
    for anchor in ("anchor", "query"):
        write_csv(home / "clicks.csv", by_id, (anchor, *header[1:]))
        command = ["--clicks", "clicks.csv", "--queries", "queries.csv"]
        assert told("fit", "texts.csv", *FIT, *command)["queries"] == 24
    assert told("evaluate", "model.hdsl", *command)["search"]["n_queries"] == 24


def test_clicks_on_rows_that_are_gone_are_counted(home):
    header = ("query", "event", "document", "clicked")
    write_csv(home / "clicks.csv", clicks(n_gone=3), header)
    command = ["fit", "texts.csv", *FIT, "--clicks", "clicks.csv"]
    result = good(*command)
    assert "'gone0', 'gone1', 'gone2'" in result.stderr
    assert "3 of 243 lines are left out" in result.stderr
    message = bad(*command, "--max-unknown", 0.01)
    assert "3 of 243 lines" in message
    assert "raise --max-unknown" in message


# --- mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--queries", "queries.csv"), "--judgements or --clicks"),
        ((*TABLES, "--max-unknown", 2), "--max-unknown must be a share"),
        ((*TABLES, "--query-id", "no"), "'no'"),
        ((*TABLES, "--clicks", "c.csv"), "one file of judgements"),
        (("--judgements", "qrels.csv", "--queries", "gone.csv"), "gone.csv"),
    ],
)
def test_mistakes_are_named(home, options, message):
    assert message in bad("fit", "texts.csv", *FIT, *options)


def test_one_judged_query_is_too_few(home):
    write_csv(home / "qrels.csv", [("q0", "d0"), ("q0", "d3")], ("query", "document"))
    result = bad("fit", "texts.csv", *FIT, *TABLES)
    assert "at least 2" in result


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("queries", [0, 30], "query beyond the 30"),
        ("documents", [-1, 3], "document beyond the 90"),
        ("grades", [1.0], "grades is of"),
    ],
)
def test_damaged_queries_are_refused(home, name, values, message):
    good("fit", "texts.csv", *FIT, *TABLES)
    collection = load("model.hdsl")
    arrays = collection.queries.to_arrays()
    judged = {
        "queries": np.array([0, 1]),
        "documents": np.array([0, 1]),
        "grades": np.array([1.0, 1.0]),
    }
    judged[name] = np.array(values)
    arrays |= {f"relevance.{key}": value for key, value in judged.items()}
    n_features = collection.scored.n_features
    with pytest.raises(ValueError, match=message):
        Queries.from_arrays(arrays, 90, n_features)


# --- positions ------------------------------------------------------------------------


def test_clicks_beside_what_was_shown_decide(home):
    header = ("query", "event", "document", "clicked")
    write_csv(home / "clicks.csv", clicks(), header)
    command = ["fit", "texts.csv", *FIT, "--clicks", "clicks.csv"]
    plain = told(*command)
    printed = " ".join(good(*command).stdout.split())
    assert "Users click only what an engine shows" in printed
    assert "beside clicked ones" in plain["measure"]
    held_out = load("model.hdsl").queries.clicks
    assert plain["measured on"] == held_out.are_clicked.sum() > 0
    assert (held_out.queries >= 90).all()
    assert told("evaluate", "model.hdsl")["error"] == plain["error"]
    ranked = [(*line, 1 + (k // 2) % 3) for k, line in enumerate(clicks())]
    write_csv(home / "clicks.csv", ranked, (*header, "position"))
    weighted = told(*command)
    positions = load("model.hdsl").queries.clicks.positions
    assert {*positions.tolist()} <= {1.0, 2.0, 3.0}
    assert weighted["triplets"] == plain["triplets"]
    assert told("evaluate", "model.hdsl")["error"] == weighted["error"]
    new = told("evaluate", "model.hdsl", "--clicks", "clicks.csv")
    assert new["comparison"]["n"] > weighted["comparison"]["n"]


def test_queries_without_a_known_word_are_counted(home):
    rows = [(f"q{k}", "unheard" if k % 3 else question(k)) for k in range(N_QUERIES)]
    write_csv(home / "queries.csv", rows, ("id", "body"))
    result = good("fit", "texts.csv", *FIT, *TABLES, "-o", "m.hdsl")
    assert "20 of 30 queries of queries.csv without a known word" in result.stderr
    result = good("evaluate", "m.hdsl", *TABLES)
    assert "20 of 30 queries of queries.csv without a known word" in result.stderr


def test_words_are_weighed_as_judged_queries_find_more(tmp_path, monkeypatch):
    """By BM25 long texts that repeat a word are first; by cosine short ones with it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    fillers = [f"filler{k}" for k in range(300)]
    topics = [f"topic{k}" for k in range(24)]
    rows = []
    for topic in topics:
        rows.append((topic, " ".join([topic] * 4 + [*rng.choice(fillers, 12, False)])))
        rows += [
            (f"{topic}-{k}", " ".join([topic, *rng.choice(fillers, 2)]))
            for k in range(2)
        ]
    write_csv(tmp_path / "texts.csv", rows, ("id", "body"))
    write_csv(tmp_path / "j.csv", [(t, t) for t in topics], ("query", "document"))
    command = ["fit", "texts.csv", "--text", "body", "--id", "id", "--tokens", "words"]
    command += ["--judgements", "j.csv", "--prior", 8, "--max-iter", 2]
    shown = good(*command)
    assert "find more by it" in shown.stderr
    model = load("model.hdsl")
    assert model.words.weights == "bm25"
    assert model.learned.ranking_ == "product"
    assert "find more" not in good(*command, "--weights", "tfidf").stderr
    assert load("model.hdsl").words.weights == "tfidf"
