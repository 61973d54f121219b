"""The path of HDSL: stopped early, continued, mined along, cut in rank, stored in files."""

import pickle
import pkgutil
import warnings

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
from hdsl import HDSL, SimilarityKNeighborsClassifier
from hdsl.estimators.monitor import label_score, triplet_score
from hdsl.files import checkpoint as checkpoint_module
from hdsl.triplets import neighbor_triplets, random_triplets
from pairwise import pairwise
from small_fits import (
    FORMS,
    STEPS,
    T_VAL,
    X_VAL,
    Y_VAL,
    D,
    N,
    T,
    X,
    Y,
    assert_same_model,
    assert_whole,
    frame,
    interrupt_at,
    scored,
    small,
    without_interrupt,
)

LEARN = {"labels": {"y": Y}, "triplets": {"triplets": T}}
VALIDATE = {
    "labels": {"X_val": X_VAL, "y_val": Y_VAL},
    "triplets": {"X_val": X_VAL, "triplets_val": T_VAL},
}
KINDS = ["labels", "triplets"]
both_kinds = pytest.mark.parametrize("kind", KINDS)

# Rows as they are, of any length.
pytestmark = pytest.mark.filterwarnings("ignore:Rows differ in length:UserWarning")


def score_of(kind, model):
    """Return the default score of a model on the validation data, with its standard error."""
    rows = sp.csr_array(X_VAL)
    if kind == "labels":
        return label_score(sp.csr_array(X), Y, rows, Y_VAL)(model.similarity_)
    return triplet_score(rows, T_VAL)(model.similarity_)


def chosen_from(kind, model):
    """Return the longest run of a path within one standard error of its first best score."""
    scores = {k: score_of(kind, model.at(k)) for k in scored(model)}
    best = max(scores.values(), key=lambda score: score.value)
    return max(k for k, score in scores.items() if score.value >= best.value - best.error)


def prefers(*wanted):
    """Return a scoring by which models of these numbers of iterations are the best.

    Models are told apart by their scores being asked for in order: once per mark.
    """
    marks = [0, 10, 20, 30, 40, 50, 60]
    asked = []

    def scoring(model, rows, truth):
        asked.append(1)
        return float(marks[(len(asked) - 1) % len(marks)] in wanted)

    return scoring


# --- early stopping ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learn", "validate"),
    [("labels", "labels"), ("labels", "triplets"), ("triplets", "triplets")],
)
def test_the_longest_model_within_one_standard_error_of_the_best_is_chosen(learn, validate):
    model = small(max_iter=60, early_stopping=True).fit(X, **LEARN[learn], **VALIDATE[validate])
    scores = scored(model)
    assert list(scores) == [0, 10, 20, 30, 40, 50, 60]
    for k, score in scores.items():
        assert score_of(validate, model.at(k)).value == pytest.approx(score, abs=1e-12)
        assert model.at(k).validation_score_ == score
    assert not hasattr(model.at(3), "validation_score_")
    best = chosen_from(validate, model)
    assert (model.n_iter_, model.validation_score_) == (best, scores[best])
    assert_same_model(model, model.at(best))
    whole = small(max_iter=60).fit(X, **LEARN[learn])  # given validation data hold out nothing
    assert model.n_triplets_ == whole.n_triplets_
    assert_array_equal(whole.trace_["objective"], model.trace_["objective"])
    assert_allclose(model.similarity(X), whole.at(best).similarity(X), rtol=1e-12, atol=1e-12)
    assert model.objective_ == whole.trace_["objective"][best]


def test_the_path_goes_further_than_the_chosen_model():
    model = small(max_iter=60, scoring=prefers(10, 30)).fit(X, Y, **VALIDATE["labels"])
    assert model.n_iter_ == 30  # the longest of equals
    assert len(model.trace_) == 61
    assert model.status_ == "max_iter"
    for k in (0, 30, 60):
        assert model.at(k).objective_ == model.trace_["objective"][k]
    with pytest.raises(ValueError, match="from 0 to 60"):
        model.at(61)
    model.fit(X, Y)  # without validation data the score goes
    assert not hasattr(model, "validation_score_")
    assert scored(model) == {}


@pytest.mark.parametrize(("patience", "end"), [(1, 20), (15, 30), (30, 40), (None, 60)])
def test_no_change_ends_the_run(patience, end):
    def scoring(model, rows, truth):
        return float(len(model.weights_) > 1)  # the best from the first mark on

    model = small(max_iter=60, n_iter_no_change=patience, scoring=scoring)
    model.fit(X, Y, **VALIDATE["labels"])
    assert len(model.trace_) == end + 1
    assert model.status_ == ("max_iter" if patience is None else "no_change")
    assert (model.n_iter_, model.validation_score_) == (end, 1.0)


def test_the_last_model_is_scored_as_well():
    model = small(max_iter=23, scoring=lambda m, rows, truth: -m.similarity_.weights.max())
    model.fit(X, Y, **VALIDATE["labels"])
    assert list(scored(model)) == [0, 10, 20, 23]


def test_rows_held_out_choose_and_are_not_learned_from_before_the_refit():
    seen, train = {}, []

    def scoring(model, rows, truth):
        seen["rows"], seen["truth"] = rows, truth
        return 0.0

    def mine(rows, labels, rng):
        train.append(rows.toarray())
        return random_triplets(labels, 3, random_state=0)

    small(early_stopping=True, validation_fraction=0.25, scoring=scoring, mining=mine).fit(X, Y)
    assert len(seen["truth"]) == 10
    together = np.vstack([train[0], seen["rows"].toarray()])
    assert_array_equal(together[np.lexsort(together.T)], X[np.lexsort(X.T)])
    assert len(train) == 2
    assert_array_equal(train[1], X)


@pytest.mark.parametrize(
    ("kind", "parameters", "length"),
    [
        ("labels", {"mining": "random"}, 30),
        ("labels", {"mine_every": 15, "scale": "auto", "prior": "auto"}, 40),
        ("labels", {"init": "random", "step": "blended"}, 0),
        ("triplets", {"batch_size": 20, "init": "zero"}, 60),
    ],
)
def test_a_refit_is_the_fit_of_all_rows_for_the_chosen_length(kind, parameters, length):
    model = small(max_iter=60, **parameters)
    whole = clone(model).set_params(max_iter=max(length, 1)).fit(X, **LEARN[kind])
    model.set_params(early_stopping=True, scoring=prefers(0, length)).fit(X, **LEARN[kind])
    assert_same_model(model, whole if length else whole.at(0))
    assert model.n_iter_ == len(model.trace_) - 1 == length
    assert (model.status_, model.validation_score_) == ("max_iter", 1.0)
    marks = range(0, length + 1, 10)
    assert scored(model) == {k: float(k in (0, length)) for k in marks}
    model.set_params(n_iter_no_change=10, scoring=prefers(10)).fit(X, **LEARN[kind])
    assert (model.status_, model.n_iter_) == ("no_change", 10)


def test_a_refit_may_converge_before_the_chosen_length():
    model = small(max_iter=60, tol=0.05, early_stopping=True, scoring=lambda *_: 0.5).fit(X, Y)
    assert_same_model(model, small(max_iter=60, tol=0.05).fit(X, Y))
    assert model.n_iter_ < 60
    assert model.status_ == "optimal"
    assert model.validation_score_ == scored(model)[model.n_iter_] == 0.5


class Phases:
    """A callback that calls a function at an iteration of the choice (0) or of the refit (1)."""

    def __init__(self, phase, n_iter, function):
        self.phase, self.n_iter, self.function, self.n_runs = phase, n_iter, function, -1

    def __call__(self, state):
        self.n_runs += state.n_iter == 0
        if (self.n_runs, state.n_iter) == (self.phase, self.n_iter):
            return self.function()
        return None


def raise_(error):
    raise error


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("n_iter", [0, 14])
def test_interrupt_of_the_choice_or_of_the_refit_leaves_a_whole_model(phase, n_iter):
    callback = Phases(phase, n_iter, lambda: raise_(KeyboardInterrupt))
    model = small(max_iter=60, early_stopping=True, scoring=prefers(0, 20), callback=callback)
    without_interrupt(model.fit, X, Y)
    assert model.status_ == "interrupted"
    assert_same_model(model, model.at(model.n_iter_))
    if phase == 1:
        assert_same_model(model, small(max_iter=20).fit(X, Y).at(n_iter))
    else:
        assert model.n_triplets_ < small().fit(X, Y).n_triplets_
        assert model.n_iter_ == n_iter == len(model.trace_) - 1


def test_a_callback_that_ends_the_choice_leaves_out_the_refit():
    model = small(early_stopping=True, callback=Phases(0, 13, lambda: True)).fit(X, Y)
    assert (model.status_, len(model.trace_)) == ("callback", 14)
    assert model.n_triplets_ < small().fit(X, Y).n_triplets_


@pytest.mark.parametrize(
    ("error", "status"), [(MemoryError("no room."), "max_iter"), (KeyboardInterrupt, "interrupted")]
)
def test_a_refit_that_cannot_begin_leaves_the_chosen_model(error, status, monkeypatch):
    from hdsl.backends.cpu import layout

    make, calls = layout.CPULayout, []

    def fails(*args, **kwargs):
        calls.append(1)
        return raise_(error) if len(calls) == 2 else make(*args, **kwargs)

    monkeypatch.setattr(layout, "CPULayout", fails)
    model = small(early_stopping=True)
    if status == "interrupted":
        without_interrupt(model.fit, X, Y)
    else:
        with pytest.warns(UserWarning, match="The refit on all rows was given up: no room"):
            model.fit(X, Y)
    assert model.status_ == status
    assert model.validation_score_ == scored(model)[model.n_iter_]
    assert model.n_triplets_ < small().fit(X, Y).n_triplets_


@pytest.mark.parametrize(
    "parameters",
    [{"mine_every": 10}, {"mining": "random", "n_iter_no_change": 10}, {"random_state": None}],
    ids=str,
)
def test_a_run_cut_in_the_choice_and_in_the_refit_ends_in_the_same_bytes(
    parameters, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint_module, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint_module, "TIME_SHARE", np.inf)
    path = tmp_path / "run.ckpt"

    def model(**more):
        return small(early_stopping=True, max_iter=40, checkpoint=path,
                     scoring=lambda m, *_: min(len(m.weights_), 3),
                     **parameters, **more)  # fmt: skip

    ends = []
    resumed_in = {(1, 0): 0, (1, 5): 0, (1, 9): 1}  # the phase of the last iteration 0 so far
    for cuts in ([], [(0, 0), (0, 17), (1, 0), (1, 5), (1, 9)]):
        np.random.seed(0)  # noqa: NPY002 - the seed of random_state=None
        for phase, n_iter in cuts:
            callback = Phases(phase, n_iter, lambda: raise_(ZeroDivisionError))
            callback.n_runs = resumed_in.get((phase, n_iter), -1)
            with pytest.raises(ZeroDivisionError):
                model(callback=callback).fit(X, Y)
        model().fit(X, Y).save(tmp_path / "model.hdsl")
        assert not path.exists()
        ends.append((tmp_path / "model.hdsl").read_bytes())
    assert ends[0] == ends[1]


def test_a_damaged_checkpoint_of_a_refit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint_module, "TIME_SHARE", np.inf)
    path = tmp_path / "run.ckpt"
    parameters = {"early_stopping": True, "max_iter": 40, "checkpoint": path}
    small(**parameters).fit(X, Y)
    read = checkpoint_module.Checkpoint._read
    for change in (
        {"refit.n_iter": np.array(7)},
        {"refit.n_iter": np.array([40])},
        {"refit.gave_up": np.array(1)},
        {"scores.n_iter": np.array([0, 10**9]), "scores.score": np.zeros(2),
         "scores.error": np.zeros(2), "refit.n_iter": np.array(10**9)},
    ):  # fmt: skip

        def changed(self, change=change):
            read(self)
            self.arrays |= change

        monkeypatch.setattr(checkpoint_module.Checkpoint, "_read", changed)
        with pytest.raises(ValueError, match=r"run.ckpt' is damaged"):
            small(**parameters).fit(X, Y)


@both_kinds
def test_few_rows_to_choose_by_give_a_warning(kind):
    model = small(early_stopping=True, max_iter=1)
    what = "4 rows, fewer than 50" if kind == "labels" else r"\d+ comparisons, fewer than 200"
    with pytest.warns(UserWarning, match=f"holds out {what}: .* Pass X_val, .* HDSLCV") as caught:
        model.fit(X, **LEARN[kind])
    assert caught[0].filename == __file__
    many = np.tile(np.arange(N), 13)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn = {"y": Y[many]} if kind == "labels" else {"triplets": np.tile(T, (40, 1))}
        model.fit(X[many], **learn)


@both_kinds
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


def test_frames_validate_in_every_fit_and_must_have_the_same_columns():
    model = small(scoring=lambda model, rows, truth: model.similarity(rows).sum())
    expected = clone(model).fit(X, Y, **VALIDATE["labels"])
    for _ in range(2):
        model.fit(frame(X), Y, X_val=frame(X_VAL), y_val=Y_VAL)
        assert_same_model(model, expected)
    assert model.feature_names_in_.tolist() == [f"word{i}" for i in range(D)]
    with pytest.raises(ValueError, match="feature names should match"):
        model.fit(frame(X), Y, X_val=frame(X_VAL).add_suffix("s"), y_val=Y_VAL)


@pytest.mark.parametrize(("form", "kind"), pairwise(list(FORMS), KINDS))
def test_validation_data_of_any_form(form, kind):
    form = FORMS[form]
    model = small().fit(form(X), **LEARN[kind], **VALIDATE[kind] | {"X_val": form(X_VAL)})
    expected = small().fit(X, **LEARN[kind], **VALIDATE[kind])
    assert_same_model(model, expected)
    assert scored(model) == scored(expected)


def test_validation_labels_of_any_kind():
    expected = small().fit(X, Y, **VALIDATE["labels"])
    names = np.array(["no", "yes"])
    model = small().fit(X, names[Y], X_val=X_VAL, y_val=names[Y_VAL].tolist())
    assert scored(model) == scored(expected)
    unknown = small().fit(X, Y, X_val=X_VAL, y_val=Y_VAL + 7)
    assert set(scored(unknown).values()) == {0.0}


def test_refused_validation_data_leave_the_model_unchanged():
    model = small().fit(X, Y)
    before = pickle.dumps(model)
    for given, message in [
        ({"X_val": X_VAL[:, :5], "y_val": Y_VAL}, "X_val has 5 features, but HDSL is expecting 12"),
        ({"X_val": X_VAL, "y_val": Y_VAL[:3]}, "y_val has 3 labels, but X_val has 20 rows"),
        ({"X_val": X_VAL}, r"Got X_val\."),
        ({"X_val": X_VAL, "triplets_val": T}, "but X has 20 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(X[:30], Y[:30], **given)
    with pytest.raises(ValueError, match="y_val needs labels of X"):
        model.fit(X, triplets=T, **VALIDATE["labels"])
    assert pickle.dumps(model) == before


def test_interrupt_leaves_the_model_chosen_so_far():
    model = small(callback=interrupt_at(24), max_iter=60)
    without_interrupt(model.fit, X, Y, **VALIDATE["labels"])
    assert model.status_ == "interrupted"
    assert len(model.trace_) == 25
    scores = scored(model)
    assert list(scores) == [0, 10, 20, 24]
    assert model.n_iter_ == chosen_from("labels", model)
    assert model.validation_score_ == scores[model.n_iter_]
    assert_same_model(model, model.at(model.n_iter_))
    assert model.transform(X).shape == (N, len(model.weights_))


def test_a_callback_that_stops_the_run_is_the_status():
    model = small(n_iter_no_change=5, scoring=lambda *_: 0.0, callback=lambda s: s.n_iter == 7)
    assert model.fit(X, Y, **VALIDATE["labels"]).status_ == "callback"


def test_voters_of_weight_0_are_absent_and_those_of_weight_2_repeated():
    weights = np.arange(N) % 3
    wrong = np.where(weights > 0, Y, 1 - Y)
    model = small(oracle="exact").fit(X, wrong, sample_weight=weights, **VALIDATE["labels"])
    repeated = np.repeat(np.arange(N), weights)
    same = small(oracle="exact").fit(X[repeated], Y[repeated], **VALIDATE["labels"])
    assert scored(model) == scored(same)
    distinct = weights > 0  # a row that is there twice is one neighbour
    score = label_score(sp.csr_array(X[distinct]), Y[distinct], sp.csr_array(X_VAL), Y_VAL)
    assert model.validation_score_ == score(model.similarity_).value


def test_rows_of_weight_0_do_not_validate_alone():
    weights = np.zeros(N)
    for label in (0, 1):
        weights[np.flatnonzero(label == Y)[:5]] = 1.0
    for seed in range(10):
        model = small(early_stopping=True, max_iter=1, random_state=seed)
        assert 0 <= model.fit(X, Y, sample_weight=weights).validation_score_ <= 1


def test_a_scoring_that_fails_leaves_the_model_unchanged():
    scores = iter([0.1])  # of iteration 0; none of the last
    model = small(scoring=lambda *_: next(scores)).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(StopIteration):
        model.fit(X[:, :5], Y, X_val=X_VAL[:, :5], y_val=Y_VAL)
    assert all(vars(model)[name] is value for name, value in before.items())


# --- warm starts and partial_fit -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "prior"), [*((step, 0.0) for step in STEPS[:3]), ("blended", 0.1)]
)
def test_a_warm_start_goes_on_where_the_path_ended(step, prior):
    model = small(step=step, prior=prior, max_iter=10, warm_start=True).fit(X, triplets=T)
    assert_same_model(model, small(step=step, prior=prior, max_iter=10).fit(X, triplets=T))
    for k in (2, 3):
        model.fit(X, triplets=T)
        assert model.n_iter_ == len(model.trace_) - 1 == 10 * k
        assert_whole(model)
    assert (np.diff(model.trace_["objective"]) <= 1e-13).all()
    assert (np.diff(model.trace_["seconds"]) >= 0).all()
    once = small(step=step, prior=prior, max_iter=30).fit(X, triplets=T)
    assert model.objective_ == pytest.approx(once.objective_, rel=0.05)
    fresh = model.set_params(warm_start=False, max_iter=30).fit(X, triplets=T)
    assert_same_model(fresh, once)


def test_a_warm_start_with_the_exact_oracle_is_the_same_path():
    model = small(oracle="exact", max_iter=10, warm_start=True)
    model.fit(X, triplets=T).fit(X, triplets=T)
    once = small(oracle="exact", max_iter=20).fit(X, triplets=T)
    assert_array_equal(model.atoms_, once.atoms_)
    assert_allclose(model.weights_, once.weights_, rtol=1e-9)
    for name in ("kind", "i", "j", "sign", "away_i", "away_j", "away_sign", "drop", "n_atoms"):
        assert_array_equal(model.trace_[name], once.trace_[name])


def again(model, how, *args, **kwargs):
    """Continue the path, by a warm start or by partial_fit."""
    if how == "fit":
        return model.set_params(warm_start=True).fit(*args, **kwargs)
    return model.partial_fit(*args, **kwargs)


both_ways = pytest.mark.parametrize("how", ["fit", "partial_fit"])


@both_ways
def test_a_path_has_one_scale_and_one_prior(how):
    model = small(scale="auto", prior="auto", max_iter=10).fit(X, Y)
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


@pytest.mark.parametrize(
    ("how", "oracle", "form"),
    pairwise(["fit", "partial_fit"], ["ascent", "exact", "heuristic"], list(FORMS)),
)
def test_a_path_goes_on_with_new_rows_that_may_lack_features_of_the_atoms(how, oracle, form):
    form = FORMS[form]
    model = small(max_iter=10, oracle=oracle).fit(form(X), triplets=T)
    again(model, how, form(X_VAL), triplets=T_VAL)
    assert (model.n_iter_, model.n_triplets_) == (20, len(T_VAL))
    assert_whole(model, X_VAL, T_VAL)
    assert (np.diff(model.trace_["objective"][10:]) <= 1e-13).all()
    bare = X_VAL.copy()
    bare[:, np.unique(model.atoms_[:, :2])[::2]] = 0.0
    again(model, how, form(bare), triplets=T_VAL)
    assert model.n_iter_ == 30
    assert_whole(model, bare, T_VAL)


@both_ways
def test_a_path_goes_on_with_weights_and_labels(how):
    weights = np.random.default_rng(0).random(len(T))
    model = small(max_iter=10).fit(X, Y)
    again(model, how, X, triplets=T, sample_weight=weights)
    assert_whole(model, weights=weights)
    again(model, how, X, Y)
    assert model.n_iter_ == 30
    assert model.n_triplets_ == small().fit(X, Y).n_triplets_


@both_ways
def test_after_early_stopping_a_path_goes_on_from_the_chosen_model(how):
    model = small(max_iter=60, scoring=prefers(30)).fit(X, Y, **VALIDATE["labels"])
    best = model.n_iter_
    assert best == 30
    again(model, how, X, triplets=T)
    assert model.n_iter_ == len(model.trace_) - 1 == best + 60
    assert not hasattr(model, "validation_score_")
    assert_whole(model)


def test_a_warm_start_with_validation_scores_its_own_part():
    model = small(warm_start=True, max_iter=15).fit(X, triplets=T)
    model.fit(X, triplets=T, **VALIDATE["triplets"])
    assert model.n_iter_ >= 15
    assert score_of("triplets", model).value == model.validation_score_
    assert list(scored(model)) == [15, 20, 30]


def test_a_warm_start_with_rows_held_out_continues_the_path_on_all_rows():
    once = small(oracle="exact", max_iter=25).fit(X, triplets=T)
    model = small(oracle="exact", max_iter=15).fit(X, triplets=T)
    scores = iter([0.0, 1.0, 0.5])  # of the iterations 15, 20 and 27
    model.set_params(
        warm_start=True, early_stopping=True, max_iter=12, scoring=lambda *_: next(scores)
    )
    model.fit(X, triplets=T)
    assert (model.n_iter_, model.n_triplets_) == (20, len(T))
    assert scored(model) == {15: 0.0, 20: 1.0}
    assert_array_equal(model.trace_["i"], once.trace_["i"][:21])


@both_ways
def test_other_columns_are_refused_and_change_nothing(how):
    model = small(warm_start=True).fit(frame(X), Y)
    before = pickle.dumps(model)
    for rows in (X[:, :5], np.hstack([X, X])):
        with pytest.raises(ValueError, match=r"feature names|HDSL is expecting 12 features"):
            again(model, how, frame(rows), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        again(model, how, frame(X).add_suffix("s"), Y)
    assert pickle.dumps(model) == before


@both_ways
def test_interrupt_when_a_path_goes_on_keeps_the_model_so_far(how):
    model = small(max_iter=10).fit(X, triplets=T).set_params(callback=interrupt_at(14))
    without_interrupt(again, model, how, X, triplets=T)
    assert (model.status_, model.n_iter_) == ("interrupted", 14)
    assert_whole(model)


@both_kinds
def test_partial_fit_starts_with_a_fit_and_never_stops_early(kind):
    model = HDSL(max_iter=20, random_state=0, early_stopping=True)
    expected = HDSL(max_iter=20, random_state=0).fit(X, **LEARN[kind])
    assert_same_model(model.partial_fit(X, **LEARN[kind]), expected)
    assert model.n_features_in_ == D
    model.partial_fit(X, **LEARN[kind])
    assert (model.n_iter_, model.n_triplets_) == (40, expected.n_triplets_)
    assert not hasattr(model, "validation_score_")


# --- mining along the way ------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_mined_triplets_join_the_old_ones(step):
    sizes = []
    model = small(mine_every=5, step=step)
    model.set_params(callback=lambda state: sizes.append(len(state.margins))).fit(X, Y)
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
    assert_whole(model, triplets=together)
    assert_same_model(small(mine_every=10).fit(X, Y), model)


def test_only_neighbors_of_labels_are_mined_again():
    for mining, kind in [("random", "labels"), (lambda *_: T, "labels"), ("neighbors", "triplets")]:
        model, once = (small(mining=mining, mine_every=k).fit(X, **LEARN[kind]) for k in (5, None))
        assert_same_model(model, once)
        assert model.n_triplets_ == once.n_triplets_


FOUR_POINTS = np.repeat(np.eye(4), 3, axis=0) + np.eye(12, 4) / 8, np.repeat([0, 0, 1, 1], 3)


def test_mining_along_the_way_ends_where_nothing_is_new():
    seen = []
    model = HDSL(
        scale=1e3, prior=0.0, n_targets=1, n_impostors=1, mine_every=2, max_iter=500,
        callback=lambda state: seen.append(state.n_iter),
    ).fit(*FOUR_POINTS)  # fmt: skip
    assert model.status_ in ("optimal", "no_violation")
    assert model.n_iter_ < 500
    assert seen[: model.n_iter_] == list(range(model.n_iter_))  # once before each step


def test_early_stopping_while_mining():
    seen = []
    model = small(mine_every=5, max_iter=60, n_iter_no_change=20)
    model.set_params(callback=lambda state: seen.append(state.n_iter))
    model.fit(X, Y, **VALIDATE["labels"])
    assert seen == list(range(len(model.trace_)))  # once per iteration
    assert model.n_iter_ == chosen_from("labels", model)
    assert score_of("labels", model).value == model.validation_score_
    if model.status_ == "no_change":
        assert len(model.trace_) - 1 >= model.n_iter_ + 20


@pytest.mark.parametrize(
    "where", ["hdsl.triplets.neighbor_triplets", "hdsl.backends.cpu.layout.CPULayout"]
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
    without_interrupt(model.fit, X, Y)
    assert (model.status_, model.n_iter_) == ("interrupted", 5)
    assert_same_model(model, small(max_iter=5).fit(X, Y))


def test_mining_again_without_memory_keeps_the_model_so_far(monkeypatch):
    from hdsl.backends.cpu import layout

    make, calls = layout.CPULayout, []

    def too_large(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError("no room")
        return make(*args, **kwargs)

    monkeypatch.setattr(layout, "CPULayout", too_large)
    with pytest.warns(UserWarning, match="Mining again was given up: no room"):
        model = small(mine_every=5).fit(X, Y)
    assert_same_model(model, small(max_iter=5).fit(X, Y))


# --- rank ----------------------------------------------------------------------------------------


def best_of_rank(M, r):
    """Return the best approximation of M of rank r."""
    values, vectors = np.linalg.eigh(M)
    values[: max(len(M) - r, 0)] = 0.0
    return vectors * values @ vectors.T


@pytest.mark.parametrize(("form", "prior"), pairwise(list(FORMS), [0.0, 0.3]))
def test_transform_is_the_best_approximation_of_its_rank(form, prior):
    form = FORMS[form]
    model = small(prior=prior).fit(X, triplets=T)
    exact, M = model.similarity(X), model.matrix().toarray()
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
        Z = Z.toarray() if sp.issparse(Z) else Z
        expected = X @ (best_of_rank(M, r) + prior * np.eye(D)) @ X.T
        assert_allclose(Z @ Z.T, expected, **close)
        assert_array_equal(model.similarity(X), exact)  # rank is of the transform alone
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


@pytest.mark.parametrize(
    ("form", "prior", "r"), [(np.asarray, 0.3, 1), (sp.csr_array, 0.0, 3), (sp.csr_array, 0.3, D)]
)
def test_rank_in_a_pipeline(form, prior, r):
    model = small(prior=prior, n_components=r)
    pipeline = make_pipeline(model, SimilarityKNeighborsClassifier(3)).fit(form(X), Y)
    S = best_of_rank(pipeline[0].matrix().toarray(), r) + prior * np.eye(D)
    _, rows = reference.top_k(X_VAL @ S, X, 3)
    votes = [reference.vote(Y[own].tolist(), [1.0] * 3)[1] for own in rows]
    assert pipeline.predict(form(X_VAL)).tolist() == votes


def test_rank_with_named_columns():
    model = small(n_components=2, prior=0.1).set_output(transform="pandas").fit(frame(X), Y)
    columns = model.transform(frame(X)).columns.tolist()
    assert columns == ["hdsl0", "hdsl1", *(f"word{i}" for i in range(D))]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n_components", 0, "an int >= 1 or None"),
        ("mine_every", 2.5, "an int >= 1 or None"),
        ("n_iter_no_change", "all", "an int >= 1 or None"),
        ("validation_fraction", 0, "a float"),
        ("validation_fraction", 1, "a float"),
        ("validation_fraction", None, "a float"),
        ("scoring", "accuracy", "a callable or None"),
    ],
)
def test_bad_parameters_of_the_path_are_refused(name, value, expected):
    message = f"The '{name}' parameter of HDSL must be {expected}.* Got {value!r} instead"
    with pytest.raises(ValueError, match=message):
        small(**{name: value}).fit(X, Y)


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
    + [("names", through_pickle), ("rank", through_joblib), ("early stopping", through_skops)],
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
        "hdsl.estimators.hdsl.HDSL",
        "hdsl.neighbors.SimilarityKNeighborsClassifier",
    }
    stored = skops.loads(data, trusted=untrusted)
    assert_equal_to_the_bit(stored[0], pipeline[0])
    assert_array_equal(stored.predict(frame(X_VAL)), pipeline.predict(frame(X_VAL)))
