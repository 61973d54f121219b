"""The command line: parse, call, print. ``hdsl --help`` lists the commands.

Commands import what computes inside their functions, so that ``--help`` is fast.
"""

import sys
from collections.abc import Sequence

from . import demo, fit, link, use
from .shell import Parser, run

__all__ = ["COMMANDS", "main", "make_parser"]

COMMANDS = (
    "fit",
    "link",
    "evaluate",
    "search",
    "explain",
    "report",
    "export",
    "info",
    "demo",
)


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
    parser.set_defaults(run=_about, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    fit.add(commands)
    link.add(commands)
    use.add(commands)
    demo.add(commands)
    return parser


def _about(given: object) -> None:
    """Show the version, or the help."""
    if getattr(given, "version", False):
        from importlib.metadata import version

        print(f"hdsl {version('hdsl')}")  # noqa: T201
    else:
        make_parser().print_help()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; None takes the arguments of the process."""
    return run(make_parser(), list(sys.argv[1:] if arguments is None else arguments))
