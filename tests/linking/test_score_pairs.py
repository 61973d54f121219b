"""Pairs in the rows of a frame have a probability of their own, wherever they are."""

import pickle

import numpy as np
import pandas as pd
import pytest

from hdsl.linking import Linker
from products import make_tables

COLUMNS = ["title", "price"]
NAMES = {"left": "{}_left", "right": "{}_right"}


@pytest.fixture(scope="module")
def case():
    """A linker, and a frame of matches and of other pairs."""
    left, right, matches = make_tables(60)
    linker = Linker(COLUMNS, random_state=0, n_jobs=1).fit(left, right, matches[:40])
    others = np.column_stack([matches[:, 0], np.roll(matches[:, 1], 1)])
    return linker, frame_of(left, right, np.concatenate([matches, others]))


def frame_of(left, right, pairs, names=NAMES):
    sides = {"left": (left, pairs[:, 0]), "right": (right, pairs[:, 1])}
    return pd.DataFrame(
        {
            names[side].format(name): [table[name][row] for row in rows]
            for side, (table, rows) in sides.items()
            for name in COLUMNS
        }
    )


def test_matches_are_more_likely(case):
    linker, frame = case
    probability = linker.score_pairs(frame)
    assert probability.shape == (120,)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert np.median(probability[:60]) > 0.5 > np.median(probability[60:])


def test_each_row_counts_by_itself(case):
    linker, frame = case
    expected = linker.score_pairs(frame)
    again = pickle.loads(pickle.dumps(linker))
    for rows in (slice(7, 8), slice(0, 0), slice(50, 90)):
        np.testing.assert_allclose(
            again.score_pairs(frame[rows]), expected[rows], atol=1e-12
        )


@pytest.mark.parametrize("names", [("left_{}", "right_{}"), ("{}_l", "{}_r")])
def test_columns_may_be_called_as_other_programs_do(case, names):
    linker, frame = case
    renamed = {
        NAMES[side].format(name): pattern.format(name)
        for side, pattern in zip(NAMES, names, strict=True)
        for name in COLUMNS
    }
    np.testing.assert_array_equal(
        linker.score_pairs(frame.rename(columns=renamed)), linker.score_pairs(frame)
    )


def test_a_frame_without_a_side_is_refused(case):
    linker, frame = case
    with pytest.raises(ValueError, match="'title_right'"):
        linker.score_pairs(frame[["title_left", "price_left"]])


def test_partitions_of_dask_are_scored_one_by_one(case):
    dd = pytest.importorskip("dask.dataframe")
    linker, frame = case

    def scored(part):
        return part.assign(probability=linker.score_pairs(part))

    parts = dd.from_pandas(frame, npartitions=3)
    meta = frame.head(0).assign(probability=np.zeros(0))
    found = parts.map_partitions(scored, meta=meta).compute(scheduler="synchronous")
    np.testing.assert_allclose(
        found["probability"], linker.score_pairs(frame), atol=1e-12
    )


def test_candidate_pairs_of_duckdb(case):
    duckdb = pytest.importorskip("duckdb")
    linker, frame = case
    pairs = duckdb.sql("SELECT * FROM frame WHERE price_left = price_right")
    reader = pairs.to_arrow_reader(16)
    found = np.concatenate([linker.score_pairs(batch) for batch in reader])
    is_pair = frame["price_left"] == frame["price_right"]
    np.testing.assert_allclose(
        np.sort(found), np.sort(linker.score_pairs(frame[is_pair])), atol=1e-12
    )
