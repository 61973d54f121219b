"""The page of `hdsl link`: doubtful pairs first, differences in colour, answers to save."""

import re

import pytest

from commands import good, write_csv
from hdsl.cli.link_page import _marked
from hdsl.cli.link_page import page as page_of
from hdsl.linking import Linker
from products import make_tables


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    left, right, matches = make_tables(40)
    left["title"][3] += ' <b>"x"</b>, 9'
    for name, table in (("left", left), ("right", right)):
        header = ("id", "title", "price")
        write_csv(folder / f"{name}.csv", zip(*table.values(), strict=True), header)
    pairs = [(left["sku"][a], right["sku"][b]) for a, b in matches.tolist()]
    write_csv(folder / "pairs.csv", pairs[:20], ("left", "right"))
    path = folder / "links, all.html"
    tables = [folder / "left.csv", folder / "right.csv"]
    options = ["--matches", folder / "pairs.csv", "-o", folder / "links.csv"]
    good("link", *tables, *options, "--html", path)
    return path, {left for left, _ in pairs[:20]}


def test_pairs_are_new_and_doubtful_ones_come_first(page):
    path, known = page
    text = path.read_text(encoding="utf-8")
    assert "What tells most" in text
    assert "width=device-width" in text
    assert "http" not in text.replace("http-equiv", "")
    assert "<b>&quot;x" not in text
    _, links = text.split("doubtful ones first")
    probability = [float(p) for p in re.findall(r"<p><b>([\d.]+)</b>", links)]
    assert probability == sorted(probability)
    pairs = re.findall(r'data-left="(L\d+)" data-right="(R\d+)"', text)
    assert len(pairs) == len({*pairs}) > 0
    of_links = re.findall(r'data-left="(L\d+)"', links)
    assert {*of_links}.isdisjoint(known)
    assert text.count("<th>title<th>price") == len(pairs)


def test_doubtful_pairs_say_what_pushed_their_probability(page):
    path, _ = page
    doubtful, links = path.read_text(encoding="utf-8").split("doubtful ones first")
    parts = re.findall(r"– probability: [^<]*?(\w+ [+-]\d+\.\d)", doubtful)
    assert len(parts) == doubtful.count("<article")
    assert "– probability" not in links


def test_words_that_only_one_record_has_are_marked():
    assert _marked("Acme X10, new", "new ACME <x20>") == "Acme <mark>X10</mark>, new"
    assert _marked("a & b", "b") == "<mark>a</mark> &amp; b"
    assert _marked("", "b") == ""


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_marks_that_turn_a_text_are_shown_as_escapes():
    turned = "a\u202eb"
    linker = Linker(id_column="id").fit({"id": [turned, "x"], turned: ["red pie"] * 2})
    links = linker.records(linker.predict(0.0))
    shown = re.sub('data-(left|right)="[^"]*"', "", page_of("t", linker, links, "now"))
    assert "\u202e" not in shown
    assert shown.count("a\\u202eb") >= 2


def test_a_person_answers_with_two_keys_and_saves_a_file(page, chromium):
    path, _ = page
    context = chromium.new_context(accept_downloads=True)
    messages = []
    shown = context.new_page()
    shown.on("console", lambda message: messages.append(message.text))
    shown.on("pageerror", lambda error: messages.append(str(error)))
    shown.goto(path.as_uri())
    assert shown.locator("#save").is_disabled()
    for key in ("y", "n", "ArrowUp", "ArrowUp", "n"):
        shown.keyboard.press(key)
    shown.locator("article.pair button").nth(4).click()  # yes to the third
    assert "3 of" in shown.locator("#count").inner_text()
    pairs = [
        pair.get_attribute("data-left") + "," + pair.get_attribute("data-right")
        for pair in shown.locator("article.pair").all()[:3]
    ]
    with shown.expect_download() as download:
        shown.locator("#save").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    words = ("no", "no", "yes")
    expected = [f"{word},{pair}" for word, pair in zip(words, pairs, strict=True)]
    assert lines == ["match,left,right", *expected]
    assert messages == []
    context.close()


def test_answers_are_no_formulas(tmp_path, chromium):
    rows = [(f"={k}", f"red {k} apple pie") for k in range(4)]
    write_csv(tmp_path / "t.csv", rows, ("id", "title"))
    path = tmp_path / "p.html"
    command = ["link", tmp_path / "t.csv", "--threshold", 0, "-o", tmp_path / "l.csv"]
    good(*command, "--html", path)
    shown = chromium.new_page(accept_downloads=True)
    shown.goto(path.as_uri())
    shown.keyboard.press("y")
    with shown.expect_download() as download:
        shown.locator("#save").click()
    _, answer = download.value.path().read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"yes,'=\d,'=\d", answer)
    shown.close()
    answers = tmp_path / "answers.csv"
    answers.write_text(f"match,left,right\n{answer}\n", encoding="utf-8")
    assert "unknown" not in good(*command, "--matches", answers).output


def test_a_phone_shows_all_columns(page, chromium):
    path, _ = page
    shown = chromium.new_page(viewport={"width": 400, "height": 800})
    shown.goto(path.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") == 400
    hidden = "[...document.querySelectorAll('.pair td, .pair th')].filter("
    hidden += "cell => cell.getBoundingClientRect().right > 400).length"
    assert shown.evaluate(hidden) == 0
    boxes = [
        shown.locator(".pair tr").nth(line).locator("td, th").nth(2).bounding_box()
        for line in range(3)
    ]
    assert len({box["y"] for box in boxes}) == 1  # a column of the records is a line
    shown.close()
