"""Compiled kernels on disk: what is loaded is what was saved, whoever else reads and writes."""

import ast
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config

from hdsl.cpu.kernels import losses as kernel_losses
from hdsl.cpu.kernels.cache import KernelFiles
from hdsl.cpu.kernels.compiler import JIT_IS_OFF, kernel
from hdsl.cpu.kernels.team import new_board
from hdsl.solver import losses

KEYS = [("int64", "cpu"), ("float64", "cpu"), ("float64", "another cpu")]


@pytest.fixture
def files(tmp_path):
    return KernelFiles(tmp_path, "module.kernel-1.py311", "version")


def test_each_signature_has_its_own_code(files):
    assert [files.load(key) for key in KEYS] == [None] * 3
    for number, key in enumerate(KEYS):
        files.save(key, number)
    assert [files.load(key) for key in KEYS] == [0, 1, 2]


def test_processes_that_save_at_once_do_not_mix_their_code(tmp_path, monkeypatch, files):
    """The other process looks and saves at the worst moment: just before our file has its name."""
    other = KernelFiles(tmp_path, "module.kernel-1.py311", "version")

    def replace(source, target, replace=os.replace):
        monkeypatch.undo()
        assert other.load(KEYS[0]) is None
        other.save(KEYS[1], "theirs")
        other.save(KEYS[0], "the same, compiled by them")
        replace(source, target)

    monkeypatch.setattr("os.replace", replace)
    files.save(KEYS[0], "ours")
    for each in files, other:
        assert [each.load(key) for key in KEYS] == ["ours", "theirs", None]


def test_files_of_another_version_are_not_read_and_go(tmp_path, files):
    newer = KernelFiles(tmp_path, "module.kernel-1.py311", "newer version")
    neighbour = KernelFiles(tmp_path, "module.kernel-1.py312", "version")
    files.save(KEYS[0], "old")
    neighbour.save(KEYS[0], "of another Python")
    assert newer.load(KEYS[0]) is None
    newer.save(KEYS[0], "new")
    assert (newer.load(KEYS[0]), files.load(KEYS[0])) == ("new", None)
    assert neighbour.load(KEYS[0]) == "of another Python"
    assert len(list(tmp_path.iterdir())) == 2


@given(data=st.data())
def test_damaged_files_are_compiled_again(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("kernels")
    files = KernelFiles(folder, "kernel", "version")
    files.save(KEYS[0], list(range(50)))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    path.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
    assert files.load(KEYS[0]) is None
    path.write_bytes(whole[:place])
    assert files.load(KEYS[0]) is None
    path.write_bytes(whole)
    assert files.load(KEYS[0]) == list(range(50))


def test_what_another_version_of_a_library_wrote_is_compiled_again(monkeypatch, files):
    files.save(KEYS[0], "code")
    monkeypatch.setattr(pickle, "loads", lambda content: 1 / 0)
    assert files.load(KEYS[0]) is None


@pytest.mark.parametrize("call", ["pathlib.Path.write_bytes", "os.replace"])
def test_a_full_disk_costs_the_file_and_not_the_work(tmp_path, monkeypatch, files, call):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(call, fail)
    files.save(KEYS[0], "code")
    assert files.load(KEYS[0]) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(JIT_IS_OFF, reason="nothing is compiled")
def test_settings_of_numba_have_files_of_their_own(monkeypatch, tmp_path):
    """A run that checks bounds neither loads what others compiled, nor leaves them its own."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    board = new_board(1)

    def n_files(checked):
        monkeypatch.setattr(config, "BOUNDSCHECK", checked)
        compiled = kernel()(first_of)
        assert compiled(board) == 0
        return len(list(tmp_path.rglob("*.nbc"))), compiled.stats.cache_hits

    found = [n_files(checked) for checked in (None, 1, None, 1)]
    assert found == [(1, {}), (2, {}), (2, found[2][1]), (2, found[3][1])]
    assert found[2][1]
    assert found[3][1]


def first_of(board):
    return board[0, 0]


def test_what_is_compiled_depends_on_the_folder_of_the_kernels_alone():
    """Other modules are not part of the name of a file, so no number of theirs may be compiled."""
    assert kernel_losses.TAIL == losses.EXPONENTIAL_TAIL
    for path in Path(kernel_losses.__file__).parent.glob("*.py"):
        outside = [
            f"{node.module}.{alias.name}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.level > 1
            for alias in node.names
        ]
        assert set(outside) <= {"core.losses"}, path  # for the names of the losses
