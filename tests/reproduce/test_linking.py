"""Linking records: every method on two small tables, as files of the benchmarks hold them."""

import csv
import gzip

import numpy as np
import pytest

from products import make_tables
from reproduce import command, linking, linking_sizes, runner
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
