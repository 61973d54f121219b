"""The experiments on real sets, at small size on stand-ins for their files."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp

from reproduce import cisi, command, dimension, experiments, knn, runner
from reproduce.settings import Settings

NAMES = ("knn", "features", "sparsity")
MORE = ("svm", "dimension")

# Few rows, runs that end at their limit.
pytestmark = pytest.mark.filterwarnings("ignore")


def rows_of(n, n_features, n_classes, rng):
    """Return rows with 12 random features and one or both of the 2 that belong to their class."""
    y = rng.permutation(np.arange(n) % n_classes)
    places = np.hstack(
        [
            2 * y[:, None] + rng.integers(2, size=(n, 2)),
            rng.integers(2 * n_classes, n_features, size=(n, 12)),
        ]
    )
    values = rng.integers(1, 10, size=places.shape).astype(float)
    rows = np.repeat(np.arange(n), places.shape[1])
    X = sp.coo_array((values.ravel(), (rows, places.ravel())), shape=(n, n_features))
    return X.tocsr(), y


def write_set(folder, n_features, n_classes, parts):
    folder.mkdir()
    rng = np.random.default_rng(len(folder.name))
    for part, n in parts.items():
        X, y = rows_of(n, n_features, n_classes, rng)
        sp.save_npz(folder / f"X_{part}.npz", X)
        np.save(folder / f"y_{part}.npy", y)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Settings whose folder has the results of the paper's experiments, on two sets."""
    out = tmp_path_factory.mktemp("results")
    data = tmp_path_factory.mktemp("data")
    write_set(data / "dexter", 20_000, 2, {"train": 300, "valid": 300})
    write_set(data / "rcv1_4", 300, 4, {"train": 3850, "valid": 2888, "test": 2887})
    run(NAMES, data, out)
    return Settings(out, data, 1, True)


@pytest.fixture(scope="module")
def more(settings):
    """Return the settings, with the results of the other experiments too."""
    run(MORE, settings.data, settings.out)
    return settings


def run(names, data, out):
    arguments = [
        *names,
        "--data",
        str(data),
        "--out",
        str(out),
        "--jobs",
        "1",
        "--quick",
    ]
    assert command.main(arguments) == 0


def lines_of(settings, name):
    known = runner.read(settings, name)
    return [known[runner.key(cell)] for cell in experiments.load(name).cells(settings)]


def table(settings, name, which):
    results = experiments.load(name).publish(settings, lines_of(settings, name))
    return next(table for table in results.tables if table.name == which)


def column(table, head):
    place = list(table.head).index(head)
    return [row[place] for row in table.rows]


# --- what is computed -----------------------------------------------------------------


def test_every_experiment_writes_a_page_and_its_figures(settings):
    pytest.importorskip("matplotlib")
    figures = {"knn": "paths", "features": "iterations", "sparsity": "signs"}
    for name in NAMES:
        page = (settings.out / f"{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {experiments.load(name).TITLE}\n")
        assert "| dexter |" in page
        assert "| rcv1_4 |" in page
        assert (settings.out / f"{name}-{figures[name]}.png").stat().st_size > 5000


def test_features_and_entries_are_those_of_the_chosen_models(settings):
    for line in lines_of(settings, "features"):
        model, last = knn.chosen_model(settings, line["cell"]["set"])
        curve = np.array(line["n_features"])
        assert len(curve) == last.n_iter_ + 1
        assert np.diff(curve).max() <= 2  # an iteration adds one atom at most
        assert curve[line["n_iter"]] == len(np.unique(model.atoms_[:, :2]))
    assert column(table(settings, "features", "final"), "paper") == ["183", "1888"]
    for line in lines_of(settings, "sparsity"):
        M = sp.triu(knn.chosen_model(settings, line["cell"]["set"])[0].matrix())
        drawn = sp.coo_array((line["sign"], (line["row"], line["col"])), shape=M.shape)
        assert (drawn != M.sign()).nnz == 0
    assert column(table(settings, "sparsity", "entries"), "share, paper") == [
        "0.00018 %",
        "0.00059 %",
    ]


def test_errors_stand_beside_the_papers(settings):
    shown = table(settings, "knn", "errors")
    assert column(shown, "")[:3] == ["valid", "valid, by folds", "paper, test"]
    assert column(shown, "DOT")[2] == "20.1"
    prior = float(column(shown, "HDSL with prior")[0].split()[0])
    assert prior < float(column(shown, "DOT")[0])


@pytest.mark.slow
def test_errors_of_classifiers_stand_beside_the_papers(more):
    shown = table(more, "svm", "errors")
    assert column(shown, "set") == ["dexter", "", "", "rcv1_4", ""]
    for head, words in (
        ("linear-ℓ2", "8.9 5.1"),
        ("poly-2", "9.4 5.7"),
        ("poly-3", "9.2 5.7"),
    ):
        errors = column(shown, head)
        assert [errors[2], errors[4]] == words.split()
        assert float(errors[0]) < 25
        assert float(errors[0]) <= float(errors[1])  # chosen by what is reported
    assert column(shown, "HDSL")[4] == "5.7 [1888]"


@pytest.mark.slow
def test_errors_by_dimension_agree_with_those_of_knn(more):
    lines = lines_of(more, "dimension")
    known = runner.read(more, "knn").values()
    assert {line["cell"]["method"] for line in lines} == {
        "hdsl",
        *list(dimension.LABELS)[2:],
    }
    for name, where in (("dexter", "valid"), ("rcv1_4", "test")):
        chosen = [line for line in lines if line["cell"]["set"] == name]
        hdsl = next(line for line in chosen if line["cell"]["method"] == "hdsl")
        wanted = {"set": name, "method": "hdsl", "draw": 0}.items()
        best = knn.chosen(
            [
                ln
                for ln in known
                if wanted <= ln["cell"].items() and "fold" not in ln["cell"]
            ]
        )
        at_best = next(
            point for point in hdsl["path"] if point["n_iter"] == best["n_iter"]
        )
        assert at_best["dimensions"] == hdsl["kept"] <= best["n_atoms"]
        assert at_best[where] == pytest.approx(best[where])
        assert hdsl["components"][-1][where] == at_best[where]
    rows = table(more, "knn", "errors")
    assert "±" in column(rows, "RP+OASIS")[list(column(rows, "")).index("test")]


# --- choices --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "head"), [("svm", "C"), ("dimension", "10")])
def test_validation_errors_alone_choose(more, name, head):
    choices = column(table(more, name, "choices"), head)
    for key in ("test", "valid"):
        lines = [
            {**line, key: 1.0 - line[key]} if key in line else line
            for line in lines_of(more, name)
        ]
        results = experiments.load(name).publish(more, lines)
        assert (column(results.tables[1], head) == choices) == (key != "valid")


def line(valid, test=0.0, curve=None, **cell):
    more = {"curve": curve} if curve else {}
    return {
        "cell": {"set": "s", "method": "hdsl", "draw": 0, **cell},
        "valid": valid,
        "test": test,
        **more,
    }


def test_folds_choose_the_value_and_the_iteration():
    lines = [
        line(0.02, curve=[[0, 0.4], [10, 0.3], [20, 0.02]], scale=1.0),
        line(0.10, curve=[[0, 0.5], [10, 0.2], [20, 0.1]], scale=10.0),
        # Of the first, folds find iteration 10 best (0.25); of the second 20 (0.15).
        line(0.2, curve=[[0, 0.4], [10, 0.2], [20, 0.6]], scale=1.0, fold=0),
        line(0.3, curve=[[0, 0.4], [10, 0.3], [20, 0.6]], scale=1.0, fold=1),
        line(0.1, curve=[[0, 0.4], [10, 0.4], [20, 0.1]], scale=10.0, fold=0),
        line(0.2, curve=[[0, 0.4], [10, 0.2]], scale=10.0, fold=1),
    ]
    best, error = knn.chosen_by_folds(lines)
    assert (best["cell"]["scale"], error) == (10.0, 0.1)
    lines = [
        line(0.3, alpha=1.0),
        line(0.2, alpha=2.0),
        line(0.1, alpha=1.0, fold=0),
        line(0.4, alpha=2.0, fold=0),
    ]
    best, error = knn.chosen_by_folds(lines)
    assert (best["cell"]["alpha"], error) == (1.0, 0.3)


# --- parts ----------------------------------------------------------------------------


# --- judgements -----------------------------------------------------------------------


def test_judgements_of_texts(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "lee50_human"
    folder.mkdir()
    X, y = rows_of(50, 200, 4, rng)
    sp.save_npz(folder / "X.npz", X)
    sp.save_npz(folder / "X_background.npz", rows_of(80, 200, 4, rng)[0])
    drawn = rng.integers(50, size=(3000, 3))
    a, p, q = y[drawn.T]
    np.save(
        folder / "triplets.npy",
        drawn[(a == p) & (a != q) & (drawn[:, 0] != drawn[:, 1])],
    )
    arguments = [
        "judgements",
        "--quick",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
    ]
    assert command.main([*arguments, "--jobs", "1"]) == 0
    lines = runner.read(Settings(tmp_path / "out"), "judgements").values()
    assert len(lines) == 5
    cosine, learned = (
        np.mean([line[name] for line in lines]) for name in ("cosine", "learned")
    )
    assert learned > cosine - 0.02
    assert "Mean of 5 folds" in (tmp_path / "out" / "judgements.md").read_text()


def test_topics_of_texts(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "reuters21578_modapte"
    folder.mkdir()
    for part, n in (("train", 120), ("test", 60)):
        X, y = rows_of(n, 200, 4, rng)
        Y = np.eye(5, dtype=int)[y]
        Y[:, 4] = rng.random(n) < 0.2
        sp.save_npz(folder / f"X_{part}.npz", sp.csr_matrix(X))
        sp.save_npz(folder / f"Y_{part}_topics.npz", sp.csr_matrix(Y))
    arguments = [
        "topics",
        "--quick",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
    ]
    assert command.main([*arguments, "--jobs", "1"]) == 0
    found = runner.read(Settings(tmp_path / "out"), "topics").values()
    scores = {line["cell"]["method"]: line for line in found}
    assert scores["hdsl"]["micro3"][0] > scores["cosine"]["micro3"][0]
    for value, low, high in (line["micro10"] for line in found if "micro10" in line):
        assert 0 <= low <= value <= high <= 1
    assert "macro F1" in (tmp_path / "out" / "topics.md").read_text()


@pytest.fixture
def judged(tmp_path):
    """A folder with a small collection: a query word stands for another word of its topic."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "cisi"
    folder.mkdir(parents=True)
    noise = [f"n{k}a" for k in range(30)]
    documents = [
        {"id": k, "text": " ".join([f"topic{k % 4}b", *rng.choice(noise, 6)])}
        for k in range(80)
    ]
    queries = [
        {"id": k, "text": " ".join([f"asked{k % 4}b", *rng.choice(noise, 4)])}
        for k in range(40)
    ]
    documents += [{"id": 80 + k, "text": f"asked{k % 4}b {noise[0]}"} for k in range(8)]
    with gzip.open(folder / "documents.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps(q) + "\n" for q in queries)
    )
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
    assert [table.name for table in cisi.publish(settings, lines).tables] == [
        "measures",
        "choices",
    ]
