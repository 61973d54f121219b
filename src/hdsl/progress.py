"""The progress of a fit or a grid: a live line in a terminal or notebook, lines in a log."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self, TextIO

import numpy as np

from .solver import atoms as atoms_module

if TYPE_CHECKING:
    from .hdsl import HDSL
    from .local import LocalHDSL
    from .monitor import Monitor
    from .solver.loop import State

#: Seconds between two updates of a live line.
LIVE_EVERY = 0.2

#: Seconds between two lines of a log, by `verbose`.
LOG_EVERY = {1: 10.0, 2: 1.0}

#: Columns where the terminal does not say, and the fewest columns for the long words.
WIDTH, WIDE = 80, 120

#: The time left is estimated from this many last updates.
RECENT = 20

#: Part of a line: long words, short words, value.
Part = tuple[str, str, object]


def fitted(parts: Iterable[Part], width: int) -> str:
    """Return one line of less than `width` columns, in long words where they fit.

    Examples
    --------
    >>> parts = [("iteration {}", "{}", "10/500"), ("objective {}", "obj {}", 0.25)]
    >>> fitted(parts, width=120)
    'iteration 10/500  objective 0.25'
    >>> fitted(parts, width=80)
    '10/500  obj 0.25'
    """
    long, short = zip(*((a.format(value), b.format(value)) for a, b, value in parts), strict=True)
    lines = [] if width < WIDE else ["  ".join(long)]
    lines += ["  ".join(short), " ".join(short)]
    return next((line for line in lines if len(line) < width), lines[-1][: width - 1])


def bar(share: float) -> str:
    """Return the share that is done as a bar.

    Examples
    --------
    >>> bar(0.35)
    '[###.......]'
    """
    done = int(10 * share)
    return f"[{'#' * done}{'.' * (10 - done)}]"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits its size.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.04, 1.26, 75, 600, 9000)]
    ['0.0 s', '1.3 s', '75 s', '10 min', '2.5 h']
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


class Line:
    """A line about work in progress, rewritten in place in a terminal or a notebook.

    Elsewhere it becomes a few plain lines of a log. Everything goes to stderr, as stdout is for
    results. Where stderr is closed or full, the line ends and the work goes on.

    Parameters
    ----------
    log_every : float
        Seconds between two lines of a log.

    Attributes
    ----------
    is_live : bool
        Whether the line is rewritten in place.
    """

    def __init__(self, log_every: float) -> None:
        self._stream: TextIO | None = sys.stderr
        self._handle: Any = None
        self._length, self._due = 0, -np.inf
        # Lines of several threads or processes would overwrite each other.
        alone = (
            threading.current_thread() is threading.main_thread()
            and multiprocessing.parent_process() is None
        )
        self._display = _notebook_display() if alone else None
        self._in_place = self._display is None and alone and _is_terminal(self._stream)
        self.is_live = self._display is not None or self._in_place
        self._every = LIVE_EVERY if self.is_live else log_every

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()

    @property
    def is_due(self) -> bool:
        """Whether it is time for an update."""
        return time.perf_counter() >= self._due

    @property
    def width(self) -> int:
        """The number of columns."""
        if not self._in_place or self._stream is None:
            return WIDTH
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def show(self, text: str) -> None:
        """Replace the line by `text`, which has less than `width` columns."""
        self._due = time.perf_counter() + self._every
        if self._display is not None:
            bundle = {"text/plain": text}
            if self._handle is None:
                self._handle = self._display(bundle, raw=True, display_id=True)
            else:
                self._handle.update(bundle, raw=True)
        elif self._in_place:
            self._write("\r" + text.ljust(self._length))
            self._length = len(text)
        else:
            self._write(text + "\n")

    def end(self, text: str | None = None) -> None:
        """Leave `text`, or the current line, and begin a new line after it."""
        if text is not None:
            self.show(text)
        if self._length:
            self._write("\n")
            self._length = 0

    def _write(self, text: str) -> None:
        if self._stream is None:  # a program without a console
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a full disk, a closed pipe, a closed stream
            self._stream = None


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


def _notebook_display() -> Callable[..., Any] | None:
    """Return IPython's display function in a notebook, which has loaded IPython already."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found]

    return display


class _Report:
    """A line about a piece of work; nothing where `verbose` is 0."""

    def __init__(self, verbose: int, log_every: float) -> None:
        self._line = Line(log_every) if verbose > 0 else None
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._line is not None:
            self._line.end()

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    def _end(self, text: str) -> None:
        if self._line is not None:
            self._line.end(text[: self._line.width - 1])


class Progress(_Report):
    """The progress of one fit.

    Parameters
    ----------
    verbose : int
        0 shows nothing. 1 shows a live line, or a line every 10 seconds in a log. 2 makes it every
        second there.
    """

    def __init__(self, verbose: int) -> None:
        super().__init__(verbose, LOG_EVERY.get(int(verbose), LOG_EVERY[2]))
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._limit = 0
        self._scores: Monitor | None = None

    def follow(self, limit: int, scores: Monitor | None) -> Callable[[State], None] | None:
        """Return a callback for a run up to iteration `limit`; None where nothing is shown."""
        self._limit, self._scores = limit, scores
        return None if self._line is None else self._update

    def _update(self, state: State) -> None:
        assert self._line is not None
        if not self._line.is_due:
            return
        text = fitted(self._parts(state), self._line.width)
        with_bar = f"{bar(state.n_iter / self._limit)} {text}"
        fits = self._line.is_live and len(with_bar) < self._line.width
        self._line.show(with_bar if fits else text)

    def _parts(self, state: State) -> list[Part]:
        score = np.nan if self._scores is None else self._scores.last_score
        n_atoms, n_features = self._sizes(state)
        parts: list[Part] = [
            ("iteration {}", "{}", f"{state.n_iter}/{self._limit}"),
            ("objective {:.4g}", "obj {:.4g}", state.objective),
            ("gap {:.1e}", "gap {:.1e}", state.gap),
            ("atoms {}", "atoms {}", n_atoms),
            ("features {}", "feat {}", n_features),
            ("validation {:.4f}", "val {:.4f}", score),
            ("at most {} left", "<{} left", self._time_left(state.n_iter)),
        ]
        return [part for part in parts if part[2] == part[2] and part[2] is not None]  # not NaN

    def _sizes(self, state: Any) -> tuple[int, int]:
        """Return the numbers of atoms and of features that they use."""
        return len(state.weights), state.active.n_features()

    def _time_left(self, n_iter: int) -> str | None:
        """Return the time to the limit at the recent rate: steps slow down as atoms add up."""
        now = time.perf_counter()
        self._recent.append((now, n_iter))
        then, n_then = self._recent[0]
        if n_iter == n_then:
            return None
        return duration((now - then) / (n_iter - n_then) * (self._limit - n_iter))

    def end(self, model: Any) -> None:
        """Leave a line about the fitted model."""
        found = f"objective {model.objective_:.4g}"
        if hasattr(model, "validation_score_"):
            found = f"best at {model.n_iter_}: validation {model.validation_score_:.4f}"
        n_iter = len(model.trace_) - 1
        self._end(
            f"{n_iter} iteration{_s(n_iter)} in {duration(self._seconds)} ({model.status_}), "
            f"{found}, {self._learned(model)}"
        )

    def _learned(self, model: Any) -> str:
        return f"{len(model.weights_)} atom{_s(len(model.weights_))}"


class LocalProgress(Progress):
    """The progress of one fit with regions; atoms and features are those of all parts."""

    def _sizes(self, state: Any) -> tuple[int, int]:
        atoms = np.concatenate([own.atoms for own in state.active])
        return len(atoms), atoms_module.n_features(atoms)

    def _learned(self, model: Any) -> str:
        n, n_local = model.n_regions_, sum(map(len, model.local_weights_))
        return f"{super()._learned(model)} + {n_local} in {n} region{_s(n)}"


class GridProgress(_Report):
    """The progress of a grid of runs; a log gets a line per run.

    Parameters
    ----------
    verbose : int
        0 shows nothing.
    n_runs : int
    """

    def __init__(self, verbose: int, n_runs: int) -> None:
        super().__init__(verbose, log_every=0.0)
        self._n_runs, self._n_done, self._best = n_runs, 0, -np.inf

    def add(self, model: HDSL, fold: int) -> None:
        """Count a finished run: a fitted model with its score on a fold."""
        sizes: list[Part] = [
            ("scale {:.4g}", "scale {:.3g}", model.scale_),
            ("prior {:.4g}", "prior {:.3g}", model.prior_),
        ]
        self._count(sizes, fold, model.validation_score_, f" at {model.n_iter_}")

    def add_local(self, model: LocalHDSL, fold: int, score: float) -> None:
        """Count a finished run with regions: a fitted model, and its score on a fold."""
        sizes: list[Part] = [
            ("regions {}", "regions {}", model.n_regions_),
            ("local scale {:.4g}", "local {:.3g}", model.local_scale_),
        ]
        self._count(sizes, fold, score)

    def _count(self, sizes: list[Part], fold: int, score: float, at: str = "") -> None:
        self._n_done += 1
        self._best = max(self._best, score)
        if self._line is None or not self._line.is_due:
            return
        left = self._seconds / self._n_done * (self._n_runs - self._n_done)
        parts: list[Part] = [
            ("run {}", "run {}", f"{self._n_done}/{self._n_runs}"),
            *sizes,
            ("fold {}", "fold {}", fold),
            ("score {}", "score {}", f"{score:.4f}{at}"),
            ("best {:.4f}", "best {:.4f}", self._best),
            ("about {} left", "~{} left", duration(left)),
        ]
        self._line.show(fitted(parts, self._line.width))

    def end(self, score: float, chosen: str) -> None:
        """Leave a line about the choice."""
        self._end(
            f"{self._n_done}/{self._n_runs} runs in {duration(self._seconds)}, best mean "
            f"{score:.4f}: {chosen}"
        )


def _s(n: int) -> str:
    return "" if n == 1 else "s"
