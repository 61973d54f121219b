"""Dask clusters for tests: one of threads, started by the first test that asks, and short fits."""

import atexit
import itertools
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from hdsl.dask.cluster import send
from hdsl.dask.comparisons import ComparisonBlock
from hdsl.dask.layout import build_layout
from hdsl.dask.rows import ClusterRows
from hdsl.dask.shards import PerShard
from hdsl.rows import Rows

#: What tests on a cluster ignore.
QUIET = [
    # Dask's scheduler, a thread of this process, chooses workers by the `random`
    # module.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


@cache
def threads():
    """Return a client of two workers that are threads of this process."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    client = Client(cluster, set_as_default=False)
    atexit.register(cluster.close)
    atexit.register(client.close)
    return client


def cut(X, n_blocks=3):
    """Return the rows of X in blocks."""
    bounds = np.linspace(0, X.shape[0], n_blocks + 1).astype(int)
    return [X[first:last] for first, last in itertools.pairwise(bounds)]


def cluster_layout(X, compared, weights=None, *, client=None, columns=None, min_rows=1):
    """Return the layout of arrays on a cluster; its margins can be looked into."""
    client = client or threads()
    if isinstance(X, Rows):
        rows = ClusterRows.load_pair(client, cut(X.sparse), cut(X.dense))
    else:
        rows = ClusterRows.load(client, cut(sp.csr_array(X)))
    if weights is not None:
        weights = np.asarray(weights, dtype=float)
    block = ComparisonBlock(np.asarray(compared), weights)
    layout = build_layout(rows, [send(client, block)], columns, min_rows)
    joined = joined_by(layout.shards.partition)
    PerShard.__array__ = lambda self, dtype=None, copy=None: joined(
        client.gather([*self])
    )
    return layout


def joined_by(partition):
    """Return a function from the answers of the shards to one number per comparison."""
    shard = np.repeat(partition.shards, partition.counts)

    def joined(answers):
        whole = np.empty(partition.n_comparisons)
        for k, answer in enumerate(answers):
            whole[shard == k] = getattr(answer, "margins", answer)
        return whole

    return joined


def data(n=60, d=30, T=400, seed=0):
    """Return rows, labels and triplets."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(
        sp.random_array((n, d), density=0.3, random_state=rng, format="csr")
    )
    compared = rng.integers(n, size=(T, 3))
    return X, rng.integers(3, size=n), compared[compared[:, 1] != compared[:, 2]]


def settings_of(**params):
    """Return parameters of a short fit."""
    short = {
        "max_iter": 3,
        "prior": 2.0,
        "random_state": 0,
        "n_targets": 2,
        "n_impostors": 2,
    }
    return {**short, **params}


def bytes_of(model, folder):
    """Return the bytes of the model's file."""
    path = folder / "model.hdsl"
    model.local().save(path)
    return path.read_bytes()


def assert_same_path(model, other, atol=1e-9):
    """Compare two models and their paths up to rounding."""
    assert_array_equal(model.atoms_, other.atoms_)
    assert model.status_ == other.status_
    assert model.n_iter_ == other.n_iter_
    assert model.n_triplets_ == other.n_triplets_
    assert other.objective_ == pytest.approx(model.objective_, abs=atol)
    assert_allclose(other.trace_["objective"], model.trace_["objective"], atol=atol)
