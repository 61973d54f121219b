"""Memory that is free in a container: its limit, less what is used and cannot be given back."""

import pytest

from hdsl import memory

MIB = 2**20


def make_group(folder, version, limit, used, cached=0):
    """Write the files of a group of processes."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {1: memory.VERSION_1, 2: memory.VERSION_2}[version]
    for name, value in zip(names, (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    stat = {"anon": used - cached, "inactive_file": cached // 2, "shmem": MIB}
    stat["active_file"] = cached - cached // 2
    if version == 1:
        stat |= {f"total_{name}": size for name, size in stat.items()}
    lines = [f"{name} {size}" for name, size in stat.items()]
    (folder / "memory.stat").write_text("\n".join(lines) + "\n")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return the folder of groups of a made-up machine, whose own file is beside it."""
    root = tmp_path / "groups"
    root.mkdir()
    monkeypatch.setattr(memory, "CGROUPS", root)
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
    return root


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", ["/", "/outer/inner"])
def test_files_that_were_read_are_free_memory(machine, version, path):
    line = {1: f"4:memory:{path}", 2: f"0::{path}"}[version]
    (machine.parent / "own").write_text(f"9:cpu,cpuacct:/x\n{line}\n")
    groups = machine / "memory" if version == 1 else machine
    make_group(groups / path[1:], version, 200 * MIB, 150 * MIB, cached=120 * MIB)
    assert memory.available() == 170 * MIB


@pytest.mark.parametrize("tightest", ["", "a", "a/b", "a/b/c"])
def test_the_tightest_group_around_a_process_counts(machine, tightest):
    (machine.parent / "own").write_text("0::/a/b/c\n")
    for path in ("a", "a/b", "a/b/c"):
        make_group(machine / path, 2, "max", 10 * MIB)
    make_group(machine / tightest, 2, 30 * MIB, 10 * MIB)
    assert memory.available() == 20 * MIB


def test_without_groups_the_machine_says_what_is_free(machine):
    free = memory.available()
    assert free is None or free > 20 * MIB
    (machine.parent / "own").write_text("0::/gone\nnonsense\n")
    make_group(machine, 2, "max", 10 * MIB)
    assert memory.available() is None or memory.available() > 20 * MIB
