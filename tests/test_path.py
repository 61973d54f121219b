"""The path of HDSL: stopped early, gone on with, mined along, cut in rank, kept in files."""

import pickle
import pkgutil

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import hdsl
import reference
import strategies
from hdsl import HDSL, SimilarityKNeighborsClassifier
from hdsl.estimators.monitor import knn_accuracy, triplet_accuracy
from hdsl.triplets import neighbor_triplets, random_triplets

STEPS = ["forward", "away", "pairwise", "blended"]
FORMS = {"dense": np.asarray, "sparse": sp.csr_array, "float32": lambda A: A.astype(np.float32)}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def labelled_rows(seed=3, n=60, d=12):
    """Rows in eighths, which float32 holds, whose label is the larger of two features."""
    rng = np.random.default_rng(seed)
    A = rng.integers(1, 24, size=(n, d)) / 8 * (rng.random((n, d)) < 0.5)
    A[:, :2] += 1 / 8
    return A, (A[:, 0] > A[:, 1]).astype(int)


ROWS, LABELS = labelled_rows()
X, Y, X_VAL, Y_VAL = ROWS[:40], LABELS[:40], ROWS[40:], LABELS[40:]
N, D = X.shape
T, T_VAL = (strategies.random_arrays(seed, n, T=80)[1] for seed, n in ((0, 40), (1, 20)))
LEARN = {"labels": {"y": Y}, "triplets": {"triplets": T}}
VALIDATE = {
    "labels": {"X_val": X_VAL, "y_val": Y_VAL},
    "triplets": {"X_val": X_VAL, "triplets_val": T_VAL},
}
KINDS = ["labels", "triplets"]


def small(**parameters):
    return HDSL(**{"scale": 0.3, "prior": 0.0, "max_iter": 25, "tol": 0.0, "random_state": 0,
                   "n_targets": 2, "n_impostors": 2, **parameters})  # fmt: skip


def frame(A):
    return pytest.importorskip("pandas").DataFrame(A).add_prefix("word")


def scored(model):
    """Return iteration to validation score, from the trace."""
    scores = model.trace_["validation_score"]
    return {int(k): float(scores[k]) for k in np.flatnonzero(~np.isnan(scores))}


def score_of(kind, model):
    """Return the default score of a model on the validation data."""
    rows = sp.csr_array(X_VAL)
    if kind == "labels":
        return knn_accuracy(sp.csr_array(X), Y, rows, Y_VAL)(model.similarity_)
    return triplet_accuracy(rows, T_VAL)(model.similarity_)


def assert_same_model(one, other):
    assert_array_equal(one.atoms_, other.atoms_)
    assert_array_equal(one.weights_, other.weights_)
    assert (one.scale_, one.prior_, one.n_iter_) == (other.scale_, other.prior_, other.n_iter_)


def assert_whole(model, rows, triplets, weights=None):
    """The parts of a model agree with each other and with dense algebra."""
    dense = reference.Problem(rows, triplets, model.loss, model.scale_, model.prior_, weights)
    value = dense.value(dense.margins(model.atoms_, model.weights_))
    assert model.objective_ == pytest.approx(value, rel=1e-11)
    assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
    assert (model.weights_ > 0).all()
    for k in range(len(model.trace_)):
        assert len(model.at(k).weights_) == model.trace_["n_atoms"][k]
    replayed = model.at(len(model.trace_) - 1).at(model.n_iter_)
    assert_array_equal(replayed.atoms_, model.atoms_)
    assert_allclose(replayed.weights_, model.weights_, rtol=0, atol=1e-12)


# --- early stopping ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learn", "validate"),
    [("labels", "labels"), ("labels", "triplets"), ("triplets", "triplets")],
)
def test_the_kept_model_is_the_best_of_the_path(learn, validate):
    model = small(max_iter=60).fit(X, **LEARN[learn], **VALIDATE[validate])
    scores = scored(model)
    assert list(scores) == [0, 10, 20, 30, 40, 50, 60]
    for k, score in scores.items():
        assert score_of(validate, model.at(k)) == pytest.approx(score, abs=1e-12)
    best = max(scores, key=scores.get)  # the first of equals
    assert model.n_iter_ == best
    assert model.validation_score_ == scores[best]
    assert_same_model(model, model.at(best))
    whole = small(max_iter=60).fit(X, **LEARN[learn])
    assert_array_equal(whole.trace_["objective"], model.trace_["objective"])
    assert_allclose(model.similarity(X), whole.at(best).similarity(X), rtol=1e-12, atol=1e-12)
    assert model.objective_ == whole.trace_["objective"][best]


def test_the_run_goes_further_than_the_model():
    model = small(max_iter=60).fit(X, Y, **VALIDATE["labels"])
    assert model.n_iter_ < 60  # else this test says nothing
    assert len(model.trace_) == 61
    assert model.status_ == "max_iter"
    for k in range(61):
        at = model.at(k)
        assert at.n_iter_ == k
        assert len(at.weights_) == model.trace_["n_atoms"][k]
        assert at.objective_ == model.trace_["objective"][k]
    with pytest.raises(ValueError, match="from 0 to 60"):
        model.at(61)


@pytest.mark.parametrize(("patience", "end"), [(1, 20), (15, 30), (30, 40), (None, 60)])
def test_no_change_ends_the_run(patience, end):
    def scoring(model, rows, truth):
        return float(len(model.weights_) > 1)  # the best from the first mark on

    model = small(max_iter=60, n_iter_no_change=patience, scoring=scoring)
    model.fit(X, Y, **VALIDATE["labels"])
    assert len(model.trace_) == end + 1
    assert model.status_ == ("max_iter" if patience is None else "no_change")
    assert (model.n_iter_, model.validation_score_) == (10, 1.0)


def test_the_last_model_is_scored_as_well():
    model = small(max_iter=23, scoring=lambda m, rows, truth: -m.similarity_.weights.max())
    model.fit(X, Y, **VALIDATE["labels"])
    assert list(scored(model)) == [0, 10, 20, 23]


@pytest.mark.parametrize("learn", KINDS)
def test_early_stopping_holds_rows_out(learn):
    model = small(early_stopping=True, validation_fraction=0.3, max_iter=60).fit(X, **LEARN[learn])
    scores = scored(model)
    assert model.validation_score_ == max(scores.values())
    assert model.n_iter_ == max(scores, key=scores.get)
    whole = small(max_iter=60).fit(X, **LEARN[learn])
    assert model.n_triplets_ < whole.n_triplets_
    again = small(early_stopping=True, validation_fraction=0.3, max_iter=60)
    assert_same_model(again.fit(X, **LEARN[learn]), model)


@pytest.mark.parametrize("learn", KINDS)
def test_what_is_held_out_is_not_learned_from(learn):
    seen = {}

    def scoring(model, rows, truth):
        seen["rows"], seen["truth"] = rows, truth
        return 0.0

    def mine(rows, labels, rng):
        seen["train"] = rows.toarray()
        return random_triplets(labels, 3, random_state=0)

    model = small(early_stopping=True, validation_fraction=0.25, scoring=scoring, mining=mine)
    model.fit(X, **LEARN[learn])
    if learn == "labels":
        assert len(seen["truth"]) == 10
        together = np.vstack([seen["train"], seen["rows"].toarray()])
        assert_array_equal(together[np.lexsort(together.T)], X[np.lexsort(X.T)])
    else:
        held = np.unique(seen["truth"][:, 0])
        assert len(held) <= 10
        assert model.n_triplets_ <= (~np.isin(T, held).any(axis=1)).sum()


def test_given_validation_data_leave_all_rows_to_learn_from():
    model = small(early_stopping=True).fit(X, Y, **VALIDATE["labels"])
    assert model.n_triplets_ == small().fit(X, Y).n_triplets_


@pytest.mark.parametrize("kind", KINDS)
def test_scoring_gets_a_usable_model_and_the_validation_data(kind):
    seen = []

    def scoring(model, rows, truth):
        S = model.similarity(rows)
        assert_allclose(S, (model.rewrite(rows) @ rows.T).toarray(), atol=1e-12)
        assert model.transform(rows).shape == (20, len(model.get_feature_names_out()))
        assert_array_equal(rows.toarray(), X_VAL)
        assert_array_equal(truth, Y_VAL if kind == "labels" else T_VAL)
        seen.append(S.sum())
        return S.sum()

    model = small(scoring=scoring).fit(X, **LEARN[kind], **VALIDATE[kind])
    assert list(scored(model).values()) == seen
    assert model.validation_score_ == max(seen)
    assert model.similarity(X_VAL).sum() == pytest.approx(max(seen), rel=1e-12)


def test_scoring_in_every_fit_of_a_frame():
    model = small(scoring=lambda model, rows, truth: model.similarity(rows).sum())
    given = {"X_val": frame(X_VAL), "y_val": Y_VAL}
    first = clone(model).fit(frame(X), Y, **given)
    model.fit(frame(X), Y, **given)
    model.fit(frame(X), Y, **given)
    assert_same_model(model, first)


@forms
@pytest.mark.parametrize("kind", KINDS)
def test_validation_data_of_any_form(form, kind):
    model, given = small(), VALIDATE[kind] | {"X_val": form(X_VAL)}
    model.fit(form(X), **LEARN[kind], **given)
    expected = small().fit(X, **LEARN[kind], **VALIDATE[kind])
    assert_same_model(model, expected)
    assert scored(model) == scored(expected)


def test_validation_labels_of_any_kind():
    expected = small().fit(X, Y, **VALIDATE["labels"])
    names = np.array(["no", "yes"])
    model = small().fit(X, names[Y], X_val=X_VAL, y_val=names[Y_VAL].tolist())
    assert scored(model) == scored(expected)
    strangers = small().fit(X, Y, X_val=X_VAL, y_val=Y_VAL + 7)
    assert set(scored(strangers).values()) == {0.0}
    assert strangers.n_iter_ == 0


def test_validation_frames_must_have_the_same_columns():
    given = frame(X_VAL)
    model = small().fit(frame(X), Y, X_val=given, y_val=Y_VAL)
    assert_same_model(model, small().fit(X, Y, **VALIDATE["labels"]))
    assert model.feature_names_in_.tolist() == [f"word{i}" for i in range(D)]
    with pytest.raises(ValueError, match="feature names should match"):
        small().fit(frame(X), Y, X_val=given.add_suffix("s"), y_val=Y_VAL)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X_val": X_VAL[:, :5], "y_val": Y_VAL}, "X_val has 5 features, but HDSL is expecting 12"),
        ({"X_val": X_VAL, "y_val": Y_VAL[:3]}, "y_val has 3 labels, but X_val has 20 rows"),
        ({"X_val": X_VAL}, r"Got X_val\."),
        ({"y_val": Y_VAL}, r"Got y_val\."),
        ({"X_val": X_VAL, "triplets_val": T}, "but X has 20 rows"),
    ],
)
def test_validation_data_that_do_not_fit_leave_the_model_alone(given, message):
    model = small().fit(X, Y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:30], Y[:30], **given)
    assert pickle.dumps(model) == before


def test_labels_cannot_validate_triplets():
    with pytest.raises(ValueError, match="y_val needs labels of X"):
        small().fit(X, triplets=T, **VALIDATE["labels"])


def test_verbose_prints_the_validation_score(capsys):
    model = small(verbose=1).fit(X, Y, **VALIDATE["labels"])
    lines = capsys.readouterr().err.splitlines()
    assert f"val {scored(model)[0]:.4f}" in lines[0]
    assert f"best at {model.n_iter_}: validation {model.validation_score_:.4f}" in lines[-1]
    small(verbose=1).fit(X, Y)
    assert "val" not in capsys.readouterr().err


def test_interrupt_keeps_the_best_model_so_far():
    def callback(state):
        if state.n_iter == 24:
            raise KeyboardInterrupt

    try:
        model = small(callback=callback, max_iter=60).fit(X, Y, **VALIDATE["labels"])
    except KeyboardInterrupt:  # it would end pytest itself
        pytest.fail("the interrupt came out of fit")
    assert model.status_ == "interrupted"
    assert len(model.trace_) == 25
    scores = scored(model)
    assert list(scores) == [0, 10, 20, 24]
    assert model.validation_score_ == scores[model.n_iter_] == max(scores.values())
    assert_same_model(model, model.at(model.n_iter_))
    assert model.transform(X).shape == (N, len(model.weights_))


def test_a_fit_without_validation_forgets_the_score():
    model = small().fit(X, Y, **VALIDATE["labels"])
    model.fit(X, Y)
    assert not hasattr(model, "validation_score_")
    assert scored(model) == {}


def test_at_has_a_score_of_its_own_or_none():
    model = small().fit(X, Y, **VALIDATE["labels"])
    scores = scored(model)
    assert scores[0] != model.validation_score_
    assert {k: model.at(k).validation_score_ for k in scores} == scores
    assert not hasattr(model.at(3), "validation_score_")


def test_a_callback_that_stops_the_run_is_named():
    model = small(n_iter_no_change=5, scoring=lambda *_: 0.0, callback=lambda s: s.n_iter == 7)
    assert model.fit(X, Y, **VALIDATE["labels"]).status_ == "callback"


def test_voters_of_weight_0_are_absent_and_those_of_weight_2_repeated():
    weights = np.arange(N) % 3
    wrong = np.where(weights > 0, Y, 1 - Y)
    model = small(oracle="exact").fit(X, wrong, sample_weight=weights, **VALIDATE["labels"])
    repeated = np.repeat(np.arange(N), weights)
    same = small(oracle="exact").fit(X[repeated], Y[repeated], **VALIDATE["labels"])
    assert scored(model) == scored(same)
    distinct = weights > 0  # a row that is there twice has one vote
    score = knn_accuracy(sp.csr_array(X[distinct]), Y[distinct], sp.csr_array(X_VAL), Y_VAL)
    assert model.validation_score_ == score(model.similarity_)


def test_rows_of_weight_0_do_not_validate_alone():
    weights = np.zeros(N)
    for label in (0, 1):
        weights[np.flatnonzero(label == Y)[:5]] = 1.0
    for seed in range(10):
        model = small(early_stopping=True, max_iter=1, random_state=seed)
        assert 0 <= model.fit(X, Y, sample_weight=weights).validation_score_ <= 1


def test_a_scoring_that_fails_leaves_the_model_alone():
    scores = iter([0.1, 0.2, 0.3])  # of iterations 0, 10 and 20; none of the last
    model = small(scoring=lambda *_: next(scores)).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(StopIteration):
        model.fit(X[:, :5], Y, X_val=X_VAL[:, :5], y_val=Y_VAL)
    assert all(vars(model)[name] is value for name, value in before.items())


# --- warm starts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.0, 0.1])
@pytest.mark.parametrize("step", STEPS)
def test_a_warm_start_goes_on_where_the_path_ended(step, prior):
    model = small(step=step, prior=prior, max_iter=10, warm_start=True).fit(X, triplets=T)
    for k in (2, 3):
        model.fit(X, triplets=T)
        assert model.n_iter_ == len(model.trace_) - 1 == 10 * k
        assert_whole(model, X, T)
    assert (np.diff(model.trace_["objective"]) <= 1e-13).all()
    assert (np.diff(model.trace_["seconds"]) >= 0).all()
    once = small(step=step, prior=prior, max_iter=30).fit(X, triplets=T)
    assert model.objective_ == pytest.approx(once.objective_, rel=0.05)


def test_a_warm_start_with_the_exact_oracle_is_the_same_path():
    model = small(oracle="exact", max_iter=10, warm_start=True)
    model.fit(X, triplets=T).fit(X, triplets=T)
    once = small(oracle="exact", max_iter=20).fit(X, triplets=T)
    assert_array_equal(model.atoms_, once.atoms_)
    assert_allclose(model.weights_, once.weights_, rtol=1e-9)
    for name in ("kind", "i", "j", "sign", "away_i", "away_j", "away_sign", "drop", "n_atoms"):
        assert_array_equal(model.trace_[name], once.trace_[name])


def test_without_warm_start_a_fit_starts_anew():
    model = small().fit(X, triplets=T)
    assert_same_model(model.fit(X, triplets=T), small().fit(X, triplets=T))


def test_a_first_fit_with_warm_start_is_a_fit():
    assert_same_model(small(warm_start=True).fit(X, Y), small().fit(X, Y))


def again(model, how, *args, **kwargs):
    """Go on, by a warm start or by partial_fit."""
    if how == "fit":
        return model.set_params(warm_start=True).fit(*args, **kwargs)
    return model.partial_fit(*args, **kwargs)


both_ways = pytest.mark.parametrize("how", ["fit", "partial_fit"])


@both_ways
def test_a_path_has_one_scale_and_one_prior(how):
    model = HDSL(max_iter=10, random_state=0).fit(X, Y)
    used = {"scale": model.scale_, "prior": model.prior_}
    again(model, how, 4 * X_VAL, triplets=T_VAL)  # "auto" would choose others for these rows
    assert {"scale": model.scale_, "prior": model.prior_} == used
    assert_whole(model, 4 * X_VAL, T_VAL)
    again(model.set_params(**used), how, X, triplets=T)
    assert model.n_iter_ == 30
    before = pickle.dumps(model)
    for name, value in used.items():
        model.set_params(**{name: 2 * value})
        with pytest.raises(ValueError, match=f"The path so far has {name} .* Set {name}={value!r}"):
            again(model, how, X, Y)
        model.set_params(**used)
    assert pickle.dumps(model) == before


@both_ways
@forms
def test_going_on_with_new_rows(how, form):
    model = small(max_iter=10).fit(form(X), triplets=T)
    again(model, how, form(X_VAL), triplets=T_VAL)
    assert (model.n_iter_, model.n_triplets_) == (20, len(T_VAL))
    assert_whole(model, X_VAL, T_VAL)
    assert (np.diff(model.trace_["objective"][10:]) <= 1e-13).all()


@both_ways
@pytest.mark.parametrize("oracle", ["ascent", "exact", "heuristic"])
def test_going_on_with_rows_that_lack_features_of_the_atoms(how, oracle):
    model = small(max_iter=10, oracle=oracle).fit(X, triplets=T)
    used = np.unique(model.atoms_[:, :2])
    bare = X_VAL.copy()
    bare[:, used[::2]] = 0.0
    again(model, how, bare, triplets=T_VAL)
    assert model.n_iter_ == 20
    assert_whole(model, bare, T_VAL)


@both_ways
def test_going_on_with_weights_and_labels(how):
    weights = np.random.default_rng(0).random(len(T))
    model = small(max_iter=10).fit(X, Y)
    again(model, how, X, triplets=T, sample_weight=weights)
    assert_whole(model, X, T, weights)
    again(model, how, X, Y)
    assert model.n_iter_ == 30
    assert model.n_triplets_ == small().fit(X, Y).n_triplets_


@both_ways
def test_going_on_after_early_stopping_starts_from_the_kept_model(how):
    model = small(max_iter=60).fit(X, Y, **VALIDATE["labels"])
    kept = model.n_iter_
    assert kept < 60
    again(model, how, X, triplets=T)
    assert model.n_iter_ == len(model.trace_) - 1 == kept + 60
    assert not hasattr(model, "validation_score_")
    assert_whole(model, X, T)


def test_a_warm_start_with_validation_scores_its_own_part():
    model = small(warm_start=True, max_iter=15).fit(X, triplets=T)
    model.fit(X, triplets=T, **VALIDATE["triplets"])
    assert model.n_iter_ >= 15
    assert score_of("triplets", model) == model.validation_score_
    assert list(scored(model)) == [15, 20, 30]


@both_ways
def test_another_number_of_columns_is_refused_and_changes_nothing(how):
    model = small(warm_start=True).fit(X, Y)
    before = pickle.dumps(model)
    for rows in (X[:, :5], np.hstack([X, X])):
        with pytest.raises(ValueError, match="HDSL is expecting 12 features"):
            again(model, how, rows, Y)
    assert pickle.dumps(model) == before


@both_ways
def test_interrupt_when_going_on_keeps_the_model_so_far(how):
    def callback(state):
        if state.n_iter == 14:
            raise KeyboardInterrupt

    model = small(max_iter=10).fit(X, triplets=T).set_params(callback=callback)
    try:
        again(model, how, X, triplets=T)
    except KeyboardInterrupt:  # it would end pytest itself
        pytest.fail("the interrupt came out of fit")
    assert (model.status_, model.n_iter_) == ("interrupted", 14)
    assert_whole(model, X, T)


# --- partial_fit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_partial_fit_is_a_fit(kind):
    model = HDSL(max_iter=20, random_state=0).partial_fit(X, **LEARN[kind])
    expected = HDSL(max_iter=20, random_state=0).fit(X, **LEARN[kind])
    assert_same_model(model, expected)
    assert model.n_features_in_ == D
    assert model.objective_ == expected.objective_


def test_partial_fit_never_stops_early():
    model = small(early_stopping=True)
    for k in (1, 2):
        model.partial_fit(X, Y)
        assert model.n_iter_ == 25 * k
        assert model.n_triplets_ == small().fit(X, Y).n_triplets_
        assert not hasattr(model, "validation_score_")


def test_partial_fit_asks_for_the_same_names():
    model = small().partial_fit(frame(X), Y)
    model.partial_fit(frame(X_VAL), Y_VAL)
    assert model.feature_names_in_.tolist() == [f"word{i}" for i in range(D)]
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame(X).add_suffix("s"), Y)


# --- mining along the way ------------------------------------------------------------------------


def sizes_along(model, rows=X, labels=Y):
    """Fit, and return the model and the number of triplets at each call of the callback."""
    sizes = []
    model.set_params(callback=lambda state: sizes.append(len(state.margins)))
    return model.fit(rows, labels), sizes


@pytest.mark.parametrize("step", STEPS)
def test_mined_triplets_join_the_old_ones(step):
    model, sizes = sizes_along(small(mine_every=5, step=step))
    once = small(step=step).fit(X, Y)
    assert sizes[0] == once.n_triplets_
    assert (np.diff(sizes) >= 0).all()
    assert len(set(sizes)) > 2
    assert model.n_triplets_ == sizes[-1]
    assert model.n_iter_ == len(model.trace_) - 1 == 25
    assert model.status_ == "max_iter"
    assert_same_model(model.at(5), once.at(5))  # up to the first mining all is the same
    assert_allclose(model.at(25).weights_, model.weights_, atol=1e-12)


def test_the_objective_is_that_of_all_triplets_mined():
    model = small(mine_every=10).fit(X, Y)
    mined = [
        neighbor_triplets(sp.csr_array(X), Y, 2, 2, similarity=similarity)
        for similarity in (None, model.at(10).similarity_, model.at(20).similarity_)
    ]
    together = np.unique(np.vstack(mined), axis=0)
    assert model.n_triplets_ == len(together) > len(mined[0])
    assert_whole(model, X, together)


def test_mining_along_the_way_is_the_same_for_a_seed():
    for parameters in ({}, {"oracle": "heuristic"}):
        one, same = (small(mine_every=4, **parameters).fit(X, Y) for _ in range(2))
        assert_same_model(one, same)
        assert one.n_triplets_ == same.n_triplets_


@pytest.mark.parametrize(
    ("mining", "kind"),
    [("random", "labels"), (lambda rows, labels, rng: T, "labels"), ("neighbors", "triplets")],
)
def test_nothing_but_neighbors_of_labels_is_mined_again(mining, kind):
    model, once = (small(mining=mining, mine_every=k).fit(X, **LEARN[kind]) for k in (5, None))
    assert_same_model(model, once)
    assert model.n_triplets_ == once.n_triplets_


FOUR_POINTS = np.repeat(np.eye(4), 3, axis=0) + np.eye(12, 4) / 8, np.repeat([0, 0, 1, 1], 3)
SOLVED_SOON = {"scale": 1e3, "prior": 0.0, "n_targets": 1, "n_impostors": 1, "mine_every": 2}


def test_mining_along_the_way_ends_where_nothing_is_new():
    model = HDSL(**SOLVED_SOON, max_iter=500).fit(*FOUR_POINTS)
    assert model.status_ in ("optimal", "no_violation")
    assert model.n_iter_ < 500


def test_early_stopping_while_mining():
    model = small(mine_every=5, max_iter=60, n_iter_no_change=20)
    model.fit(X, Y, **VALIDATE["labels"])
    scores = scored(model)
    assert model.n_iter_ == max(scores, key=scores.get)
    assert score_of("labels", model) == model.validation_score_
    if model.status_ == "no_change":
        assert len(model.trace_) - 1 >= model.n_iter_ + 20


def test_the_callback_is_called_once_an_iteration():
    seen = []
    model = small(mine_every=5, callback=lambda state: seen.append(state.n_iter)).fit(X, Y)
    assert seen == list(range(26))
    again(model, "fit", X, Y)
    assert seen == list(range(51))


def test_the_callback_is_called_before_each_step():
    seen = []
    model = HDSL(**SOLVED_SOON, callback=lambda state: seen.append(state.n_iter))
    assert seen[: model.fit(*FOUR_POINTS).n_iter_] == list(range(model.n_iter_))


@pytest.mark.parametrize(
    "where", ["hdsl.triplets.neighbor_triplets", "hdsl.backends.cpu.problem.TripletData"]
)
def test_interrupt_while_mining_again_keeps_the_model_so_far(where, monkeypatch):
    function, calls = pkgutil.resolve_name(where), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    monkeypatch.setattr(where, interrupted)
    model = small(mine_every=5)
    try:
        model.fit(X, Y)
    except KeyboardInterrupt:  # it would end pytest itself
        pytest.fail("the interrupt came out of fit")
    assert (model.status_, model.n_iter_) == ("interrupted", 5)
    assert_same_model(model, small(max_iter=5).fit(X, Y))


# --- rank ----------------------------------------------------------------------------------------


def best_of_rank(M, r):
    """Return the best approximation of M of rank r."""
    values, vectors = np.linalg.eigh(M)
    values[: max(len(M) - r, 0)] = 0.0
    return vectors * values @ vectors.T


@forms
@pytest.mark.parametrize("prior", [0.0, 0.3])
def test_transform_is_the_best_approximation_of_its_rank(form, prior):
    model = small(prior=prior).fit(X, triplets=T)
    M = model.matrix().toarray()
    rank = np.linalg.matrix_rank(M)
    close = {"rtol": 1e-4, "atol": 1e-4} if form(X).dtype == np.float32 else {"atol": 1e-10}
    for r in range(1, D + 3):
        Z = model.set_params(n_components=r).transform(form(X))
        assert Z.dtype == form(X).dtype
        names = model.get_feature_names_out().tolist()
        learned = [name for name in names if name.startswith("hdsl")]
        assert learned == [f"hdsl{k}" for k in range(len(learned))]
        assert min(r, rank) <= len(learned) <= r
        assert names[len(learned) :] == ([f"x{i}" for i in range(D)] if prior else [])
        assert Z.shape == (N, len(names))
        if sp.issparse(Z):
            Z = Z.toarray()
        expected = X @ (best_of_rank(M, r) + prior * np.eye(D)) @ X.T
        assert_allclose(Z @ Z.T, expected, **close)
    exact = model.set_params(n_components=None).similarity(X)
    assert_allclose(expected, exact, atol=1e-10)  # all ranks


def test_leading_directions_come_first_with_a_fixed_sign():
    model = small(n_components=D).fit(X, triplets=T)
    features, directions = model.similarity_.directions(4)
    lengths = (directions**2).sum(axis=0)
    assert_allclose(lengths, np.linalg.eigvalsh(model.matrix().toarray())[::-1][:4], atol=1e-10)
    assert (directions[np.abs(directions).argmax(axis=0), np.arange(4)] > 0).all()
    assert_array_equal(features, np.unique(model.atoms_[:, :2]))
    fewer = model.similarity_.directions(2)[1]
    assert_allclose(fewer, directions[:, :2], atol=1e-10)


def test_rank_changes_the_transform_alone():
    model, full = small(n_components=2).fit(X, Y), small().fit(X, Y)
    assert_same_model(model, full)
    assert_array_equal(model.similarity(X), full.similarity(X))
    assert model.transform(X).shape == (N, 2)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("prior", [0.0, 0.3])
@pytest.mark.parametrize("r", [1, 3, D])
def test_rank_in_a_pipeline(form, prior, r):
    model = small(prior=prior, n_components=r)
    pipeline = make_pipeline(model, SimilarityKNeighborsClassifier(3)).fit(form(X), Y)
    S = best_of_rank(pipeline[0].matrix().toarray(), r) + prior * np.eye(D)
    _, rows = reference.top_k(X_VAL @ S, X, 3)
    votes = [reference.vote(Y[own].tolist(), [1.0] * 3)[1] for own in rows]
    assert pipeline.predict(form(X_VAL)).tolist() == votes


def test_rank_with_named_columns():
    pandas = pytest.importorskip("pandas")
    model = small(n_components=2, prior=0.1).set_output(transform="pandas").fit(frame(X), Y)
    Z = model.transform(frame(X))
    assert isinstance(Z, pandas.DataFrame)
    assert Z.columns.tolist() == ["hdsl0", "hdsl1", *(f"word{i}" for i in range(D))]


@pytest.mark.parametrize("name", ["n_components", "mine_every", "n_iter_no_change"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "all"])
def test_counts_that_are_none(name, value):
    message = f"The '{name}' parameter of HDSL must be an int >= 1 or None. Got {value!r} instead."
    with pytest.raises(ValueError, match=message):
        small(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, None])
def test_a_share_that_is_none(value):
    with pytest.raises(ValueError, match="'validation_fraction' parameter of HDSL must be a float"):
        small(validation_fraction=value).fit(X, Y)


def test_a_scoring_that_is_none():
    with pytest.raises(ValueError, match="'scoring' parameter of HDSL must be a callable or None"):
        small(scoring="accuracy").fit(X, Y)


# --- files ---------------------------------------------------------------------------------------


def through_save(model, folder):
    model.save(folder / "model.hdsl")
    return hdsl.load(folder / "model.hdsl")


def through_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


def through_skops(model, folder):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(model)
    untrusted = skops.get_untrusted_types(data=data)
    assert set(untrusted) <= {"hdsl.estimators.hdsl.HDSL"}
    return skops.loads(data, trusted=untrusted)


def fitted(model):
    """Return all public fitted attributes."""
    own = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    return {name: getattr(model, name) for name in own}


def assert_equal_to_the_bit(one, other):
    mine, others = fitted(one), fitted(other)
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
    "prior": lambda: small(prior=0.2).fit(X, Y),
    "auto": lambda: HDSL(max_iter=20, random_state=3, loss="logistic").fit(X, Y),
    "early stopping": lambda: small(max_iter=60).fit(X, Y, **VALIDATE["labels"]),
    "held out": lambda: small(early_stopping=True, max_iter=60).fit(X, Y),
    "names": lambda: small().fit(frame(X), Y),
    "warm start": lambda: small(warm_start=True).fit(X, Y).fit(X, triplets=T),
    "at": lambda: small().fit(X, Y).at(7),
    "rank": lambda: small(n_components=3, prior=0.1).fit(X, Y),
    "lazy steps": lambda: small(step="blended").fit(X, Y),
}


@pytest.mark.parametrize("make", STORED.values(), ids=STORED.keys())
@pytest.mark.parametrize("through", [through_save, through_pickle, through_joblib, through_skops])
def test_a_stored_model_is_the_same_to_the_bit(make, through, tmp_path):
    model = make()
    stored = through(model, tmp_path)
    if through is through_save:  # the time that a run took is not kept
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


def test_early_stopping_is_stored_with_its_score(tmp_path):
    model = through_save(STORED["early stopping"](), tmp_path)
    assert model.n_iter_ < len(model.trace_) - 1
    assert model.validation_score_ == scored(model)[model.n_iter_]


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
    with pytest.raises(NotFittedError):
        HDSL().save(tmp_path / "model.hdsl")
    assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.hdsl"
    small().fit(X, Y).save(old)
    before = old.read_bytes()
    with pytest.raises(NotFittedError):
        HDSL().save(old)
    assert old.read_bytes() == before


DAMAGES = {
    "empty": (lambda raw: b"", "it is empty"),
    "cut": (lambda raw: raw[: len(raw) // 2], "damaged"),
    "longer": (lambda raw: raw + b"x", "damaged"),
    "another program's": (lambda raw: pickle.dumps([1, 2, 3] * 50), "Cannot load"),
    "another number": (lambda raw: raw.replace(b'\\"n_iter\\":25', b'\\"n_iter\\":99'), "damaged"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_files_are_refused(damage, message, tmp_path):
    path = tmp_path / "model.hdsl"
    small().fit(X, Y).save(path)
    raw = damage(path.read_bytes())
    assert raw != path.read_bytes()
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message) as caught:
        hdsl.load(path)
    assert "model.hdsl" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.hdsl"):
        hdsl.load(tmp_path / "nowhere.hdsl")


def test_a_pipeline_through_skops():
    skops = pytest.importorskip("skops.io")
    model = small(early_stopping=True, prior=0.1)
    pipeline = make_pipeline(model, SimilarityKNeighborsClassifier(3)).fit(frame(X), Y)
    data = skops.dumps(pipeline)
    untrusted = skops.get_untrusted_types(data=data)
    assert set(untrusted) == {
        "hdsl.estimators.hdsl.HDSL",
        "hdsl.neighbors.SimilarityKNeighborsClassifier",
    }
    stored = skops.loads(data, trusted=untrusted)
    assert_equal_to_the_bit(stored[0], pipeline[0])
    assert_array_equal(stored.predict(frame(X_VAL)), pipeline.predict(frame(X_VAL)))
