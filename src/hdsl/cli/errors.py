"""How a command ends that fails: its exit code, and one line on stderr that says why."""

import os
from typing import Any

from .messages import say

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
    "columns": "rename yours",
    "encoding": "save the file as UTF-8, or name its encoding with --encoding",
    "ids": "name the column of ids with --id",
    "missing": "fill them, or leave such rows out (--skip-missing does it for the data)",
    "sep": "if it has several, name what separates them with --sep, or save it with commas",
    "unknown": "check the ids, or raise --max-unknown if these rows are gone",
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
