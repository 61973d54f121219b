"""Run a command: its warnings and errors become lines on stderr, its end an exit code."""

import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .errors import BROKEN_PIPE, INTERRUPTED, report_error
from .messages import end_stages, say
from .options import Parser


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
