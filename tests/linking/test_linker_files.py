"""A linker in a file has its classifiers, and a damaged file is refused."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import hdsl
from hdsl.linking import Linker
from hdsl.linking.classifiers import FoldClassifiers
from products import make_tables


@pytest.fixture(scope="module")
def fitted():
    left, right, matches = make_tables(60)
    linker = Linker(["title", "price"], random_state=0).fit(left, right, matches[:40])
    assert linker.is_learned_
    return linker, matches


@pytest.fixture
def no_learning(monkeypatch):
    """Let classifiers fail that learn."""

    def fail(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(FoldClassifiers, "of_pairs", fail)


def test_classifiers_of_a_file_learn_nothing_and_say_the_same(
    fitted, tmp_path, no_learning
):
    linker, matches = fitted
    linker.save(tmp_path / "linker.hdsl")
    loaded = hdsl.load(tmp_path / "linker.hdsl")
    unknown = matches[40:]
    np.testing.assert_array_equal(
        loaded.predict_proba(unknown), linker.predict_proba(unknown)
    )
    assert loaded.explain_probability(*unknown[0]) == linker.explain_probability(
        *unknown[0]
    )
    new = {"title": ["Sony 40in Bravia tv"], "price": ["12.00"]}
    links = loaded.link(new, 0.0)
    expected = linker.link(new, 0.0)
    np.testing.assert_array_equal(links.probability, expected.probability)


def test_trees_that_no_file_holds_learn_anew(monkeypatch, tmp_path):
    monkeypatch.setattr(HistGradientBoostingClassifier, "__getstate__", lambda self: {})
    left, right, matches = make_tables(60)
    linker = Linker(["title", "price"], random_state=0).fit(left, right, matches[:40])
    linker.save(tmp_path / "linker.hdsl")
    loaded = hdsl.load(tmp_path / "linker.hdsl")
    expected = linker.predict_proba(matches)
    np.testing.assert_allclose(loaded.predict_proba(matches), expected, atol=1e-12)


def test_classifiers_that_a_file_does_not_have_learn_anew(fitted):
    linker, matches = fitted
    arrays, header = linker.to_arrays()
    before = {
        name: array
        for name, array in arrays.items()
        if not name.startswith("classifier.")
    }
    assert len(before) < len(arrays)
    loaded = Linker.from_arrays(before, header)
    np.testing.assert_allclose(
        loaded.predict_proba(matches[40:]), linker.predict_proba(matches[40:])
    )


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("classifier.trees.fold0.boosted.feature", lambda a: a + 10**4, "feature"),
        ("classifier.trees.fold1.randomized.roots", lambda a: a + 10**6, "roots"),
        ("classifier.trees.fold1.weights", lambda a: a[1:], "weights"),
        ("classifier.trees.fold2.baseline", lambda a: a * np.nan, "finite"),
        ("classifier.trees.quantiles", lambda a: a[:, ::-1], "rise"),
        ("classifier.trees.quantiles", lambda a: a[:-1], "quantiles"),
        ("classifier.words.weights", lambda a: a[:, :1], "weights"),
        ("training.pairs", lambda a: a + 10**6, "training pairs"),
        ("training.X", lambda a: a[1:], "row per training pair"),
        ("training.labels", lambda a: a[1:], "labels"),
        ("training.fold", lambda a: a[:, None], "fold"),
    ],
)
def test_damaged_classifiers_are_refused(fitted, name, change, message):
    linker, _ = fitted
    arrays, header = linker.to_arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(ValueError, match=message):
        Linker.from_arrays(arrays, header)


def test_classifiers_without_folds_are_refused(fitted):
    linker, _ = fitted
    arrays, header = linker.to_arrays()
    without = {
        name: array for name, array in arrays.items() if ".trees.fold" not in name
    }
    with pytest.raises(ValueError, match="no classifiers"):
        Linker.from_arrays(without, header)
