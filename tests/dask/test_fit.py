"""hdsl.dask.HDSL: the path of one machine from blocks of any kind, and what it refuses."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client

import hdsl
import hdsl.dask
from clusters import QUIET, assert_same_path, bytes_of, cut, data, settings_of
from hdsl.dask import partition
from hdsl.dask.cluster import ClusterError
from hdsl.solver import statistics

pytestmark = QUIET


def test_parameters_are_those_of_one_machine():
    own = hdsl.dask.HDSL().get_params()
    plain = hdsl.HDSL().get_params()
    assert own == {**plain, "client": None}
    assert clone(hdsl.dask.HDSL(3.0, max_iter=7)).get_params() == {
        **own,
        "scale": 3.0,
        "max_iter": 7,
    }
    with pytest.raises(TypeError, match="no_such"):
        hdsl.dask.HDSL(no_such=1)


def test_an_embedding_is_refused(threads):
    X, y, _ = data()
    with pytest.raises(ValueError, match="sparse rows alone"):
        hdsl.dask.HDSL(embedding=2).fit(X, y)
    with pytest.raises(ValueError, match="sparse rows alone"):
        hdsl.dask.HDSL().fit((X, np.ones((X.shape[0], 2))), y)


def as_array(blocks):
    """Return blocks as a Dask array."""
    empty = sp.csr_array((0, 0))
    parts = [
        da.from_delayed(dask.delayed(block), shape=block.shape, dtype=float, meta=empty)
        for block in blocks
    ]
    return da.concatenate(parts)


@pytest.mark.parametrize(
    ("kind", "supervision", "params"),
    [
        ("array", "labels", {}),
        ("delayed", "weighted labels", {"norm": None}),
        ("futures", "quadruplets", {"min_rows": 12}),
        ("blocks", "random", {"max_anchors": 40}),
        ("with an empty block", "weighted labels", {"oracle": "exact", "prior": 0.3}),
        ("whole", "triplets", {"prior": "auto", "max_iter": "auto"}),
        ("dense", "dask triplets", {"step": "away", "batch_size": 30}),
    ],
)
@pytest.mark.filterwarnings("ignore:Rows differ in length", "ignore:Nothing is learned")
def test_fit_is_that_of_one_machine(threads, monkeypatch, kind, supervision, params):
    monkeypatch.setattr(partition, "FEWEST_SHARDS", 4)  # which do not know each other
    X, y, T = data()
    X.data[X.data < 0.05] = 0.0  # stored zeros
    order = np.arange(len(y))
    # equal rows count as one
    order[9] = 4
    y[9] = y[4]
    X = X[order]
    blocks = cut(X)
    rng = np.random.default_rng(1)
    given = {
        "array": lambda: as_array(blocks),
        "delayed": lambda: [dask.delayed(block) for block in blocks],
        "futures": lambda: threads.scatter(blocks, hash=False),
        "blocks": lambda: blocks,
        "with an empty block": lambda: [blocks[0], X[:0], *blocks[1:]],
        "whole": lambda: X,
        "dense": lambda: [block.toarray() for block in blocks],
    }[kind]()
    weights = rng.integers(3, size=len(T)).astype(float)
    local = {
        "triplets": {"triplets": T, "sample_weight": weights},
        "dask triplets": {"triplets": T, "sample_weight": weights},
        "quadruplets": {"quadruplets": np.column_stack([T, (T[:, 0] + 1) % len(y)])},
        "labels": {"y": y},
        "weighted labels": {
            "y": y,
            "sample_weight": rng.integers(3, size=len(y)).astype(float),
        },
        "random": {"y": y},
    }[supervision]
    there = dict(local)
    if supervision == "dask triplets":
        there["triplets"] = da.from_array(T, chunks=(150, 3))
    params = settings_of(
        **params, **({"mining": "random"} if supervision == "random" else {})
    )
    one = hdsl.HDSL(**params).fit(X, **local)
    many = hdsl.dask.HDSL(**params).fit(given, **there)
    assert_same_path(one, many)
    assert many.scale_ == pytest.approx(one.scale_, rel=1e-12)
    assert many.prior_ == pytest.approx(one.prior_, rel=1e-12)


@pytest.mark.parametrize("supervision", ["labels", "triplets", "late weights"])
def test_scale_and_prior_are_of_the_same_sample(threads, monkeypatch, supervision):
    """Where there are many comparisons, a sample of them decides: the same one."""
    monkeypatch.setattr(partition, "FEWEST_SHARDS", 4)
    monkeypatch.setattr(statistics, "SAMPLE_SIZE", 20)
    X, y, T = data()
    settings = settings_of(prior="auto")
    if supervision == "labels":
        given = {"y": y}
    else:
        given = {"triplets": T}
    if supervision == "late weights":  # the sample has none of weight
        last = np.argsort(T[:, 0], kind="stable")[-3:]
        given["sample_weight"] = np.isin(np.arange(len(T)), last).astype(float)
    one = hdsl.HDSL(**settings).fit(X, **given)
    many = hdsl.dask.HDSL(**settings).fit(cut(X), **given)
    assert many.scale_ == pytest.approx(one.scale_, rel=1e-12)
    assert many.prior_ == pytest.approx(one.prior_, rel=1e-12)
    assert_same_path(one, many)


def test_the_result_is_a_plain_model(threads, tmp_path):
    X, _, T = data()
    model = hdsl.dask.HDSL(**settings_of(client=threads)).fit(cut(X), triplets=T)
    plain = model.local()
    assert type(plain) is hdsl.HDSL
    assert_array_equal(plain.transform(X).toarray(), model.transform(X).toarray())
    loaded = tmp_path / "a.hdsl"
    model.save(loaded)
    assert type(hdsl.load(loaded)) is hdsl.HDSL
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    assert_array_equal(again.weights_, model.weights_)


def test_a_path_goes_on(threads):
    X, _, T = data()
    one, many = (
        kind(**settings_of(max_iter=2, warm_start=True)).fit(given, triplets=T)
        for kind, given in ((hdsl.HDSL, X), (hdsl.dask.HDSL, cut(X)))
    )
    one.fit(X, triplets=T)
    many.fit(cut(X), triplets=T)
    assert many.n_iter_ == 4
    assert_same_path(one, many)


def test_a_checkpoint_resumes_to_the_same_bytes(
    threads, tmp_path, write_each_iteration
):
    X, _, T = data()
    params = settings_of(max_iter=6)

    def fail(state):
        if state.n_iter == 5:
            raise RuntimeError("lights out")

    whole = hdsl.dask.HDSL(**params).fit(cut(X), triplets=T)
    params["checkpoint"] = tmp_path / "run.ckpt"
    with pytest.raises(RuntimeError, match="lights out"):
        hdsl.dask.HDSL(**params, callback=fail).fit(cut(X), triplets=T)
    with pytest.raises(ValueError, match="other X"):
        hdsl.dask.HDSL(**params).fit(cut(2.0 * X), triplets=T[::-1])
    resumed = hdsl.dask.HDSL(**params).fit(cut(X), triplets=T)
    assert bytes_of(resumed, tmp_path) == bytes_of(whole, tmp_path)


# --- what is refused ------------------------------------------------------------------


def test_what_a_cluster_cannot_do_is_refused(threads):
    X, y, _ = data()
    for params in ({"device": "cuda"}, {"mining": lambda X, y, rng: None}):
        with pytest.raises(ValueError, match=next(iter(params))):
            hdsl.dask.HDSL(**settings_of(**params)).fit(cut(X), y)


def test_without_a_usable_client_a_message_says_so(monkeypatch, threads):
    def nothing():
        raise ValueError("No clients found")

    X, y, _ = data()
    closed = Client(threads.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(ClusterError, match="closed"):
        hdsl.dask.HDSL(**settings_of(client=closed)).fit(cut(X), y)
    lost = Client(threads.scheduler.address, set_as_default=False)
    with pytest.raises(ClusterError, match="lost"):  # in mid-fit
        hdsl.dask.HDSL(
            **settings_of(client=lost, callback=lambda state: lost.close())
        ).fit(X, y)
    monkeypatch.setattr("distributed.get_client", nothing)
    with pytest.raises(ValueError, match="no Dask client"):
        hdsl.dask.HDSL(**settings_of()).fit(cut(X), y)


def test_dask_knows_the_size_of_a_shard():
    from dask.sizeof import sizeof

    from hdsl.dask.shard import Shard, ShardData

    X, _, T = data()
    shard = Shard(ShardData(X, T[np.argsort(T[:, 0], kind="stable")], None, 400.0, 30))
    assert sizeof(shard) > X.data.nbytes
    again = pickle.loads(pickle.dumps(shard))
    assert_array_equal(again.data.compared, shard.data.compared)
