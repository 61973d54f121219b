"""The data that `hdsl fit` reads: matrices, tables, labels and judgements."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer

from commands import (
    COLUMNS,
    LABELLED,
    bad,
    cosines,
    good,
    judged_triplets,
    load_scored,
    rows_and_labels,
    texts,
    write_csv,
)
from hdsl import HDSL
from hdsl.cli import inputs, learn
from hdsl.text import TEST, TRAIN, VALIDATION, load_collection


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
    good("export", out, "--to", "jsonl", "-o", tmp_path / "i.jsonl")
    lines = (tmp_path / "i.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["name"] for line in lines] == found.ids.tolist()
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
