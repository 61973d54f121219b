"""The fit on a Dask cluster: the path of one machine, the same bytes anywhere, lost workers."""

import inspect
import os
import pickle
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster

import clusters
import hdsl
import hdsl.dask
import runs
import test_conformance as conformance
from devices import DEVICES, Emulator
from hdsl.backends.cpu.kernels.gradient import list_reaching
from hdsl.backends.cpu.layout import CPULayout
from hdsl.backends.cpu.workers import Workers
from hdsl.backends.dask.building import chosen_shards, group_anchors
from hdsl.backends.dask.folding import fold, total
from hdsl.core import losses
from hdsl.core.oracle import ORACLES
from hdsl.core.steps import RULES
from hdsl.search import top_k
from hdsl.triplets import neighbor_triplets
from pairwise import pairwise

pytestmark = [
    # Dask's scheduler, a thread of this process, chooses workers by the `random` module.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


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
    assert_array_equal(one.atoms_, other.atoms_)
    assert (one.status_, one.n_iter_, one.n_triplets_) == (
        other.status_, other.n_iter_, other.n_triplets_,
    )  # fmt: skip
    assert other.objective_ == pytest.approx(one.objective_, abs=1e-9)
    assert_allclose(other.trace_["objective"], one.trace_["objective"], atol=1e-9)


@pytest.fixture(scope="module")
def client():
    """Two workers that are processes; a client that is the current one."""
    with (
        # A worker that is killed twice in so long is otherwise given up for good.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def threads():
    """Two workers that are threads of this process: quick, for what needs no processes."""
    client = clusters.threads()
    with client.as_current():
        yield client


# --- sums and places -----------------------------------------------------------------------------


@given(st.integers(1, 20), st.data())
def test_sums_do_not_depend_on_where_shards_are(n_shards, data):
    values = np.random.default_rng(n_shards).normal(size=(n_shards, 3)) * 10.0 ** np.arange(3)
    parts = {(0, k): values[k] for k in range(n_shards)}
    owner = data.draw(st.lists(st.integers(0, 3), min_size=n_shards, max_size=n_shards))
    sent = {}
    for worker in set(owner):
        sent |= fold({(0, k): parts[0, k] for k in range(n_shards) if owner[k] == worker}, n_shards)
    assert len(sent) <= n_shards
    assert_array_equal(total(sent, n_shards), total(parts, n_shards))
    assert_allclose(total(sent, n_shards), values.sum(axis=0), rtol=1e-12, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 20), st.booleans())
def test_a_part_of_some_rows_of_S(seed, m, common):
    """Entries of listed columns are those of whole rows; bounds hold; none that is best is lost."""
    rng = np.random.default_rng(seed)
    X, _, compared = data(n=40, d=30, seed=seed)
    if common:
        X = sp.csr_array(X.toarray() + (rng.random(X.shape) < 0.5))
    problem = CPULayout(X, compared, workers=Workers(1)).problem(losses.get("logistic"), 1.0)
    gradient = problem.gradient(problem.margins(np.array([[0, 1, 1]]), np.ones(1)))
    d = problem.n_features
    features, columns = rng.integers(d, size=m), np.flatnonzero(rng.random(d) < 0.5)
    whole = np.vstack([gradient.rows(features[k : k + 8]) for k in range(0, m, 8)])
    spread, peak = gradient.spread(features)
    assert_allclose(gradient.rows_at(spread, m, columns), whole[:, columns].T, atol=1e-12)
    sizes = gradient.rows_of_x.column_sizes
    assert (np.abs(whole) <= peak[:, None] * sizes + 1e-12).all()
    values = gradient.diagonal + np.abs(whole)
    floor, out = values[:, :5].max(axis=1), np.empty(d - 5, dtype=np.int64)
    listed = out[: list_reaching(5, gradient.diagonal, sizes, peak, floor, out)].tolist()
    expected = np.flatnonzero(
        (gradient.diagonal + np.multiply.outer(peak, sizes) >= floor[:, None]).any(axis=0)
    )
    assert listed == expected[expected >= 5].tolist()
    assert set(np.flatnonzero((values > floor[:, None]).any(axis=0))) <= {*range(5), *listed}


def test_a_missing_shard_is_no_sum():
    with pytest.raises(ValueError, match="3 shards"):
        total({(0, 0): 1.0, (0, 2): 1.0}, 3)


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


# --- the problem ---------------------------------------------------------------------------------


CONFORMANCE = {
    name: test
    for name, test in vars(conformance).items()
    if name.startswith("test_") and "layout" in inspect.signature(test).parameters
}


@pytest.mark.parametrize("name", CONFORMANCE)
def test_conformance(name, monkeypatch):
    """The tests of every machine, with fewer random examples."""
    test = CONFORMANCE[name]
    known = {"layout": clusters.cluster_layout, "monkeypatch": monkeypatch}
    for mark in test.pytestmark:  # of other parameters the first value
        if mark.name == "parametrize" and mark.args[0] != "layout":
            known[mark.args[0]] = next(iter(mark.args[1]))
    wanted = inspect.signature(test).parameters.keys() & known.keys()
    known = {name: known[name] for name in wanted}
    if not hasattr(test, "hypothesis"):
        test(**known)
        return

    drawn = {
        "after": st.booleans(),
        "count": st.integers(0, 13),
        "factor": st.floats(0.01, 100.0),
    }
    wanted = inspect.signature(test.hypothesis.inner_test).parameters.keys() & drawn.keys()
    drawn = st.fixed_dictionaries({name: drawn[name] for name in sorted(wanted)})

    @settings(max_examples=4)
    @given(data=st.data(), others=drawn)
    def check(data, others):
        test.hypothesis.inner_test(**known, **others, data=data)

    check()


@pytest.mark.parametrize(
    ("n_shards", "oracle", "rule", "loss", "batch_size", "weighted", "prior", "width"),
    pairwise(
        [2, 5], sorted(ORACLES), sorted(RULES), conformance.ALL_LOSSES, [None, 12], [False, True],
        [0.0, 0.3], [3, 4],
    ),
)  # fmt: skip
def test_the_path_is_that_of_one_machine(
    n_shards, oracle, rule, loss, batch_size, weighted, prior, width
):
    """On one or two workers the same to the last bit, also when it goes on from a snapshot."""
    run = partial(
        runs.run_in_parts, oracle=oracle, rule=rule, loss=loss, batch_size=batch_size,
        weighted=weighted, prior=prior, width=width, max_iter=6 if rule == "corrective" else 10,
    )  # fmt: skip
    shards, taken = partial(clusters.cluster_layout, n_shards=n_shards), []
    two = run(partial(shards, n_workers=2), save=lambda take: taken.append(take()))
    runs.assert_same_path(run(partial(CPULayout, workers=Workers(1))), two)
    runs.assert_same_run(run(partial(shards, n_workers=1)), two)
    runs.assert_same_run(run(shards, latest=taken[min(4, len(taken) - 1)]), two)


@pytest.mark.parametrize("width", [3, 4])
def test_second_derivatives_are_estimated_as_on_one_machine(monkeypatch, width):
    """From a sample of the same comparisons, also where some shard has none of them."""
    monkeypatch.setattr("hdsl.backends.cpu.corrective.CURVATURE_SAMPLE", 8)
    params = {"oracle": "ascent", "rule": "corrective", "loss": "logistic", "batch_size": None}
    run = partial(
        runs.run_in_parts, **params, weighted=width == 3, prior=0.3, width=width, max_iter=5
    )
    one = run(partial(CPULayout, workers=Workers(1)))
    runs.assert_same_path(one, run(partial(clusters.cluster_layout, n_shards=5)))


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
    ("kind", "supervision", "norm", "batch_size"),
    pairwise(
        ["array", "delayed", "futures", "blocks", "whole"],
        ["triplets", "dask triplets", "quadruplets", "labels", "weighted labels", "random"],
        ["l2", None],
        [None, 30],
    ),
)
def test_fit_is_that_of_one_machine(threads, kind, supervision, norm, batch_size):
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
    monkeypatch.setattr("hdsl.backends.cuda.runtime.get_device", lambda name: Emulator())
    weights = np.random.default_rng(1).integers(3, size=len(T)).astype(float)
    params = settings_of(batch_size=batch_size, step=step)
    one = hdsl.HDSL(**params).fit(X, triplets=T, sample_weight=weights)
    many = hdsl.dask.HDSL(**params, device="cuda", n_shards=2)
    many.fit(clusters.cut(X), triplets=T, sample_weight=weights)
    assert_same_path(one, many)


def test_a_worker_without_a_gpu_is_named(threads, monkeypatch):
    from hdsl.backends.cuda.runtime import DeviceError

    def nothing(name):
        raise DeviceError("No GPU can be used")

    X, _, T = data()
    monkeypatch.setattr("hdsl.backends.cuda.runtime.get_device", nothing)
    with pytest.raises(RuntimeError, match=r"Worker .*: No GPU can be used"):
        hdsl.dask.HDSL(**settings_of(device="cuda")).fit(clusters.cut(X), triplets=T)


def test_the_result_is_a_plain_model(client, tmp_path):
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


def test_the_use_of_a_model_maps_over_blocks(client):
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


def test_a_path_goes_on(client):
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


@pytest.mark.parametrize("name", ["python", "numpy", "numba", "hdsl"])
def test_versions_that_differ_are_refused_by_name(client, monkeypatch, name):
    from hdsl.dask import cluster

    X, y, _ = data()
    real = cluster.version
    monkeypatch.setattr(cluster, "version", lambda of: "0.1" if of == name else real(of))
    if name == "python":
        monkeypatch.setattr(cluster.platform, "python_version", lambda: "0.1")
    with pytest.raises(RuntimeError, match=rf"has {name} .*, the client has 0\.1"):
        hdsl.dask.HDSL(**settings_of()).fit(clusters.cut(X), y)


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
    from hdsl.backends.dask.team import WorkerLost
    from hdsl.dask.blocks import RowBlocks

    def inspect(*seconds):
        pairs = zip(clusters.cut(data()[0], len(seconds)), seconds, strict=True)
        RowBlocks(threads, [dask.delayed(slow_block)(*pair) for pair in pairs], 0.7).inspect()

    inspect(*[0.4] * 5)  # more than a second in all, but one block after the other
    with pytest.raises(WorkerLost, match=r"The blocks of X were not there within 0\.7 s"):
        inspect(0.0, 3.5)


# --- interrupts, checkpoints, two fits -----------------------------------------------------------


def n_members():
    """Return the members that a worker process still has."""
    import gc

    from hdsl.backends.dask.member import MEMBERS

    gc.collect()
    return len(MEMBERS)


def assert_clean(client):
    """Workers hold nothing of a fit that is over; Dask tells them within a moment."""
    end = time.monotonic() + 20.0
    while any(client.run(n_members).values()):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def interruptible():
    """Let Ctrl-C work: a job in the background ignores it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


def test_an_interrupt_leaves_the_model_so_far_and_clean_workers(client, interruptible):
    X, _, T = data()

    def interrupt(state):
        if state.n_iter == 4:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

    model = hdsl.dask.HDSL(**settings_of(callback=interrupt)).fit(clusters.cut(X), triplets=T)
    assert model.status_ == "interrupted"
    assert model.n_iter_ in (4, 5)
    assert_clean(client)


def test_an_interrupt_in_a_round_leaves_the_model_so_far(client, interruptible):
    X, _, T = data()
    begun = threading.Event()

    def press():
        begun.wait(60)
        time.sleep(0.15)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()

    def follow(state):
        if state.n_iter == 2:
            begun.set()

    params = settings_of(max_iter=2000, tol=0.0, callback=follow)
    model = hdsl.dask.HDSL(**params).fit(clusters.cut(X), triplets=T)
    thread.join()
    assert model.status_ == "interrupted"
    assert model.n_iter_ > 0
    assert_clean(client)


def fail_and_resume(folder, blocks, given, nth=1, **params):
    """Return the bytes of a fit, and of one that fails when it is at iteration 7 the nth time."""
    params, seen = settings_of(max_iter=8, **params), []

    def fail(state):
        seen.append(state.n_iter)
        if seen.count(7) == nth:
            raise RuntimeError("lights out")

    whole = hdsl.dask.HDSL(**params).fit(blocks, **given)
    params["checkpoint"] = folder / "run.ckpt"
    with pytest.raises(RuntimeError, match="lights out"):
        hdsl.dask.HDSL(**params, callback=fail).fit(blocks, **given)
    resumed = hdsl.dask.HDSL(**params).fit(blocks, **given)
    assert (folder / "run.ckpt").exists()  # until the model itself is saved
    return bytes_of(whole, folder), bytes_of(resumed, folder)


def test_a_checkpoint_resumes_to_the_same_bytes(client, tmp_path, write_each_iteration):
    X, _, T = data()
    blocks, given = clusters.cut(X), {"triplets": T}
    whole, resumed = fail_and_resume(tmp_path, blocks, given)
    assert resumed == whole
    assert_clean(client)
    model = hdsl.dask.HDSL(**settings_of(max_iter=8, checkpoint=tmp_path / "run.ckpt"))
    with pytest.raises(ValueError, match="other X"):
        model.fit([2.0 * blocks[0], *blocks[1:]], **given)


@pytest.mark.parametrize(
    ("nth", "params"),
    [(1, {"mine_every": 4, "step": "corrective"}), (2, {"early_stopping": True})],
    ids=["mined again", "refit"],
)
def test_a_checkpoint_of_several_stages(threads, tmp_path, write_each_iteration, nth, params):
    X, y, _ = data()
    whole, resumed = fail_and_resume(tmp_path, clusters.cut(X), {"y": y}, nth, **params)
    assert resumed == whole


def test_two_fits_share_a_cluster(client, tmp_path):
    X, _, T = data()
    blocks, found = clusters.cut(X), {}
    alone = [
        hdsl.dask.HDSL(**settings_of(scale=scale, client=client)).fit(blocks, triplets=T)
        for scale in (5.0, 9.0)
    ]

    def fit(scale):
        params = settings_of(scale=scale, client=client)
        found[scale] = hdsl.dask.HDSL(**params).fit(blocks, triplets=T)

    both = [threading.Thread(target=fit, args=(scale,)) for scale in (5.0, 9.0)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    for model, scale in zip(alone, (5.0, 9.0), strict=True):
        assert bytes_of(found[scale], tmp_path) == bytes_of(model, tmp_path)


def test_a_line_says_what_went_over_the_wire(threads, capsys):
    X, _, T = data()
    hdsl.dask.HDSL(**settings_of(verbose=1)).fit(clusters.cut(X), triplets=T)
    assert "2 shards on 2 workers, each row held" in capsys.readouterr().err


# --- lost workers --------------------------------------------------------------------------------


def pids(client):
    """Return the processes of the workers; asked again where one has just died."""
    for _ in range(100):
        try:
            return sorted(client.run(os.getpid).values())
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the workers do not answer")


def test_a_killed_worker_changes_no_byte(client, tmp_path):
    X, y, _ = data()
    first, *others = clusters.cut(X)
    given = [first, *(dask.delayed(block) for block in others)]  # of the client, and loaded again
    params = settings_of(step="corrective", mine_every=4)  # the victim dies after both
    whole = hdsl.dask.HDSL(**params).fit(given, y)
    seen = []

    def kill(state):
        seen.append(state.n_iter)
        if state.n_iter == 7:
            os.kill(pids(client)[0], signal.SIGKILL)

    model = hdsl.dask.HDSL(**params, callback=kill).fit(given, y)
    assert model.cluster_["n_lost"] == 1
    assert seen == sorted(set(seen))  # a callback sees each model once
    assert bytes_of(model.set_params(callback=None), tmp_path) == bytes_of(whole, tmp_path)
    client.wait_for_workers(2, timeout=60)


@pytest.mark.slow
def test_workers_killed_at_any_moment_change_no_byte(client, tmp_path):
    """Twenty kills, from the first task to the last round."""
    X, y, _ = data(n=150, d=60)
    blocks = [dask.delayed(block) for block in clusters.cut(X)]
    params = settings_of(max_iter=40, timeout=60.0, mine_every=15, early_stopping=True)
    begin = time.monotonic()
    whole = bytes_of(hdsl.dask.HDSL(**params).fit(blocks, y), tmp_path)
    took, rng, n_lost = time.monotonic() - begin, np.random.default_rng(0), 0
    for _ in range(20):
        client.wait_for_workers(2, timeout=60)
        victim = int(rng.choice(pids(client)))
        timer = threading.Timer(took * rng.random(), os.kill, (victim, signal.SIGKILL))
        timer.start()
        model = hdsl.dask.HDSL(**params).fit(blocks, y)
        timer.join()
        n_lost += model.cluster_["n_lost"]
        assert bytes_of(model, tmp_path) == whole
    assert n_lost > 0
