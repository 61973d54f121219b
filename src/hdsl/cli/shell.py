"""What all commands share: options, errors in one line, exit codes, progress, tables, JSON."""

from __future__ import annotations

import argparse
import codecs
import json
import math
import os
import shutil
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ..report import Measured

#: Exit codes; a command that fails for another reason than these ends with 1.
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

#: Problems of the user's files, options or machine; any other error is a bug.
BAD_INPUT_ERRORS = (ValueError, OSError, MemoryError, ImportError)

#: Columns of output that does not go to a terminal.
WIDTH = 120

#: Files of judgements: the option, and what its table says of rows, by number from 0 or
#: by --id.
JUDGEMENTS = {
    "triplets": "anchor, positive, negative: the anchor is more like the positive; or .npy (n, 3)",
    "quadruplets": "positive_a, positive_b, negative_a, negative_b: the first two are more alike; "
    "or .npy (n, 4)",
    "clicks": "anchor, item, clicked, and event where an anchor was shown several times",
    "links": "left, right, same: 1 or 0, whether two rows belong together",
    "grades": "anchor, item, grade: larger is more relevant",
}

#: Options whose parameter in Python has another name.
OPTION_OF = {"n_jobs": "jobs", "random_state": "seed"}

#: What to do on the command line, by the remedy of a `WayOutError`.
WAYS_OUT = {
    "columns": "rename yours",
    "encoding": "save the file as UTF-8, or name its encoding with --encoding",
    "ids": "name the column of ids with --id",
    "missing": "fill them, or leave such rows out (--skip-missing does it for the data)",
    "sep": "if it has several, name what separates them with --sep, or save it with commas",
    "zero_based": "pass --zero-based if they count from 0",
}


# --- options --------------------------------------------------------------------------


class UsageError(ValueError):
    """Options or arguments that the command does not take."""


class Parser(argparse.ArgumentParser):
    """A parser that raises, so that a mistake is told as any other."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}. See {self.prog} --help.")


class Section:
    """A group of options of a command, each in a line."""

    def __init__(self, parser: Parser, title: str) -> None:
        self._group = parser.add_argument_group(title)

    def add(self, name: str, help: str, default: Any = None, **settings: Any) -> None:
        """Add an option such as ``--max-iter``, or with a short form, ``-o --output``.

        `default` is its default, a tuple of words of which the first is the default, or
        a type where there is no default.
        """
        if isinstance(default, tuple):
            settings = {
                "choices": default,
                "metavar": "{" + ",".join(default) + "}",
            } | settings
            default = default[0]
        if isinstance(default, type):
            settings = {"type": default} | settings
            default = None
        if "action" not in settings:
            kind = (
                Path
                if isinstance(default, Path)
                else type("" if default is None else default)
            )
            kind = settings.setdefault("type", kind)
            settings.setdefault("metavar", kind.__name__.upper())
            if default is not None and "required" not in settings:
                help += (
                    f" [default: {default:g}]"
                    if kind is float
                    else f" [default: {default}]"
                )
        help = help.replace("%", "%%")
        self._group.add_argument(*name.split(), help=help, default=default, **settings)

    def flag(self, name: str, help: str, **settings: Any) -> None:
        """Add an option without a value."""
        self.add(name, help, False, action="store_true", **settings)


def add_command(commands: Any, run: Callable[..., Any]) -> Parser:
    """Add the command of a function, whose docstring is its help."""
    text = str(run.__doc__).replace("\n    ", "\n").rstrip()
    parser: Parser = commands.add_parser(
        run.__name__,
        usage=f"hdsl {run.__name__} [options] ...",
        help=text.partition("\n")[0],
        description=text.replace("%", "%%"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_model(parser: Parser) -> None:
    """Add the argument of a model file."""
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a model file of `hdsl fit`"
    )


def add_json(section: Section) -> None:
    """Add the option of JSON instead of text."""
    section.flag("--json", "Print JSON on stdout instead of text.", dest="as_json")


def add_input(parser: Parser) -> Section:
    """Add the options of a data file with labels or judgements; return those of the input."""
    section = Section(parser, "input")
    section.add("--text", "Column of texts in a table.", metavar="COLUMN")
    section.add("--label", "Column of labels in a table.", metavar="COLUMN")
    section.add(
        "--labels", "Labels: .npy, or text with one per line.", Path, metavar="FILE"
    )
    about_ids = "Column of ids: judgements and searches name rows by id."
    section.add("--id", about_ids, dest="ids", metavar="COLUMN")
    section.add("--sep", "Separator of fields. Default: , in .csv and a tab in .tsv.")
    section.add(
        "--encoding",
        "Encoding of a table: latin-1, utf-16, ...",
        "utf-8",
        type=encoding,
    )
    section.flag(
        "--skip-missing", "Leave out rows of a table without a text, label or id."
    )
    section.flag("--zero-based", "Indices of an svmlight file start at 0.")
    judged = Section(parser, "judgements instead of labels, as tables")
    for name, columns in JUDGEMENTS.items():
        judged.add(f"--{name}", f"Columns {columns}.", Path, metavar="FILE")
    return section


def seed(text: str) -> int:
    """Return a random seed."""
    if int(text) < 0:
        raise ValueError(text)
    return int(text)


def encoding(name: str) -> str:
    """Return an encoding by its first name: UTF8 is utf-8."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(name) from None  # told by the parser


# --- a command and its end ------------------------------------------------------------


def run(parser: Any, arguments: Sequence[str]) -> int:
    """Run a command; turn what it raises into a line on stderr, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows "?" for "é"
    given = None
    with _warnings_in_a_line():
        try:
            given, unknown = parser.parse_known_args(arguments)
            if unknown:
                given.parser.error(f"no such option or argument: {' '.join(unknown)}")
            code = given.run(given)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a closed pipe is still expected
            return int(code or 0)
        except SystemExit as ended:  # of --help and --version
            return int(ended.code or 0)
        except BrokenPipeError:
            _discard_stdout()
            return BROKEN_PIPE
        except KeyboardInterrupt:
            say("interrupted.")
            return INTERRUPTED
        except Exception as error:
            if "--debug" in arguments[:1]:
                raise
            return _explain(error, given)


def _explain(error: Exception, given: Any) -> int:
    """Say in one line what is wrong; return the exit code."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        say(f"{where}{error.strerror}.")
        return BAD_INPUT
    if isinstance(error, BAD_INPUT_ERRORS):
        say(_in_our_words(error, given) or type(error).__name__)
        return BAD_INPUT
    if type(error).__name__ == "BrokenDeviceError":
        say(str(error))
        return 1
    say(
        f"this should not have happened: {type(error).__name__}: {error}. Please "
        "report it; `hdsl --debug COMMAND ...` shows where."
    )
    return 1


def _in_our_words(error: Exception, given: Any) -> str:
    """Return a message with the options of a command where the library names its parameters."""
    if hasattr(error, "remedy"):  # a WayOutError
        return str(error.message(WAYS_OUT.get(error.remedy, error.way_out)))
    if hasattr(error, "wanted"):  # a ParameterError
        name = OPTION_OF.get(error.name, error.name)
        if hasattr(given, name):  # type: ignore[arg-type]
            return str(error.message("--" + name.replace("_", "-")))  # type: ignore[union-attr]
    return str(error)


def say(message: str) -> None:
    """Write one line to stderr."""
    if sys.stderr is not None:
        with suppress(OSError):  # nobody reads it, or there is no room
            print(f"hdsl: {' '.join(message.split())}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show our warnings as one line each, each once; hide the deprecations of other packages."""
    shown = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
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


# --- output ---------------------------------------------------------------------------


def show_json(facts: Any) -> None:
    """Print facts as JSON; NumPy values become plain ones, and NaN becomes null."""
    print(json.dumps(_plain(facts), indent=2, ensure_ascii=False, allow_nan=False))  # noqa: T201


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
        print(line)  # noqa: T201


def show_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print aligned columns, those in `right` to the right; cut the last one to the terminal."""
    show(*table_lines(rows, right=right))


def table_lines(
    rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> list[str]:
    """Return the lines of a table, as `show_table` prints them."""
    n_columns = len(rows[0])
    lines = []
    widths = [max(_cells(row[k]) for row in rows) for k in range(n_columns)]
    for row in rows:
        cells = []
        for k, cell in enumerate(row):
            blank = " " * (widths[k] - _cells(cell))
            cells.append(blank + cell if k in right else cell + blank)
        line = "  ".join(cells).rstrip()
        if _cells(line) > width():
            while _cells(line) >= width():
                line = line[:-1]
            line = line.rstrip() + "…"
        lines.append(line)
    return lines


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def width() -> int:
    """Return the columns of the terminal, or of output that goes elsewhere."""
    return shutil.get_terminal_size().columns if _is_terminal(sys.stdout) else WIDTH


def one_line(text: Any, width: int = 200) -> str:
    """Return a text as one line without control characters."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return words if len(words) <= width else words[: width - 1] + "…"


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(1200, "row")
    ('1 query', '1,200 rows')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


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
    rows: list[tuple[str, ...]] = []
    for name, rate in measured.rates.items():
        low, high = rate.interval
        counts = f"{f'{rate.n_wrong:,.1f}'.removesuffix('.0')} of {rate.n:,}"
        note = "no neighbours, no reasons" if name == "LinearSVC" else ""
        limits = f"{100 * low:.1f} to {percent(high)}"
        rows.append((f"  {name}", percent(rate.share), limits, counts, note))
    show_table(rows, right=(1,))
    show(errors.sentence)
    if not measured.known_items:
        return
    found = measured.known_items["learned"]
    show(
        "",
        f"Known-item search: mean reciprocal rank of a row among {found.n_rows:,}, by "
        f"half of its features, {len(found.ranks):,} queries",
    )
    rows = []
    for name, found in measured.known_items.items():
        low, high = found.interval
        ranks = f"{found.mrr:.3f}", f"{low:.3f} to {high:.3f}"
        first = f"found first {percent(found.recall(1))}, in the first ten "
        rows.append((f"  {name}", *ranks, first + percent(found.recall(10))))
    show_table(rows, right=(1,))
    show(measured.ranks_sentence)


def is_watched(quiet: bool = False) -> bool:
    """Return whether to show progress: stderr is a terminal, and `quiet` is False."""
    return not quiet and _is_terminal(sys.stderr)


def _is_terminal(stream: Any) -> bool:
    return (
        stream is not None and stream.isatty()
    )  # None: the process was started without it


def begin(what: str, *, quiet: bool = False) -> None:
    """Say on stderr what is being done from now on, where stderr is a terminal."""
    if is_watched(quiet):
        print(f"{what} …", file=sys.stderr, flush=True)  # noqa: T201
