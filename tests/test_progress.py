"""What a fit says while it works."""

import io
import sys
import time
from types import SimpleNamespace

import pytest

from hdsl import HDSL, Solver
from hdsl.progress import Progress
from hdsl.settings import nested_parameters
from small_fits import T, X, Y


def said(monkeypatch, **parameters):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    HDSL(**nested_parameters(random_state=0, max_iter=3, **parameters)).fit(X, Y)
    return stream.getvalue()


def test_a_fit_says_what_it_does_chooses_and_learned(monkeypatch):
    assert said(monkeypatch) == ""
    text = said(monkeypatch, verbose=1)
    for word in ("comparisons", "learning", "prior", "iterations", "feature pair"):
        assert word in text


# Before tqdm 4.70 a bar that could not be written complains once more when it goes.
@pytest.mark.filterwarnings("ignore:Exception ignored in. .function tqdm.__del__")
@pytest.mark.parametrize("stream", [None, "closed", "full"])
def test_the_fit_goes_on_without_stderr(monkeypatch, stream):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    if stream is not None:
        stream = Full() if stream == "full" else io.StringIO()
        if not isinstance(stream, Full):
            stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    model = HDSL(prior=1.0, solver=Solver(max_iter=2), verbose=1).fit(X, triplets=T)
    assert model.n_iter_ == 2


class Notebook(io.StringIO):
    """The output of a cell, and what IPython says of it."""

    kernel = None

    def get_ipython(self):
        return self


def open_notebook(monkeypatch):
    """Let IPython have a kernel; return stdout and stderr of the cell."""
    output = Notebook()
    errors = io.StringIO()
    monkeypatch.setitem(sys.modules, "IPython", output)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    return output, errors


def test_a_notebook_has_plain_lines_and_no_red_box(monkeypatch):
    output, errors = open_notebook(monkeypatch)
    HDSL(random_state=0, solver=Solver(max_iter=3), verbose=1).fit(X, Y)
    assert errors.getvalue() == ""
    assert "iterations" in output.getvalue()
    assert "\r" not in output.getvalue()


def test_a_notebook_says_how_far_a_long_stage_is(monkeypatch):
    monkeypatch.setattr("hdsl.progress.LOG_INTERVAL", 0.001)
    output, errors = open_notebook(monkeypatch)
    with Progress(1) as progress:
        progress.stage("learning", 3)
        for _ in progress.each([1, 2]):
            pass
        begin = time.monotonic()
        while "learning: 2 of 3" not in output.getvalue():
            assert time.monotonic() < begin + 60
            progress.stage("learning", 3)
            for _ in progress.each([1, 2]):
                pass
    assert errors.getvalue() == ""


def test_a_terminal_of_ipython_is_no_notebook(monkeypatch):
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert "learning" in said(monkeypatch, verbose=1)


def test_the_bar_follows_the_run():
    with Progress(0) as silent:
        assert silent.follow("learning", 0, 5) is None
        assert list(silent.each([1, 2])) == [1, 2]
        silent.say("nothing")
