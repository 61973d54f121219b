"""Methods by sets: the defaults, their rivals, published figures, candidates for the defaults."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from reproduce import (
    classification,
    command,
    comparison,
    defaults,
    local,
    published,
    quality,
    rivals,
    runner,
    sets,
)
from reproduce.defaults import Ratio, geometric_mean, ratio_of_means
from reproduce.sets import Split
from reproduce.settings import Settings

# Few rows, runs that end at their limit.
pytestmark = pytest.mark.filterwarnings("ignore")


def split(n=90, n_classes=3, seed=0):
    """Rows of classes with words of their own, among others, at unit length."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    counts = rng.poisson(0.3, size=(n, 60)).astype(float)
    for label in range(n_classes):
        counts[y == label, 6 * label : 6 * label + 6] += rng.poisson(
            0.5, (sum(y == label), 6)
        )
    X = sp.csr_array(normalize(counts))
    return Split(X[:60], y[:60], X[60:], y[60:])


@pytest.fixture
def settings(monkeypatch, tmp_path):
    monkeypatch.setattr(
        sets, "split", lambda settings, name: split(n_classes=2 + (name == "r52"))
    )
    monkeypatch.setattr(sets, "present", lambda settings, names: list(names))
    names = ["r52", "bace_ecfp6", "docstrings", "bbc_counts"]
    for name in ("lsa", "away", "scores", "both"):  # slow, or tested as others
        monkeypatch.delitem(quality.METHODS, name)
    monkeypatch.delitem(rivals.METHODS, "oasis")
    monkeypatch.setattr(sets, "names_of_splits", lambda settings: names)
    monkeypatch.setattr(rivals, "ALPHAS", (1e-4,))
    monkeypatch.setattr(rivals, "STEPS", (0.1,))
    monkeypatch.setattr(rivals, "FOLDS", 2)
    monkeypatch.setattr(rivals, "DIMENSIONS", 5)
    return Settings(tmp_path, jobs=1)


def by_cell(settings, name):
    lines = runner.read(settings, name).values()
    return {(line["cell"]["set"], line["cell"]["method"]): line for line in lines}


def test_quality_has_every_method_and_measure(settings, monkeypatch):
    monkeypatch.setattr(sets, "names_of_splits", lambda settings: ["r52", "bbc_counts"])
    page = command.reproduce("quality", settings).read_text(encoding="utf-8")
    lines = by_cell(settings, "quality")
    assert ("bbc_counts", "dot") in lines
    assert ("r52", "dot") not in lines
    cosine = lines["r52", "cosine"]
    learned = lines["r52", "hdsl"]
    assert learned["wrong"]["3"] <= cosine["wrong"]["3"]
    assert cosine["mrr"] > 0.5
    assert all(word in page for word in ("HDSL()", "LinearSVC", "reciprocal"))


def test_rivals_are_what_they_are_called(settings, monkeypatch):
    command.reproduce("rivals", settings)
    lines = by_cell(settings, "rivals")
    assert {name for name, _ in lines} == {
        "r52",
        "bace_ecfp6",
    }  # neither counts nor docstrings
    assert ("r52", "tanimoto") not in lines
    data = split(n_classes=2)
    rows, queries = (normalize(X, norm="l1").toarray() for X in (data.X, data.X_test))
    knn = KNeighborsClassifier(9, metric="manhattan").fit(rows, data.y)
    wrong = int(np.sum(knn.predict(queries) != data.y_test))
    assert lines["bace_ecfp6", "manhattan"]["wrong"]["9"] == wrong
    bits, asked = ((X != 0).toarray() for X in (data.X, data.X_test))
    knn = KNeighborsClassifier(9, metric="jaccard").fit(bits, data.y)
    scores = knn.predict_proba(asked)[:, 1]
    found = lines["bace_ecfp6", "tanimoto"]
    # Ties.
    assert found["auc"]["9"] == pytest.approx(
        roc_auc_score(data.y_test, scores), abs=0.05
    )
    assert lines["bace_ecfp6", "forest"]["auc"]["3"] > 0.7
    # A set of 60 rows is too large.
    monkeypatch.setattr(rivals, "MOST_ROWS", {"nca": 59})
    assert "nca" not in [cell["method"] for cell in rivals.cells(settings)]


def test_published_figures_are_marked_as_not_ours(settings):
    tables = {
        table.name: table
        for table in published.publish(settings, _run(settings)).tables
    }
    accuracy = {row[0]: row[1:] for row in tables["accuracy"].rows}
    assert tables["accuracy"].head == ["method", "r8", "r52"]
    ours = [label for label in accuracy if "not ours" not in label]
    assert {"cosine", "HDSL()", "ClassScores(), HDSL()", "LinearSVC"} <= set(ours)
    assert accuracy["TextGCN (Yao et al., 2019), not ours"] == ["97.1", "93.6"]
    assert "86.7" in [row[1] for row in tables["auc"].rows]
    data = split(n_classes=2)
    labels = comparison.neighbors(data.X, data.y).vote(data.X_test, 3)[0]
    error = 100 * (1 - balanced_accuracy_score(data.y_test, labels))
    balanced = {row[0]: row[1:] for row in tables["balanced-error"].rows}
    assert balanced["cosine"] == [f"{error:.1f}"] * 2


def _run(settings):
    """Return lines of every method, all with the figures of the cosine."""
    return [
        {"cell": cell, **published.compute(settings, {**cell, "method": "cosine"})}
        for cell in published.cells(settings)
    ]


# --- candidates for the defaults ------------------------------------------------------


def test_the_choice_stands_beside_every_fixed_prior(settings, monkeypatch):
    monkeypatch.setattr(defaults, "N_FOLDS", 2)
    few = {name: defaults.CANDIDATES[name] for name in (defaults.CHOSEN, "prior 2")}
    away = {"prior": 15.0, "step": "away", "max_iter": 60}  # of which 60 stand for 300
    few[defaults.AWAY] = defaults.Candidate(away, (30, 300))
    monkeypatch.setattr(defaults, "CANDIDATES", few)
    monkeypatch.setattr(sets, "names_of_splits", lambda settings: ["r52", "bace_ecfp6"])
    lines = runner.run("defaults", defaults, settings)
    choice, means, error, found = defaults.publish(settings, lines).tables
    assert [row[0] for row in choice.rows] == ["r52", "bace_ecfp6"]
    for row in choice.rows:
        assert len(row[1].split(", ")) == 2  # a prior per fold
        assert row[3].startswith("prior")
        assert row[6] in ("yes", "no")
    names = [row[0] for row in means.rows]
    assert names[0] == defaults.CHOSEN
    assert "prior 2, 10 iterations" in names
    assert means.rows[names.index(defaults.label(defaults.AWAY, "300"))][-1] == "1.00"
    assert error.head == ["candidate", "r52", "bace_ecfp6"]
    assert found.head == ["candidate", "r52"]  # no known items of what is no text


def test_ratios_of_paired_means():
    both = np.array([1.0, 1, 0, 0])
    one = np.array([1.0, 0, 0, 0])
    ratio = ratio_of_means(one, both)
    assert ratio.value == 0.5
    assert_allclose(ratio.error**2, 1 / (1 * 2))  # (only one + only other) / (a · b)
    assert math.isnan(ratio_of_means(0 * one, both).value)
    mean = geometric_mean([Ratio(0.5, 0.3), Ratio(2.0, 0.4), Ratio(math.nan, math.nan)])
    assert_allclose(mean, [1.0, 0.25])
    assert str(Ratio(1.0, 0.0)) == "1.00 (1.00-1.00)"


# --- regions and landmarks ------------------------------------------------------------


@pytest.mark.slow
def test_regions_help_where_they_contradict_each_other(tmp_path):
    assert (
        command.main(["local", "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    )
    lines = by_cell(Settings(tmp_path), "local")
    one, two = (lines[local.MADE, method]["wrong"] for method in ("0", "2"))
    assert two < 0.7 * one
    assert lines[local.MADE, "auto"]["n_regions"] == 2


def test_classifiers_on_landmarks(tmp_path, monkeypatch):
    monkeypatch.setattr(classification, "N_FOLDS", 2)
    data = split(n_classes=2)
    task = local.Task({}, *data)
    monkeypatch.setattr(local, "real_task", lambda *_: task)
    settings = Settings(tmp_path, jobs=1, quick=True)
    lines = runner.run("classification", classification, settings)
    errors, similarities = classification.publish(settings, lines).tables
    assert len(errors.rows) == 1
    assert len(similarities.rows) == len(classification.RULES)
    rules = {line["cell"]["method"]: line["rules"] for line in lines}
    assert rules["dot"]["landmarks"]["wrong"] < 10  # of 30
    assert rules["classification"]["landmarks"]["atoms"] > 0
