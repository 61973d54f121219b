"""The parser, and the options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

#: Neighbours that vote where an error is measured.
N_NEIGHBORS = 3

#: Files of judgements: the option, and what its table says of rows, by number from 0 or by --id.
JUDGEMENTS = {
    "triplets": "anchor, positive, negative: the anchor is more like the positive; or .npy (n, 3)",
    "quadruplets": "positive_a, positive_b, negative_a, negative_b: the first two are more alike; "
    "or .npy (n, 4)",
    "clicks": "anchor, item, clicked, and event where an anchor was shown several times",
    "links": "left, right, same: 1 or 0, whether two rows belong together",
    "grades": "anchor, item, grade: larger is more relevant",
}


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

    def add(self, name: str, help: str, **settings: Any) -> None:
        """Add an option such as ``--max-iter``, or with a short form, ``-o --output``."""
        kind = settings.get("type", str)
        default = settings.get("default")
        if "action" not in settings:
            choices = settings.get("choices")
            settings.setdefault(
                "metavar", "{" + ",".join(choices) + "}" if choices else kind.__name__.upper()
            )
        if default is not None and "action" not in settings:
            help = f"{help} [default: {default}]"
        self._group.add_argument(*name.split(), help=help.replace("%", "%%"), **settings)

    def flag(self, name: str, help: str, **settings: Any) -> None:
        """Add an option without a value."""
        self.add(name, help, action="store_true", **settings)


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
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model file of `hdsl fit`")


def add_json(section: Section) -> None:
    """Add the option of JSON instead of text."""
    section.flag("--json", "Print JSON on stdout instead of text.", dest="as_json")


def add_input(parser: Parser) -> Section:
    """Add the options of a data file with labels or judgements; return those of the input."""
    section = Section(parser, "input")
    section.add("--text", "Column of texts in a table.", metavar="COLUMN")
    section.add("--label", "Column of labels in a table.", metavar="COLUMN")
    section.add("--labels", "Labels: .npy, or text with one per line.", type=Path, metavar="FILE")
    section.add(
        "--id", "Column of ids: judgements and searches name rows by id.", dest="ids",
        metavar="COLUMN",
    )  # fmt: skip
    section.add("--sep", "Separator of fields. Default: , in .csv and a tab in .tsv.")
    section.add("--encoding", "Encoding of a table: latin-1, utf-16, ...", default="utf-8")
    section.flag("--skip-missing", "Leave out rows of a table without a text, label or id.")
    section.flag("--zero-based", "Indices of an svmlight file start at 0.")
    judged = Section(parser, "judgements instead of labels, as tables")
    for name, columns in JUDGEMENTS.items():
        judged.add(f"--{name}", f"Columns {columns}.", type=Path, metavar="FILE")
    return section
