"""What all commands share: errors in one line, exit codes, progress, tables, JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

if TYPE_CHECKING:
    from .measure import Measured

#: Exit codes; a command that fails for another reason than these ends with 1.
BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141

#: Problems of the user's files, options or machine; any other error is a bug.
BAD_INPUT_ERRORS = (ValueError, OSError, MemoryError, ImportError)

#: Columns of output that does not go to a terminal.
WIDTH = 120


class Commands(TyperGroup):
    """Commands that end with one readable line where something is wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; turn what it raises into a line on stderr and an exit code."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # an ASCII terminal shows "?" for "é"
        with _warnings_in_a_line():
            try:
                result = super().invoke(ctx)
                if sys.stdout is not None:
                    sys.stdout.flush()  # here, where a closed pipe is still expected
                return result
            except (typer.Exit, typer.Abort):
                raise
            except BrokenPipeError:
                _discard_stdout()
                raise typer.Exit(BROKEN_PIPE) from None
            except KeyboardInterrupt:
                say("interrupted.")
                raise typer.Exit(INTERRUPTED) from None
            except Exception as error:
                if ctx.params.get("debug"):
                    raise
                raise typer.Exit(_explain(error)) from None


def _explain(error: Exception) -> int:
    """Say in one line what is wrong; return the exit code."""
    if hasattr(error, "format_message"):  # a wrong option or argument
        command = getattr(getattr(error, "ctx", None), "command_path", "hdsl")
        say(f"{error.format_message().rstrip('.')}. See {command} --help.")
        return BAD_INPUT
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        say(f"{where}{error.strerror}.")
        return BAD_INPUT
    if isinstance(error, BAD_INPUT_ERRORS):
        say(str(error) or type(error).__name__)
        return BAD_INPUT
    say(
        f"this should not have happened: {type(error).__name__}: {error}. Please report it; "
        "`hdsl --debug COMMAND ...` shows where."
    )
    return 1


def say(message: str) -> None:
    """Write one line to stderr."""
    with suppress(BrokenPipeError):
        typer.echo(f"hdsl: {' '.join(message.split())}", err=True)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show our warnings as one line each, and hide the deprecations of other packages."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _discard_stdout() -> None:
    """Discard what is not written yet, so that the process ends quietly."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- output --------------------------------------------------------------------------------------


def show_json(facts: Any) -> None:
    """Print facts as JSON; NumPy values become plain ones, and NaN becomes null."""
    typer.echo(json.dumps(_plain(facts), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def show(*lines: str) -> None:
    """Print lines as they are."""
    for line in lines:
        typer.echo(line)


def show_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print aligned columns, those in `right` to the right; cut the last one to the terminal."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    last = len(rows[0]) - 1
    for k in range(last + 1):
        table.add_column(
            justify="right" if k in right else "left",
            no_wrap=True,
            overflow="ellipsis" if k == last else "ignore",
            min_width=None if k == last else max(_widest(row[k]) for row in rows),
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False, width=None if _is_terminal(sys.stdout) else WIDTH)
    with console.capture() as capture:
        console.print(table)
    show(*(line.rstrip() for line in capture.get().splitlines()))


def _widest(cell: str) -> int:
    return max((Text(line).cell_len for line in cell.split("\n")), default=0)


def one_line(text: Any, width: int = 200) -> str:
    """Return a text as one line without control characters."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return words if len(words) <= width else words[: width - 1] + "…"


def percent(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.0712)
    '7.1 %'
    """
    return f"{100 * share:.1f} %"


def show_measured(title: str, measured: Measured) -> None:
    """Print errors and ranks by cosine and as learned, and what they show."""
    errors = measured.errors
    show(f"{title[0].upper()}{title[1:]}, with {100 * errors.confidence:g} % intervals")
    rows = []
    for name, rate in (("cosine", errors.before), ("learned", errors.after)):
        counts = f"{round(rate.n_wrong, 1):g} of {rate.n:,}"
        rows.append((f"  {name}", percent(rate.share), _range(rate.interval), counts))
    show_table(rows, right=(1, 3))
    show(errors.sentence)
    if not measured.known_items:
        return
    found = measured.known_items["learned"]
    show(
        "",
        f"Known-item search: mean reciprocal rank of a row among {found.n_rows:,}, by half of its "
        f"features, {len(found.ranks):,} queries",
    )
    rows = []
    for name, found in measured.known_items.items():
        low, high = found.interval
        ranks = f"{found.mrr:.3f}", f"{low:.3f} to {high:.3f}"
        first = f"found first {percent(found.recall(1))}, in the first ten "
        rows.append((f"  {name}", *ranks, first + percent(found.recall(10))))
    show_table(rows, right=(1,))
    show(measured.ranks_sentence)


def _range(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * low:.1f} to {percent(high)}"


def is_watched(quiet: bool = False) -> bool:
    """Return whether to show progress: stderr is a terminal, and `quiet` is False."""
    return not quiet and _is_terminal(sys.stderr)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()  # None: the process was started without it


@contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a message on stderr during the work, where stderr is a terminal."""
    if not is_watched(quiet):
        yield
        return
    with Console(stderr=True).status(what):
        yield
