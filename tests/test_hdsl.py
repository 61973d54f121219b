"""HDSL as a scikit-learn estimator: the checks, pipelines, searches, names of features."""

import os
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import check_estimator

import hdsl
from hdsl import HDSL, Mining, Solver
from sklearn_checks import every_check
from small_fits import D, N, T, X, Y, as_quadruplets, assert_same_model, frame, small

# scikit-learn's checks, and the sentences below, have small classes.
pytestmark = pytest.mark.filterwarnings(
    "ignore:There is one row only:UserWarning",
    "ignore:Nothing is learned:UserWarning",
)

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


# --- scikit-learn's own checks --------------------------------------------------------


@every_check(HDSL())
def test_scikit_learn_checks(estimator, check):
    check(estimator)


VARIANTS = [
    HDSL(
        prior=0.0,
        loss="squared_hinge",
        solver=Solver(oracle="exact", step="blended", max_iter=5),
    ),
    # Pairwise steps from 0 leave ties of scores, which rounding settles.
    HDSL(
        prior=1.0,
        loss="logistic",
        solver=Solver(oracle="heuristic", step="pairwise", init="oracle", max_iter=5),
    ),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda model: model.solver.step)
def test_scikit_learn_checks_of_variants(variant):
    results = check_estimator(variant, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_an_import_compiles_nothing_and_check_estimator_excuses_nothing():
    # In its own process: one check is skipped unless array API is on before SciPy is
    # imported.
    code = """
        import sys, warnings
        warnings.filterwarnings("ignore", "There is one row only")
        from sklearn.utils.estimator_checks import check_estimator
        from hdsl import HDSL, SimilarityKNeighborsClassifier, Solver
        assert not {"numba", "llvmlite"} & sys.modules.keys()  # an import compiles nothing
        forward = HDSL(prior=1.0, loss="exponential", solver=Solver("forward", max_iter=5))
        for model in (forward, SimilarityKNeighborsClassifier()):
            results = check_estimator(model)
            assert len(results) > 50, len(results)
            print({result["check_name"]: result["status"] for result in results
                   if result["status"] != "passed"})
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["{}", "{}"]


# --- with the rest of scikit-learn ----------------------------------------------------


@pytest.mark.parametrize("last", [KNeighborsClassifier(3), LogisticRegression()])
def test_pipeline_on_text(last):
    pipeline = make_pipeline(
        TfidfVectorizer(stop_words="english"),
        HDSL(prior=1.0, solver=Solver(max_iter=50), random_state=0),
        last,
    )
    pipeline.fit(SENTENCES, TOPICS)
    assert pipeline.score(SENTENCES, TOPICS) == 1.0
    new = ["The bank left rates alone.", "Fans saw a late goal in the final."]
    assert pipeline.predict(new).tolist() == ["money", "sport"]


@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_pipeline_names_pairs_of_words(prior):
    model = HDSL(scale=10.0, prior=prior, solver=Solver(max_iter=10), random_state=0)
    pipeline = make_pipeline(TfidfVectorizer(), model)
    Z = pipeline.fit_transform(SENTENCES, TOPICS)
    words = pipeline[0].get_feature_names_out()
    names = pipeline.get_feature_names_out()
    assert Z.shape == (len(SENTENCES), len(names))
    assert names.tolist() == atom_names(model, words) + (
        words.tolist() if prior > 0 else []
    )


def test_grid_search_reaches_the_parameters():
    pipeline = make_pipeline(
        HDSL(prior=1.0, solver=Solver(max_iter=5)), KNeighborsClassifier(1)
    )
    grid = {"hdsl__scale": [0.1, "auto"], "hdsl__solver__step": ["away", "blended"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[0].scale == search.best_params_["hdsl__scale"]


def test_parameters_of_the_default_solver_and_mining_are_set_by_name():
    model = HDSL(mining="random")
    assert model.get_params()["solver__max_iter"] == 15
    assert model.get_params()["mining__how"] == "random"
    model.set_params(solver__max_iter=3, mining__n_targets=2)
    assert repr(model.solver) == "Solver(max_iter=3)"
    assert repr(model.mining) == "Mining(how='random', n_targets=2)"
    assert repr(clone(model)) == repr(model)
    assert HDSL().solver is None  # the default is nobody's to change


def test_parameters_of_a_model_of_the_path_are_its_own():
    model = small().fit(X, Y)
    earlier = model.at(1).set_params(solver__max_iter=3, mining__n_targets=1)
    assert earlier.solver.max_iter == 3
    assert model.solver.max_iter == 25
    assert model.mining.n_targets == 2


@pytest.mark.parametrize("model", [HDSL(), HDSL(solver=Solver(), mining=Mining())])
def test_grid_search_goes_by_the_share_of_rows_whose_neighbors_vote_right(model):
    grid = {"solver__max_iter": [1, 3], "mining__n_targets": [1, 2]}
    model = clone(model).set_params(prior=2.0, random_state=0)
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, Y)
    best = search.best_estimator_
    assert best.solver.max_iter == search.best_params_["solver__max_iter"]
    assert best.score(X, Y) == 1.0 - hdsl.evaluate.knn_error(best, X, Y)


def test_score_of_comparisons_is_the_share_that_holds():
    model = small().fit(X, triplets=T)
    weights = np.arange(1.0, len(T) + 1)
    accuracy = partial(hdsl.evaluate.triplet_accuracy, model, X)
    assert model.score(X, triplets=T) == accuracy(T)
    assert model.score(X, quadruplets=as_quadruplets(T)) == accuracy(T)
    expected = accuracy(T, sample_weight=weights)
    assert model.score(X, triplets=T, sample_weight=weights) == expected
    judged = hdsl.triplets.Judgements(T, weights, X=X)
    assert model.score(judged) == expected
    with pytest.raises(ValueError, match="got y and triplets"):
        model.score(X, Y, triplets=T)
    with pytest.raises(ValueError, match="triplets or quadruplets, but got both"):
        model.score(X, triplets=T, quadruplets=as_quadruplets(T))
    with pytest.raises(ValueError, match="needs labels y, triplets or quadruplets"):
        model.score(X)


def test_clone_is_unfitted_and_fits_the_same():
    fitted = small(step="pairwise", loss="logistic", batch_size=7).fit(X, triplets=T)
    again = clone(fitted)
    assert repr(again) == repr(fitted)  # fit wrote no parameter either
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
    given["sample_weight"] = (
        np.random.default_rng(1).integers(1, 4, size=len(T)).astype(float)
    )
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


# --- names ----------------------------------------------------------------------------


def atom_names(model, features):
    sign = {1: "+", -1: "-"}
    return [f"{features[i]}{sign[s]}{features[j]}" for i, j, s in model.atoms_.tolist()]


def test_feature_names_out_without_names():
    model = small(prior=0.1).fit(X, triplets=T)
    assert set(model.atoms_[:, 2]) == {-1, 1}  # both signs are in this model
    columns = [f"x{i}" for i in range(D)]
    assert (
        model.get_feature_names_out().tolist() == atom_names(model, columns) + columns
    )
    letters = list("abcdefghijkl")
    assert (
        model.get_feature_names_out(letters).tolist()
        == atom_names(model, letters) + letters
    )
    with pytest.raises(ValueError, match=r"number of features \(12\), got 3"):
        model.get_feature_names_out(["a", "b", "c"])


def test_feature_names_out_of_a_frame():
    words = [f"word{i}" for i in range(D)]
    model = small().fit(frame(X), triplets=T)
    assert model.feature_names_in_.tolist() == words
    assert model.get_feature_names_out().tolist() == atom_names(model, words)
    assert model.get_feature_names_out(words).tolist() == atom_names(model, words)
    with pytest.raises(
        ValueError, match="input_features is not equal to feature_names_in_"
    ):
        model.get_feature_names_out(words[::-1])
