"""A model that went through a file or a pickle is the same to the bit."""

import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import hdsl
from hdsl import HDSL, SimilarityKNeighborsClassifier
from small_fits import VALIDATE, X_VAL, T, X, Y, any_length, assert_same_model, frame, small

pytestmark = any_length


def through_save(model, folder):
    model.save(folder / "model.hdsl")
    return hdsl.load(folder / "model.hdsl")


def through_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


def assert_equal_to_the_bit(one, other):
    """Check all public fitted attributes and the parameters."""
    mine, others = (
        {name: value for name, value in vars(model).items() if name.endswith("_")}
        for model in (one, other)
    )
    assert mine.keys() == others.keys()
    for name, value in mine.items():
        assert type(value) is type(others[name]), name
        if name == "feature_names_in_":
            assert value.dtype == others[name].dtype
            assert value.tolist() == others[name].tolist()
        elif isinstance(value, np.ndarray):
            assert value.dtype == others[name].dtype
            assert value.tobytes() == others[name].tobytes(), name
        else:
            assert repr(value) == repr(others[name]), name
    assert one.get_params() == other.get_params()


STORED = {
    "triplets": lambda: small().fit(X, triplets=T),
    "auto": lambda: HDSL(max_iter=20, random_state=3, loss="logistic").fit(X, Y),
    "early stopping": lambda: small(max_iter=60).fit(X, Y, **VALIDATE["labels"]),
    "names": lambda: small(early_stopping=True, max_iter=60).fit(frame(X), Y),
    "warm start": lambda: small(warm_start=True).fit(X, Y).fit(X, triplets=T),
    "at": lambda: small().fit(X, Y).at(7),
    "rank": lambda: small(n_components=3, prior=0.1).fit(X, Y),
    "lazy steps": lambda: small(step="blended").fit(X, Y),
}


@pytest.mark.parametrize(
    ("kind", "through"),
    [(kind, through_save) for kind in STORED]
    + [("names", through_pickle), ("rank", through_joblib)],
)
def test_a_stored_model_is_the_same_to_the_bit(kind, through, tmp_path):
    model = STORED[kind]()
    stored = through(model, tmp_path)
    if through is through_save:  # the file leaves out the time that a run took
        model.trace_["seconds"] = np.nan
    assert_equal_to_the_bit(stored, model)
    rows = frame(X) if hasattr(model, "feature_names_in_") else X
    for name in ("transform", "rewrite", "similarity"):
        assert getattr(stored, name)(rows).tobytes() == getattr(model, name)(rows).tobytes()
    assert stored.pair_score(rows, rows).tobytes() == model.pair_score(rows, rows).tobytes()
    assert stored.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    assert (stored.matrix() != model.matrix()).nnz == 0
    for k in (0, model.n_iter_, len(model.trace_) - 1):
        assert_same_model(stored.at(k), model.at(k))
    assert_same_model(stored.partial_fit(rows, Y), model.partial_fit(rows, Y))


def test_what_is_left_out_of_files_takes_its_default(tmp_path):
    functions = {
        "callback": lambda state: None,
        "scoring": lambda *_: 0.0,
        "mining": lambda rows, labels, rng: T,
        "random_state": np.random.RandomState(0),
    }
    model = small(**functions).fit(X, Y, **VALIDATE["labels"])
    stored = through_save(model, tmp_path)
    default = HDSL().get_params()
    assert stored.get_params() == model.get_params() | {name: default[name] for name in functions}
    assert_same_model(stored, model)
    assert stored.validation_score_ == 0.0
    assert stored.fit(X, Y).n_triplets_ == small().fit(X, Y).n_triplets_


def test_a_model_that_is_not_fitted_writes_nothing(tmp_path):
    path = tmp_path / "model.hdsl"
    with pytest.raises(NotFittedError):
        HDSL().save(path)
    assert list(tmp_path.iterdir()) == []
    small().fit(X, Y).save(path)
    before = path.read_bytes()
    with pytest.raises(NotFittedError):
        HDSL().save(path)
    assert path.read_bytes() == before


def test_a_pipeline_through_skops():
    skops = pytest.importorskip("skops.io")
    model = small(early_stopping=True, prior=0.1)
    pipeline = make_pipeline(model, SimilarityKNeighborsClassifier(3)).fit(frame(X), Y)
    data = skops.dumps(pipeline)
    untrusted = skops.get_untrusted_types(data=data)
    assert set(untrusted) == {
        "hdsl.hdsl.HDSL",
        "hdsl.neighbors.SimilarityKNeighborsClassifier",
    }
    stored = skops.loads(data, trusted=untrusted)
    assert_equal_to_the_bit(stored[0], pipeline[0])
    assert_array_equal(stored.predict(frame(X_VAL)), pipeline.predict(frame(X_VAL)))
