"""Run a command: its warnings and errors become lines on stderr, its end an exit code."""

import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .output import end_stages, say
from .shared_options import Parser

#: Exit codes; 1 is a bug of hdsl, or a device that broke.
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

#: Problems of the user's files, options or machine; any other error is a bug.
BAD_INPUT_ERRORS = (ValueError, OSError, MemoryError, ImportError)

#: Options whose parameter in Python has another name.
OPTION_OF = {"how": "mining", "n_jobs": "jobs", "random_state": "seed"}

#: What to do on the command line, by the remedy of a `WayOutError`.
WAYS_OUT = {
    "audit": "delete the file of the audit, or name another with --audit-file, to draw anew",
    "columns": "rename yours",
    "encoding": "save the file as UTF-8, or name its encoding with --encoding",
    "ids": "name the column of ids with --id",
    "missing": "fill them, or leave such rows out (--skip-missing does it for the data)",
    "sep": "if it has several, name the separator with --sep, or save it with commas",
    "unknown": "check the ids, or raise --max-unknown if these rows no longer exist",
    "zero_based": "pass --zero-based if they count from 0",
}


def report_error(error: Exception, arguments: Any) -> int:
    """Say in one line what is wrong; return the exit code."""
    if isinstance(error, OSError) and error.strerror:
        say(f"{_file_prefix(error)}{error.strerror}.")
        return BAD_INPUT
    if isinstance(error, BAD_INPUT_ERRORS):
        say(_message(error, arguments) or type(error).__name__)
        return BAD_INPUT
    if type(error).__name__ == "BrokenDeviceError":
        say(str(error))
        return FAILED
    say(
        f"this should not have happened: {type(error).__name__}: {error}. Please "
        "report it; `hdsl --debug COMMAND ...` shows where."
    )
    return FAILED


def _file_prefix(error: OSError) -> str:
    """Return the file that an error of the system is about, for the start of a line."""
    if not error.filename:
        return ""
    return f"{os.fsdecode(error.filename)}: "


def _message(error: Exception, arguments: Any) -> str:
    """Return a message that names options of the command, not parameters of the library.

    The errors of the library are recognized by what they hold: importing their classes
    would load NumPy for a mistake in an option.
    """
    if hasattr(error, "remedy"):  # a WayOutError
        way_out = WAYS_OUT.get(error.remedy, error.way_out)
        return str(error.message(way_out))
    if hasattr(error, "wanted"):  # a ParameterError
        name = str(OPTION_OF.get(error.name, error.name))
        if hasattr(arguments, name):
            option = "--" + name.replace("_", "-")
            return str(error.message(option))
    return str(error)


def run(parser: Parser, words: Sequence[str]) -> int:
    """Run the command that the words of a command line name, and return its exit code."""
    _tolerate_ascii_terminals()
    arguments = None
    with _warnings_in_a_line():
        try:
            arguments = _parse(parser, words)
            code = arguments.run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # now, while a closed pipe is still expected
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
            if "--debug" in words[:1]:
                raise
            return report_error(error, arguments)
        finally:
            end_stages()


def _parse(parser: Parser, words: Sequence[str]) -> Namespace:
    """Return the arguments; what a command does not know is an error of this command."""
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        arguments.parser.error(f"no such option or argument: {' '.join(unknown)}")
    return arguments


def _tolerate_ascii_terminals() -> None:
    """Let a terminal that knows only ASCII show "?" for "é"."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


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
