"""`hdsl fit` and `hdsl demo`: what they learn, print, measure and save."""

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from commands import LABELLED, bad, good, hdsl, load_scored, texts, write_csv
from hdsl import HDSL, ClassScores, load
from hdsl.cli import learn
from hdsl.cli.measure import Measured
from hdsl.evaluate import ErrorComparison, compare_errors, known_item
from hdsl.text import TEST, TRAIN, VALIDATION, load_collection


def test_fit_saves_texts_and_prints_errors(place, tmp_path):
    out = tmp_path / "m.hdsl"
    out.write_bytes((place / "model.hdsl").read_bytes())  # an old model is replaced
    shown = good("fit", place / "texts.csv", *LABELLED, "--max-iter", 50, "-o", out).stdout
    assert "90 documents with 3 labels" in shown
    assert "18 held out" in shown
    assert "Error of 3 nearest neighbours, 18 documents held out, with 95 % intervals" in shown
    for name in ("cosine", "learned"):
        assert re.search(rf"  {name} +\d+\.\d %  +\d+\.\d to \d+\.\d %  +\d+ of 18\n", shown)
        assert re.search(rf"  {name} +[01]\.\d+  [01]\.\d+ to [01]\.\d+  found first \d+", shown)
    assert "The learned similarity makes " in shown
    assert "Known-item search: mean reciprocal rank of a row among 90, by half" in shown
    assert "Strongest pairs" in shown
    assert re.search("effect +weight +documents with each", shown)
    assert not any(line.endswith(" ") for line in shown.splitlines())
    collection = load_collection(out)
    assert collection.texts.tolist() == [text for _, _, text in texts()]
    assert collection.labels.tolist() == [topic for _, topic, _ in texts()]
    assert collection.columns == {"text": "body", "label": "topic"}
    assert load_scored(out).model.max_iter == 50


def test_fit_takes_nothing_from_rows_held_out(place):
    words = [text.split() for _, _, text in texts()]
    collection = load_collection(place / "model.hdsl")
    known = {word for k in np.flatnonzero(collection.part != TEST) for word in words[k]}
    assert set(collection.feature_names) <= known
    assert np.bincount(collection.part)[[TRAIN, VALIDATION, TEST]].tolist() == [54, 18, 18]
    X, y, new = collection.X, collection.labels, collection.part == TEST
    scored = load_scored(place / "model.hdsl")
    shown = json.loads(good("evaluate", place / "model.hdsl", "--json").stdout)
    errors = compare_errors(scored, X[~new], y[~new], X[new], y[new], cosine=True)
    assert shown["comparison"] == errors.to_dict()
    assert shown["error"] == {"cosine": errors.before.share, "learned": errors.after.share}
    said = "nearest neighbours among the documents in the model, 18 documents held out"
    assert said in good("evaluate", place / "model.hdsl").stdout
    assert (shown["n"], shown["held out"]) == (18, True)
    assert errors.after.share <= errors.before.share
    X = sp.csr_array(sp.vstack([X[new], X[~new]]))  # rows held out are searched among all
    known = known_item(scored, X, rows=np.arange(18), random_state=0)
    assert shown["known item"]["learned"] == known.to_dict()
    plain = known_item(None, X, rows=np.arange(18), random_state=0)
    assert shown["known item"]["cosine"] == plain.to_dict()
    higher, lower = ((sign * (known.ranks - plain.ranks) < 0).sum() for sign in (1, -1))
    if higher or lower:
        said = f"ranks the row higher for {higher} queries and lower for {lower}: the difference"
        assert said in shown["known item"]["sentence"]


def test_class_scores_are_learned_from_the_rows_that_learn(place):
    """The classifier sees no row held out, and the model no score of a row by itself."""
    collection, scored = load_collection(place / "model.hdsl"), load_scored(place / "model.hdsl")
    X, y, known = collection.X, collection.labels, collection.part != TEST
    scores = ClassScores(random_state=0)
    rows = scores.fit_transform(X[known], y[known])
    assert_array_equal(scored.scores.transform(X).toarray(), scores.transform(X).toarray())
    params = scored.model.get_params() | {"max_iter": scored.model.n_iter_}
    model = HDSL(**params).fit(rows, y[known])
    assert_array_equal(scored.model.atoms_, model.atoms_)
    assert_array_equal(scored.model.weights_, model.weights_)
    names = scored.feature_names(collection.feature_names)
    assert names[-3:].tolist() == ["class:garden", "class:money", "class:sport"]


def test_fit_with_regions_makes_a_model_that_every_command_takes(place, tmp_path):
    path, page = tmp_path / "local.hdsl", tmp_path / "r.html"
    fit = ("fit", place / "texts.csv", *LABELLED, "--max-iter", 30, "--regions", 2, "-o", path)
    assert re.search(r"\d+ pairs and \d+ more in 2 regions from [\d,]+ tri", good(*fit).stdout)
    facts = json.loads(good(*fit, "--json").stdout)
    assert (facts["regions"], facts["iterations chosen on validation rows"]) == (2, True)
    assert load_scored(path).model.n_regions_ == 2
    assert json.loads(good("evaluate", path, "--json").stdout)["n"] == 18
    assert len(json.loads(good("search", path, "goal striker", "--json").stdout)["neighbours"]) == 5
    why = good("explain", path, "--x", "goal striker", "--y", "goal team").stdout
    assert why.startswith("In the region of ")
    good("report", path, "-o", page)
    assert '"regions":{"names":["' in page.read_text(encoding="utf-8")
    shown = json.loads(good("info", path, "--json").stdout)
    assert all(shown[name] == facts[name] for name in ("regions", "pairs of regions"))
    message = bad("fit", place / "texts.csv", *LABELLED, "--regions", 2, "--batch-size", 9)
    assert "--regions does not go with --batch-size" in message


def test_fit_by_classification(place, tmp_path):
    path = tmp_path / "centres.hdsl"
    given = ("fit", place / "texts.csv", *LABELLED, "--max-iter", 20, "-o", path)
    good(*given, "--objective", "classification")
    assert load_scored(path).model.objective == "classification"
    message = bad(*given, "--objective", "classification", "--regions", 2)
    assert "--regions does not go with --objective" in message


def test_commands_show_class_scores_by_name(place, tmp_path):
    path, page = place / "model.hdsl", tmp_path / "r.html"
    assert "features and 3 class scores; " in good(
        "fit", place / "texts.csv", *LABELLED, "--max-iter", 5, "-o", tmp_path / "m.hdsl"
    ).stdout  # fmt: skip
    assert json.loads(good("info", path, "--json").stdout)["class scores"] == 3
    hits = json.loads(good("search", path, "goal striker", "--why", 99, "--json").stdout)
    for hit in hits["neighbours"]:
        assert any("class:sport" in part["name"] for part in hit["why"])
        total = sum(part["value"] for part in hit["why"])
        assert total == pytest.approx(hit["similarity"])
    assert "class:sport" in good("explain", path, "--x", "goal match", "--y", "striker").stdout
    good("report", path, "-o", page)
    assert "class:sport" in page.read_text()


def test_the_page_compares_with_the_cosine_of_rows_without_scores(place, tmp_path):
    good("report", place / "model.hdsl", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    shown = json.loads(good("evaluate", place / "model.hdsl", "--json").stdout)["comparison"]
    errors = json.loads(re.search(r'"errors":({.*?}),"model":', page)[1])
    assert errors["before"] == shown["before"]


def test_a_model_without_class_scores(place, tmp_path):
    out, page = tmp_path / "m.hdsl", tmp_path / "r.html"
    facts = json.loads(
        good("fit", place / "texts.csv", *LABELLED, "--max-iter", 20, "--no-class-scores",
             "-o", out, "--json").stdout
    )  # fmt: skip
    assert facts["class scores"] == 0
    assert isinstance(load(out), HDSL)
    shown = good("search", out, "goal").stdout + good("explain", out, "--x", 0, "--y", 3).stdout
    good("report", out, "-o", page)
    assert not re.search("class:(sport|money|garden)", shown + page.read_text())
    assert json.loads(good("evaluate", out, "--json").stdout)["error"] == facts["error"]


def test_class_scores_that_need_too_much_memory_are_left_out(place, tmp_path, monkeypatch):
    monkeypatch.setattr(learn, "MAX_SCORES", 100)
    result = good("fit", place / "texts.csv", *LABELLED, "--max-iter", 5, "-o", tmp_path / "m.hdsl")
    assert result.stderr.startswith("hdsl: class scores are left out: 3 labels with ")
    assert isinstance(load(tmp_path / "m.hdsl"), HDSL)


def test_fit_repeats(place, tmp_path):
    facts = []
    for name in ("a.hdsl", "b.hdsl"):
        result = good("fit", place / "texts.csv", *LABELLED, "--max-iter", 20, "--json",
                      "-o", tmp_path / name)  # fmt: skip
        facts.append(json.loads(result.stdout))
        assert result.stderr == ""
        facts[-1].pop("seconds"), facts[-1].pop("model")
    assert facts[0] == facts[1]
    assert facts[0]["iterations"] <= 20
    assert facts[0]["rows held out"] == 18
    assert (tmp_path / "a.hdsl").read_bytes() == (tmp_path / "b.hdsl").read_bytes()


def test_a_fit_without_a_gain_says_so(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(name, rng.choice(["a", "b"]), text) for name, _, text in texts()]
    path, out = write_csv(tmp_path / "t.csv", rows), tmp_path / "m.hdsl"
    shown = good("fit", path, *LABELLED, "--max-iter", 20, "-o", out).stdout
    assert "the difference is not more than chance (p = " in shown
    assert re.search("(A gain is not shown|Nothing was gained): .*use the cosine", shown)
    facts = json.loads(good("evaluate", out, "--json").stdout)
    assert facts["comparison"]["verdict"] == "no difference"
    assert facts["comparison"]["sentence"] in good("evaluate", out).stdout


def test_a_model_that_is_worse_is_never_passed_on_in_silence(place, tmp_path, monkeypatch):
    worse = ErrorComparison.from_trials(np.zeros(30), np.ones(30))
    monkeypatch.setattr(learn, "measure_labels", lambda *_, **__: Measured(worse, {}, 3))
    out = tmp_path / "m.hdsl"
    shown = good("fit", place / "texts.csv", *LABELLED, "--max-iter", 5, "-o", out).stdout
    assert "It is worse, and nothing was gained: use the cosine" in shown
    assert "This model is not shown to be better than the cosine. To try:" in shown
    assert "--ngrams 2" in shown
    assert "compare the two" in shown
    said = "hdsl: warning: on rows held out, this model makes more errors than the cosine.\n"
    assert good("search", out, "goal").stderr == said
    shown = good("fit", place / "texts.csv", *LABELLED, "--max-iter", 5, "--test", 0,
                 "-o", out).stdout  # fmt: skip
    assert "nothing shows that this model is better than the cosine" in shown


def test_too_little_memory_names_the_options_of_the_command(place, tmp_path):
    command = ["fit", place / "texts.csv", *LABELLED, "-o", tmp_path / "model.hdsl",
               "--max-iter", 5, "--memory-limit"]  # fmt: skip
    message = bad(*command, 1e-6)
    assert "values, HDSL needs about " in message
    assert "are allowed by --memory-limit. Learn from fewer triplets (--n-targets" in message
    assert "set --batch-size" in message
    assert message.endswith("or pass --memory-limit none to go on anyway.\n")
    assert "--memory-limit must be a number or auto. Got 'much'." in bad(*command, "much")
    good(*command, "none")


def test_fit_without_validation_and_test_rows(place, tmp_path):
    result = good(
        "fit", place / "texts.csv", *LABELLED, "--max-iter", 7, "--tol", 0, "--test", 0,
        "--validation", 0, "--json", "-o", tmp_path / "m.hdsl",
    )  # fmt: skip
    facts = json.loads(result.stdout)
    assert facts["iterations"] == 7
    assert facts["error"] == {}
    assert (load_collection(tmp_path / "m.hdsl").part == TRAIN).all()
    assert "has no rows or judgements that were held out" in bad("evaluate", tmp_path / "m.hdsl")


def test_a_model_without_documents(place, tmp_path):
    out = tmp_path / "m.hdsl"
    good("fit", place / "texts.csv", *LABELLED, "--max-iter", 20, "--no-documents", "-o", out)
    assert load_collection(out).X is None
    assert "fit it again without --no-documents" in bad("search", out, "goal")
    assert "S(x, y) = " in good("explain", out, "--x", "goal match", "--y", "goal").stdout
    assert "no rows held out to measure on: name a file of rows" in bad("evaluate", out)
    result = good("evaluate", out, place / "texts.csv")
    assert "among the other rows, 90 rows, not known to be held out" in result.stdout
    assert "it is not known whether these rows were learned from" in result.stderr
    facts = json.loads(hdsl("evaluate", out, place / "texts.csv", "--json").stdout)
    assert facts["held out"] is None
    good("report", out, "-o", tmp_path / "r.html")


def test_options_reach_the_model(place, tmp_path):
    out = tmp_path / "m.hdsl"
    good(
        "fit", place / "texts.csv", *LABELLED, "-o", out,
        "--scale", 7, "--prior", 0, "--max-iter", 9, "--n-targets", 2, "--n-impostors", 3,
        "--loss", "logistic", "--oracle", "exact", "--step", "pairwise", "--seed", 5,
        "--tol", 0.01, "--mine-every", 4, "--patience", 8, "--jobs", 1, "--batch-size", 50,
    )  # fmt: skip
    model = load_scored(out).model
    wanted = {
        "scale": 7.0, "prior": 0.0, "max_iter": 9, "n_targets": 2, "n_impostors": 3,
        "loss": "logistic", "oracle": "exact", "step": "pairwise", "random_state": 5, "tol": 0.01,
        "mine_every": 4, "n_iter_no_change": 8, "batch_size": 50, "callback": None,
    }  # fmt: skip
    assert {name: model.get_params()[name] for name in wanted} == wanted


def test_split_takes_shares_of_each_label():
    labels = np.repeat(["a", "b", "c", "d"], [50, 30, 20, 1])
    part = learn.split(labels, 101, test=0.2, validation=0.1, seed=3)
    for label in "abc":
        share = np.bincount(part[labels == label], minlength=3) / (labels == label).sum()
        np.testing.assert_allclose(share, [0.7, 0.1, 0.2], atol=1e-12)
    assert part[-1] == TRAIN  # the only row of its label
    assert (learn.split(labels, 101, test=0.2, validation=0.1, seed=3) == part).all()
    assert (learn.split(labels, 101, test=0.2, validation=0.1, seed=4) != part).any()
    part = learn.split(None, 100, test=0.2, validation=0.1, seed=3)
    assert np.bincount(part).tolist() == [70, 10, 20]


def test_demo(tmp_path):
    page, model = tmp_path / "demo.html", tmp_path / "demo.hdsl"
    facts = json.loads(good("demo", "-o", page, "--model", model, "--json").stdout)
    assert facts["error"]["learned"] < 0.75 * facts["error"]["cosine"]
    assert facts["comparison"]["verdict"] == "better"
    assert facts["known item"]["learned"]["mrr"] > 0.5
    assert page.stat().st_size > 50_000
    hits = facts["neighbours"]
    assert len(hits) == 3
    assert any(" ~ " in why["name"] for hit in hits for why in hit["why"])  # learned pairs at work
    assert any(hit["rank by cosine"] > 3 for hit in hits)
    assert load_collection(model).n_rows == facts["rows"]
