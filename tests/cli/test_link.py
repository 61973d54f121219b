"""``hdsl link``: tables and known pairs in; links, pairs to label and a page out."""

import csv
import json

import numpy as np
import pytest

import hdsl
from commands import bad, good, write_csv
from products import make_tables


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two tables of 40 records, and 25 of their matches by id."""
    folder = tmp_path_factory.mktemp("link")
    left, right, matches = make_tables(40)
    for name, table in (("left", left), ("right", right)):
        header = ("id", "title", "price")
        write_csv(folder / f"{name}.csv", zip(*table.values(), strict=True), header)
    pairs = [(left["sku"][a], right["sku"][b]) for a, b in matches.tolist()]
    write_csv(folder / "pairs.csv", pairs[:25], ("left", "right"))
    return folder, pairs


def test_a_column_may_have_any_name(tmp_path):
    lines = [json.dumps({"\0": text}) for text in ("red apple pie", "red apple tart")]
    (tmp_path / "t.jsonl").write_text("\r\n".join(lines))  # and lines may end as on Windows
    good("link", tmp_path / "t.jsonl", "--threshold", "0", "-o", tmp_path / "links.csv")
    assert len(rows_of(tmp_path / "links.csv")) == 1


@pytest.fixture(scope="module")
def linked(files):
    folder, pairs = files
    result = good(
        "link", folder / "left.csv", folder / "right.csv", "--matches", folder / "pairs.csv",
        "-o", folder / "links.csv", "--html", folder / "links.html",
        "--model", folder / "links.hdsl", "--one-to-one",
    )  # fmt: skip
    return folder, pairs, result.stdout


def test_links_are_written_by_id(linked):
    folder, pairs, _ = linked
    links = rows_of(folder / "links.csv")
    found = {(row["left"], row["right"]) for row in links}
    assert len(found & {*pairs[25:]}) >= 12  # of 15
    assert {*pairs[:25]} <= found
    assert len({row["left"] for row in links}) == len(links)
    assert all(0.5 <= float(row["probability"]) <= 1 for row in links)
    assert all(row["left_text"] and row["right_text"] for row in links)


def test_what_was_measured_is_shown(linked):
    _, _, shown = linked
    assert "held out" in shown
    lines = [line.split() for line in shown.splitlines()]
    ranks = [line for line in lines if line[:1] and line[0] in ("1", "2", "5", "10", "20")]
    assert len(ranks) == 5
    assert all("%" in line for line in ranks)


def test_the_page_shows_links_and_is_plain(linked):
    folder, pairs, _ = linked
    page = (folder / "links.html").read_text(encoding="utf-8")
    assert page.count("<table>") == 4  # recall, reliability, links, doubtful ones
    assert all(f"<td>{left}: " in page for left, _ in pairs[:25])
    assert "<script" not in page
    assert "http" not in page


def test_the_model_is_read_in_python(linked):
    folder, pairs, _ = linked
    linker = hdsl.load(folder / "links.hdsl")
    assert (linker.predict_proba(pairs[:25]) == 1.0).all()


def test_labels_are_asked_for_filled_in_and_taken_back(files, tmp_path):
    folder, pairs = files
    labels = tmp_path / "labels.csv"
    command = ("link", folder / "left.csv", folder / "right.csv", "-o", tmp_path / "links.csv",
               "--label", 12, "--label-file", labels)  # fmt: skip
    assert "Nothing was learned" in good(*command).stdout
    asked = rows_of(labels)
    assert len(asked) == 12
    for row in asked[:10]:
        row["match"] = "yes" if (row["left"], row["right"]) in pairs else "no"
    write_csv(labels, [row.values() for row in asked], asked[0])
    facts = json.loads(good(*command, "--json").stdout)
    n_yes = sum(row["match"] == "yes" for row in asked)
    assert facts["learned"] == (n_yes >= 5)
    again = rows_of(labels)
    assert [row["match"] for row in again[:10]] == [row["match"] for row in asked[:10]]
    assert {row["match"] for row in again[10:]} == {""}
    ends = [(row["left"], row["right"]) for row in again]
    assert len({*ends}) == len(ends) > 12


def test_duplicates_in_one_table(files, tmp_path):
    folder, _ = files
    rows = rows_of(folder / "left.csv") + rows_of(folder / "right.csv")
    people = write_csv(tmp_path / "all.csv", [row.values() for row in rows], rows[0])
    good("link", people, "-o", tmp_path / "links.csv", "--threshold", 0.2)
    links = rows_of(tmp_path / "links.csv")
    assert links
    assert all(row["left"] != row["right"] for row in links)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("left,right\nL0,nobody\n", "'nobody'"),
        ("left,right\nL0,R0\nL0,R0\n", "twice"),
        ("left,right,match\nL0,R0,yes\nL0,R0,no\n", "both a match and a non-match"),
        ("left,right,match\nL0,R0,perhaps\n", "'perhaps'"),
        ("left\nL0\n", "two columns"),
        ("left,right\nL0\n", "1 field"),
    ],
)
def test_bad_answers_are_named_and_nothing_is_written(files, tmp_path, content, words):
    folder, _ = files
    (tmp_path / "pairs.csv").write_text(content, encoding="utf-8")
    said = bad("link", folder / "left.csv", folder / "right.csv", "--matches",
               tmp_path / "pairs.csv", "-o", tmp_path / "links.csv")  # fmt: skip
    assert words in said
    assert not (tmp_path / "links.csv").exists()


def test_bad_tables_and_options_are_named(files, tmp_path):
    folder, _ = files
    left, links = folder / "left.csv", tmp_path / "links.csv"
    (tmp_path / "header.csv").write_text("id,title\n", encoding="utf-8")
    (tmp_path / "numbers.csv").write_text("id,size\na,3\nb,7\n", encoding="utf-8")
    for other, words in (("header.csv", "empty"), ("numbers.csv", "no text"), ("x.csv", "no file")):
        assert words in bad("link", left, tmp_path / other, "-o", links)
    assert "--threshold" in bad("link", left, "--threshold", 2, "-o", links)
    assert "no column 'key'" in bad("link", left, "--id", "key", "-o", links)
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    said = bad("link", left, "-o", links, "--label", 3, "--label-file", tmp_path / "mine.csv")
    assert "--label-file" in said
    assert (tmp_path / "mine.csv").read_text(encoding="utf-8") == "a,b\n1,2\n"
    assert not np.any([path.name == "links.csv" for path in tmp_path.iterdir()])
