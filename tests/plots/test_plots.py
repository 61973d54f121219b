"""Displays show the numbers they hold, and all names as plain text."""

import itertools
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from hdsl import HDSL, Solver, load, plots
from hdsl.plots.network import network_layout
from hdsl.search import top_k
from hdsl.similarity import FixedPart, Similarity

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
matplotlib.rcParams["figure.dpi"] = 40
plt = pytest.importorskip("matplotlib.pyplot")

HOSTILE = [
    r"$\frac{1",
    "$x$",
    "_hidden",
    "$",
    r"\$",
    "<b>&",
    "a\nb\x1b",
    "{}%s",
    "^_^",
    "#~",
]


def data(seed=0, n=60, d=10):
    """Three classes, each with features of its own under noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3)
    X[np.arange(n), 3 * y + rng.integers(3, size=n)] += 1
    return X, np.array(["a", "b", "c"])[y]


X, Y = data()


@pytest.fixture(scope="module")
def model():
    return HDSL(
        scale=5.0, solver=Solver(step="away", max_iter=40), min_rows=1, random_state=0
    ).fit(X, Y)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def drawn(display):
    """Return the display after a real drawing: what matplotlib cannot show fails here."""
    display.figure_.canvas.draw()
    return display


DISPLAYS = {
    "trace": lambda model, **ax: plots.TraceDisplay.from_estimator(model, **ax),
    "choice": lambda model, **ax: plots.ChoiceDisplay.from_estimator(model, **ax),
    "path": lambda model, **ax: plots.PathDisplay.from_estimator(model, **ax),
    "network": lambda model, **ax: plots.NetworkDisplay.from_estimator(
        model, top=12, feature_names=HOSTILE, **ax
    ),
    "neighbors": lambda model, **ax: plots.NeighborsDisplay.from_estimator(
        model, 0, X, labels=Y, texts=HOSTILE * 6, n_neighbors=4, **ax
    ),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_displays_draw_on_new_or_given_axes(name, model):
    own = drawn(DISPLAYS[name](model))
    n_axes = np.size(own.ax_)
    figure, axes = plt.subplots(1, n_axes)
    given = drawn(DISPLAYS[name](model, ax=axes))
    assert given.ax_ is axes
    assert given.figure_ is figure
    assert own.figure_ is not figure
    again = own.plot()  # the display holds the numbers
    assert again is own


def test_names_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X).add_prefix("word")
    model = HDSL(scale=5.0, prior=1.0, solver=Solver(max_iter=5), random_state=0).fit(
        frame, Y
    )
    assert all(
        n.startswith("word") for n in plots.NetworkDisplay.from_estimator(model).names
    )
    drawn(plots.NeighborsDisplay.from_estimator(model, frame.iloc[0], frame))


def test_best_of_a_grid_and_plain_similarities(model):
    search = GridSearchCV(
        HDSL(prior=1.0, solver=Solver(max_iter=5)),
        {"scale": [5.0]},
        cv=2,
        scoring=lambda *_: 0.0,
    )
    search.fit(X, Y)
    drawn(DISPLAYS["trace"](search))
    for name, draw in DISPLAYS.items():
        if name not in ("trace", "path", "choice"):
            drawn(draw(model.similarity_))


def test_a_loaded_model_is_drawn(model, tmp_path):
    model.save(tmp_path / "m.hdsl")
    loaded = load(tmp_path / "m.hdsl")
    assert [*loaded.choice_] == [*model.choice_]
    for each in (loaded, model.at(0)):
        for draw in DISPLAYS.values():
            drawn(draw(each))
    lines = [
        DISPLAYS["choice"](each).ax_.lines[0].get_ydata() for each in (model, loaded)
    ]
    assert_array_equal(*lines)
    with pytest.raises(ValueError, match="999"):
        plots.NeighborsDisplay.from_estimator(model, 999, X)


# --- the run --------------------------------------------------------------------------


def test_trace_leaves_out_what_is_not_known(model):
    trace = model.trace_.copy()
    trace["gap"][3] = np.nan
    trace["gap"][5] = 0.0
    objective, gap = drawn(plots.TraceDisplay(trace).plot()).ax_.lines
    assert_array_equal(objective.get_ydata(), trace["objective"])
    assert_array_equal(gap.get_xdata(), np.delete(np.arange(len(trace)), [3, 5]))


def test_a_display_prints_without_its_numbers(model):
    display = plots.ChoiceDisplay.from_estimator(model)
    assert repr(display) == "<ChoiceDisplay, drawn in figure_>"
    assert "not drawn" in repr(plots.TraceDisplay(model.trace_))


def test_a_choice_shows_every_prior_and_the_cosine(model):
    lines = DISPLAYS["choice"](model).ax_.lines
    tried = np.isfinite(model.choice_["prior"])
    assert_array_equal(lines[0].get_ydata(), model.choice_["score"][tried])
    given = HDSL(prior=1.0, solver=Solver(max_iter=1)).fit(X, Y)
    with pytest.raises(ValueError, match="prior='auto'"):
        plots.ChoiceDisplay.from_estimator(given)


def test_models_that_are_not_fitted():
    for name in ("trace", "path", "network"):
        with pytest.raises(NotFittedError):
            DISPLAYS[name](HDSL())


# --- what was learned -----------------------------------------------------------------


def test_network_shows_the_heaviest_pairs(model):
    display = DISPLAYS["network"](model)
    M = model.matrix().toarray()
    upper = M[np.triu_indices(10, 1)]
    heaviest = upper[np.argsort(-np.abs(upper), kind="stable")][:12]
    assert_allclose(display.weights, heaviest[heaviest != 0])
    for (i, j), weight in zip(display.pairs, display.weights, strict=True):
        ends = HOSTILE.index(display.names[i]), HOSTILE.index(display.names[j])
        assert M[ends] == pytest.approx(weight)
    styles = {
        weight > 0: line.get_linestyle()
        for weight, line in zip(display.weights, display.ax_.lines, strict=True)
    }
    assert styles == {True: "-", False: "--"}
    widths = [line.get_linewidth() for line in display.ax_.lines]
    assert (np.diff(widths) <= 0).all()


def test_network_of_no_pair():
    atoms = np.array([[0, 1, 1], [0, 1, -1]])
    fixed = (FixedPart("prior", 0.0),)
    similarity = Similarity(atoms, np.full(2, 0.5), 2.0, fixed, 2)
    assert not drawn(plots.NetworkDisplay.from_estimator(similarity)).names


@given(st.integers(2, 25), st.integers(0, 10**6))
@settings(max_examples=10)
def test_network_labels_never_cover_each_other(n, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(n, size=(rng.integers(1, 2 * n), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    sizes = np.column_stack([rng.uniform(10, 150, size=n), np.full(n, 20.0)])
    places = network_layout(pairs, sizes, spacing=54.0)
    assert_array_equal(places, network_layout(pairs, sizes, spacing=54.0))
    for i, j in itertools.combinations(range(n), 2):
        over = (sizes[i] + sizes[j]) / 2 - np.abs(places[i] - places[j])
        assert over.min() < 1e-3


# --- what it is good for --------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_neighbors_before_and_after(form, model):
    for row in (7, -1):
        found = plots.NeighborsDisplay.from_estimator(
            model, row, form(X), labels=Y, n_neighbors=5
        )
        own = row % len(X)
        rows = model.index_rows(X)
        assert_array_equal(
            found.before, top_k(rows, rows, 5, exclude_self=True).rows[own]
        )
        learned = top_k(model.rewrite(X), rows, 5, exclude_self=True).rows[own]
        assert_array_equal(found.after, learned)
        assert_array_equal(found.right, Y[own] == Y)
        joined = [line for line in found.ax_.lines if len(line.get_xdata()) == 2]
        assert len(joined) == len({*found.before} & {*found.after})
    new = plots.NeighborsDisplay.from_estimator(
        model, form(X)[[7]], form(X), n_neighbors=99
    )
    assert len(new.before) == len(X)
    assert new.right is None
    assert drawn(new).ax_.get_title() == "query"


# --- matplotlib -----------------------------------------------------------------------


def test_without_matplotlib_the_message_says_how_to_install_it(monkeypatch, model):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        ImportError, match=r"needs matplotlib: `pip install hdsl\[plots\]`"
    ):
        DISPLAYS["path"](model)


def test_names_and_labels_may_be_a_series_of_any_index(model):
    pandas = pytest.importorskip("pandas")
    index = np.arange(60)[::-1]
    labels = pandas.Series([f"label {row}" for row in range(60)], index=index)
    found = plots.NeighborsDisplay.from_estimator(
        model, 3, X, labels=labels, n_neighbors=4
    )
    assert all(text == f"label {row}" for row, text in found.texts.items())
    names = [f"word {k}" for k in range(10)]
    series = pandas.Series(names, index=index[-10:])
    shown = [
        plots.NetworkDisplay.from_estimator(model, X=X, top=4, feature_names=given)
        for given in (names, series)
    ]
    assert shown[0].names == shown[1].names
