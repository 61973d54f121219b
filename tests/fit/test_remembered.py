"""A fit to judged queries or clicks remembers them, in `memory_`."""

import numpy as np
import pytest

import hdsl
from hdsl import HDSL, Mining, Solver
from hdsl.evaluate import compare_clicks
from hdsl.evaluate.comparisons import checked_rows
from hdsl.settings import nested_parameters
from hdsl.triplets import choice_triplets, relevance_triplets

N_TOPICS = 5


def judged_topics(n_queries=30, n_documents=80, seed=0, names=True):
    """Return judgements of queries, which share few words with documents of their topic."""
    rng = np.random.default_rng(seed)
    of_queries = rng.integers(N_TOPICS, size=n_queries)
    of_documents = np.arange(n_documents) % N_TOPICS
    Q = 0.3 * rng.random((n_queries, 10)) + np.eye(10)[of_queries]
    D = rng.random((n_documents, 10)) + 0.2 * np.eye(10)[of_documents]
    queries, documents = np.nonzero(of_queries[:, None] == of_documents[None, :])
    ids = None
    table = {"query": queries, "document": documents}
    if names:
        ids = [f"q{k}" for k in range(n_queries)]
        table["query"] = [ids[query] for query in queries]
    return relevance_triplets(
        Q, D, table, grade=None, query_ids=ids, random_state=0, n_others=3
    )


def fitted(judged, **options):
    options = {"prior": 16.0, "max_iter": 2, "random_state": 0, "n_jobs": 1} | options
    return HDSL(**nested_parameters(**options)).fit(judged)


def test_judged_queries_are_remembered():
    judged = judged_topics()
    model = fitted(judged)
    memory = model.memory_
    assert memory.weight > 0.0
    assert memory.names.tolist() == [f"q{k}" for k in range(30)]
    assert memory.n_documents == 80
    query = judged.X[[80]]
    rows = memory.top_k(
        model.rewrite(query, cosine=True),
        model.index_rows(judged.X[:80], cosine=True),
        query,
        5,
    ).rows[0]
    relevant = set(judged.grades.documents[judged.grades.queries == 80].tolist())
    assert set(rows.tolist()) <= relevant
    assert memory.reasons(query, int(rows[0]))[0].query == "q0"


@pytest.mark.parametrize("goal", ["neighbors", "comparisons"])
def test_other_goals_remember_nothing(goal):
    assert fitted(judged_topics(), goal=goal).memory_ is None


def test_labels_leave_no_memory():
    X = np.random.default_rng(0).random((20, 4))
    model = HDSL(
        prior=4.0, solver=Solver(max_iter=1), mining=Mining(n_targets=1, n_impostors=1)
    )
    assert model.fit(X, np.arange(20) % 2).memory_ is None


def test_a_file_has_the_memory(tmp_path):
    judged = judged_topics()
    model = fitted(judged)
    model.memory_.forget("q3")
    model.save(tmp_path / "model.hdsl")
    again = hdsl.load(tmp_path / "model.hdsl")
    X = judged.X[80:]
    np.testing.assert_array_equal(
        again.memory_.scores(X).toarray(), model.memory_.scores(X).toarray()
    )
    assert "q3" not in again.memory_.names.tolist()
    assert again.memory_.choice["chosen"].sum() == 1


def test_partial_fit_adds_judgements_with_the_same_weight():
    model = fitted(judged_topics(n_queries=20))
    before = model.memory_
    model.partial_fit(judged_topics())
    assert before.n_queries == 20
    assert model.memory_.n_queries == 30
    assert model.memory_.weight == before.weight
    fewer = judged_topics(n_documents=60)
    with pytest.raises(ValueError, match="pass all documents in their order"):
        model.partial_fit(fewer)
    more = judged_topics(n_documents=100)
    assert model.partial_fit(more).memory_.n_documents == 100


def test_the_same_judgements_again_change_nothing():
    judged = judged_topics(names=False)
    model = fitted(judged)
    scores = model.memory_.scores(judged.X[80:]).toarray()
    model.partial_fit(judged)
    np.testing.assert_allclose(model.memory_.scores(judged.X[80:]).toarray(), scores)


def test_an_embedding_is_compared_too(tmp_path):
    judged = judged_topics()
    rng = np.random.default_rng(0)
    Z = rng.random((110, 3)).astype(np.float32)
    for weight in (0.0, 2.0):
        X = (judged.X, Z)
        model = HDSL(
            prior=16.0,
            solver=Solver(max_iter=1),
            embedding_weight=weight,
            random_state=0,
            n_jobs=1,
        ).fit(X, triplets=judged)
        model.save(tmp_path / "model.hdsl")
        again = hdsl.load(tmp_path / "model.hdsl").memory_
        rows = checked_rows(model, X)
        np.testing.assert_array_equal(
            again.scores(rows).toarray(), model.memory_.scores(rows).toarray()
        )


def test_clicks_are_remembered():
    rng = np.random.default_rng(0)
    n_documents = 40
    of_documents = np.arange(n_documents) % N_TOPICS
    of_queries = np.arange(25) % N_TOPICS
    X = np.vstack(
        [
            rng.random((n_documents, 10)) + 0.2 * np.eye(10)[of_documents],
            0.3 * rng.random((25, 10)) + np.eye(10)[of_queries],
        ]
    )
    log = []
    for query in range(25):
        for _ in range(6):
            shown = rng.choice(n_documents, 8, replace=False).tolist()
            clicked = [d for d in shown if of_documents[d] == of_queries[query]]
            if 0 < len(clicked) < 8:
                log.append((f"text {query}", shown, clicked))
    clicks = choice_triplets(
        log, ids=list(range(n_documents)), queries=[f"text {k}" for k in range(25)]
    )
    model = HDSL(prior=16.0, solver=Solver(max_iter=2), random_state=0, n_jobs=1)
    memory = model.fit(X, triplets=clicks).memory_
    assert memory.weight > 0.0
    assert memory.names[0] == "text 0"
    assert (memory.relevance.grades <= 1.0).all()
    is_right = (
        of_queries[memory.relevance.queries]
        == (of_documents[memory.relevance.documents])
    )
    assert is_right.all()
    plain = compare_clicks(model, X, clicks).after.share
    assert compare_clicks(model, X, clicks, memory=memory).after.share < plain
