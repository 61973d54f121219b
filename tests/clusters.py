"""Dask clusters for tests: one of threads, started by the first test that asks, and short fits."""

import atexit
import itertools
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

HAS_DASK = find_spec("distributed") is not None


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


def make_builder(client, X, compared, weights=None, timeout=60.0):
    """Return what builds the shards of arrays, and has planned nothing yet."""
    from hdsl.dask.building import Builder, number_columns
    from hdsl.dask.sources import Source
    from hdsl.dask.tasks import count_columns

    blocks = cut(X)
    starts = np.cumsum([0, *(block.shape[0] for block in blocks)])
    columns = [count_columns(block) for block in blocks]
    mean_square = sum(part.squares for part in columns) / X.shape[0]
    rows, pieces = Source(client, blocks), Source(client, [(compared, weights)])
    return Builder(rows, starts, pieces, number_columns(columns), mean_square, timeout=timeout)


def cluster_layout(X, compared, weights=None, *, client=None, n_shards=3, n_workers=None):
    """Return the layout of arrays on the first workers of a cluster."""
    from hdsl.dask.team import Team

    builder = make_builder(client or threads(), X, compared, weights)
    builder.plan(n_shards)
    builder.sample()
    team = Team(builder.client, builder.places.n_shards, timeout=60.0)
    if n_workers is not None:
        team.excluded |= set(team.workers()[n_workers:])
    return builder.layout(team)


def data(n=60, d=30, T=400, seed=0):
    """Return rows, labels and triplets."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(sp.random_array((n, d), density=0.3, rng=rng, format="csr"))
    compared = rng.integers(n, size=(T, 3))
    return X, rng.integers(3, size=n), compared[compared[:, 1] != compared[:, 2]]


def settings_of(**params):
    """Return parameters of a short fit."""
    return {"max_iter": 12, "random_state": 0, "n_targets": 2, "n_impostors": 2, **params}


def bytes_of(model, folder):
    """Return the bytes of the model's file."""
    path = folder / "model.hdsl"
    model.local().save(path)
    return path.read_bytes()


def assert_same_path(one, other):
    """Compare two models and their paths up to rounding."""
    assert_array_equal(one.atoms_, other.atoms_)
    assert (one.status_, one.n_iter_, one.n_triplets_) == (
        other.status_, other.n_iter_, other.n_triplets_,
    )  # fmt: skip
    assert other.objective_ == pytest.approx(one.objective_, abs=1e-9)
    assert_allclose(other.trace_["objective"], one.trace_["objective"], atol=1e-9)
