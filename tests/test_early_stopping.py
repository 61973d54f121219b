"""Early stopping: which model of the path is chosen, on which rows, and the refit on all."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from hdsl.files import checkpoint as checkpoint_module
from hdsl.monitor import label_score
from hdsl.triplets import random_triplets
from pairwise import pairwise
from small_fits import (
    FORMS,
    KINDS,
    LEARN,
    T_VAL,
    VALIDATE,
    X_VAL,
    Y_VAL,
    D,
    N,
    T,
    X,
    Y,
    any_length,
    assert_same_model,
    both_kinds,
    chosen_from,
    frame,
    interrupt_at,
    prefers,
    score_of,
    scored,
    small,
    without_interrupt,
)

pytestmark = any_length


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
    from hdsl.cpu import layout

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
@pytest.mark.usefixtures("write_each_iteration")
def test_a_run_cut_in_the_choice_and_in_the_refit_ends_in_the_same_bytes(parameters, tmp_path):
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


@pytest.mark.usefixtures("write_each_iteration")
def test_a_damaged_checkpoint_of_a_refit_is_refused(tmp_path, monkeypatch):
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
