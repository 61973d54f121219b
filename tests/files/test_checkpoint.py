"""Checkpoints: a run that is cut ends in the same bytes; nothing is lost, nothing mistaken."""

import copy
import errno
import json
import os
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import hdsl
import killed
from hdsl import HDSL
from hdsl.files import checkpoint, container
from hdsl.files.checkpoint import Checkpoint
from hdsl.settings import nested_parameters


@pytest.fixture(autouse=True, scope="module")
def write_at_every_fifth_iteration():
    """Let runs rest often, and write the checkpoint at each rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hdsl.solver.loop.restart_every", lambda rule: 5)
        patch.setattr(checkpoint, "INTERVAL", 0.0)
        patch.setattr(checkpoint, "TIME_SHARE", float("inf"))
        yield


RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = sp.csr_array(
    (RNG.random((60, 20)) < 0.2) * RNG.random((60, 20)) + np.eye(20)[Y] * 0.3
)


class PowerCutError(BaseException):
    """The process ends here."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


def small(**parameters):
    return HDSL(
        **nested_parameters(
            **{
                "max_iter": 18,
                "tol": 0.0,
                "random_state": 0,
                "n_targets": 2,
                "scale": 2.0,
                "n_impostors": 2,
                "prior": 1.0,
                "step": "away",
                **parameters,
            }
        )
    )


def cut(model, path, n_iter, rows=X):
    """Fit until a power cut at an iteration."""

    def callback(state):
        if state.n_iter == n_iter:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        model.fit(rows, Y, checkpoint=path, callback=callback)


def saved(model, folder):
    model.save(folder / "model.hdsl")
    return (folder / "model.hdsl").read_bytes()


@pytest.fixture(scope="module")
def cut_run(tmp_path_factory):
    """Return the bytes of the checkpoint of a run that was cut."""
    path = tmp_path_factory.mktemp("cut") / "run.ckpt"
    cut(small(), path, 13)
    return path.read_bytes()


@pytest.fixture
def cut_path(path, cut_run):
    path.write_bytes(cut_run)
    return path


# --- resuming -------------------------------------------------------------------------


def test_a_cut_run_goes_on_with_the_weight_of_its_embedding(tmp_path, path):
    rows = (X, RNG.random((60, 4)).astype(np.float32) + np.eye(4)[Y].astype(np.float32))
    whole = small().fit(rows, Y)
    cut(small(), path, 13, rows)
    resumed = small().fit(rows, Y, checkpoint=path)
    assert resumed.embedding_weight_ == whole.embedding_weight_
    assert saved(resumed, tmp_path) == saved(whole, tmp_path)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "logistic", "prior": 0.0, "n_jobs": 2},
        {"step": "forward", "mining": "random", "batch_size": 30},
        {"step": "blended", "init": "random", "oracle": "heuristic"},
    ],
)
def test_a_cut_run_ends_in_the_same_bytes(tmp_path, path, parameters):
    whole = saved(small(**parameters).fit(X, Y), tmp_path)
    for n_iter in (8, 13):
        cut(small(**parameters), path, n_iter)
        assert path.exists()
    seen = []
    model = small(**parameters)
    model.fit(X, Y, checkpoint=path, callback=lambda state: seen.append(state.n_iter))
    assert seen[0] > 0  # it does not start again
    assert path.exists()  # a process may be killed before the model is saved
    assert saved(model, tmp_path) == whole
    assert not path.exists()


def test_a_loss_with_other_parameters_is_another_run(path):
    cut(small(loss=Curved(1.0)), path, 8)
    with pytest.raises(ValueError, match="loss"):
        small(loss=Curved(0.5)).fit(X, Y, checkpoint=path)
    small(loss=Curved(1.0)).fit(X, Y, checkpoint=path)


class Curved:
    """A loss with a parameter."""

    __slots__ = ("width",)

    def __init__(self, width):
        self.width = width

    def value(self, margin):
        return self.width * np.logaddexp(0.0, -margin / self.width)

    def derivative(self, margin):
        return -1.0 / (1.0 + np.exp(margin / self.width))

    def curvature(self, margin):
        slope = self.derivative(margin)
        return -slope * (1.0 + slope) / self.width


@pytest.mark.filterwarnings("ignore:Nothing is learned")
def test_a_choice_is_not_made_twice(tmp_path, path):
    parameters = {"prior": "auto", "step": "corrective", "max_iter": 18}
    whole = saved(small(**parameters).fit(X, Y), tmp_path)
    model = small(**parameters).fit(X, Y, checkpoint=path)
    assert saved(model, tmp_path) == whole


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_a_killed_process_loses_nothing(tmp_path):
    parameters = json.dumps({"step": "away", "prior": 1.0, "tol": 0.0, "max_iter": 200})
    ended = subprocess.run(
        [sys.executable, killed.__file__, tmp_path, "0", "3", parameters],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(ended.stdout)
    assert report["same"]
    assert report["left"] == ["pieced.hdsl", "whole.hdsl"]


# --- the file -------------------------------------------------------------------------


def test_arrays_and_tables_come_back(path):
    rng = np.random.default_rng(3)
    table = np.array([(1, "up")], dtype=[("n", "i8"), ("kind", "U8")])
    run = Checkpoint(path)
    inputs = {"scale": 1.0, "sizes": (1, 2)}
    assert run.arrays is None
    run.begin(rng, inputs)
    run.write({"a": np.arange(3), "steps": table})
    drawn = rng.random(3)
    other = np.random.default_rng(9)
    again = Checkpoint(path)
    again.begin(other, inputs)
    assert_array_equal(other.random(3), drawn)  # from where the run began
    assert_array_equal(again.arrays["a"], np.arange(3))
    assert again.arrays["steps"].tolist() == table.tolist()


def test_other_inputs_are_refused_by_name(cut_path):
    for changes, name in (({"max_iter": 50}, "max_iter=18"), ({"scale": 3.0}, "scale")):
        with pytest.raises(ValueError, match=name):
            small(**changes).fit(X, Y, checkpoint=cut_path)
    with pytest.raises(ValueError, match="other X"):
        small().fit(sp.csr_array(X[:, ::-1]), Y, checkpoint=cut_path)
    with pytest.raises(ValueError, match="labels"):
        small().fit(X, Y[::-1].copy(), checkpoint=cut_path)
    small(n_jobs=2, verbose=0).fit(X, Y, checkpoint=cut_path, memory_limit=None)


def test_a_model_is_no_checkpoint_and_a_checkpoint_no_model(cut_path, tmp_path):
    with pytest.raises(ValueError, match="checkpoint of a run that did not end"):
        hdsl.load(cut_path)
    small().fit(X, Y).save(tmp_path / "m.hdsl")
    with pytest.raises(ValueError, match="is a model"):
        small().fit(X, Y, checkpoint=tmp_path / "m.hdsl")


def test_a_damaged_checkpoint_is_refused(cut_path, cut_run):
    for k in np.random.default_rng(0).integers(len(cut_run), size=20).tolist():
        cut_path.write_bytes(cut_run[:k] + bytes([cut_run[k] ^ 4]) + cut_run[k + 1 :])
        with pytest.raises(ValueError, match=r"run\.ckpt"):
            small().fit(X, Y, checkpoint=cut_path)


def test_values_that_no_run_has_are_refused(cut_path):
    arrays, header = container.read(cut_path)
    for name in [name for name in arrays if name.startswith(("run.", "begin", "size"))]:
        for damage in (arrays[name][:0], arrays[name].astype(np.float32), None):
            changed = {k: v for k, v in arrays.items() if k != name}
            container.write(
                cut_path, changed | ({} if damage is None else {name: damage}), header
            )
            with suppress(ValueError):  # some values mean the same in another dtype
                small().fit(X, Y, checkpoint=cut_path)
    for position in (0, 1):  # the scale, the prior
        numbers = arrays["size"].copy()
        numbers[position] = 1e308
        container.write(cut_path, arrays | {"size": numbers}, header)
        with pytest.raises(ValueError, match=r"run\.ckpt"):
            small().fit(X, Y, checkpoint=cut_path)


def test_bad_paths_are_refused_before_the_work(tmp_path, lockable):
    folder, lock = lockable
    lock()
    for path in (
        tmp_path / "none" / "run",
        tmp_path,
        folder / "run",
        tmp_path / ("n" * 300),
    ):
        with pytest.raises(OSError, match=r"run|folder|directory|name"):
            Checkpoint(path)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "the disk is full"), MemoryError()]
)
def test_a_failed_write_loses_nothing_and_warns_once(
    path, tmp_path, monkeypatch, error
):
    whole = saved(small().fit(X, Y), tmp_path)

    def fail(*args, **options):
        raise error

    monkeypatch.setattr(container, "write", fail)
    with pytest.warns(UserWarning, match="continues without a checkpoint") as caught:
        model = small().fit(X, Y, checkpoint=path)
    assert len([w for w in caught if "checkpoint" in str(w.message)]) == 1
    monkeypatch.undo()
    assert saved(model, tmp_path) == whole


def test_another_file_of_its_name_is_neither_overwritten_nor_deleted(path):
    run = Checkpoint(path)
    run.write({})
    path.unlink()
    path.write_text("my own")
    with pytest.raises(FileExistsError):
        run.write({})
    run.file.remove()
    assert path.read_text() == "my own"


def test_a_copy_of_a_model_deletes_nothing(tmp_path, path):
    model = small().fit(X, Y, checkpoint=path)
    copy.deepcopy(model).save(tmp_path / "copy.hdsl")
    assert path.exists()
    model.save(tmp_path / "model.hdsl")
    assert not path.exists()


def test_an_interrupt_writes_what_was_not_due(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 1e9)

    def interrupt(state):
        if state.n_iter == 7:
            raise KeyboardInterrupt

    parameters = {"prior": 1.0, "step": "away", "max_iter": 9, "random_state": 0}
    HDSL(**nested_parameters(**parameters)).fit(
        X, Y, checkpoint=path, callback=interrupt
    )
    assert path.exists()


def test_arrays_are_made_when_they_are_written(path, monkeypatch):
    """A rest that is not due costs nothing; the last one is written at the end."""
    monkeypatch.setattr(checkpoint, "INTERVAL", 1e9)
    kept = Checkpoint(path)
    kept.begin(np.random.default_rng(0), {})
    written = []

    def arrays(k):
        written.append(k)
        return {"number": np.array([k])}

    for k in range(5):
        kept.write_if_due(lambda k=k: arrays(k))
    assert written == []
    assert not path.exists()
    kept.flush()
    kept.flush()
    assert written == [4]
    assert Checkpoint(path).arrays["number"] == 4
