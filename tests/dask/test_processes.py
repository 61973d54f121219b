"""Workers that are processes: the same bits on any number, lost workers, a lost scheduler."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
from distributed import Client, LocalCluster

import hdsl.dask
from clusters import QUIET, bytes_of, cut, data, settings_of
from hdsl.dask.cluster import ClusterError
from hdsl.settings import nested_parameters

pytestmark = QUIET


@pytest.fixture(scope="module")
def client():
    """Two workers that are processes; a client that is the current one."""
    with (
        # A worker that is killed twice in so long is otherwise given up for good.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def pids(client):
    """Return the processes of the workers; asked again where one has just died."""
    for _ in range(100):
        try:
            return sorted(client.run(os.getpid).values())
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the workers do not answer")


def test_a_killed_worker_and_fewer_workers_change_no_byte(client, threads, tmp_path):
    """Two threads, two processes, and one of them killed in mid-fit; with an embedding."""
    X, y, _ = data()
    first, *others = cut(X)
    # of the client, and loaded again
    blocks = [first, *(dask.delayed(block) for block in others)]
    Z = np.random.default_rng(0).normal(size=(len(y), 3)) + np.eye(3)[y]
    given = (blocks, [dask.delayed(block) for block in cut(Z)])
    params = settings_of(max_iter=4, embedding_weight=1.0, embedding_scale=8.0)
    whole = hdsl.dask.HDSL(**nested_parameters(**params, client=threads)).fit(given, y)
    assert whole.directions_ is not None
    seen = []

    def kill(state):
        seen.append(state.n_iter)
        if state.n_iter == 2:
            os.kill(pids(client)[0], signal.SIGKILL)

    model = hdsl.dask.HDSL(**nested_parameters(**params, client=client)).fit(
        given, y, callback=kill
    )
    assert seen == sorted(set(seen))  # a callback sees each model once
    assert bytes_of(model, tmp_path) == bytes_of(whole, tmp_path)
    client.wait_for_workers(2, timeout=60)


@pytest.mark.slow
def test_workers_killed_at_any_moment_change_no_byte(client, tmp_path):
    """Twenty kills, from the first task to the last round."""
    X, y, _ = data(n=150, d=60)
    blocks = [dask.delayed(block) for block in cut(X)]
    params = settings_of(max_iter=12)
    begin = time.monotonic()
    whole = bytes_of(
        hdsl.dask.HDSL(**nested_parameters(**params)).fit(blocks, y), tmp_path
    )
    took = time.monotonic() - begin
    rng = np.random.default_rng(0)
    for _ in range(20):
        client.wait_for_workers(2, timeout=60)
        victim = int(rng.choice(pids(client)))
        timer = threading.Timer(took * rng.random(), os.kill, (victim, signal.SIGKILL))
        timer.start()
        model = hdsl.dask.HDSL(**nested_parameters(**params)).fit(blocks, y)
        timer.join()
        assert bytes_of(model, tmp_path) == whole


@pytest.mark.slow
def test_data_that_die_with_a_worker_are_named(client):
    X, _, T = data()
    client.wait_for_workers(2, timeout=60)
    given = client.scatter(cut(X), hash=False)

    def kill(state):
        for pid in pids(client):
            os.kill(pid, signal.SIGKILL)
        time.sleep(1.0)

    with pytest.raises(ClusterError, match="futures"):
        hdsl.dask.HDSL(**nested_parameters(**settings_of())).fit(
            given, triplets=T, callback=kill
        )
    client.wait_for_workers(2, timeout=60)


@pytest.mark.slow
def test_a_killed_scheduler_ends_the_fit_and_keeps_the_checkpoint(
    tmp_path, write_each_iteration
):
    file = tmp_path / "scheduler.json"
    start = [sys.executable, "-m"]
    options = ["--no-dashboard", "--scheduler-file", str(file)]
    X, _, T = data()
    command = [*start, "distributed.cli.dask_scheduler", "--port", "0", *options]
    with subprocess.Popen(command) as scheduler:
        while not file.exists():
            time.sleep(0.1)
        command = [*start, "distributed.cli.dask_worker", "--nthreads", "1", *options]
        with subprocess.Popen([*command, "--death-timeout", "10"]) as worker:
            client = Client(scheduler_file=str(file), set_as_default=False)
            killed = []

            def kill(state):
                if state.n_iter == 5:
                    scheduler.kill()
                    killed.append(time.monotonic())

            params = settings_of(max_iter=30, client=client)
            checkpoint = tmp_path / "run.ckpt"
            client.wait_for_workers(1, timeout=60)
            with pytest.raises((ClusterError, OSError)):
                hdsl.dask.HDSL(**nested_parameters(**params)).fit(
                    cut(X), triplets=T, checkpoint=checkpoint, callback=kill
                )
            assert time.monotonic() - killed[0] < 60.0
            assert checkpoint.exists()
            worker.kill()
            client.close(timeout=1)
