"""Workers that are processes: versions, interrupts, checkpoints, two fits, lost workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
from distributed import Client, LocalCluster

import clusters
import hdsl
import hdsl.dask
from clusters import bytes_of, data, settings_of

pytestmark = [
    # Dask's scheduler, a thread of this process, chooses workers by the `random` module.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


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


# --- versions ------------------------------------------------------------------------------------


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


# --- interrupts, checkpoints, two fits -----------------------------------------------------------


def n_members():
    """Return the members that a worker process still has."""
    import gc

    from hdsl.dask.member import MEMBERS

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
