"""`hdsl fit`: what it learns, prints, measures and saves."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.svm import LinearSVC

from commands import (
    COLUMNS,
    LABELLED,
    bad,
    good,
    judged_triplets,
    texts,
    told,
    write_csv,
)
from hdsl import HDSL, ClassScores, load
from hdsl.cli import learn, measure
from hdsl.evaluate import ErrorComparison, compare_errors, known_item
from hdsl.evaluate.measured import Measured
from hdsl.text import TEST, TRAIN


def test_fit_saves_texts_and_prints_errors(folder, tmp_path):
    out = tmp_path / "m.any"
    out.write_bytes((folder / "model.hdsl").read_bytes())  # an old model is replaced
    shown = good(
        "fit", folder / "texts.csv", *LABELLED, "--max-iter", 9, "-o", out
    ).stdout
    assert "90 documents with 3 labels" in shown
    assert "18 held out" in shown
    for name in ("cosine", "learned"):
        assert re.search(
            rf"  {name} +\d+\.\d %  +\d+\.\d to \d+\.\d %  +\d+ of 18\n", shown
        )
        assert re.search(rf"  {name} +[01]\.\d+  [01]\.\d+ to [01]\.\d+ ", shown)
    assert re.search(r"  LinearSVC +\d+\.\d %", shown)
    assert re.search("effect +weight +documents with each", shown)
    assert not any(line.endswith(" ") for line in shown.splitlines())
    assert "sport" in good("search", out, "goal", "-k", 1).stdout  # under any name
    collection = load(out)
    assert collection.documents.texts.tolist() == [text for _, _, text in texts()]
    assert collection.documents.labels.tolist() == [topic for _, topic, _ in texts()]
    assert collection.documents.facts["columns"] == {"text": "body", "label": "topic"}
    assert collection.learned.solver.max_iter == 9


def test_nothing_is_taken_from_rows_held_out(folder):
    words = [text.split() for _, _, text in texts()]
    collection = load(folder / "model.hdsl")
    documents = collection.documents
    new = collection.documents.is_new
    known = {word for k in np.flatnonzero(~new) for word in words[k]}
    assert set(collection.feature_names) <= known
    assert np.bincount(documents.part)[[TRAIN, TEST]].tolist() == [72, 18]
    X = documents.X
    y = documents.labels
    scores = ClassScores(random_state=0).fit(X[~new], y[~new])  # nor by the classifier
    assert_allclose(
        collection.model[0].transform(X).toarray(), scores.transform(X).toarray()
    )
    rows = ClassScores(random_state=0).fit_transform(X[~new], y[~new])
    model = clone(collection.learned).fit(rows, y[~new])
    assert_array_equal(collection.learned.atoms_, model.atoms_)


def test_the_figures_are_those_of_the_library(folder):
    collection = load(folder / "model.hdsl")
    X = collection.documents.X
    y = collection.documents.labels
    new = collection.documents.is_new
    shown = told("evaluate", folder / "model.hdsl")
    errors = compare_errors(
        collection.scored, X[~new], y[~new], X[new], y[new], cosine=True
    )
    assert shown["comparison"] == errors.to_dict()
    linear = LinearSVC(random_state=0, tol=1e-3).fit(X[~new], y[~new])
    assert shown["error"] == {
        "cosine": errors.before.share,
        "learned": errors.after.share,
        "LinearSVC": pytest.approx(1 - linear.score(X[new], y[new])),
    }
    assert (shown["n"], shown["held out"]) == (18, True)
    X = X[np.r_[np.flatnonzero(new), np.flatnonzero(~new)]]  # rows held out, among all
    for name, similarity in (("learned", collection.scored), ("cosine", None)):
        known = known_item(similarity, X, rows=np.arange(18), random_state=0)
        assert shown["known item"][name] == known.to_dict()


@pytest.mark.parametrize(("between", "separator"), [("; ", ";"), ("\t", "\\t")])
def test_a_column_of_several_labels(between, separator, tmp_path):
    rows = [
        (i, f"{topic}{between}d" if k % 2 else topic, text)
        for k, (i, topic, text) in enumerate(texts())
    ]
    table = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    facts = told(
        "fit", table, *LABELLED, "--label-sep", separator, "--max-iter", 5, "-o", out
    )
    assert (facts["labels"], facts["class scores"]) == (4, 4)
    again = told("evaluate", out)
    assert again["error"] == facts["error"]
    assert told("info", out)["labels"] == 4
    # The model knows it.
    assert "--label-sep" in bad("evaluate", out, "--label-sep", ",")
    assert "F1" in facts["measure"]
    assert 0 < again["error"]["learned"] < 1


def test_class_scores_can_be_left_out(folder, tmp_path, monkeypatch):
    out = tmp_path / "m.hdsl"
    command = ["fit", folder / "texts.csv", *LABELLED, "--max-iter", 5, "-o", out]
    facts = told(*command, "--no-class-scores")
    assert facts["class scores"] == 0
    assert isinstance(load(out).model, HDSL)
    assert told("evaluate", out)["error"] == facts["error"]
    monkeypatch.setattr(learn, "MAX_SCORES", 100)
    assert "class scores are left out: 3 labels" in good(*command).stderr


def test_words_of_few_texts_are_not_paired_beside_class_scores(folder):
    collection = load(folder / "model.hdsl")
    n_rows = np.diff(
        collection.documents.X[~collection.documents.is_new].tocsc().indptr
    )
    pairs = collection.learned.atoms_[:, :2]
    assert n_rows[pairs[pairs < len(n_rows)]].min() >= round(72**0.25)
    assert n_rows.min() < round(72**0.25)


def test_a_fit_says_what_texts_are_read_as_and_why(folder, tmp_path):
    command = ("fit", folder / "texts.csv", *LABELLED, "--max-iter", 2)
    shown = good(*command, "-o", tmp_path / "m.hdsl").stdout
    assert re.search(r"read as words \(the median text has \d+ different ones\)", shown)
    out = tmp_path / "c.hdsl"
    facts = told(*command, "-o", out, "--tokens", "characters")
    assert facts["texts read as"] == "n-grams of 2 to 4 characters (as asked for)"
    assert told("info", out)["tokens"] == "characters"
    assert told("search", out, "goalkeeping")["unknown words"]


def test_a_fit_without_a_gain_says_so(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(name, rng.choice(["a", "b"]), text) for name, _, text in texts()]
    path = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    shown = good("fit", path, *LABELLED, "--max-iter", 9, "-o", out).stdout
    assert "not more than chance" in shown
    facts = told("evaluate", out)
    assert facts["comparison"]["verdict"] == "no difference"


def test_a_model_that_is_worse_is_never_passed_on_in_silence(
    folder, tmp_path, monkeypatch
):
    command = [
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "--max-iter",
        5,
        "-o",
        tmp_path / "m.hdsl",
    ]
    assert (
        "not known whether this model is better" in good(*command, "--test", 0).stdout
    )
    worse = ErrorComparison.from_trials(np.zeros(30), np.ones(30))
    monkeypatch.setattr(
        measure, "held_out", lambda *_, **__: Measured(worse, {}, 72, 3)
    )
    shown = good(*command).stdout
    assert "use the cosine" in shown
    assert (
        "more errors than the cosine"
        in good("search", tmp_path / "m.hdsl", "goal").stderr
    )


def test_too_little_memory_names_the_options_of_the_command(folder, tmp_path):
    command = [
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "-o",
        tmp_path / "model.hdsl",
        "--max-iter",
        5,
        "--memory-limit",
    ]
    message = bad(*command, 1e-6)
    for option in ("--memory-limit", "--n-targets", "--batch-size"):
        assert option in message
    assert "--memory-limit must be a number or auto" in bad(*command, "much")
    good(*command, "none")


def test_nothing_is_held_out_on_demand(folder, tmp_path):
    out = tmp_path / "m.hdsl"
    facts = told(
        "fit", folder / "texts.csv", *LABELLED, "--max-iter", 5, "--test", 0, "-o", out
    )
    assert facts["error"] == {}
    assert (load(out).documents.part == TRAIN).all()
    assert "held out" in bad("evaluate", out)


def test_a_model_without_documents(folder, tmp_path):
    out = tmp_path / "m.hdsl"
    good(
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "--max-iter",
        9,
        "--no-documents",
        "-o",
        out,
    )
    assert load(out).documents.X is None
    assert "--no-documents" in bad("search", out, "goal")
    assert (
        "S(x, y) = " in good("explain", out, "--x", "goal match", "--y", "goal").stdout
    )
    assert "held out" in bad("evaluate", out)
    result = good("evaluate", out, folder / "texts.csv", "--json")
    assert "these rows may be training" in " ".join(result.stderr.split())
    assert json.loads(result.stdout)["held out"] is None
    good("report", out, "-o", tmp_path / "r.html")


def test_preferred_rows_are_searched_among_all(folder, tmp_path):
    names = [[f"d{row}" for row in triplet] for triplet in judged_triplets().tolist()]
    judgements = write_csv(tmp_path / "triplets.csv", names, COLUMNS["triplets"])
    command = ["fit", folder / "texts.csv", "--text", "body", "--id", "id"]
    command += ["--triplets", judgements, "-o", tmp_path / "m.hdsl"]
    shown = good(*command).stdout
    assert re.search(r"Searched among all \d+ rows, nDCG@10 .*", shown)
    verdict = shown.partition("Verdict: ")[2]
    search = told("evaluate", tmp_path / "m.hdsl")["search"]
    assert f"{search['n_better']} of {search['n_queries']} queries better" in verdict
    assert told("info", tmp_path / "m.hdsl")


def test_there_is_one_verdict_and_it_follows_the_tables(folder, tmp_path):
    """It says no more than the tables above it; what is empty is not printed."""
    command = ["fit", folder / "texts.csv", *LABELLED, "-o", tmp_path / "m.hdsl"]
    shown = good(*command, "--prior", 64, "--max-iter", 1, "--tol", 1e6)
    assert shown.stdout.count("Verdict: ") == 1
    assert "Strongest pairs" not in shown.stdout  # no pair was learned
    assert "No pairs from" in shown.stdout
    tables, _, verdict = shown.stdout.partition("Verdict: ")
    assert "cosine " in tables
    assert "One known row ranks " in verdict
    assert "BM25" in tables
    assert shown.stderr == ""


def test_groups_are_held_out_together_and_the_goal_is_taken(tmp_path):
    rows = [(*row, f"user {k // 5}") for k, row in enumerate(texts())]
    write_csv(tmp_path / "texts.csv", rows, ("id", "topic", "body", "user"))
    out = tmp_path / "model.hdsl"
    options = ("--goal", "search", "--group", "user", "--no-class-scores", "-o", out)
    facts = told("fit", tmp_path / "texts.csv", *LABELLED, *options)
    is_new = load(out).documents.is_new
    users = np.arange(90) // 5
    assert not {*users[is_new]} & {*users[~is_new]}
    assert facts["rows held out"] == is_new.sum() > 0
    assert load(out).learned.goal == "search"
    assert "neighbors" in load(out).learned.choice_


def test_pairs_never_count_or_always_as_files_say(folder, tmp_path):
    """It says whose neighbours change; `hdsl forget` takes a pair from a model at once."""
    command = ["fit", folder / "texts.csv", *LABELLED, "--id", "id", "--max-iter", 5]
    command += ["--no-class-scores", "--prior", 4, "-o", tmp_path / "m.hdsl"]
    strongest = [pair["name"] for pair in told(*command)["strongest pairs"][:3]]
    write_csv(tmp_path / "never.csv", [(name,) for name in strongest], ("pair",))
    write_csv(tmp_path / "always.csv", [("goal", "rose")], ("one", "other"))
    edits = ["--forbid", tmp_path / "never.csv", "--force", tmp_path / "always.csv"]
    facts = told(*command, *edits)
    names = {pair["name"] for pair in facts["strongest pairs"]}
    assert not names & {*strongest}
    assert {*facts["changed"]} <= {f"d{row}" for row in range(90)}
    collection = load(tmp_path / "m.hdsl")
    assert len(collection.learned.forbidden_pairs_) == 3
    assert "goal ~ rose" in str(collection.explain("goal", "rose"))
    assert "have other nearest documents" in good(*command, *edits).stdout
    assert "not a feature of the model" in bad(
        *command, "--force", folder / "texts.csv"
    )
    pair = ("forget", tmp_path / "m.hdsl", "--pair", "goal ~ rose")
    shown = good(*pair, "-o", tmp_path / "less.hdsl").stdout
    assert "4 pairs never count; 1 learned part gone." in shown
    explained = load(tmp_path / "less.hdsl").explain("goal", "rose")
    assert "goal ~ rose" not in str(explained)
    assert "one thing to forget" in bad(*pair, "--query", "goal")
    assert "one thing to forget" in bad("forget", tmp_path / "m.hdsl")
    assert "with --query" in bad(*pair, "--document", "d1")
