"""The fit on a Dask cluster before its first iteration: blocks, shards, and shards on disk."""

import json
import logging
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

pytest.importorskip("distributed")

from dask.sizeof import sizeof

import hdsl
import hdsl.dask
from benchmarks import problems
from hdsl.cpu.workers import Workers
from hdsl.dask import problem
from hdsl.dask.building import chosen_shards, group_anchors, listed_rows
from hdsl.dask.member import best_of
from hdsl.dask.on_disk import on_disk
from hdsl.dask.shard import Shard
from hdsl.dask.tasks import Summary, summarise
from hdsl.solver import losses

pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")


def few_of_many(seed=0):
    """Return rows of many features and triplets that name few of the rows."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(sp.random_array((90, 3000), density=0.004, rng=rng, format="csr"))
    X = sp.csr_array(X + sp.csr_array(np.eye(90, 3000)))
    return X, np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4], [4, 0, 3]])


@pytest.mark.parametrize("oracle", ["exact", "ascent"])
def test_features_that_no_shard_has_are_not_sent(threads, oracle):
    X, compared = few_of_many()
    settings = {"max_iter": 4, "scale": 10.0, "prior": 0.0, "oracle": oracle, "random_state": 0}
    one = hdsl.HDSL(**settings).fit(X, triplets=compared)
    other = hdsl.dask.HDSL(**settings, n_shards=2).fit([X[:40], X[40:]], triplets=compared)
    assert_array_equal(other.atoms_, one.atoms_)
    assert other.status_ == one.status_
    assert other.objective_ == pytest.approx(one.objective_, abs=1e-12)
    # 4 MB and more where entries of all features are sent.
    assert other.cluster_["between_per_iteration"] < 1e6


def test_of_equal_partners_the_smallest_wins():
    answers = [
        (np.array([1.0, 0.0, -np.inf]), np.array([7, 9, -1]), np.ones(3), np.zeros(3)),
        (np.array([1.0, 0.0, 0.0]), np.array([8, 3, 5]), np.zeros(3), np.ones(3)),
    ]
    value, partner, entry, diagonal = best_of(answers)
    assert value.tolist() == [1.0, 0.0, 0.0]
    assert partner.tolist() == [7, 3, 5]
    assert (entry.tolist(), diagonal.tolist()) == ([1.0, 0.0, 0.0], [0.0, 1.0, 1.0])


def test_dask_knows_the_size_of_a_sparse_array():
    X = sp.random_array((1000, 1000), density=0.1, rng=np.random.default_rng(0), format="csr")
    assert sizeof(X) == pytest.approx(sizeof(sp.csr_matrix(X)), rel=0.01)
    assert sizeof(X) > X.data.nbytes


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=30))
def test_rows_and_pairs_of_comparisons(listed):
    compared = np.array(listed)
    found = summarise((compared, None), 10)
    pairs = {(a, other) for a, b, c in listed for other in (b, c)}
    assert found.pairs.tolist() == sorted(10 * a + b for a, b in pairs)
    assert isinstance(found, Summary)
    rows, a, b = listed_rows(found.pairs, 10)
    assert rows.tolist() == sorted({row for triplet in listed for row in triplet})
    assert set(zip(rows[a].tolist(), rows[b].tolist(), strict=True)) == pairs


def test_wide_rows_have_fewer_shards():
    assert chosen_shards("auto", 15_000_000) == 64
    assert chosen_shards("auto", 15_000_000, 1_000_000) == 16
    for n, d in product((1, 10**6, 3 * 10**7, 10**9), (0, 10**5, 10**6)):
        assert chosen_shards("auto", n, d).bit_count() == 1


def test_the_log_tells_the_parts_of_the_set_up(threads, caplog):
    X, compared = few_of_many()
    with caplog.at_level(logging.INFO, logger="hdsl.dask"):
        hdsl.dask.HDSL(max_iter=1, scale=1.0).fit([X], triplets=compared)
    told = [record.args[0] for record in caplog.records if len(record.args) == 2]
    parts = ["check the blocks of X", "group the anchors", "build the shards"]
    assert [name for name in told if name in parts] == parts


def test_a_line_search_through_the_client_is_the_same(threads, monkeypatch):
    X, compared = few_of_many()
    settings = {"max_iter": 6, "scale": 10.0, "random_state": 0, "n_shards": 3}
    one = hdsl.dask.HDSL(**settings).fit([X], triplets=compared)
    monkeypatch.setattr(problem, "FEW_WORKERS", 0)
    other = hdsl.dask.HDSL(**settings).fit([X], triplets=compared)
    assert_array_equal(other.atoms_, one.atoms_)
    assert_array_equal(other.weights_, one.weights_)
    assert other.cluster_["rounds_per_iteration"] > one.cluster_["rounds_per_iteration"]


# --- shards on disk ------------------------------------------------------------------------------


def test_a_shard_on_disk_answers_the_same(tmp_path):
    X, compared = few_of_many()
    workers = Workers(1)
    made = Shard(X, compared.astype(np.int32), 0.25, None, workers=workers, store_products=False)
    moved = on_disk(made, workers, str(tmp_path))
    assert not [*tmp_path.iterdir()]  # the file has no name
    rows = moved.comparisons.rows
    assert isinstance(rows.row_idx.base, memoryview) or not rows.row_idx.flags.owndata
    assert rows.workers is workers
    answers = []
    for shard in (made, moved):
        shard.order("problem", 1, np.arange(3000), losses.get("smoothed_hinge"), 10.0, 0.0)
        atoms = np.array([[0, 1, 1], [2, 3, -1]])
        answers.append(shard.problems[1].margins(atoms, np.array([0.5, 0.25])))
    assert_array_equal(np.asarray(answers[0]), np.asarray(answers[1]))


def test_a_fit_with_shards_on_disk_is_the_same(threads):
    X, compared = few_of_many()
    settings = {"max_iter": 6, "scale": 10.0, "random_state": 0, "n_shards": 3}
    one, other = (
        hdsl.dask.HDSL(**settings, shards_on_disk=kept).fit([X[:40], X[40:]], triplets=compared)
        for kept in (False, True)
    )
    assert_array_equal(other.atoms_, one.atoms_)
    assert other.objective_ == pytest.approx(one.objective_, abs=1e-12)


@pytest.mark.slow
def test_data_larger_than_memory_fits(tmp_path):
    """The kernel lets workers have 128 MiB each, mapped files apart, for 352 MiB of data."""
    out = tmp_path / "records"
    command = [
        sys.executable, "-m", "benchmarks.cluster", "--problem", "wide:1e5", "--workers", "2",
        "--threads", "--iterations", "6", "--shards", "64", "--memory", "128", "--folder", tmp_path,
        "--out", out,
    ]  # fmt: skip
    subprocess.run([*command, "--disk"], cwd=problems.ROOT, capture_output=True, check=True)
    found = json.loads(out.read_text())
    assert found["n_iter"] == 7
    assert 2 * found["more_mb"] < 2 * 128 < found["data_mb"]
    refused = subprocess.run(
        command, cwd=problems.ROOT, capture_output=True, text=True, check=False
    )
    assert "shards_on_disk=True" in refused.stderr


def test_anchors_are_grouped_by_the_rows_that_they_share():
    rng = np.random.default_rng(0)
    topic = rng.permutation(np.repeat(np.arange(8), 50))  # rows compare with their own topic only
    members = [np.flatnonzero(topic == k) for k in range(8)]
    pairs = np.unique(
        [a * 400 + b for a in range(400) for b in rng.choice(members[topic[a]], size=6)]
    )
    shards = group_anchors(np.arange(400), np.full(400, 6), pairs, 400, 4)
    assert np.bincount(shards).tolist() == [100, 100, 100, 100]
    a, b = np.divmod(pairs, 400)
    held = sum(len(np.union1d(a[shards[a] == k], b[shards[a] == k])) for k in range(4))
    assert held / 400 < 1.4  # four were each row on every shard; 3.6 for a random deal


def test_the_number_of_shards_depends_on_the_data():
    assert [chosen_shards("auto", n) for n in (1, 10**6, 10**9)] == [2, 4, 128]
    assert chosen_shards(5, 10) == 5
