"""The command line: what it prints and writes, and how it ends when something is wrong."""

import base64
import csv
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.main import get_command
from typer.testing import CliRunner

import hdsl as hdsl_package
from hdsl import HDSL, ClassScores, datasets, load, memory, triplets, user_input
from hdsl.backends.cuda.runtime import BrokenDeviceError
from hdsl.cli import app, documents, inputs, learn, shell
from hdsl.cli.measure import Measured
from hdsl.cli.scored import ScoredModel
from hdsl.estimators import saving
from hdsl.evaluate import ErrorComparison, compare_errors, known_item
from hdsl.files import checkpoint
from hdsl.similarity import LearnedCosine
from hdsl.text import TEST, TRAIN, VALIDATION, load_collection

TOPICS = {
    "sport": "goal match striker keeper referee league coach stadium",
    "money": "profit bank shares market investor forecast loan dividend",
    "garden": "rose soil seed flower prune compost lawn hedge",
}
NOISE = "today report people early late new old small large many"


def texts(n=90, seed=0):
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
    """Return the one line that a command ends with on stderr."""
    result = hdsl(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("hdsl: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


LABELLED = ("--text", "body", "--label", "topic")


def load_scored(path):
    return ScoredModel.from_saved(load(path))


def cosines(scored, x, X):
    """Return the learned cosines of one row with others."""
    similarity = LearnedCosine(scored)
    return (similarity.rewrite(x) @ similarity.index_rows(X).T).toarray()[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts and a model of them."""
    folder = tmp_path_factory.mktemp("cli")
    write_csv(folder / "texts.csv", texts())
    good("fit", folder / "texts.csv", *LABELLED, "-o", folder / "model.hdsl", "--max-iter", 60)
    return folder


def rows_and_labels():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.integers(0, 4, size=(60, 12)) * (rng.random((60, 12)) < 0.3)
    X[np.arange(60), 4 * y + rng.integers(4, size=60)] += 3
    return sp.csr_array(X.astype(float)), y


@pytest.fixture
def rows_file(tmp_path):
    sp.save_npz(tmp_path / "rows.npz", rows_and_labels()[0])
    return tmp_path / "rows.npz"


# --- fit -----------------------------------------------------------------------------------------


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
    assert re.search(r"\d+ pairs and \d+ of 2 regions from [\d,]+ triplets in", good(*fit).stdout)
    facts = json.loads(good(*fit, "--json").stdout)
    assert (facts["regions"], facts["iterations chosen on validation rows"]) == (2, False)
    assert load_scored(path).model.n_regions_ == 2
    assert json.loads(good("evaluate", path, "--json").stdout)["n"] == 18
    assert len(json.loads(good("search", path, "goal striker", "--json").stdout)["neighbours"]) == 5
    why = good("explain", path, "--x", "goal striker", "--y", "goal team").stdout
    assert why.startswith("In the region of ")
    good("report", path, "-o", page)
    assert "<html" in page.read_text(encoding="utf-8")
    good("info", path)
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


def test_not_enough_memory_can_be_pickled():
    error = memory.NotEnoughMemory("The fit", 3 * 2**30, 2**30, True, ("a", "b", "c"))
    assert str(error) == (
        "The fit needs about 3.0 GiB, but only 1.0 GiB are allowed by memory_limit. A, b, or c."
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


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


@pytest.mark.parametrize("kind", ["svm", "npz", "mat"])
def test_fit_rows(tmp_path, kind):
    X, y = rows_and_labels()
    path, out, options = tmp_path / f"rows.{kind}", tmp_path / "m.hdsl", ()
    if kind == "svm":
        dump_svmlight_file(sp.csr_matrix(X), y, str(path), zero_based=False)
    elif kind == "mat":
        scipy.io.savemat(path, {"rows": sp.csc_matrix(X), "group": y[:, None].astype(float)})
        options = ("--matlab-names", "rows,group")
    else:
        sp.save_npz(path, X)
        np.save(tmp_path / "y.npy", y)
        options = ("--labels", tmp_path / "y.npy")
    result = good("fit", path, *options, "--max-iter", 20, "-o", out)
    assert "60 rows with 3 labels, 12 features" in result.stdout
    assert result.stderr == (
        f"hdsl: the values of {path} are whole numbers: they are taken as counts and weighted by "
        "TF-IDF. --no-tfidf leaves them as they are.\n"
    )
    found = load_collection(out)
    known = TfidfTransformer(sublinear_tf=True, norm=None).fit(X[found.part != TEST])
    X = sp.csr_array(known.transform(X))
    np.testing.assert_allclose(found.X.toarray(), X.toarray())
    result = good("evaluate", out, path, *options)
    assert "60 of 60 rows are in the model already" in result.stderr
    assert "60 rows, not all held out" in result.stdout
    hit = json.loads(good("search", out, "--row", 0, "-k", 1, "--json").stdout)["neighbours"][0]
    scores = cosines(load_scored(out), X[[0]], X[1:])  # rows do not have length 1
    assert hit["similarity"] == pytest.approx(scores.max())


def judged_triplets():
    _, y = rows_and_labels()
    T = np.random.default_rng(1).integers(60, size=(4000, 3))
    return T[(y[T[:, 0]] == y[T[:, 1]]) & (y[T[:, 0]] != y[T[:, 2]])]


def test_fit_triplets(rows_file, tmp_path):
    T = judged_triplets()
    path = write_csv(tmp_path / "T.csv", T.tolist(), ("anchor", "positive", "negative"))
    out = tmp_path / "m.hdsl"
    facts = json.loads(good("fit", rows_file, "--triplets", path, "-o", out, "--json").stdout)
    part = load_collection(out).part
    assert facts["measured on"] == (part[T[:, 0]] == TEST).sum()
    assert facts["triplets"] == (part[T] != TEST).all(axis=1).sum()
    assert facts["class scores"] == 0
    assert facts["error"]["learned"] < facts["error"]["cosine"]
    assert "use the cosine" in facts["comparison"]["sentence"]  # the gain is small
    assert facts["known item"]["learned"]["n_queries"] <= facts["rows held out"]
    shown = json.loads(good("evaluate", out, "--json").stdout)  # on the judgements held out
    assert (shown["n"], shown["error"]) == (facts["measured on"], facts["error"])
    assert f"{shown['n']:,} judgements held out" in good("evaluate", out).stdout
    result = good("evaluate", out, rows_file, "--triplets", path)
    assert f"{len(T):,} judgements, not all held out" in result.stdout
    assert " of 60 rows were learned from, so the errors are too low" in result.stderr


def test_fit_quadruplets(rows_file, tmp_path):
    T = judged_triplets()
    Q = np.concatenate([T[:, [0, 1, 0, 2]], np.c_[T[:-1, :2], T[1:, ::2]]])  # same or other rows
    np.save(tmp_path / "Q.npy", Q)
    out, judged = tmp_path / "m.hdsl", ("--quadruplets", tmp_path / "Q.npy")
    facts = json.loads(good("fit", rows_file, *judged, "-o", out, "--json").stdout)
    is_new = load_collection(out).part[Q] == TEST
    assert facts["measured on"] == (is_new[:, :2].any(axis=1) & is_new[:, 2:].any(axis=1)).sum()
    assert facts["error"]["learned"] < facts["error"]["cosine"]
    assert f"{len(Q):,} judgements" in good("evaluate", out, rows_file, *judged).stdout
    np.save(tmp_path / "Q.npy", [[0, 1, 2, 99]])
    assert "names row 99, but " in bad("fit", rows_file, *judged, "-o", out)


COLUMNS = {
    "triplets": ("anchor", "positive", "negative"),
    "quadruplets": ("positive_a", "positive_b", "negative_a", "negative_b"),
}


@pytest.mark.parametrize("kind", ["triplets", "quadruplets"])
def test_judgements_by_id(place, tmp_path, kind):
    ids = [f"d{k % 90}" for k in range(99)]
    judged = [(ids[k], ids[k + 3], ids[k], ids[k + 1]) for k in range(90)] * 2
    judged = [row[:2] + row[3:] for row in judged] if kind == "triplets" else judged
    path = write_csv(tmp_path / "judged.csv", judged, COLUMNS[kind])
    result = good(
        "fit", place / "texts.csv", "--text", "body", "--id", "id", f"--{kind}", path,
        "--test", 0, "--validation", 0, "--max-iter", 5, "-o", tmp_path / "m.hdsl", "--json",
    )  # fmt: skip
    assert json.loads(result.stdout)["triplets"] == 180
    write_csv(path, judged, ("wrong", *COLUMNS[kind][1:]))
    message = bad("fit", place / "texts.csv", "--text", "body", "--id", "id", f"--{kind}", path,
                  "-o", tmp_path / "m.hdsl")  # fmt: skip
    assert f"no column '{COLUMNS[kind][0]}'" in message
    assert "rename yours" in message


def test_quadruplets_are_split_by_pair(monkeypatch):
    """A quadruplet measures if each of its pairs has a new row, and trains if none has."""
    Q = np.array([[0, 1, 2, 3], [0, 4, 2, 3], [0, 4, 5, 2], [0, 6, 7, 2], [4, 6, 5, 2]])
    data = inputs.Data(Path("rows"), X=sp.eye_array(8, format="csr"), comparisons=Q)
    part = np.array([TRAIN] * 4 + [TEST] * 2 + [VALIDATION] * 2)
    fits, measured = [], []

    def fit(self, **given):
        fits.append(given)
        self.n_iter_, self.status_ = 1, "max_iter"
        self.trace_ = {"validation_score": np.array([0.5])}
        return self

    monkeypatch.setattr(learn, "split", lambda *_: part)
    monkeypatch.setattr(HDSL, "fit", fit)
    monkeypatch.setattr(learn, "measure_judgements", lambda *given: measured.append(given))
    outcome = learn.learn(data, HDSL())
    chosen, learned = fits
    assert_array_equal(chosen["quadruplets"], Q[[0]])
    assert_array_equal(chosen["triplets_val"], Q[[3]])
    assert_array_equal(learned["quadruplets"], Q[[0, 3]])
    _, _, judgements, weights, rows = measured[0]
    assert_array_equal(judgements, Q[[2, 4]])
    assert_array_equal(rows, [4, 5])
    assert (outcome.by, weights) == ("judgements", None)


def test_quadruplets_are_read_like_triplets(rows_file, tmp_path, monkeypatch):
    table = write_csv(tmp_path / "Q.csv", [(0, 1, 2, 3)], COLUMNS["quadruplets"])
    array = tmp_path / "Q.npy"
    np.save(array, [[0, 1, 2, 3]])

    def judgement_quadruplets(path, *, ids):
        return np.loadtxt(path, int, delimiter=",", skiprows=1, ndmin=2), np.ones(1)

    monkeypatch.setattr(triplets, "judgement_quadruplets", judgement_quadruplets, raising=False)
    monkeypatch.setattr(user_input, "check_quadruplets", lambda Q, n_rows: Q, raising=False)
    for path in (table, array):
        data = inputs.read_data(rows_file, inputs.Source(quadruplets=path))
        assert_array_equal(data.comparisons, [[0, 1, 2, 3]])
    both = ("--triplets", array, "--quadruplets", array)
    assert "Give --triplets or --quadruplets, not both" in bad("fit", rows_file, *both)


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


def test_tables_of_other_kinds(place, tmp_path):
    """Another separator and encoding, rows without a value, and ids that search returns."""
    rows = [(a, b, f"{c} für") for a, b, c in texts()]
    rows[5], rows[9] = (rows[5][0], "", rows[5][2]), (rows[9][0], rows[9][1], "")
    path, out = tmp_path / "t.csv", tmp_path / "m.hdsl"
    lines = [";".join(row) for row in [("id", "topic", "body"), *rows]]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    told = ("--sep", ";", "--encoding", "latin-1", "--skip-missing", "--id", "id")
    shown = good("fit", path, *LABELLED, *told, "--max-iter", 5, "-o", out).stdout
    assert "88 documents with 3 labels" in shown
    assert "2 rows without a value skipped." in shown
    found = load_collection(out)
    assert found.ids.tolist() == [name for name, topic, body in rows if topic and body]
    assert found.texts[0].endswith(" für")
    (hit,) = json.loads(good("search", out, "goal", "-k", 1, "--json").stdout)["neighbours"]
    assert hit["id"] == found.ids[hit["row"]]
    line = good("search", out, "goal", "-k", 1).stdout.splitlines()[1]
    assert hit["id"] in line.split()
    result = good("evaluate", out, path, *told[:5])
    assert "88 rows, not all held out" in result.stdout


def test_documents_without_a_known_word_are_counted(tmp_path):
    path = write_csv(tmp_path / "t.csv", [*texts(), ("x", "sport", "zzz"), ("y", "money", "yyy")])
    shown = good("fit", path, *LABELLED, "--max-iter", 5, "-o", tmp_path / "m.hdsl").stdout
    assert "2 documents have no known word: they match nothing." in shown


def test_counts_can_be_left_as_they_are(rows_file, tmp_path):
    np.save(tmp_path / "y.npy", rows_and_labels()[1])
    command = ("fit", rows_file, "--labels", tmp_path / "y.npy", "--max-iter", 5)
    out = tmp_path / "m.hdsl"
    result = good(*command, "--no-tfidf", "--norm", "none", "--no-class-scores", "-o", out)
    assert "TF-IDF" not in result.stderr
    assert (rows_and_labels()[0] != load_collection(out).X).nnz == 0
    assert load_scored(out).model.norm is None
    ones = sp.csr_array((rows_and_labels()[0] > 0).astype(float))
    sp.save_npz(rows_file, ones)  # 0 and 1 are no counts unless asked for
    assert good(*command, "-o", out).stderr == ""
    good(*command, "--tfidf", "--no-documents", "-o", out)
    assert load_collection(out).idf.shape == (12,)


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


# --- search, explain, report, info ---------------------------------------------------------------


def test_search(place):
    model = place / "model.hdsl"
    shown = good("search", model, "goal of the striker", "-k", 4).stdout
    head, *lines = shown.splitlines()
    assert head.split() == ["learned", "by", "cosine", "label", "document"]
    assert len(lines) == 8  # a neighbour and why
    assert all("sport" in line for line in lines[::2])
    for line, why in zip(lines[::2], lines[1::2], strict=True):
        parts = [float(part) for part in re.findall(r" ([+-][\d.]+)", why)]
        assert sum(parts) == pytest.approx(float(line.split()[0]), abs=0.006 * (1 + len(parts)))
    facts = json.loads(good("search", model, "goal", "striker", "--json").stdout)
    assert facts["query"] == "goal striker"
    collection = load_collection(model)
    scores = cosines(load_scored(model), collection.rows_of(["goal striker"]), collection.X)
    hits = facts["neighbours"]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], np.sort(scores)[::-1][:5])
    assert hits[0]["text"] == collection.texts[hits[0]["row"]]
    plain = (collection.X @ collection.rows_of(["goal striker"]).T).toarray().ravel()
    for hit in hits:
        assert hit["cosine"] == pytest.approx(plain[hit["row"]])
        assert hit["rank by cosine"] == 1 + (plain > plain[hit["row"]] + 1e-12).sum()
        total = sum(part["value"] for part in hit["why"]) + hit["more"]["value"]
        assert total == pytest.approx(hit["similarity"])
    hits = json.loads(good("search", model, "--row", 4, "-k", 3, "--json").stdout)["neighbours"]
    assert len(hits) == 3
    assert 4 not in [hit["row"] for hit in hits]


def test_search_for_many_queries(place, tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("goal striker\n\nzebra\nprofit of the bank\n")
    result = good("search", place / "model.hdsl", "--queries", path, "--json")
    assert result.stderr == "hdsl: warning: 1 query has no word that the model knows.\n"
    answers = json.loads(result.stdout)
    assert [answer["query"] for answer in answers] == [
        "goal striker", "zebra", "profit of the bank"
    ]  # fmt: skip
    for answer in answers[::2]:
        alone = good("search", place / "model.hdsl", answer["query"], "--json").stdout
        rows = [hit["row"] for hit in json.loads(alone)["neighbours"]]
        assert [hit["row"] for hit in answer["neighbours"]] == rows
    assert answers[1]["neighbours"] == []
    shown = good("search", place / "model.hdsl", "--queries", path).stdout
    assert "\nzebra\n  nothing found\n" in shown


def test_row_numbers_are_those_of_the_file(place, tmp_path):
    """In search, evaluate, explain, export and on the page, also beside rows held out."""
    good("report", place / "model.hdsl", "-o", tmp_path / "r.html")
    page = json.loads(re.search(r'"data">(.*?)</script>', (tmp_path / "r.html").read_text())[1])
    code = page["items"]["rows"]
    rows = np.frombuffer(base64.b64decode(code["bytes"]), dtype=code["type"])
    part = load_collection(place / "model.hdsl").part
    assert_array_equal(rows, np.flatnonzero(part != TEST))
    assert page["items"]["texts"] == [texts()[row][2] for row in rows]


def test_control_characters_are_not_printed(tmp_path):
    rows = [(a, b, f"{c} \x1b[31m\x07 [bold]") for a, b, c in texts(30)]
    path = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    shown = good("fit", path, *LABELLED, "--max-iter", 20, "-o", out).stdout
    shown += good("search", out, "goal").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]" in shown  # texts are no markup


def test_explain(place):
    model = place / "model.hdsl"
    shown = good("explain", model, "--x", "goal of the match", "--y", "a goal").stdout
    assert shown.startswith("S(x, y) = ")
    asked = ("--x", 3, "--y", 6, "--rather-than", 1, "--json")
    facts = json.loads(good("explain", model, *asked).stdout)
    X = load_collection(model).X
    scored = load_scored(model)
    scores = scored.model.similarity(scored.rows(X[[3]]), scored.rows(X[[6, 1]]))[0]
    assert facts["total"] == pytest.approx(scores[0] - scores[1])
    assert sum(part["value"] for part in facts["parts"]) == pytest.approx(facts["total"])


def test_report(place, tmp_path):
    good("report", place / "model.hdsl", "-o", tmp_path / "r.html", "--title", "Goals & <more>")
    page = (tmp_path / "r.html").read_text()
    assert "Goals &amp; &lt;more&gt;" in page
    assert "striker" in page


def test_export(place, tmp_path):
    path, model = tmp_path / "index.jsonl", place / "model.hdsl"
    result = good("export", model, "--to", "jsonl", "-o", path)
    assert result.stdout.startswith(f"{path}: 90 documents, ")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (hit,) = json.loads(good("search", model, "goal", "-k", 1, "--json").stdout)["neighbours"]
    query = json.loads(good("export", model, "--to", "jsonl", "--query", "goal").stdout)
    scores = [sum(query.get(t, 0) * w for t, w in line["terms"].items()) for line in lines]
    assert max(scores) == pytest.approx(hit["similarity"])
    assert lines[hit["row"]]["text"] == hit["text"]
    assert set(lines[0]) == {"id", "length", "label", "text", "terms"}
    good("export", model, "--to", "pgvector", "-o", tmp_path / "index.sql", "--no-cosine")
    assert "sparsevec(" in (tmp_path / "index.sql").read_text(encoding="utf-8")
    assert "must be one of 'pgvector', 'qdrant', 'jsonl'" in bad("export", model, "--to", "other")
    assert "must end in .sql" in bad("export", model, "--to", "pgvector", "-o", path)


def test_evaluate_new_texts(place, tmp_path):
    new = write_csv(tmp_path / "new.csv", texts(45, seed=9))
    result = good("evaluate", place / "model.hdsl", new, "-k", 5)
    assert "Error of 5 nearest neighbours among the documents in the model, 45" in result.stdout
    assert result.stderr == ""


def test_info(place, rows_file, tmp_path):
    assert json.loads(good("info", "--json").stdout)["cores"] >= 1
    facts = json.loads(good("info", place / "model.hdsl", "--json").stdout)
    assert facts["documents"] == 90
    facts = json.loads(good("info", rows_file, "--json").stdout)
    assert (facts["rows"], facts["features"], facts["triplets"]) == (60, 12, 900)
    np.save(tmp_path / "T.npy", np.array([[0, 1, 2]]))
    assert "triplets" in good("info", rows_file, "--triplets", tmp_path / "T.npy").stdout


def test_help_has_an_example_for_each_command():
    for command in get_command(app).commands:
        text = " ".join(good(command, "--help").stdout.split())
        assert "For example:" in text
        assert f"hdsl {command}" in text


def test_help_loads_nothing_heavy():
    code = """
        import sys, time
        from hdsl.cli import app
        app(["fit", "--help"], standalone_mode=False)
        assert time.process_time() < 0.5, time.process_time()
        heavy = {"numpy", "scipy", "sklearn", "numba", "pydantic", "rich"} & set(sys.modules)
        assert not heavy, heavy
        import hdsl
        assert {*hdsl.__all__, "triplets"} <= set(dir(hdsl))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True)


def test_version_and_wrong_commands():
    assert good("--version").stdout == f"hdsl {hdsl_package.__version__}\n"
    assert bad("--nothing") == "hdsl: No such option: --nothing. See hdsl --help.\n"
    assert bad("serch").startswith("hdsl: No such command 'serch'")
    assert bad("reproduce", "nothing").startswith(
        "hdsl: There is no experiment 'nothing': choose from all, recovery, "
    )
    assert bad("reproduce", "knn", "--jobs", 0) == "hdsl: --jobs must be 1 or more. Got 0.\n"


def test_public_names_are_found_on_first_use():
    assert hdsl_package.HDSL is HDSL
    assert hdsl_package.triplets is triplets
    with pytest.raises(AttributeError, match="module 'hdsl' has no attribute 'nothing'"):
        _ = hdsl_package.nothing


def test_bench_passes_arguments_on(monkeypatch, tmp_path):
    from hdsl.cli import about

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(about, "__file__", str(tmp_path / "a" / "b" / "c" / "about.py"))
    assert "in a clone" in bad("bench")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__main__.py").touch()
    calls = []

    def run(command, **options):
        calls.append((command[1:], options["cwd"]))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    assert hdsl("bench", "kernels", "--toy").exit_code == 3
    assert calls == [(["-m", "benchmarks", "kernels", "--toy"], tmp_path)]


def test_reproduce(monkeypatch, tmp_path):
    experiments = pytest.importorskip("hdsl.experiments")
    calls = []
    page = tmp_path / "page.md"
    page.write_text("# A table")
    monkeypatch.setattr(experiments, "reproduce", lambda *given: calls.append(given) or page)
    result = good("reproduce", "recovery", "knn", "--quick", "--data", "D", "--jobs", 1)
    settings = experiments.Settings(Path("results/quick"), Path("D"), 1, quick=True)
    assert calls == [("recovery", settings), ("knn", settings)]
    assert result.stdout == "# A table\n" * 2
    assert result.stderr == f"hdsl: written to {page}\n" * 2
    assert set(experiments.NAMES) <= set(re.findall(r"\w+", good("reproduce", "--help").stdout))


# --- wrong input ---------------------------------------------------------------------------------


def test_missing_files(place, tmp_path):
    assert "There is no file" in bad("fit", tmp_path / "no.csv", "--text", "t", "--label", "l")
    assert "There is no file" in bad("search", tmp_path / "no.hdsl", "words")
    assert "is a folder" in bad("fit", tmp_path)
    labels = ("--labels", tmp_path / "no.npy")
    assert "There is no file" in bad("fit", place / "texts.csv", "--text", "body", *labels)


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch):
    for name in ("big.svm", "big.csv", "big.npz", "big.hdsl", "big.mat"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(5 * 2**30)
        command = ("info" if name == "big.hdsl" else "fit", tmp_path / name)
        command += ("--text", "t") if name == "big.csv" else ()
        monkeypatch.setattr(memory, "available", lambda: 8 * 2**30)
        message = bad(*command)
        assert "has 5.0 GiB: reading it takes about 25.0 GiB of memory, but 8.0 GiB" in message
        monkeypatch.setattr(memory, "available", lambda: 2**50)
        if name in ("big.svm", "big.csv"):
            assert "is not UTF-8 text" in bad(*command)


MISTAKES = [
    ((), "name its column of texts with --text (it has 'id', 'topic', 'body')"),
    (("--label", "topic"), "is a table: name its column of texts with --text"),
    (("--text", "boby"), "has no column 'boby'. Its columns are 'id', 'topic', 'body': say which "
     "is meant with --text."),
    (("--text", "body", "--label", "tpic"), "has no column 'tpic'. Its columns are 'id', 'topic', "
     "'body': say which is meant with --label."),
    (("--text", "body"), "has no labels to learn from: name their column with --label"),
    (("--text", "body", "--label", "id"), "There are 90 different labels among 90 rows: at least"),
    ((*LABELLED, "--scale", "big"), "--scale must be a number or auto. Got 'big'."),
    ((*LABELLED, "--scale", "-1"), "--scale must be a float > 0 or 'auto'. Got -1.0 instead."),
    ((*LABELLED, "--test", "0.9"), "together less than 1"),
    ((*LABELLED, "--max-iter", "0"), "--max-iter must be an int >= 1. Got 0 instead."),
    ((*LABELLED, "--max-iter", "x"), "See hdsl fit --help"),
    ((*LABELLED, "--batch-size", "0"), "--batch-size must be an int >= 1. Got 0 instead."),
    ((*LABELLED, "--patience", "0"), "--patience must be an int >= 1. Got 0 instead."),
    ((*LABELLED, "--loss", "x"), "--loss must be one of 'smoothed_hinge', 'squared_hinge', "
     "'logistic', 'exponential'. Got 'x' instead."),
    ((*LABELLED, "--mining", "x"), "--mining must be one of 'neighbors', 'random'. Got 'x'"),
    ((*LABELLED, "--storage", "f4"), "--storage must be one of 'float64', 'float32'"),
    ((*LABELLED, "--device", "gpu"), "--device must be 'cpu', 'cuda' or 'cuda:1' and so on."),
    ((*LABELLED, "--jobs", "0"), "--jobs must be 1 or more, or -1 for all cores. Got 0."),
    ((*LABELLED, "--norm", "l1"), "--norm must be l2 or none. Got 'l1'."),
    ((*LABELLED, "--norm", "none"), "at unit length: add --no-class-scores."),
    ((*LABELLED, "--tfidf"), "--tfidf and --no-tfidf are for a matrix of counts"),
    ((*LABELLED, "--min-df", "1.5"), "whole numbers of documents"),
    ((*LABELLED, "--min-df", "80"), "No word is left"),
    ((*LABELLED, "--tokens", "x"), "--tokens must be one of 'words', 'identifiers'. Got 'x'"),
    ((*LABELLED, "--sep", ";;"), "--sep must be one character, such as ';' or '\\t'. Got ';;'."),
    ((*LABELLED, "--sep", ";"), "has no column 'body', 'topic'. Its columns are 'id,topic,body'"),
    ((*LABELLED, "--encoding", "x"), "cannot be read as 'x' text"),
    ((*LABELLED, "--encoding", "utf-16"), "or name its encoding with --encoding."),
    (("--no-such-option",), "See hdsl fit --help"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes_in_options(place, tmp_path, options, message):
    assert message in bad("fit", place / "texts.csv", *options, "-o", tmp_path / "m.hdsl")
    assert not list(tmp_path.iterdir())


WRONG_TABLES = [
    ("topic,body\nsport,Tor für alle\n".encode("latin-1"), "t.csv, line 2 is not UTF-8 text: save "
     "the file as UTF-8, or name its encoding with --encoding."),
    ("topic,body\nsport,a\n".encode("utf-16"), "contain zeros: pass --encoding utf-16."),
    (b"topic,body\nsport,\n", "line 2 has no value in column 'body': fill them, or pass "
     "--skip-missing to leave such rows out."),
    (b"topic;body\nsport;a goal\n", "Its columns are 'topic;body': if ';' separates them, pass "
     "--sep ';'."),
    (b"topic\tbody\nsport\ta goal\n", "separates them, pass --sep '\\t'."),
    (b"topic,body\nsport\n", "t.csv, line 2 has 1 field, but the header has 2 fields."),
    (b"topic,body\n", "t.csv has no rows: at least one is needed."),
    (b"topic,body\n" + b"a,some words\n" * 9, "There is 1 different label among 9 rows"),
    (b"topic,topic,body\na,b,c\n", "t.csv has column 'topic' more than once: rename one."),
    (b"", "t.csv is empty."),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), WRONG_TABLES)
def test_wrong_tables(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    assert message in bad("fit", tmp_path / "t.csv", *LABELLED, "-o", tmp_path / "m.hdsl")


def test_wrong_parquet(tmp_path):
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"PAR1 not really PAR1")
    assert "hdsl: " in bad("fit", path, *LABELLED, "-o", tmp_path / "m.hdsl")


def test_wrong_matrices(rows_file, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 0:2 3:1\n2 1:1\n")
    assert ": pass --zero-based if they count from 0." in bad("fit", path)
    path.write_text("1 1:2 x:1\n")
    assert "line 1: expected 'index:value'. Got 'x:1'" in bad("fit", path)
    scipy.io.savemat(tmp_path / "rows.mat", {"A": np.eye(3)})
    message = bad("fit", tmp_path / "rows.mat")
    assert "has no variable 'fea', but A: name yours with --matlab-names ROWS,LABELS." in message
    assert "has no labels to learn from" in bad("fit", rows_file)
    for option in (("--text", "t"), ("--sep", ";"), ("--skip-missing",)):
        assert f"{option[0]} is about a table" in bad("fit", rows_file, *option)
    np.save(tmp_path / "y.npy", np.arange(7))
    assert "has 7 labels, but" in bad("fit", rows_file, "--labels", tmp_path / "y.npy")
    sp.save_npz(tmp_path / "half.npz", rows_and_labels()[0] / 2)
    np.save(tmp_path / "y.npy", rows_and_labels()[1])
    counts = ("--labels", tmp_path / "y.npy", "--tfidf")
    assert "--tfidf needs counts, whole numbers" in bad("fit", tmp_path / "half.npz", *counts)


def test_wrong_judgements(place, rows_file, tmp_path):
    np.save(tmp_path / "T.npy", np.array([[0, 1, 99]]))
    message = bad("fit", rows_file, "--triplets", tmp_path / "T.npy")
    assert f"judgement 0 names row 99, but {rows_file} has 60 rows. Both are numbered" in message
    path = write_csv(tmp_path / "T.csv", [("d0", "d3", "d1")], COLUMNS["triplets"])
    judged = ("fit", place / "texts.csv", "--text", "body", "--triplets", path)
    message = bad(*judged)
    assert "which is not a row number: name the column of ids with --id." in message
    write_csv(path, [("d0", "d3", "zebra")], COLUMNS["triplets"])
    assert "1 id in column 'negative' of T.csv matches no row: 'zebra'" in bad(
        *judged, "--id", "id"
    )
    rows = [*texts(), ("", "sport", "goal")]
    gaps = write_csv(tmp_path / "gaps.csv", [(a, b, c if a else "") for a, b, c in rows])
    numbered = write_csv(tmp_path / "N.csv", [(0, 3, 1)], COLUMNS["triplets"])
    skipped = ("fit", gaps, "--text", "body", "--skip-missing", "--triplets", numbered)
    assert "--skip-missing leaves 1 row of" in bad(*skipped)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "m.hdsl"
    path.write_bytes(b"PK\x03\x04 a zip archive, say, of some length")
    more = {"search": ["goal"], "explain": ["--x", "a", "--y", "b"]}
    for command in ("search", "evaluate", "explain", "report", "info"):
        message = bad(command, path, *more.get(command, []))
        assert "not a model file but a zip archive" in message


def test_wrong_queries(place, rows_file):
    model = place / "model.hdsl"
    assert "knows none of the words of the query" in bad("search", model, "zebra")
    assert "Give words to search for, a document with --row, or" in bad("search", model)
    assert "and one of them only" in bad("search", model, "goal", "--row", 3)
    for row in (90, -1):
        message = bad("search", model, "--row", row)
        assert message == f"hdsl: There is no document {row}: the model has 90, numbered from 0.\n"
    assert "knows none of the words of the query, '17'" in bad("search", model, "17")  # a text
    assert "There is no file" in bad("search", model, "--queries", rows_file.parent / "no.txt")
    assert "-k must be 1 or more" in bad("search", model, "goal", "-k", 0)
    assert "--by must be one of " in bad(
        "explain", model, "--x", "goal", "--y", "goal", "--by", "x"
    )
    assert "give a table of texts" in bad("evaluate", model, rows_file)


def test_the_output_is_checked_before_the_fit(place, tmp_path, monkeypatch):
    monkeypatch.setattr(learn, "learn", lambda *_, **__: pytest.fail("the fit was started"))
    (tmp_path / "folder.hdsl").mkdir()
    (tmp_path / "texts.hdsl").write_text("my only copy")
    messages = {
        "nowhere/m.hdsl": "There is no folder",
        "folder.hdsl": "is a folder: name a file in it",
        "model.txt": "must end in .hdsl",
        "texts.hdsl": "exists and is not a model",
    }
    if Path("/proc/self").exists():
        messages["/proc/m.hdsl"] = "Cannot write /proc/m.hdsl: "
    for name, message in messages.items():
        assert message in bad("fit", place / "texts.csv", *LABELLED, "-o", tmp_path / name)
    long = ("fit", place / "texts.csv", *LABELLED, "-o", tmp_path / "m.hdsl", "--checkpoint")
    for name in ("n" * 300, "n" * 250):  # the longer one of the choice is too long, too
        assert "name is too long" in bad(*long, tmp_path / name)
    assert "too long" in bad("fit", *long[1:4], "-o", tmp_path / ("n" * 300 + ".hdsl"))
    assert (tmp_path / "texts.hdsl").read_text() == "my only copy"
    assert "must end in .html" in bad("report", place / "model.hdsl", "-o", place / "model.hdsl")


def test_a_gpu_that_fails_is_no_bug(place, monkeypatch):
    def fail(path):
        raise BrokenDeviceError("The GPU failed. device='cpu' works.")

    monkeypatch.setattr(documents, "load", fail)
    message = bad("search", place / "model.hdsl", "goal", code=1)
    assert message.strip() == "hdsl: The GPU failed. device='cpu' works."


def test_a_bug_is_reported_as_one(place, monkeypatch):
    def fail(path):
        raise KeyError("secret")

    monkeypatch.setattr(documents, "load", fail)
    message = bad("search", place / "model.hdsl", "goal", code=1)
    assert "this should not have happened: KeyError: 'secret'" in message
    assert "--debug" in message
    assert isinstance(hdsl("--debug", "search", place / "model.hdsl", "goal").exception, KeyError)


def test_warnings_are_one_line_each(tmp_path):
    rows = [*texts(30), ("x", "alone", "a rose and a goal, the profit of many people")]
    path = write_csv(tmp_path / "t.csv", rows)
    result = good("fit", path, *LABELLED, "--max-iter", 5, "-o", tmp_path / "m.hdsl")
    assert result.stderr.startswith("hdsl: warning: ")
    lines = result.stderr.splitlines()
    assert all(line.startswith("hdsl: warning: ") for line in lines)
    assert len(lines) == len(set(lines))


# --- checkpoints and interrupts ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run", "run.choosing"])
def test_one_file_is_not_both_model_and_checkpoint(place, tmp_path, name):
    out = tmp_path / "model.hdsl"
    try:
        out.symlink_to(tmp_path / name)
    except OSError:
        pytest.skip("links need rights here")
    message = bad("fit", place / "texts.csv", *LABELLED, "-o", out,
                  "--checkpoint", tmp_path / "run")  # fmt: skip
    assert message == f"hdsl: {out} is both the model and the checkpoint: name two files.\n"


def test_checkpoints_are_deleted_when_the_model_is_written(place, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    run, seen, save = tmp_path / "run", [], saving.save

    def look_and_save(*given):
        seen.extend(sorted(file.name for file in tmp_path.iterdir()))
        save(*given)

    monkeypatch.setattr(saving, "save", look_and_save)
    command = ("fit", place / "texts.csv", *LABELLED, "--max-iter", 9, "-o", tmp_path / "m.hdsl")
    good(*command, "--checkpoint", run)
    assert seen == ["run", "run.choosing"]
    assert [file.name for file in tmp_path.iterdir()] == ["m.hdsl"]


@pytest.fixture
def interrupt_at_5(monkeypatch):
    """Send SIGINT at iteration 5 of each fit."""

    def fit(model, **given):
        def callback(state):
            if state.n_iter == 5:
                signal.raise_signal(signal.SIGINT)

        model.callback = callback
        whole_fit(model, **given)
        model.callback = None

    whole_fit = HDSL.fit
    monkeypatch.setattr(HDSL, "fit", fit)
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.parametrize("choice", [(), ("--validation", "0")])
def test_ctrl_c_saves_the_model_so_far(place, tmp_path, interrupt_at_5, choice):
    out = tmp_path / "m.hdsl"
    ended = hdsl("fit", place / "texts.csv", *LABELLED, "--tol", "0", "-o", out, *choice)
    assert ended.exit_code == 130, ended.output
    model = load_scored(out).model
    assert model.status_ == "interrupted"
    assert ended.stderr == (
        f"hdsl: interrupted after {model.n_iter_} iterations: the model so far is in {out}.\n"
    )
    assert "Strongest pairs" in ended.stdout
    assert load_collection(out).n_rows == 90


def test_ctrl_c_before_there_is_a_model(place, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(inputs, "read_data", interrupt)
    command = ("fit", place / "texts.csv", *LABELLED, "-o", tmp_path / "m.hdsl")
    assert bad(*command, code=130) == "hdsl: interrupted.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="no such shell there")
def test_exit_codes_of_a_process(tmp_path):
    commands = {
        "info": (0, ""),
        "info >&-": (0, ""),
        "fit nowhere.csv": (2, "hdsl: There is no file nowhere.csv.\n"),
    }
    if Path("/dev/full").exists():
        commands["info >/dev/full"] = (2, "hdsl: No space left on device.\n")
    for command, wanted in commands.items():
        ended = subprocess.run(
            ["sh", "-c", f'"$0" -m hdsl {command}', sys.executable],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == wanted, command


@pytest.mark.skipif(os.name == "nt", reason="no such pipes there")
def test_a_closed_pipe_is_quiet():
    read, write = os.pipe()
    os.close(read)  # as `| head -0` does
    ended = subprocess.run(
        [sys.executable, "-m", "hdsl", "info"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def test_progress_shows_in_a_terminal_only(monkeypatch, capsys):
    model = HDSL(n_targets=1, n_impostors=1, max_iter=3, tol=0.0)
    X = sp.csr_array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    data = inputs.Data(Path("rows"), X, labels=np.array([0, 0, 1, 1]))
    options = {"test": 0.0, "validation": 0.0, "tfidf": False}
    learn.learn(data, model, **options)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    learn.learn(data, model, quiet=True, **options)
    assert capsys.readouterr().err == ""
    learn.learn(data, model, **options)
    with shell.working("reading"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("learning:\n\r[..........] 0/3 ")
    assert model.verbose == 0


# --- the split and the demonstration -------------------------------------------------------------


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
    assert facts["error"]["learned"] < 0.75 * facts["error"]["cosine"]
    assert facts["comparison"]["verdict"] == "better"
    assert facts["known item"]["learned"]["mrr"] > 0.5
    assert page.stat().st_size > 50_000
    hits = facts["neighbours"]
    assert len(hits) == 3
    assert any(" ~ " in why["name"] for hit in hits for why in hit["why"])  # learned pairs at work
    assert any(hit["rank by cosine"] > 3 for hit in hits)
    assert load_collection(model).n_rows == facts["rows"]
