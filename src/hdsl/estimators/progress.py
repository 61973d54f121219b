"""How a fit is going, for those who wait: a live line, and scikit-learn's callbacks."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


if TYPE_CHECKING:
    from ..core.solver import State
    from .monitor import Monitor
    from .supervision import Supervision

#: Seconds between two looks of a line that is rewritten in place.
LIVE_EVERY = 0.2

#: Columns of a line that is not, and from how many on long words are used.
WIDTH, WIDE = 80, 120

#: Seconds between two lines of a log, by `verbose`.
LOG_EVERY = {1: 10.0, 2: 1.0}

#: The rate that the time left is told by is that of the last so many looks.
RECENT = 20

#: Part of a line: long words, short words, value.
Part = tuple[str, str, object]


def fitted(parts: Iterable[Part], width: int) -> str:
    """Return one line of less than `width` columns: long words where it is wide, else short.

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
    """Return how much is done as a bar.

    Examples
    --------
    >>> bar(0.35)
    '[###.......]'
    """
    done = int(10 * share)
    return f"[{'#' * done}{'.' * (10 - done)}]"


def duration(seconds: float) -> str:
    """Return a time for people.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.04, 1.26, 75, 600, 9000)]
    ['0.0 s', '1.3 s', '75 s', '10 min', '2.5 h']
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


class Line:
    """A line on work under way, rewritten in place in a terminal or a notebook.

    Elsewhere it becomes the lines of a log: plain, and few. All goes to stderr, as stdout is for
    results. A stream that is closed or full ends the telling, never the work.

    Parameters
    ----------
    log_every : float
        Seconds between two lines of a log.

    Attributes
    ----------
    is_live : bool
        Whether it is rewritten in place.
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
        """Whether it is time to show something new."""
        return time.perf_counter() >= self._due

    @property
    def width(self) -> int:
        """Columns that there are."""
        if not self._in_place or self._stream is None:
            return WIDTH
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def show(self, text: str) -> None:
        """Show a line of less than `width` columns in the place of the one before."""
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
        """Leave a last line, or the one that there is; what follows begins a new one."""
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
        except (OSError, ValueError):  # a full disk, a closed pipe, closed
            self._stream = None


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


def _notebook_display() -> Callable[..., Any] | None:
    """Return IPython's display function in a notebook, where IPython is loaded already."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found]

    return display


class Progress:
    """The live line of a fit.

    Parameters
    ----------
    verbose : int
        0 shows nothing; 1 a live line, or one in 10 seconds in a log; 2 one a second there.
    """

    def __init__(self, verbose: int) -> None:
        self._line = Line(LOG_EVERY[min(int(verbose), 2)]) if verbose > 0 else None
        self._began = time.perf_counter()
        self._looks: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._limit = 0
        self._scores: Monitor | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._line is not None:
            self._line.end()

    def follow(self, limit: int, scores: Monitor | None) -> Callable[[State], None] | None:
        """Return a callback for a run up to iteration `limit`; None where nothing is shown."""
        self._limit, self._scores = limit, scores
        return None if self._line is None else self._look

    def _look(self, state: State) -> None:
        assert self._line is not None
        if not self._line.is_due:
            return
        text = fitted(self._parts(state), self._line.width)
        with_bar = f"{bar(state.n_iter / self._limit)} {text}"
        fits = self._line.is_live and len(with_bar) < self._line.width
        self._line.show(with_bar if fits else text)

    def _parts(self, state: State) -> list[Part]:
        score = np.nan if self._scores is None else self._scores.last_score
        parts: list[Part] = [
            ("iteration {}", "{}", f"{state.n_iter}/{self._limit}"),
            ("objective {:.4g}", "obj {:.4g}", state.objective),
            ("gap {:.1e}", "gap {:.1e}", state.gap),
            ("atoms {}", "atoms {}", len(state.weights)),
            ("features {}", "feat {}", state.active.n_features()),
            ("validation {:.4f}", "val {:.4f}", score),
            ("at most {} left", "<{} left", self._left(state.n_iter)),
        ]
        return [part for part in parts if part[2] == part[2] and part[2] is not None]  # not NaN

    def _left(self, n_iter: int) -> str | None:
        """Return the time to the limit at the recent rate: steps get dearer as atoms add up."""
        now = time.perf_counter()
        self._looks.append((now, n_iter))
        then, n_then = self._looks[0]
        if n_iter == n_then:
            return None
        return duration((now - then) / (n_iter - n_then) * (self._limit - n_iter))

    def end(self, model: Any) -> None:
        """Leave a line on what came out."""
        if self._line is None:
            return
        n_iter, took = len(model.trace_) - 1, duration(time.perf_counter() - self._began)
        kept = f"objective {model.objective_:.4g}"
        if hasattr(model, "validation_score_"):
            kept = f"best at {model.n_iter_}: validation {model.validation_score_:.4f}"
        text = f"{_counted(n_iter, 'iteration')} in {took} ({model.status_}), {kept}"
        text = f"{text}, {_counted(len(model.weights_), 'atom')}"
        self._line.end(text[: self._line.width - 1])


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def task_data(supervision: Supervision) -> dict[str, Any]:
    """Return the data of a task for scikit-learn's callbacks."""
    weights = supervision.weights
    return {
        "X": supervision.X,
        "y": supervision.y,
        "metadata": {} if weights is None else {"sample_weight": weights},
    }


class Tasks:
    """A fit and its iterations as tasks of scikit-learn's callbacks, where the model has any.

    Parameters
    ----------
    model : HDSL
    """

    def __init__(self, model: Any) -> None:
        self._model, self._n_left = model, model.max_iter
        self._root: Any = None
        self._task: Any = None

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: Any) -> None:
        _tear_down(self._model)

    def begin(self, supervision: Supervision) -> None:
        """Begin the fit."""
        if not hasattr(self._model, "_skl_callbacks"):
            return
        self._data = {"estimator": self._model, **task_data(supervision)}
        self._root = self._model._init_callback_context(max_subtasks=self._n_left)
        self._root.call_on_fit_task_begin(**self._data)

    def follow(self, scale: float, prior: float) -> Callable[[State], bool] | None:
        """Return a callback for the run; None where there is nobody to call."""
        if self._root is None:
            return None
        self._numbers = {
            "scale_": scale,
            "prior_": prior,
            "n_features_in_": self._data["X"].shape[1],
            "feature_names_in_": None,  # these rows have none, whatever an earlier fit has seen
        }
        if self._task is None:
            self._next()
        return self._done

    def _next(self) -> None:
        self._task = None
        if self._n_left:
            self._n_left -= 1
            self._task = self._root.subcontext(task_name="iteration")
            self._task.call_on_fit_task_begin(**self._data)

    def _done(self, state: State) -> bool:
        """End the iteration that led to this model and begin the next; True stops the run."""
        if state.n_iter == 0:
            return False
        stop = self._task.call_on_fit_task_end(
            **self._data, reconstruction_attributes=lambda: self._attributes(state)
        )
        self._next()
        return stop

    def _attributes(self, state: State) -> dict[str, Any]:
        return {
            "atoms_": state.atoms,
            "weights_": state.weights,
            "n_iter_": state.n_iter,
            **self._numbers,
        }

    def end(self) -> None:
        """End the fit; the model has what was learned."""
        if self._root is None:
            return
        if self._task is not None:  # begun, and not needed any more
            self._task.call_on_fit_task_end(estimator=self._model)
        self._root.call_on_fit_task_end(**self._data, reconstruction_attributes=self._numbers)


@with_callbacks
def _tear_down(model: Any) -> None:
    """Do nothing: what `with_callbacks` does afterwards is what is asked for."""
