"""Rows of sparse features and a dense embedding: search, and the doors of scikit-learn."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils import shuffle

import strategies
from hdsl import HDSL, ClassScores, Rows, SimilarityKNeighborsClassifier
from hdsl.rows import split_columns
from hdsl.search import Index, neighbors_by_label, top_k
from hdsl.settings import nested_parameters
from hdsl.triplets.mining import row_keys


@st.composite
def mixed_rows(draw, elements=None):
    """Rows of which some columns are dense, and the same rows as one array."""
    X = draw(strategies.matrices(elements=elements or strategies.INTEGERS))
    cut = draw(st.integers(1, X.shape[1] - 1))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Rows(sp.csr_array(X[:, :cut]), X[:, cut:].astype(dtype)), X


@given(mixed_rows(), st.integers(1, 4), st.booleans())
def test_neighbors_are_those_of_all_products(case, k, exclude_self):
    rows, X = case
    products = X @ X.T
    if exclude_self:
        np.fill_diagonal(products, -np.inf)
    neighbors = top_k(rows, rows, k, exclude_self=exclude_self)
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    for row in range(len(X)):
        size = neighbors.size[row]
        assert_array_equal(neighbors.rows[row, :size], order[row, :size])
        assert_array_equal(
            neighbors.scores[row, :size], products[row, order[row, :size]]
        )


@given(mixed_rows(), st.data())
def test_neighbors_by_label_are_those_of_one_matrix(case, data):
    rows, X = case
    labels = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X)))
    )
    ours = neighbors_by_label(rows, labels, 2, 2)
    expected = neighbors_by_label(sp.csr_array(X), labels, 2, 2)
    for neighbors, other in zip(ours, expected, strict=True):
        assert_array_equal(neighbors.rows, other.rows)
        assert_array_equal(neighbors.scores, other.scores)


def test_equal_rows_come_by_number_in_any_block_and_on_any_number_of_threads(
    monkeypatch,
):
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(5, 33)).astype(np.float32)
    dense = kinds[rng.integers(0, 5, 300)]
    rows = Rows(sp.csr_array((300, 4)), dense)
    whole = top_k(rows, rows, 20, n_jobs=1)
    monkeypatch.setattr("hdsl.search.fill.MIXED_BLOCK", 64)
    monkeypatch.setattr("hdsl.search.fill.BLOCK_PRODUCTS", 640)
    parts = top_k(rows, rows, 20, n_jobs=3)
    assert_array_equal(parts.rows, whole.rows)
    assert_array_equal(parts.scores, whole.scores)
    for scores, numbers in zip(whole.scores, whole.rows, strict=True):
        for score in np.unique(scores):
            assert (np.diff(numbers[scores == score]) > 0).all()


@given(mixed_rows())
def test_equal_rows_have_equal_keys(case):
    rows, X = case
    keys = row_keys(rows)
    is_equal = (keys[:, None] == keys[None]).all(axis=2)
    assert_array_equal(is_equal, (X[:, None] == X[None]).all(axis=2))


@given(mixed_rows(), st.data())
def test_rows_columns_and_blocks_are_those_of_one_matrix(case, data):
    rows, X = case
    chosen = data.draw(st.lists(st.integers(0, len(X) - 1), max_size=5))
    assert rows.shape == X.shape
    assert_allclose(rows[chosen].to_sparse().toarray(), X[chosen], rtol=1e-6)
    again = split_columns(sp.csr_array(X), rows.sparse.shape[1])
    assert_allclose(again.dense, rows.dense)
    assert len(rows) == len(X)
    mask = np.isin(np.arange(len(X)), chosen)
    assert_allclose(rows[mask].to_sparse().toarray(), X[mask], rtol=1e-6)
    assert_allclose(rows[1:].to_sparse().toarray(), X[1:], rtol=1e-6)
    assert_allclose(rows[-1].to_sparse().toarray(), X[-1:], rtol=1e-6)
    stacked = Rows.stack([*rows])
    assert_allclose(stacked.to_sparse().toarray(), X, rtol=1e-6)


def test_queries_and_index_must_both_have_an_embedding():
    rows = Rows(sp.csr_array((2, 3)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="must both be"):
        Index(rows).top_k(np.ones((1, 5)), 1)


# --- scikit-learn ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def labeled():
    """Rows of two classes, whose words and vectors both know the class."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    words = rng.random((60, 20)) < 0.15
    words[np.arange(60), 2 * rng.integers(0, 4, 60) + y] = True
    vectors = rng.normal(size=(60, 5)) + 2.0 * y[:, None]
    return Rows(words.astype(float), vectors.astype(np.float32)), y


def fast(**options):
    return HDSL(**nested_parameters(prior=4, max_iter=2, random_state=0, **options))


def classifier():
    return make_pipeline(fast(), SimilarityKNeighborsClassifier(3))


def test_a_split_has_the_rows_of_its_labels(labeled):
    rows, y = labeled
    train, test, y_train, y_test = train_test_split(rows, y, random_state=0)
    assert isinstance(train, Rows)
    assert (len(train), len(test)) == (45, 15)
    both = np.vstack([train.dense, test.dense])
    order = [int(np.flatnonzero((rows.dense == z).all(axis=1))[0]) for z in both]
    assert_array_equal(y[order], np.concatenate([y_train, y_test]))
    assert_allclose(train.sparse.toarray(), rows[order[:45]].sparse.toarray())
    shuffled, labels = shuffle(rows, y, random_state=0)
    assert shuffled.shape == rows.shape
    assert classifier().fit(train, y_train).score(shuffled, labels) > 0.8


def test_cross_validation_takes_rows(labeled):
    rows, y = labeled
    scores = cross_val_score(classifier(), rows, y, cv=3)
    predicted = cross_val_predict(classifier(), rows, y, cv=3)
    assert scores.mean() == pytest.approx((predicted == y).mean())
    assert scores.mean() > 0.8


def test_a_learning_curve_takes_rows(labeled):
    rows, y = labeled
    sizes, _, scores = learning_curve(
        classifier(),
        rows,
        y,
        cv=2,
        train_sizes=[0.5, 1.0],
        shuffle=True,
        random_state=0,
    )
    assert len(sizes) == len(scores) == 2


def test_a_grid_search_takes_rows(labeled):
    rows, y = labeled
    pipeline = make_pipeline(
        ClassScores(random_state=0), fast(), SimilarityKNeighborsClassifier(3)
    )
    grid = {"hdsl__embedding_weight": [0.0, 1.0]}
    sent = pickle.loads(pickle.dumps(rows))  # as processes of a search get them
    search = GridSearchCV(pipeline, grid, cv=2).fit(sent, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert_array_equal(search.predict(rows), search.best_estimator_.predict(rows))


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("as_tuple", [False, True])
def test_what_returns_rows_returns_Rows_for_any_weight(labeled, weight, as_tuple):
    rows, y = labeled
    if as_tuple:
        rows = (rows.sparse, rows.dense)
    scores = ClassScores(random_state=0)
    model = fast(embedding_weight=weight).fit(rows, y)
    returned = {
        "transform": model.transform(rows),
        "cosine": model.transform(rows, cosine=True),
        "fit_transform": fast(embedding_weight=weight).fit_transform(rows, y),
        "rewrite": model.rewrite(rows),
        "index_rows": model.index_rows(rows),
        "scores": scores.fit_transform(rows, y),
        "seen scores": scores.transform(rows),
    }
    assert {name: type(value) for name, value in returned.items()} == dict.fromkeys(
        returned, Rows
    )
    transformed = returned["transform"].to_sparse()
    products = (transformed @ transformed.T).toarray()
    assert_allclose(products, model.similarity(rows), atol=1e-5)
    of_transform = SimilarityKNeighborsClassifier(3, cosine=False)
    of_transform.fit(returned["transform"], y)
    of_model = SimilarityKNeighborsClassifier(3, similarity=model, cosine=False)
    of_model.fit(rows, y)
    nearest, _ = of_transform.kneighbors(returned["transform"])
    expected, _ = of_model.kneighbors(rows)
    assert_allclose(nearest, expected, atol=1e-5)


def test_rows_whose_embedding_has_no_columns_are_their_features(labeled):
    rows, y = labeled
    bare = Rows(rows.sparse, np.zeros((len(rows), 0)))
    model = fast().fit(bare, y)
    assert model.embedding_width_ == 0
    assert_array_equal(model.similarity(bare), model.similarity(rows.sparse))


def test_half_of_the_rows_is_refused_with_the_way_out(labeled):
    rows, y = labeled
    model = fast(embedding_weight=1.0).fit(rows, y)
    with pytest.raises(ValueError, match=r"features alone \(20 .* hdsl\.Rows\(X, Z\)"):
        model.transform(rows.sparse)
    with pytest.raises(ValueError, match=r"embedding alone \(5 .* hdsl\.Rows\(X, Z\)"):
        model.similarity(rows.dense)
    by_words = Rows(rows.sparse, np.zeros_like(rows.dense))
    assert model.similarity(by_words, rows).shape == (60, 60)
    with pytest.raises(ValueError, match=r"features alone, rows\.sparse"):
        fast().fit(rows.sparse, y).transform(rows)
    scores = ClassScores(with_embedding=True, random_state=0).fit(rows, y)
    with pytest.raises(ValueError, match=r"hdsl\.Rows"):
        scores.transform(rows.sparse)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ((np.eye(3), np.ones(3)), "shape"),
        ((np.ones(3), np.eye(3)), "shape"),
        ((np.eye(3), np.eye(2)), "same rows"),
        ((np.eye(3), sp.csr_array(np.eye(3))), "order"),
    ],
)
def test_blocks_that_are_no_rows_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        Rows(*blocks)


def test_rows_are_no_array_and_have_no_columns_to_select(labeled):
    rows, _ = labeled
    with pytest.raises(TypeError, match="to_sparse"):
        np.asarray(rows)
    with pytest.raises(IndexError, match="columns"):
        rows[:, 0]
    with pytest.raises(IndexError):
        rows[60]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_come_out_where_columns_are_dense(labeled, library):
    pytest.importorskip(library)
    rows, y = labeled
    dense = rows.sparse.toarray()
    for estimator in (fast(), ClassScores(random_state=0)):
        estimator.set_output(transform=library)
        frame = estimator.fit_transform(dense, y)
        assert list(frame.columns) == estimator.get_feature_names_out().tolist()
        with pytest.raises((TypeError, ValueError)):
            estimator.fit_transform(rows, y)
