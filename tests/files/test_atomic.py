"""Files that are replaced as a whole or not at all, whatever happens to the disk or the process."""

import errno
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from hdsl import HDSL, Mining, Solver, report
from hdsl.files.container import read, write

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hdsl"


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize(
    ("call", "raised", "fragment"),
    [
        (
            "fsync",
            OSError(errno.ENOSPC, "", ".tmp"),
            "Cannot write the model: the disk is full",
        ),
        ("replace", PermissionError(errno.EACCES, "", ".tmp"), "no permission"),
        (
            "fsync",
            OSError(errno.EIO, "Input/output error"),
            "the model: Input/output error",
        ),
        ("fsync", KeyboardInterrupt("by hand"), "by hand"),
        ("path.exists", KeyboardInterrupt("early"), "early"),
    ],
    ids=repr,
)
def test_failure_leaves_things_as_they_were(path, monkeypatch, call, raised, fragment):
    def fail(*args):
        raise raised

    write(path, {"x": np.ones(3)}, {"a": 1})
    before = path.read_bytes()
    monkeypatch.setattr(f"os.{call}", fail)
    for target in (path, path.with_name("new.hdsl")):
        with pytest.raises(type(raised), match=fragment) as caught:
            write(target, {"x": np.zeros(3)}, {"a": 2})
        if isinstance(raised, OSError):
            assert (caught.value.errno, caught.value.filename) == (
                raised.errno,
                str(target),
            )
    assert names_in(path.parent) == [path.name]
    assert path.read_bytes() == before


def test_bytes_are_on_the_disk_before_the_name_is(path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        true = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda *args, name=name, true=true: (calls.append(name), true(*args)),
        )
    write(path, {"x": np.ones(3)}, {})
    assert calls == ["fsync", "replace", "fsync"]  # the file, its name, the folder


#: Stops in the middle of writing the file that it is called with.
STOPPED_WRITER = textwrap.dedent("""
    import os, signal, sys
    from hdsl.files.container import write

    path, end, fsync = sys.argv[1], sys.argv[2], os.fsync

    def stop(descriptor):
        os.fsync = fsync
        if end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        print("half", flush=True)
        sys.stdin.read()

    os.fsync = stop
    write(path, {}, {"writer": end})
""")


@posix_only
def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path, monkeypatch):
    import fcntl

    def start(path, end):
        command = [sys.executable, "-c", STOPPED_WRITER, path, end]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def temporary():
        return {name for name in names_in(tmp_path) if name.endswith(".tmp")}

    def no_locks(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "model.hdsl"
    other = tmp_path / "other.hdsl"
    for child in [start(target, "killed") for target in (path, other)]:
        child.communicate()
        assert child.returncode < 0
    dead = temporary()
    assert len(dead) == 2
    with start(path, "alive") as child:
        assert child.stdout.readline() == "half\n"
        alive = temporary() - dead
        of_other = temporary() & dead
        assert (len(alive), len(of_other)) == (
            1,
            1,
        )  # it removed what was left, for its path only
        write(path, {}, {"writer": "this"})
        assert temporary() == alive | of_other
        assert read(path)[1] == {"writer": "this"}
        child.stdin.close()
    assert child.returncode == 0
    assert read(path)[1] == {"writer": "alive"}
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", no_locks)
        write(other, {}, {})
    # Without locks, nobody can tell that its process is dead.
    assert temporary() == of_other
    write(other, {}, {})
    assert names_in(tmp_path) == ["model.hdsl", "other.hdsl"]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("text")
    for path, error, fragment in [
        (tmp_path, IsADirectoryError, "this is a folder"),
        (
            tmp_path / "no" / "model",
            FileNotFoundError,
            "the folder does not exist, create it",
        ),
        (
            tmp_path / "file" / "model",
            NotADirectoryError,
            "its folder is a file",
        ),
    ]:
        with pytest.raises(error, match=fragment) as caught:
            write(path, {}, {})
        assert caught.value.filename == str(path)
    assert names_in(tmp_path) == ["file"]


@posix_only
def test_pipes_are_neither_written_nor_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        OSError, match="Cannot write the model: this is not a regular file"
    ):
        write(pipe, {}, {})
    with pytest.raises(OSError, match=r"this is not a regular file.*pipe"):
        read(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix_only
def test_permissions_are_the_usual_ones_and_stay(path):
    before = os.umask(0o077)
    try:
        write(path, {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for mode in (0o640, 0o444):
        path.chmod(mode)
        write(path, {}, {"a": 1})
        assert stat.S_IMODE(path.stat().st_mode) == mode


@posix_only
def test_a_link_stays_a_link(path):
    (path.parent / "folder").mkdir()
    path.symlink_to(Path("folder") / "target.hdsl")
    write(path, {}, {"a": 1})
    assert path.is_symlink()
    assert read(path.parent / "folder" / "target.hdsl")[1] == {"a": 1}


@posix_only
@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("a\0b", "the file name has a null character"),
        ("n" * 300, "the file name is too long"),
    ],
    ids=["null", "long"],
)
def test_impossible_names_are_refused_before_any_work(
    tmp_path, monkeypatch, name, fragment
):
    X = np.eye(4)
    y = [0, 0, 1, 1]
    model = HDSL(
        mining=Mining(n_targets=1, n_impostors=1), solver=Solver(max_iter=2, tol=1.0)
    ).fit(X, y)
    for path in (name, str(tmp_path / name), tmp_path / name):
        with pytest.raises(OSError, match=f"Cannot write the model: {fragment}"):
            model.save(path)
        with monkeypatch.context() as patch:
            patch.setattr(
                report, "page", lambda *_, **__: pytest.fail("the page is made")
            )
            with pytest.raises(OSError, match=f"Cannot write the report: {fragment}"):
                model.report(path)
        with pytest.raises(OSError, match=f"Cannot write the checkpoint: {fragment}"):
            HDSL(mining=lambda *_: pytest.fail("triplets are made")).fit(
                X, y, checkpoint=path
            )
    assert not names_in(tmp_path)
