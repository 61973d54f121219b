"""The command line: parse, call, print. ``hdsl --help`` lists the commands.

Each command is a module with its options and its function. Commands import what
computes inside their functions, so that ``--help`` is fast.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence

from . import (
    demo,
    evaluate,
    explain,
    export,
    fit,
    forget,
    info,
    link,
    report,
    search,
)
from .output import show
from .run import run
from .shared_options import Parser

__all__ = ["COMMANDS", "main", "make_parser"]

#: The commands in the order of the help.
COMMANDS = {
    "fit": fit,
    "link": link,
    "evaluate": evaluate,
    "search": search,
    "explain": explain,
    "report": report,
    "export": export,
    "forget": forget,
    "info": info,
    "demo": demo,
}


def make_parser() -> Parser:
    """Return the parser of the command ``hdsl``."""
    parser = Parser(
        prog="hdsl",
        description="Learn a similarity for sparse, very high-dimensional data, and see what it is "
        "made of.",
        epilog="Exit codes: 0 success, 1 a bug in hdsl, 2 a problem with the input, 130 "
        "interrupted. `hdsl COMMAND --help` has examples.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_true", help="show the version and exit"
    )
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error"
    )
    parser.set_defaults(run=_show_version_or_help, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in COMMANDS.values():
        command.add(commands)
    return parser


def _show_version_or_help(arguments: Namespace) -> None:
    """Show the version, or the help, where no command is named."""
    if arguments.version:
        from importlib.metadata import version

        show(f"hdsl {version('hdsl')}")
    else:
        arguments.parser.print_help()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; None takes the arguments of the process."""
    if arguments is None:
        arguments = sys.argv[1:]
    return run(make_parser(), list(arguments))
