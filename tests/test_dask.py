"""hdsl.dask.HDSL: the path of one machine from blocks of any kind, and what it refuses."""

import inspect
import pickle
import time

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

pytest.importorskip("distributed")

import dask
import dask.array as da

import clusters
import hdsl
import hdsl.dask
from clusters import assert_same_path, data, settings_of
from devices import DEVICES, Emulator
from hdsl.search import top_k
from hdsl.triplets import neighbor_triplets
from pairwise import pairwise

pytestmark = [
    # Dask's scheduler, a thread of this process, chooses workers by the `random` module.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


# --- the estimator -------------------------------------------------------------------------------


def test_parameters_are_those_of_one_machine():
    own, plain = hdsl.dask.HDSL().get_params(), hdsl.HDSL().get_params()
    assert {name: own[name] for name in plain} == plain
    orders = [[*inspect.signature(kind).parameters] for kind in (hdsl.HDSL, hdsl.dask.HDSL)]
    assert orders[0] == orders[1][: len(plain)]
    assert own.keys() - plain.keys() == {"client", "n_shards", "timeout", "shards_on_disk"}
    assert clone(hdsl.dask.HDSL(n_shards=7)).n_shards == 7


@pytest.mark.filterwarnings("ignore:There is one row only of class")
@parametrize_with_checks([hdsl.dask.HDSL(max_iter=3, n_targets=2, n_impostors=2)])
def test_scikit_learn_checks(threads, estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("source", "norm", "batch_size"),
    pairwise(
        [
            "array, labels", "delayed, weighted labels", "futures, quadruplets", "blocks, random",
            "whole, triplets", "array, dask triplets", "delayed, triplets", "blocks, labels",
        ],
        ["l2", None],
        [None, 30],
    ),
)  # fmt: skip
def test_fit_is_that_of_one_machine(threads, source, norm, batch_size):
    kind, supervision = source.split(", ")
    X, y, T = data()
    X.data[X.data < 0.05] = 0.0  # stored zeros
    order = np.arange(len(y))
    order[9], y[9] = 4, y[4]  # equal rows count as one
    X = X[order]
    blocks = clusters.cut(X)
    delayed = [dask.delayed(block) for block in blocks]
    given = {
        "array": lambda: da.concatenate(
            [
                da.from_delayed(part, shape=block.shape, dtype=float, meta=sp.csr_array((0, 0)))
                for part, block in zip(delayed, blocks, strict=True)
            ]
        ),
        "delayed": lambda: delayed,
        "futures": lambda: threads.scatter(blocks, hash=False),
        "blocks": lambda: blocks,
        "whole": lambda: X,
    }[kind]()
    rng = np.random.default_rng(1)
    weights = rng.integers(3, size=len(T)).astype(float)
    local = {
        "triplets": {"triplets": T, "sample_weight": weights},
        "dask triplets": {"triplets": T, "sample_weight": weights},
        "quadruplets": {"quadruplets": np.column_stack([T, (T[:, 0] + 1) % len(y)])},
        "labels": {"y": y},
        "weighted labels": {"y": y, "sample_weight": rng.integers(3, size=len(y)).astype(float)},
        "random": {"y": y},
    }[supervision]
    there = dict(local)
    if supervision == "dask triplets":
        there["triplets"] = da.from_array(T, chunks=(150, 3))
    params = settings_of(norm=norm, batch_size=batch_size)
    params |= {"mining": "random"} if supervision == "random" else {}
    one = hdsl.HDSL(**params).fit(X, **local)
    many = hdsl.dask.HDSL(**params, n_shards=3).fit(given, **there)
    assert_same_path(one, many)
    assert many.scale_ == pytest.approx(one.scale_, rel=1e-12)
    assert many.cluster_["n_shards"] == 3
    assert many.cluster_["n_workers"] == 2
    assert many.cluster_["n_lost"] == 0
    assert 1.0 <= many.cluster_["times_held"] <= 3.0
    for name in ("rounds", "down", "up", "between"):
        assert many.cluster_[f"{name}_per_iteration"] > 0


CLASSES = {
    "rows": {},
    "centers": {"class_centers": "rows"},
    "centers of classes": {"class_centers": "classes"},
    "landmarks": {"objective": "classification"},
    "20 landmarks": {"objective": "classification", "landmarks": 20},
    "given landmarks": {"objective": "classification", "landmarks": list(range(0, 60, 2))},
}


@pytest.mark.parametrize(
    ("classes", "mining", "early_stopping", "step", "weighted", "batch_size"),
    pairwise(
        [*CLASSES], ["neighbors", "neighbors again", "random"], [False, True],
        ["away", "corrective"], [False, True], [None, 30],
        allowed=lambda classes, mining, *_: "landmarks" not in classes or mining == "neighbors",
    ),
)  # fmt: skip
def test_labels_are_used_as_on_one_machine(
    threads, classes, mining, early_stopping, step, weighted, batch_size
):
    """Rows that stand for classes, triplets mined again, and rows held out."""
    X, y, _ = data(n=70)
    order = np.arange(len(y))
    order[9], y[9] = 4, y[4]  # equal rows count as one
    X, rng = X[order], np.random.default_rng(1)
    weights = rng.integers(3, size=len(y)).astype(float) if weighted else None
    mining, *again = mining.split()
    params = settings_of(
        **CLASSES[classes], mining=mining, mine_every=3 if again else None,
        early_stopping=early_stopping, validation_fraction=0.3, step=step, batch_size=batch_size,
        max_iter=6,
    )  # fmt: skip
    one = hdsl.HDSL(**params).fit(X, y, sample_weight=weights)
    many = hdsl.dask.HDSL(**params, n_shards=3).fit(clusters.cut(X), y, sample_weight=weights)
    assert_same_path(one, many)
    if early_stopping:
        assert many.validation_score_ == pytest.approx(one.validation_score_)


@pytest.mark.skipif("emulator" not in DEVICES, reason="the emulator of GPUs is not built here")
@pytest.mark.parametrize(
    ("batch_size", "step"), [(None, "away"), (30, "away"), (None, "corrective")]
)
def test_workers_compute_on_their_gpus(threads, monkeypatch, batch_size, step):
    X, _, T = data()
    monkeypatch.setattr("hdsl.cuda.runtime.get_device", lambda name: Emulator())
    weights = np.random.default_rng(1).integers(3, size=len(T)).astype(float)
    params = settings_of(batch_size=batch_size, step=step)
    one = hdsl.HDSL(**params).fit(X, triplets=T, sample_weight=weights)
    many = hdsl.dask.HDSL(**params, device="cuda", n_shards=2)
    many.fit(clusters.cut(X), triplets=T, sample_weight=weights)
    assert_same_path(one, many)


def test_a_worker_without_a_gpu_is_named(threads, monkeypatch):
    from hdsl.cuda.runtime import DeviceError

    def nothing(name):
        raise DeviceError("No GPU can be used")

    X, _, T = data()
    monkeypatch.setattr("hdsl.cuda.runtime.get_device", nothing)
    with pytest.raises(RuntimeError, match=r"Worker .*: No GPU can be used"):
        hdsl.dask.HDSL(**settings_of(device="cuda")).fit(clusters.cut(X), triplets=T)


def test_the_result_is_a_plain_model(threads, tmp_path):
    X, y, _ = data()
    blocks = clusters.cut(X)
    model = hdsl.dask.HDSL(**settings_of()).fit(blocks, y)
    plain = model.local()
    assert type(plain) is hdsl.HDSL
    assert_array_equal(plain.transform(X).toarray(), model.transform(X).toarray())
    model.save(tmp_path / "a.hdsl")
    loaded = hdsl.load(tmp_path / "a.hdsl")
    assert type(loaded) is hdsl.HDSL
    assert_array_equal(loaded.atoms_, model.atoms_)
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    assert_array_equal(again.weights_, model.weights_)


def test_the_use_of_a_model_maps_over_blocks(threads):
    X, y, _ = data()
    blocks = clusters.cut(X)
    model = hdsl.dask.HDSL(**settings_of()).fit(blocks, y)
    parts = [
        da.from_delayed(dask.delayed(b), shape=b.shape, dtype=float, meta=sp.csr_array((0, 0)))
        for b in blocks
    ]
    array = da.concatenate(parts)
    Z = model.transform(array)
    assert Z.chunks[0] == tuple(block.shape[0] for block in blocks)
    assert_array_equal(Z.compute().toarray(), model.transform(X).toarray())
    made = dask.compute(*model.rewrite([dask.delayed(b) for b in blocks]))
    assert_array_equal(sp.vstack(made).toarray(), model.rewrite(X).toarray())
    S = model.similarity(array, X[:4])
    assert_array_equal(S.compute(), model.similarity(X, X[:4]))
    with pytest.raises(ValueError, match="n × n"):
        model.similarity(array)
    for cosine in (False, True):
        found = model.search(X[:6], array, 5, cosine=cosine)
        one = top_k(model.rewrite(X[:6], cosine=cosine), model.index_rows(X, cosine=cosine), 5)
        assert_array_equal(found.rows, one.rows)
        assert_array_equal(found.size, one.size)


def test_neighbour_triplets_are_those_of_one_machine(threads):
    from hdsl.dask.blocks import RowBlocks
    from hdsl.dask.mining import neighbor_blocks

    X, y, _ = data(n=90)
    X = sp.csr_array(np.round(X.toarray(), 1))  # many equal inner products
    rows = RowBlocks(threads, clusters.cut(X, 4), 60.0)
    rows.inspect()
    made = threads.gather(neighbor_blocks(rows, y, None, 3, 4).futures())
    one = neighbor_triplets(X, y, 3, 4)
    assert_array_equal(np.concatenate([part for part, _ in made]), one)
    assert all(weights is None for _, weights in made)


@pytest.mark.parametrize("by", ["triplets_val", "y_val", "held-out triplets", "scoring"])
def test_validation_chooses_the_model(threads, by):
    X, y, T = data()
    params = settings_of(max_iter=20, n_iter_no_change=None, validation_fraction=0.4)
    given, val = {"triplets": T}, {"X_val": X[:30]}
    if by == "triplets_val":
        val["triplets_val"] = T[(T < 30).all(axis=1)]
    elif by == "held-out triplets":
        params["early_stopping"], val = True, {}
        given["sample_weight"] = np.random.default_rng(1).integers(3, size=len(T)).astype(float)
    else:
        given, val["y_val"] = {"y": y}, np.append(y[1:30], 7)  # a label that no row has
        if by == "scoring":
            params["scoring"] = lambda model, X, y: float(model.similarity(X)[0].sum())
    one = hdsl.HDSL(**params).fit(X, **given, **val)
    many = hdsl.dask.HDSL(**params).fit(clusters.cut(X), **given, **val)
    assert_same_path(one, many)
    assert many.validation_score_ == pytest.approx(one.validation_score_)
    along = [model.trace_["validation_score"] for model in (one, many)]
    assert_allclose(*along, rtol=1e-12)


def test_a_path_goes_on(threads):
    X, _, T = data()
    one, many = (
        kind(**settings_of(max_iter=5, warm_start=True)).fit(given, triplets=T)
        for kind, given in ((hdsl.HDSL, X), (hdsl.dask.HDSL, clusters.cut(X)))
    )
    one.fit(X, triplets=T)
    many.fit(clusters.cut(X), triplets=T)
    assert many.n_iter_ == 10
    assert_same_path(one, many)


# --- what is refused -----------------------------------------------------------------------------


def test_one_machine_says_where_to_go():
    X, _, T = data()
    with pytest.raises(TypeError, match=r"hdsl\.dask\.HDSL learns from blocks"):
        hdsl.HDSL().fit(da.from_array(X.toarray()), triplets=T)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"early_stopping": True, "scoring": lambda model, X, y: 0.0}, "pass X_val"),
        ({"n_jobs": 2}, "threads"),
        ({"device": "cuda:1"}, "must be one of 'cpu', 'cuda'"),
        ({"storage": "float32"}, "'storage' .* 'float64'"),
        ({"n_shards": 0}, "n_shards"),
        ({"timeout": 0}, "timeout"),
        ({"mining": lambda X, y, rng: None}, "all rows of X as one matrix"),
        ({"memory_limit": 1e-6}, "each worker needs about .* Use .* workers or more"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(threads, params, message):
    X, y, _ = data()
    with pytest.raises((ValueError, MemoryError), match=message):
        hdsl.dask.HDSL(**settings_of(**params)).fit(clusters.cut(X), y)


def test_bad_data_are_refused_with_their_block(threads):
    X, y, T = data()
    blocks = clusters.cut(X)
    fit = hdsl.dask.HDSL(**settings_of()).fit
    with pytest.raises(ValueError, match="Block 1 of X has 29 features"):
        fit([blocks[0], blocks[1][:, :29]], triplets=T)
    bad = blocks[2].copy()
    bad.data[3] = np.nan
    with pytest.raises(ValueError, match=r"Block 2 of X, which begins at row 40: .*NaN"):
        fit([*blocks[:2], bad], triplets=T)
    with pytest.raises(ValueError, match="names row 60, but X has 60 rows"):
        fit(blocks, triplets=da.from_array(np.array([[0, 1, 2], [0, 1, 60]]), chunks=(1, 3)))
    with pytest.raises(ValueError, match="59 labels"):
        fit(blocks, y[1:])
    with pytest.raises(ValueError, match="2 blocks of columns"):
        fit(da.from_array(X.toarray(), chunks=(20, 15)), y)


def test_without_a_client_a_message_says_so(monkeypatch):
    def nothing():
        raise ValueError("No clients found")

    X, y, _ = data()
    monkeypatch.setattr("distributed.get_client", nothing)
    with pytest.raises(ValueError, match="There is no Dask client"):
        hdsl.dask.HDSL(**settings_of()).fit(clusters.cut(X), y)


def slow_block(block, seconds):
    time.sleep(seconds)
    return block


def test_a_wait_ends_where_nothing_happens(threads):
    from hdsl.dask.blocks import RowBlocks
    from hdsl.dask.team import WorkerLost

    def inspect(*seconds):
        pairs = zip(clusters.cut(data()[0], len(seconds)), seconds, strict=True)
        RowBlocks(threads, [dask.delayed(slow_block)(*pair) for pair in pairs], 0.7).inspect()

    inspect(*[0.4] * 5)  # more than a second in all, but one block after the other
    with pytest.raises(WorkerLost, match=r"The blocks of X were not there within 0\.7 s"):
        inspect(0.0, 3.5)


# --- interrupts, checkpoints, two fits -----------------------------------------------------------


def test_a_line_says_what_went_over_the_wire(threads, capsys):
    X, _, T = data()
    hdsl.dask.HDSL(**settings_of(verbose=1)).fit(clusters.cut(X), triplets=T)
    assert "2 shards on 2 workers, each row held" in capsys.readouterr().err
