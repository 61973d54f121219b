"""Classification by nearest neighbors: the vote, the scikit-learn contract, graphs."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

import reference
from hdsl import HDSL, Mining, Solver, search
from hdsl.neighbors import SimilarityKNeighborsClassifier, knn_predict, knn_votes
from hdsl.similarity import FixedPart, Similarity
from sklearn_checks import every_check
from small_fits import labelled_counts
from strategies import INTEGERS, matrices, models

X, Y = labelled_counts()
X[1::20] = X[1]  # some rows are equal
Y = np.array(["a", "b", "c"])[Y]


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=5.0, prior=0.3, solver=Solver(max_iter=40), random_state=0).fit(
        X, Y
    )


# --- scikit-learn's own checks --------------------------------------------------------


@every_check(SimilarityKNeighborsClassifier(5, weights="similarity", n_jobs=2))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- the vote -------------------------------------------------------------------------


@st.composite
def votes(draw):
    """Neighbours of a few queries with falling scores, often equal or negative, and classes."""
    n_rows = draw(st.integers(1, 9))
    n_classes = draw(st.integers(1, 4))
    m = draw(st.integers(0, 5))
    k = draw(st.integers(1, n_rows))
    codes = draw(
        st.lists(st.integers(0, n_classes - 1), min_size=n_rows, max_size=n_rows)
    )
    rows = [draw(st.permutations(range(n_rows)))[:k] for _ in range(m)]
    # Powers of two: the sums of weights are exact, and so are ties.
    score = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0])
    scores = [
        sorted(draw(st.lists(score, min_size=k, max_size=k)))[::-1] for _ in range(m)
    ]
    shape = (m, k)
    return (
        np.array(rows, dtype=np.int64).reshape(shape),
        np.array(scores, dtype=float).reshape(shape),
        np.array(codes),
        n_classes,
    )


@pytest.mark.parametrize("weights", ["uniform", "similarity"])
@given(case=votes())
def test_vote(weights, case):
    rows, scores, codes, n_classes = case
    shares = knn_votes(*case, weights)
    winners = knn_predict(*case, weights)
    assert shares.shape == (len(rows), n_classes)
    weigh = {"uniform": np.ones_like, "similarity": lambda s: np.maximum(s, 0)}[weights]
    for r in range(len(rows)):
        expected, winner = reference.vote(
            codes[rows[r]].tolist(), weigh(scores[r]).tolist()
        )
        assert winners[r] == winner
        dense = [expected.get(c, 0.0) for c in range(n_classes)]
        assert_allclose(shares[r], dense, rtol=1e-14)


# --- the classifier -------------------------------------------------------------------


@given(matrices(elements=INTEGERS), st.data())
def test_predictions_are_those_of_dense_similarities(X, data):
    """Whatever the model, prior and input: neighbors by the whole matrix, then a vote."""
    n, d = X.shape
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    atoms, weights = data.draw(models(d))
    weights = np.full(len(weights), 0.25)  # no rounding, so that ties are true ones
    fixed = (FixedPart("prior", data.draw(st.sampled_from([0.0, 0.5]))),)
    similarity = Similarity(atoms, weights, 4.0, fixed, d)
    S = X @ reference.similarity_matrix(similarity) @ X.T
    k = data.draw(st.integers(1, n))
    form = data.draw(st.sampled_from([np.asarray, sp.csr_array]))
    knn = SimilarityKNeighborsClassifier(k, similarity=similarity, cosine=False)
    knn.fit(form(X), y)
    scores, rows = reference.top_k(S, np.eye(n), k)
    assert_array_equal(knn.kneighbors(form(X))[0], scores)
    assert_array_equal(knn.kneighbors(form(X), return_similarity=False), rows)
    expected = [reference.vote(y[near].tolist(), [1.0] * k)[1] for near in rows]
    assert knn.predict(form(X)).tolist() == expected


def test_default_is_the_dot_product():
    """Among rows of equal length the most similar are the closest."""
    unit = normalize(np.random.default_rng(0).normal(size=(60, 5)))
    ours = SimilarityKNeighborsClassifier(5).fit(unit, Y)
    theirs = KNeighborsClassifier(5).fit(unit, Y)
    distances, _ = theirs.kneighbors(unit)
    assert_allclose(ours.kneighbors(unit)[0], 1.0 - distances**2 / 2.0, atol=1e-9)


@pytest.mark.parametrize(
    ("form", "prior"),
    [(np.asarray, 0.0), (np.asarray, 0.3), (sp.csr_matrix, 0.3), (sp.csr_array, 0.0)],
)
def test_model_as_parameter_or_before_it_in_a_pipeline(form, prior):
    model = HDSL(
        scale=50.0,
        prior=prior,
        mining=Mining(n_targets=3),
        solver=Solver(max_iter=40),
        random_state=0,
    )
    pipeline = make_pipeline(model, SimilarityKNeighborsClassifier(3)).fit(form(X), Y)
    knn = SimilarityKNeighborsClassifier(3, similarity=model, cosine=False).fit(
        form(X), Y
    )
    transformed = model.transform(form(X))
    assert_allclose(knn.kneighbors(form(X))[0], pipeline[-1].kneighbors(transformed)[0])
    assert_array_equal(knn.predict(form(X)), pipeline.predict(form(X)))
    plain = SimilarityKNeighborsClassifier(3).fit(normalize(X), Y)
    assert knn.score(form(X), Y) > plain.score(normalize(X), Y) + 0.05


def test_forms_of_a_similarity(model):
    """An estimator, its plain value and a frozen estimator are the same similarity."""
    expected = SimilarityKNeighborsClassifier(similarity=model).fit(X, Y).kneighbors(X)
    for similarity in (model.similarity_, FrozenEstimator(model)):
        found = (
            SimilarityKNeighborsClassifier(similarity=similarity)
            .fit(X, Y)
            .kneighbors(X)
        )
        assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["model", "value"])
def test_grid_search_with_a_fitted_similarity(model, form):
    similarity = {"model": model, "value": model.similarity_}[form]
    knn = SimilarityKNeighborsClassifier(similarity=similarity)
    grid = {"n_neighbors": [1, 3], "weights": ["uniform", "similarity"]}
    found = GridSearchCV(knn, grid, cv=2, error_score="raise").fit(sp.csr_array(X), Y)
    assert found.best_score_ > 0.6  # a guess has 1/3
    if form == "model":
        assert found.best_estimator_.similarity is model
    unfitted = clone(SimilarityKNeighborsClassifier(similarity=clone(model)))
    with pytest.raises(NotFittedError, match="is not fitted"):
        unfitted.fit(X, Y)


@pytest.mark.parametrize("cosine", [False, True])
def test_a_model_that_is_fitted_again_changes_nothing_until_the_next_fit(cosine):
    """The fitted rows and the queries are compared by the same model."""
    model = HDSL(scale=1.0, prior=0.0, mining=Mining(n_targets=1, n_impostors=1)).fit(
        X, Y
    )
    parameters = {"similarity": model, "cosine": cosine}
    knn = SimilarityKNeighborsClassifier(2, **parameters).fit(X, Y)
    expected = knn.kneighbors(X)
    distances = knn.kneighbors_graph(mode="distance").toarray()
    model.set_params(scale=50.0, prior=7.0).fit(X, Y[::-1])
    knn.set_params(cosine=not cosine)
    assert_array_equal(knn.kneighbors(X), expected)
    assert_array_equal(knn.kneighbors_graph(mode="distance").toarray(), distances)
    fresh = SimilarityKNeighborsClassifier(2, **parameters).fit(X, Y)
    knn.set_params(cosine=cosine).fit(X, Y)
    assert_array_equal(knn.kneighbors(X), fresh.kneighbors(X))


def test_float32_is_searched_in_float64(model):
    tenths = (X / 10).astype(np.float32)
    for form in (np.asarray, sp.csr_array):
        for similarity in (None, model):
            knn = SimilarityKNeighborsClassifier(similarity=similarity)
            given = form(tenths), form(tenths.astype(float))
            assert_array_equal(*(knn.fit(rows, Y).kneighbors(rows) for rows in given))


def test_fitted_rows_are_classified_by_the_others():
    knn = SimilarityKNeighborsClassifier(3).fit(X, Y)
    rows = knn.kneighbors(return_similarity=False)
    assert not (rows == np.arange(len(X))[:, None]).any()
    assert_array_equal(rows, reference.top_k(X, X, 3, exclude_self=True)[1])
    left_out = [
        SimilarityKNeighborsClassifier(3)
        .fit(np.delete(X, r, axis=0), np.delete(Y, r))
        .predict(X[r : r + 1])[0]
        for r in range(len(X))
    ]
    assert_array_equal(knn.predict(None), left_out)
    assert knn.score(None, Y) == np.mean(knn.predict(None) == Y)


OF_SEVEN_COLUMNS = Similarity(
    np.array([[0, 1, 1]]), np.ones(1), 1.0, (FixedPart("prior", 0.0),), 7
)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"weights": "distance"}, "weights"),
        ({"similarity": "cosine"}, "rewrite"),
        ({"similarity": OF_SEVEN_COLUMNS}, "12 features"),
    ],
)
def test_messages_of_fit(parameters, message):
    with pytest.raises(ValueError, match=message):
        SimilarityKNeighborsClassifier(**parameters).fit(X, Y)


def test_more_neighbors_than_rows():
    knn = SimilarityKNeighborsClassifier(4).fit(X[:4], Y[:4])
    assert knn.kneighbors(X)[1].shape == (60, 4)
    with pytest.raises(
        ValueError, match=r"n_neighbors = 4, .* n_samples = 4: at most 3 others"
    ):
        knn.kneighbors()
    with pytest.raises(ValueError, match=r"n_neighbors = 5, .* at most 4 can be found"):
        knn.kneighbors(X, n_neighbors=5)


# --- graphs ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_graph_holds_the_neighbors(form, model):
    knn = SimilarityKNeighborsClassifier(similarity=model, cosine=False)
    knn.fit(form(X), Y)
    S = model.similarity(X)
    distance = np.sqrt(np.maximum(np.diag(S)[:, None] + np.diag(S) - 2 * S, 0))
    rows = knn.kneighbors(n_neighbors=6, return_similarity=False)
    for mode, matrix in {
        "connectivity": np.ones_like(S),
        "similarity": S,
        "distance": distance,
    }.items():
        graph = knn.kneighbors_graph(n_neighbors=6, mode=mode)
        assert graph.format == "csr"
        assert graph.shape == (60, 60)
        assert (np.diff(graph.indptr) == 6).all()
        indices = graph.indices.reshape(60, 6)
        assert_array_equal(np.sort(indices), np.sort(rows))
        # The root of a difference of rounding size is as large as 1e-7 for equal rows.
        values = np.take_along_axis(matrix, indices, axis=1)
        assert_allclose(graph.data.reshape(60, 6), values, rtol=1e-9, atol=1e-6)
    assert (np.diff(graph.data.reshape(60, 6), axis=1) >= 0).all()
    with pytest.raises(
        ValueError, match="'mode' parameter of kneighbors_graph must be one of"
    ):
        knn.kneighbors_graph(mode="affinity")


# scikit-learn 1.6 sets the diagonal inside DBSCAN, and then finds its own rows not
# sorted.
@pytest.mark.filterwarnings("ignore:Precomputed sparse input was not sorted")
def test_clustering_on_the_graph():
    """Of three groups; its rows are sorted as they should be, or scikit-learn would warn."""
    centers = np.repeat([0.0, 2.0, 4.0], 30)
    angles = centers + np.random.default_rng(0).uniform(-0.4, 0.4, size=90)
    unit = np.column_stack([np.cos(angles), np.sin(angles)])
    knn = SimilarityKNeighborsClassifier(20).fit(unit, centers)
    graph = knn.kneighbors_graph(mode="distance")
    found = DBSCAN(eps=0.3, metric="precomputed").fit_predict(graph)
    assert (
        len(set(zip(centers.tolist(), found.tolist(), strict=True)))
        == len(set(found))
        == 3
    )


def test_columns_in_another_order_than_the_model_learned_are_refused():
    frame = pd.DataFrame(X.toarray() if sp.issparse(X) else X).rename(
        columns="w{}".format
    )
    model = HDSL(prior=1.0, solver=Solver(max_iter=2), random_state=0).fit(frame, Y)
    SimilarityKNeighborsClassifier(similarity=model).fit(frame, Y)
    with pytest.raises(ValueError, match="order"):
        SimilarityKNeighborsClassifier(similarity=model).fit(
            frame[frame.columns[::-1]], Y
        )


def test_places_without_a_row_do_not_vote():
    found = search.top_k([[1.0, 0]], [[1.0, 0], [0, 1]], 5)
    codes = np.array([0, 1])
    assert knn_votes(found.rows, found.scores, codes, 2).tolist() == [[0.5, 0.5]]
    assert knn_predict(found.rows, found.scores, codes, 2).tolist() == [0]


def test_predicted_sets_of_0_and_1_are_sets():
    """Not rows of a matrix of 0 and 1, which lists of as many would be."""
    knn = SimilarityKNeighborsClassifier(1).fit(np.eye(3), [[0, 1], [2], [0, 1, 2]])
    assert knn.score(np.eye(3)[[0, 0]].tolist(), [[0, 1], [2]]) == 0.5
    assert knn.score(np.eye(3)[[0, 0]], [(0, 1), (0, 1)]) == 1.0
