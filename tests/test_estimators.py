"""HDSL as a scikit-learn estimator: its contract, its inputs, its outputs."""

import io
import os
import pickle
import subprocess
import sys
import textwrap

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
import strategies
from hdsl import HDSL

# scikit-learn's checks, and the sentences below, have small classes.
pytestmark = pytest.mark.filterwarnings("ignore:Too few rows:UserWarning")

STEPS = ["forward", "away", "pairwise", "blended"]

SENTENCES = [
    "The central bank raised interest rates to slow inflation.",
    "Inflation fell as the bank kept interest rates high.",
    "Shares rose after the company reported a higher profit.",
    "The company cut its profit forecast and its shares fell.",
    "Investors sold bonds when the bank raised its rates.",
    "The market expects the bank to cut interest rates.",
    "The team won the match with a late goal.",
    "A late goal gave the visitors the match.",
    "The coach praised the team after the final.",
    "Two goals in the final won the cup for the team.",
    "The striker scored a goal and the fans cheered.",
    "Fans of both teams filled the stadium for the cup final.",
]
TOPICS = ["money"] * 6 + ["sport"] * 6


def rows_and_triplets(seed=0, n=24, d=10, T=60):
    """Rows with an empty column, in eighths so that float32 holds them exactly, and triplets."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 24, size=(n, d)) / 8 * (rng.random((n, d)) < 0.5)
    X[:, 3] = 0.0
    X[np.arange(d) % n, np.arange(d)] += np.arange(d) != 3
    triplets = np.array([rng.choice(n, size=3, replace=False) for _ in range(T)])
    return X, triplets


X, T = rows_and_triplets()
Y = np.arange(len(X)) % 3


def small(**parameters):
    return HDSL(**{"scale": 0.3, "prior": 0.0, "max_iter": 25, "tol": 0.0, "random_state": 0,
                   **parameters})  # fmt: skip


def assert_same_model(one, other):
    assert_array_equal(one.atoms_, other.atoms_)
    assert_array_equal(one.weights_, other.weights_)
    assert one.scale_ == other.scale_
    assert one.prior_ == other.prior_


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else np.asarray(Z)


# --- scikit-learn's own checks -------------------------------------------------------------------


def as_list(mark):
    """Give pytest a list, as it wants it; scikit-learn 1.6 makes a generator."""
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)


CHECKED = parametrize_with_checks(
    [
        HDSL(max_iter=100),
        HDSL(prior=0.0, oracle="exact", step="blended", max_iter=100),
        HDSL(oracle="heuristic", step="pairwise", max_iter=100),
        HDSL(loss="logistic", step="forward", step_size="2/(k+2)", max_iter=100),
    ]
)


@as_list(CHECKED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_check_estimator_excuses_nothing():
    # A process of its own: one check is skipped unless SciPy is told of array API before import.
    ended = run_python(
        """
        import warnings
        warnings.filterwarnings("ignore", "Too few rows")
        from sklearn.utils.estimator_checks import check_estimator
        from hdsl import HDSL
        results = check_estimator(HDSL())
        assert len(results) > 50, len(results)
        print({result["check_name"]: result["status"] for result in results
               if result["status"] != "passed"})
        """,
        SCIPY_ARRAY_API="1",
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "{}"


def test_importing_hdsl_compiles_nothing():
    ended = run_python(
        """
        import sys, hdsl
        assert hdsl.HDSL
        print([name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")])
        """
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "[]"


# --- with the rest of scikit-learn ---------------------------------------------------------------


@pytest.mark.parametrize("last", [KNeighborsClassifier(3), LogisticRegression()])
def test_pipeline_on_text(last):
    pipeline = make_pipeline(
        TfidfVectorizer(stop_words="english"), HDSL(max_iter=50, random_state=0), last
    )
    pipeline.fit(SENTENCES, TOPICS)
    assert pipeline.score(SENTENCES, TOPICS) == 1.0
    new = ["The bank left rates alone.", "Fans saw a late goal in the final."]
    assert pipeline.predict(new).tolist() == ["money", "sport"]


@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_pipeline_names_pairs_of_words(prior):
    pipeline = make_pipeline(
        TfidfVectorizer(), HDSL(scale=10.0, prior=prior, max_iter=10, random_state=0)
    )
    Z = pipeline.fit_transform(SENTENCES, TOPICS)
    words = pipeline[0].get_feature_names_out()
    names = pipeline.get_feature_names_out()
    assert Z.shape == (len(SENTENCES), len(names))
    learned = [
        f"{words[i]}{'+' if sign > 0 else '-'}{words[j]}" for i, j, sign in pipeline[1].atoms_
    ]
    assert names.tolist() == learned + (words.tolist() if prior > 0 else [])


def test_grid_search_reaches_the_parameters():
    pipeline = make_pipeline(HDSL(max_iter=10, random_state=0), KNeighborsClassifier(1))
    grid = {
        "hdsl__scale": [0.1, "auto"],
        "hdsl__prior": [0.0, "auto"],
        "hdsl__step": ["away", "blended"],
    }
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_[0]
    assert best.scale == search.best_params_["hdsl__scale"]


def test_clone_is_unfitted_and_fits_the_same():
    fitted = small(step="pairwise", loss="logistic", batch_size=7).fit(X, triplets=T)
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert not hasattr(again, "atoms_")
    assert_same_model(again.fit(X, triplets=T), fitted)


def test_fit_writes_no_parameter():
    model = HDSL(max_iter=5, random_state=0)
    before = model.get_params()
    model.fit(X, Y)
    assert model.get_params() == before


def through_pickle(model):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize("through", [through_pickle, through_joblib])
def test_a_stored_model_gives_the_same_outputs(through):
    fitted = small(prior=0.2).fit(X, triplets=T)
    again = through(fitted)
    assert_same_model(again, fitted)
    assert_array_equal(again.transform(X), fitted.transform(X))
    assert_array_equal(again.similarity(X), fitted.similarity(X))
    assert again.trace_.tobytes() == fitted.trace_.tobytes()
    assert_same_model(again.at(4), fitted.at(4))


def test_fits_side_by_side():
    scales = [0.1, 0.3, 1.0, 3.0]
    apart = [small(scale=scale).fit(X, triplets=T) for scale in scales]
    jobs = (joblib.delayed(small(scale=scale).fit)(X, triplets=T) for scale in scales)
    for one, other in zip(apart, joblib.Parallel(2, prefer="threads")(jobs), strict=True):
        assert_same_model(one, other)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("prior", [0.0, 0.2])
def test_set_output(library, prior):
    frames = pytest.importorskip(library)
    model = small(prior=prior).fit(X, triplets=T).set_output(transform=library)
    Z = model.transform(X)
    assert isinstance(Z, frames.DataFrame)
    assert list(Z.columns) == model.get_feature_names_out().tolist()
    assert_array_equal(Z.to_numpy(), model.set_output(transform="default").transform(X))


def test_set_output_keeps_the_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, index=[f"row {k}" for k in range(len(X))]).add_prefix("word")
    Z = small().set_output(transform="pandas").fit(frame, triplets=T).transform(frame)
    assert Z.index.equals(frame.index)


def test_triplets_and_weights_are_routed_through_a_pipeline():
    weights = np.random.default_rng(1).integers(1, 4, size=len(T)).astype(float)
    expected = small().fit(MaxAbsScaler().fit_transform(X), triplets=T, sample_weight=weights)
    with config_context(enable_metadata_routing=True):
        model = small().set_fit_request(triplets=True, sample_weight=True)
        pipeline = make_pipeline(MaxAbsScaler(), model)
        pipeline.fit(X, triplets=T, sample_weight=weights)
        assert_same_model(pipeline[-1], expected)
        before_knn = make_pipeline(MaxAbsScaler(), model, KNeighborsClassifier(1))
        before_knn.fit(X, Y, triplets=T, sample_weight=weights)
        assert_same_model(before_knn[1], expected)
    unweighted = small().fit(MaxAbsScaler().fit_transform(X), triplets=T)
    assert (unweighted.weights_[:1] != expected.weights_[:1]).all()  # the weights matter


def test_fit_transform_takes_triplets():
    assert_array_equal(
        small().fit_transform(X, triplets=T), small().fit(X, triplets=T).transform(X)
    )


# --- names ---------------------------------------------------------------------------------------


def test_feature_names_out_without_names():
    model = small().fit(X, triplets=T)
    expected = [f"x{i}{'+' if sign > 0 else '-'}x{j}" for i, j, sign in model.atoms_]
    assert model.get_feature_names_out().tolist() == expected
    assert {name for name in expected if "+" in name}, "both signs are in this model"
    assert {name for name in expected if "-" in name}, "both signs are in this model"
    with_prior = small(prior=0.1).fit(X, triplets=T).get_feature_names_out()
    assert with_prior[-X.shape[1] :].tolist() == [f"x{i}" for i in range(X.shape[1])]


def test_feature_names_out_of_a_frame():
    pandas = pytest.importorskip("pandas")
    words = [f"word{chr(97 + i)}" for i in range(X.shape[1])]
    model = small().fit(pandas.DataFrame(X, columns=words), triplets=T)
    assert model.feature_names_in_.tolist() == words
    expected = [f"{words[i]}{'+' if sign > 0 else '-'}{words[j]}" for i, j, sign in model.atoms_]
    assert model.get_feature_names_out().tolist() == expected
    assert model.get_feature_names_out(words).tolist() == expected
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        model.get_feature_names_out(words[::-1])


def test_feature_names_out_of_given_names():
    model = small().fit(X, triplets=T)
    i, j, sign = model.atoms_[0]
    first = model.get_feature_names_out(list("abcdefghij"))[0]
    assert first == f"{'abcdefghij'[i]}{'+' if sign > 0 else '-'}{'abcdefghij'[j]}"
    with pytest.raises(ValueError, match=r"number of features \(10\), got 3"):
        model.get_feature_names_out(["a", "b", "c"])


# --- what was learned ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("prior", [0.0, 0.3])
def test_all_ways_to_score_agree(form, prior):
    model = small(prior=prior).fit(form(X), triplets=T)
    A, B = X[:9], X[9:18]
    expected = prior * A @ B.T + A @ model.matrix().toarray() @ B.T
    near = {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(dense(model.transform(form(A))) @ dense(model.transform(form(B))).T, expected,
                    **near)  # fmt: skip
    assert_allclose(dense(model.rewrite(form(A)) @ form(B).T), expected, **near)
    similarity = model.similarity(form(A), form(B))
    assert isinstance(similarity, np.ndarray)
    assert_allclose(similarity, expected, **near)
    assert_allclose(model.similarity(form(A)), model.similarity(form(A), form(A)), **near)
    assert_allclose(model.pair_score(form(A), form(B)), np.diag(expected), **near)


@pytest.mark.parametrize("step", STEPS)
def test_matrix_is_psd_with_trace_two_lambda(step):
    model = small(step=step, scale=7.0).fit(X, triplets=T)
    M = model.matrix()
    assert sp.issparse(M)
    assert M.shape == (X.shape[1],) * 2
    assert_allclose(M.trace(), 2 * 7.0, rtol=1e-12)
    M = M.toarray()
    assert_allclose(M, reference.model_matrix(model.atoms_, model.weights_, X.shape[1], 7.0))
    assert np.linalg.eigvalsh(M)[0] >= -1e-12
    L = model.components_
    assert L.shape == (len(model.weights_), X.shape[1])
    assert_allclose((L.T @ L).toarray(), M, rtol=1e-12, atol=1e-12)
    assert_allclose(model.transform(X), X @ L.toarray().T, rtol=1e-12, atol=1e-12)


def test_fitted_attributes():
    model = small().fit(X, triplets=T)
    i, j, sign = model.atoms_.T
    assert model.atoms_.dtype == np.int64
    assert (i < j).all()
    assert set(sign) <= {-1, 1}
    assert 3 not in model.atoms_[:, :2]  # the empty column
    assert len(np.unique(model.atoms_, axis=0)) == len(model.atoms_)
    assert (model.weights_ > 0).all()
    assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
    assert (model.scale_, model.prior_) == (0.3, 0.0)
    assert model.n_features_in_ == X.shape[1]
    assert model.n_triplets_ == len(T)
    dense_problem = reference.Problem(X, T, "smoothed_hinge", 0.3)
    margins = dense_problem.margins(model.atoms_, model.weights_)
    assert model.objective_ == pytest.approx(dense_problem.value(margins), rel=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prior", [0.0, 0.3])
def test_outputs_have_the_kind_and_type_of_the_input(form, dtype, prior):
    given = form(X.astype(dtype))
    model = small(prior=prior).fit(given, triplets=T)
    for method in (model.transform, model.rewrite):
        answer = method(given)
        assert sp.issparse(answer) == sp.issparse(given)
        assert answer.dtype == dtype
        if sp.issparse(answer):
            assert answer.format == "csr"
    assert model.similarity(given).dtype == dtype
    assert model.pair_score(given, given).dtype == dtype


def test_float32_rows_score_nearly_as_float64_ones():
    model = small(prior=0.3).fit(X, triplets=T)
    assert_allclose(model.similarity(X.astype(np.float32)), model.similarity(X), rtol=1e-5)


def test_integers_are_numbers():
    whole = (8 * X).astype(np.int64)
    assert_same_model(
        small(scale=0.01).fit(whole, triplets=T), small(scale=0.01).fit(8 * X, triplets=T)
    )
    assert small().fit(whole, triplets=T).transform(whole).dtype == np.float64


# --- the run, and every model on its way ---------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ["ascent", "exact", "heuristic"])
def test_at_is_the_run_that_stopped_there(step, oracle):
    whole = small(step=step, oracle=oracle).fit(X, triplets=T)
    assert whole.n_iter_ == 25
    for k in range(1, whole.n_iter_ + 1):
        early, replayed = whole.at(k), small(step=step, oracle=oracle, max_iter=k)
        replayed.fit(X, triplets=T)
        assert_array_equal(early.atoms_, replayed.atoms_)
        assert_allclose(early.weights_, replayed.weights_, rtol=0, atol=1e-12)
        assert early.objective_ == pytest.approx(replayed.objective_, abs=1e-12)
        assert early.n_iter_ == replayed.n_iter_ == k
        assert len(early.trace_) == k + 1


def test_at_the_ends():
    model = small().fit(X, triplets=T)
    first, last = model.at(0), model.at(model.n_iter_)
    assert first.weights_.tolist() == [1.0]
    assert_array_equal(last.atoms_, model.atoms_)
    assert_allclose(last.weights_, model.weights_, rtol=0, atol=1e-12)
    assert last.objective_ == pytest.approx(model.objective_, abs=1e-12)
    assert_allclose(last.transform(X), model.transform(X), atol=1e-10)


def test_at_is_a_model_of_its_own():
    model = small(prior=0.2).fit(X, triplets=T)
    before = model.weights_.copy()
    early = model.at(np.int64(6))
    assert early.transform(X).shape == (len(X), len(early.weights_) + X.shape[1])
    assert len(early.get_feature_names_out()) == len(early.weights_) + X.shape[1]
    assert_same_model(early.at(3), model.at(3))
    early.weights_[:] = 0
    assert_array_equal(model.weights_, before)
    assert (model.n_iter_, model.status_) == (25, "max_iter")


@pytest.mark.parametrize("k", [-1, 26, 1.0, 1.5, "3", None, True, np.nan])
def test_at_an_iteration_that_never_was(k):
    model = small().fit(X, triplets=T)
    with pytest.raises(ValueError, match=r"n_iter must be an int from 0 to 25.*Got"):
        model.at(k)


@pytest.mark.parametrize("step", STEPS)
def test_trace(step):
    pandas = pytest.importorskip("pandas")
    model = small(step=step).fit(X, triplets=T)
    frame = pandas.DataFrame(model.trace_)
    assert len(frame) == model.n_iter_ + 1
    wanted = {"objective", "gap", "kind", "step_size", "i", "j", "sign", "n_atoms", "n_features",
              "seconds"}  # fmt: skip
    assert wanted <= set(frame.columns)
    assert frame["objective"].iloc[-1] == pytest.approx(model.objective_, abs=1e-12)
    assert (frame["objective"].diff().dropna() <= 1e-15).all()
    assert (frame["seconds"].diff().dropna() >= 0).all()
    for k in range(model.n_iter_ + 1):
        early = model.at(k)
        assert frame["n_atoms"][k] == len(early.weights_)
        assert frame["n_features"][k] == len(np.unique(early.atoms_[:, :2]))


def test_status_names_the_reason():
    assert small(max_iter=3).fit(X, triplets=T).status_ == "max_iter"
    optimal = small(oracle="exact", max_iter=1000, tol=1e-2).fit(X, triplets=T)
    assert optimal.status_ == "optimal"
    assert optimal.gap_is_exact_
    assert 0 <= optimal.gap_ <= 1e-2
    easy = small(scale=1e3, max_iter=1000).fit([[1.0, 0], [1, 0], [0, 1]], triplets=[[0, 1, 2]])
    assert easy.status_ == "no_violation"
    assert easy.objective_ == 0
    assert easy.gap_ == 0


@pytest.mark.parametrize("step", ["away", "pairwise", "blended"])
@pytest.mark.parametrize("oracle", ["ascent", "heuristic"])
def test_a_run_ends_where_it_was_asked_to(step, oracle):
    # Few starts find the best atom here, so small gaps are reported long before they are true.
    for seed in (2, 5, 9, 10):
        rows, judged = strategies.random_arrays(seed, n=60, d=400, T=600, density=0.05)
        model = small(scale=20.0, step=step, oracle=oracle, max_iter=20_000, tol=1e-5)
        model.fit(rows, triplets=judged)
        assert (model.status_, model.gap_is_exact_) == ("optimal", True)
        assert 0 <= model.gap_ <= 1e-5


def test_callback_sees_every_iteration_and_can_stop():
    seen = []

    def callback(state):
        seen.append((state.n_iter, state.objective, len(state.atoms), len(state.weights)))
        assert state.margins.shape == (len(T),)
        assert state.seconds >= 0
        assert state.gap >= 0
        return state.n_iter == 7

    model = small(callback=callback).fit(X, triplets=T)
    assert (model.status_, model.n_iter_) == ("callback", 7)
    assert [n_iter for n_iter, *_ in seen] == list(range(8))
    assert_array_equal([objective for _, objective, *_ in seen], model.trace_["objective"])
    assert_array_equal([atoms for *_, atoms, _ in seen], model.trace_["n_atoms"])
    assert_same_model(model, small(max_iter=7).fit(X, triplets=T))


def test_callback_atoms_are_columns_of_x():
    seen = []
    shifted = np.hstack([np.zeros((len(X), 2)), X])  # empty columns are left out inside
    model = small(callback=lambda state: seen.append(state.atoms.copy()))
    model.fit(shifted, triplets=T)
    assert len(seen) == model.n_iter_ + 1
    for k, atoms in enumerate(seen):
        assert_array_equal(atoms, model.at(k).atoms_)


def test_verbose_prints_lines_and_changes_nothing(capsys):
    quiet = small().fit(X, triplets=T)
    assert capsys.readouterr() == ("", "")
    seen = []
    loud = small(verbose=1, callback=lambda state: seen.append(state.n_iter)).fit(X, triplets=T)
    out, err = capsys.readouterr()
    assert out == ""
    first, *_, last = err.splitlines()
    assert first.startswith("0/25  obj ")
    assert last.startswith("25 iterations in ")
    assert len(seen) == 26
    assert_same_model(quiet, loud)


def fit_interrupted(model):
    """Fit; an interrupt that came out would end pytest itself."""
    try:
        model.fit(X, triplets=T)
    except KeyboardInterrupt:
        pytest.fail("the interrupt came out of fit")
    assert model.status_ == "interrupted"
    return model


def assert_usable(model):
    """The parts of a model agree with each other, and it can be used."""
    assert model.n_iter_ == len(model.trace_) - 1 >= 0
    last = model.at(model.n_iter_)
    assert_array_equal(last.atoms_, model.atoms_)
    assert_allclose(last.weights_, model.weights_, rtol=0, atol=1e-12)
    assert model.objective_ == pytest.approx(model.trace_["objective"][-1], abs=1e-12)
    assert model.transform(X).shape == (len(X), len(model.weights_))


@pytest.mark.parametrize("when", [0, 1, 6])
def test_interrupt_in_a_callback_keeps_the_model_so_far(when):
    def callback(state):
        if state.n_iter == when:
            raise KeyboardInterrupt

    model = fit_interrupted(small(callback=callback))
    assert model.n_iter_ == when
    assert_usable(model)


@pytest.mark.parametrize("step", ["away", "blended"])
@pytest.mark.parametrize("when", [2, 9])
def test_interrupt_in_the_oracle_keeps_the_model_so_far(monkeypatch, step, when):
    from hdsl.core import oracle, solver

    calls = []

    class Interrupted(oracle.Ascent):
        def __call__(self, gradient, rng):
            calls.append(1)
            if len(calls) == when:
                raise KeyboardInterrupt
            return super().__call__(gradient, rng)

    monkeypatch.setitem(solver.ORACLES, "ascent", Interrupted)
    assert_usable(fit_interrupted(small(step=step, max_iter=200)))


def test_an_error_in_a_callback_is_the_users():
    with pytest.raises(ZeroDivisionError):
        small(callback=lambda state: 1 / 0).fit(X, triplets=T)


# --- inputs --------------------------------------------------------------------------------------


def int64_indices(A):
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


def with_explicit_zeros(make):
    full = make((np.ones(X.size), np.indices(X.shape).reshape(2, -1)), shape=X.shape)
    full = full.tocsr()
    full.data = X.ravel().copy()
    return full


def with_unsorted_indices(make):
    A = make(X)
    for row in range(A.shape[0]):
        span = slice(A.indptr[row], A.indptr[row + 1])
        A.indices[span], A.data[span] = A.indices[span][::-1].copy(), A.data[span][::-1].copy()
    A.has_sorted_indices = False
    return A


def with_duplicates(make):
    """Each value in two halves, which is exact."""
    A = make(X)
    parts = np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), 2 * A.indptr
    return make(parts, shape=A.shape)


def read_only(A):
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    return A


FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
INPUTS = {
    **{f"{f}_matrix": lambda f=f: getattr(sp, f"{f}_matrix")(X) for f in FORMATS},
    **{f"{f}_array": lambda f=f: getattr(sp, f"{f}_array")(X) for f in FORMATS},
    "ndarray": X.copy,
    "fortran": lambda: np.asfortranarray(X),
    "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    "list": X.tolist,
    "float32": lambda: X.astype(np.float32),
    "float32 csr": lambda: sp.csr_array(X.astype(np.float32)),
    "float32 csc": lambda: sp.csc_matrix(X.astype(np.float32)),
    "int64 indices": lambda: int64_indices(sp.csr_array(X)),
    "int64 indices csc": lambda: int64_indices(sp.csc_array(X)),
    "explicit zeros": lambda: with_explicit_zeros(sp.coo_matrix),
    "explicit zeros array": lambda: with_explicit_zeros(sp.coo_array),
    "unsorted": lambda: with_unsorted_indices(sp.csr_matrix),
    "unsorted array": lambda: with_unsorted_indices(sp.csr_array),
    "duplicates": lambda: with_duplicates(sp.csr_matrix),
    "duplicates array": lambda: with_duplicates(sp.csr_array),
    "duplicates coo": lambda: with_duplicates(sp.csr_array).tocoo(),
    "read-only csr": lambda: read_only(sp.csr_array(X)),
    "read-only unsorted": lambda: read_only(with_unsorted_indices(sp.csr_array)),
    "read-only duplicates": lambda: read_only(with_duplicates(sp.csr_matrix)),
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(X).add_prefix("f"),
    "pandas sparse": lambda: pytest.importorskip("pandas").DataFrame.sparse.from_spmatrix(
        sp.csr_matrix(X)
    ),
    "polars": lambda: pytest.importorskip("polars").DataFrame(X),
}
CANONICAL = sp.csr_array(X)


def content(A):
    """What must not change: the stored arrays of a sparse matrix, or all values."""
    if not sp.issparse(A):
        return [np.array(A)]
    if A.format == "dok":
        return [A.toarray()]
    names = ("data", "indices", "indptr", "row", "col", "rows", "offsets")
    return [np.array(getattr(A, name)) for name in names if hasattr(A, name)]


def assert_left_alone(given, before):
    for now, then in zip(content(given), before, strict=True):
        assert_array_equal(now, then)
        assert now.dtype == then.dtype


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS.keys())
def test_every_input_gives_the_model_of_the_canonical_one_and_is_left_alone(make):
    given = make()
    before = content(given)
    expected = small(prior=0.1).fit(CANONICAL, triplets=T)
    model = small(prior=0.1).fit(given, triplets=T)
    assert_same_model(model, expected)
    assert model.objective_ == expected.objective_
    for method in ("transform", "rewrite", "similarity"):
        answer = getattr(model, method)(given)
        close = 1e-5 if answer.dtype == np.float32 else 1e-13
        assert_allclose(dense(answer), dense(getattr(expected, method)(CANONICAL)), close, close)
    assert_left_alone(given, before)


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS.keys())
def test_every_input_with_labels_gives_the_model_of_the_canonical_one(make):
    given = make()
    before = content(given)
    assert_same_model(
        HDSL(max_iter=10, random_state=0).fit(given, Y),
        HDSL(max_iter=10, random_state=0).fit(CANONICAL, Y),
    )
    assert_left_alone(given, before)


TRIPLETS = {
    "int32": lambda: T.astype(np.int32),
    "uint8": lambda: T.astype(np.uint8),
    "uint64": lambda: T.astype(np.uint64),
    "fortran": lambda: np.asfortranarray(T),
    "list": T.tolist,
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(T),
    "polars": lambda: pytest.importorskip("polars").DataFrame(T),
}


@pytest.mark.parametrize("make", TRIPLETS.values(), ids=TRIPLETS.keys())
def test_triplets_in_any_form(make):
    assert_same_model(small().fit(X, triplets=make()), small().fit(X, triplets=T))


def test_triplets_are_left_alone():
    given, weights = T.copy(), np.ones(len(T))
    given.flags.writeable = weights.flags.writeable = False
    small().fit(X, triplets=given, sample_weight=weights)
    assert_array_equal(given, T)


def test_labels_of_any_kind():
    by_number = small().fit(X, Y)
    assert_same_model(small().fit(X, np.array(["ant", "bee", "cat"])[Y]), by_number)
    assert_same_model(small().fit(X, [["ant", "bee", "cat"][k] for k in Y]), by_number)
    assert_same_model(small().fit(X, Y.astype(float)), by_number)
    assert_same_model(small().fit(X, (Y == 0).astype(bool)), small().fit(X, np.where(Y == 0, 5, 2)))


def test_triplets_win_over_labels():
    assert_same_model(small().fit(X, Y, triplets=T), small().fit(X, triplets=T))


def test_mining_by_neighbors_random_or_callable():
    from hdsl.triplets import neighbor_triplets

    made = neighbor_triplets(X, Y, 2, 3)
    by_name = small(n_targets=2, n_impostors=3).fit(X, Y)
    assert by_name.n_triplets_ == len(made) == 6 * len(X)
    assert_same_model(by_name, small().fit(X, triplets=made))
    seen = []

    def mine(rows, labels, rng):
        seen.append((rows.shape, np.asarray(labels).tolist(), type(rng)))
        return made

    assert_same_model(small(mining=mine).fit(X, Y), by_name)
    assert seen == [(X.shape, Y.tolist(), np.random.Generator)]
    random = small(mining="random", n_targets=2, n_impostors=3)
    assert random.fit(X, Y).n_triplets_ == 6 * len(X)


# --- threads and seeds ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """Rows and triplets with enough work that two threads both get some."""
    rng = np.random.default_rng(0)
    n, d, per_row, n_triplets = 4000, 2000, 25, 100_000
    columns = (rng.integers(d, size=(n, 1)) + np.arange(per_row) * rng.integers(1, 80, (n, 1))) % d
    rows = np.repeat(np.arange(n), per_row)
    A = sp.csr_array((rng.random(n * per_row), (rows, columns.ravel())), shape=(n, d))
    anchor = rng.integers(n, size=n_triplets)
    others = rng.integers(n - 1, size=n_triplets)
    return A, np.column_stack([anchor, others, others + 1])


@pytest.mark.parametrize(("step", "prior"), [("away", 0.0), ("blended", 0.1)])
@pytest.mark.parametrize(("oracle", "max_iter"), [("ascent", 10), ("heuristic", 10), ("exact", 2)])
def test_threads_change_no_bit(large, oracle, max_iter, step, prior):
    def fit(n_jobs):
        model = HDSL(0.5, prior=prior, oracle=oracle, step=step, max_iter=max_iter, random_state=0)
        return model.set_params(n_jobs=n_jobs).fit(large[0], triplets=large[1])

    one, two = fit(1), fit(2)
    assert_same_model(one, two)
    for name in set(one.trace_.dtype.names) - {"seconds"}:
        assert_array_equal(one.trace_[name], two.trace_[name])


def test_threads_change_no_neighbor(large):
    y = np.arange(large[0].shape[0]) % 5
    one, two = (
        HDSL(max_iter=3, random_state=0, n_jobs=n_jobs).fit(large[0], y) for n_jobs in (1, 2)
    )
    assert_same_model(one, two)


@pytest.mark.parametrize(
    "parameters",
    [{"oracle": "heuristic"}, {"batch_size": 9}, {"init": "random"}, {"mining": "random"}],
    ids=lambda p: next(iter(p)),
)
def test_seeds(parameters):
    def fit(seed):
        return small(**parameters, max_iter=8).set_params(random_state=seed).fit(X, Y)

    assert_same_model(fit(5), fit(5))
    assert_same_model(fit(5), fit(np.random.RandomState(5)))
    others = [fit(seed) for seed in range(4)]
    assert len({model.objective_ for model in others}) > 1


# --- weights -------------------------------------------------------------------------------------


def assert_same_similarity(one, other):
    """Equal but for rounding, which adds up over the run."""
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    assert_allclose(one.similarity(X), other.similarity(X), rtol=1e-7, atol=1e-9)


AUTO = [{}, {"scale": "auto"}, {"prior": "auto"}]
auto = pytest.mark.parametrize("parameters", AUTO, ids=["given", "auto scale", "auto prior"])


@auto
def test_weight_zero_of_a_triplet_is_absence(parameters):
    weights = (np.arange(len(T)) % 3 > 0).astype(float)
    model = small(**parameters, oracle="exact", max_iter=10)
    weighted = clone(model).fit(X, triplets=T, sample_weight=weights)
    assert_same_similarity(weighted, model.fit(X, triplets=T[weights > 0]))


@auto
def test_whole_weights_of_triplets_are_repetition(parameters):
    weights = 1 + np.arange(len(T)) % 3
    model = small(**parameters, oracle="exact", max_iter=10)
    weighted = clone(model).fit(X, triplets=T, sample_weight=weights)
    repeated = clone(model).fit(X, triplets=np.repeat(T, weights, axis=0))
    assert_same_similarity(weighted, repeated)
    assert repeated.n_triplets_ == weights.sum()
    once = model.fit(X, triplets=T)
    assert abs(repeated.objective_ - once.objective_) > 1e-6  # multiplicity counts


def test_only_the_ratios_of_weights_matter():
    weights = np.random.default_rng(0).random(len(T))
    model = small(oracle="exact", max_iter=10)
    small_ones = clone(model).fit(X, triplets=T, sample_weight=1e-3 * weights)
    assert_same_similarity(small_ones, model.fit(X, triplets=T, sample_weight=weights))


@auto
def test_weight_zero_of_a_row_is_absence(parameters):
    weights = (np.arange(len(X)) % 4 > 0).astype(float)
    model = small(**parameters, oracle="exact", max_iter=10)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    kept = weights > 0
    assert_same_similarity(weighted, model.fit(X[kept], Y[kept]))


@auto
def test_whole_weights_of_rows_are_repetition(parameters):
    weights = 1 + np.arange(len(X)) % 3
    model = small(**parameters, oracle="exact", max_iter=10)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    assert_same_similarity(weighted, repeated)


def test_weights_of_rows_are_those_of_their_anchors():
    weights = np.random.default_rng(0).random(len(X))
    mined = small(mining=lambda rows, labels, rng: T).fit(X, Y, sample_weight=weights)
    assert_same_model(mined, small().fit(X, triplets=T, sample_weight=weights[T[:, 0]]))


def test_weighted_objective_is_the_weighted_mean():
    weights = np.random.default_rng(0).random(len(T))
    model = small().fit(X, triplets=T, sample_weight=weights)
    problem = reference.Problem(X, T, "smoothed_hinge", 0.3, weights=weights)
    margins = problem.margins(model.atoms_, model.weights_)
    assert model.objective_ == pytest.approx(problem.value(margins), rel=1e-12)


def test_a_row_may_be_its_own_positive():
    own = np.column_stack([T[:, 0], T[:, 0], T[:, 2]])
    model = small().fit(X, triplets=own)
    problem = reference.Problem(X, own, "smoothed_hinge", 0.3)
    margins = problem.margins(model.atoms_, model.weights_)
    assert model.objective_ == pytest.approx(problem.value(margins), rel=1e-12)
    assert model.objective_ < model.trace_["objective"][0]


def test_automatic_scale_and_prior_by_hand():
    """10 √n max(1, s/80) / m and 1 / m; s counts values that are alike."""
    few = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    T = [[0, 1, 2], [2, 3, 0], [2, 3, 1]]
    m = np.mean([4 - 1, 4 - 1, 4 - 2])
    model = HDSL(max_iter=1).fit(few, triplets=T)
    assert_allclose([model.scale_, model.prior_], [10 * np.sqrt(2) / m, 1 / m])
    rng = np.random.default_rng(0)
    many = (rng.random((4, 1000)) < 0.5).astype(float)  # some 500 ones a row
    model = HDSL(max_iter=1).fit(many, triplets=T)
    m = np.mean([abs(many[a] @ (many[p] - many[q])) for a, p, q in T])
    s = np.mean([many[a].sum() for a, _, _ in T])
    assert_allclose([model.scale_, model.prior_], [10 * np.sqrt(2) * s / 80 / m, 1 / m])
    huge = HDSL(max_iter=1).fit(1e60 * many, triplets=T)  # fourth powers are no numbers
    assert_allclose([huge.scale_, huge.prior_], [1e-120 * model.scale_, 1e-120 * model.prior_])
