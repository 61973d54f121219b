"""The page that searches in the browser: what a search finds, in any script, with reasons."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from commands import LABELLED, bad, good, texts
from hdsl import HDSL, load, save
from hdsl.report import search, search_page
from hdsl.settings import nested_parameters
from hdsl.text import Collection, Documents, Words, learn
from pages import number, until

HOSTILE = [
    "<script>alert(1)</script> goal keeper",
    "</script><img src=x onerror=alert(2)> goal profit",
    "goal \u202egpj.exe\u2066 bank of the river",
    "</SCRIPT><svg onload=alert(3)> profit \x1b[31m shares",
]
MODEL = {"scale": 2.0, "prior": 0.5, "n_targets": 1, "n_impostors": 1, "max_iter": 5}


@pytest.fixture
def open_page(chromium, tmp_path):
    """Open a page, and hold against it all that it says or asks for in the end."""
    contexts = []
    messages = []

    def open_page(page_text):
        path = tmp_path / f"{len(contexts)}.html"
        path.write_bytes(page_text.encode("utf-8", "replace"))
        context = chromium.new_context(viewport={"width": 1200, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: dialog.dismiss() or messages.append("dialog"))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("blob:", path.as_uri()))
                or messages.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        until(page, "!document.getElementById('query').disabled")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert messages == []


def typed(page, text):
    """Search for a text."""
    page.locator("#query").fill(text)
    page.locator("#query").press("Enter")


def shown(page, column):
    """Return the rows of a column, and their scores."""
    rows = page.locator(f"#{column} li[data-row]")
    numbers = [int(row.get_attribute("data-row")) for row in rows.all()]
    scores = page.locator(f"#{column} .score").all_inner_texts()
    return numbers, [number(score) for score in scores]


def assert_as_searched(page, collection, text):
    """The page has the hits of a search: the same scores, in their order."""
    typed(page, text)
    for column, plain in (("learned", False), ("plain", True)):
        hits = collection.search(text, 10, why=50, plain=plain)
        name = "cosine" if plain else "similarity"
        scores = np.array([hit[name] for hit in hits])
        rows, values = shown(page, column)
        assert len(rows) == (scores > 1e-9).sum()
        assert_allclose(values, scores[: len(rows)], atol=2e-3)
        of_row = {hit["row"]: hit[name] for hit in collection.search(text, 999, why=0)}
        assert_allclose(values, [of_row[row] for row in rows], atol=2e-3)


@pytest.mark.parametrize("options", [(), ("--no-class-scores",), ("--ngrams", 2)])
def test_the_page_finds_what_a_search_finds(folder, tmp_path, open_page, options):
    model = tmp_path / "m.hdsl"
    command = ("fit", folder / "texts.csv", *LABELLED, "--id", "id", "-o", model)
    good(*command, "--max-iter", 5, "--prior", 1, *options)
    good("report", model, "--search", "-o", tmp_path / "s.html")
    page = open_page((tmp_path / "s.html").read_text())
    assert page.locator("h1").inner_text() == "texts"
    assert "90 documents" in page.locator("#about").inner_text()
    collection = load(model)
    for text in ("goal striker", "late profit report zebra", "d", "rose soil rose"):
        if collection.rows_of([text]).nnz:
            assert_as_searched(page, collection, text)
    typed(page, "goal zebra")
    assert "“zebra”" in page.locator("#note").inner_text()
    assert "1 of 2 words" in page.locator("#note").inner_text()
    typed(page, "zebra")
    assert "try other words" in page.locator("#note").inner_text()
    assert shown(page, "learned") == ([], [])


def test_reasons_add_up_to_the_score(folder, open_page):
    collection = load(folder / "model.hdsl")
    page = open_page(search_page(collection, title="reasons"))
    typed(page, "goal striker")
    for column in ("learned", "plain"):
        for hit in page.locator(f"#{column} li").all():
            parts = re.findall(r"([+−]\d+\.\d+)", hit.locator(".why").inner_text())
            score = number(hit.locator(".score").inner_text())
            total = sum(map(number, parts))
            assert total == pytest.approx(score, abs=0.006 * (1 + len(parts)))
    assert page.locator("#learned .taught").count() > 0
    assert page.locator("#plain mark").first.inner_text().lower() in ("goal", "striker")


def test_a_document_is_searched_with(folder, open_page):
    collection = load(folder / "model.hdsl")
    page = open_page(search_page(collection, title="like"))
    typed(page, "goal striker")
    row = shown(page, "learned")[0][0]
    page.locator("#learned .like").first.click()
    assert f"Like {collection.documents.ids[row]}" in page.locator("#note").inner_text()
    hits = collection.search(None, 10, row=row, why=0)
    rows, values = shown(page, "learned")
    assert row not in rows
    assert_allclose(values, [hit["similarity"] for hit in hits], atol=2e-3)


@pytest.mark.parametrize("tokens", ["auto", "characters"])
def test_any_script_is_searched(open_page, tokens):
    documents = [
        "我喜欢机器学习 and Python",
        "今日は天気が良いですね",
        "ฉันชอบกินข้าวผัด",
        "मैं हिन्दी में किताबें पढ़ता हूँ",
        "Die Straße ist lang, naïve cafe\u0301",
        "ＡＢＣ ｶﾀｶﾅ get_line HTML5",
    ] * 2
    words = Words(tokens)
    labels = [0, 0, 1, 1, 2, 2] * 2
    collection = learn(
        documents, labels, words=words, model=HDSL(**nested_parameters(**MODEL))
    )
    page = open_page(search_page(collection, title="scripts"))
    for text in (
        "学习",
        "天気",
        "กินข้าว",
        "हिन्दी पढ़ता",
        "STRASSE café straße",
        "abc カナ",
    ):
        assert_as_searched(page, collection, text)


def test_a_page_of_bm25_ranks_by_its_scores(open_page):
    documents = [text for _, _, text in texts()]
    words = Words("words", weights="bm25", norm=None)
    X = words.fit(documents).transform(documents)
    triplets = np.array([[0, 3, 1], [1, 4, 2], [2, 5, 0], [3, 6, 1]])
    model = HDSL(**nested_parameters(**MODEL, norm=None)).fit(X, triplets=triplets)
    model.ranking_ = "product"
    collection = Collection(model, words, Documents(X, texts=documents))
    page = open_page(search_page(collection, title="bm25"))
    assert "learned similarity" in page.locator("#about").inner_text()
    assert_as_searched(page, collection, "goal striker report")


def test_hostile_texts_are_text(open_page):
    model = HDSL(**nested_parameters(**MODEL))
    labels = [HOSTILE[0], HOSTILE[1]] * 4
    collection = learn(
        HOSTILE * 2, labels, ids=[f"{k}{HOSTILE[2]}" for k in range(8)], model=model
    )
    page = open_page(search_page(collection, title=HOSTILE[1]))
    assert page.title() == page.locator("h1").inner_text() == HOSTILE[1]
    typed(page, "goal")
    text = page.locator("#learned").inner_text()
    assert "<script>alert(1)</script>" in text
    assert page.locator("main img, main svg, main script").count() == 0
    typed(page, "profit bank")
    visible = page.locator("main").inner_text()
    assert "\\u202egpj.exe\\u2066" in visible
    assert not set("\u202e\u2066\x1b") & set(visible)
    typed(page, "<img src=x onerror=alert(9)>\u202e")
    assert page.locator("main img").count() == 0


def test_a_page_that_is_too_large_says_why_not(folder, tmp_path, monkeypatch):
    collection = load(folder / "model.hdsl")
    whole = len(search_page(collection, title="t"))
    monkeypatch.setattr(search, "MAX_DOCUMENTS", 40)
    assert len(search_page(collection, title="t")) < whole
    monkeypatch.setattr(search, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"at most 1000 B can be sent.*--min-df"):
        search_page(collection, title="t")
    save(Collection(collection.model, collection.words), tmp_path / "m.hdsl")
    assert "no documents" in bad(
        "report", tmp_path / "m.hdsl", "--search", "-o", tmp_path / "s.html"
    )
