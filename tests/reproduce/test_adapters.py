"""The experiment on sentence models, on small sets with vectors from a file."""

import gzip
import importlib.util
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from reproduce import adapters, contrastive
from reproduce.command import main
from reproduce.settings import Settings

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

WORDS = {"red": "apple rose brick", "blue": "sky sea ink"}


@pytest.fixture
def folders(tmp_path):
    """A set of texts with labels, one of judged queries, and vectors of both."""
    rng = np.random.default_rng(0)
    data = tmp_path / "data"
    out = tmp_path / "out"
    (data / "colours").mkdir(parents=True)
    (data / "judged").mkdir()
    (out / "embeddings").mkdir(parents=True)
    y = np.arange(80) % 2
    labels = np.array([*WORDS])[y]
    lines = [
        {"text": " ".join(rng.choice(WORDS[label].split(), 2)), "label": label}
        for label in labels
    ]
    write_lines(data / "colours" / "sentences.jsonl.gz", lines)
    documents = [{"id": k, "text": lines[k]["text"]} for k in range(40)]
    write_lines(data / "judged" / "documents.jsonl.gz", documents)
    queries = [{"id": k, "text": lines[40 + k]["text"]} for k in range(20)]
    (data / "judged" / "queries.jsonl").write_text(
        "\n".join(map(json.dumps, queries)), encoding="utf-8"
    )
    qrels = [
        f"{query}\t{document}"
        for query in range(20)
        for document in range(40)
        if y[document] == y[40 + query]
    ]
    (data / "judged" / "qrels.tsv").write_text("\n".join(qrels), encoding="utf-8")
    vectors = (rng.normal(size=(80, 6)) + y[:, None]).astype(np.float32)
    np.save(out / "embeddings" / "colours-minilm.npy", vectors)
    np.save(out / "embeddings" / "judged-minilm.npy", vectors[:60])
    return data, out


def write_lines(path, lines):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_all_methods_run_and_have_a_line(folders, monkeypatch, capsys):
    monkeypatch.setattr(contrastive, "reason_why_not", lambda settings: "No card.")
    data, out = folders
    options = ["--sets", "colours", "judged", "--data", str(data), "--out", str(out)]
    assert main(["adapters", *options, "--jobs", "1", "--quick"]) == 0
    page = capsys.readouterr().out
    for method, label in adapters.METHODS.items():
        is_trained = method in ("map", "tuned", "words_tuned")
        assert (f"| {label} |" in page) == (not is_trained)
    for label in adapters.SEARCHES.values():
        assert f"| {label} |" in page
    assert "No card." in page


def test_smaller_sizes_are_parts_of_larger_ones():
    y = np.arange(400) % 2
    few, more, every = (adapters.split_of(y, 0, n) for n in (10, 100, None))
    assert len(few.labelled) == 20
    assert set(few.labelled) < set(more.labelled) < set(every.labelled)
    assert not set(every.labelled) & set(few.test)


def test_an_adapter_of_queries_learns_a_turn():
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(60, 4))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    turned = documents[:, [1, 2, 3, 0]]
    relevant = [{k} for k in range(50)]
    mapped = adapters.adapter(turned[:50], documents, relevant)(turned[50:])
    assert ((mapped @ documents.T).argmax(axis=1) == np.arange(50, 60)).mean() > 0.8


@needs_torch
def test_a_map_brings_classes_together():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    Z = rng.normal(size=(60, 5)) * [1, 3, 3, 3, 3] + np.outer(y, [2, 0, 0, 0, 0])
    mapped = contrastive.linear_map(Z.astype(np.float32), y)(Z)
    unit = mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
    same = (unit @ unit.T)[y[:, None] == y].mean()
    assert same > (unit @ unit.T)[y[:, None] != y].mean() + 0.2


def test_a_rotation_keeps_what_no_row_has():
    rng = np.random.default_rng(0)
    A = np.zeros((30, 6))
    A[:, :3] = rng.normal(size=(30, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    B = A.copy()
    B[:, :3] = A[:, :3] @ turn
    R = contrastive.rotation(10 * A, 10 * B)
    assert_allclose(R @ R.T, np.eye(6), atol=1e-12)
    assert_allclose(R[3:, 3:], np.eye(3), atol=1e-12)


def test_settings_name_the_sets_to_run(folders):
    data, out = folders
    settings = Settings(out, data, sets=("colours",))
    assert {cell["set"] for cell in adapters.cells(settings)} == {"colours"}
    assert adapters.known_sets(Settings(out, data)) == [
        adapters.DOCSTRINGS,
        "colours",
        "judged",
    ]
