"""Checkpoints: a killed run resumes to the same bytes, and bad files and disks do no harm."""

import copy
import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import hdsl
import killed
from hdsl import HDSL, HDSLCV
from hdsl.files import checkpoint, container
from hdsl.files.checkpoint import Checkpoint, digest

STEPS = ["forward", "away", "pairwise", "blended"]
ORACLES = ["ascent", "heuristic", "exact"]
X, Y = killed.data(60, 40)
TRIPLETS = np.random.default_rng(1).permuted(np.tile(np.arange(60), (200, 1)), axis=1)[:, :3]


class PowerCutError(Exception):
    """Ends a fit as nothing in the library does."""


@pytest.fixture(autouse=True)
def _write_each_iteration(monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "TIME_SHARE", np.inf)


def small(path=None, **parameters):
    return HDSL(**{"max_iter": 40, "tol": 0.0, "random_state": 0, "n_targets": 2,
                   "n_impostors": 2, "checkpoint": path, **parameters})  # fmt: skip


def cut_at(n_iter):
    def callback(state):
        if state.n_iter == n_iter:
            raise PowerCutError

    return callback


def saved(model, path):
    model.set_params(callback=None).save(path)
    return path.read_bytes()


def compare(tmp_path, cuts, learn=None, **parameters):
    """Check that a run with cuts ends in the bytes of one without."""
    learn = {"y": Y} if learn is None else learn
    kept = tmp_path / "run.ckpt"
    whole = saved(small(**parameters).fit(X, **learn), tmp_path / "whole.hdsl")
    for cut in cuts:
        with pytest.raises(PowerCutError):
            small(kept, callback=cut_at(cut), **parameters).fit(X, **learn)
        assert kept.exists()
    seen = []
    end = small(kept, callback=lambda state: seen.append(state.n_iter), **parameters)
    end.fit(X, **learn)
    assert seen[0] == (cuts[-1] if cuts else 0)  # where the last cut was
    assert kept.exists()  # a process may be killed before the model is saved
    assert saved(end, tmp_path / "pieced.hdsl") == whole
    assert not kept.exists()


# --- resuming -------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("step", STEPS)
def test_a_cut_run_ends_in_the_same_bytes(tmp_path, step, oracle):
    # Each pair of step, oracle and batch_size occurs.
    batch_size = [None, 30][(STEPS.index(step) + ORACLES.index(oracle)) % 2]
    compare(tmp_path, [0, 7, 8, 31], step=step, oracle=oracle, batch_size=batch_size)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "logistic", "prior": 0.0, "n_jobs": 2},
        {"step": "forward", "step_size": "2/(k+2)", "mining": "random"},
        {"early_stopping": True, "init": "random"},
        {"early_stopping": True, "n_iter_no_change": 10},
        {"mine_every": 10, "tol": 0.05},
        {"mine_every": 10, "early_stopping": True, "oracle": "exact"},
    ],
    ids=str,
)
def test_a_cut_run_resumes_with_all_it_depends_on(tmp_path, parameters):
    n_iter = len(small(**parameters).fit(X, Y).trace_) - 1
    compare(tmp_path, [n_iter // 4, n_iter // 2, n_iter - 1], **parameters)


@settings(max_examples=15)
@given(
    cuts=st.lists(st.integers(0, 39), max_size=4).map(sorted),
    seed=st.integers(0, 3),
    step=st.sampled_from(STEPS),
    oracle=st.sampled_from(ORACLES),
)
def test_cuts_anywhere_do_not_show(tmp_path_factory, cuts, seed, step, oracle):
    folder = tmp_path_factory.mktemp("cuts")
    compare(folder, cuts, {"triplets": TRIPLETS}, random_state=seed, step=step, oracle=oracle)


def test_a_run_without_a_seed_resumes_with_its_own(tmp_path):
    kept = tmp_path / "run.ckpt"
    parameters = {"random_state": None, "mining": "random", "early_stopping": True}
    with pytest.raises(PowerCutError):
        small(kept, callback=cut_at(30), **parameters).fit(X, Y)
    other = tmp_path / "copy.ckpt"
    other.write_bytes(kept.read_bytes())
    ends = [saved(small(path, **parameters).fit(X, Y), tmp_path / "m") for path in (kept, other)]
    assert ends[0] == ends[1]


def test_terms_beyond_the_memory_limit_are_summed_as_before(tmp_path, monkeypatch):
    # Terms in memory and others are summed in another order; which are which is in the snapshot.
    monkeypatch.setattr("hdsl.backends.cpu.problem.CROSS_TERMS_LIMIT", 300)
    compare(tmp_path, [5, 17, 30], scale=50.0, prior=0.0)


def test_a_warm_start_resumes(tmp_path):
    kept = tmp_path / "run.ckpt"

    def again(**parameters):
        model = small(max_iter=10).fit(X, Y)
        return model.set_params(warm_start=True, max_iter=30, **parameters)

    whole = saved(again().fit(X, Y), tmp_path / "whole")
    with pytest.raises(PowerCutError):
        again(checkpoint=kept, callback=cut_at(25)).fit(X, Y)
    assert saved(again(checkpoint=kept).fit(X, Y), tmp_path / "pieced") == whole
    with pytest.raises(PowerCutError):
        again(checkpoint=kept, callback=cut_at(25)).fit(X, Y)
    with pytest.raises(ValueError, match="other path so far"):
        small(kept, max_iter=30).fit(X, Y)


def test_an_interrupted_run_resumes(tmp_path):
    kept = tmp_path / "run.ckpt"

    def interrupt(state):
        if state.n_iter == 12:
            raise KeyboardInterrupt

    part = small(kept, callback=interrupt).fit(X, Y)
    assert part.status_ == "interrupted"
    assert kept.exists()
    whole = saved(small().fit(X, Y), tmp_path / "whole")
    assert saved(small(kept).fit(X, Y), tmp_path / "pieced") == whole


def test_seconds_go_on_after_a_cut(tmp_path):
    kept = tmp_path / "run.ckpt"
    with pytest.raises(PowerCutError):
        small(kept, callback=cut_at(20)).fit(X, Y)
    seconds = small(kept).fit(X, Y).trace_["seconds"]
    assert (np.diff(seconds) >= 0).all()


# --- killed ---------------------------------------------------------------------------------------


def run_killed(folder, seed, kills, **parameters):
    script = Path(killed.__file__)
    end = subprocess.run(
        [sys.executable, script, folder, str(seed), str(kills), json.dumps(parameters)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 0, end.stderr
    return json.loads(end.stdout)


def test_a_killed_process_loses_nothing(tmp_path):
    end = run_killed(tmp_path, 0, 4, max_iter=300, tol=0.0)
    assert end["same"]
    assert end["killed"] == 4
    assert end["left"] == ["pieced.hdsl", "whole.hdsl"]


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 200])
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_moment(tmp_path, step, oracle, batch_size):
    seed = 100 * STEPS.index(step) + 10 * ORACLES.index(oracle) + (batch_size is None)
    end = run_killed(
        tmp_path, seed, 5, step=step, oracle=oracle, batch_size=batch_size,
        max_iter=300, tol=0.0, early_stopping=True, n_iter_no_change=None,
    )  # fmt: skip
    assert end["same"]
    assert end["killed"] == 5
    assert sum(n_iter > 0 for n_iter in end["resumed"]) >= 2
    assert end["left"] == ["pieced.hdsl", "whole.hdsl"]


# --- whose file it is -----------------------------------------------------------------------------


def test_a_model_may_take_the_place_of_its_checkpoint(tmp_path):
    path = tmp_path / "one.hdsl"
    model = small(path).fit(X, Y)
    assert path.exists()
    model.save(path)
    assert_array_equal(hdsl.load(path).atoms_, model.atoms_)


@pytest.mark.parametrize("is_written", [False, True])
def test_another_file_of_its_name_is_not_deleted(tmp_path, monkeypatch, is_written):
    kept = tmp_path / "run.ckpt"
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0 if is_written else 1000.0)
    model = small(kept).fit(X, Y)
    assert kept.exists() == is_written  # from time to time only
    kept.unlink(missing_ok=True)
    kept.write_text("mine")
    model.save(tmp_path / "model.hdsl")
    assert kept.read_text() == "mine"


def test_another_file_of_its_name_is_not_overwritten(tmp_path):
    kept = tmp_path / "run.ckpt"

    def callback(state):
        if state.n_iter == 10:
            kept.unlink()
            kept.write_text("mine")

    with pytest.warns(UserWarning, match="another file has taken its place") as told:
        model = small(kept, callback=callback).fit(X, Y)
    assert len(told) == 1
    assert model.n_iter_ == 40
    assert kept.read_text() == "mine"


def test_a_copy_of_a_model_deletes_nothing(tmp_path):
    kept = tmp_path / "run.ckpt"
    model = small(kept).fit(X, Y)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        copied.save(tmp_path / "copy.hdsl")
        assert kept.exists()
    model.save(tmp_path / "model.hdsl")
    assert not kept.exists()


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_stays_and_its_checkpoint_goes(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "run.ckpt"
    link.symlink_to(tmp_path / "there" / "run.ckpt")
    model = small(link).fit(X, Y)
    assert (tmp_path / "there" / "run.ckpt").exists()
    model.save(tmp_path / "model.hdsl")
    assert link.is_symlink()
    assert not any((tmp_path / "there").iterdir())


# --- refused --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cut_run(tmp_path_factory):
    """The bytes of the checkpoint of a run with all that one can have."""
    path = tmp_path_factory.mktemp("cut") / "run.ckpt"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PowerCutError):
        patch.setattr(checkpoint, "INTERVAL", 0.0)
        patch.setattr(checkpoint, "TIME_SHARE", np.inf)
        go_on(path, callback=cut_at(20)).fit(X, Y)
    return path.read_bytes()


@pytest.fixture
def kept(tmp_path, cut_run):
    path = tmp_path / "run.ckpt"
    path.write_bytes(cut_run)
    return path


def go_on(kept, **parameters):
    return small(kept, **{"mine_every": 10, "early_stopping": True, **parameters})


def test_other_inputs_are_refused_by_name(kept):
    other, flipped = X.copy(), Y.copy()
    other.data[0] *= 2
    flipped[np.flatnonzero(Y)[0]] = 0
    labels = "other labels, triplets or weights"
    for fragment, data, parameters in [
        (r"run, with max_iter=40 \(now 50\)\. Fit with the inputs", {}, {"max_iter": 50}),
        (r"loss='smoothed_hinge' \(now 'logistic'\); step='away' ", {},
         {"loss": "logistic", "step": "pairwise"}),
        (r"random_state=0 \(now 1\)", {}, {"random_state": 1}),
        (r"scale='auto' \(now 2.5\)", {}, {"scale": np.float64(2.5)}),
        (r"with other X[;.]", {"X": other}, {}),
        (labels, {"y": flipped}, {}),
        (labels, {"sample_weight": np.arange(60) + 1.0}, {}),
        ("other validation rows", {"X_val": X[:20], "y_val": Y[:20]}, {}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=fragment):
            go_on(kept, **parameters).fit(**{"X": X, "y": Y, **data})
    assert kept.exists()


def test_what_the_model_does_not_depend_on_may_change(kept, cut_run):
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    for data, parameters in [
        ((wide, Y), {"n_jobs": 2, "verbose": 0}),
        ((X.tocsc(), Y.astype(np.int32)), {"memory_limit": None}),
        ((X.toarray(), Y), {"n_components": 3}),
    ]:
        kept.write_bytes(cut_run)
        seen = []
        go_on(kept, callback=lambda state, seen=seen: seen.append(state.n_iter),
              **parameters).fit(*data)  # fmt: skip
        assert seen[0] == 20


def test_mining_that_gives_other_triplets_is_refused(tmp_path):
    kept, calls = tmp_path / "run.ckpt", []

    def mining(X, y, rng):
        calls.append(1)
        return TRIPLETS[len(calls) :]

    with pytest.raises(PowerCutError):
        small(kept, mining=mining, callback=cut_at(5)).fit(X, Y)
    with pytest.raises(ValueError, match="gave other triplets than when the run was begun"):
        small(kept, mining=mining).fit(X, Y)


def test_a_model_is_no_checkpoint_and_a_checkpoint_no_model(kept, tmp_path):
    path = tmp_path / "model.hdsl"
    small().fit(X, Y).save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a model, not a checkpoint: name another file"):
        small(path).fit(X, Y)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="checkpoint of a run that did not end"):
        hdsl.load(kept)


@pytest.mark.parametrize(
    ("place", "error", "told"),
    [
        ("none/run.ckpt", FileNotFoundError, "the folder does not exist"),
        ("file/run.ckpt", NotADirectoryError, "is a file"),
        (".", IsADirectoryError, "directory"),
    ],
)
def test_a_bad_place_is_refused_before_the_work(tmp_path, place, error, told):
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=told):
        small(tmp_path / place, mining=no_work).fit(X, Y)


def no_work(X, y, rng):
    raise AssertionError("the work has begun")


@pytest.mark.parametrize("value", [3, True, "", b"run.ckpt"])
def test_what_is_no_path_is_refused(value):
    with pytest.raises(ValueError, match="'checkpoint' parameter of HDSL must be the path"):
        small(value).fit(X, Y)


def test_a_search_of_many_runs_takes_none(tmp_path):
    with pytest.raises(ValueError, match="makes many runs"):
        HDSLCV(estimator=small(tmp_path / "run.ckpt")).fit(X, Y)


# --- damaged, and written by others ---------------------------------------------------------------


def test_a_damaged_file_is_refused(kept, cut_run):
    for part in (b"", cut_run[:5], cut_run[: len(cut_run) // 2], cut_run + b"x"):
        kept.write_bytes(part)
        with pytest.raises(ValueError, match="damaged"):
            go_on(kept).fit(X, Y)


#: Names in the file, and values that no run has.
BAD = [
    ("run.atoms", lambda a: np.full_like(a, 10**6)),
    ("run.weights", lambda a: -a),
    ("run.margins", lambda a: a[:-1]),
    ("run.known", lambda a: a + 10**6),
    ("run.oracle.recent", lambda a: np.array([-1])),
    ("run.counts", lambda a: -a),
    *[("run.counts", lambda a, n=n: np.array([n, *a[1:]])) for n in (2**62, 15, 21)],
    ("run.floats", lambda a: np.full_like(a, np.nan)),
    ("run.random", lambda a: np.frombuffer(b"[" * 10**5, np.uint8)),
    ("run.trace.i", lambda a: np.full_like(a, 10**6, dtype=np.int64)),
    ("begin", lambda a: np.frombuffer(b'{"bit_generator": "MT19937"}', np.uint8)),
    ("stage.size", lambda a: -a),
    ("stage.mined", lambda a: a[::-1]),
    ("stage.triplets", lambda a: a + 10**6),
    ("stage.atoms", lambda a: a[:, :2]),
    ("stage.trace.kind", lambda a: a + 100),
    *[("stage.n_iter", lambda a, n=n: np.array(n)) for n in (9, 11, 10.0, [10, 10])],
    ("scores.n_iter", lambda a: a[::-1]),
    ("scores.best", lambda a: a + 1000),
]


def test_values_that_no_run_has_are_refused(kept):
    arrays, header = container.read(kept)
    changes = [(name, arrays | {name: change(arrays[name])}) for name, change in BAD]
    missing = [(name, {k: v for k, v in arrays.items() if k != name}) for name, _ in BAD]
    for name, changed in changes + missing:
        container.write(kept, changed, header)
        with pytest.raises(ValueError, match=r"The checkpoint '.*run.ckpt' is damaged: .*Delete"):
            go_on(kept).fit(X, Y)
            pytest.fail(f"{name} was let in")


def test_a_model_file_names_no_checkpoint(tmp_path):
    """Nor threads, nor memory: a file does not say what this machine is to do."""
    path = tmp_path / "model.hdsl"
    small().fit(X, Y).save(path)
    arrays, header = container.read(path)
    asked = {
        "checkpoint": str(tmp_path / "theirs"),
        "n_jobs": -1,
        "memory_limit": None,
        "verbose": 1,
    }
    header["params"] |= asked
    container.write(path, arrays, header)
    params = hdsl.load(path).get_params()
    assert {name: params[name] for name in asked} == {
        "checkpoint": None, "n_jobs": None, "memory_limit": "auto", "verbose": 0
    }  # fmt: skip
    assert params["max_iter"] == 40


# --- a bad disk -----------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing_and_is_told_once(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    whole = saved(small().fit(X, Y), tmp_path / "whole")
    monkeypatch.setattr(container.os, "fsync", full)
    with pytest.warns(UserWarning, match="the disk is full") as told:
        model = small(tmp_path / "run.ckpt").fit(X, Y)
    assert len(told) == 1
    assert "goes on without a checkpoint" in str(told[0].message)
    monkeypatch.undo()
    assert saved(model, tmp_path / "pieced") == whole
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pieced", "whole"]


def test_no_memory_to_write_loses_nothing(tmp_path, monkeypatch):
    def none_left(*args, **options):
        raise MemoryError

    monkeypatch.setattr(container, "write", none_left)
    with pytest.warns(UserWarning, match="no memory to write the checkpoint"):
        model = small(tmp_path / "run.ckpt").fit(X, Y)
    assert model.n_iter_ == 40


def test_a_folder_that_becomes_read_only_loses_nothing(lockable, tmp_path):
    folder, lock = lockable
    whole = saved(small().fit(X, Y), tmp_path / "whole")

    def callback(state):
        if state.n_iter == 10:
            lock()

    with pytest.warns(UserWarning, match="no permission to write here") as told:
        model = small(folder / "run.ckpt", callback=callback).fit(X, Y)
    assert len(told) == 1
    assert model.n_iter_ == 40
    os.seteuid(os.getuid())  # as the fixture does: the folder of the test is its user's
    assert saved(model, tmp_path / "pieced") == whole


def test_a_read_only_folder_is_refused_before_the_work(lockable):
    folder, lock = lockable
    lock()
    with pytest.raises(PermissionError, match="no permission to write here"):
        small(folder / "run.ckpt", mining=no_work).fit(X, Y)


def test_a_file_that_goes_away_is_written_again(tmp_path):
    kept, seen = tmp_path / "run.ckpt", []

    def callback(state):
        seen.append(kept.exists())
        kept.unlink(missing_ok=True)

    small(kept, callback=callback).fit(X, Y)
    assert all(seen)


def test_a_change_of_folder_does_not_move_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def callback(state):
        monkeypatch.chdir(elsewhere)
        if state.n_iter == 5:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        small("run.ckpt", callback=callback).fit(X, Y)
    assert (tmp_path / "run.ckpt").exists()
    assert not list(elsewhere.iterdir())


def test_a_file_that_cannot_be_deleted_is_told(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    model = small(tmp_path / "run.ckpt").fit(X, Y)
    monkeypatch.setattr(checkpoint.os, "unlink", refuse)
    with pytest.warns(UserWarning, match=r"run.ckpt' is no longer needed, but could not be delet"):
        model.save(tmp_path / "model")


def test_a_complete_run_stays_until_its_model_is_saved(tmp_path):
    kept = tmp_path / "run.ckpt"
    model = small(kept).fit(X, Y)
    model.at(3).save(tmp_path / "third")  # not the whole path
    assert kept.exists()
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path / "none" / "model")
    assert kept.exists()
    again = small(kept).fit(X, Y)  # as after a crash right after the fit
    assert saved(again, tmp_path / "again") == saved(model, tmp_path / "model")
    assert not kept.exists()
    small(kept).fit(X, Y)
    model.save(tmp_path / "model")  # its own run is forgotten already
    assert kept.exists()


@pytest.mark.parametrize("validation", ["0.2", "0"])
def test_the_command_line_goes_on_after_a_crash(tmp_path, monkeypatch, validation):
    pytest.importorskip("typer")
    from hdsl.__main__ import main

    sp.save_npz(tmp_path / "X.npz", X.tocsr())
    np.save(tmp_path / "y.npy", Y)
    kept = tmp_path / "run.ckpt"

    def run(model, *more):
        command = ["fit", tmp_path / "X.npz", "--labels", tmp_path / "y.npy", "-o",
                   tmp_path / model, "--max-iter", 30, "--validation", validation, "--json",
                   *more]  # fmt: skip
        monkeypatch.setattr(sys, "argv", ["hdsl", *map(str, command)])
        with pytest.raises((PowerCutError, SystemExit)) as end:
            main()
        return not getattr(end.value, "code", 1)

    assert run("whole.hdsl")
    real, rng = HDSL.fit, np.random.default_rng(0)

    def fit(self, *args, **kwargs):
        calls = iter(range(int(rng.integers(1, 15))))

        def callback(state):
            if next(calls, None) is None:
                raise PowerCutError

        self.callback = callback
        return real(self, *args, **kwargs)

    monkeypatch.setattr(HDSL, "fit", fit)
    for _ in range(3):
        assert not run("pieced.hdsl", "--checkpoint", kept)
        assert kept.exists() or kept.with_name("run.ckpt.choosing").exists()
    monkeypatch.setattr(HDSL, "fit", real)
    assert run("pieced.hdsl", "--checkpoint", kept)
    assert (tmp_path / "pieced.hdsl").read_bytes() == (tmp_path / "whole.hdsl").read_bytes()
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["X.npz", "pieced.hdsl", "whole.hdsl", "y.npy"]


# --- its parts ------------------------------------------------------------------------------------


def test_arrays_and_tables_come_back(tmp_path):
    table = np.array([(1.5, "up", 3), (-0.0, "down", 4)], dtype="f8, U8, i8")
    arrays = {"a": np.arange(5.0), "t": table, "t2": np.array(7)}
    first = Checkpoint(tmp_path / "run.ckpt")
    first.check({"name": 1})
    first.write(arrays)
    again = Checkpoint(tmp_path / "run.ckpt")
    again.check({"name": 1})
    assert again.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(again.arrays[name], array)
        assert again.arrays[name].dtype == array.dtype


def test_digests_tell_content_apart():
    texts = np.array(["a", "b"], dtype=object)
    same = [(np.arange(3),), (np.arange(3.0),), (np.arange(3), None), (None, np.arange(3)),
            (sp.csr_array(np.eye(3)),), (sp.csr_array(np.eye(3)[::-1]),), (texts,), (texts[::-1],),
            (np.arange(4).reshape(2, 2),), (np.arange(4),)]  # fmt: skip
    assert len({digest(*parts)["sha256"] for parts in same}) == len(same)
    assert digest(np.eye(3)[::-1]) == digest(np.ascontiguousarray(np.eye(3)[::-1]))
