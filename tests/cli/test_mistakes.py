"""Wrong options, files and queries: one line that says what to do, and nothing is written."""

import csv
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from commands import COLUMNS, LABELLED, bad, good, rows_and_labels, texts, write_csv
from hdsl import memory
from hdsl.cli import inputs, learn


def test_missing_files(folder, tmp_path):
    assert "There is no file" in bad(
        "fit", tmp_path / "no.csv", "--text", "t", "--label", "l"
    )
    assert "There is no file" in bad("search", tmp_path / "no.hdsl", "words")
    assert "is a folder" in bad("fit", tmp_path)
    labels = ["--labels", tmp_path / "no.npy"]
    assert "There is no file" in bad(
        "fit", folder / "texts.csv", "--text", "body", *labels
    )


def test_no_message_has_codes_of_a_terminal(folder, tmp_path):
    """They stand in names of files, options and columns, and in values."""
    codes = "\x1b]0;owned\x07\x1b[31m\x9b\u202e"
    table = write_csv(tmp_path / f"{codes}.csv", [(codes, codes, codes)] * 2)
    model = folder / "model.hdsl"
    for command in (
        ("fit", tmp_path / f"no{codes}.csv", "--text", "t"),
        ("fit", tmp_path / f"no{codes}.svm"),
        ("fit", table),
        ("fit", table, *LABELLED),
        ("fit", table, "--text", "body", "--label", codes),
        ("fit", table, "--text", "body", "--sep", codes),
        ("search", tmp_path / codes, "words"),
        ("search", model, "--row", codes),
        ("search", model, codes),
        ("search", model, "--queries", tmp_path / codes),
        ("report", model, "-o", tmp_path / codes / "page.html"),
        (codes,),
        ("info", model, f"--{codes}"),
    ):
        assert bad(*command).replace("\n", "").isprintable(), command


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch):
    for name in ("big.svm", "big.csv", "big.npz", "big.hdsl"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(5 * 2**30)
        command = ["info" if name == "big.hdsl" else "fit", tmp_path / name]
        command += ("--text", "t") if name == "big.csv" else ()
        monkeypatch.setattr(memory, "available", lambda: 8 * 2**30)
        message = bad(*command)
        assert (
            "has 5.0 GiB: reading it takes about 25.0 GiB of memory, but 8.0 GiB"
            in message
        )
        monkeypatch.setattr(memory, "available", lambda: 2**50)
        if name in ("big.svm", "big.csv"):
            assert "is not UTF-8 text" in bad(*command)


MISTAKES = [
    ((), "--text (it has 'id', 'topic', 'body')"),
    (
        ("--text", "boby"),
        "columns are 'id', 'topic', 'body': say which is meant with --text",
    ),
    (("--text", "body", "--label", "tpic"), "with --label"),
    (("--text", "body"), "has no labels to learn from: name their column with --label"),
    (("--text", "body", "--label", "id"), "All 90 rows have different labels"),
    ((*LABELLED, "--scale", "big"), "--scale must be a number or auto. Got 'big'"),
    ((*LABELLED, "--scale", "-1"), "--scale must be a float > 0"),
    ((*LABELLED, "--test", "1.5"), "--test"),
    ((*LABELLED, "--test", "0.999"), "all 90 rows"),
    ((*LABELLED, "--seed", "-1"), "--seed"),
    ((*LABELLED, "--max-iter", "x"), "See hdsl fit --help"),
    ((*LABELLED, "--step", "x"), "corrective"),
    ((*LABELLED, "--device", "gpu"), "--device"),
    ((*LABELLED, "--jobs", "0"), "--jobs must be 1 or more"),
    ((*LABELLED, "--norm", "none"), "--no-class-scores"),
    ((*LABELLED, "--tfidf"), "--tfidf and --no-tfidf are for a matrix of counts"),
    ((*LABELLED, "--min-df", "1.5"), "whole numbers of documents"),
    ((*LABELLED, "--min-df", "80"), "No word is left"),
    ((*LABELLED, "--sep", ";;"), "--sep must be one character"),
    ((*LABELLED, "--sep", ";"), "columns are 'id,topic,body'"),
    ((*LABELLED, "--encoding", "x"), "'x'"),
    (("--no-such-option",), "See hdsl fit --help"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes_in_options(folder, tmp_path, options, message):
    assert message in bad(
        "fit", folder / "texts.csv", *options, "-o", tmp_path / "m.hdsl"
    )
    assert not list(tmp_path.iterdir())


WRONG_TABLES = [
    ("topic,body\nsport,Tor für alle\n".encode("latin-1"), "line 2", "--encoding"),
    ("topic,body\nsport,a\n".encode("utf-16"), "--encoding utf-16", "zeros"),
    (b"topic,body\nsport,\n", "line 2 has no value in column 'body'", "--skip-missing"),
    (b"topic;body\nsport;a goal\n", "'topic;body'", "--sep ';'"),
    (b"topic\tbody\nsport\ta goal\n", "separates them", "--sep '\\t'"),
    (b"topic,body\nsport\n", "line 2 has 1 field", "header has 2"),
    (
        b"topic,body\n" + b"a,some words\n" * 9,
        "9 rows have the same label",
        "At least 2 labels",
    ),
    (b"topic,topic,body\na,b,c\n", "'topic' more than once", "t.csv"),
    (b"", "t.csv", "empty"),
]


@pytest.mark.parametrize(("content", "what", "remedy"), WRONG_TABLES)
def test_wrong_tables(tmp_path, content, what, remedy):
    (tmp_path / "t.csv").write_bytes(content)
    message = bad("fit", tmp_path / "t.csv", *LABELLED, "-o", tmp_path / "m.hdsl")
    assert what in message
    assert remedy in message


def test_a_very_long_field_is_read_and_no_setting_changes(tmp_path):
    limit = csv.field_size_limit()
    rows = [("topic", "body"), *((k % 2, "goal match " * 30_000) for k in range(4))]
    write_csv(tmp_path / "t.csv", rows[1:], rows[0])
    data = inputs.read_data(tmp_path / "t.csv", text="body", label="topic")
    assert len(data.texts[0]) == 330_000
    assert csv.field_size_limit() == limit


def test_wrong_matrices(rows_file, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 0:2 3:1\n2 1:1\n")
    assert ": pass --zero-based if they count from 0." in bad("fit", path)
    path.write_text("1 1:2 x:1\n")
    assert "line 1: expected 'index:value'. Got 'x:1'" in bad("fit", path)
    assert "has no labels to learn from" in bad("fit", rows_file)
    for option in (("--text", "t"), ("--sep", ";"), ("--skip-missing",)):
        assert f"{option[0]} is about a table" in bad("fit", rows_file, *option)
    np.save(tmp_path / "y.npy", np.arange(7))
    assert "has 7 labels, but" in bad("fit", rows_file, "--labels", tmp_path / "y.npy")
    sp.save_npz(tmp_path / "half.npz", rows_and_labels()[0] / 2)
    np.save(tmp_path / "y.npy", rows_and_labels()[1])
    counts = ["--labels", tmp_path / "y.npy", "--tfidf"]
    assert "needs counts, whole numbers" in bad("fit", tmp_path / "half.npz", *counts)


def test_wrong_judgements(folder, rows_file, tmp_path):
    np.save(tmp_path / "T.npy", np.array([[0, 1, 99]]))
    message = bad("fit", rows_file, "--triplets", tmp_path / "T.npy")
    assert "names row 99, but X has 60 rows" in message
    both = ["--triplets", tmp_path / "T.npy", "--quadruplets", tmp_path / "T.npy"]
    assert "--triplets and --quadruplets" in bad("fit", rows_file, *both)
    path = write_csv(tmp_path / "T.csv", [("d0", "d3", "d1")], COLUMNS["triplets"])
    judged = ["fit", folder / "texts.csv", "--text", "body", "--triplets", path]
    message = bad(*judged)
    assert "name the column of ids with --id." in message
    write_csv(path, [("d0", "d3", "zebra")], COLUMNS["triplets"])
    assert "1 id in column 'negative' of T.csv matches no row: 'zebra'" in bad(
        *judged, "--id", "id"
    )
    rows = [*texts(), ("", "sport", "goal")]
    gaps = write_csv(
        tmp_path / "gaps.csv", [(a, b, c if a else "") for a, b, c in rows]
    )
    numbered = write_csv(tmp_path / "N.csv", [(0, 3, 1)], COLUMNS["triplets"])
    skipped = ["fit", gaps, "--text", "body", "--skip-missing", "--triplets"]
    assert "--skip-missing leaves 1 row of" in bad(*skipped, tmp_path / "T.npy")
    # The row that is left out.
    write_csv(numbered, [(0, 3, len(rows) - 1)], COLUMNS["triplets"])
    assert "matches no row" in bad(*skipped, numbered)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "m.hdsl"
    path.write_bytes(b"PK\x03\x04 a zip archive, say, of some length")
    more = {"search": ["goal"], "explain": ["--x", "a", "--y", "b"]}
    for command in ("search", "evaluate", "explain", "report", "info"):
        assert "not a model file" in bad(command, path, *more.get(command, []))


def test_wrong_queries(folder, rows_file):
    model = folder / "model.hdsl"
    assert "none of the words of 'zebra'" in bad("search", model, "zebra")
    assert "--row" in bad("search", model)
    assert "one of them only" in bad("search", model, "goal", "--row", 3)
    for row in (90, -1, "9" * 4000):
        message = bad("search", model, "--row", row)
        assert "the model has 90" in message
        assert len(message) < 300
    assert "none of the words of '17'" in bad("search", model, "17")  # a text
    assert "There is no file" in bad(
        "search", model, "--queries", rows_file.parent / "no.txt"
    )
    assert "-k must be 1 or more" in bad("search", model, "goal", "-k", 0)
    assert "--by" in bad("explain", model, "--x", "goal", "--y", "goal", "--by", "x")
    assert "give a table of texts" in bad("evaluate", model, rows_file)
    assert "DATA" in bad("evaluate", model, "--id", "id")
    query = ["--to", "jsonl", "--query", "goal"]
    assert "leave out -o" in bad("export", model, *query, "-o", rows_file.parent / "q")
    assert "compressed" in bad("fit", rows_file.parent / "t.csv.gz", *LABELLED)


def test_no_command_writes_over_a_file_that_it_reads(folder, tmp_path):
    texts = folder / "texts.csv"
    before = texts.read_bytes()
    assert "not a model" in bad("fit", texts, *LABELLED, "-o", texts)
    assert texts.read_bytes() == before
    model = tmp_path / "m.hdsl"
    good("fit", texts, *LABELLED, "-o", model, "--max-iter", 2)
    before = model.read_bytes()
    for options in (["report", model], ["export", model, "--to", "jsonl"]):
        assert "another file" in bad(*options, "-o", model)
        assert model.read_bytes() == before


def test_the_output_is_checked_before_the_fit(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        learn, "learn", lambda *_, **__: pytest.fail("the fit was started")
    )
    (tmp_path / "folder.hdsl").mkdir()
    (tmp_path / "texts.hdsl").write_text("my only copy")
    messages = {
        "nowhere/m.hdsl": "folder does not exist",
        "folder.hdsl": "is a folder",
        "texts.hdsl": "exists and is not a model",
        "n" * 300: "too long",
    }
    if Path("/proc/self").exists():
        messages["/proc/m.hdsl"] = "Cannot write"
    for name, message in messages.items():
        assert message in bad(
            "fit", folder / "texts.csv", *LABELLED, "-o", tmp_path / name
        )
    long = [
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "-o",
        tmp_path / "m.hdsl",
        "--checkpoint",
    ]
    assert "too long" in bad(*long, tmp_path / ("n" * 300))
    assert (tmp_path / "texts.hdsl").read_text() == "my only copy"
