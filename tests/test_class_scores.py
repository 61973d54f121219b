"""Class scores: rows are scored by classifiers that have not seen them, beside the text."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

import hdsl
from hdsl import HDSL, ClassScores, SimilarityKNeighborsClassifier, Solver
from hdsl.class_scores import training
from sklearn_checks import every_check
from small_fits import dense

# Classes and trainings are small.
pytestmark = pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")


@every_check(ClassScores())
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_rows(n_classes=3, n_rows=60, d=12):
    """Sparse rows, each with more of the feature of its class, and labels."""
    rng = np.random.default_rng(0)
    codes = np.arange(n_rows) % n_classes
    X = rng.random((n_rows, d)) * (rng.random((n_rows, d)) < 0.5)
    X[np.arange(n_rows), codes] += 1.0
    return sp.csr_array(X), np.array(["apple", "pear", "plum", "quince"])[codes]


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the rows it has seen by heart: probability 1 for their class, equal ones elsewhere."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        return self

    def predict_proba(self, X):
        found = [self.seen_.get(row.tobytes()) for row in X]
        proba = np.array(
            [[label == c for c in self.classes_] for label in found], dtype=float
        )
        proba[[label is None for label in found]] = 1.0 / len(self.classes_)
        return proba


@pytest.mark.parametrize("cv", [2, 5, KFold(4, shuffle=True, random_state=1)])
def test_fit_transform_scores_rows_by_a_classifier_that_has_not_seen_them(cv):
    X, y = make_rows()
    X = X.toarray()
    scores = ClassScores(Memory(), weight=1.0, cv=cv, random_state=0)
    assert_allclose(scores.fit_transform(X, y)[:, -3:], 1 / np.sqrt(3))
    assert_array_equal(scores.transform(X)[:, -3:], y[:, None] == scores.classes_)
    assert_array_equal(scores.transform(X), scores.fit(X, y).transform(X))


@pytest.mark.parametrize("classifier", [None, LogisticRegression(), MultinomialNB()])
def test_scores_are_squashed_or_probable_then_squared_and_at_unit_length(classifier):
    n_classes = 2 if classifier is None else 3
    X, y = make_rows(n_classes)
    scores = ClassScores(classifier, weight=0.5, random_state=0).fit(X, y)
    assert sp.issparse(scores.transform(X))
    unit = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    if hasattr(scores.classifier_, "decision_function"):
        v = scores.classifier_.decision_function(unit)
        expected = 1 / (
            1 + np.exp(-3 * (np.column_stack([-v, v]) if n_classes == 2 else v))
        )
    else:
        expected = scores.classifier_.predict_proba(unit)
    expected = expected**2 / np.linalg.norm(expected**2, axis=1, keepdims=True)
    expected = 0.5 * np.where(expected < 0.01, 0.0, expected)
    assert_allclose(dense(scores.transform(X)), np.hstack([unit, expected]), rtol=1e-12)


def test_rows_with_long_indices_are_those_with_short_ones(tmp_path):
    X, y = make_rows()
    wide = X.copy()
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    made = [ClassScores(random_state=0).fit_transform(rows, y) for rows in (X, wide)]
    assert_array_equal(made[0].toarray(), made[1].toarray())
    model = HDSL(prior=1.0, solver=Solver(max_iter=2)).fit(wide, y)
    model.report(tmp_path / "r.html", wide, y, X_test=wide[:9], y_test=y[:9])


def test_only_the_largest_scores_of_a_row_are_kept():
    X, y = make_rows(4)
    all_, few = (
        dense(
            ClassScores(LogisticRegression(), weight=1.0, n_scores=n)
            .fit(X, y)
            .transform(X)
        )
        for n in (None, 2)
    )
    assert ((few[:, -4:] > 0).sum(axis=1) <= 2).all()
    assert_allclose(np.linalg.norm(few[:, -4:], axis=1), 1.0, atol=1e-3)
    assert_array_equal(few[:, -4:].argmax(axis=1), all_[:, -4:].argmax(axis=1))


def test_small_classes_are_scored_too():
    X, y = make_rows(3, n_rows=20)
    y[:2] = ["alone", "two"]
    y[3] = "two"
    Z = dense(ClassScores(cv=5, random_state=0).fit_transform(X, y))
    assert Z[0, X.shape[1]] == 0.0  # "alone" comes first
    assert np.isfinite(Z).all()
    # Each fold knows one class.
    Z = ClassScores(cv=9, weight=1.0).fit_transform(X[:2], ["a", "b"])
    assert_array_equal(dense(Z)[:, -2:], [[0, 1], [1, 0]])


def test_classes_are_spread_over_folds_and_seeds_repeat():
    X, y = make_rows(3, n_rows=31)
    sizes = []

    class Watch(Memory):
        def fit(self, X, y):
            sizes.append(np.unique(y, return_counts=True)[1])
            return super().fit(X, y)

    ClassScores(Watch(), cv=4).fit_transform(X.toarray(), y)
    assert (np.ptp(sizes[1:], axis=0) <= 1).all()
    first, same, other = (
        dense(ClassScores(random_state=s).fit_transform(X, y)) for s in (0, 0, 1)
    )
    assert_array_equal(first, same)
    assert (first != other).any()


def test_columns_that_training_lacks_change_neither_lengths_nor_scores():
    X, y = make_rows()
    wide, new = (sp.csr_array(sp.hstack([X, np.full((60, 1), v)])) for v in (0.0, 9.0))
    pipeline = make_pipeline(
        ClassScores(random_state=0), HDSL(solver=Solver(max_iter=5), prior=4.0)
    ).fit(wide, y)
    Z = [pipeline[0].transform(rows) for rows in (wide, new)]
    assert_allclose(*(np.delete(dense(rows), 12, axis=1) for rows in Z))
    assert_allclose(
        *(np.delete(dense(pipeline[1].index_rows(rows)), 12, axis=1) for rows in Z)
    )


def test_sample_weights_reach_the_classifier():
    X, y = make_rows()
    weights = np.where(y == "plum", 1e-3, 1.0)  # the last class
    low, plain = (dense(ClassScores().fit_transform(X, y, w)) for w in (weights, None))
    assert low[:, -1].sum() < plain[:, -1].sum()
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        ClassScores(KNeighborsClassifier()).fit(X, y, weights)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"weight": -1}, "weight"),
        ({"n_scores": 0}, "n_scores"),
        ({"cv": 1}, "cv"),
        ({"cv": RepeatedKFold(n_splits=2)}, "exactly once"),
        ({"classifier": MaxAbsScaler()}, "decision_function"),
        ({"classifier": SVC(decision_function_shape="ovo")}, "one score per class"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    X, y = make_rows(4)
    with pytest.raises(ValueError, match=message):
        ClassScores(**params).fit_transform(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        ClassScores().fit(X, ["a"] * 60)


def test_names_are_those_of_the_input_then_the_classes():
    X, y = make_rows(2, d=3)
    frame = pytest.importorskip("pandas").DataFrame(
        X.toarray(), columns=["cat", "dog", "pet"]
    )
    Z = ClassScores().set_output(transform="pandas").fit_transform(frame, y)
    assert Z.columns.tolist() == ["cat", "dog", "pet", "class:apple", "class:pear"]
    plain = ClassScores().fit(X, [0, 1] * 30)
    assert plain.get_feature_names_out().tolist() == [
        "x0",
        "x1",
        "x2",
        "class:0",
        "class:1",
    ]


def test_a_reason_ends_in_words():
    X, y = make_rows(n_rows=90)
    names = [f"w{k}" for k in range(12)]
    scores = ClassScores(random_state=0)
    model = HDSL(prior=4.0, solver=Solver(max_iter=5), random_state=0)
    model.fit(scores.fit_transform(X[:60], y[:60]), y[:60])
    words = scores.words(X[[60]])[0]
    coef = scores.classifier_.coef_
    unit = dense(scores.transform(X[[60]]))[0, :12]
    for label, columns in words.items():
        parts = coef[label] * unit
        assert columns == [
            k for k in np.argsort(-parts, kind="stable")[:3] if parts[k] > 0
        ]
    found = scores.explain(model, X[[60]], X[[63]], feature_names=names)
    rows = scores.transform(X[[60, 63]])
    all_names = scores.get_feature_names_out(names)
    plain = model.explain(rows[[0]], rows[[1]], feature_names=all_names)
    assert found.total == pytest.approx(plain.total)
    classed = [part for part in found.to_dict()["parts"] if "class:" in part["name"]]
    assert classed
    assert all(set(part["words"]) <= set(names) for part in classed if "words" in part)
    assert "class:apple: w0" in repr(found)
    assert scores.explain(model, X[[60]], X[[63]], rather_than=X[[61]]).words
    lists = model.importance(scores.transform(X), feature_names=all_names).blocks()
    pairs = [
        line.label
        for block in lists
        if "class" not in block.title
        for line in block.lines
    ]
    assert not any("~" in name and "class:" in name for name in pairs)


def test_a_classifier_that_is_not_linear_has_no_words():
    X, y = make_rows()
    scores = ClassScores(MultinomialNB()).fit(X, y)
    model = HDSL(prior=4.0, solver=Solver(max_iter=2)).fit(scores.transform(X), y)
    assert scores.explain(model, X[[0]], X[[3]]).words == {}
    with pytest.raises(ValueError, match="linear"):
        scores.words(X)


def test_a_pipeline_is_searched_pickled_and_cloned():
    X, y = make_rows(n_rows=90)
    pipeline = make_pipeline(
        ClassScores(random_state=0), HDSL(solver=Solver(max_iter=5), prior=4.0)
    )
    knn = make_pipeline(pipeline, SimilarityKNeighborsClassifier())
    search = GridSearchCV(knn, {"pipeline__classscores__weight": [0.0, "auto"]}, cv=2)
    best = search.fit(X, y).best_estimator_[0]
    assert search.best_score_ > 0.7
    copied = pickle.loads(pickle.dumps(best))
    assert_array_equal(copied.transform(X).toarray(), best.transform(X).toarray())
    assert not hasattr(clone(best)[0], "classes_")


def fitted(classifier=None, n_classes=3, labels=None, as_frame=False):
    X, y = make_rows(n_classes)
    if as_frame:
        X = pytest.importorskip("pandas").DataFrame(
            X.toarray(), columns=list("abcdefghijkl")
        )
    scores = ClassScores(classifier, weight=0.4, random_state=0)
    pipeline = Pipeline(
        [("classes", scores), ("pairs", HDSL(solver=Solver(max_iter=5), prior=4.0))]
    )
    return pipeline.fit(
        X, y if labels is None else labels[np.arange(60) % n_classes]
    ), X


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_classes": 2, "labels": np.array([-1, 1])},
        {"classifier": LogisticRegression(), "as_frame": True},
        {
            "classifier": RidgeClassifier(fit_intercept=False),
            "labels": np.array([1.0, 2, 4]),
        },
        {"classifier": SVC(kernel="linear"), "n_classes": 2},
    ],
)
def test_a_pipeline_comes_back_from_a_file(tmp_path, options):
    pipeline, X = fitted(**options)
    hdsl.save(pipeline, tmp_path / "model.hdsl")
    loaded = hdsl.load(tmp_path / "model.hdsl")
    assert list(loaded.named_steps) == ["classes", "pairs"]
    assert_allclose(
        dense(loaded.transform(X)), dense(pipeline.transform(X)), atol=1e-12
    )
    assert loaded[0].classes_.tolist() == pipeline[0].classes_.tolist()
    names = loaded[:-1].get_feature_names_out().tolist()
    assert names == pipeline[:-1].get_feature_names_out().tolist()
    hdsl.save(loaded, tmp_path / "again.hdsl")
    assert (tmp_path / "again.hdsl").read_bytes() == (
        tmp_path / "model.hdsl"
    ).read_bytes()


def test_a_pipeline_of_two_models_comes_back(tmp_path):
    X = np.eye(8)[np.arange(24) % 8] + 0.1
    y = np.arange(24) % 2
    pipeline = make_pipeline(
        *(hdsl.HDSL(prior=2.0, solver=hdsl.Solver(max_iter=2)) for _ in range(2))
    ).fit(X, y)
    hdsl.save(pipeline, tmp_path / "m.hdsl")
    loaded = hdsl.load(tmp_path / "m.hdsl")
    assert_allclose(
        dense(loaded.transform(X)), dense(pipeline.transform(X)), atol=1e-12
    )


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    for classifier in (
        MultinomialNB(),
        SVC(kernel="linear"),
    ):  # votes of pairs of classes
        with pytest.raises(ValueError, match="linear"):
            hdsl.save(fitted(classifier)[0], tmp_path / "model.hdsl")
    assert not (tmp_path / "model.hdsl").exists()


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("coef", np.zeros((2, 12)), "coef"),
        ("coef", np.zeros((3, 11)), "columns"),
        ("coef", np.full((3, 12), np.nan), "coef"),
        ("intercept", np.zeros(1), "intercept"),
        ("columns", np.array([0, 12]), "columns"),
        ("weight", -1.0, "weight"),
        ("n_scores", 0, "n_scores"),
        ("n_features", 1.0, "n_features"),
    ],
)
def test_damaged_class_scores_are_refused(key, value, word):
    arrays, header = fitted()[0][0].to_arrays()
    (arrays if isinstance(value, np.ndarray) else header)[key] = value
    with pytest.raises(ValueError, match=word):
        ClassScores.from_arrays(arrays, header)


# --- wide rows ------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", [None, MultinomialNB()])
def test_rows_of_many_columns_have_the_scores_of_the_columns_they_use(
    tmp_path, classifier
):
    X, y = make_rows()
    columns = np.sort(np.random.default_rng(0).choice(2**40, X.shape[1], replace=False))
    wide = sp.csr_array((X.data, columns[X.indices], X.indptr), shape=(len(y), 2**40))
    new = sp.csr_array(
        ([1.0, 2.0, 5.0], [columns[0], columns[3], 2**40 - 1], [0, 2, 3])
    )
    new.resize((2, 2**40))
    scores, narrow = (ClassScores(classifier, random_state=0) for _ in range(2))
    Z = scores.fit_transform(wide, y)
    expected = narrow.fit_transform(X, y)
    assert Z.shape == (60, 2**40 + 3)
    assert scores.is_wide_
    assert not narrow.is_wide_
    assert_allclose(Z.data, expected.data, rtol=1e-9)
    assert_array_equal(
        Z.indices[Z.indices >= 2**40] - 2**40,
        expected.indices[expected.indices >= 12] - 12,
    )
    with pytest.raises(ValueError, match="1099511627776"):
        scores.get_feature_names_out()
    if classifier is not None:
        return
    assert [{columns[k] for k in v} for v in narrow.words(X[[0]])[0].values()] == [
        set(v) for v in scores.words(wide[[0]])[0].values()
    ]
    model = make_pipeline(scores, HDSL(solver=Solver(max_iter=5), prior=4.0)).fit(
        wide, y
    )
    hdsl.save(model, tmp_path / "model.hdsl")
    again = hdsl.load(tmp_path / "model.hdsl")
    for part in ("data", "indices", "indptr"):
        assert_array_equal(*(getattr(m.transform(new), part) for m in (again, model)))


def test_a_class_without_weight_is_not_the_likely_one():
    X = np.array(
        [[1.0, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0.1, 0.9, 0], [0, 0.2, 1], [0, 1, 1]]
    )
    y = np.array(list("aabbbb"))
    scores = (
        ClassScores(random_state=0)
        .fit(X, y, sample_weight=(y == "a") * 1.0)
        .transform(X)
    )
    assert (scores[:, -2] > scores[:, -1]).all()


# --- many rows ------------------------------------------------------------------------


class Counted(Memory):
    """Remembers how many rows it was fitted on."""

    def fit(self, X, y):
        self.n_rows_ = X.shape[0]
        return super().fit(np.asarray(dense(X)), y)

    def predict_proba(self, X):
        return super().predict_proba(np.asarray(dense(X)))


def test_a_classifier_is_fitted_on_a_sample_of_many_rows():
    """All rows are scored, each by a classifier that has not seen it."""
    X, y = make_rows(n_rows=300)
    scores = ClassScores(Counted(), weight=1.0, cv=3, max_rows=60, random_state=0)
    scored = dense(scores.fit_transform(X, y))
    assert_allclose(scored[:, -3:], 1 / np.sqrt(3))  # a row it had seen would be 1
    assert scores.n_rows_fitted_ == scores.classifier_.n_rows_ == 60
    assert scores.fit(X, y).classifier_.n_rows_ == 60
    everything = ClassScores(Counted(), max_rows=None, random_state=0).fit(X, y)
    assert everything.n_rows_fitted_ == everything.classifier_.n_rows_ == 300


def test_few_rows_are_no_sample_and_many_cost_what_is_known_before(monkeypatch):
    X, y = make_rows(n_rows=300)
    plain = dense(ClassScores(random_state=0, max_rows=None).fit_transform(X, y))
    assert_array_equal(plain, dense(ClassScores(random_state=0).fit_transform(X, y)))
    monkeypatch.setattr(training, "FEWEST_ROWS", 20)
    monkeypatch.setattr(training.n_affordable_rows, "__defaults__", (X.nnz,))
    scores = ClassScores(random_state=0).fit(X, y)
    assert 100 <= scores.n_rows_fitted_ <= 103  # a third, as there are three classes
    assert scores.classifier_.dual is True
    assert scores.classifier_.max_iter == training.MAX_PASSES
    own = ClassScores(LinearSVC(dual=False), random_state=0).fit(X, y)
    assert own.classifier_.dual is False


@given(st.lists(st.integers(0, 3), min_size=8), st.data())
def test_a_sample_has_each_class_and_no_row_of_weight_zero(codes, data):
    y = np.array(codes)
    weights = np.array(
        data.draw(st.lists(st.integers(0, 1), min_size=len(y), max_size=len(y)))
    )
    weights[:1] = 1
    n_rows = data.draw(st.integers(1, len(y)))
    rows = training.sample_rows(y, n_rows, np.random.RandomState(0), weights)
    assert (np.diff(rows) > 0).all()
    assert weights[rows].all()
    assert set(y[rows]) == set(y[weights > 0])


def test_label_sets_are_sampled_too():
    X, y = make_rows(n_rows=200)
    sets = [(label, "fruit") for label in y]
    scores = ClassScores(max_rows=50, random_state=0).fit(X, sets)
    assert scores.n_rows_fitted_ == 50
    assert dense(scores.transform(X)).shape == (200, X.shape[1] + 4)


# --- beside an embedding --------------------------------------------------------------


def make_pairs(seen_in="embedding", n_rows=90):
    """Pairs (features, embedding) and labels, which one of the two blocks knows of."""
    rng = np.random.default_rng(1)
    knowing, y = make_rows(n_rows=n_rows)
    noise = sp.csr_array(rng.random((n_rows, 12)))
    if seen_in == "embedding":
        return (noise, knowing.toarray()), y
    return (knowing, rng.normal(size=(n_rows, 12))), y


@pytest.mark.parametrize("seen_in", ["embedding", "features"])
def test_a_classifier_sees_an_embedding_where_it_has_fewer_errors_with_it(seen_in):
    X, y = make_pairs(seen_in)
    scores = ClassScores(random_state=0).fit(X, y)
    assert scores.embedding_width_ == (12 if seen_in == "embedding" else 0)
    fixed = ClassScores(random_state=0, with_embedding=False).fit(X, y)
    assert fixed.embedding_width_ == 0


@pytest.mark.parametrize("classifier", [None, LogisticRegression()])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_pairs_are_those_of_both_blocks_in_one_matrix(classifier, n_classes):
    (features, embedding), y = make_pairs()
    rows = np.isin(y, np.unique(y)[:n_classes])
    X = features[rows], embedding[rows]
    scores = ClassScores(classifier, with_embedding=True, random_state=0)
    scored = scores.fit(X, y[rows]).transform(X)
    assert_array_equal(scored.dense, embedding[rows])
    blocks = [block / np.linalg.norm(block, axis=1)[:, None] for block in dense_pair(X)]
    expected = clone(scores.classifier_).fit(np.hstack(blocks), y[rows])
    if classifier is None:  # liblinear ends where it does
        expected = scores.classifier_
    values = expected.decision_function(np.hstack(blocks))
    if n_classes == 2:
        values = np.column_stack([-values, values])
    squared = (1.0 / (1.0 + np.exp(-3.0 * values))) ** 2
    unit = squared / np.linalg.norm(squared, axis=1)[:, None]
    assert_allclose(
        scored.sparse.toarray()[:, 12:], 0.3 * np.where(unit < 0.01, 0, unit), rtol=2e-2
    )


def dense_pair(X):
    """Both blocks of a pair as dense arrays."""
    features, embedding = X
    return features.toarray(), embedding


def test_scores_learned_with_an_embedding_ask_for_one():
    X, y = make_pairs()
    scores = ClassScores(random_state=0, with_embedding=True).fit(X, y)
    features, embedding = X
    for rows in (features, (features, embedding[:, :5])):
        with pytest.raises(ValueError, match="embedding of 12 columns"):
            scores.transform(rows)


def test_a_reason_may_end_in_the_embedding():
    X, y = make_pairs()
    scores = ClassScores(random_state=0, with_embedding=True)
    model = HDSL(
        random_state=0, solver=Solver(max_iter=5), prior=1.0, embedding_weight=1.0
    )
    model.fit(scores.fit_transform(X, y), y)
    features, embedding = X
    rows = [(features[[k]], embedding[[k]]) for k in (0, 3)]
    explanation = scores.explain(model, *rows)
    assert explanation.words
    for words_of_rows in explanation.words.values():
        assert "meaning" in words_of_rows["x"]


def test_scores_learned_with_an_embedding_come_back_from_a_file(tmp_path):
    X, y = make_pairs()
    scores = ClassScores(random_state=0, with_embedding=True)
    pipeline = Pipeline(
        [("classes", scores), ("pairs", HDSL(solver=Solver(max_iter=5), prior=4.0))]
    )
    pipeline.fit(X, y)
    hdsl.save(pipeline, tmp_path / "model.hdsl")
    loaded = hdsl.load(tmp_path / "model.hdsl")
    ours = loaded[0].transform(X).sparse.toarray()
    assert_allclose(ours, scores.transform(X).sparse.toarray(), rtol=1e-6)


def test_label_sets_are_scored_with_an_embedding():
    X, y = make_pairs()
    has_label = y[:, None] == np.unique(y)
    scores = ClassScores(random_state=0).fit(X, has_label.astype(int))
    assert scores.embedding_width_ == 12
