"""The memory of judged queries: what it adds, says, takes up, forgets and writes."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose

import reference
from hdsl.relevance import Relevance
from hdsl.rows import Rows
from hdsl.search import top_k
from hdsl.similarity.query_memory import QueryMemory

N_DOCUMENTS = 7


@st.composite
def memories(draw):
    """Return known queries as a dense array, grades of documents and a memory of them."""
    n_queries = draw(st.integers(1, 5))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n_queries, 4)) * (rng.random((n_queries, 4)) < 0.7)
    grades = rng.integers(0, 3, (n_queries, N_DOCUMENTS)).astype(float)
    numbers, documents = np.nonzero(np.ones_like(grades))
    relevance = Relevance(numbers, documents, grades.ravel())
    weight = draw(st.sampled_from([0.0, 0.5, 3.0]))
    power = draw(st.sampled_from([1.0, 2.0, 8.0]))
    density = draw(st.sampled_from([0.0, 0.3]))
    rows = queries
    form = draw(st.sampled_from(["dense", "sparse", "mixed"]))
    if form == "sparse":
        rows = sp.csr_array(queries)
    if form == "mixed":
        rows = Rows(sp.csr_array(queries[:, :2]), queries[:, 2:])
    memory = QueryMemory(
        rows, relevance, N_DOCUMENTS, weight=weight, power=power, density=density
    )
    return rows, queries, grades, memory


def cosines(A, B):
    """Return the cosines of dense rows, 0 for a row without a value."""
    lengths = np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))
    return A @ B.T / np.where(lengths > 0, lengths, 1.0)


def small_memory(**options):
    """Return a memory of two queries: "a" with documents 2 and 3, and "b" with 0."""
    relevance = Relevance(
        np.array([0, 0, 1]), np.array([2, 3, 0]), np.array([1.0, 2.0, 1.0])
    )
    options = {"weight": 2.0, "power": 2.0, "names": ["a", "b"]} | options
    return QueryMemory(np.eye(3)[:2], relevance, 4, **options)


@given(memories(), st.integers(0, 2**16))
def test_scores_are_those_of_the_formula(drawn, seed):
    rows, queries, grades, memory = drawn
    scores = memory.scores(rows).toarray()
    expected = [
        reference.remembered(row, grades, memory.weight, memory.power, memory.density)
        for row in cosines(queries, queries)
    ]
    assert_allclose(scores, expected, atol=1e-12)


@given(memories())
def test_reasons_sum_to_what_is_added(drawn):
    rows, _, _, memory = drawn
    scores = memory.scores(rows).toarray()
    for number in range(len(scores)):
        for document in range(N_DOCUMENTS):
            reasons = memory.reasons(rows[[number]], document)
            total = sum(reason.value for reason in reasons)
            assert_allclose(total, scores[number, document], atol=1e-12)
            values = [reason.value for reason in reasons]
            assert values == sorted(values, reverse=True)


@given(memories(), st.integers(1, N_DOCUMENTS + 2), st.integers(0, 2**16))
def test_a_search_finds_the_largest_sums(drawn, k, seed):
    rows, queries, _, memory = drawn
    index = np.random.default_rng(seed).normal(size=(N_DOCUMENTS, 4))
    found = memory.top_k(queries, index, rows, k)
    sums = queries @ index.T + memory.scores(rows).toarray()
    plain = top_k(queries, index, k)
    assert found.rows.shape == plain.rows.shape
    n_found = min(k, N_DOCUMENTS)
    expected = -np.sort(-sums, axis=1)[:, :n_found]
    assert_allclose(found.scores[:, :n_found], expected, atol=1e-9)
    picked = np.take_along_axis(sums, found.rows[:, :n_found], axis=1)
    assert_allclose(picked, expected, atol=1e-9)


def test_a_reason_reads_as_a_sentence():
    reason = small_memory().reasons(np.array([[4.0, 3.0, 0.0]]), 3)[0]
    assert str(reason) == 'judged relevant for "a", a query like this (0.80)'


def test_an_equal_query_is_remembered():
    memory = small_memory()
    assert memory.scores(np.eye(3)[[1]]).toarray()[0].argmax() == 0
    assert not memory.scores(np.eye(3)[[2]]).nnz


def test_later_judgements_are_as_if_they_had_been_there():
    relevance = Relevance(np.array([0, 0]), np.array([1, 3]), np.array([3.0, 1.0]))
    memory = small_memory().add(np.array([[0.0, 5.0, 5.0]]), relevance, ["c"])
    queries = np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 1]])
    together = Relevance(
        np.array([0, 0, 1, 2, 2]),
        np.array([2, 3, 0, 1, 3]),
        np.array([1.0, 2.0, 1.0, 3.0, 1.0]),
    )
    whole = QueryMemory(
        queries, together, 4, weight=2.0, power=2.0, names=["a", "b", "c"]
    )
    Q = np.random.default_rng(0).random((5, 3))
    assert_allclose(memory.scores(Q).toarray(), whole.scores(Q).toarray())
    assert memory.names.tolist() == whole.names.tolist()


def test_a_new_grade_of_a_known_query_counts():
    grades = Relevance(np.array([0, 0]), np.array([2, 1]), np.array([0.0, 1.0]))
    memory = small_memory().add(np.eye(3)[:1], grades, ["a"])
    judged = zip(memory.relevance.queries, memory.relevance.documents, strict=True)
    assert [*judged] == [(0, 1), (0, 3), (1, 0)]


def test_what_is_forgotten_adds_nothing():
    memory = small_memory().forget("a", 3)
    assert memory.scores(np.eye(3)[:1]).toarray().tolist() == [[0, 0, 2.0, 0]]
    memory.forget("a")
    assert memory.names.tolist() == ["b"]
    assert memory.n_queries == 1
    with pytest.raises(ValueError, match="nothing was forgotten"):
        memory.forget("a", 2)
    with pytest.raises(ValueError, match="Known queries are 'b'"):
        memory.forget("a")
    memory.forget("b")
    assert not memory.scores(np.eye(3)).nnz
    assert memory.top_k(np.eye(3), np.eye(4, 3), np.eye(3), 2).rows[0, 0] == 0


@given(memories())
def test_a_file_gives_the_memory_back(drawn):
    rows, _, _, memory = drawn
    arrays, header = memory.to_arrays()
    again = QueryMemory.from_arrays(arrays, header, rows.shape[1])
    np.testing.assert_array_equal(
        again.scores(rows).toarray(), memory.scores(rows).toarray()
    )
    assert again.names.tolist() == memory.names.tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", -1.0),
        ("weight", float("nan")),
        ("weight", "much"),
        ("density", -1.0),
        ("density", float("inf")),
        ("power", 0.0),
        ("power", float("inf")),
        ("n_documents", 3),
        ("n_documents", -1),
        ("n_documents", 2**70),
    ],
)
def test_a_damaged_header_is_refused(name, value):
    arrays, header = small_memory().to_arrays()
    with pytest.raises(ValueError, match=r".+"):
        QueryMemory.from_arrays(arrays, header | {name: value}, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("relevance.queries", np.array([0, 0, 2])),
        ("relevance.queries", np.array([0, 0, 0])),
        ("relevance.documents", np.array([2, 2, 0])),
        ("relevance.documents", np.array([2, -1, 0])),
        ("relevance.grades", np.array([1.0, np.inf, 1.0])),
        ("relevance.grades", np.array([1.0, 0.0, 1.0])),
        ("relevance.grades", np.array([1.0])),
        ("vectors", np.eye(3)),
        ("vectors", 2 * np.eye(3)[:2]),
        ("vectors", np.full((2, 3), np.nan)),
        ("vectors", np.eye(2)),
        ("names.text", np.frombuffer(b'["a", "a"]', np.uint8)),
        ("names.text", np.frombuffer(b"[]", np.uint8)),
    ],
)
def test_damaged_arrays_are_refused(name, value):
    arrays, header = small_memory().to_arrays()
    assert name in arrays
    with pytest.raises(ValueError, match=r".+"):
        QueryMemory.from_arrays(arrays | {name: value}, header, 3)
    missing = {key: array for key, array in arrays.items() if key != name}
    with pytest.raises(ValueError, match=r".+"):
        QueryMemory.from_arrays(missing, header, 3)


def test_rows_of_another_width_are_refused():
    memory = small_memory()
    with pytest.raises(ValueError, match="have 2 features"):
        memory.scores(np.eye(2))
    with pytest.raises(ValueError, match="of 4 documents"):
        memory.top_k(np.eye(3), np.eye(3), np.eye(3), 2)
    with pytest.raises(ValueError, match="document beyond the 4"):
        memory.add(np.eye(3)[:1], Relevance(*np.array([[0], [4], [1]])))
