"""HDSL as a scikit-learn estimator: its contract, its inputs, its outputs."""

import os
import pickle
import subprocess
import sys
import textwrap

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
from sklearn.preprocessing import MaxAbsScaler, normalize
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import reference
import strategies
from hdsl import HDSL
from hdsl.memory import NotEnoughMemory
from hdsl.triplets import neighbor_triplets
from pairwise import pairwise
from small_fits import (
    FORMS,
    STEPS,
    D,
    N,
    T,
    X,
    Y,
    as_quadruplets,
    assert_same_model,
    assert_whole,
    frame,
    interrupt_at,
    small,
    without_interrupt,
)

# scikit-learn's checks, and the sentences below, have small classes.
pytestmark = pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")

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


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else np.asarray(Z)


# --- scikit-learn's own checks -------------------------------------------------------------------


def as_list(mark):
    """Give pytest a list, which it asks for; scikit-learn 1.6 makes a generator."""
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)


@as_list(parametrize_with_checks([HDSL(max_iter=20)]))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


VARIANTS = [
    HDSL(prior=0.0, loss="squared_hinge", oracle="exact", step="blended", max_iter=20),
    # Pairwise steps from 0 leave ties of scores, which rounding settles.
    HDSL(loss="logistic", oracle="heuristic", step="pairwise", init="oracle", max_iter=20),
    HDSL(loss="exponential", step="forward", step_size="2/(k+2)", max_iter=20),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda model: model.step)
def test_scikit_learn_checks_of_variants(variant):
    results = check_estimator(variant, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_check_estimator_skips_and_excuses_nothing():
    # In its own process: one check is skipped unless array API is on before SciPy is imported.
    ended = run_python(
        """
        import warnings
        warnings.filterwarnings("ignore", "There is one row only")
        from sklearn.utils.estimator_checks import check_estimator
        from hdsl import HDSL
        results = check_estimator(HDSL(max_iter=20))
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
    model = HDSL(scale=10.0, prior=prior, max_iter=10, random_state=0)
    pipeline = make_pipeline(TfidfVectorizer(), model)
    Z = pipeline.fit_transform(SENTENCES, TOPICS)
    words = pipeline[0].get_feature_names_out()
    names = pipeline.get_feature_names_out()
    assert Z.shape == (len(SENTENCES), len(names))
    assert names.tolist() == atom_names(model, words) + (words.tolist() if prior > 0 else [])


def test_grid_search_reaches_the_parameters():
    pipeline = make_pipeline(HDSL(max_iter=5, random_state=0), KNeighborsClassifier(1))
    grid = {"hdsl__scale": [0.1, "auto"], "hdsl__step": ["away", "blended"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[0].scale == search.best_params_["hdsl__scale"]


def test_clone_is_unfitted_and_fits_the_same():
    fitted = small(step="pairwise", loss="logistic", batch_size=7).fit(X, triplets=T)
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()  # fit wrote no parameter either
    assert not hasattr(again, "atoms_")
    assert_same_model(again.fit(X, triplets=T), fitted)


@pytest.mark.parametrize(("library", "prior"), [("pandas", 0.2), ("polars", 0.0)])
def test_set_output(library, prior):
    frames = pytest.importorskip(library)
    model = small(prior=prior).fit(X, triplets=T).set_output(transform=library)
    Z = model.transform(X)
    assert isinstance(Z, frames.DataFrame)
    assert list(Z.columns) == model.get_feature_names_out().tolist()
    assert_array_equal(Z.to_numpy(), model.set_output(transform="default").transform(X))


def test_set_output_keeps_the_index():
    rows = frame(X).set_index(np.array([f"row {k}" for k in range(N)], dtype=object))
    Z = small().set_output(transform="pandas").fit(rows, triplets=T).transform(rows)
    assert Z.index.equals(rows.index)


@pytest.mark.parametrize("name", ["triplets", "quadruplets"])
def test_judgements_and_weights_are_routed_through_a_pipeline(name):
    given = {name: T if name == "triplets" else as_quadruplets(T)}
    given["sample_weight"] = np.random.default_rng(1).integers(1, 4, size=len(T)).astype(float)
    scaled = MaxAbsScaler().fit_transform(X)
    expected = small().fit(scaled, **given)
    with config_context(enable_metadata_routing=True):
        model = small().set_fit_request(**dict.fromkeys(given, True))
        pipeline = make_pipeline(MaxAbsScaler(), model, KNeighborsClassifier(1))
        pipeline.fit(X, Y, **given)
        assert_same_model(pipeline[1], expected)
    unweighted = small().fit(scaled, **{name: given[name]})
    assert unweighted.objective_ != expected.objective_  # the weights matter


def test_fit_transform_takes_triplets():
    expected = small().fit(X, triplets=T).transform(X)
    assert_array_equal(small().fit_transform(X, triplets=T), expected)


# --- names ---------------------------------------------------------------------------------------


def atom_names(model, features):
    sign = {1: "+", -1: "-"}
    return [f"{features[i]}{sign[s]}{features[j]}" for i, j, s in model.atoms_.tolist()]


def test_feature_names_out_without_names():
    model = small(prior=0.1).fit(X, triplets=T)
    assert set(model.atoms_[:, 2]) == {-1, 1}  # both signs are in this model
    columns = [f"x{i}" for i in range(D)]
    assert model.get_feature_names_out().tolist() == atom_names(model, columns) + columns
    letters = list("abcdefghijkl")
    assert model.get_feature_names_out(letters).tolist() == atom_names(model, letters) + letters
    with pytest.raises(ValueError, match=r"number of features \(12\), got 3"):
        model.get_feature_names_out(["a", "b", "c"])


def test_feature_names_out_of_a_frame():
    words = [f"word{i}" for i in range(D)]
    model = small().fit(frame(X), triplets=T)
    assert model.feature_names_in_.tolist() == words
    assert model.get_feature_names_out().tolist() == atom_names(model, words)
    assert model.get_feature_names_out(words).tolist() == atom_names(model, words)
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        model.get_feature_names_out(words[::-1])


# --- what was learned ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "dtype", "prior"),
    pairwise(
        [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array],
        [np.float64, np.float32],
        [0.0, 0.3],
    ),
)
def test_all_ways_to_score_agree_and_have_the_kind_of_the_input(form, dtype, prior):
    model = small(prior=prior).fit(form(X.astype(dtype)), triplets=T)
    A, B = X[:9], X[9:18]
    expected = prior * A @ B.T + A @ model.matrix().toarray() @ B.T
    A, B = form(A.astype(dtype)), form(B.astype(dtype))
    for method in (model.transform, model.rewrite):
        answer = method(A)
        assert sp.issparse(answer) == sp.issparse(A)
        assert not sp.issparse(answer) or answer.format == "csr"
        assert answer.dtype == dtype
    assert model.similarity(A).dtype == model.pair_score(A, B).dtype == dtype
    assert isinstance(model.similarity(A), np.ndarray)
    near = {"rtol": 1e-12, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-4}
    assert_allclose(dense(model.transform(A)) @ dense(model.transform(B)).T, expected, **near)
    assert_allclose(dense(model.rewrite(A) @ B.T), expected, **near)
    assert_allclose(model.similarity(A, B), expected, **near)
    assert_allclose(model.similarity(A), model.similarity(A, A), **near)
    assert_allclose(model.pair_score(A, B), np.diag(expected), **near)


@pytest.mark.parametrize("step", STEPS)
def test_what_a_fit_promises(step):
    model = small(step=step, scale=7.0).fit(X, triplets=T)
    assert_whole(model)
    i, j, sign = model.atoms_.T
    assert model.atoms_.dtype == np.int64
    assert (i < j).all()
    assert set(sign) <= {-1, 1}
    assert 3 not in model.atoms_[:, :2]  # the empty column
    assert len(np.unique(model.atoms_, axis=0)) == len(model.atoms_)
    assert (model.scale_, model.prior_) == (7.0, 0.0)
    assert (model.n_features_in_, model.n_triplets_) == (D, len(T))
    M, L = model.matrix(), model.components_
    assert sp.issparse(M)
    assert_allclose(M.trace(), 2 * 7.0, rtol=1e-12)
    M = M.toarray()
    assert_allclose(M, reference.model_matrix(model.atoms_, model.weights_, D, 7.0))
    assert reference.is_psd(M)
    assert L.shape == (len(model.weights_), D)
    assert_allclose((L.T @ L).toarray(), M, rtol=1e-12, atol=1e-12)
    assert_allclose(model.transform(X), X @ L.toarray().T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_the_trace_is_the_path(step):
    pandas = pytest.importorskip("pandas")
    model = small(step=step).fit(X, triplets=T)
    trace = pandas.DataFrame(model.trace_)
    assert len(trace) == model.n_iter_ + 1
    assert {"gap", "kind", "step_size", "i", "j", "sign"} <= set(trace.columns)
    assert trace["objective"].iloc[-1] == pytest.approx(model.objective_, abs=1e-12)
    assert (trace["objective"].diff().dropna() <= 1e-15).all()
    assert (trace["seconds"].diff().dropna() >= 0).all()
    for k in range(model.n_iter_ + 1):
        early = model.at(k)
        assert trace["n_atoms"][k] == len(early.weights_)
        assert trace["n_features"][k] == len(np.unique(early.atoms_[:, :2]))


# --- every model on the way ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "oracle"),
    [("forward", "exact"), ("away", "ascent"), ("pairwise", "heuristic"), ("blended", "exact")],
)
def test_at_is_the_run_that_stopped_there(step, oracle):
    whole = small(step=step, oracle=oracle).fit(X, triplets=T)
    assert whole.n_iter_ == 25
    for k in (1, 2, 3, 7, 12, 24, 25):
        early, replayed = whole.at(k), small(step=step, oracle=oracle, max_iter=k)
        replayed.fit(X, triplets=T)
        assert_array_equal(early.atoms_, replayed.atoms_)
        assert_allclose(early.weights_, replayed.weights_, rtol=0, atol=1e-12)
        assert early.objective_ == pytest.approx(replayed.objective_, abs=1e-12)
        assert early.n_iter_ == replayed.n_iter_ == k
        assert len(early.trace_) == k + 1


def test_at_is_a_separate_model():
    model = small(prior=0.2).fit(X, triplets=T)
    before = model.weights_.copy()
    assert model.at(0).weights_.tolist() == [1.0]
    assert_allclose(model.at(25).transform(X), model.transform(X), atol=1e-10)
    early = model.at(np.int64(6))
    assert early.transform(X).shape == (N, len(early.weights_) + D)
    assert len(early.get_feature_names_out()) == len(early.weights_) + D
    assert_same_model(early.at(3), model.at(3))
    early.weights_[:] = 0
    assert_array_equal(model.weights_, before)
    assert (model.n_iter_, model.status_, early.status_) == (25, "max_iter", "at")


def test_at_refuses_an_iteration_that_is_not_on_the_path():
    model = small().fit(X, triplets=T)
    for k in (-1, 26, 1.0, 1.5, "3", None, True, np.nan):
        with pytest.raises(ValueError, match=r"n_iter must be an int from 0 to 25.*Got"):
            model.at(k)


# --- the end of a run ----------------------------------------------------------------------------


def test_status_names_the_reason():
    assert small(max_iter=3).fit(X, triplets=T).status_ == "max_iter"
    optimal = small(oracle="exact", max_iter=1000, tol=1e-2).fit(X, triplets=T)
    assert (optimal.status_, optimal.gap_is_exact_) == ("optimal", True)
    assert 0 <= optimal.gap_ <= 1e-2
    easy = small(scale=1e3, max_iter=1000).fit([[1.0, 0], [1, 0], [0, 1]], triplets=[[0, 1, 2]])
    assert (easy.status_, easy.objective_, easy.gap_) == ("no_violation", 0, 0)


@pytest.mark.parametrize(
    ("step", "oracle", "seed"),
    [("away", "ascent", 2), ("pairwise", "heuristic", 5), ("blended", "ascent", 9),
     ("away", "heuristic", 10)],
)  # fmt: skip
def test_a_run_ends_with_the_gap_it_was_asked_for(step, oracle, seed):
    # Few starts find the best atom here, so small gaps are reported long before they are true.
    rows, judged = strategies.random_arrays(seed, n=60, d=400, T=600, density=0.05)
    model = small(scale=20.0, step=step, oracle=oracle, max_iter=20_000, tol=1e-5)
    model.fit(rows, triplets=judged)
    assert (model.status_, model.gap_is_exact_) == ("optimal", True)
    assert 0 <= model.gap_ <= 1e-5


def test_callback_sees_every_iteration_and_can_stop():
    seen = []

    def callback(state):
        seen.append((state.objective, state.atoms.copy(), len(state.weights)))
        assert state.n_iter == len(seen) - 1
        assert state.margins.shape == (len(T),)
        assert state.seconds >= 0
        assert state.gap >= 0
        return state.n_iter == 7

    shifted = np.hstack([np.zeros((N, 2)), X])  # empty columns are left out inside
    model = small(callback=callback).fit(shifted, triplets=T)
    assert (model.status_, model.n_iter_) == ("callback", 7)
    assert_array_equal([objective for objective, *_ in seen], model.trace_["objective"])
    assert_array_equal([n_atoms for *_, n_atoms in seen], model.trace_["n_atoms"])
    for k, (_, atoms, _) in enumerate(seen):
        assert_array_equal(atoms, model.at(k).atoms_)
    assert_same_model(model, small(max_iter=7).fit(shifted, triplets=T))


def test_interrupt_in_a_callback_keeps_the_model_so_far():
    for when in (0, 1, 6):
        model = small(callback=interrupt_at(when))
        without_interrupt(model.fit, X, triplets=T)
        assert (model.status_, model.n_iter_) == ("interrupted", when)
        assert_whole(model)
        assert model.transform(X).shape == (N, len(model.weights_))


@pytest.mark.parametrize(("step", "when"), [("away", 2), ("blended", 9)])
def test_interrupt_in_the_oracle_keeps_the_model_so_far(monkeypatch, step, when):
    from hdsl.core import oracle

    calls = []

    class Interrupted(oracle.Ascent):
        def __call__(self, gradient, rng):
            calls.append(1)
            if len(calls) == when:
                raise KeyboardInterrupt
            return super().__call__(gradient, rng)

    monkeypatch.setitem(oracle.ORACLES, "ascent", Interrupted)
    model = small(step=step, max_iter=200)
    without_interrupt(model.fit, X, triplets=T)
    assert model.status_ == "interrupted"
    assert model.n_iter_ == len(model.trace_) - 1
    assert_whole(model)


def test_an_error_in_a_callback_comes_out():
    with pytest.raises(ZeroDivisionError):
        small(callback=lambda state: 1 / 0).fit(X, triplets=T)


def test_memory_refusal_says_what_is_needed():
    with pytest.raises(
        NotEnoughMemory, match=r"allowed by memory_limit.*set batch_size="
    ) as caught:
        small(memory_limit=1e-7).fit(X, Y)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.is_limit
    assert error.needed > error.allowed == int(1e-7 * 2**30)
    assert small(memory_limit=None).fit(X, Y).n_iter_ == 25


# --- inputs --------------------------------------------------------------------------------------


def unsorted(A):
    """Return a read-only CSR matrix whose column numbers fall along each row."""
    A = sp.csr_matrix(A)
    for row in range(A.shape[0]):
        span = slice(A.indptr[row], A.indptr[row + 1])
        A.indices[span], A.data[span] = A.indices[span][::-1].copy(), A.data[span][::-1].copy()
    A.has_sorted_indices = False
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    return A


def in_halves(A):
    """Return a CSR array that stores each value in two halves, which is exact."""
    A = sp.csr_array(A)
    parts = np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), 2 * A.indptr
    return sp.csr_array(parts, shape=A.shape)


INPUTS = {
    **FORMS,
    "BSR": sp.bsr_array,
    "DIA": sp.dia_matrix,
    "DOK": sp.dok_array,
    "LIL": sp.lil_matrix,
    "unsorted": unsorted,
    "duplicates": in_halves,
    "pandas": frame,
    "pandas sparse": lambda A: pytest.importorskip("pandas").DataFrame.sparse.from_spmatrix(
        sp.csr_matrix(A)
    ),
    "polars": lambda A: pytest.importorskip("polars").DataFrame(A),
}


def content(A):
    """Return what must not change: the stored arrays of a sparse matrix, or all values."""
    if not sp.issparse(A):
        return [np.array(A)]
    if A.format == "dok":
        return [A.toarray()]
    names = ("data", "indices", "indptr", "rows", "offsets")
    return [np.array(getattr(A, name)) for name in names if hasattr(A, name)]


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS.keys())
def test_every_input_gives_the_same_model_and_is_unchanged(make):
    given = make(X)
    before = content(given)
    expected = small(prior=0.1, max_iter=10).fit(X, Y)
    model = small(prior=0.1, max_iter=10).fit(given, Y)
    assert_same_model(model, expected)
    assert model.objective_ == expected.objective_
    for method in ("transform", "rewrite", "similarity"):
        answer = getattr(model, method)(given)
        close = 1e-5 if answer.dtype == np.float32 else 1e-13
        assert_allclose(dense(answer), dense(getattr(expected, method)(X)), close, close)
    for now, then in zip(content(given), before, strict=True):
        assert_array_equal(now, then)
        assert now.dtype == then.dtype


def test_integers_are_numbers():
    whole = (8 * X).astype(np.int64)
    model = small(scale=0.01).fit(whole, triplets=T)
    assert_same_model(model, small(scale=0.01).fit(8 * X, triplets=T))
    assert model.transform(whole).dtype == np.float64


def test_read_only_triplets_and_weights_are_unchanged():
    given, weights = T.copy(), np.ones(len(T))
    given.flags.writeable = weights.flags.writeable = False
    small().fit(X, triplets=given, sample_weight=weights)
    assert_array_equal(given, T)


def test_labels_of_any_kind():
    labels = np.arange(N) % 3
    by_number, names = small().fit(X, labels), np.array(["ant", "bee", "cat"])
    for given in (names[labels], names[labels].tolist(), labels.astype(float), 5 * labels):
        assert_same_model(small().fit(X, given), by_number)
    assert_same_model(small().fit(X, Y == 0), small().fit(X, np.where(Y == 0, 5, 2)))


def test_triplets_are_used_where_labels_are_given_too():
    assert_same_model(small().fit(X, Y, triplets=T), small().fit(X, triplets=T))


def test_mining_by_neighbors_random_or_callable():
    made = neighbor_triplets(X, Y, 2, 3)
    by_name = small(n_impostors=3).fit(X, Y)
    assert by_name.n_triplets_ == len(made) == 6 * N
    assert_same_model(by_name, small().fit(X, triplets=made))
    seen = []

    def mine(rows, labels, rng):
        seen.append((rows.shape, np.asarray(labels).tolist(), type(rng)))
        return made

    assert_same_model(small(mining=mine).fit(X, Y), by_name)
    assert seen == [(X.shape, Y.tolist(), np.random.Generator)]
    assert small(mining="random", n_impostors=3).fit(X, Y).n_triplets_ == 6 * N


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
    assert len({fit(seed).objective_ for seed in range(4)}) > 1


# --- weights -------------------------------------------------------------------------------------


def assert_same_similarity(one, other):
    """Equal but for rounding, which adds up over the run."""
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    assert_allclose(one.similarity(X), other.similarity(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["rows", "triplets", "quadruplets"])
@pytest.mark.parametrize("automatic", ["scale", "prior"])
def test_weight_0_is_absence_and_whole_weights_are_repetition(kind, automatic):
    model = small(oracle="exact", max_iter=10, **{automatic: "auto"})

    def fit(chosen, weights=None):
        """Fit to some rows or judgements, which may be repeated."""
        given = {"sample_weight": weights}
        if kind == "rows":
            return clone(model).fit(X[chosen], Y[chosen], **given)
        judged = T if kind == "triplets" else as_quadruplets(T)
        return clone(model).fit(X, **{kind: judged[chosen]}, **given)

    n = N if kind == "rows" else len(T)
    everything, weights = np.arange(n), np.arange(n) % 4
    weighted = fit(everything, weights.astype(float))
    assert_same_similarity(weighted, fit(np.repeat(everything, weights)))
    assert_same_similarity(weighted, fit(everything, 1e-3 * weights))  # only ratios matter
    assert abs(weighted.objective_ - fit(everything).objective_) > 1e-6


def test_weights_of_rows_are_those_of_their_anchors():
    weights = np.random.default_rng(0).random(N)
    mined = small(mining=lambda rows, labels, rng: T).fit(X, Y, sample_weight=weights)
    of_anchors = weights[T[:, 0]]
    assert_same_model(mined, small().fit(X, triplets=T, sample_weight=of_anchors))
    assert_whole(mined, weights=of_anchors)  # the objective is the weighted mean


def test_a_row_may_be_its_own_positive():
    own = np.column_stack([T[:, 0], T[:, 0], T[:, 2]])
    own = own[own[:, 1] != own[:, 2]]
    model = small().fit(X, triplets=own)
    assert_whole(model, triplets=own)
    assert model.objective_ < model.trace_["objective"][0]


def slow_scale_and_prior(rows, triplets, weights):
    """Return 9 √n max(1, s/80) / m and max(1 / m, 15 / ‖x‖²); s counts values that are alike."""
    counted = np.array(triplets)[np.array(weights) > 0]
    a, p, q = (rows[np.array(triplets)[:, k]] for k in range(3))
    m = np.average(np.abs((a * (p - q)).sum(axis=1)), weights=weights)
    s = np.average((a**2).sum(axis=1) ** 2 / (a**4).sum(axis=1), weights=weights)
    n = len(np.unique(counted[:, 0]))
    own = np.average((a**2).sum(axis=1), weights=weights)
    return [9 * np.sqrt(n) * max(1, s / 80) / m, max(1 / m, 15 / own)]


def test_automatic_scale_and_prior_are_those_of_the_slow_formula():
    few = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    many = np.random.default_rng(0).random((4, 1000)) * (np.arange(1000) % 2)
    triplets = [[0, 1, 2], [2, 3, 0], [2, 3, 1], [1, 0, 3]]
    for rows in (few, many, -3 * many):
        for weights in ([1.0, 1, 1, 1], [2.0, 1, 3, 0]):
            for norm, compared in ((None, rows), ("l2", normalize(rows))):
                model = HDSL(norm=norm, max_iter=1)
                model.fit(rows, triplets=triplets, sample_weight=weights)
                expected = slow_scale_and_prior(compared, triplets, weights)
                assert_allclose([model.scale_, model.prior_], expected, rtol=1e-10)
    assert_allclose(slow_scale_and_prior(few, triplets[:3], [1, 1, 1])[1], 15 / 5)
    for norm, factor in ((None, 1e-120), ("l2", 1.0)):
        model = HDSL(norm=norm, max_iter=1)
        plain, huge = (clone(model).fit(f * many, triplets=triplets) for f in (1, 1e60))
        assert_allclose([huge.scale_, huge.prior_], [factor * plain.scale_, factor * plain.prior_])
