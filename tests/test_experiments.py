"""The experiments that are commands: they run, say what they did, and go on where they stopped."""

import json
from pathlib import Path

import pytest

from hdsl.experiments import judgements, knn

DATA = Path(__file__).parents[2] / "shared" / "data"

needs = pytest.mark.skipif(
    not (DATA / "dexter").is_dir(), reason="needs dexter and lee50_human in ../shared/data"
)


@needs
def test_knn_and_again(tmp_path, capsys):
    out = tmp_path / "lines.jsonl"
    command = ["dexter", "--data", str(DATA), "--out", str(out), "--jobs", "1"]
    command += ["--iterations", "12", "--scales", "100", "--priors", "1"]
    assert knn.main(command) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    errors = {line["method"]: line["valid"] for line in lines}
    assert errors["dot"] == pytest.approx(0.19)
    assert errors["HDSL, prior tuned"] < errors["dot"]
    assert {"HDSL, auto", "HDSL, prior 0, folds", "HDSL, prior tuned, folds"} <= errors.keys()
    assert "| dexter | dot | 19.00 | – |" in capsys.readouterr().out
    before = out.read_bytes()
    assert knn.main(command) == 0  # every line is there
    assert out.read_bytes() == before
    assert "[1/" not in capsys.readouterr().out


def test_knn_without_the_files(tmp_path, capsys):
    assert knn.main(["dexter", "--data", str(tmp_path), "--out", str(tmp_path / "out.jsonl")]) == 0
    assert "dexter left out" in capsys.readouterr().err


def test_knn_on_a_set_that_is_none(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        knn.main(["dextre", "--data", str(tmp_path)])
    assert "no set 'dextre': choose from dorothea" in capsys.readouterr().err


@needs
@pytest.mark.slow
def test_judgements(capsys):
    assert judgements.main(["--data", str(DATA), "--repeats", "1", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("repeat 0: cosine 0.") == 5
    assert "mean of 5 folds: TF-IDF cosine 0.711" in out
