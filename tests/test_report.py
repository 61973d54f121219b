"""The HTML page of a model: what it holds, and what a browser makes of it."""

import re
import shutil
import time

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from hdsl import HDSL, ClassScores, load, report
from hdsl.datasets import load_docstrings
from hdsl.evaluate import compare_errors
from hdsl.report.content import MAX_TEXT, MAX_VALUES, choose_rows

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "</SCRIPT><svg onload=alert(3)>",
    "line\u2028separator\u2029&amp;",
    "<!--<script>",
    "{{data}}",
    "\\u003c\x00\ud800",
    "'\"><b>bold</b>",
]


def clusters(seed=0, n=60, d=30):
    """Rows of three classes, each with words of its own, and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.25)
    X[np.arange(n), 4 * y + rng.integers(4, size=n)] += 1
    return sp.csr_array(X), np.array(["a", "b", "c"])[y]


X, Y = clusters()
X_TEST, Y_TEST = clusters(seed=1, n=40)


@pytest.fixture(scope="module")
def model():
    """Early stopping, so the fitted model is not the last of the path."""
    parameters = {"scale": 20.0, "prior": 0.3, "max_iter": 120, "tol": 0.0, "random_state": 0}
    few = lambda model, *_: -abs(len(model.weights_) - 10)  # noqa: E731
    model = HDSL(**parameters, n_iter_no_change=None, scoring=few)
    model.fit(X, Y, X_val=X_TEST, y_val=Y_TEST)
    assert model.n_iter_ < len(model.trace_) - 1
    return model


# --- what is written -----------------------------------------------------------------------------


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
        with pytest.raises(OSError, match="Cannot write the report: the disk is full") as caught:
            model.report(path, title="second")
    assert caught.value.filename == str(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text("utf-8") == first
    link = tmp_path / "link.html"
    link.symlink_to(path)
    model.report(link, title="third")
    assert link.is_symlink()
    assert "<title>third</title>" in path.read_text("utf-8")


def test_places_that_cannot_be_written(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="the report: the folder does not exist"):
        model.report(tmp_path / "absent" / "report.html")
    with pytest.raises(OSError, match="Cannot write the report: this is a folder"):
        model.report(tmp_path)
    with pytest.raises(NotFittedError):
        HDSL().report(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X": X[:, :7]}, "X has 7 features, but HDSL is expecting 30"),
        ({"y": Y}, "y goes with the rows of X, but X is None: pass X too"),
        ({"texts": ["a"]}, "texts goes with the rows of X"),
        ({"X": X, "y": Y[:5]}, "y has 5 entries, but X has 60 rows"),
        ({"X": X, "texts": ["a"]}, "texts has 1 entries, but X has 60 rows"),
        ({"X": X, "texts": "abc"}, "Got one string"),
        ({"X": X, "y": Y, "X_test": X_TEST}, "go together. Missing: y_test"),
        ({"X_test": X_TEST, "y_test": Y_TEST}, "go together. Missing: X, y"),
        ({"X": X, "y": Y, "X_test": X_TEST, "y_test": Y_TEST[:3]}, "y_test has 3 labels, but"),
        ({"X": X, "y": Y, "X_test": X_TEST[:, 1:], "y_test": Y_TEST}, "X_test has 29 features"),
        ({"feature_names": ["a"]}, "feature_names has 1 names, but the model has 30"),
        ({"max_items": -1}, r"'max_items' parameter of report must be an int >= 0\. Got -1"),
    ],
)  # fmt: skip
def test_messages(given, message, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        model.report(tmp_path / "report.html", **given)
    assert not list(tmp_path.iterdir())


def test_long_rows_leave_room_for_fewer_items(model):
    rng = np.random.default_rng(0)
    dense = rng.random((300, 2000))
    wide = HDSL(scale=1.0, prior=1.0, max_iter=5, random_state=0).fit(
        dense, triplets=rng.permutation(300).reshape(-1, 3)
    )
    text = report.page(wide, dense, texts=["é" * 9000] * 300)
    assert len(text.encode()) < 1_500_000
    rows = choose_rows(sp.csr_array(dense), 200)
    assert len(rows) * 2000 <= MAX_VALUES
    assert rows[[0, -1]].tolist() == [0, 299]


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, tmp_path):
    """Write a report, open it, and hold against it all that it says or asks for in the end."""
    contexts, said = [], []

    def show(model, X=None, y=None, *, window=(), **parts):
        path = tmp_path / f"{len(contexts)}.html"
        model.report(path, X, y, **parts)
        desk = {"viewport": {"width": 1200, "height": 900}}
        context = chromium.new_context(**desk | dict(window))
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: request.url == path.as_uri() or said.append(request.url))
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert said == []


def until(page, expression, patience=20.0):
    """Wait until something holds; wait_for_function needs eval, which the page forbids."""
    end = time.monotonic() + patience
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def until_at(page, k):
    until(page, f"document.getElementById('now').textContent.startsWith('iteration{k} ')")


def go_to(page, k):
    page.locator("#iteration").fill(str(k))
    page.locator("#iteration").press("Enter")
    until_at(page, k)


def column(page, n):
    return page.locator(f"#table tbody td:nth-child({n})").all_inner_texts()


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


def effects_of_atoms(model, X):
    """Return the root mean square of scale·w·(x_i y_j + x_j y_i) over all pairs of rows."""
    rows = sp.csr_array(model.index_rows(X)).toarray()
    both = [rows[:, [i]] * rows[:, j] for i, j in model.atoms_[:, :2]]
    size = np.array([np.sqrt(np.mean((B + B.T) ** 2)) for B in both])
    return model.scale_ * model.weights_ * size


def weights_on(page, k):
    return {
        (atom["i"], atom["j"], atom["sign"]): atom["weight"]
        for atom in page.evaluate("k => window.hdslReport.at(k)", k)
    }


def weights_of(model):
    return dict(zip(map(tuple, model.atoms_.tolist()), model.weights_.tolist(), strict=True))


@pytest.mark.parametrize(
    "parameters",
    [
        {"step": "away"},
        {"step": "pairwise"},
        {"step": "blended"},
        {"step": "forward", "step_size": "2/(k+2)"},
        {"step": "away", "oracle": "heuristic", "init": "random", "prior": 0.0},
    ],
)
def test_every_model_of_the_path(parameters, show):
    model = HDSL(**{"scale": 20.0, "max_iter": 150, "tol": 0.0, "random_state": 0} | parameters)
    model.fit(X, Y)
    page = show(model)
    last = len(model.trace_) - 1
    assert page.evaluate("window.hdslReport.lastIteration") == last
    for k in [*range(0, last, 29), 50, 51, 49, last, 0]:  # back and forth over what it keeps
        there, expected = weights_on(page, k), weights_of(model.at(k))
        assert there.keys() == expected.keys()
        assert_allclose([there[a] for a in expected], [*expected.values()], rtol=1e-9)


def test_a_path_that_was_continued_and_saved(model, show, tmp_path):
    longer = HDSL(scale=20.0, prior=0.3, max_iter=30, tol=0.0, warm_start=True, random_state=0)
    longer.fit(X, Y).fit(X, Y)
    longer.save(tmp_path / "model.hdsl")
    page = show(load(tmp_path / "model.hdsl"))
    for k in (29, 30, 31, 60):
        there, expected = weights_on(page, k), weights_of(longer.at(k))
        assert_allclose([there[a] for a in expected], [*expected.values()], rtol=1e-9)


def test_page_follows_the_slider(model, show):
    page = show(model, X, Y)
    slider = page.locator("#slider")
    assert slider.input_value() == str(model.n_iter_)
    slider.focus()
    last = len(model.trace_) - 1
    for key, k in [("Home", 0), ("ArrowRight", 1), ("End", last), ("ArrowLeft", last - 1)]:
        slider.press(key)
        until_at(page, k)
        then = model.at(k)
        effects = effects_of_atoms(then, X)
        order = np.argsort(-effects, kind="stable")
        shown = [number(text) for text in column(page, 6)]
        assert_allclose(shown, effects[order][:50], rtol=6e-3)
        signs = {1: "+", -1: "−"}
        names = [[f"x{i}", signs[sign], f"x{j}"] for i, j, sign in then.atoms_[order].tolist()]
        cells = [column(page, n) for n in (1, 2, 3)]
        assert list(map(list, zip(*cells, strict=True))) == names[:50]
        shares = [float(text.strip(" %")) / 100 for text in column(page, 5)]
        assert_allclose(shares, then.weights_[order][:50], atol=6e-5)
        shown = [number(text) for text in column(page, 4)]
        assert_allclose(shown, 20 * then.weights_[order][:50], rtol=6e-3)
        now = page.locator("#now").inner_text()
        assert f"pairs\n{len(then.weights_)}" in re.sub(r"\s+", "\n", now)
        loss = float(re.search(r"loss\s+([\d.]+)", now)[1])
        assert loss == pytest.approx(then.objective_, rel=1e-3)
        n_edges = min(60, len(then.weights_))
        until(page, f"document.querySelectorAll('#graph .edge').length === {n_edges}")
    page.locator("#fitted").click()
    until_at(page, model.n_iter_)
    begin = {"x": 52, "y": 60}  # where the chart begins
    page.locator("#charts svg").first.click(position=begin)
    until_at(page, 0)


def test_search_and_sort(model, show):
    page = show(model, X, Y, feature_names=[f"Word{n}" for n in range(30)])
    n_atoms = len(model.weights_)
    page.locator("#search").fill("word2")
    wanted = [a for a in model.atoms_.tolist() if any(str(f).startswith("2") for f in a[:2])]
    assert 0 < len(wanted) < n_atoms
    assert page.locator("#found").inner_text() == f"{len(wanted)} of {len(wanted)} pairs found"
    assert all("Word2" in a + b for a, b in zip(column(page, 1), column(page, 3), strict=True))
    page.locator("#search").fill("nothing has this name")
    assert column(page, 1) == []
    page.locator("#search").fill("")

    pairs = [(f"Word{i}", f"Word{j}") for i, j, _ in model.atoms_]
    first = page.get_by_role("button", name="First feature")
    first.click()
    by_name = sorted((a for a, _ in pairs), key=lambda name: int(name[4:]))
    assert column(page, 1) == by_name[:50]
    assert page.locator("#by-i").get_attribute("aria-sort") == "ascending"
    first.press("Enter")
    assert column(page, 1) == by_name[::-1][:50]
    assert page.locator("[aria-sort]").count() == 1
    there = X.toarray() != 0
    both = sorted((there[:, i] & there[:, j]).sum() for i, j, _ in model.atoms_)[::-1]
    page.get_by_role("button", name="Rows with both").click()
    assert column(page, 9) == [str(count) for count in both[:50]]
    names = column(page, 3)
    assert column(page, 8) == [str(there[:, int(name[4:])].sum()) for name in names]


def test_rest_of_a_long_table(show):
    rng = np.random.default_rng(0)
    wide = sp.random_array((90, 400), density=0.1, random_state=rng, format="csr")
    model = HDSL(scale=1000.0, max_iter=250, tol=0.0, random_state=0)
    model.fit(wide, rng.permutation(90) % 3)
    n = len(model.weights_)
    assert n > 50
    page = show(model)
    assert len(column(page, 1)) == 50
    page.locator("#more").click()
    assert len(column(page, 1)) == n
    assert not page.locator("#more").is_visible()


@pytest.mark.parametrize(("prior", "dtype"), [(0.0, np.float64), (0.3, np.float32)])
def test_why_two_items_match(prior, dtype, show):
    rows = X.astype(dtype)
    rows.data[::7] *= -1
    model = HDSL(scale=20.0, prior=prior, max_iter=60, random_state=0).fit(rows, Y)
    page = show(model, rows, Y, max_items=21)
    chosen = choose_rows(rows, 21)
    assert len(chosen) == 21
    pairs = [(a, b) for a in range(0, 21, 4) for b in range(21)]
    told = page.evaluate(
        "([pairs, k]) => pairs.map(([a, b]) => window.hdslReport.explain(a, b, k))",
        [pairs, model.n_iter_],
    )
    a, b = chosen[np.array(pairs).T]
    # Python adds float32 in float32: then parts that cancel leave its rounding.
    precision = {"rtol": 1e-6, "atol": 1e-12 if dtype == np.float64 else 1e-5}
    assert_allclose([why["total"] for why in told], model.pair_score(rows[a], rows[b]), **precision)
    unit = sp.csr_array(model.index_rows(rows))
    plain = prior * np.asarray(unit[a].multiply(unit[b]).sum(axis=1))
    assert_allclose([why["plain"] for why in told], plain, **precision)

    choose(page, rows, chosen, 3, 8)
    expected = float(model.pair_score(rows[chosen[[3]]], rows[chosen[[8]]])[0])
    total = number(page.locator("#total").inner_text())
    assert total == pytest.approx(expected, rel=1e-3, abs=1e-3)
    if page.locator("#more-parts").is_visible():
        page.locator("#more-parts").click()
    adds = page.locator("#parts tbody .effect").all_inner_texts()
    parts = [number(text) for text in adds]
    assert sum(parts) == pytest.approx(expected, rel=5e-3, abs=1e-2 * np.abs(parts).max())
    assert np.all(np.diff(np.abs(parts)) <= 0)

    go_to(page, 0)
    then = model.at(0).pair_score(rows[chosen[[3]]], rows[chosen[[8]]])[0]
    total = number(page.locator("#total").inner_text())
    assert total == pytest.approx(then, rel=1e-3, abs=1e-5)


def choose(page, rows, chosen, first, second):
    """Type to pick two items."""
    for box, item in (("#query", first), ("#second", second)):
        page.locator(box).fill(f"Row {chosen[item]}")
        page.locator(box).press("Enter")


def test_neighbours_before_and_after(model, show):
    page = show(model, X, Y)
    page.locator("#query").fill("Row 7")
    page.locator("#query").press("Enter")
    unit = sp.csr_array(model.index_rows(X))
    for name, scores in (
        ("before", (unit[[7]] @ unit.T).toarray()[0]),
        ("after", model.similarity(X[[7]], X, cosine=True)[0]),
    ):
        scores[7] = -np.inf
        order = np.argsort(-scores)[:6]
        shown = page.locator(f"#{name} button").all_inner_texts()
        titles = zip(order, shown, strict=True)
        assert all(f"Row {row}, {Y[row]}" in text for row, text in titles)
        values = [number(text.split()[0]) for text in shown]
        assert_allclose(values, scores[order], atol=6e-4)
    button = page.locator("#after button").nth(2)
    title = re.search(r"Row \d+, \w", button.inner_text())[0]
    button.click()
    assert page.locator("#second").input_value().startswith(title)
    button.hover()
    tip = page.locator("#tip")
    assert tip.is_visible()
    where, eye = tip.bounding_box(), button.bounding_box()
    assert abs(where["y"] + where["height"] / 2 - eye["y"]) < 200  # beside what is pointed at
    go_to(page, 0)
    plain = (model.at(0).similarity(X[[7]], X, cosine=True))[0]
    plain[7] = -np.inf
    shown = page.locator("#after button").first.inner_text()
    assert number(shown.split()[0]) == pytest.approx(plain.max(), abs=6e-4)  # follows the slider


def test_words_are_searched_for(show):
    names = [f"w{n}" for n in range(30)]
    model = HDSL(scale=20.0, prior=0.3, max_iter=40, random_state=0).fit(X, Y)
    page = show(model, X, Y, feature_names=names)
    page.locator("#query").fill("W3 and w9, w9!")
    page.locator("#query").press("Enter")
    x = np.zeros((1, 30))
    x[0, [3, 9]] = 1, 1 + np.log(2)
    scores = model.similarity(x, X, cosine=True)[0]
    shown = [number(text.split()[0]) for text in page.locator("#after button").all_inner_texts()]
    assert_allclose(shown, np.sort(scores)[::-1][:6], atol=6e-4)
    assert page.locator("#first-text").inner_text() == "W3 and w9, w9!"
    page.locator("#query").fill("nothing known")
    page.locator("#query").press("Enter")
    assert "No word of this" in page.locator("#unknown").inner_text()


def test_class_scores_are_no_part_of_the_plain_cosine(chromium, tmp_path):
    scores = ClassScores(random_state=0)
    rows = sp.csr_array(scores.fit_transform(X, Y))
    model = HDSL(max_iter=20, random_state=0).fit(rows, Y)
    choice = np.array([[0.0, 0.5], [model.n_iter_, 0.75], [model.n_iter_ + 20, 0.5]])
    more = report.More(np.arange(60) + 100, 3, np.ones(30), choice)
    (tmp_path / "r.html").write_text(report.page(model, rows, Y, more=more), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 400, "height": 800})
    page.goto((tmp_path / "r.html").as_uri())
    page.locator("#query").fill("Row 107")
    page.locator("#query").press("Enter")
    unit = X / np.sqrt(X.power(2).sum(axis=1))[:, None]
    plain = (sp.csr_array(unit)[[7]] @ sp.csr_array(unit).T).toarray()[0]
    plain[7] = -np.inf
    shown = [number(text.split()[0]) for text in page.locator("#before button").all_inner_texts()]
    assert_allclose(shown, np.sort(plain)[::-1][:6], atol=6e-4)
    assert "chosen on validation rows" in page.locator("#status").inner_text()
    assert "chosen on validation rows" in page.locator("#facts").inner_text()
    at = f"chosen: {model.n_iter_} iterations"
    assert page.locator("#charts svg").first.locator("text.chosen").all_text_contents() == [at]
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.close()


def test_errors_are_those_of_test_rows(model, show):
    said = "No error on test rows was measured"
    page = show(model, X, Y)
    assert said in page.locator("#measured").inner_text()
    assert not page.locator("#gain").is_visible()
    page = show(model, X, Y, X_test=X_TEST, y_test=Y_TEST)
    text = page.locator("#measured").inner_text()
    assert "share of 40 test rows whose class the vote of their 3 most similar among 60" in text
    found = compare_errors(model, X, Y, X_TEST, Y_TEST, cosine=True)
    for rate in (found.before, found.after):
        low, high = (100 * share for share in rate.interval)
        wrong = f"{100 * rate.share:.2f} % ({rate.n_wrong}; {low:.1f} to {high:.1f} %)"
        assert wrong in text
    assert text.endswith(found.sentence)
    headline = page.locator("#headline").inner_text()
    for rate in (found.before, found.after):
        assert f"{100 * rate.share:.1f} %" in headline
        assert f"{100 * rate.share:.1f} %" in page.locator("#gain").inner_text()


def test_learned_and_settings(model, show):
    page = show(model, title="Three classes")
    assert page.title() == page.locator("h1").inner_text() == "Three classes"
    signs = model.atoms_[:, 2]
    sentence = page.locator("#sentence").inner_text()
    assert f"learned {len(signs)} pairs of features: {(signs > 0).sum()} that count" in sentence
    for name, sign in (("together", 1), ("apart", -1)):
        own = np.flatnonzero(signs == sign)
        own = own[np.argsort(-model.weights_[own])][:8]
        expected = [f"x{i} {'−+'[sign > 0]} x{j}" for i, j, _ in model.atoms_[own]]
        assert page.locator(f"#{name} .pair").all_inner_texts() == expected
    changed = page.locator("#changed dt").all_inner_texts()
    assert changed == [
        "max_iter", "n_iter_no_change", "prior", "random_state", "scale", "scoring", "tol"
    ]  # fmt: skip
    status = page.locator("#status").inner_text()
    assert f"the one after {model.n_iter_} of 120 iterations" in status
    assert status.startswith("The number of iterations was chosen on validation rows.")
    assert "written without rows" in page.locator("#items-note").inner_text()


def test_pairs_in_one_row_come_last(show):
    rows = np.hstack([np.eye(60), X.toarray()])  # each row has a feature of its own
    model = HDSL(scale=500.0, prior=0.0, max_iter=30, random_state=0).fit(rows, Y)
    is_rare = (model.atoms_[:, :2] < 60).any(axis=1)
    assert 0 < is_rare.sum() < len(is_rare)
    page = show(model, rows)
    firsts = [int(name[1:]) for name in column(page, 1)]
    assert [first < 60 for first in firsts] == sorted(is_rare.tolist())
    listed = page.locator("#together .pair, #apart .pair").all_inner_texts()
    own = [{f"x{i}", f"x{j}"} for i, j, _ in model.atoms_[is_rare]]
    assert not any(set(pair.split()[::2]) in own for pair in listed)
    assert page.locator("#graph .edge").count() == (~is_rare).sum()


def test_wide_rows(show):
    """More columns than an array could have numbers."""
    model, rows = wide_model()
    page = show(model, rows)
    there = weights_on(page, model.n_iter_)
    assert there == pytest.approx(weights_of(model))
    total = number(page.locator("#total").inner_text())
    first, second = (
        int(page.locator(f"#{name}").input_value().split()[1].strip(":,"))
        for name in ("query", "second")
    )
    expected = model.pair_score(rows[[first]], rows[[second]])[0]
    assert total == pytest.approx(expected, rel=1e-3)


def wide_model():
    """Return a model of rows with 2**40 columns, and the rows."""
    columns = np.sort(np.random.default_rng(0).choice(2**40, X.shape[1], replace=False))
    rows = sp.csr_array((X.data, columns[X.indices], X.indptr), shape=(X.shape[0], 2**40))
    return HDSL(scale=20.0, prior=0.3, max_iter=20, random_state=0).fit(rows, Y), rows


def test_smallest_model(show):
    model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    page = show(model, [[1, 0], [0, 1]])
    assert column(page, 1) == ["x0"]
    expected = model.pair_score([[1, 0]], [[0, 1]])[0]
    assert number(page.locator("#total").inner_text()) == pytest.approx(expected)


# --- for everyone --------------------------------------------------------------------------------


def test_hostile_names_are_text(show):
    names = [*HOSTILE, *(f"w{n}" for n in range(22))]
    rng = np.random.default_rng(0)
    rows = rng.random((24, 30)) * (rng.random((24, 30)) < 0.3)
    rows[:, :8] += 3 * np.eye(8)[np.arange(24) % 8]
    labels = np.array(HOSTILE)[np.arange(24) % 4]
    model = HDSL(scale=10.0, max_iter=80, tol=0.0, random_state=0).fit(rows, labels)
    page = show(model, rows, labels, feature_names=names, title=HOSTILE[1], texts=(HOSTILE * 3))
    assert page.title() == page.locator("h1").inner_text() == HOSTILE[1]
    assert page.locator("script").count() == 2
    assert page.locator("b:text('bold'), img").count() == 0
    used = set(model.atoms_[:, :2].ravel().tolist())
    assert used >= {0, 1, 2}
    shown = {*column(page, 1), *column(page, 3)}
    assert {HOSTILE[n] for n in (0, 1, 2)} <= shown
    assert HOSTILE[0][:23] in page.locator("#graph").text_content()
    page.locator("#query").fill("Row 0")
    page.locator("#query").press("Enter")
    assert page.locator("#first-text").inner_text() == HOSTILE[0]
    assert HOSTILE[1] in page.locator("#titles option").nth(1).get_attribute("value")


def test_by_keyboard_alone(model, show):
    page = show(model, X, Y)
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline, stroke = page.evaluate(
            """() => {
                const here = document.activeElement, box = here.querySelector("rect");
                return [here.id || here.classList[0], getComputedStyle(here).outlineStyle,
                        box && getComputedStyle(box).strokeWidth];
            }"""
        )
        reached.append(name)
        assert (stroke or outline) in ("2.5px", "solid"), reached
        if name == "vertex":
            break
    order = [
        "skip",
        "theme",
        "slider",
        "iteration",
        "fitted",
        "query",
        "second",
        "search",
        "vertex",
    ]
    assert [name for name in reached if name in order] == order

    name = "document.activeElement.querySelector('text').textContent"
    first = page.evaluate(name)
    page.keyboard.press("ArrowRight")
    second = page.evaluate(name)
    assert second != first
    assert page.locator("#tip .feature").first.inner_text() == second
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(name) == first
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "search"
    assert page.locator("#search").input_value() == first
    assert {first} <= {*column(page, 1), *column(page, 3)}
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [role=img], [tabindex]")]
            .filter(node => !(node.labels?.length || node.getAttribute("aria-label")
                              || node.textContent.trim()))
            .map(node => node.outerHTML)"""
    )
    assert unnamed == []


def brightness(page):
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return np.mean([float(part) for part in re.findall(r"[\d.]+", color)[:3]])


def test_dark_and_light(model, show):
    for scheme, dark in (("light", False), ("dark", True)):
        page = show(model, window={"color_scheme": scheme})
        assert (brightness(page) < 80) == dark
        page.locator("#theme").click()
        assert (brightness(page) < 80) != dark


@pytest.mark.parametrize("width", [360, 400])
def test_on_a_phone(width, model, show):
    names = [f"feature-with-a-long-name-{n}" for n in range(28)] + ["x" * 300, "y " * 150]
    page = show(model, X, Y, X_test=X_TEST, y_test=Y_TEST, feature_names=names,
                texts=["word" * 200] * 60, title="long" * 40,
                window={"viewport": {"width": width, "height": 740}})  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.set_viewport_size({"width": 1400, "height": 740})  # turned: all is drawn anew
    until(page, "document.querySelector('#graph svg').clientWidth > 700")
    assert page.evaluate("document.documentElement.scrollWidth") == 1400


def test_on_paper(model, show):
    page = show(model, X, Y, window={"color_scheme": "dark"})
    page.emulate_media(media="print")
    for control in ("#slider", "#search", "#theme", "nav", "#more"):
        assert not page.locator(control).is_visible()
    assert page.locator("#now").is_visible()
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert max(float(part) for part in re.findall(r"[\d.]+", ink)[:3]) < 80
    assert page.pdf(format="A4").startswith(b"%PDF")


# --- on text -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def docs():
    return load_docstrings(min_rows_per_label=100)


@pytest.fixture(scope="module")
def text_model(docs):
    return HDSL(max_iter=100, random_state=0).fit(docs.X, docs.y)


@pytest.mark.parametrize(("width", "most"), [(1200, 60), (360, 24)])
def test_labels_of_the_network_do_not_overlap(width, most, docs, text_model, show):
    window = {"viewport": {"width": width, "height": 800}}
    page = show(text_model, feature_names=docs.feature_names, window=window)
    boxes = page.evaluate(
        """() => [...document.querySelectorAll("#graph rect")].map(node => {
            const box = node.getBoundingClientRect();
            return [box.left, box.right, box.top, box.bottom];
        })"""
    )
    left, right, top, bottom = np.array(boxes).T
    assert page.locator("#graph .edge").count() == most < len(text_model.weights_)
    assert left.min() >= 0
    assert right.max() <= width
    apart = (left[:, None] >= right) | (top[:, None] >= bottom)
    assert (apart | apart.T | np.eye(len(boxes), dtype=bool)).all()


def test_documents(docs, text_model, show, tmp_path):
    page = show(text_model, docs.X, docs.y, texts=docs.texts, feature_names=docs.feature_names)
    assert (tmp_path / "0.html").stat().st_size < 600_000
    spent = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    assert spent < 8000  # ms; a second or less on a machine that has nothing else to do
    row = int(re.match(r"Row (\d+)", page.locator("#query").input_value())[1])
    assert page.locator("#first-text").text_content() == docs.texts[row][:MAX_TEXT]
    marked = {word.lower() for word in page.locator("#first-text mark").all_inner_texts()}
    assert marked
    held = {docs.feature_names[f] for f in docs.X[[row]].indices}
    assert marked <= held
