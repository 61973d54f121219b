"""What is learned inside an embedding, at every door: W = VᵀV beside words."""

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl
from hdsl import HDSL, Rows, SimilarityKNeighborsClassifier, Solver
from hdsl.evaluate import (
    compare_errors,
    compare_triplets,
    knn_error,
    triplet_accuracy,
)
from hdsl.search import above, top_k
from hdsl.serving import export_query, export_rows
from hdsl.text import Collection, Documents, TextEncoder, Words

N_FEATURES = 12
WIDTH = 4


def make_rows(n_rows=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    words = (rng.random((n_rows, N_FEATURES)) < 0.2).astype(float)
    words[np.arange(n_rows), 2 * rng.integers(0, 3, n_rows) + y] = 1.0
    vectors = rng.normal(size=(n_rows, WIDTH)) + y[:, None]
    return Rows(words, vectors.astype(np.float32)), y


ROWS, Y = make_rows()
QUERIES, _ = make_rows(n_rows=3, seed=1)


@pytest.fixture(scope="module")
def fitted():
    """A model for each weight of the embedding, with words learned."""
    return {
        weight: HDSL(
            prior=2.0,
            solver=Solver(max_iter=3),
            random_state=0,
            embedding_weight=weight,
        ).fit(ROWS, Y)
        for weight in (0.0, 0.5)
    }


def with_directions(model, V):
    """Return the same model with W = VᵀV learned inside the embedding."""
    learned = hdsl.saving.from_arrays(*hdsl.saving.to_arrays(model))
    learned.directions_ = V
    return learned


def of_formula(model, V, X, Y):
    """Return prior·(⟨x, x'⟩ + w⟨z, z'⟩) + xᵀMx' + zᵀWz' of rows at unit length."""
    blocks = []
    for rows in (X, Y):
        x = rows.sparse.toarray()
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        z = rows.dense.astype(float)
        blocks.append((x, z / np.linalg.norm(z, axis=1, keepdims=True)))
    (x, z), (x_other, z_other) = blocks
    M = model.matrix().toarray()[:N_FEATURES, :N_FEATURES]
    words = x @ (model.prior_ * np.eye(N_FEATURES) + M) @ x_other.T
    w = model.embedding_weight_
    return words + z @ (model.prior_ * w * np.eye(WIDTH) + V.T @ V) @ z_other.T


def parsed(to, text):
    """Return the words and the vector of one document or query of an engine's form."""
    if to == "pgvector":
        sparse, dense = re.findall(r"'?(\{[^}]*\}/\d+|\[[^\]]*\])'?", text)[:2]
        words = np.zeros(N_FEATURES)
        for entry in filter(None, sparse[1 : sparse.index("}")].split(",")):
            term, value = entry.split(":")
            words[int(term) - 1] = float(value)
        return words, np.array(json.loads(dense))
    vectors = json.loads(text)
    if to == "qdrant":
        if "prefetch" in vectors:
            terms, meaning = (part["query"] for part in vectors["prefetch"])
        else:
            terms = vectors["vector"]["terms"]
            meaning = vectors["vector"]["meaning"]
        vectors = terms | {"meaning": meaning}
    words = np.zeros(N_FEATURES)
    words[vectors["indices"]] = vectors["values"]
    return words, np.array(vectors["meaning"])


def exported_documents(to, index):
    """Return the words and the vector of each document of an export."""
    text = "".join(export_rows(to, index))
    if to == "pgvector":
        lines = [line for line in text.splitlines() if re.search(r"\{.*\}/\d+", line)]
    elif to == "qdrant":
        points = [json.loads(line)["points"] for line in text.splitlines()]
        lines = [json.dumps(point) for block in points for point in block]
    else:
        lines = text.splitlines()
    return [parsed(to, line) for line in lines]


vectors = st.integers(1, 3).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(-2, 2, width=32), min_size=WIDTH, max_size=WIDTH),
        min_size=n,
        max_size=n,
    )
)


@given(
    vectors.map(np.array),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
    st.sampled_from(["jsonl", "qdrant", "pgvector"]),
)
@settings(max_examples=25)
def test_an_exported_query_times_an_exported_document_is_S(
    fitted, V, weight, cosine, to
):
    model = with_directions(fitted[weight], V)
    expected = of_formula(model, V, QUERIES, ROWS)
    if cosine:
        lengths = [
            np.sqrt(np.diag(of_formula(model, V, rows, rows)))
            for rows in (QUERIES, ROWS)
        ]
        expected = expected / np.outer(*lengths)
    assert_allclose(model.similarity(QUERIES, ROWS, cosine=cosine), expected, atol=1e-5)
    documents = exported_documents(to, model.index_rows(ROWS, cosine=cosine))
    for query, scores in zip(QUERIES, expected, strict=True):
        rewritten = model.rewrite(query, cosine=cosine)
        words, vector = parsed(to, export_query(to, rewritten))
        products = [words @ w + vector @ v for w, v in documents]
        assert_allclose(products, scores, rtol=1e-4, atol=1e-4)


def test_documents_are_what_they_were_before_anything_was_learned(fitted):
    before = fitted[0.5].index_rows(ROWS)
    after = with_directions(fitted[0.5], 3.0 * np.eye(WIDTH)).index_rows(ROWS)
    assert_array_equal(after.sparse.toarray(), before.sparse.toarray())
    assert_array_equal(after.dense, before.dense)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_searches_neighbors_and_transform_compare_by_S(fitted, weight, tmp_path):
    V = np.random.default_rng(2).normal(size=(2, WIDTH))
    model = with_directions(fitted[weight], V)
    expected = of_formula(model, V, QUERIES, ROWS)
    transformed = model.transform(QUERIES), model.transform(ROWS)
    products = (transformed[0].to_sparse() @ transformed[1].to_sparse().T).toarray()
    assert_allclose(products, expected, atol=1e-5)
    assert len(model.get_feature_names_out()) == transformed[0].shape[1]
    best = np.sort(expected, axis=1)[:, ::-1][:, :3]
    queries, index = model.rewrite(QUERIES), model.index_rows(ROWS)
    assert_allclose(top_k(queries, index, 3).scores, best, atol=1e-5)
    threshold = float(best[0, -1]) - 1e-3
    assert above(queries, index, threshold).nnz == (expected >= threshold).sum()
    classifier = SimilarityKNeighborsClassifier(3, similarity=model, cosine=False)
    similarities, _ = classifier.fit(ROWS, Y).kneighbors(QUERIES)
    assert_allclose(similarities, best, atol=1e-5)
    model.save(tmp_path / "model.hdsl")
    loaded = hdsl.load(tmp_path / "model.hdsl")
    assert_array_equal(loaded.similarity(QUERIES), model.similarity(QUERIES))


class Vectors:
    """An encoder of texts that are numbers of rows of both blocks."""

    def encode(self, texts):
        numbers = [sum(map(ord, text)) % len(ROWS) for text in texts]
        return ROWS.dense[numbers]


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_collection_searches_by_what_is_learned_inside_the_embedding(
    weight, tmp_path
):
    texts = np.array([f"{'ab'[k % 2]}{k % 5} c{k % 7}" for k in range(40)], object)
    words = Words(min_df=1).fit(texts)
    encoder = TextEncoder.of(Vectors())
    rows = Rows(words.transform(texts), encoder.encode(texts))
    model = HDSL(
        prior=2.0, solver=Solver(max_iter=2), random_state=0, embedding_weight=weight
    )
    model.fit(rows, Y)
    model.directions_ = np.random.default_rng(2).normal(size=(2, WIDTH))
    collection = Collection(model, words, Documents(rows, Y, texts), encoder=encoder)
    hits = collection.search(texts[4], k=4)
    expected = model.similarity(rows[4], rows, cosine=True)[0]
    assert_allclose(
        [hit["similarity"] for hit in hits], np.sort(expected)[::-1][:4], atol=1e-5
    )
    assert any("meaning, learned" in str(hit["why"]) for hit in hits)
    hdsl.save(collection, tmp_path / "model.hdsl")
    loaded = hdsl.load(tmp_path / "model.hdsl")
    again = loaded.search(None, row=4, k=3)
    others = np.delete(expected, 4)
    assert_allclose(
        [hit["similarity"] for hit in again], np.sort(others)[::-1][:3], atol=1e-5
    )


def test_measures_see_what_is_learned_and_the_plain_cosine_does_not(fitted):
    model = with_directions(fitted[0.5], 2.0 * np.eye(WIDTH)[:2])
    plain = dataclasses.replace(
        model.similarity_,
        atoms=np.empty((0, 3), dtype=int),
        weights=np.empty(0),
        directions=None,
    )
    rng = np.random.default_rng(0)
    triplets = np.array([rng.permutation(len(ROWS))[:3] for _ in range(200)])
    compared = compare_triplets(model, ROWS, triplets, cosine=True)
    before, after = (
        triplet_accuracy(similarity, ROWS, triplets, cosine=True)
        for similarity in (plain, model)
    )
    assert compared.before.share == pytest.approx(1.0 - before)
    assert compared.after.share == pytest.approx(1.0 - after)
    errors = compare_errors(model, ROWS[:30], Y[:30], ROWS[30:], Y[30:], cosine=True)
    for measured, similarity in ((errors.before, plain), (errors.after, model)):
        expected = knn_error(
            similarity, ROWS[:30], Y[:30], ROWS[30:], Y[30:], cosine=True
        )
        assert measured.share == pytest.approx(expected)
    assert before != after
