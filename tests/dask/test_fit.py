"""hdsl.dask.HDSL: the path of one machine from blocks of any kind, and what it refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client

import hdsl
import hdsl.dask
from clusters import (
    QUIET,
    assert_same_path,
    bytes_of,
    cut,
    data,
    settings_of,
    threads,
)
from hdsl.dask import shards
from hdsl.dask.cluster import ClusterError
from hdsl.dask.comparisons import load_compared
from hdsl.dask.rows import ClusterRows
from hdsl.evaluate.choose import WEIGHTS
from hdsl.settings import nested_parameters
from hdsl.solver import statistics
from judged_queries import better_by_product

pytestmark = QUIET


def test_parameters_are_those_of_one_machine():
    own = hdsl.dask.HDSL().get_params()
    plain = hdsl.HDSL().get_params()
    assert own == {**plain, "client": None}
    given = clone(hdsl.dask.HDSL(3.0, solver=hdsl.Solver(max_iter=7))).get_params()
    assert given.pop("solver").max_iter == given["solver__max_iter"] == 7
    expected = {**own, "scale": 3.0, "solver__max_iter": 7}
    assert expected.pop("solver") is None
    assert given == expected
    with pytest.raises(TypeError, match="no_such"):
        hdsl.dask.HDSL(no_such=1)


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
    monkeypatch.setattr(shards, "FEWEST_SHARDS", 4)  # which do not know each other
    X, y, T = data()
    X.data[X.data < 0.05] = 0.0  # stored zeros
    X, y = with_equal_rows(X, y)
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
    one = hdsl.HDSL(**nested_parameters(**params)).fit(X, **local)
    many = hdsl.dask.HDSL(**nested_parameters(**params)).fit(given, **there)
    assert_same_path(one, many)
    assert many.scale_ == pytest.approx(one.scale_, rel=1e-12)
    assert many.prior_ == pytest.approx(one.prior_, rel=1e-12)


def with_equal_rows(X, y):
    """Return rows and labels of which two are equal, which count as one."""
    order = np.arange(len(y))
    order[9] = 4
    return X[order], y[order]


# --- an embedding beside the features -------------------------------------------------


#: What is learned inside an embedding goes by products in single precision.
SINGLE = 1e-6


def embedded(X, y, width=4):
    """Return an embedding that knows something of the labels; a few of its rows are empty."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(len(y), width)) + 2.0 * rng.normal(size=(3, width))[y]
    Z[20:23] = 0.0
    return Z.astype(np.float32)


def dense_blocks(Z):
    """Return an embedding as a Dask array in the blocks of `cut`."""
    blocks = [da.from_array(block, chunks=block.shape) for block in cut(Z)]
    return da.concatenate(blocks)


@pytest.mark.parametrize(
    ("form", "supervision", "params"),
    [
        ("arrays", "labels", {"prior": "auto"}),
        ("lists", "triplets", {"step": "away", "embedding_scale": 4.0}),
        (
            "whole pair",
            "random",
            {"embedding_weight": 2.0, "norm": None, "embedding_scale": 16.0},
        ),
        (
            "blocks and a whole one",
            "labels",
            {"embedding_weight": 1.0, "embedding_scale": 8.0},
        ),
        ("one array", "quadruplets", {"embedding": 4, "embedding_weight": 0.25}),
        ("frames", "labels", {"embedding": ["z0", "z1", "z2", "z3"]}),
        ("dense blocks", "labels", {"embedding": slice(-4, None)}),
        ("whole", "triplets", {"embedding": 4, "embedding_weight": 0.0}),
    ],
)
@pytest.mark.filterwarnings("ignore:Rows differ in length", "ignore:Nothing is learned")
def test_with_an_embedding_the_fit_is_that_of_one_machine(
    threads, monkeypatch, form, supervision, params
):
    monkeypatch.setattr(shards, "FEWEST_SHARDS", 4)
    X, y, T = data()
    X, y = with_equal_rows(X, y)
    Z = embedded(X, y)
    Z[9] = Z[4]
    both = sp.hstack([X, Z], format="csr")
    names = [f"x{k}" for k in range(X.shape[1])] + ["z0", "z1", "z2", "z3"]
    local = {
        "arrays": (X, Z),
        "lists": (X, Z),
        "whole pair": (X, Z),
        "blocks and a whole one": (X, Z),
        "frames": pd.DataFrame(both.toarray(), columns=names),
    }.get(form, both)
    on_cluster = {
        "arrays": lambda: (as_array(cut(X)), dense_blocks(Z)),
        "lists": lambda: ([dask.delayed(block) for block in cut(X)], cut(Z)),
        "whole pair": lambda: (X, Z),
        "blocks and a whole one": lambda: (as_array(cut(X)), Z),
        "one array": lambda: as_array(cut(both)),
        "frames": lambda: cut(local),
        "dense blocks": lambda: [block.toarray() for block in cut(both)],
        "whole": lambda: both,
    }[form]()
    supervised = {
        "triplets": {"triplets": T},
        "quadruplets": {"quadruplets": np.column_stack([T, (T[:, 0] + 1) % len(y)])},
    }.get(supervision, {"y": y})
    if supervision == "random":
        params = {**params, "mining": "random"}
    settings = settings_of(**params)
    one = hdsl.HDSL(**nested_parameters(**settings)).fit(local, **supervised)
    many = hdsl.dask.HDSL(**nested_parameters(**settings)).fit(on_cluster, **supervised)
    assert many.embedding_weight_ == one.embedding_weight_
    assert many.embedding_width_ == 4
    assert_same_path(one, many, SINGLE if many.embedding_scale_ else 1e-9)
    assert many.scale_ == pytest.approx(one.scale_, rel=1e-12)
    assert many.prior_ == pytest.approx(one.prior_, rel=1e-12)
    pair = (X[:5], Z[:5])
    assert_allclose(many.local().similarity(pair), one.similarity(pair), rtol=1e-6)


@pytest.mark.parametrize("step", ["corrective", "pairwise"])
def test_an_embedding_alone_is_learned_in(threads, step):
    _, y, _ = data(n=90)
    Z = embedded(None, y, width=40)
    Z[20:23] = Z[4]
    settings = settings_of(prior="auto", step=step)
    one = hdsl.HDSL(**nested_parameters(**settings)).fit(Z, y)
    many = hdsl.dask.HDSL(**nested_parameters(**settings)).fit(cut(Z), y)
    assert one.embedding_scale_ > 0.0
    assert many.embedding_scale_ == pytest.approx(one.embedding_scale_, rel=1e-9)
    assert many.objective_ == pytest.approx(one.objective_, abs=SINGLE)
    assert many.gap_is_exact_
    found = many.local().similarity(Z[:9])
    assert_allclose(found, one.similarity(Z[:9]), rtol=1e-3, atol=1e-3)
    whole = hdsl.dask.HDSL(**nested_parameters(**settings)).fit(Z, y)
    assert_allclose(whole.similarity(Z[:9]), found, rtol=1e-9)
    with pytest.raises(ValueError, match="All 40 columns"):
        hdsl.dask.HDSL(embedding=40).fit(cut(sp.csr_array(Z)), y)


def test_a_path_with_an_embedding_goes_on(threads):
    X, y, _ = data()
    Z = embedded(X, y)
    both = sp.hstack([X, Z], format="csr")
    settings = settings_of(max_iter=2, embedding_weight=4.0, embedding_scale=8.0)
    one = hdsl.HDSL(**nested_parameters(**settings)).fit((X, Z), y)
    many = hdsl.dask.HDSL(**nested_parameters(**settings)).fit((cut(X), cut(Z)), y)
    one.partial_fit((X, Z), y)
    many.partial_fit(cut(both), y)  # the same columns, in one matrix
    assert many.n_iter_ == 4
    assert many.directions_ is not None
    assert_same_path(one, many, SINGLE)
    with pytest.raises(ValueError, match="fitted on"):
        many.partial_fit((cut(X), cut(Z[:, :2])), y)
    with pytest.raises(ValueError, match="path so far"):
        many.partial_fit(cut(X), y)


def test_a_checkpoint_with_an_embedding_resumes_to_the_same_bytes(
    threads, tmp_path, write_each_iteration
):
    X, y, _ = data()
    pair = (cut(X), cut(embedded(X, y)))
    params = settings_of(max_iter=6, embedding_scale=8.0)

    def fail(state):
        if state.n_iter == 5:
            raise RuntimeError("lights out")

    whole = hdsl.dask.HDSL(**nested_parameters(**params)).fit(pair, y)
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(RuntimeError, match="lights out"):
        hdsl.dask.HDSL(**nested_parameters(**params)).fit(
            pair, y, checkpoint=checkpoint, callback=fail
        )
    other = (pair[0], [2.0 * Z + 1.0 for Z in pair[1]])
    with pytest.raises(ValueError, match="other X"):
        hdsl.dask.HDSL(**nested_parameters(**params)).fit(
            other, y, checkpoint=checkpoint
        )
    resumed = hdsl.dask.HDSL(**nested_parameters(**params)).fit(
        pair, y, checkpoint=checkpoint
    )
    assert resumed.embedding_weight_ == whole.embedding_weight_ > 0
    assert bytes_of(resumed, tmp_path) == bytes_of(whole, tmp_path)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("two blocks as a tuple", "blocks of rows as a list"),
        ("other numbers of blocks", "blocks of the same rows"),
        ("other rows in a block", "rows of features"),
        ("other rows in all", "the same rows"),
        ("a sparse embedding in blocks", "An embedding is dense"),
        ("a pair as a list", "tuple"),
        ("not a number", "NaN"),
        ("too large", "largest absolute value of the embedding"),
        ("all columns", "features must stand before"),
    ],
)
def test_what_is_no_embedding_is_refused(threads, form, message):
    X, y, _ = data()
    Z = embedded(X, y)
    with_nan = [*cut(Z)]
    with_nan[1] = with_nan[1] * np.nan
    embedding = "auto"
    if form == "all columns":
        embedding = X.shape[1]
    if form == "too large":
        embedding = Z.shape[1]
    given = {
        "two blocks as a tuple": (X[:30], X[30:]),
        "other numbers of blocks": (cut(X), cut(Z, 2)),
        "other rows in a block": (cut(X), cut(Z[:-1])),
        "other rows in all": (X, cut(Z[:-1])),
        "a sparse embedding in blocks": (cut(X), cut(sp.csr_array(Z))),
        "a pair as a list": [X, Z],
        "not a number": (cut(X), with_nan),
        "too large": cut(sp.hstack([X, Z.astype(float) * 1e20], format="csr")),
        "all columns": cut(X),
    }[form]
    with pytest.raises(ValueError, match=message):
        hdsl.dask.HDSL(**nested_parameters(**settings_of(embedding=embedding))).fit(
            given, y
        )


# --- samples and paths ----------------------------------------------------------------


def test_rows_of_weight_0_are_searched_as_on_one_machine(threads):
    """The choice looks for held-out rows among all rows, whatever these weigh."""
    X, y, _ = data(n=120)
    weights = np.random.default_rng(0).integers(3, size=len(y)).astype(float)
    settings = settings_of(prior="auto")
    one = hdsl.HDSL(**nested_parameters(**settings)).fit(X, y, sample_weight=weights)
    many = hdsl.dask.HDSL(**nested_parameters(**settings)).fit(
        cut(X), y, sample_weight=weights
    )
    assert many.prior_ == pytest.approx(one.prior_, rel=1e-12)


@pytest.mark.filterwarnings("ignore:Nothing is learned")
@pytest.mark.parametrize("supervision", ["y", "triplets"])
def test_the_weight_of_an_embedding_is_chosen_on_a_sample(
    threads, monkeypatch, supervision
):
    monkeypatch.setattr("hdsl.dask.inputs.MOST_ROWS", 60)
    monkeypatch.setattr("hdsl.dask.inputs.MOST_ANCHORS", 50)
    X, y, _ = data(n=90)
    triplets = [
        (a, b, c) for a in range(60) for b, c in [(a + 3, a + 4), (a + 6, a + 5)]
    ]
    y = np.arange(90) % 3
    supervised = {"y": {"y": y}, "triplets": {"triplets": np.repeat(triplets, 3, 0)}}
    pair = (cut(X), cut(embedded(X, y)))
    model = hdsl.dask.HDSL(**nested_parameters(**settings_of(prior="auto"))).fit(
        pair, **supervised[supervision]
    )
    assert model.embedding_weight_ > 0
    assert set(model.choice_["embedding_weight"].tolist()) == set(WEIGHTS)


@pytest.mark.parametrize("supervision", ["labels", "triplets", "late weights"])
def test_scale_and_prior_are_of_the_same_sample(threads, monkeypatch, supervision):
    """Where there are many comparisons, a sample of them decides: the same one."""
    monkeypatch.setattr(shards, "FEWEST_SHARDS", 4)
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
    one = hdsl.HDSL(**nested_parameters(**settings)).fit(X, **given)
    many = hdsl.dask.HDSL(**nested_parameters(**settings)).fit(cut(X), **given)
    assert many.scale_ == pytest.approx(one.scale_, rel=1e-12)
    assert many.prior_ == pytest.approx(one.prior_, rel=1e-12)
    assert_same_path(one, many)


def test_the_result_is_a_plain_model(threads, tmp_path):
    X, _, T = data()
    model = hdsl.dask.HDSL(**nested_parameters(**settings_of(client=threads))).fit(
        cut(X), triplets=T
    )
    plain = model.local()
    assert type(plain) is hdsl.HDSL
    assert_array_equal(plain.transform(X).toarray(), model.transform(X).toarray())
    loaded = tmp_path / "a.hdsl"
    model.save(loaded)
    assert type(hdsl.load(loaded)) is hdsl.HDSL
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    assert_array_equal(again.weights_, model.weights_)


def test_rows_are_ranked_as_one_machine_ranks_them(
    threads, tmp_path, write_each_iteration
):
    X, T = better_by_product()
    settings = settings_of(prior="auto", max_iter=6)
    checkpoint = tmp_path / "run.ckpt"

    def fail(state):
        if state.n_iter == 5:
            raise RuntimeError("lights out")

    many = hdsl.dask.HDSL(**nested_parameters(**settings))
    with pytest.raises(RuntimeError, match="lights out"):
        many.fit(cut(X), triplets=T, checkpoint=checkpoint, callback=fail)
    assert checkpoint.exists()
    many.fit(cut(X), triplets=T, checkpoint=checkpoint)
    one = hdsl.HDSL(**nested_parameters(**settings)).fit(X, triplets=T)
    assert many.ranking_ == one.ranking_ == "product"
    assert_same_path(one, many)
    assert many.local().ranking_ == "product"
    many.save(tmp_path / "model.hdsl")
    assert hdsl.load(tmp_path / "model.hdsl").ranking_ == "product"
    many.partial_fit(cut(X), triplets=T)
    assert (many.n_iter_, many.ranking_) == (12, "product")


def test_a_path_goes_on(threads):
    X, _, T = data()
    one, many = (
        kind(**nested_parameters(**settings_of(max_iter=2, warm_start=True))).fit(
            given, triplets=T
        )
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

    whole = hdsl.dask.HDSL(**nested_parameters(**params)).fit(cut(X), triplets=T)
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(RuntimeError, match="lights out"):
        hdsl.dask.HDSL(**nested_parameters(**params)).fit(
            cut(X), triplets=T, checkpoint=checkpoint, callback=fail
        )
    with pytest.raises(ValueError, match="other X"):
        hdsl.dask.HDSL(**nested_parameters(**params)).fit(
            cut(2.0 * X), triplets=T[::-1], checkpoint=checkpoint
        )
    resumed = hdsl.dask.HDSL(**nested_parameters(**params)).fit(cut(X), triplets=T)
    assert bytes_of(resumed, tmp_path) == bytes_of(whole, tmp_path)


# --- what is refused ------------------------------------------------------------------


def test_what_a_cluster_cannot_do_is_refused(threads):
    X, y, _ = data()
    for params in ({"device": "cuda"}, {"mining": lambda X, y, rng: None}):
        with pytest.raises(ValueError, match=next(iter(params))):
            hdsl.dask.HDSL(**nested_parameters(**settings_of(**params))).fit(cut(X), y)
    triplets = np.array([[0, 1, 2], [3, 4, 5]])
    for compared in (triplets, [triplets]):
        with pytest.raises(ValueError, match="leave groups out"):
            hdsl.dask.HDSL().fit(cut(X), triplets=compared, groups=[0, 1])


def test_without_a_usable_client_a_message_says_so(monkeypatch, threads):
    def nothing():
        raise ValueError("No clients found")

    X, y, _ = data()
    closed = Client(threads.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(ClusterError, match="closed"):
        hdsl.dask.HDSL(**nested_parameters(**settings_of(client=closed))).fit(cut(X), y)
    lost = Client(threads.scheduler.address, set_as_default=False)
    with pytest.raises(ClusterError, match="lost"):  # in mid-fit
        hdsl.dask.HDSL(**nested_parameters(**settings_of(client=lost))).fit(
            X, y, callback=lambda state: lost.close()
        )
    monkeypatch.setattr("distributed.get_client", nothing)
    with pytest.raises(ValueError, match="no Dask client"):
        hdsl.dask.HDSL(**nested_parameters(**settings_of())).fit(cut(X), y)


def test_dask_knows_the_size_of_a_shard():
    from dask.sizeof import sizeof

    from hdsl.dask.shard import Shard, ShardData

    X, _, T = data()
    shard = Shard(ShardData(X, T[np.argsort(T[:, 0], kind="stable")], None, 400.0, 30))
    assert sizeof(shard) > X.data.nbytes
    again = pickle.loads(pickle.dumps(shard))
    assert_array_equal(again.data.compared, shard.data.compared)


def test_small_blocks_are_joined():
    X, y, T = data(n=60)
    client = threads()
    rows = ClusterRows.load(client, cut(X, 60))
    assert len(rows.blocks) == 1
    assert len(load_compared(rows, cut(T, 100), None, "triplet")) == 1
    expected = hdsl.dask.HDSL(**nested_parameters(client=client, **settings_of())).fit(
        cut(X, 3), y
    )
    found = hdsl.dask.HDSL(**nested_parameters(client=client, **settings_of())).fit(
        cut(X, 60), y
    )
    assert_same_path(found, expected)
