"""What a fit says while it works."""

import io
import sys

import pytest

from hdsl import HDSL
from hdsl.progress import Progress
from small_fits import T, X, Y


def said(monkeypatch, **parameters):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    HDSL(random_state=0, max_iter=3, **parameters).fit(X, Y)
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
    model = HDSL(prior=1.0, max_iter=2, verbose=1).fit(X, triplets=T)
    assert model.n_iter_ == 2


def test_the_bar_follows_the_run():
    with Progress(0) as silent:
        assert silent.follow("learning", 0, 5) is None
        assert list(silent.each([1, 2])) == [1, 2]
        silent.say("nothing")
