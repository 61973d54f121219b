"""What a fit shows while it runs: the live line, and scikit-learn's callbacks."""

import importlib.util
import io
import os
import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from hdsl import HDSL, HDSLCV, LocalHDSL, LocalHDSLCV, callbacks, progress
from hdsl.progress import Line, Progress, duration, fitted
from small_fits import labelled_counts

X, Y = labelled_counts(d=20)
X_VAL, Y_VAL = labelled_counts(seed=1, d=20)


def small(**params):
    fixed = {"scale": 5.0, "prior": 0.1, "max_iter": 25, "tol": 0.0, "random_state": 0}
    return HDSL(**{**fixed, **params})


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows `clock.now` seconds."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def state(n_iter, **values):
    return SimpleNamespace(
        n_iter=n_iter,
        objective=values.get("objective", 0.5),
        gap=values.get("gap", 0.25),
        weights=np.ones(values.get("n_atoms", 3)),
        active=SimpleNamespace(n_features=lambda: values.get("n_features", 5)),
    )


def scores(score):
    return SimpleNamespace(last_score=score)


class Screen(io.StringIO):
    """A terminal with one live line; `lines` holds the finished ones, `seen` every update."""

    def __init__(self, columns=80):
        super().__init__()
        self.columns, self.lines, self.seen = columns, [], []
        self.line, self.at = "", 0

    def isatty(self):
        return True

    def fileno(self):
        return 2

    def write(self, text):
        for char in text:
            if char == "\n":
                self.lines.append(self.line.rstrip())
                self.line, self.at = "", 0
            elif char == "\r":
                self.at = 0
            else:
                assert char.isprintable()
                self.line = self.line[: self.at] + char + self.line[self.at + 1 :]
                self.at += 1
                assert self.at < self.columns, "the line wraps"
        self.seen.append(self.line.rstrip())
        return len(text)


@pytest.fixture
def screen(monkeypatch):
    screen = Screen()
    # Not sys.stderr itself: pytest sets it again before the test.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=screen, modules=sys.modules))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((screen.columns, 24)))
    return screen


# --- the line ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (200, "[#.........] iteration 100/1000  objective 0.1235  gap 1.2e-03  atoms 40  "
              "features 66  validation 0.8750  at most 18 s left"),
        (80, "100/1000  obj 0.1235  gap 1.2e-03  atoms 40  feat 66  val 0.8750  <18 s left"),
    ],
)  # fmt: skip
def test_words_are_long_where_there_is_room(clock, screen, columns, line):
    screen.columns = columns
    with Progress(1) as shown:
        update = shown.follow(1000, scores(0.875))
        update(state(0))
        clock.now = 2.0
        update(state(100, objective=0.123456, gap=1.2e-3, n_atoms=40, n_features=66))
    assert screen.lines == [line]
    assert screen.line == ""


@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.just("long {:.4g}"), st.just("{}"), st.floats()), min_size=1),
)
def test_the_line_never_wraps(width, parts):
    assert len(fitted(parts, width)) < max(width, 1)


def test_unknown_values_are_left_out(clock, screen):
    with Progress(1) as shown:
        shown.follow(10, scores(np.nan))(state(0, gap=np.nan))
    assert screen.lines == ["[..........] 0/10  obj 0.5  atoms 3  feat 5"]


def test_the_time_left_follows_the_recent_rate(clock, screen):
    with Progress(1) as shown:
        update, n_iter = shown.follow(3000, None), 0
        for cost in (0.1, 1.0):  # seconds per step
            for _ in range(100):
                n_iter += 1
                clock.now += cost
                update(state(n_iter))
            assert f"<{duration(cost * (3000 - n_iter))} left" in screen.line


def test_the_last_line_sums_up_the_fit(screen, capsys):
    model = small(verbose=1).fit(X, Y)
    assert capsys.readouterr().out == ""
    (line,) = screen.lines
    assert re.fullmatch(rf"25 iterations in [\d.]+ (s|min) \(max_iter\), objective "
                        rf"{model.objective_:.4g}, {len(model.weights_)} atoms", line)  # fmt: skip
    assert len(screen.seen) >= 2  # a live line came before it


def test_early_stopping_shows_scores_and_the_best_model(screen):
    model = small(verbose=1, n_iter_no_change=10, max_iter=200)
    model.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    (line,) = screen.lines
    assert f" ({model.status_}), best at {model.n_iter_}: validation " in line
    assert f"{model.validation_score_:.4f}, {len(model.weights_)} atoms" in line
    assert any("val 0." in line for line in screen.seen)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_fit_with_regions_shows_all_its_parts(screen, monkeypatch, early_stopping):
    monkeypatch.setattr(progress, "LIVE_EVERY", 0.0)
    screen.columns = 200
    sizes = []

    def callback(state):
        features = {f for atoms, _ in state.blocks for f in atoms[:, :2].ravel().tolist()}
        sizes.append(f"atoms {sum(len(w) for _, w in state.blocks)}  features {len(features)}")

    model = LocalHDSL(
        2, scale=5.0, prior=0.1, max_iter=25, tol=0.0, early_stopping=early_stopping,
        random_state=0, verbose=1, callback=callback,
    ).fit(X, Y)  # fmt: skip
    *live, last = [line for line in screen.seen if line]
    assert len(sizes) > 25
    for text in sizes:
        assert any(text in line for line in live), text
    assert any("iteration 20/25  objective 0." in line for line in live)
    assert any("validation 0." in line for line in live) == early_stopping
    n_local = sum(map(len, model.local_weights_))
    found = f"objective {model.objective_:.4g}"
    if early_stopping:
        found = f"best at {model.n_iter_}: validation {model.validation_score_:.4f}"
    assert f"{found}, {len(model.weights_)} atoms + {n_local} in 2 regions" in last
    assert re.match(rf"\d+ iterations in [\d.]+ s \({model.status_}\), ", last)


def test_a_choice_of_regions_shows_its_runs(screen):
    small = LocalHDSL(max_iter=5, n_targets=2, n_impostors=2, random_state=0)
    found = LocalHDSLCV((0, 2), local_scales=["auto", 2.0], estimator=small, cv=2, verbose=1)
    found.fit(X, Y)
    choice, refit = screen.lines
    n = found.best_params_["n_regions"]
    chosen = f"{n} regions, local scale {found.best_params_['local_scale']}" if n else "no regions"
    assert choice.startswith("6/6 runs in ")
    assert f"best mean {found.best_score_:.4f}: {chosen}" in choice
    assert refit.startswith(f"{found.best_estimator_.n_iter_} iterations in ")
    assert any(line.startswith("run 1/6  regions 0 ") for line in screen.seen)
    assert found.best_estimator_.verbose == 0


def test_a_warm_start_counts_on(clock, capsys):
    model = small(verbose=1, warm_start=True, mine_every=10).fit(X, Y).fit(X, Y)
    starts = [line.split(" ")[0] for line in capsys.readouterr().err.splitlines()]
    assert starts == ["0/25", "25", "26/50", "50"]
    assert model.n_iter_ == 50


def test_an_error_leaves_the_line(screen):
    def callback(state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        small(verbose=1, callback=callback).fit(X, Y)
    (line,) = screen.lines
    assert line.startswith("[..........] 0/25 ")
    assert screen.line == ""


def test_ctrl_c_returns_the_best_model_and_says_so(screen):
    def callback(state):
        if state.n_iter == 24:
            raise KeyboardInterrupt

    model = small(early_stopping=True, n_iter_no_change=None, verbose=1, callback=callback)
    try:
        model.fit(X, Y)
    except KeyboardInterrupt:
        pytest.fail("fit raised the interrupt")
    assert model.status_ == "interrupted"
    best, score = model.n_iter_, model.validation_score_
    assert model.trace_["validation_score"][best] == score
    assert "24 iterations in" in screen.lines[-1]
    assert f"(interrupted), best at {best}: validation {score:.4f}" in screen.lines[-1]


def test_a_grid_shows_its_runs_and_its_choice(screen):
    found = HDSLCV([1.0, 10.0], priors=[0.0], cv=2, estimator=small(), verbose=1).fit(X, Y)
    chosen, refit = screen.lines
    assert chosen.startswith("4/4 runs in ")
    assert f"best mean {found.best_score_:.4f}: scale {found.best_params_['scale']:.4g}" in chosen
    assert refit.startswith(f"{found.best_estimator_.n_iter_} iterations in ")
    assert any(line.startswith("run 1/4  scale 1 ") for line in screen.seen)


# --- where it goes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("verbose", "n_lines"), [(False, 0), (True, 4), (2, 27)])
def test_logs_are_plain_and_short(clock, capsys, verbose, n_lines):
    def callback(state):
        clock.now += 1.0

    small(verbose=verbose, callback=callback).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == n_lines
    assert all(char == "\n" or char.isprintable() for char in err)
    assert all(len(line) < 80 for line in err.splitlines())


def test_there_is_a_log_where_a_live_line_cannot_be(screen, monkeypatch):
    # The lines of several threads would overwrite each other.
    thread = threading.Thread(target=small(verbose=1).fit, args=(X, Y))
    thread.start()
    thread.join()
    monkeypatch.setenv("TERM", "dumb")
    small(verbose=1).fit(X, Y)
    assert [line[:5] for line in screen.lines] == ["0/25 ", "25 it"] * 2


def test_the_fit_goes_on_without_stderr(monkeypatch):
    closed = io.StringIO()
    closed.close()
    read, write = os.pipe()
    os.close(read)
    broken = os.fdopen(write, "w", buffering=1)
    for stream in (None, closed, broken):
        monkeypatch.setattr(sys, "stderr", stream)
        assert small(verbose=2).fit(X, Y).n_iter_ == 25
    with pytest.raises(BrokenPipeError):
        broken.close()


def add_ipython(monkeypatch, *, kernel):
    """Put into sys.modules as much of IPython as a line needs; return what it displays."""
    displayed = []

    def display(bundle, *, raw, display_id):
        assert raw
        assert display_id
        updates = [bundle["text/plain"]]
        displayed.append(updates)
        return SimpleNamespace(update=lambda bundle, *, raw: updates.append(bundle["text/plain"]))

    shell = SimpleNamespace(kernel=None) if kernel else SimpleNamespace()
    module = SimpleNamespace(display=display)
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=module)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return displayed


def test_a_notebook_updates_one_place(monkeypatch, capsys):
    displayed = add_ipython(monkeypatch, kernel=True)
    small(verbose=1).fit(X, Y)
    ((first, *_, last),) = displayed
    assert first.startswith("[..........] 0/25 ")
    assert last.startswith("25 iterations in ")
    assert capsys.readouterr() == ("", "")


def test_ipython_in_a_terminal_is_a_terminal(monkeypatch, screen):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    small(verbose=1).fit(X, Y)
    assert "IPython" not in sys.modules  # a fit does not load it
    displayed = add_ipython(monkeypatch, kernel=False)
    small(verbose=1).fit(X, Y)
    assert displayed == []
    assert len(screen.lines) == 2


def test_the_width_is_80_where_the_terminal_does_not_say(screen, monkeypatch):
    def size(fd):
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", size)
    assert Line(1.0).width == 80
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((0, 0)))
    assert Line(1.0).width == 80


# --- scikit-learn's callbacks --------------------------------------------------------------------

there_are_callbacks = pytest.mark.skipif(
    importlib.util.find_spec("sklearn.callback") is None,
    reason="scikit-learn has callbacks from 1.9 on",
)


class Recorder:
    """A callback that records its calls."""

    def __init__(self, stop_at=None, fail_at=None):
        self.calls, self.models, self.stop_at, self.fail_at = [], [], stop_at, fail_at

    def setup(self, estimator, context):
        self.calls.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.calls.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(("begin", context.task_name))

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.calls.append(("end", context.task_name))
        if context.task_name == "iteration" and fitted_estimator is not None:
            self.models.append((fitted_estimator, X, y, metadata))
            if len(self.models) == self.fail_at:
                raise ZeroDivisionError
            return len(self.models) == self.stop_at
        return False

    def count(self, *call):
        return self.calls.count(call)


class Propagated(Recorder):
    max_propagation_depth = None


@there_are_callbacks
def test_callbacks_get_each_iteration():
    recorder = Recorder()
    quiet = small().fit(X, Y, sample_weight=np.ones(len(X)))
    model = small().set_callbacks(recorder).fit(X, Y, sample_weight=np.ones(len(X)))
    assert recorder.calls == [
        ("setup", "fit"), ("begin", "fit"), *[("begin", "iteration"), ("end", "iteration")] * 25,
        ("end", "fit"), ("teardown", "fit"),
    ]  # fmt: skip
    assert_array_equal(model.atoms_, quiet.atoms_)
    assert_array_equal(model.weights_, quiet.weights_)
    for k, (then, rows, labels, metadata) in enumerate(recorder.models, start=1):
        assert then.n_iter_ == k
        assert_array_equal(then.atoms_, model.at(k).atoms_)
        assert_allclose(then.similarity(rows), model.at(k).similarity(X), atol=1e-12)  # sparse rows
        assert_array_equal(labels, Y)
        assert_array_equal(metadata["sample_weight"], np.ones(len(X)))
    assert not [name for name in model.__dict__ if name.startswith("_callback")]


@there_are_callbacks
def test_an_early_end_ends_all_tasks():
    recorder = Recorder(stop_at=4)
    model = small().set_callbacks(recorder).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("callback", 4)
    for task in ("iteration", "fit"):
        assert recorder.count("begin", task) == recorder.count("end", task)
    recorder = Recorder()
    model = small(tol=1e9).set_callbacks(recorder).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("optimal", 0)
    assert recorder.count("begin", "iteration") == recorder.count("end", "iteration") == 1
    assert recorder.models == []


@there_are_callbacks
@pytest.mark.parametrize("params", [{"mine_every": 10}, {"early_stopping": True}])
def test_callbacks_follow_a_warm_start(params):
    recorder = Recorder()
    model = small(warm_start=True, n_iter_no_change=None, **params)
    model.set_callbacks(recorder).fit(X, Y)
    n_iter = model.n_iter_
    model.fit(X, Y)
    refits = [range(1, n_iter + 1), range(n_iter + 1, model.n_iter_ + 1)]
    first, second = refits if "early_stopping" in params else ([], [])
    assert [then.n_iter_ for then, *_ in recorder.models] == [
        *range(1, 26), *first, *range(n_iter + 1, n_iter + 26), *second
    ]  # fmt: skip
    assert recorder.count("begin", "iteration") == recorder.count("end", "iteration") >= 50
    assert recorder.count("setup", "fit") == recorder.count("teardown", "fit") == 2


@there_are_callbacks
def test_callbacks_are_torn_down_after_an_error():
    recorder = Recorder(fail_at=3)
    model = small().set_callbacks(recorder)
    with pytest.raises(ZeroDivisionError):
        model.fit(X, Y)
    assert recorder.calls[-1] == ("teardown", "fit")
    assert not hasattr(model, "atoms_")
    model.set_callbacks().fit(X, Y)
    assert len(recorder.models) == 3


@there_are_callbacks
def test_callbacks_of_judgements_and_of_named_columns():
    recorder = Recorder()
    model = small().fit(pd.DataFrame(X).add_prefix("f"), Y).set_callbacks(recorder)
    model.fit(sp.csr_array(X), triplets=[[k, k + 3, k + 1] for k in range(50)])
    then, rows, labels, metadata = recorder.models[0]
    assert labels is None
    assert metadata == {}
    assert then.transform(rows).shape[0] == len(X)  # without a warning about names
    assert not hasattr(model, "feature_names_in_")


@there_are_callbacks
def test_callbacks_reach_a_model_inside_others():
    recorder = Propagated()
    make_pipeline(small()).set_callbacks(recorder).fit(X, Y)
    assert len(recorder.models) == 25
    recorder = Propagated()
    model = small().set_params(init="oracle", norm=None)  # no run ends early
    found = GridSearchCV(model, {"scale": [1.0, 2.0]}, cv=2, scoring=lambda model, X, y: 0.0)
    found.set_callbacks(recorder).fit(X, Y)
    assert len(recorder.models) == 5 * 25
    assert recorder.count("setup", "fit") == recorder.count("teardown", "fit") == 1


@there_are_callbacks
def test_callbacks_of_a_grid():
    recorder, inner = Propagated(), Recorder()
    base = small().set_callbacks(inner)
    found = HDSLCV([1.0, 10.0], priors=[0.0], cv=2, estimator=base)
    quiet = clone(found).fit(X, Y)
    assert len(inner.models) > 4 * 25
    found.set_callbacks(recorder).fit(X, Y)
    assert_array_equal(found.scores_, quiet.scores_)
    assert len(recorder.models) == 4 * 25 + found.best_params_["n_iter"]
    for task, n in (("iteration", len(recorder.models)), ("fit", 6)):
        assert recorder.count("begin", task) == recorder.count("end", task) == n
    assert recorder.count("setup", "fit") == recorder.count("teardown", "fit") == 1
    with pytest.raises(TypeError, match="Register them directly on the meta-estimator"):
        HDSLCV([1.0], priors=[0.0], cv=2, estimator=small().set_callbacks(Propagated())).fit(X, Y)


@there_are_callbacks
def test_scikit_learns_own_callbacks(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar, ScoringMonitor

    monitor = ScoringMonitor(scoring={"n_atoms": lambda model, X, y: len(model.weights_)})
    model = small().set_callbacks(ProgressBar(), monitor).fit(X, Y)
    assert "HDSL - fit" in capsys.readouterr().out
    log = monitor.get_logs().data_as_pandas
    n_atoms = log.loc[log["task_name"] == "iteration", "n_atoms"]
    assert_array_equal(n_atoms, model.trace_["n_atoms"][1:])


def test_without_callbacks_in_scikit_learn(monkeypatch):
    """Versions before 1.9: the module alone, loaded again."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.spec_from_file_location("hdsl.old_callbacks", callbacks.__file__)
    old = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(old)
    assert not hasattr(old.CallbackSupportMixin(), "set_callbacks")
    model = small()
    with old.Tasks(model) as tasks:
        tasks.begin(None, 3)
        assert tasks.follow(1.0, 0.0) is None
        tasks.end()
