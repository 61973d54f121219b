"""Checkpoints: a killed run resumes to the same bytes, and bad files and disks do no harm."""

import copy
import errno
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import hdsl
import killed
from hdsl import HDSL
from hdsl.files import checkpoint, container
from hdsl.files.checkpoint import Checkpoint, digest
from small_fits import ORACLES, STEPS, as_quadruplets

X, Y = killed.data(60, 40)
TRIPLETS = np.random.default_rng(1).permuted(np.tile(np.arange(60), (200, 1)), axis=1)[:, :3]
QUADRUPLETS = as_quadruplets(TRIPLETS)[:, [0, 1, 3, 2]]


class PowerCutError(Exception):
    """Ends a fit as nothing in the library does."""


@pytest.fixture(autouse=True, scope="module")
def _write_each_iteration():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "INTERVAL", 0.0)
        patch.setattr(checkpoint, "TIME_SHARE", np.inf)
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of the model of `small`."""
    return saved(small().fit(X, Y), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def cut_run(tmp_path_factory):
    """The bytes of a checkpoint of `full`, at iteration 20."""
    path = tmp_path_factory.mktemp("cut") / "run.ckpt"
    cut(full(path), 20)
    return path.read_bytes()


@pytest.fixture
def cut_path(path, cut_run):
    path.write_bytes(cut_run)
    return path


def small(path=None, **parameters):
    return HDSL(**{"max_iter": 30, "tol": 0.0, "random_state": 0, "n_targets": 2,
                   "n_impostors": 2, "checkpoint": path, **parameters})  # fmt: skip


def full(path, **parameters):
    """A model whose checkpoint has all that one can have."""
    return small(path, **{"mine_every": 10, "early_stopping": True, **parameters})


def raising(error):
    def fail(*args, **options):
        raise error

    return fail


def at(n_iter, act):
    """A callback that acts at an iteration."""
    return lambda state: act() if state.n_iter == n_iter else None


def cut(model, n_iter, data=(X, Y), **learn):
    """Fit until a power cut."""
    model.set_params(callback=at(n_iter, raising(PowerCutError())))
    with pytest.raises(PowerCutError):
        model.fit(*data, **learn)


def resumed_at(model, data=(X, Y), **learn):
    """Fit, and return the first iteration."""
    seen = []
    model.set_params(callback=lambda state: seen.append(state.n_iter)).fit(*data, **learn)
    return seen[0]


def saved(model, folder):
    model.set_params(callback=None).save(folder / "model.hdsl")
    return (folder / "model.hdsl").read_bytes()


def compare(tmp_path, cuts, learn=None, **parameters):
    """Check that a run with cuts ends in the bytes of one without."""
    path, learn = tmp_path / "run.ckpt", {"y": Y} if learn is None else learn
    whole = saved(small(**parameters).fit(X, **learn), tmp_path)
    for n_iter in cuts:
        cut(small(path, **parameters), n_iter, (X,), **learn)
        assert path.exists()
    model = small(path, **parameters)
    assert resumed_at(model, (X,), **learn) == (cuts[-1] if cuts else 0)
    assert path.exists()  # a process may be killed before the model is saved
    assert saved(model, tmp_path) == whole
    assert not path.exists()


# --- resuming -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "logistic", "prior": 0.0, "n_jobs": 2},
        {"step": "forward", "step_size": "2/(k+2)", "mining": "random", "batch_size": 30},
        {"early_stopping": True, "init": "random", "step": "blended"},
        {"early_stopping": True, "n_iter_no_change": 10, "oracle": "heuristic"},
        {"mine_every": 10, "tol": 0.05, "step": "pairwise", "class_centers": "classes"},
        {"mine_every": 10, "early_stopping": True, "oracle": "exact"},
        {"objective": "classification", "landmarks": 12, "early_stopping": True},
    ],
    ids=str,
)
def test_a_cut_run_resumes_with_all_it_depends_on(tmp_path, parameters):
    n_iter = len(small(**parameters).fit(X, Y).trace_) - 1
    compare(tmp_path, [n_iter // 4, n_iter // 2, n_iter - 1], **parameters)


@settings(max_examples=20)
@given(
    cuts=st.lists(st.integers(0, 29), max_size=4).map(sorted),
    seed=st.integers(0, 3),
    step=st.sampled_from(STEPS),
    oracle=st.sampled_from(ORACLES),
    batch_size=st.sampled_from([None, 30]),
    early_stopping=st.booleans(),
    learn=st.sampled_from([{"triplets": TRIPLETS}, {"quadruplets": QUADRUPLETS}]),
)
def test_a_run_with_cuts_anywhere_ends_in_the_same_bytes(
    tmp_path_factory, cuts, seed, learn, **parameters
):
    folder = tmp_path_factory.mktemp("cuts")
    compare(folder, cuts, learn, random_state=seed, n_iter_no_change=None, **parameters)


def test_a_run_without_a_seed_resumes_with_its_own(tmp_path, path):
    parameters = {"random_state": None, "mining": "random", "early_stopping": True}
    cut(small(path, **parameters), 20)
    other = tmp_path / "copy.ckpt"
    other.write_bytes(path.read_bytes())
    ends = [saved(small(each, **parameters).fit(X, Y), tmp_path) for each in (path, other)]
    assert ends[0] == ends[1]


def test_terms_beyond_the_memory_limit_are_summed_as_before(tmp_path, monkeypatch):
    # Terms in memory and others are summed in another order; which are which is in the snapshot.
    monkeypatch.setattr("hdsl.cpu.cross_terms.CROSS_TERMS_LIMIT", 300)
    compare(tmp_path, [5, 17, 25], scale=50.0, prior=0.0)


def test_a_warm_start_resumes(tmp_path, path):
    def again(**parameters):
        model = small(max_iter=10).fit(X, Y)
        return model.set_params(warm_start=True, max_iter=20, **parameters)

    whole = saved(again().fit(X, Y), tmp_path)
    cut(again(checkpoint=path), 25)
    with pytest.raises(ValueError, match="other path so far"):
        small(path, max_iter=20).fit(X, Y)
    assert saved(again(checkpoint=path).fit(X, Y), tmp_path) == whole


def test_an_interrupted_run_resumes(tmp_path, path, whole):
    part = small(path, callback=at(12, raising(KeyboardInterrupt()))).fit(X, Y)
    assert part.status_ == "interrupted"
    assert path.exists()
    model = small(path).fit(X, Y)
    assert (np.diff(model.trace_["seconds"]) >= 0).all()
    assert saved(model, tmp_path) == whole


# --- killed ---------------------------------------------------------------------------------------


def run_killed(folder, seed, kills, **parameters):
    command = [sys.executable, killed.__file__, folder, str(seed), str(kills)]
    end = subprocess.run([*command, json.dumps(parameters)], capture_output=True, check=False)
    assert end.returncode == 0, end.stderr
    end = json.loads(end.stdout)
    assert end["same"]
    assert end["killed"] == kills
    assert end["left"] == ["pieced.hdsl", "whole.hdsl"]
    return end["resumed"]


def test_a_killed_process_loses_nothing(tmp_path):
    run_killed(tmp_path, 0, 3, max_iter=150, tol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 200])
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_moment(tmp_path, step, oracle, batch_size):
    seed = 100 * STEPS.index(step) + 10 * ORACLES.index(oracle) + (batch_size is None)
    resumed = run_killed(
        tmp_path, seed, 5, step=step, oracle=oracle, batch_size=batch_size,
        max_iter=300, tol=0.0, early_stopping=True, n_iter_no_change=None,
    )  # fmt: skip
    assert sum(n_iter > 0 for n_iter in resumed) >= 2


# --- which file is deleted ------------------------------------------------------------------------


def test_a_model_may_replace_its_checkpoint(path):
    model = small(path).fit(X, Y)
    assert path.exists()
    model.save(path)
    assert_array_equal(hdsl.load(path).atoms_, model.atoms_)


@pytest.mark.parametrize("is_written", [False, True])
def test_another_file_of_its_name_is_not_deleted(tmp_path, path, monkeypatch, is_written):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0 if is_written else 1000.0)
    model = small(path).fit(X, Y)
    assert path.exists() == is_written  # from time to time only
    path.unlink(missing_ok=True)
    path.write_text("mine")
    saved(model, tmp_path)
    assert path.read_text() == "mine"


def test_another_file_of_its_name_is_not_overwritten(path):
    def replace():
        path.unlink()
        path.write_text("mine")

    with pytest.warns(UserWarning, match="another file has taken its place") as caught:
        model = small(path, callback=at(10, replace)).fit(X, Y)
    assert len(caught) == 1
    assert model.n_iter_ == 30
    assert path.read_text() == "mine"


def test_a_copy_of_a_model_deletes_nothing(tmp_path, path):
    model = small(path).fit(X, Y)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        saved(copied, tmp_path)
        assert path.exists()
    saved(model, tmp_path)
    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_stays_and_its_checkpoint_is_deleted(tmp_path, path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path.symlink_to(folder / "run.ckpt")
    model = small(path).fit(X, Y)
    assert (folder / "run.ckpt").exists()
    saved(model, tmp_path)
    assert path.is_symlink()
    assert not any(folder.iterdir())


def test_a_checkpoint_stays_until_the_whole_model_is_saved(tmp_path, path):
    model = small(path).fit(X, Y)
    model.at(3).save(tmp_path / "third")
    assert path.exists()
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path / "none" / "model")
    assert path.exists()
    again = small(path).fit(X, Y)  # as after a crash right after the fit
    assert saved(again, tmp_path) == saved(model, tmp_path)
    assert not path.exists()
    small(path).fit(X, Y)
    saved(model, tmp_path)  # its own checkpoint is deleted already
    assert path.exists()


def test_a_file_that_cannot_be_deleted_gives_a_warning(tmp_path, path, monkeypatch):
    model = small(path).fit(X, Y)
    monkeypatch.setattr(os, "unlink", raising(PermissionError(errno.EPERM, "Not permitted")))
    with pytest.warns(UserWarning, match=r"run.ckpt' is no longer needed, but could not be delet"):
        saved(model, tmp_path)


# --- refused --------------------------------------------------------------------------------------


def test_other_inputs_are_refused_by_name(cut_path):
    other, flipped = X.copy(), Y.copy()
    other.data[0] *= -1
    flipped[np.flatnonzero(Y)[0]] = 0
    labels = "other labels, triplets or weights"
    for fragment, data, parameters in [
        (r"run, with max_iter=30 \(now 50\)\. Fit with the inputs", {}, {"max_iter": 50}),
        (r"loss='smoothed_hinge' \(now 'logistic'\); step='away' ", {},
         {"loss": "logistic", "step": "pairwise"}),
        (r"random_state=0 \(now 1\)", {}, {"random_state": 1}),
        (r"scale='auto' \(now 2.5\)", {}, {"scale": np.float64(2.5)}),
        (r"with other X[;.]", {"X": other}, {}),
        (labels, {"y": flipped}, {}),
        (labels, {"sample_weight": np.arange(60) + 1.0}, {}),
        (labels, {"y": None, "quadruplets": QUADRUPLETS}, {}),
        ("other validation rows", {"X_val": X[:20], "y_val": Y[:20]}, {}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=fragment):
            full(cut_path, **parameters).fit(**{"X": X, "y": Y, **data})
    assert cut_path.exists()


def test_what_the_model_does_not_depend_on_may_change(cut_path, cut_run):
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    for data, parameters in [
        ((wide, Y), {"n_jobs": 2, "verbose": 0}),
        ((X.tocsc(), Y.astype(np.int32)), {"memory_limit": None}),
        ((X.toarray(), Y), {"n_components": 3}),
        ((X * 2, Y), {}),  # rows are compared at unit length
    ]:
        cut_path.write_bytes(cut_run)
        assert resumed_at(full(cut_path, **parameters), data) == 20


def test_mining_that_gives_other_triplets_is_refused(path):
    calls = []

    def mining(X, y, rng):
        calls.append(1)
        return TRIPLETS[len(calls) :]

    cut(small(path, mining=mining), 5)
    with pytest.raises(ValueError, match="gave other triplets than when the run began"):
        small(path, mining=mining).fit(X, Y)


def test_a_model_is_no_checkpoint_and_a_checkpoint_no_model(cut_path, tmp_path, whole):
    path = tmp_path / "model.hdsl"
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="is a model, not a checkpoint: name another file"):
        small(path).fit(X, Y)
    assert path.read_bytes() == whole
    with pytest.raises(ValueError, match="checkpoint of a run that did not end"):
        hdsl.load(cut_path)


def test_bad_paths_are_refused_before_the_work(tmp_path, lockable):
    folder, lock = lockable
    no_work = raising(AssertionError("the work has begun"))
    no_path = "'checkpoint' parameter of HDSL must be the path"
    for path, error, fragment in [
        (tmp_path / "none" / "run.ckpt", FileNotFoundError, "the folder does not exist"),
        (__file__ + "/run.ckpt", NotADirectoryError, "is a file"),
        (tmp_path, IsADirectoryError, "directory"),
        *[(value, ValueError, no_path) for value in (3, True, "", b"run.ckpt")],
    ]:
        with pytest.raises(error, match=fragment):
            small(path, mining=no_work).fit(X, Y)
    lock()
    with pytest.raises(PermissionError, match="the checkpoint: no permission to write here"):
        small(folder / "run.ckpt", mining=no_work).fit(X, Y)


def test_a_damaged_file_is_refused(cut_path, cut_run):
    for part in (b"", cut_run[:5], cut_run[: len(cut_run) // 2], cut_run + b"x"):
        cut_path.write_bytes(part)
        with pytest.raises(ValueError, match="damaged"):
            full(cut_path).fit(X, Y)


#: Names in the file, and values that no run has.
BAD = [
    ("run.atoms", lambda a: np.full_like(a, 10**6)),
    ("run.weights", lambda a: -a),
    ("run.problem.margins", lambda a: a[:-1]),
    ("run.problem.known", lambda a: a + 10**6),
    ("run.checker.counts", lambda a: a[:2]),
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


#: The same for a run with the exact oracle.
BAD_EXACT = [
    ("run.oracle.base.w", lambda a: a[:-1]),
    ("run.oracle.last.w", lambda a: a.astype(np.float32)),
    ("run.oracle.value", lambda a: a[1:]),
    ("run.oracle.base_value", lambda a: a[:, None]),
    ("run.oracle.counts", lambda a: a.astype(float)),
]


def assert_damage_is_refused(model, path, bad):
    arrays, header = container.read(path)
    changes = [(name, arrays | {name: change(arrays[name])}) for name, change in bad]
    missing = [(name, {k: v for k, v in arrays.items() if k != name}) for name, _ in bad]
    for name, changed in changes + missing:
        print(name)  # shown if the test fails
        container.write(path, changed, header)
        with pytest.raises(ValueError, match=r"The checkpoint '.*run.ckpt' is damaged: .*Delete"):
            model.fit(X, Y)


def test_values_that_no_run_has_are_refused(cut_path, path):
    assert_damage_is_refused(full(cut_path), cut_path, BAD)
    path.unlink()
    cut(small(path, oracle="exact"), 20)
    assert_damage_is_refused(small(path, oracle="exact"), path, BAD_EXACT)


def test_a_model_file_does_not_say_what_this_machine_is_to_do(tmp_path, whole):
    path = tmp_path / "model.hdsl"
    path.write_bytes(whole)
    arrays, header = container.read(path)
    used = {"checkpoint": None, "n_jobs": None, "memory_limit": "auto", "verbose": 0}
    header["params"] |= {"checkpoint": "theirs", "n_jobs": -1, "memory_limit": None, "verbose": 1}
    container.write(path, arrays, header)
    params = hdsl.load(path).get_params()
    assert {name: params[name] for name in used} == used
    assert params["max_iter"] == 30


# --- a bad disk -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "call", "error", "fragment"),
    [
        (os, "fsync", OSError(errno.ENOSPC, "No space left"), "the disk is full"),
        (container, "write", MemoryError(), "no memory to write the checkpoint"),
    ],
)
def test_a_failed_write_loses_nothing_and_warns_once(
    tmp_path, path, monkeypatch, whole, owner, call, error, fragment
):
    with monkeypatch.context() as patch:
        patch.setattr(owner, call, raising(error))
        with pytest.warns(UserWarning, match=f"{fragment}.*goes on without") as caught:
            model = small(path).fit(X, Y)
    assert len(caught) == 1
    assert list(tmp_path.iterdir()) == []
    assert saved(model, tmp_path) == whole


def test_a_folder_that_becomes_read_only_loses_nothing(lockable, tmp_path, whole):
    folder, lock = lockable
    with pytest.warns(UserWarning, match="no permission to write here") as caught:
        model = small(folder / "run.ckpt", callback=at(10, lock)).fit(X, Y)
    assert len(caught) == 1
    os.seteuid(os.getuid())  # as the fixture does: the folder of the test is its user's
    assert saved(model, tmp_path) == whole


def test_a_file_that_goes_away_is_written_again(path):
    seen = []

    def callback(state):
        seen.append(path.exists())
        path.unlink(missing_ok=True)

    small(path, callback=callback).fit(X, Y)
    assert all(seen)


def test_a_change_of_folder_does_not_move_the_file(tmp_path, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    small("run.ckpt", callback=at(3, lambda: monkeypatch.chdir(elsewhere))).fit(X, Y)
    assert path.exists()
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("validation", ["0.2", "0"])
def test_the_command_line_resumes_after_a_crash(tmp_path, monkeypatch, validation, path):
    pytest.importorskip("typer")
    from hdsl.__main__ import main

    sp.save_npz(tmp_path / "X.npz", X.tocsr())
    np.save(tmp_path / "y.npy", Y)

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
        assert not run("pieced.hdsl", "--checkpoint", path)
        assert path.exists() or path.with_name("run.ckpt.choosing").exists()
    monkeypatch.setattr(HDSL, "fit", real)
    assert run("pieced.hdsl", "--checkpoint", path)
    assert (tmp_path / "pieced.hdsl").read_bytes() == (tmp_path / "whole.hdsl").read_bytes()
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["X.npz", "pieced.hdsl", "whole.hdsl", "y.npy"]


# --- its parts ------------------------------------------------------------------------------------


def test_arrays_and_tables_come_back(path):
    table = np.array([(1.5, "up", 3), (-0.0, "down", 4)], dtype="f8, U8, i8")
    arrays = {"a": np.arange(5.0), "t": table, "t2": np.array(7)}
    first = Checkpoint(path)
    first.check({"name": 1})
    first.write(arrays)
    again = Checkpoint(path)
    again.check({"name": 1})
    assert again.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(again.arrays[name], array, strict=True)


def test_digests_tell_content_apart():
    texts = np.array(["a", "b"], dtype=object)
    same = [(np.arange(3),), (np.arange(3.0),), (np.arange(3), None), (None, np.arange(3)),
            (sp.csr_array(np.eye(3)),), (sp.csr_array(np.eye(3)[::-1]),), (texts,), (texts[::-1],),
            (np.arange(4).reshape(2, 2),), (np.arange(4),)]  # fmt: skip
    assert len({digest(*parts)["sha256"] for parts in same}) == len(same)
    assert digest(np.eye(3)[::-1]) == digest(np.ascontiguousarray(np.eye(3)[::-1]))
