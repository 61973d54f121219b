"""The command line: what it prints and writes, and how it ends where something is wrong."""

import csv
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from hdsl import HDSL, datasets, load, memory
from hdsl.cli import app, learn, shell
from hdsl.text import TEST, TRAIN, VALIDATION, load_collection

TOPICS = {
    "sport": "goal match striker keeper referee league coach stadium",
    "money": "profit bank shares market investor forecast loan dividend",
    "garden": "rose soil seed flower prune compost lawn hedge",
}
NOISE = "today report people early late new old small large many"


def documents(n=90, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n):
        topic = list(TOPICS)[k % 3]
        words = [*rng.choice(TOPICS[topic].split(), 2), *rng.choice(NOISE.split(), 8)]
        rows.append((f"d{k}", topic, " ".join(rng.permutation(words).tolist())))
    return rows


def write_csv(path, rows, header=("id", "topic", "body")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def hdsl(*arguments):
    return CliRunner().invoke(app, [str(part) for part in arguments], prog_name="hdsl")


def good(*arguments):
    result = hdsl(*arguments)
    assert result.exit_code == 0, result.output
    return result


def bad(*arguments, code=2):
    """Return the one line that a command ends with."""
    result = hdsl(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("hdsl: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts and a model of them."""
    folder = tmp_path_factory.mktemp("cli")
    write_csv(folder / "texts.csv", documents())
    good("fit", folder / "texts.csv", "--text", "body", "--label", "topic",
         "-o", folder / "model.hdsl", "--max-iter", 60)  # fmt: skip
    return folder


# --- fit -----------------------------------------------------------------------------------------


def test_fit_texts(place, tmp_path):
    out = tmp_path / "m.hdsl"
    options = ("--text", "body", "--label", "topic", "--max-iter", 60, "-o", out)
    result = good("fit", place / "texts.csv", *options)
    assert "90 documents with 3 labels" in result.stdout
    assert "18 held out" in result.stdout
    assert "Error of 3 nearest neighbours, 18 documents held out" in result.stdout
    assert "Strongest pairs" in result.stdout
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())
    kept = load_collection(out)
    assert kept.texts.tolist() == [text for _, _, text in documents()]
    assert kept.labels.tolist() == [topic for _, topic, _ in documents()]
    assert kept.columns == {"text": "body", "label": "topic"}
    assert load(out).callback is None


def test_fit_is_honest(place):
    """Nothing is taken from the rows held out, words neither."""
    texts = [text.split() for _, _, text in documents()]
    kept = load_collection(place / "model.hdsl")
    known = {word for k in np.flatnonzero(kept.part != TEST) for word in texts[k]}
    assert set(kept.feature_names) <= known
    counts = np.bincount(kept.part)
    assert counts[[TRAIN, VALIDATION, TEST]].tolist() == [54, 18, 18]
    X, new = kept.X, kept.part == TEST
    errors = learn.errors_by_labels(
        load(place / "model.hdsl"), X[~new], kept.labels[~new], X[new], kept.labels[new]
    )
    shown = json.loads(good("evaluate", place / "model.hdsl", "--json").stdout)
    assert shown["error"] == errors
    assert shown["n"] == 18
    assert errors["learned"] <= errors["cosine"]


def test_fit_is_the_same_again(place, tmp_path):
    options = ("--text", "body", "--label", "topic", "--max-iter", 20, "--json")
    facts = []
    for name in ("a.hdsl", "b.hdsl"):
        result = good("fit", place / "texts.csv", *options, "-o", tmp_path / name)
        facts.append(json.loads(result.stdout))
        assert result.stderr == ""
    for unlike in ("seconds", "model"):
        facts[0].pop(unlike), facts[1].pop(unlike)
    assert facts[0] == facts[1]
    assert facts[0]["iterations"] <= 20
    assert facts[0]["rows held out"] == 18
    first, second = (load(tmp_path / name) for name in ("a.hdsl", "b.hdsl"))
    np.testing.assert_array_equal(first.atoms_, second.atoms_)
    np.testing.assert_array_equal(first.weights_, second.weights_)


def test_too_little_memory_names_the_options_of_the_command(place, tmp_path):
    command = ["fit", place / "texts.csv", "--text", "body", "--label", "topic",
               "-o", tmp_path / "model.hdsl", "--max-iter", 5, "--memory-limit"]  # fmt: skip
    message = bad(*command, 1e-6)
    assert "values, HDSL needs about " in message
    assert "are allowed by --memory-limit. Learn from fewer triplets (--n-targets" in message
    assert "set --batch-size" in message
    assert message.endswith("or pass --memory-limit none to go on anyway.\n")
    assert "--memory-limit must be a number or auto. Got 'much'." in bad(*command, "much")
    good(*command, "none")


def test_not_enough_memory_crosses_processes():
    error = memory.NotEnoughMemory("The fit", 3 * 2**30, 2**30, True, ("a", "b", "c"))
    assert str(error) == (
        "The fit needs about 3.0 GiB, but only 1.0 GiB are allowed by memory_limit. A, b, or c."
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_fit_without_choice_and_measure(place, tmp_path):
    result = good(
        "fit", place / "texts.csv", "--text", "body", "--label", "topic", "--max-iter", 7,
        "--tol", 0, "--test", 0, "--validation", 0, "--json", "-o", tmp_path / "m.hdsl",
    )  # fmt: skip
    facts = json.loads(result.stdout)
    assert facts["iterations"] == 7
    assert facts["error"] == {}
    assert (load_collection(tmp_path / "m.hdsl").part == TRAIN).all()
    assert "keeps no labelled rows" in bad("evaluate", tmp_path / "m.hdsl")


def test_no_documents(place, tmp_path):
    out = tmp_path / "m.hdsl"
    good("fit", place / "texts.csv", "--text", "body", "--label", "topic", "--max-iter", 20,
         "--no-documents", "-o", out)  # fmt: skip
    assert load_collection(out).X is None
    assert "fit it again without --no-documents" in bad("search", out, "goal")
    assert "S(x, y) = " in good("explain", out, "--x", "goal match", "--y", "goal").stdout
    # Rows are judged by each other then.
    assert "among the other rows, 90 rows" in good("evaluate", out, place / "texts.csv").stdout
    good("report", out, "-o", tmp_path / "r.html")


def rows_and_labels():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.integers(0, 4, size=(60, 12)) * (rng.random((60, 12)) < 0.3)
    X[np.arange(60), 4 * y + rng.integers(4, size=60)] += 3
    return sp.csr_array(X.astype(float)), y


def matrix_file(folder, kind):
    X, y = rows_and_labels()
    path = folder / f"rows.{kind}"
    labels = ()
    if kind == "svm":
        dump_svmlight_file(sp.csr_matrix(X), y, str(path), zero_based=False)
    elif kind == "mat":
        scipy.io.savemat(path, {"rows": sp.csc_matrix(X), "group": y[:, None].astype(float)})
        labels = ("--matlab-names", "rows,group")
    else:
        np.save(folder / "y.npy", y)
        labels = ("--labels", folder / "y.npy")
        if kind == "npz":
            sp.save_npz(path, X)
        else:
            scipy.io.mmwrite(path, X)
    return path, labels


@pytest.mark.parametrize("kind", ["svm", "npz", "mtx", "mat"])
def test_fit_rows(tmp_path, kind):
    path, labels = matrix_file(tmp_path, kind)
    out = tmp_path / "m.hdsl"
    result = good("fit", path, *labels, "--max-iter", 20, "-o", out)
    assert "60 rows with 3 labels, 12 features" in result.stdout
    assert "dot product" in result.stdout  # rows are not of length 1
    assert (rows_and_labels()[0] != load_collection(out).X).nnz == 0
    hits = json.loads(good("search", out, "--row", 4, "-k", 3, "--json").stdout)["neighbours"]
    assert len(hits) == 3
    assert 4 not in [hit["row"] for hit in hits]
    good("report", out, "-o", tmp_path / "r.html")
    flattered = hdsl("evaluate", out, path, *labels)
    assert flattered.exit_code == 0
    assert "60 of 60 rows are in the model already" in flattered.stderr


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_fit_judgements(tmp_path, kind):
    X, y = rows_and_labels()
    sp.save_npz(tmp_path / "X.npz", X)
    rng = np.random.default_rng(1)
    triplets = rng.integers(60, size=(4000, 3))
    right = (y[triplets[:, 0]] == y[triplets[:, 1]]) & (y[triplets[:, 0]] != y[triplets[:, 2]])
    triplets = triplets[right]
    path = tmp_path / f"T.{kind}"
    if kind == "npy":
        np.save(path, triplets)
    else:
        write_csv(path, triplets.tolist(), ("anchor", "positive", "negative"))
    out = tmp_path / "m.hdsl"
    facts = json.loads(
        good("fit", tmp_path / "X.npz", "--triplets", path, "-o", out, "--json").stdout
    )
    kept = load_collection(out)
    assert facts["measured on"] == (kept.part[triplets[:, 0]] == TEST).sum()
    assert facts["triplets"] == (kept.part[triplets] != TEST).all(axis=1).sum()
    assert facts["error"]["learned"] < facts["error"]["dot product"]
    shown = good("evaluate", out, tmp_path / "X.npz", "--triplets", path).stdout
    assert f"{len(triplets):,} judgements".replace(",", "") in shown


def test_judgements_by_id(place, tmp_path):
    rows = documents()
    judged = [(rows[k][0], rows[(k + 3) % 90][0], rows[(k + 1) % 90][0]) for k in range(90)] * 2
    path = write_csv(tmp_path / "T.csv", judged, ("anchor", "positive", "negative"))
    result = good(
        "fit", place / "texts.csv", "--text", "body", "--id", "id", "--triplets", path,
        "--test", 0, "--validation", 0, "--max-iter", 5, "-o", tmp_path / "m.hdsl", "--json",
    )  # fmt: skip
    assert json.loads(result.stdout)["triplets"] == 180


def test_options_reach_the_model(place, tmp_path):
    out = tmp_path / "m.hdsl"
    good(
        "fit", place / "texts.csv", "--text", "body", "--label", "topic", "-o", out,
        "--scale", 7, "--prior", 0, "--max-iter", 9, "--n-targets", 2, "--n-impostors", 3,
        "--loss", "logistic", "--oracle", "exact", "--step", "pairwise", "--seed", 5,
        "--tol", 0.01, "--mine-every", 4, "--patience", 8, "--jobs", 1, "--batch-size", 50,
    )  # fmt: skip
    model = load(out)
    wanted = {
        "scale": 7.0, "prior": 0.0, "max_iter": 9, "n_targets": 2, "n_impostors": 3,
        "loss": "logistic", "oracle": "exact", "step": "pairwise", "random_state": 5, "tol": 0.01,
        "mine_every": 4, "n_iter_no_change": 8, "batch_size": 50,
    }  # fmt: skip
    assert {name: model.get_params()[name] for name in wanted} == wanted


# --- search, explain, report, info ---------------------------------------------------------------


def test_search(place):
    result = good("search", place / "model.hdsl", "goal of the striker", "-k", 4)
    lines = result.stdout.splitlines()
    assert len(lines) == 8  # a neighbour and why
    assert all("sport" in line for line in lines[::2])
    assert "goal +" in result.stdout
    facts = json.loads(good("search", place / "model.hdsl", "goal", "striker", "--json").stdout)
    assert facts["query"] == "goal striker"
    model, kept = load(place / "model.hdsl"), load_collection(place / "model.hdsl")
    scores = model.similarity(kept.rows_of(["goal striker"]), kept.X)[0]
    hits = facts["neighbours"]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], np.sort(scores)[::-1][:5])
    assert hits[0]["text"] == kept.texts[hits[0]["row"]]


def test_what_a_terminal_might_obey_is_not_printed(tmp_path):
    rows = [(a, b, f"{c} \x1b[31m\x07 [bold]") for a, b, c in documents(30)]
    path = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    shown = good("fit", path, "--text", "body", "--label", "topic", "-o", out).stdout
    shown += good("search", out, "goal").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]" in shown  # texts are no markup


def test_explain(place):
    model = place / "model.hdsl"
    result = good("explain", model, "--x", "goal of the match", "--y", "a goal")
    assert result.stdout.startswith("S(x, y) = ")
    asked = ("--x", 3, "--y", 6, "--rather-than", 1, "--json")
    facts = json.loads(good("explain", model, *asked).stdout)
    similarity, X = load(model), load_collection(model).X
    scores = similarity.similarity(X[[3]], X[[6, 1]])[0]
    assert facts["total"] == pytest.approx(scores[0] - scores[1])
    assert sum(part["value"] for part in facts["parts"]) == pytest.approx(facts["total"])


def test_report(place, tmp_path):
    out = tmp_path / "r.html"
    good("report", place / "model.hdsl", "-o", out, "--title", "Goals & <more>")
    page = out.read_text()
    assert "Goals &amp; &lt;more&gt;" in page
    assert "striker" in page


def test_evaluate_new_texts(place, tmp_path):
    new = write_csv(tmp_path / "new.csv", documents(45, seed=9))
    result = good("evaluate", place / "model.hdsl", new, "-k", 5)
    assert "Error of 5 nearest neighbours among the documents in the model, 45" in result.stdout
    assert result.stderr == ""


def test_info(place, tmp_path):
    assert json.loads(good("info", "--json").stdout)["cores"] >= 1
    facts = json.loads(good("info", place / "model.hdsl", "--json").stdout)
    assert facts["documents"] == 90
    X, _ = rows_and_labels()
    sp.save_npz(tmp_path / "X.npz", X)
    facts = json.loads(good("info", tmp_path / "X.npz", "--json").stdout)
    assert (facts["rows"], facts["features"], facts["triplets"]) == (60, 12, 900)
    np.save(tmp_path / "T.npy", np.array([[0, 1, 2]]))
    result = good("info", tmp_path / "X.npz", "--triplets", tmp_path / "T.npy")
    assert "triplets" in result.stdout


@pytest.mark.parametrize(
    "command",
    ["fit", "evaluate", "search", "explain", "report", "demo", "info", "bench", "reproduce"],
)
def test_help_has_an_example(command):
    text = " ".join(good(command, "--help").stdout.split())
    assert "Example" in text
    assert f"hdsl {command}" in text


def test_bench_passes_arguments_on(monkeypatch, tmp_path):
    calls = []

    def run(command, **options):
        calls.append((command[1:], options["cwd"]))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__main__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert hdsl("bench", "kernels", "--toy").exit_code == 3
    assert calls == [(["-m", "benchmarks", "kernels", "--toy"], tmp_path)]


def test_bench_without_the_repository(monkeypatch, tmp_path):
    from hdsl.cli import about

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(about, "__file__", str(tmp_path / "a" / "b" / "c" / "about.py"))
    assert "in a clone" in bad("bench")


def test_reproduce_passes_arguments_on(monkeypatch):
    experiments = pytest.importorskip("hdsl.experiments")
    calls = []
    monkeypatch.setattr(experiments, "main", lambda given: calls.append(given) or 0, raising=False)
    good("reproduce", "recovery", "knn", "--quick", "--data", "D", "--out", "O", "--jobs", 1)
    assert calls == [["recovery", "knn", "--quick", "--data", "D", "--out", "O", "--jobs", "1"]]


# --- what can be wrong ---------------------------------------------------------------------------


def test_missing_files(place, tmp_path):
    assert "There is no file" in bad("fit", tmp_path / "no.csv", "--text", "t", "--label", "l")
    assert "There is no file" in bad("search", tmp_path / "no.hdsl", "words")
    assert "is a folder" in bad("fit", tmp_path)
    labels = ("--labels", tmp_path / "no.npy")
    assert "There is no file" in bad("fit", place / "texts.csv", "--text", "body", *labels)


@pytest.mark.parametrize("name", ["big.svm", "big.csv", "big.npz", "big.hdsl", "big.mat"])
def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch, name):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(5 * 2**30)
    # As on any machine with less memory than the file would take.
    monkeypatch.setattr(memory, "available", lambda: 8 * 2**30)
    command = "info" if name == "big.hdsl" else "fit"
    told = bad(command, path, *(("--text", "t") if name == "big.csv" else ()))
    assert "has 5.0 GiB: to read it takes about 25.0 GiB of memory, but 8.0 GiB are free" in told
    # And where there is enough, zeros are not read as text.
    monkeypatch.setattr(memory, "available", lambda: 2**50)
    if name in ("big.svm", "big.csv"):
        assert "is not UTF-8 text" in bad(command, path, "--text", "t")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "name its column of texts with --text (it has 'id', 'topic', 'body')"),
        (("--text", "boby"), "has no column 'boby'. Its columns are 'id', 'topic', 'body': say"),
        (("--text", "body", "--label", "label"), "has no column 'label'"),
        (("--text", "body"), "has no labels to learn from: name their column with --label"),
        (("--text", "body", "--label", "id"), "at least 2 are needed"),
        (("--text", "body", "--label", "topic", "--scale", "big"), "--scale must be a number"),
        (("--text", "body", "--label", "topic", "--test", "0.9"), "together less than 1"),
        (("--text", "body", "--label", "topic", "--max-iter", "0"), "'max_iter' parameter"),
        (("--text", "body", "--label", "topic", "--max-iter", "x"), "See hdsl fit --help"),
        (("--text", "body", "--label", "topic", "--min-df", "1.5"), "whole numbers of documents"),
        (("--text", "body", "--label", "topic", "--min-df", "80"), "No word is left"),
        (("--text", "body", "--label", "topic", "--tokens", "x"), "'tokens' parameter"),
        (("--no-such-option",), "See hdsl fit --help"),
    ],
)
def test_wrong_options(place, tmp_path, options, told):
    assert told in bad("fit", place / "texts.csv", *options, "-o", tmp_path / "m.hdsl")
    assert not (tmp_path / "m.hdsl").exists()


def test_wrong_tables(tmp_path):
    fit = ("--text", "body", "--label", "topic", "-o", tmp_path / "m.hdsl")
    path = tmp_path / "latin.csv"
    path.write_bytes("topic,body\nsport,Tor für alle\n".encode("latin-1"))
    assert "latin.csv, line 2 is not UTF-8 text: save the file as UTF-8" in bad("fit", path, *fit)
    path = write_csv(tmp_path / "empty.csv", [("sport", "")], ("topic", "body"))
    assert "line 2 has no value in column 'body'" in bad("fit", path, *fit)
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"PAR1 not really PAR1")
    assert "hdsl: " in bad("fit", path, *fit)
    path = write_csv(tmp_path / "one.csv", [("a", "some words")] * 9, ("topic", "body"))
    assert "1 label(s) among 9 rows" in bad("fit", path, *fit)


def test_wrong_matrices(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 0:2 3:1\n2 1:1\n")
    assert "pass --zero-based" in bad("fit", path)
    path.write_text("1 1:2 x:1\n")
    assert "line 1: expected 'index:value'. Got 'x:1'" in bad("fit", path)
    scipy.io.savemat(tmp_path / "rows.mat", {"A": np.eye(3)})
    assert "--matlab-names X,y" in bad("fit", tmp_path / "rows.mat")
    sp.save_npz(tmp_path / "rows.npz", rows_and_labels()[0])
    assert "has no labels to learn from" in bad("fit", tmp_path / "rows.npz")
    assert "--text names a column of a table" in bad("fit", tmp_path / "rows.npz", "--text", "t")
    np.save(tmp_path / "y.npy", np.arange(7))
    labels = ("--labels", tmp_path / "y.npy")
    assert "has 7 labels, but" in bad("fit", tmp_path / "rows.npz", *labels)
    np.save(tmp_path / "T.npy", np.array([[0, 1, 99]]))
    judged = ("--triplets", tmp_path / "T.npy")
    assert "names row 99, but X has 60 rows" in bad("fit", tmp_path / "rows.npz", *judged)
    write_csv(tmp_path / "T.csv", [(0, 1, 2)], ("a", "positive", "negative"))
    judged = ("--triplets", tmp_path / "T.csv")
    told = bad("fit", tmp_path / "rows.npz", *judged)
    assert "no column 'anchor'" in told
    assert "rename" in told


@pytest.mark.parametrize("command", ["search", "evaluate", "explain", "report", "info"])
def test_what_is_no_model(tmp_path, command):
    path = tmp_path / "m.hdsl"
    path.write_bytes(b"PK\x03\x04 a zip archive, say, of some length")
    more = {"search": ["goal"], "explain": ["--x", "a", "--y", "b"]}.get(command, [])
    assert "not a model file but a zip archive" in bad(command, path, *more)


def test_wrong_queries(place, tmp_path):
    model = place / "model.hdsl"
    assert "knows none of the words of the query" in bad("search", model, "zebra")
    assert "Give words to search for, or a document with --row" in bad("search", model)
    assert "numbered from 0" in bad("search", model, "--row", 90)
    assert "-k must be 1 or more" in bad("search", model, "goal", "-k", 0)
    assert "'by' parameter" in bad("explain", model, "--x", "goal", "--y", "goal", "--by", "x")
    sp.save_npz(tmp_path / "rows.npz", rows_and_labels()[0])
    assert "give a table of texts" in bad("evaluate", model, tmp_path / "rows.npz")


def never(*args, **kwargs):
    raise AssertionError("the fit was started")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere/m.hdsl", "There is no folder"),
        ("folder.hdsl", "is a folder: name a file in it"),
        ("model.txt", "must end in .hdsl"),
        ("texts.hdsl", "is there and is not a model"),
    ],
)
def test_output_is_checked_before_the_fit(place, tmp_path, monkeypatch, name, told):
    monkeypatch.setattr("hdsl.cli.fit.learn", never)
    (tmp_path / "folder.hdsl").mkdir()
    (tmp_path / "texts.hdsl").write_text("my only copy")
    line = bad("fit", place / "texts.csv", "--text", "body", "--label", "topic",
               "-o", tmp_path / name)  # fmt: skip
    assert told in line
    assert (tmp_path / "texts.hdsl").read_text() == "my only copy"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody can write to")
def test_a_folder_that_cannot_be_written(place, monkeypatch):
    monkeypatch.setattr("hdsl.cli.fit.learn", never)
    told = bad("fit", place / "texts.csv", "--text", "body", "--label", "topic",
               "-o", "/proc/m.hdsl")  # fmt: skip
    assert "Cannot write /proc/m.hdsl: " in told
    assert "Cannot write /proc/r.html: " in bad(
        "report", place / "model.hdsl", "-o", "/proc/r.html"
    )
    assert "must end in .html" in bad("report", place / "model.hdsl", "-o", place / "model.hdsl")


def test_an_old_model_is_replaced(place, tmp_path):
    out = tmp_path / "m.hdsl"
    out.write_bytes((place / "model.hdsl").read_bytes())
    good("fit", place / "texts.csv", "--text", "body", "--label", "topic", "--max-iter", 3,
         "-o", out)  # fmt: skip
    assert load(out).max_iter == 3


def test_a_fault_of_ours(place, monkeypatch):
    def fail(path):
        raise KeyError("secret")

    monkeypatch.setattr("hdsl.cli.use.load", fail)
    told = bad("search", place / "model.hdsl", "goal", code=1)
    assert "this should not have happened: KeyError: 'secret'" in told
    assert "--debug" in told
    assert isinstance(hdsl("--debug", "search", place / "model.hdsl", "goal").exception, KeyError)


def test_warnings_are_one_line(place, tmp_path):
    rows = [*documents(30), ("x", "alone", "a rose and a goal, the profit of many people")]
    path = write_csv(tmp_path / "t.csv", rows)
    result = good("fit", path, "--text", "body", "--label", "topic", "--max-iter", 5,
                  "-o", tmp_path / "m.hdsl")  # fmt: skip
    assert result.stderr.startswith("hdsl: warning: ")
    assert all(line.startswith("hdsl: warning: ") for line in result.stderr.splitlines())


# --- ends in the middle --------------------------------------------------------------------------

INTERRUPTED = """
    import os, signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    from hdsl.cli import app, learn

    fit = learn._fit

    def interrupted(model, given, what, *rest):
        def callback(state):
            if state.n_iter == 5 and what.startswith(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGINT)

        model.callback = callback
        kept = fit(model, given, what, *rest)
        model.callback = None
        return kept

    learn._fit = interrupted
    app(sys.argv[2:], prog_name="hdsl")
"""


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
@pytest.mark.parametrize("name", ["run", "run.choosing"])
def test_one_file_is_not_both_model_and_checkpoint(place, tmp_path, name):
    out = tmp_path / "model.hdsl"
    out.symlink_to(tmp_path / name)
    told = bad("fit", place / "texts.csv", "--text", "body", "--label", "topic",
               "-o", out, "--checkpoint", tmp_path / "run")  # fmt: skip
    assert told == f"hdsl: {out} is named both for the model and for the checkpoint.\n"


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a process there")
@pytest.mark.parametrize("stage", ["choosing", "learning"])
def test_ctrl_c_keeps_the_model(place, tmp_path, stage):
    out = tmp_path / "m.hdsl"
    choice = ("--validation", "0") if stage == "learning" else ()
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), stage, "fit", place / "texts.csv",
         "--text", "body", "--label", "topic", "--tol", "0", "-o", out, *choice],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 130, ended.stderr
    model = load(out)
    assert model.status_ == "interrupted"
    told = f"hdsl: interrupted after {model.n_iter_} iterations: the model so far is in {out}.\n"
    assert ended.stderr == told
    assert "Strongest pairs" in ended.stdout
    assert load_collection(out).n_rows == 90


def test_ctrl_c_before_there_is_a_model(place, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("hdsl.cli.inputs.read_data", interrupt)
    options = ("--text", "body", "--label", "topic", "-o", tmp_path / "m.hdsl")
    assert bad("fit", place / "texts.csv", *options, code=130) == "hdsl: interrupted.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="no such pipes there")
def test_a_closed_pipe_is_quiet(place):
    read, write = os.pipe()
    os.close(read)  # as `| head -0` does
    ended = subprocess.run(
        [sys.executable, "-m", "hdsl", "search", place / "model.hdsl", "goal"],
        stdout=write, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(write)
    assert ended.stderr == b""
    assert ended.returncode == 128 + signal.SIGPIPE


@pytest.mark.skipif(os.name == "nt", reason="no such shell there")
@pytest.mark.parametrize(
    ("target", "code", "told"),
    [("&-", 0, ""), ("/dev/full", 2, "hdsl: No space left on device.\n")],
)
def test_an_output_that_takes_nothing(place, target, code, told):
    if target.startswith("/") and not os.path.exists(target):
        pytest.skip(f"there is no {target}")
    ended = subprocess.run(
        ["sh", "-c", f'"$0" -m hdsl search "$1" goal >{target}', sys.executable,
         place / "model.hdsl"],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (code, told)


def test_as_a_process(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "hdsl", "search", tmp_path / "no.hdsl", "goal"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == f"hdsl: There is no file {tmp_path / 'no.hdsl'}.\n"


def test_progress_shows_where_there_is_a_terminal(monkeypatch, capsys):
    model = HDSL(n_targets=1, n_impostors=1, max_iter=3, tol=0.0)
    given = {"X": [[2, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]], "y": [0, 0, 1, 1]}
    learn._fit(model, given, "learning", quiet=False, checkpoint=None)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    learn._fit(model, given, "learning", quiet=True, checkpoint=None)
    assert capsys.readouterr().err == ""
    learn._fit(model, given, "learning", quiet=False, checkpoint=None)
    with shell.working("reading"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("learning:\n\r[..........] 0/3 ")
    assert model.verbose == 0


# --- the split and the demonstration -------------------------------------------------------------


@pytest.mark.parametrize("labels", [None, np.repeat(["a", "b", "c"], [50, 30, 20])])
def test_split(labels):
    part = learn.split(labels, 100, test=0.2, validation=0.1, seed=3)
    assert np.bincount(part).tolist() == [70, 10, 20]
    if labels is not None:
        for label in "abc":
            share = np.bincount(part[labels == label], minlength=3) / (labels == label).sum()
            np.testing.assert_allclose(share, [0.7, 0.1, 0.2], atol=1e-12)
    again = learn.split(labels, 100, test=0.2, validation=0.1, seed=3)
    assert (again == part).all()
    assert (learn.split(labels, 100, test=0.2, validation=0.1, seed=4) != part).any()


def test_rows_alone_in_their_label_are_learned_from():
    labels = np.array(["a"] * 10 + ["b"])
    assert learn.split(labels, 11, test=0.2, validation=0.2, seed=0)[-1] == TRAIN


SOURCE = """
def shown():
    '''One two three
    four {name} five.

    Six seven eight.
    '''

def other():
    '''The same in both, and of no use.

    But {name} not all.
    '''
"""


def test_summaries(tmp_path, monkeypatch):
    for name in ("alpha", "beta"):
        (tmp_path / f"{name}.py").write_text(SOURCE.format(name=name))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    options = {"min_rows_per_label": 1, "vectorize": False}
    whole = datasets.load_docstrings(**options)
    assert len(whole.texts) == 4
    short = datasets.load_docstrings(**options, summaries=True)
    assert short.texts == ["One two three\nfour alpha five.", "One two three\nfour beta five."]
    assert short.y.tolist() == ["alpha", "beta"]


def test_demo(tmp_path):
    page, model = tmp_path / "demo.html", tmp_path / "demo.hdsl"
    facts = json.loads(good("demo", "-o", page, "--model", model, "--json").stdout)
    errors = facts["error"]
    assert errors["learned"] < 0.9 * errors["cosine of TF-IDF"]
    assert errors["learned"] < errors["dot product of word counts"]
    assert page.stat().st_size > 50_000
    assert len(facts["neighbours"]) == 3
    assert load_collection(model).n_rows == facts["rows"]
