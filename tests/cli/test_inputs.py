"""The data that `hdsl fit` reads: matrices, tables, labels and judgements."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer

from commands import (
    COLUMNS,
    LABELLED,
    bad,
    cosines,
    good,
    judged_triplets,
    rows_and_labels,
    texts,
    told,
    write_csv,
)
from hdsl import load
from hdsl.text import TEST


@pytest.mark.parametrize("kind", ["svm", "npz"])
def test_fit_rows(tmp_path, kind):
    X, y = rows_and_labels()
    path = tmp_path / f"rows.{kind}"
    out = tmp_path / "m.hdsl"
    options = []
    if kind == "svm":
        dump_svmlight_file(sp.csr_matrix(X), y, str(path), zero_based=False)
    else:
        sp.save_npz(path, X)
        np.save(tmp_path / "y.npy", y)
        options = ["--labels", tmp_path / "y.npy"]
    result = good("fit", path, *options, "--max-iter", 9, "-o", out)
    assert "60 rows with 3 labels, 12 features" in result.stdout
    assert "--no-tfidf" in result.stderr  # counts are weighted, and it is said
    documents = load(out).documents
    known = TfidfTransformer(sublinear_tf=True, norm=None).fit(X[~documents.is_new])
    X = sp.csr_array(known.transform(X))
    assert_allclose(documents.X.toarray(), X.toarray())
    result = good("evaluate", out, path, *options)
    assert "60 of 60 rows are in the model already" in result.stderr
    hit = told("search", out, "--row", 0, "-k", 1)["neighbours"][0]
    assert hit["similarity"] == pytest.approx(cosines(out, X[[0]], X[1:]).max())


@pytest.mark.parametrize("kind", ["svm", "npz"])
@pytest.mark.parametrize("form", ["txt", "npy"])
def test_columns_of_a_matrix_may_have_names(tmp_path, kind, form):
    X, y = rows_and_labels()
    path = tmp_path / f"rows.{kind}"
    np.save(tmp_path / "y.npy", y)
    names = [f"a name {k}" for k in range(12)]
    if kind == "svm":
        dump_svmlight_file(sp.csr_matrix(X), y, str(path), zero_based=False)
        names += ["an empty column"]
    else:
        sp.save_npz(path, X)
    file = tmp_path / f"names.{form}"
    if form == "npy":
        np.save(file, names)
    else:
        file.write_text("\n".join(names) + "\n", encoding="utf-8")
    out = tmp_path / "m.hdsl"
    command = ["fit", path, "--labels", tmp_path / "y.npy", "--max-iter", 5, "-o", out]
    facts = told(*command, "--feature-names", file)
    pairs = " ".join(pair["name"] for pair in facts["strongest pairs"])
    assert "a name" in pairs
    assert "x1" not in pairs
    assert load(out).feature_names.tolist() == names
    why = told("search", out, "--row", 0, "-k", 1)["neighbours"][0]["why"]
    assert "name" in why[0]["name"]
    assert "a name" in good("explain", out, "--x", 0, "--y", 3).stdout
    good(*command, "--feature-names", file, "--no-documents")
    assert load(out).feature_names.tolist() == names
    file = tmp_path / "few.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    assert "has 2 names, but" in bad(*command, "--feature-names", file)
    file.write_text("one\n\ntwo\n", encoding="utf-8")
    assert "few.txt, line 2" in bad(*command, "--feature-names", file)
    file = tmp_path / "bytes.npy"
    np.save(file, np.array([b"\xff"] * 12))
    assert "bytes.npy holds bytes" in bad(*command, "--feature-names", file)
    assert "bytes.npy holds bytes" in bad("fit", path, "--labels", file)


def test_names_of_words_are_refused(folder, tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("one\n", encoding="utf-8")
    table = folder / "texts.csv"
    message = bad("fit", table, *LABELLED, "--feature-names", file)
    assert "columns of a matrix" in message


def test_counts_can_be_left_as_they_are(rows_file, tmp_path):
    np.save(tmp_path / "y.npy", rows_and_labels()[1])
    command = ["fit", rows_file, "--labels", tmp_path / "y.npy", "--max-iter", 5]
    out = tmp_path / "m.hdsl"
    result = good(
        *command, "--no-tfidf", "--norm", "none", "--no-class-scores", "-o", out
    )
    assert "TF-IDF" not in result.stderr
    assert (rows_and_labels()[0] != load(out).documents.X).nnz == 0
    assert load(out).model.norm is None
    ones = sp.csr_array((rows_and_labels()[0] > 0).astype(float))
    sp.save_npz(rows_file, ones)  # 0 and 1 are no counts unless asked for
    assert "TF-IDF" not in good(*command, "-o", out).stderr
    good(*command, "--tfidf", "--no-documents", "-o", out)
    assert load(out).documents.idf.shape == (12,)


# --- judgements -----------------------------------------------------------------------


def test_fit_triplets(rows_file, tmp_path):
    T = judged_triplets()
    path = write_csv(tmp_path / "T.csv", T.tolist(), COLUMNS["triplets"])
    out = tmp_path / "m.hdsl"
    facts = told("fit", rows_file, "--triplets", path, "-o", out)
    parts = load(out).documents.part
    assert facts["measured on"] == (parts[T[:, 0]] == TEST).sum()
    assert facts["triplets"] == (parts[T] != TEST).all(axis=1).sum()
    assert facts["class scores"] == 0
    assert facts["error"]["learned"] < facts["error"]["cosine"]
    shown = told("evaluate", out)  # on the judgements held out
    assert (shown["n"], shown["error"]) == (facts["measured on"], facts["error"])
    result = good("evaluate", out, rows_file, "--triplets", path)
    assert f"{len(T):,} judgements, not all held out" in result.stdout
    assert "were learned from, so the errors are too low" in result.stderr


def written(kind):
    """Return rows of a table of judgements that follow the topics of the texts, and its header."""
    ends = {
        "links": ("left", "right"),
        "clicks": ("anchor", "document"),
        "grades": ("query", "document"),
    }[kind]
    judged = {"links": "same", "clicks": "clicked", "grades": "grade"}[kind]
    pairs = [(a, b) for a in range(60) for b in range(a + 1, a + 7)]
    return [(f"d{a}", f"d{b}", int(a % 3 == b % 3)) for a, b in pairs], (*ends, judged)


@pytest.mark.parametrize("kind", ["clicks", "grades", "links"])
def test_clicks_grades_and_links_are_learned_from(folder, tmp_path, kind):
    path = write_csv(tmp_path / "J.csv", *written(kind))
    out = tmp_path / "m.hdsl"
    command = [
        "fit",
        folder / "texts.csv",
        "--text",
        "body",
        "--id",
        "id",
        f"--{kind}",
        path,
    ]
    facts = told(*command, "--max-iter", 5, "--test", 0.3, "-o", out)
    assert facts["triplets"] > 100
    assert facts["error"]["learned"] < facts["error"]["cosine"]
    rows, header = written(kind)
    write_csv(path, rows, ("wrong", *header[1:]))
    missing = "left" if kind == "links" else "query"
    assert f"no column {missing!r}." in bad(*command, "-o", tmp_path / "n.hdsl")


def test_links_alone_are_compared_with_random_rows(folder, tmp_path):
    alike = [row[:2] for row in written("links")[0] if row[2]]
    path = write_csv(tmp_path / "L.csv", alike, ("left", "right"))
    command = [
        "fit",
        folder / "texts.csv",
        "--text",
        "body",
        "--id",
        "id",
        "--links",
        path,
    ]
    result = good(
        *command,
        "--prior",
        4,
        "--max-iter",
        5,
        "--test",
        0.3,
        "-o",
        tmp_path / "m.hdsl",
        "--json",
    )
    assert "random" in result.stderr
    facts = json.loads(result.stdout)
    assert facts["triplets"] > 100
    assert facts["error"]["learned"] < facts["error"]["cosine"]


@pytest.mark.parametrize("kind", ["triplets", "quadruplets"])
def test_judgements_by_id(folder, tmp_path, kind):
    ids = [f"d{k % 90}" for k in range(99)]
    judged = [(ids[k], ids[k + 3], ids[k], ids[k + 1]) for k in range(90)] * 2
    judged = [row[:2] + row[3:] for row in judged] if kind == "triplets" else judged
    path = write_csv(tmp_path / "judged.csv", judged, COLUMNS[kind])
    command = [
        "fit",
        folder / "texts.csv",
        "--text",
        "body",
        "--id",
        "id",
        f"--{kind}",
        path,
    ]
    facts = told(*command, "--test", 0, "--max-iter", 5, "-o", tmp_path / "m.hdsl")
    assert facts["triplets"] == 180


def test_quadruplets_are_split_by_pair(tmp_path):
    """A quadruplet measures if each of its pairs has a new row, and trains if none has."""
    rng = np.random.default_rng(0)
    out = tmp_path / "m.hdsl"
    Q = rng.integers(60, size=(3000, 4))
    Q = Q[(Q[:, 0] != Q[:, 1]) & (Q[:, 2] != Q[:, 3])]
    sp.save_npz(tmp_path / "X.npz", rows_and_labels()[0])
    np.save(tmp_path / "Q.npy", Q)
    command = [
        "fit",
        tmp_path / "X.npz",
        "--quadruplets",
        tmp_path / "Q.npy",
        "--max-iter",
        2,
    ]
    facts = told(*command, "--prior", 1, "-o", out)
    documents = load(out).documents
    is_new = documents.part[Q] == TEST
    measured = Q[is_new[:, :2].any(axis=1) & is_new[:, 2:].any(axis=1)]
    assert_array_equal(documents.judgements, measured)
    assert facts["triplets"] == (~is_new.any(axis=1)).sum()


# --- tables ---------------------------------------------------------------------------


def test_tables_of_other_kinds(tmp_path):
    """Another separator and encoding, rows without a value, and ids that search returns."""
    rows = [(a, b, f"{c} für") for a, b, c in texts()]
    rows[5] = (rows[5][0], "", rows[5][2])
    rows[9] = (rows[9][0], rows[9][1], "")
    path = tmp_path / "t.csv"
    out = tmp_path / "m.hdsl"
    lines = [";".join(row) for row in [("id", "topic", "body"), *rows]]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    options = ["--sep", ";", "--encoding", "latin-1", "--skip-missing", "--id", "id"]
    shown = good("fit", path, *LABELLED, *options, "--max-iter", 5, "-o", out).stdout
    assert "88 documents with 3 labels" in shown
    assert "2 rows without a value skipped" in shown
    documents = load(out).documents
    assert documents.ids.tolist() == [
        name for name, topic, body in rows if topic and body
    ]
    assert documents.texts[0].endswith(" für")
    (hit,) = told("search", out, "goal", "-k", 1)["neighbours"]
    assert hit["id"] == documents.ids[hit["row"]]
    assert (
        "88 rows, not all held out" in good("evaluate", out, path, *options[:5]).stdout
    )


def test_rows_keep_their_numbers_where_some_are_left_out(tmp_path):
    rows = texts()
    for row in (0, 7):
        rows[row] = (*rows[row][:2], "")
    path = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    good("fit", path, *LABELLED, "--skip-missing", "--max-iter", 5, "-o", out)
    collection = load(out)
    for row in (1, 6, 8, 89):
        assert (
            collection.documents.texts[collection.row_number(str(row))] == rows[row][2]
        )
    for row in (0, 7, 90):
        assert "no document" in bad("search", out, "--row", row)


def test_labels_are_cleaned_with_a_word(tmp_path):
    rows = [(a, f" {b} " if k < 5 else b, c) for k, (a, b, c) in enumerate(texts())]
    rows += [("x", "Sport", "goal keeper"), ("y", "NA", "goal"), ("z", "  ", "match")]
    path = write_csv(tmp_path / "t.csv", rows)
    out = tmp_path / "m.hdsl"
    command = ["fit", path, *LABELLED, "--max-iter", 5, "-o", out]
    message = bad(*command)
    assert "line 93" in message  # the first row without a label
    assert "'NA'" in message
    assert "--skip-missing" in message
    result = good(*command, "--skip-missing")
    assert "spaces around" in result.stderr
    assert "'Sport' and 'sport'" in result.stderr
    assert "2 rows without a value skipped" in result.stdout
    labels = load(out).documents.labels.tolist()
    assert sorted(set(labels)) == ["Sport", "garden", "money", "sport"]


def test_ids_that_occur_twice_are_refused_with_the_line(tmp_path):
    path = write_csv(tmp_path / "t.csv", [*texts(), ("d3", "sport", "goal")])
    message = bad("fit", path, *LABELLED, "--id", "id", "-o", tmp_path / "m.hdsl")
    assert "line 92" in message
    assert "'d3'" in message


def test_numbers_that_are_names(tmp_path):
    """Labels of more digits than a float has, ids after a missing value, ids with zeros before."""
    out = tmp_path / "m.hdsl"
    few = ["--prior", 1, "--no-class-scores", "--max-iter", 2]
    lines = [f"{2**53 + k % 3} {k % 3 + 1}:1 {k % 7 + 4}:1\n" for k in range(60)]
    (tmp_path / "x.svm").write_text("".join(lines), encoding="utf-8")
    assert "3 labels" in good("fit", tmp_path / "x.svm", *few, "-o", out).stdout
    records = [
        {"id": float(k), "topic": t, "body": b} for k, (_, t, b) in enumerate(texts())
    ]
    table = tmp_path / "x.jsonl"
    table.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    good("fit", table, *LABELLED, "--id", "id", *few, "-o", out)
    assert load(out).row_number("1") == 1
    table = write_csv(
        tmp_path / "x.csv", [(f"{k:05}", *row[1:]) for k, row in enumerate(texts())]
    )
    header = "anchor", "positive", "negative"
    judged = write_csv(tmp_path / "t.csv", [("00003", "00006", "00001")] * 9, header)
    message = bad("fit", table, "--text", "body", "--triplets", judged, *few, "-o", out)
    assert "--id" in message


def test_labels_of_a_file_are_one_per_row_and_of_one_place(rows_file, tmp_path):
    out = tmp_path / "m.hdsl"
    y = rows_and_labels()[1]
    np.save(tmp_path / "y.npy", y.astype("S"))
    options = ["--prior", 1, "--max-iter", 2, "--no-class-scores", "-o", out]
    assert (
        "3 labels"
        in good("fit", rows_file, "--labels", tmp_path / "y.npy", *options).stdout
    )
    np.save(tmp_path / "f.npy", y.astype(float))  # 0.0 is the label 0
    good("evaluate", out, rows_file, "--labels", tmp_path / "f.npy")
    (tmp_path / "y.txt").write_text("\n\n".join(map(str, y)), encoding="utf-8")
    assert "line 2" in bad("fit", rows_file, "--labels", tmp_path / "y.txt", *options)
    table = write_csv(tmp_path / "x.csv", texts())
    both = [*LABELLED, "--labels", tmp_path / "y.npy"]
    assert "--labels" in bad("fit", table, *both, *options)
    assert "model" in bad("report", out, "-o", tmp_path / "other.hdsl")
