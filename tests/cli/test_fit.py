"""`hdsl fit` and `hdsl demo`: what they learn, print, measure and save."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import LinearSVC

from commands import LABELLED, bad, good, texts, told, write_csv
from hdsl import HDSL, ClassScores, load
from hdsl.cli import held_out, learn, make_parser, measure
from hdsl.evaluate import ErrorComparison, compare_errors, known_item
from hdsl.report import Measured
from hdsl.solver.losses import LOSSES
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from hdsl.text import TEST, TRAIN, Collection


def test_fit_saves_texts_and_prints_errors(place, tmp_path):
    out = tmp_path / "m.any"
    out.write_bytes((place / "model.hdsl").read_bytes())  # an old model is replaced
    shown = good(
        "fit", place / "texts.csv", *LABELLED, "--max-iter", 9, "-o", out
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
    found = load(out)
    assert found.documents.texts.tolist() == [text for _, _, text in texts()]
    assert found.documents.labels.tolist() == [topic for _, topic, _ in texts()]
    assert found.documents.facts["columns"] == {"text": "body", "label": "topic"}
    assert found.learned.max_iter == 9


def test_nothing_is_taken_from_rows_held_out(place):
    words = [text.split() for _, _, text in texts()]
    found = load(place / "model.hdsl")
    documents = found.documents
    new = found.documents.is_new
    known = {word for k in np.flatnonzero(~new) for word in words[k]}
    assert set(found.feature_names) <= known
    assert np.bincount(documents.part)[[TRAIN, TEST]].tolist() == [72, 18]
    X = documents.X
    y = documents.labels
    scores = ClassScores(random_state=0).fit(X[~new], y[~new])  # nor by the classifier
    assert_allclose(
        found.model[0].transform(X).toarray(), scores.transform(X).toarray()
    )
    rows = ClassScores(random_state=0).fit_transform(X[~new], y[~new])
    model = HDSL(**found.learned.get_params()).fit(rows, y[~new])
    assert_array_equal(found.learned.atoms_, model.atoms_)


def test_the_figures_are_those_of_the_library(place):
    found = load(place / "model.hdsl")
    X = found.documents.X
    y = found.documents.labels
    new = found.documents.is_new
    shown = told("evaluate", place / "model.hdsl")
    errors = compare_errors(found.scored, X[~new], y[~new], X[new], y[new], cosine=True)
    assert shown["comparison"] == errors.to_dict()
    linear = LinearSVC(random_state=0, tol=1e-3).fit(X[~new], y[~new])
    assert shown["error"] == {
        "cosine": errors.before.share,
        "learned": errors.after.share,
        "LinearSVC": pytest.approx(1 - linear.score(X[new], y[new])),
    }
    assert (shown["n"], shown["held out"]) == (18, True)
    X = X[np.r_[np.flatnonzero(new), np.flatnonzero(~new)]]  # rows held out, among all
    for name, similarity in (("learned", found.scored), ("cosine", None)):
        known = known_item(similarity, X, rows=np.arange(18), random_state=0)
        assert shown["known item"][name] == known.to_dict()


@pytest.mark.parametrize(("between", "given"), [("; ", ";"), ("\t", "\\t")])
def test_a_column_of_several_labels(between, given, tmp_path):
    rows = [
        (i, f"{topic}{between}d" if k % 2 else topic, text)
        for k, (i, topic, text) in enumerate(texts())
    ]
    table = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    facts = told(
        "fit", table, *LABELLED, "--label-sep", given, "--max-iter", 5, "-o", out
    )
    assert (facts["labels"], facts["class scores"]) == (4, 4)
    again = told("evaluate", out)
    assert again["error"] == facts["error"]
    assert told("info", out)["labels"] == 4
    assert "--label-sep" in bad(
        "evaluate", out, "--label-sep", ","
    )  # the model knows it
    assert "F1" in facts["measure"]
    assert 0 < again["error"]["learned"] < 1


def test_class_scores_can_be_left_out(place, tmp_path, monkeypatch):
    out = tmp_path / "m.hdsl"
    command = ("fit", place / "texts.csv", *LABELLED, "--max-iter", 5, "-o", out)
    facts = told(*command, "--no-class-scores")
    assert facts["class scores"] == 0
    assert isinstance(load(out).model, HDSL)
    assert told("evaluate", out)["error"] == facts["error"]
    monkeypatch.setattr(learn, "MAX_SCORES", 100)
    assert "class scores are left out: 3 labels" in good(*command).stderr


def test_words_of_few_texts_are_not_paired_beside_class_scores(place):
    found = load(place / "model.hdsl")
    n_rows = np.diff(found.documents.X[~found.documents.is_new].tocsc().indptr)
    pairs = found.learned.atoms_[:, :2]
    assert n_rows[pairs[pairs < len(n_rows)]].min() >= round(72**0.25)
    assert n_rows.min() < round(72**0.25)


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
    place, tmp_path, monkeypatch
):
    command = (
        "fit",
        place / "texts.csv",
        *LABELLED,
        "--max-iter",
        5,
        "-o",
        tmp_path / "m.hdsl",
    )
    assert (
        "nothing shows that this model is better" in good(*command, "--test", 0).stdout
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


def test_too_little_memory_names_the_options_of_the_command(place, tmp_path):
    command = [
        "fit",
        place / "texts.csv",
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


def test_nothing_is_held_out_on_demand(place, tmp_path):
    out = tmp_path / "m.hdsl"
    facts = told(
        "fit", place / "texts.csv", *LABELLED, "--max-iter", 5, "--test", 0, "-o", out
    )
    assert facts["error"] == {}
    assert (load(out).documents.part == TRAIN).all()
    assert "held out" in bad("evaluate", out)


def test_a_model_without_documents(place, tmp_path):
    out = tmp_path / "m.hdsl"
    good(
        "fit",
        place / "texts.csv",
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
    result = good("evaluate", out, place / "texts.csv", "--json")
    assert "not known whether these rows were learned from" in result.stderr
    assert json.loads(result.stdout)["held out"] is None
    good("report", out, "-o", tmp_path / "r.html")


def test_split_takes_shares_of_each_label():
    labels = np.repeat(["a", "b", "c", "d"], [50, 30, 20, 1])
    part = held_out.split_rows(labels, 101, share=0.2, seed=3)
    for label in "abc":
        assert np.mean(part[labels == label] == TEST) == pytest.approx(0.2)
    assert part[-1] == TRAIN  # the only row of its label
    assert (held_out.split_rows(labels, 101, share=0.2, seed=3) == part).all()
    assert (held_out.split_rows(labels, 101, share=0.2, seed=4) != part).any()
    assert np.bincount(held_out.split_rows(None, 100, share=0.2, seed=3)).tolist() == [
        80,
        20,
    ]


@pytest.mark.slow
def test_demo(tmp_path):
    page = tmp_path / "demo.html"
    model = tmp_path / "demo.hdsl"
    facts = told("demo", "-o", page, "--model", model)
    assert facts["error"]["learned"] < 0.75 * facts["error"]["cosine"]
    assert facts["comparison"]["verdict"] == "better"
    assert "LinearSVC" in facts["error"]
    assert page.stat().st_size > 50_000
    assert len(facts["neighbours"]) == 3
    found = load(model)
    assert isinstance(found, Collection)
    assert found.documents.n_rows == facts["rows"]


def test_losses_oracles_and_steps_are_those_of_the_library():
    """The command line writes their names out, so that its help loads no NumPy."""
    options = vars(make_parser().parse_args(["fit", "x.csv"]).parser)["_actions"]
    choices = {option.dest: option.choices for option in options}
    for name, known in (("loss", LOSSES), ("oracle", ORACLES), ("step", RULES)):
        assert sorted(choices[name]) == sorted(known)
        assert choices[name][0] == HDSL().get_params()[name]
