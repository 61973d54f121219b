"""A problem on a cluster: what every implementation promises, and the path of one machine."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("distributed")

import clusters
import test_conformance
from hdsl.dask.comparisons import ComparisonSummary
from hdsl.dask.problem import search
from hdsl.dask.shards import Partition, choose_partition
from hdsl.solver.line_search import line_search

pytestmark = clusters.QUIET

CONFORMANCE = {
    name: test
    for name, test in vars(test_conformance).items()
    if name.startswith("test_") and "layout" in inspect.signature(test).parameters
}


@pytest.mark.parametrize("name", CONFORMANCE)
def test_conformance(name, monkeypatch):
    """The tests of every machine, with few random examples."""
    test = CONFORMANCE[name]
    known = {"layout": clusters.cluster_layout, "monkeypatch": monkeypatch}
    inner = test.hypothesis.inner_test if hasattr(test, "hypothesis") else test
    known = {
        name: known[name]
        for name in inspect.signature(inner).parameters.keys() & known.keys()
    }
    if inner is test:
        test(**known)
        return
    drawn = {
        "after": st.booleans(),
        "count": st.integers(0, 5),
        "factor": st.floats(0.01, 100.0),
    }
    wanted = sorted(inspect.signature(inner).parameters.keys() & drawn.keys())

    @settings(max_examples=2)
    @given(
        data=st.data(),
        others=st.fixed_dictionaries({name: drawn[name] for name in wanted}),
    )
    def check(data, others):
        inner(**known, **others, data=data)

    check()


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_comparisons_are_dealt_out_by_anchors(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, size=12)
    shards = rng.integers(3, size=12)
    shards[:3] = range(3)
    partition = Partition(counts, shards)
    numbers = np.flatnonzero(rng.random(counts.sum()) < 0.5)
    shard = np.repeat(shards, counts)
    for k, numbers_in_shard in enumerate(partition.by_shard(numbers)):
        assert (
            np.flatnonzero(shard == k)[numbers_in_shard].tolist()
            == numbers[shard[numbers] == k].tolist()
        )


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 7.0]))
def test_a_search_of_several_sizes_per_round_ends_where_that_of_one_does(seed, limit):
    rng = np.random.default_rng(seed)
    kinks = rng.random(40) * 2.0
    weights = rng.random(40)
    pull = rng.random() * 20.0

    def slopes(sizes):
        over = np.asarray(sizes)[:, None] - kinks
        return np.column_stack(
            [(weights * over * (over > 0)).sum(1) - pull, weights @ (over > 0).T]
        )

    rounds = []
    size = search(lambda sizes: (rounds.append(0), slopes(sizes))[1], limit)
    assert size == pytest.approx(
        line_search(lambda one: slopes([one])[0].tolist(), limit), rel=1e-9
    )
    assert len(rounds) <= 12


def test_shards_have_few_rows_in_common():
    rng = np.random.default_rng(0)
    # Rows compare with their own topic only.
    topic = rng.permutation(np.repeat(np.arange(8), 50))
    members = [np.flatnonzero(topic == k) for k in range(8)]
    pairs = np.array(
        [(a, b) for a in range(400) for b in rng.choice(members[topic[a]], size=6)]
    )
    rows = np.arange(400)
    summary = ComparisonSummary(rows, np.full(400, 6), 2400.0, pairs, rows)
    shards = choose_partition(summary, 400).shards
    assert np.bincount(shards).tolist() == [200, 200]
    n_rows = sum(len(np.unique(pairs[shards[pairs[:, 0]] == k])) for k in range(2))
    assert n_rows / 400 < 1.3  # two were each row on every shard
