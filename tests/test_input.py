"""Bad input raises before any work, with what came, what is expected and the way out."""

import itertools
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from hdsl import HDSL, Mining, Solver
from hdsl.input.errors import short
from hdsl.input.labels import check_comparisons
from hdsl.input.parameters import check_number
from hdsl.settings import nested_parameters
from hdsl.triplets import judgement_triplets

RNG = np.random.default_rng(0)
X = RNG.integers(1, 9, size=(12, 5)) * (RNG.random((12, 5)) < 0.7) / 8 + np.eye(12, 5)
Y = np.arange(12) % 2
T = np.array([[a, (a + 2) % 12, (a + 1) % 12] for a in range(12)])


def state(model):
    """Return the names of fitted attributes."""
    return {name for name in vars(model) if name.endswith("_")}


def assert_refused(fit, *fragments, error=ValueError):
    """`fit(model)` raises before any work with all the fragments, and sets no attribute."""
    calls = []
    model = HDSL(solver=Solver(max_iter=5))
    with pytest.raises(error) as caught:
        fit(model)
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message
    assert not calls, "work was done"
    assert state(model) <= {"n_features_in_", "feature_names_in_"}


def refuses(parameters, *fragments, error=ValueError):
    assert_refused(
        lambda model: model.set_params(**nested_parameters(**parameters)).fit(X, Y),
        *fragments,
        error=error,
    )


# --- X --------------------------------------------------------------------------------

FORMS = {
    "ndarray": np.array,
    "float32": lambda A: A.astype(np.float32),
    "list": lambda A: A.tolist(),
    "csr_array": sp.csr_array,
    "csc_matrix": sp.csc_matrix,
    "coo_array": sp.coo_array,
    "lil_matrix": sp.lil_matrix,
    "pandas": lambda A: pytest.importorskip("pandas").DataFrame(A).add_prefix("f"),
    "polars": lambda A: pytest.importorskip("polars").DataFrame(A),
}


def with_value(value, row=7, column=2):
    bad = X.copy()
    bad[row, column] = value
    return bad


NOT_FINITE = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf}


@pytest.mark.parametrize(
    ("form", "name"), list(zip(FORMS, itertools.cycle(NOT_FINITE), strict=False))
)
def test_the_first_value_that_is_not_finite_is_named_with_its_place(form, name):
    bad = FORMS[form](with_value(NOT_FINITE[name]))
    assert_refused(
        lambda model: model.fit(bad, Y), f"X[7, 2] is {name}", "finite", "impute"
    )
    assert_refused(lambda model: model.fit(bad, triplets=T), f"X[7, 2] is {name}")


@pytest.mark.parametrize("form", ["ndarray", "csc_matrix", "pandas"])
def test_values_that_are_not_finite_are_refused_after_fit(form):
    form = FORMS[form]
    model = HDSL(solver=Solver(max_iter=2)).fit(form(X), Y)
    bad = form(with_value(np.nan))
    for use in (model.transform, model.rewrite, model.similarity):
        with pytest.raises(ValueError, match=r"X\[7, 2\] is NaN"):
            use(bad)
    for use in (model.similarity, model.pair_score):
        with pytest.raises(ValueError, match=r"\[7, 2\] is NaN"):
            use(form(X), bad)


def damaged(form, **arrays):
    """Return sparse rows with other index arrays than SciPy would make."""
    rows = sp.csr_array(X).asformat(form)
    for name, change in arrays.items():
        array = getattr(rows, name).copy()
        array[change[0]] = change[1]
        setattr(rows, name, array)
    return rows


DAMAGED = {
    "negative index": ("csr", {"indices": (3, -3)}),
    "large index": ("csr", {"indices": (0, 2**31 - 1)}),
    "large end": ("csr", {"indptr": (-1, 10**6)}),
    "falling": ("csr", {"indptr": (4, 2**31 - 1)}),
    "below zero": ("csr", {"indptr": (0, -5)}),
    "column": ("csc", {"indices": (1, 500)}),
    "coordinate": ("coo", {"row": (2, 99)}),
    "column of a list": ("lil", {"rows": (4, [2**30])}),
    "huge column of a list": ("lil", {"rows": (4, [2**70])}),
    "list of columns": ("lil", {"rows": (4, [0, 1, 2, 3, 4, 5])}),
    "no list": ("lil", {"data": (4, None)}),
    "offset": ("dia", {"offsets": (0, 10**6)}),
    "offset twice": ("dia", {"offsets": (slice(None), 0)}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_sparse_rows_are_refused_at_every_door(name):
    from hdsl.evaluate import knn_error
    from hdsl.search import top_k
    from hdsl.triplets import neighbor_triplets

    form, arrays = DAMAGED[name]
    bad = damaged(form, **arrays)
    assert_refused(lambda model: model.fit(bad, Y), "X", "damaged")
    fitted = HDSL(solver=Solver(max_iter=2), prior=1.0).fit(X, Y)
    for use in (
        fitted.transform,
        fitted.similarity,
        lambda rows: top_k(rows, X, 1),
        lambda rows: top_k(X, rows, 1),
        lambda rows: neighbor_triplets(rows, Y),
        lambda rows: knn_error(None, rows, Y, X, Y),
        lambda rows: HDSL().fit(X, rows),  # as labels
    ):
        with pytest.raises(ValueError, match="damaged"):
            use(bad)


def test_damaged_links_and_dictionaries_are_refused():
    from hdsl.triplets import link_triplets

    links = sp.coo_array(np.eye(4))
    links.row = np.array([0, 1, 2, 2**30])
    with pytest.raises(ValueError, match="damaged"):
        link_triplets(links)
    dictionary = sp.dok_array(X)
    dictionary._dict[(3, 2**30)] = 1.0  # as a damaged pickle has it
    assert_refused(lambda model: model.fit(dictionary, Y), "X", "damaged")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_complex_rows_are_refused_at_every_door(form):
    from hdsl.search import top_k

    for use in (lambda rows: HDSL().fit(rows, Y), lambda rows: top_k(rows, X, 1)):
        with pytest.raises(ValueError, match="omplex"):
            use(form(X + 1j))


def test_a_warning_names_the_line_of_the_caller():
    from hdsl.input.errors import warn

    model = HDSL(solver=Solver(max_iter=1), prior=1.0)
    with pytest.warns(
        UserWarning, match="There is one row only.* of class 'lone'"
    ) as caught:
        model.fit(X, ["ant"] * 6 + ["bee"] * 5 + ["lone"])
    assert caught[0].filename == __file__
    assert np.isfinite(model.transform(X)).all()
    with pytest.warns(RuntimeWarning, match="word") as caught:
        warn("word", RuntimeWarning)
    assert caught[0].filename == __file__


STORED_ZEROS = sp.csr_array(X * (np.arange(5) < 1) + np.eye(12, 5, k=1))
STORED_ZEROS.data[STORED_ZEROS.indices > 0] = 0.0
FEW = "At least 2 features with a non-zero value"
MANY_BAD = with_value(np.nan)
MANY_BAD[8:10] = np.inf
DUPLICATES = sp.csr_array(
    (
        np.array([1.0, 1, 0, 2, np.inf, 1]),
        np.array([3, 3, 0, 1, 4, 0]),
        np.array([0, 3, 5, 6]),
    ),
    shape=(3, 5),
)
BAD_ROWS = {
    "NaN at the end": (sp.csr_array(with_value(np.nan, 11, 4)), "X[11, 4] is NaN"),
    "NaN by column": (sp.csc_array(with_value(np.nan, 5, 3)), "X[5, 3] is NaN"),
    "several": (MANY_BAD, "X[7, 2] is NaN", "11 in X"),
    "duplicates": (DUPLICATES, "X[1, 4] is inf"),
    "no row": (X[:0], "0 sample(s)", "minimum of 1"),
    "no sparse column": (sp.csr_array(X[:, :0]), "0 feature(s)", "minimum of 1"),
    "no value": (0 * X, FEW, "X has 0 (n_features=5)"),
    "one feature with values": (
        sp.csc_matrix(X * (np.arange(5) < 1)),
        FEW,
        "X has 1 (n_features=",
    ),
    "stored zeros": (STORED_ZEROS, FEW, "X has 1 (n_features="),
    "one column": (X[:, :1], "n_features=1", "At least 2 features"),
    "one row": (X[0], "Expected 2D array, got 1D array"),
    "words": ([["a", "b"]] * 12, "could not convert string", "hdsl.text.learn"),
    "texts": (["a text", "b"] * 6, "hdsl.text.learn", "TfidfVectorizer"),
    "large": (1e80 * X, "largest absolute value of X", "Scale X"),
    "small": (1e-80 * X, "largest absolute value of X", "Scale X"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_refused(name):
    bad, *fragments = BAD_ROWS[name]
    labels = Y[: np.shape(bad)[0]]
    assert_refused(lambda model: model.fit(bad, labels), *fragments)


def test_a_frame_of_texts_names_what_reads_texts():
    pandas = pytest.importorskip("pandas")
    for texts in (
        pandas.DataFrame({"text": ["one two", "two three"] * 6}),
        pandas.Series(["one two", "two three"] * 6),
    ):
        assert_refused(
            lambda model, texts=texts: model.fit(texts, Y[:12]), "hdsl.text.learn"
        )


# --- triplets -------------------------------------------------------------------------


def with_row(column, row, dtype=int):
    bad = T.astype(dtype)
    bad[4, column] = row
    return bad


BAD_TRIPLETS = {
    **{
        f"row {row}": (
            with_row(column, row, dtype),
            f"triplets[4] names row {row}",
            "12 rows",
        )
        for column, row, dtype in (
            (0, 12, int),
            (1, -1, int),
            (2, 10**12, int),
            (1, 2**63 + 5, np.uint64),
        )
    },
    "1-D": (T[0], "(n_triplets, 3)", "shape (3,)"),
    "two columns": (T[:, :2], "(n_triplets, 3)", "shape (12, 2)"),
    "number": (5, "(n_triplets, 3)", "shape ()"),
    "ragged": ([[0, 1, 2], [3, 4]], "(n_triplets, 3)", "rows of unequal length"),
    "floats": (T.astype(float), "triplets must hold integers", "float64"),
    "words": (T.astype(str), "triplets must hold integers", "<U"),
    "empty": (T[:0], "triplets is empty", "at least one"),
    "positive is negative": (T[:, [0, 1, 1]], "with itself", "(12 of 12)"),
}


@pytest.mark.parametrize("name", BAD_TRIPLETS)
def test_bad_triplets_are_refused(name):
    bad, *fragments = BAD_TRIPLETS[name]
    assert_refused(lambda model: model.fit(X, triplets=bad), *fragments)


def test_triplets_of_a_mining_callable_are_checked():
    refuses({"mining": lambda rows, labels, rng: T + 1}, "triplets[9] names row 12")


QUADRUPLETS = np.array([[0, 1, 2, 3], [0, 1, 0, 2], [2, 2, 0, 1]])


@pytest.mark.parametrize("form", [np.int32, np.uint64, np.ndarray.tolist], ids=str)
def test_quadruplets_come_back_as_int64(form):
    comparisons = (
        form(QUADRUPLETS) if form is np.ndarray.tolist else QUADRUPLETS.astype(form)
    )
    checked = check_comparisons(comparisons, 4, "quadruplets", 4)
    assert checked.dtype == np.int64
    assert_array_equal(checked, QUADRUPLETS)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            QUADRUPLETS[:, :3],
            r"\(n_quadruplets, 4\): .*S\(a, b\) > S\(c, d\).*shape \(3, 3\)",
        ),
        (QUADRUPLETS[:0], "quadruplets is empty: at least one quadruplet is needed"),
        (QUADRUPLETS + 1, r"quadruplets\[0\] names row 4, but X has 4 rows"),
        (
            [[0, 1, 2, 3], [0, 1, 0, 1], [2, 3, 3, 2]],
            r"\[1\].*\(0, 1\) with itself.*\(2 of 3\)",
        ),
        ([[2, 3, 3, 2]], r"\[0\] compares the pair \(2, 3\) with itself.*\(1 of 1\)"),
    ],
    ids=["shape", "empty", "too large", "same pairs", "turned pair"],
)
def test_quadruplets_that_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        check_comparisons(bad, 4, "quadruplets", 4)


# --- labels ---------------------------------------------------------------------------


BAD_LABELS = {
    "nothing": (None, "requires y", "fit(X, y)", "fit(X, triplets=T)"),
    "one word": (
        ["spam"] * 12,
        "No triplet can be built",
        "one class, 'spam'.",
        "triplets=",
    ),
    "one number": ([3.0] * 12, "No triplet can be built", "one class, 3.0."),
    "none": ([], "0 labels", "12 rows", "one label per row"),
    "too many": (np.arange(13) % 2, "13 labels", "12 rows", "one label per row"),
    "continuous": (X[:, 0] + 0.3, "Unknown label type: continuous", "qcut"),
    "two columns": (np.column_stack([Y, Y + 2]), "indicator"),
    "inf": ([np.inf, 1.0] * 6,),
    "words and NaN": (["ant", "bee", np.nan] * 4, "4 of 12 rows", "Drop them"),
    "words and numbers": (["ant", 1] * 6, "all strings or all numbers"),
    "a row each": (np.arange(12), "No triplet can be built", "triplets="),
}


@pytest.mark.parametrize("name", BAD_LABELS)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")
def test_bad_labels_are_refused(name):
    bad, *fragments = BAD_LABELS[name]
    assert_refused(lambda model: model.fit(X, bad), *fragments)


@pytest.mark.parametrize("kind", ["float", "object", "string", "category", "Int64"])
def test_rows_without_a_label_are_counted(kind):
    labels = pytest.importorskip("pandas").Series([None, 1, 2] * 4, dtype=kind)
    assert_refused(lambda model: model.fit(X, labels), "4 of 12 rows", "Drop them")


# --- weights --------------------------------------------------------------------------


@pytest.mark.parametrize("by", [{"y": Y}, {"triplets": T}], ids=["rows", "triplets"])
def test_bad_weights_are_refused(by):
    def given(weights):
        return lambda model: model.fit(X, **by, sample_weight=weights)

    ones = np.ones(12)
    assert_refused(given(ones[:5]), "sample_weight", "(12,)", "(5,)")
    assert_refused(given(np.ones((12, 2))), "sample_weight", "(12,)", "(12, 2)")
    assert_refused(
        given(np.where(np.arange(12) == 3, -1, 1)), "sample_weight[3] is -1", ">= 0"
    )
    assert_refused(
        given(np.where(np.arange(12) == 3, np.nan, 1)), "sample_weight[3] is nan"
    )
    assert_refused(
        given(np.where(np.arange(12) == 3, np.inf, 1)), "sample_weight[3] is inf"
    )
    assert_refused(given(0 * ones), "sample_weight is zero everywhere")
    assert_refused(given(["heavy"] * 12))


def test_weights_that_leave_one_class_are_refused():
    assert_refused(
        lambda model: model.fit(X, Y, sample_weight=Y.astype(float)),
        "No triplet can be built",
    )


def test_weights_that_leave_no_mined_triplet_are_refused():
    model = HDSL(mining=lambda X, y, rng: np.array([[0, 2, 1]]))
    with pytest.raises(ValueError, match="weight"):
        model.fit(np.eye(4), [0, 1, 0, 1], sample_weight=[0, 1, 1, 1])


# --- parameters -----------------------------------------------------------------------

BAD_NUMBERS = [-1, -1e-9, np.nan, np.inf, -np.inf, "1", True, None, [1.0], 1j]


@pytest.mark.parametrize("value", [*BAD_NUMBERS, 1.5, 2.0, 0], ids=repr)
def test_what_is_not_a_positive_integer_is_refused(value):
    message = re.escape(
        f"The 'n' parameter of f must be an int >= 1. Got {value!r} instead."
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_number("f", "n", value, low=1, integer=True)


@pytest.mark.parametrize("value", [*BAD_NUMBERS, 5], ids=repr)
def test_what_is_not_a_number_in_range_is_refused(value):
    message = f"must be a float >= 0 and < 5 or 'auto'. Got {value!r} instead."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_number("f", "x", value, low=0, high=5, words=("auto",))


def owner(name):
    """Return the class that has a parameter."""
    for kind in (HDSL, Solver, Mining):
        if name in kind().get_params(deep=False):
            return kind.__name__
    raise KeyError(name)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("scale", 0, "float > 0 or 'auto'"),
        ("prior", -1e-9, "float >= 0 or 'auto'"),
        ("tol", np.nan, "float >= 0"),
        ("max_iter", 0, "int >= 1 or 'auto'"),
        ("n_targets", 1.5, "int >= 1"),
        ("n_impostors", None, "int >= 1"),
        ("batch_size", 0, "int >= 1 or None"),
        ("min_rows", 0, "int >= 1 or 'auto'"),
        ("max_anchors", "all", "int >= 2 or None"),
        ("validation_fraction", 0, "float > 0 and < 1"),
        ("validation_fraction", 1, "float > 0 and < 1"),
    ],
)
def test_bad_numbers_are_refused(name, value, expected):
    refuses(
        {name: value},
        f"'{name}' parameter of {owner(name)}",
        expected,
        f"Got {value!r}",
    )


@pytest.mark.parametrize(
    "name", ["max_iter", "scale", "batch_size", "n_targets", "prior"]
)
@pytest.mark.parametrize("value", [2**64, 10**400, 10**20])
def test_integers_beyond_64_bits_are_refused(name, value):
    refuses({name: value}, f"'{name}' parameter of {owner(name)}", "at most 64 bits")


WORDS = {
    "loss": ["smoothed_hinge", "squared_hinge", "logistic", "exponential"],
    "oracle": ["exact", "heuristic", "ascent"],
    "step": ["forward", "away", "pairwise", "blended", "corrective"],
    "init": ["oracle", "random"],
    "how": ["neighbors", "random", "callable"],
}


@pytest.mark.parametrize(
    ("name", "value"),
    list(zip(WORDS, ["hinge loss", "", "AWAY", 3, ["random"]], strict=True)),
)
def test_unknown_words_are_refused_with_the_known_ones(name, value):
    refuses(
        {name: value}, f"parameter of {owner(name)}", *WORDS[name], f"Got {value!r}"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"random_state": "seed"},
        {"n_jobs": 0},
        {"n_jobs": 10**30},
    ],
    ids=str,
)
def test_other_bad_parameters_are_refused(parameters):
    refuses(parameters, error=(ValueError, TypeError))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"callback": "print"}, "'callback' parameter of fit must be a callable"),
        ({"checkpoint": 3}, "'checkpoint' parameter of fit must be the path"),
        ({"memory_limit": -1}, "'memory_limit' parameter of fit must be a float >= 0"),
    ],
)
def test_bad_arguments_of_a_call_are_refused(arguments, message):
    assert_refused(lambda model: model.fit(X, Y, **arguments), message)


@pytest.mark.parametrize("name", ["solver", "mining"])
@pytest.mark.parametrize("value", [3, Solver, {"max_iter": 3}], ids=str)
def test_what_is_no_solver_or_mining_is_refused(name, value):
    assert_refused(
        lambda model: model.set_params(**{name: value}).fit(X, Y),
        f"'{name}' parameter of HDSL must be",
    )


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("max_iter", "solver=Solver(max_iter=...), or in a grid solver__max_iter"),
        ("n_targets", "mining=Mining(n_targets=...), or in a grid mining__n_targets"),
        ("checkpoint", "checkpoint= to fit"),
    ],
)
def test_a_former_name_says_the_new_one(name, new):
    message = f"HDSL has no parameter '{name}': pass {new}."
    with pytest.raises(TypeError, match=re.escape(message)):
        HDSL(**{name: 3})
    with pytest.raises(ValueError, match=re.escape(message)):
        HDSL().set_params(**{name: 3})
    with pytest.raises(TypeError, match="unexpected keyword"):
        HDSL(iterations=3)


# --- nothing is half-fitted -----------------------------------------------------------

BAD_FITS = {
    "parameter": lambda model: model.set_params(scale=-1).fit(X, Y),
    "value": lambda model: model.fit(with_value(np.nan)[:, :4], Y),
    "triplets": lambda model: model.fit(X[:, :4], triplets=T + 5),
    "labels": lambda model: model.fit(X[:, :4], Y[:3]),
    "weights": lambda model: model.fit(X[:, :4], Y, sample_weight=-Y),
    "one class": lambda model: model.fit(X[:, :4], 0 * Y),
    "nothing": lambda model: model.fit(X[:, :4]),
    "features": lambda model: model.fit(X[:, :4] * [1, 0, 0, 0], Y),
}


@pytest.mark.parametrize("bad_fit", BAD_FITS.values(), ids=BAD_FITS.keys())
def test_a_refused_fit_leaves_a_fitted_model_as_it_was(bad_fit):
    model = HDSL(solver=Solver(max_iter=3), random_state=0).fit(X, Y)
    before = model.similarity(X)
    with pytest.raises(ValueError, match=r"."):
        bad_fit(model)
    assert model.n_features_in_ == 5
    assert_array_equal(model.similarity(X), before)


# --- use ------------------------------------------------------------------------------

USES = {
    "transform": lambda model, A: model.transform(A),
    "rewrite": lambda model, A: model.rewrite(A),
    "similarity": lambda model, A: model.similarity(A),
    "pair_score": lambda model, A: model.pair_score(A, A),
}
SECOND_USES = {
    "similarity Y": lambda model, A, B: model.similarity(A, B),
    "pair_score Y": lambda model, A, B: model.pair_score(A, B),
}


@pytest.mark.parametrize(
    ("use", "form", "d"),
    [
        ("transform", np.asarray, 4),
        ("rewrite", sp.csr_array, 6),
        ("similarity", sp.csc_matrix, 4),
        ("pair_score", np.asarray, 6),
    ],
)
def test_another_number_of_features_is_refused(use, form, d):
    model = HDSL(solver=Solver(max_iter=2)).fit(form(X), Y)
    with pytest.raises(
        ValueError, match=f"X has {d} features, but HDSL is expecting 5 features"
    ):
        USES[use](model, form(np.ones((12, d))))
    for second in SECOND_USES.values():
        with pytest.raises(
            ValueError, match=f"Y has {d} features, but HDSL is expecting 5"
        ):
            second(model, form(X), form(np.ones((12, d))))


def test_other_feature_names_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = HDSL(solver=Solver(max_iter=2)).fit(frame, Y)
    renamed = frame.rename(columns={"c": "see"})
    for use in USES.values():
        with pytest.raises(
            ValueError, match=r"feature names should match(.|\n)*see(.|\n)*c"
        ):
            use(model, renamed)
        with pytest.raises(ValueError, match=r"must be in the same order"):
            use(model, frame[list("edcba")])
    for use in SECOND_USES.values():
        with pytest.raises(ValueError, match="feature names should match"):
            use(model, frame, renamed)


def test_pair_score_needs_as_many_rows_on_both_sides():
    model = HDSL(solver=Solver(max_iter=2)).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"X has 12 rows and Y has 7.*similarity\(X, Y\)"
    ):
        model.pair_score(X, X[:7])


METHODS = {
    **USES,
    "matrix": lambda model, A: model.matrix(),
    "at": lambda model, A: model.at(0),
    "components_": lambda model, A: model.components_,
    "similarity_": lambda model, A: model.similarity_,
    "get_feature_names_out": lambda model, A: model.get_feature_names_out(),
}


@pytest.mark.parametrize("use", METHODS.values(), ids=METHODS.keys())
def test_a_model_is_not_fitted_before_fit_and_after_a_refused_one(use):
    refused = HDSL()
    with pytest.raises(ValueError, match="one class"):
        refused.fit(X, 0 * Y)
    for model in (HDSL(), refused):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            use(model, X)


def test_values_in_messages_are_short():
    value = {
        str(k): [{"name": "x" * 10**6, "rows": [[10**50] * 9] * 9}] * 9
        for k in range(99)
    }
    assert len(short(value)) <= 200
    assert short("auto") == "'auto'"
    for value in ("x" * 10**6, 10**5000, [[10**5000]]):
        with pytest.raises(ValueError, match="loss") as caught:
            HDSL(loss=value).fit(X, Y)
        assert len(str(caught.value)) < 500


def test_two_columns_of_one_name_are_named():
    frame = pytest.importorskip("pandas").DataFrame(X[:, :3], columns=["a", "b", "a"])
    assert_refused(lambda model: model.fit(frame, Y), "more than one column", "'a'")
    frame.columns = ["anchor", "positive", "anchor"]
    with pytest.raises(ValueError, match="name more than once: rename one"):
        judgement_triplets(frame)
