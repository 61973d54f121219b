"""The runner of experiments, the 3-NN table and the judgements."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from reproduce import cisi, judgements, knn, reproduce, runner
from reproduce.results import Results, Table
from reproduce.runner import Settings
from reproduce.sets import MissingDataError

DATA = Path(__file__).parents[2] / "shared" / "data"

needs = pytest.mark.skipif(
    not (DATA / "dexter").is_dir(), reason="needs dexter and lee50_human in ../shared/data"
)


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

        return Results([Table("squares", ["n", "square, of n"], rows, ["A note."])], {"line": draw})


@pytest.fixture
def squares(monkeypatch):
    experiment = Squares()
    monkeypatch.setattr(reproduce, "NAMES", ("squares",))
    monkeypatch.setattr(reproduce, "load", lambda name: experiment)
    return experiment


def run(tmp_path, *more):
    return reproduce.main(["squares", "--out", str(tmp_path), "--jobs", "1", *more])


def test_cells_are_computed_once_and_published(squares, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert run(tmp_path) == 0
    assert squares.computed == [0, 1, 2, 3, 4, 10]
    assert (tmp_path / "squares-squares.csv").read_text().splitlines()[:3] == [
        'n,"square, of n"', "0,0", "1,1",
    ]  # fmt: skip
    page = (tmp_path / "squares.md").read_text()
    assert page.startswith("# Squares\n\n| n | square, of n |\n| --- | --- |\n| 0 | 0 |")
    assert "A note." in page
    assert "(squares-line.png)" in page
    assert (tmp_path / "squares-line.png").read_bytes().startswith(b"\x89PNG")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "<svg" in before["squares-line.svg"].decode()
    assert run(tmp_path) == 0
    assert squares.computed == [0, 1, 2, 3, 4, 10]  # nothing new
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "| 10 | 100 |" in capsys.readouterr().out


def test_an_interrupted_run_continues_where_it_was(squares, tmp_path, capsys):
    squares.stop_at = 2
    assert run(tmp_path) == 130
    assert "continues from there" in capsys.readouterr().err
    del squares.stop_at
    assert run(tmp_path) == 0
    assert squares.computed == [0, 1, 2, 2, 3, 4, 10]
    assert "squares: 6/6 cells" in capsys.readouterr().err
    lines = tmp_path / "squares.jsonl"  # and a line cut short is computed again
    lines.write_text(lines.read_text()[:-9])
    squares.computed.clear()
    assert run(tmp_path) == 0
    assert squares.computed == [10]
    assert [json.loads(text)["square"] for text in lines.read_text().splitlines()[-1:]] == [100]


def test_quick_and_full_results_do_not_mix(squares, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reproduce.main(["all", "--quick", "--jobs", "1"]) == 0
    quick = tmp_path / "results" / "quick"
    assert "A quick version" in (quick / "squares.md").read_text()
    (quick / "squares.jsonl").unlink()
    assert run(quick) == 2
    assert "has results of quick size, and these would be full" in capsys.readouterr().err
    assert not (quick / "squares.jsonl").exists()
    assert run(quick, "--quick") == 0


def test_wrong_arguments_exit_with_a_message(capsys):
    for arguments, message in (
        (["square"], "no experiment 'square': choose from all, recovery"),
        (["knn", "--jobs", "0"], "--jobs must be 1 or more. Got 0"),
    ):
        with pytest.raises(SystemExit, match="2"):
            reproduce.main(arguments)
        assert message in capsys.readouterr().err


def test_experiments_without_their_files_are_left_out(tmp_path, capsys):
    assert reproduce.main(["knn", "judgements", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "knn is left out: it needs the real sets dexter, dorothea" in message
    assert "judgements is left out: it needs lee50_human" in message
    assert reproduce.main(["knn", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "dexter is not there: looked for X_train.npz" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_fit_is_no_result():
    assert runner.finished(SimpleNamespace(status_="max_iter")).status_ == "max_iter"
    with pytest.raises(KeyboardInterrupt):
        runner.finished(SimpleNamespace(status_="interrupted"))


# --- the table of errors -------------------------------------------------------------------------


def line(valid, test=0.0, curve=None, **cell):
    more = {"curve": curve} if curve else {}
    return {"cell": {"set": "s", "method": "hdsl", "draw": 0, **cell}, "valid": valid,
            "test": test, **more}  # fmt: skip


def test_validation_errors_alone_choose():
    lines = [line(0.2, 0.0, scale=1.0), line(0.1, 0.9, scale=10.0), line(0.1, 0.0, scale=100.0)]
    assert knn.chosen(lines)["cell"]["scale"] == 10.0


def test_folds_choose_the_value_and_the_iteration():
    lines = [
        line(0.02, curve=[[0, 0.4], [10, 0.3], [20, 0.02]], scale=1.0),
        line(0.10, curve=[[0, 0.5], [10, 0.2], [20, 0.1]], scale=10.0),
        # Of the first, folds find iteration 10 best (0.25); of the second 20 (0.15).
        line(0.2, curve=[[0, 0.4], [10, 0.2], [20, 0.6]], scale=1.0, fold=0),
        line(0.3, curve=[[0, 0.4], [10, 0.3], [20, 0.6]], scale=1.0, fold=1),
        line(0.1, curve=[[0, 0.4], [10, 0.4], [20, 0.1]], scale=10.0, fold=0),
        line(0.2, curve=[[0, 0.4], [10, 0.2]], scale=10.0, fold=1),  # ended early
    ]
    best, error = knn.chosen_by_folds(lines)
    assert best["cell"]["scale"] == 10.0
    assert error == 0.1


def test_folds_choose_among_lines_without_a_curve():
    lines = [line(0.3, alpha=1.0), line(0.2, alpha=2.0), line(0.1, alpha=1.0, fold=0),
             line(0.4, alpha=2.0, fold=0)]  # fmt: skip
    best, error = knn.chosen_by_folds(lines)
    assert (best["cell"]["alpha"], error) == (1.0, 0.3)


@needs
def test_knn_table_at_small_size(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(knn.sets, "PAPER", ("dexter",))
    command = ["knn", "--quick", "--data", str(DATA), "--out", str(tmp_path), "--jobs", "1"]
    assert reproduce.main(command) == 0
    settings = Settings(tmp_path, DATA, 1, quick=True)
    lines = runner.run("knn", knn, settings)
    by = {(ln["cell"]["set"], ln["cell"]["method"]): ln for ln in lines if "fold" not in ln["cell"]}
    assert by["dexter", "dot"]["valid"] == pytest.approx(0.19, abs=0.03)  # 200 of 300 rows
    assert by["dexter", "hdsl_prior"]["valid"] < by["dexter", "dot"]["valid"]
    draws = [ln for ln in lines if ln["cell"]["method"] == "hdsl" and ln["cell"].get("draw")]
    assert {ln["cell"]["set"] for ln in draws} == {"dexter", "bace_ecfp6"}
    page = capsys.readouterr().out
    assert "| dexter | valid |" in page
    assert "|  | valid, by folds | – |" in page
    assert "| paper, test | 20.1 |" in page
    model = knn.chosen_model(settings, "dexter")
    first = {"set": "dexter", "method": "hdsl", "draw": 0}.items()
    best = knn.chosen(
        [ln for ln in lines if first <= ln["cell"].items() and "fold" not in ln["cell"]]
    )
    assert model.n_iter_ == best["n_iter"]
    assert model.scale_ == best["cell"]["scale"]


@needs
def test_judgements_at_small_size(tmp_path):
    settings = Settings(tmp_path, DATA, 1, quick=True)
    lines = runner.run("judgements", judgements, settings)
    assert len(lines) == 5
    note = judgements.publish(settings, lines).tables[0].notes[0]
    assert "Mean of 5 folds: TF-IDF cosine 0.711" in note


def test_search_continues_from_the_grid_while_the_error_falls(monkeypatch):
    first = {"set": "made", "method": "hdsl_prior", "scale": 1.5, "prior": 0.3, "draw": 0}
    monkeypatch.setattr(knn, "method_cells", lambda *_: [first, {**first, "prior": 1.0}])
    known = {}

    def ahead():
        return knn.nearby(None, "made", known)

    def learn(cells):
        for cell in cells:
            apart = np.log2(cell["scale"] / 6.0), np.log2(cell["prior"] / 2.0)
            known[runner.key(cell)] = {"cell": cell, "valid": float(np.hypot(*apart))}

    assert ahead() == []  # the grid is not computed yet
    learn(knn.method_cells())
    tried = []
    while len(ahead()) > len(tried):
        tried = ahead()
        learn(tried)
    best = knn.chosen(list(known.values()))["cell"]
    assert (best["scale"], best["prior"], best["iterations"]) == (6.0, 2.0, 2000)
    assert 8 <= len(tried) <= knn.MOST_NEAR + 3
    assert len({runner.key(cell) for cell in tried}) == len(tried)


# --- judged queries ------------------------------------------------------------------------------


@pytest.fixture
def judged(tmp_path):
    """A folder with a small collection: a query word stands for another word of its topic."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "cisi"
    folder.mkdir(parents=True)
    noise = [f"n{k}a" for k in range(30)]
    documents = [
        {"id": k, "text": " ".join([f"topic{k % 4}b", *rng.choice(noise, 6)])} for k in range(80)
    ]
    queries = [
        {"id": k, "text": " ".join([f"asked{k % 4}b", *rng.choice(noise, 4)])} for k in range(40)
    ]
    documents += [{"id": 80 + k, "text": f"asked{k % 4}b {noise[0]}"} for k in range(8)]
    with gzip.open(folder / "documents.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))
    pairs = [(q, d) for q in range(39) for d in range(80) if q % 4 == d % 4]
    (folder / "qrels.tsv").write_text("".join(f"{q}\t{d}\n" for q, d in pairs))
    return tmp_path / "data"


def test_judged_queries_gain_where_words_stand_for_others(judged, tmp_path):
    settings = Settings(tmp_path, judged, 1, quick=True)
    lines = runner.run("cisi", cisi, settings)
    assert sorted(q for line in lines for q in line["queries"]) == list(range(39))
    before, after = cisi.pool(lines)
    gain, low, _ = after.gain(before, "ndcg")
    assert gain > 0.2
    assert low > 0
    results = cisi.publish(settings, lines)
    assert [table.name for table in results.tables] == ["measures", "choices"]
    assert len(results.tables[0].rows) == 3


def test_judged_queries_are_left_as_they_are_without_a_gain(judged):
    collection = cisi.load(judged)
    rng = np.random.default_rng(0)
    random = [set(rng.choice(80, 5, replace=False).tolist()) for _ in collection.relevant]
    collection = collection._replace(relevant=random)
    assert cisi.choose(collection, np.arange(12), ((1.0,), (1.0,), (5,))) is None


def test_judged_queries_need_their_files(tmp_path):
    with pytest.raises(MissingDataError, match=r"it needs cisi \(documents"):
        cisi.cells(Settings(tmp_path, tmp_path))
