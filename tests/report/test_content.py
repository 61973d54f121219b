"""The HTML page of a model, as a file: the same for the same input, written whole or not at all."""

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from hdsl import HDSL, Solver, report
from hdsl.report.content import MAX_VALUES, choose_rows
from pages import X_TEST, Y_TEST, X, Y, path_model


@pytest.fixture(scope="module")
def model():
    return path_model()


def test_same_input_same_page(model):
    parts = {"X_test": X_TEST, "y_test": Y_TEST, "texts": ["t"] * 60}
    text = report.page(model, X, Y, **parts)
    assert text == report.page(model, X.toarray(), Y.tolist(), **parts)
    assert text.count("<script") == 2


def test_written_whole_or_not_at_all(model, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    model.report(path, title="first")
    first = path.read_text("utf-8")
    assert "<title>first</title>" in first

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(OSError, match="disk is full") as caught:
            model.report(path, title="second")
    assert caught.value.filename == str(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text("utf-8") == first
    link = tmp_path / "link.html"
    link.symlink_to(path)
    model.report(link, title="third")
    assert link.is_symlink()
    assert "<title>third</title>" in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X": X[:, :7]}, "7 features"),
        ({"y": Y}, "X is None"),
        ({"X": X, "y": Y[:5]}, "y has 5"),
        ({"X": X, "texts": "abc"}, "one string"),
        ({"X": X, "y": Y, "X_test": X_TEST}, "y_test"),
        ({"X_test": X_TEST, "y_test": Y_TEST}, "Missing: X, y"),
        ({"feature_names": ["a"]}, "feature_names"),
        ({"max_items": -1}, "max_items"),
    ],
)
def test_messages(given, message, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        model.report(tmp_path / "report.html", **given)
    assert not list(tmp_path.iterdir())


def test_long_rows_leave_room_for_fewer_items(model):
    rng = np.random.default_rng(0)
    dense = rng.random((300, 2000))
    wide = HDSL(scale=1.0, prior=1.0, solver=Solver(max_iter=5), random_state=0).fit(
        dense, triplets=rng.permutation(300).reshape(-1, 3)
    )
    text = report.page(wide, dense, texts=["é" * 9000] * 300)
    assert len(text.encode()) < 1_500_000
    rows = choose_rows(sp.csr_array(dense), 200)
    assert len(rows) * 2000 <= MAX_VALUES
    assert rows[[0, -1]].tolist() == [0, 299]


def test_memory_does_not_grow_with_the_classes():
    """10,000 classes of 2 rows: a number per class and feature would take 300 MB."""
    columns = np.random.default_rng(0).integers(5000, size=40 * 20_000)
    rows = sp.csr_array(
        (np.ones(len(columns)), columns, np.arange(20_001) * 40), (20_000, 5000)
    )
    model = HDSL(scale=1.0, prior=1.0, solver=Solver(max_iter=2)).fit(
        rows[:9], triplets=[[0, 1, 2], [3, 4, 5]]
    )
    tracemalloc.start()
    report.page(model, rows, np.arange(20_000) // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5e8


def test_marks_that_turn_a_text_are_shown_as_escapes():
    turned = "photo\u202egnp.exe \u2066x\u2069"
    model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    html = report.page(
        model,
        X=np.eye(2),
        texts=[turned, "b"],
        feature_names=[turned, "w"],
        title=turned,
    )
    assert not set("\u202e\u2066\u2069") & set(html)
    assert "<title>photo\\u202egnp.exe" in html
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert data["title"] == "photo\\u202egnp.exe \\u2066x\\u2069"
