"""The command: cells are computed once, and pages written; what it says where it cannot run."""

import json
from types import SimpleNamespace

import pytest

from reproduce import command, experiments, runner
from reproduce.results import Results, Table


class Squares:
    """An experiment of five cells, and a sixth that depends on the first."""

    TITLE = "Squares"

    def __init__(self):
        self.computed = []

    def cells(self, settings):
        known = runner.read(settings, "squares")
        more = [{"n": known['{"n": 0}']["square"] + 10}] if '{"n": 0}' in known else []
        return [{"n": n} for n in range(5)] + more

    def compute(self, settings, cell):
        self.computed.append(cell["n"])
        if cell["n"] == getattr(self, "stop_at", None):
            raise KeyboardInterrupt
        return {"square": cell["n"] ** 2}

    def publish(self, settings, lines):
        rows = [[str(line["cell"]["n"]), str(line["square"])] for line in lines]

        def draw(figure):
            figure.subplots().plot([line["square"] for line in lines])

        return Results(
            [Table("squares", ["n", "square, of n"], rows, ["A note."])], {"line": draw}
        )


@pytest.fixture
def squares(monkeypatch):
    experiment = Squares()
    monkeypatch.setattr(experiments, "NAMES", ("squares",))
    monkeypatch.setattr(experiments, "load", lambda name: experiment)
    return experiment


def run(tmp_path, *more):
    return command.main(["squares", "--out", str(tmp_path), "--jobs", "1", *more])


def test_cells_are_computed_once_and_published(squares, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert run(tmp_path) == 0
    assert squares.computed == [0, 1, 2, 3, 4, 10]
    table = (tmp_path / "squares-squares.csv").read_text().splitlines()
    assert table[:3] == ['n,"square, of n"', "0,0", "1,1"]
    page = (tmp_path / "squares.md").read_text()
    assert page.startswith(
        "# Squares\n\n| n | square, of n |\n| --- | --- |\n| 0 | 0 |"
    )
    assert "A note." in page
    assert "(squares-line.png)" in page
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before["squares-line.png"].startswith(b"\x89PNG")
    assert b"<svg" in before["squares-line.svg"]
    assert run(tmp_path) == 0
    assert squares.computed == [0, 1, 2, 3, 4, 10]  # nothing new
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "| 10 | 100 |" in capsys.readouterr().out


def test_an_interrupted_run_continues_where_it_was(squares, tmp_path, capsys):
    squares.stop_at = 2
    assert run(tmp_path) == 130
    assert "squares.jsonl" in capsys.readouterr().err
    del squares.stop_at
    assert run(tmp_path) == 0
    assert squares.computed == [0, 1, 2, 2, 3, 4, 10]
    lines = tmp_path / "squares.jsonl"  # and a line cut short is computed again
    lines.write_text(lines.read_text()[:-9])
    squares.computed.clear()
    assert run(tmp_path) == 0
    assert squares.computed == [10]
    assert json.loads(lines.read_text().splitlines()[-1])["square"] == 100


def test_quick_and_full_results_do_not_mix(squares, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(["all", "--quick", "--jobs", "1"]) == 0
    quick = tmp_path / "results" / "quick"
    assert "quick" in (quick / "squares.md").read_text()
    (quick / "squares.jsonl").unlink()
    assert run(quick) == 2
    assert "--out" in capsys.readouterr().err
    assert not (quick / "squares.jsonl").exists()


def test_wrong_arguments_exit_with_a_message(capsys):
    for arguments, word in (
        (["square"], "recovery"),
        (["knn", "--jobs", "0"], "--jobs"),
    ):
        with pytest.raises(SystemExit, match="2"):
            command.main(arguments)
        assert word in capsys.readouterr().err


def test_help_names_every_experiment_and_each_loads(capsys):
    with pytest.raises(SystemExit, match="0"):
        command.main(["--help"])
    said = capsys.readouterr().out
    for name in experiments.NAMES:
        assert name in said
        assert experiments.load(name).TITLE


def test_experiments_without_their_files_are_left_out(tmp_path, capsys):
    names = ("knn", "svm", "judgements", "cisi", "published")
    assert command.main([*names, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in names)
    assert "--data" in said
    assert command.main(["knn", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "dexter" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_fit_is_no_result():
    assert runner.finished(SimpleNamespace(status_="max_iter")).status_ == "max_iter"
    with pytest.raises(KeyboardInterrupt):
        runner.finished(SimpleNamespace(status_="interrupted"))
