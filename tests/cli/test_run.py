"""The end of a command: exit codes, warnings, interrupts, and what is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import LABELLED, bad, good, hdsl, texts, write_csv
from hdsl import HDSL, load, saving
from hdsl.cli import files, output
from hdsl.files import checkpoint


def test_a_bug_is_reported_as_one(folder, monkeypatch):
    def fail(*arguments):
        raise KeyError("secret")

    monkeypatch.setattr(files, "load_collection", fail)
    message = bad("search", folder / "model.hdsl", "goal", code=1)
    assert "this should not have happened: KeyError: 'secret'" in message
    assert "--debug" in message
    with pytest.raises(KeyError):
        hdsl("--debug", "search", folder / "model.hdsl", "goal")


def test_warnings_are_one_line_each(tmp_path):
    rows = [*texts(30), ("x", "alone", "a rose and a goal, the profit of many people")]
    path = write_csv(tmp_path / "t.csv", rows)
    result = good("fit", path, *LABELLED, "--max-iter", 5, "-o", tmp_path / "m.hdsl")
    assert result.stderr.startswith("hdsl: warning: ")
    lines = result.stderr.splitlines()
    assert all(line.startswith("hdsl: warning: ") for line in lines)
    assert len(lines) == len(set(lines))


def test_one_file_is_not_both_model_and_checkpoint(folder, tmp_path):
    out = tmp_path / "model.hdsl"
    try:
        out.symlink_to(tmp_path / "run")
    except OSError:
        pytest.skip("links need rights here")
    message = bad(
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "-o",
        out,
        "--checkpoint",
        tmp_path / "run",
    )
    assert "both the model and the checkpoint" in message


def test_the_checkpoint_is_deleted_when_the_model_is_written(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr("hdsl.solver.loop.restart_every", lambda rule: 1)
    seen = []
    save = saving.save

    def look_and_save(*arguments):
        seen.extend(file.name for file in tmp_path.iterdir())
        save(*arguments)

    monkeypatch.setattr(saving, "save", look_and_save)
    command = [
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "--max-iter",
        9,
        "-o",
        tmp_path / "m.hdsl",
    ]
    good(*command, "--checkpoint", tmp_path / "run")
    assert seen == ["run"]
    assert [file.name for file in tmp_path.iterdir()] == ["m.hdsl"]


@pytest.fixture
def interrupt_at_1(monkeypatch):
    """Send SIGINT at iteration 1 of each fit."""

    def fit(model, *rows, **arguments):
        def callback(state):
            if state.n_iter == 1:
                signal.raise_signal(signal.SIGINT)

        whole_fit(model, *rows, **arguments, callback=callback)

    whole_fit = HDSL.fit
    monkeypatch.setattr(HDSL, "fit", fit)
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


def test_ctrl_c_saves_the_model_so_far(folder, tmp_path, interrupt_at_1):
    out = tmp_path / "m.hdsl"
    ended = hdsl("fit", folder / "texts.csv", *LABELLED, "--tol", "0", "-o", out)
    assert ended.exit_code == 130, ended.output
    model = load(out).learned
    assert model.status_ == "interrupted"
    assert f"interrupted after {model.n_iter_} iterations" in ended.stderr
    assert "Strongest pairs" in ended.stdout
    assert load(out).documents.n_rows == 90


@pytest.mark.skipif(os.name == "nt", reason="no such shell there")
def test_exit_codes_of_a_process(tmp_path):
    commands = {
        "info": (0, ""),
        "info >&-": (0, ""),
        "fit nowhere.csv": (2, "hdsl: There is no file nowhere.csv.\n"),
    }
    if Path("/dev/full").exists():
        commands["info >/dev/full"] = (2, "hdsl: No space left on device.\n")
    for command, wanted in commands.items():
        ended = subprocess.run(
            ["sh", "-c", f'"$0" -m hdsl {command}', sys.executable],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert (ended.returncode, ended.stderr) == wanted, command


def test_what_nobody_reads_does_not_go_to_stdout(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr", None)
    output.say("the model does not know a word")
    assert not capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="no such pipes there")
def test_a_closed_pipe_is_quiet():
    read, write = os.pipe()
    os.close(read)  # as `| head -0` does
    ended = subprocess.run(
        [sys.executable, "-m", "hdsl", "info"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")
