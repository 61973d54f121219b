"""The page of a model for everyone: hostile names, keyboards, dark windows, phones."""

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from hdsl import HDSL, Solver
from hdsl.report.content import MAX_TEXT
from pages import X_TEST, Y_TEST, X, Y, column, path_model, until

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


@pytest.fixture(scope="module")
def model():
    return path_model()


# --- for everyone ---------------------------------------------------------------------


def test_hostile_names_are_text(show):
    names = [*HOSTILE, *(f"w{n}" for n in range(22))]
    rng = np.random.default_rng(0)
    rows = rng.random((24, 30)) * (rng.random((24, 30)) < 0.3)
    rows[:, :8] += 3 * np.eye(8)[np.arange(24) % 8]
    labels = np.array(HOSTILE)[np.arange(24) % 4]
    model = HDSL(
        scale=10.0,
        prior=1.0,
        solver=Solver(max_iter=10, tol=0.0),
        min_rows=1,
        random_state=0,
    ).fit(rows, labels)
    page = show(
        model, rows, labels, feature_names=names, title=HOSTILE[1], texts=(HOSTILE * 3)
    )
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
    page = show(model, window={"color_scheme": "light"})
    for scheme, dark in (("light", False), ("dark", True)):
        page.emulate_media(color_scheme=scheme)
        page.reload()
        assert (brightness(page) < 80) == dark
        page.locator("#theme").click()
        assert (brightness(page) < 80) != dark


def test_on_a_phone(model, show):
    width = 360
    names = [f"feature-with-a-long-name-{n}" for n in range(28)] + [
        "x" * 300,
        "y " * 150,
    ]
    page = show(
        model,
        X,
        Y,
        X_test=X_TEST,
        y_test=Y_TEST,
        feature_names=names,
        texts=["word" * 200] * 60,
        title="long" * 40,
        window={"viewport": {"width": width, "height": 740}},
    )
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.set_viewport_size({"width": 1400, "height": 740})  # turned: all is drawn anew
    until(page, "document.querySelector('#graph svg').clientWidth > 700")
    assert page.evaluate("document.documentElement.scrollWidth") == 1400


# --- on text --------------------------------------------------------------------------


def test_documents(show, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 5
    drawn = np.minimum(rng.zipf(1.3, size=(1500, 80)), 2500)
    drawn[:, :4] = 100 + 20 * y[:, None] + rng.integers(20, size=(1500, 4))
    texts = [" ".join(f"word{k}" for k in row) for row in rng.permuted(drawn, axis=1)]
    rows = (words := TfidfVectorizer()).fit_transform(texts)
    names = words.get_feature_names_out()
    model = HDSL(solver=Solver(max_iter=10), prior=8.0, random_state=0).fit(rows, y)
    page = show(model, rows, y, texts=texts, feature_names=names)
    assert (tmp_path / "0.html").stat().st_size < 600_000
    row = int(re.match(r"Row (\d+)", page.locator("#query").input_value())[1])
    assert page.locator("#first-text").text_content() == texts[row][:MAX_TEXT]
    marked = {
        word.lower() for word in page.locator("#first-text mark").all_inner_texts()
    }
    assert marked
    held = {names[f] for f in rows[[row]].indices}
    assert marked <= held
