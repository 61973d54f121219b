"""Linking records: every method on two small tables, as files of the benchmarks hold them."""

import csv
import gzip

import numpy as np
import pytest

from products import make_tables
from reproduce import command, entities, linking, linking_sizes, runner
from reproduce.sets import MissingDataError
from reproduce.settings import Settings


def write(path, header, rows):
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of --data: 60 products in two shops, and a wrong pair beside each match."""
    home = tmp_path_factory.mktemp("data")
    left, right, matches = make_tables(60)
    wrong = np.column_stack([matches[:, 0], np.roll(matches[:, 1], 1)])
    for name in linking.TABLES:
        folder = home / "linking" / name
        folder.mkdir(parents=True)
        for table, columns in (("tableA", left), ("tableB", right)):
            rows = enumerate(zip(columns["title"], columns["price"], strict=True))
            write(
                folder / f"{table}.csv.gz",
                ["id", "title", "price"],
                [(k, *r) for k, r in rows],
            )
        for part, rows in (
            ("train", slice(30)),
            ("valid", slice(30, 45)),
            ("test", slice(45, 60)),
        ):
            pairs = [(*pair, 1) for pair in matches[rows]] + [
                (*pair, 0) for pair in wrong[rows]
            ]
            write(folder / f"{part}.csv.gz", ["ltable_id", "rtable_id", "label"], pairs)
    return home


def test_every_method_has_its_line(data, tmp_path):
    settings = Settings(tmp_path, jobs=1, quick=True, data=data)
    page = command.reproduce("linking", settings).read_text(encoding="utf-8")
    lines = {x["cell"]["method"]: x for x in runner.read(settings, "linking").values()}
    assert {*lines} == {*linking.METHODS}
    for method, line in lines.items():
        if "left_out" not in line:
            assert 0 <= line["low"] <= line["f1_at_half"] <= line["high"] <= 1
            found = [line["found"][str(k)] for k in linking.RECALL_AT]
            assert sorted(found) == found
            assert found[-1] <= line["n_matches"] == 15
        assert linking.METHODS[method] in page
    assert lines["learned"]["f1"] >= 0.8
    assert sum(size for _, size, _, _ in lines["learned"]["reliability"]) == 30


def test_f1_and_its_threshold():
    labels = np.array([1, 0, 1, 0])
    scores = np.array([0.9, 0.8, 0.7, 0.1])
    threshold = linking.best_threshold(labels, scores)
    assert threshold == 0.7
    assert linking.f1(labels, scores >= threshold) == pytest.approx(0.8)


def test_missing_tables_are_named(tmp_path):
    with pytest.raises(MissingDataError, match="linking"):
        linking.cells(Settings(tmp_path, jobs=1, data=tmp_path))


def test_sizes_are_measured_beside_nothing_learned(data, tmp_path):
    settings = Settings(tmp_path, jobs=1, quick=True, data=data)
    page = command.reproduce("linking_sizes", settings).read_text(encoding="utf-8")
    lines = runner.read(settings, "linking_sizes").values()
    assert {line["cell"]["method"] for line in lines} == {*linking_sizes.METHODS}
    assert all(0 <= line["f1"] <= 1 for line in lines)
    assert all(name in page for name in linking_sizes.METHODS.values())


def test_where_learning_pays_is_where_it_stays_above_nothing():
    def line(method, size, draw, f1):
        cell = {"tables": "abt_buy", "method": method, "size": size, "draw": draw}
        return {"cell": cell, "f1": f1}

    lines = [line("nothing", 0, 0, 0.7)]
    for size, values in ((5, (0.6, 0.9)), (10, (0.8, 0.81)), (25, (0.9, 0.91))):
        for draw, f1 in enumerate(values):
            lines.append(line("learned", size, draw, f1))
            lines.append(line("cosine", size, draw, 0.65))
    sizes, pays = linking_sizes.publish(None, lines).tables
    assert pays.rows == [
        ["abt_buy", linking_sizes.METHODS["learned"], "10"],
        ["abt_buy", linking_sizes.METHODS["cosine"], "–"],
    ]
    assert any("80.5 (74.1 to 86.9)" in row for row in sizes.rows)


def test_entities_are_measured_beside_other_groupings(data, tmp_path):
    settings = Settings(tmp_path, jobs=1, quick=True, data=data)
    page = command.reproduce("entities", settings).read_text(encoding="utf-8")
    (line,) = runner.read(settings, "entities").values()
    scores = {(x["method"], x["threshold"]): x for x in line["entities"]}
    assert len(scores) == len(entities.METHODS) * len(entities.THRESHOLDS)
    assert all(0 <= score["f1_pairs"] <= 1 for score in scores.values())
    assert all(name in page for name in entities.METHODS.values())


def test_groups_are_right_that_have_the_records_of_an_entity():
    entity = np.array([0, 0, 1, 1, 2])
    records = entities.Records(
        table={},
        matches=np.empty((0, 2), dtype=int),
        non_matches=np.empty((0, 2), dtype=int),
        judged_matches=np.array([[0, 1], [2, 3]]),
        judged_others=np.empty((0, 2), dtype=int),
        entity=entity,
    )
    right = entities._scores(records, entity)
    assert right["f1_pairs"] == right["f1_groups"] == 1.0
    torn = entities._scores(records, np.array([0, 0, 2, 3, 4]))
    assert torn["f1_pairs"] == pytest.approx(2 / 3)
    assert torn["f1_groups"] == pytest.approx(2 * 2 / 7)


class NoMatches:
    """A linker that says 0 of all pairs."""

    def predict_proba(self, pairs):
        return np.zeros(len(pairs))


@pytest.mark.parametrize(("threshold", "n_groups"), [(0.5, 3), (0.1, 2)])
def test_mean_linkage_cuts_weak_bridges(threshold, n_groups):
    pairs = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])
    probability = np.array([0.9, 0.6, 0.9, 0.9])
    groups = np.array([0, 0, 0, 0, 1, 1])
    found = entities._mean_linkage(NoMatches(), pairs, probability, groups, threshold)
    assert len(np.unique(found)) == n_groups
    assert found[0] == found[1] != found[4]
