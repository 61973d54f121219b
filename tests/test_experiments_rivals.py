"""The experiment `rivals`: other ways to learn a similarity, beside what they must equal."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from reproduce import quality, reproduce, rivals, runner
from reproduce.runner import Settings


def split(n=90, seed=0):
    """Three classes with words of their own, among others."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    counts = rng.poisson(0.3, size=(n, 150)).astype(float)
    for label in range(3):
        counts[y == label, 6 * label : 6 * label + 6] += rng.poisson(0.5, (n // 3, 6))
    X = sp.csr_array(normalize(counts))
    return quality.Split(X[:60], y[:60], X[60:], y[60:])


@pytest.fixture
def settings(monkeypatch, tmp_path):
    monkeypatch.setattr(quality, "load", lambda settings, name: split())
    monkeypatch.setattr(rivals, "ALPHAS", (1e-6, 1e-4))
    monkeypatch.setattr(rivals, "STEPS", (0.1,))
    monkeypatch.setattr(rivals, "FOLDS", 2)
    monkeypatch.setattr(
        quality, "names_of_sets", lambda settings: ["texts", "docstrings", "bbc_counts"]
    )
    return Settings(tmp_path, jobs=1, quick=True)


def test_tables_have_every_method_and_nca_is_scikit_learns(settings, monkeypatch):
    page = reproduce.reproduce("rivals", settings).read_text(encoding="utf-8")
    assert page.startswith(f"# {rivals.TITLE}\n\nA quick version")
    lines = runner.read(settings, "rivals").values()
    assert {line["cell"]["set"] for line in lines} == {"texts"}  # neither counts nor docstrings
    assert [line["cell"]["method"] for line in lines] == list(rivals.METHODS)
    assert all(label in page for label in rivals.METHODS.values())

    data = split()
    svd = TruncatedSVD(59, random_state=0).fit(data.X)
    X, X_test = (normalize(svd.transform(rows)) for rows in (data.X, data.X_test))
    nca = NeighborhoodComponentsAnalysis(random_state=0).fit(X, data.y)
    knn = KNeighborsClassifier(3).fit(normalize(nca.transform(X)), data.y)
    expected = int(np.sum(knn.predict(normalize(nca.transform(X_test))) != data.y_test))
    wrong = {line["cell"]["method"]: line["wrong"] for line in lines}
    assert wrong["nca"] == expected
    assert min(wrong.values()) < 10 < 20  # of 30: chance is 20

    monkeypatch.setattr(rivals, "MOST_ROWS", {"nca": 59})  # a set of 60 rows is too large
    assert "nca" not in [cell["method"] for cell in rivals.cells(settings)]


def test_docstrings_are_for_lack_of_other_sets(settings, monkeypatch):
    monkeypatch.setattr(quality, "names_of_sets", lambda settings: ["docstrings"])
    assert {cell["set"] for cell in rivals.cells(settings)} == {"docstrings"}
