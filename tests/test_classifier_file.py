"""SimilarityClassifier in a file: the same bits come back, and damage is refused."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import NotFittedError

import hdsl
from hdsl import HDSL, LocalHDSL, SimilarityClassifier, text
from hdsl.files import container
from small_fits import frame
from test_neighbors import X, Y

#: Made once by ``fitted("regions", sp.csr_array(X)).save(GOLDEN)``; other formats get other files.
GOLDEN = Path(__file__).parent / "golden" / "classifier-v3.hdsl"

SIMILARITIES = {
    "none": None,
    "learned": HDSL(scale=5.0, prior=0.3, max_iter=20, random_state=0),
    "no norm": HDSL(scale=5.0, prior=0.0, norm=None, max_iter=20, random_state=0),
    "regions": LocalHDSL(2, max_iter=20, random_state=0),
    "no regions": LocalHDSL(0, max_iter=20, random_state=0),
}

pytestmark = pytest.mark.filterwarnings("ignore:Rows differ in length:UserWarning")


def fitted(kind="learned", rows=X, y=Y, **parameters):
    parameters = {"landmarks": 30, "C": 5.0, "random_state": 0, **parameters}
    return SimilarityClassifier(SIMILARITIES[kind], **parameters).fit(rows, y)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "classifier.hdsl"


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize(
    ("form", "y", "parameters"),
    [
        (np.asarray, Y, {"loss": "log_loss"}),
        (np.asarray, np.where(Y == "a", -3, 700), {"cosine": True}),
        (sp.csr_array, Y.astype("<U9"), {"loss": "log_loss", "cosine": True}),
        (sp.csr_matrix, Y.astype(object), {"C": "cv"}),
        (frame, Y == "a", {"landmarks": [1, 5, 20, 40, 50]}),
    ],
    ids=["dense", "numbers", "sparse", "objects", "names"],
)
def test_a_saved_classifier_gives_the_same_bits(kind, form, y, parameters, path):
    found = fitted(kind, form(X), y, **parameters)
    found.save(path)
    stored = hdsl.load(path)
    assert type(stored) is SimilarityClassifier
    for rows in (form(X), form(X[:1])):  # one row takes another way through BLAS
        for name in ("decision_function", "predict", "predict_proba"):
            if hasattr(found, name):
                values = getattr(found, name)(rows), getattr(stored, name)(rows)
                assert_array_equal(*values, strict=True)
    for name, value in vars(found).items():
        if name.endswith("_") and isinstance(value, np.ndarray):
            assert_array_equal(value, getattr(stored, name), strict=True)
    assert (stored.C_, stored.n_iter_) == (found.C_, found.n_iter_)
    assert hasattr(stored, "feature_names_in_") == (form is frame)
    expected = found.get_params(deep=False) | {"similarity": stored.similarity_}
    if form is frame:
        expected["landmarks"] = 500  # they belong to their rows
    assert stored.get_params(deep=False) == expected
    assert (stored.similarity is None) == (kind == "none")
    if form is not frame:
        stored.save(path.with_name("again.hdsl"))
        assert path.with_name("again.hdsl").read_bytes() == path.read_bytes()


def test_a_loaded_classifier_can_be_fitted_again(path):
    found = fitted()
    found.save(path)
    again = clone(hdsl.load(path)).fit(X, Y)
    assert_array_equal(again.decision_function(X), found.decision_function(X))


def test_columns_that_no_training_row_has_come_back(path):
    wider = np.hstack([X, np.zeros((len(X), 100))])
    found = fitted("none", wider)
    found.save(path)
    wider[:, -1] = 100.0
    assert_array_equal(hdsl.load(path).decision_function(wider), found.decision_function(wider))


def test_a_classifier_without_a_landmark_comes_back(path):
    found = fitted(C=1e-9)
    assert len(found.landmarks_) == 0
    found.save(path)
    assert_array_equal(hdsl.load(path).decision_function(X), found.decision_function(X))


class Plain:
    def rewrite(self, rows):
        return rows


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (SimilarityClassifier, NotFittedError, "not fitted"),
        (lambda: SimilarityClassifier(Plain()).fit(X, Y), ValueError, "holds atoms.*joblib"),
        (lambda: SimilarityClassifier(
            LocalHDSL(2, regions=MiniBatchKMeans(2, n_init=1), max_iter=5)).fit(X, Y),
         ValueError, "no place for MiniBatchKMeans"),
        (lambda: fitted().set_params(loss="hinge"), ValueError, "'loss' parameter"),
    ],
)  # fmt: skip
def test_what_cannot_be_saved_is_said_and_the_old_file_stays(make, error, message, path):
    path.write_bytes(b"old")
    with pytest.raises(error, match=message):
        make().save(path)
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_there_are_no_documents_in_it(path):
    with pytest.raises(ValueError, match="has no place for extra"):
        hdsl.save(fitted(), path, {"lowercase": True})
    hdsl.save(fitted(), path)
    with pytest.raises(ValueError, match="as a similarity: it holds a SimilarityClassifier"):
        text.load_collection(path)


# --- damage --------------------------------------------------------------------------------------


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("coef", put(0, np.nan), "coef must hold finite"),
        ("coef", lambda a: a[:, 1:], "landmarks is of"),
        ("coef", lambda a: a[1:], "coef is of"),
        ("intercept", lambda a: a[1:], "intercept is of"),
        ("classes.text", put(0, ord("z")), "classes must hold two labels or more"),
        ("classes.offsets", put(0, 1), "must rise from 0"),
        ("landmarks", put(1, 0), "rising row numbers"),
        ("landmarks", put(0, -1), "rising row numbers"),
        ("rows", put(0, np.inf), "rows must hold finite"),
        ("rows_indices", put(0, 100), "(indices|index values) must be < 12"),
        ("rows_indices", put(0, -1), "indices|index"),
        ("rows_indptr", put(1, -5), "index|indptr"),
        ("rows_indptr", lambda a: a[:0], "rows_indptr is empty"),
        ("rows_indptr", lambda a: np.append(a, a[-1]), "rows for 2[0-9] landmarks"),
        ("similarity.atoms", put((0, 2), 5), "expected .i, j, sign"),
        ("similarity.weights", put(0, -1.0), "expected a finite number > 0"),
        ("similarity.columns", lambda a: a[:0], "expected one bit per feature"),
        ("similarity.regions.atoms", put((-1, 0), 9), "a region that does not exist"),
        ("similarity.regions.atoms", put((0, 0), 1), "region by region"),
        ("similarity.regions.weights", put(0, 0.0), "expected a finite number > 0"),
        ("similarity.regions.scales", put(0, -1.0), "scales must hold numbers > 0"),
        ("similarity.regions.centers_indices", put(0, 99), "(indices|index values) must be < 12"),
        ("feature_names.offsets", lambda a: np.append(a, a[-1]), "a name per feature"),
        *[(name, None, "is missing|expected|indices") for name in (
            "coef", "intercept", "landmarks", "rows", "rows_indices", "rows_indptr",
            "similarity.atoms", "similarity.weights", "similarity.regions.centers",
            "feature_names.text", "classes.text",
        )],
    ],
)  # fmt: skip
def test_damaged_arrays_are_refused(damaged, name, change, message):
    arrays, header, refused = damaged
    if change is None:
        others = {key: array for key, array in arrays.items() if key != name}
    else:
        array = arrays[name].astype(np.int64) if arrays[name].dtype.kind == "i" else arrays[name]
        others = arrays | {name: change(array.copy())}
    assert message_matches(refused(others, header), message)


def message_matches(found, message):
    return pytest.raises(ValueError, match=message).matches(ValueError(found))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 1), ("n_iter", 1.0), ("n_features_in", 0), ("n_features_in", 13),
        ("n_features_in", "12"), ("feature_names", 1), ("classes", None), ("similarity", []),
        ("similarity", {}), ("similarity", {"scale": -1.0, "prior": 0.0, "norm": None}),
        ("similarity", {"scale": 1.0, "prior": -1.0, "norm": None}),
        ("similarity", {"scale": 1.0, "prior": 1.0, "norm": "l1"}), ("params", None),
        ("params", {"loss": "hinge"}), ("params", {"loss": ["log_loss"]}),
        ("params", {"cosine": 1}), ("params", {"landmarks": [["x"] * 900]}), ("params", {"C": -1}),
        ("params_left_out", None), ("classes", "<U1"), ("classes", "<U9999999"),
    ],
)  # fmt: skip
def test_damaged_headers_are_refused(damaged, name, value):
    arrays, header, refused = damaged
    content = header["classifier"] | {name: value}
    assert len(refused(arrays, {**header, "classifier": content})) < 600
    del content[name]
    if name != "similarity":  # without one it is the dot product
        refused(arrays, {**header, "classifier": content})


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Arrays and header of a classifier with all parts, and a function for what refuses a file."""
    path = tmp_path_factory.mktemp("damaged") / "classifier.hdsl"
    wider = frame(np.hstack([X[:, :-1], np.zeros((len(X), 1))]))
    model = LocalHDSL(2, scale=3.0, local_scale=3.0, max_iter=20, random_state=0)
    y = np.char.add("class ", Y)
    SimilarityClassifier(model, landmarks=40, C=5.0, random_state=0).fit(wider, y).save(path)
    arrays, header = container.read(path)
    sparse = sp.csr_array(arrays["rows"])
    arrays |= {"rows": sparse.data, "rows_indices": sparse.indices, "rows_indptr": sparse.indptr}

    def refused(arrays, header):
        container.write(path, arrays, header, version=3)
        with pytest.raises(ValueError, match=r"^Cannot load .*classifier\.hdsl.*damaged") as caught:
            hdsl.load(path)
        return str(caught.value)

    container.write(path, arrays, header, version=3)
    assert hdsl.load(path).score(wider, y) > 0.7
    return arrays, header, refused


def test_a_header_of_nothing_is_refused(damaged):
    arrays, header, refused = damaged
    for content in (None, [], 1, {}):
        refused(arrays, {**header, "classifier": content})


# --- the format ----------------------------------------------------------------------------------


def test_the_golden_file_means_what_it_meant(path):
    stored = hdsl.load(GOLDEN)
    arrays, header = container.read(GOLDEN)
    again, content = stored.to_arrays()
    container.write(path, again, {**header, "classifier": content}, version=3)
    assert path.read_bytes() == GOLDEN.read_bytes()
    # The score by the text of docs/serving.md: weights times similarities to the landmarks.
    L = sp.csr_array(
        (arrays["rows"], arrays["rows_indices"], arrays["rows_indptr"]),
        shape=(len(arrays["landmarks"]), 12),
    ).toarray()
    rows = X / np.sqrt((X**2).sum(axis=1, keepdims=True))
    region = (((rows[:, None] - stored.similarity_.regions.centers.toarray()) ** 2).sum(axis=2)
              .argmin(axis=1))  # fmt: skip
    parts = header["classifier"]["similarity"]

    def matrix(atoms, weights, scale):
        M = np.zeros((12, 12))
        for (i, j, sign), weight in zip(atoms, weights, strict=True):
            v = np.zeros(12)
            v[[i, j]] = 1.0, sign
            M += scale * weight * np.outer(v, v)
        return M

    shared = matrix(arrays["similarity.atoms"], arrays["similarity.weights"], parts["scale"])
    local = []
    for r, scale in enumerate(arrays["similarity.regions.scales"]):
        own = arrays["similarity.regions.atoms"][:, 0] == r
        atoms = arrays["similarity.regions.atoms"][own, 1:]
        local.append(matrix(atoms, arrays["similarity.regions.weights"][own], scale))
    S = np.array([
        x @ (parts["prior"] * np.eye(12) + shared + local[r]) @ L.T
        for x, r in zip(rows, region, strict=True)
    ])  # fmt: skip
    scores = S @ arrays["coef"].T + arrays["intercept"]
    assert_allclose(stored.decision_function(X), scores, atol=1e-9)
    assert stored.score(X, Y) == 56 / 60
