"""Options: how they are declared, and those that several commands take."""

from __future__ import annotations

import argparse
import codecs
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn


class UsageError(ValueError):
    """Options or arguments that the command does not take."""


class Parser(argparse.ArgumentParser):
    """A parser that raises, so that a mistake ends a command as any other error does."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}. See {self.prog} --help.")


class OptionGroup:
    """A titled group of options of a command.

    An option is named as in ``--max-iter``, or with a short form, as in ``-o --output``.
    It is None where it is left out and has no default.
    """

    def __init__(self, parser: Parser, title: str) -> None:
        self._group = parser.add_argument_group(title)

    def add_flag(self, name: str, help: str, **settings: Any) -> None:
        """Add an option without a value, False where it is left out."""
        self._add(name, help, action="store_true", **settings)

    def add_switch(self, name: str, help: str, default: bool | None = None) -> None:
        """Add an option and its opposite, such as ``--tfidf`` and ``--no-tfidf``."""
        action = argparse.BooleanOptionalAction
        self._add(name, help, action=action, default=default)

    def add_text(
        self, name: str, help: str, default: str | None = None, **settings: Any
    ) -> None:
        """Add an option that is a text."""
        self._add_value(name, help, default, **{"metavar": "STR"} | settings)

    def add_integer(
        self, name: str, help: str, default: int | None = None, **settings: Any
    ) -> None:
        """Add an option that is a whole number."""
        self._add_value(name, help, default, type=int, metavar="INT", **settings)

    def add_number(
        self, name: str, help: str, default: float | None = None, **settings: Any
    ) -> None:
        """Add an option that is a number."""
        form = "%(default)g"
        settings = {"type": float, "metavar": "FLOAT"} | settings
        self._add_value(name, help, default, form=form, **settings)

    def add_path(
        self, name: str, help: str, default: Path | None = None, **settings: Any
    ) -> None:
        """Add an option that is a file."""
        settings = {"metavar": "PATH"} | settings
        self._add_value(name, help, default, type=Path, **settings)

    def add_texts(self, name: str, help: str, **settings: Any) -> None:
        """Add an option that may be repeated, each time with one text."""
        self._add(name, help, action="append", default=[], **settings)

    def add_paths(self, name: str, help: str) -> None:
        """Add an option that may be repeated, each time with one file."""
        self._add(name, help, action="append", default=[], type=Path, metavar="FILE")

    def add_choice(
        self, name: str, help: str, words: Sequence[str], *, required: bool = False
    ) -> None:
        """Add an option that is one of some words, by default the first."""
        default = None if required else words[0]
        metavar = "{" + ",".join(words) + "}"
        self._add_value(
            name, help, default, choices=words, metavar=metavar, required=required
        )

    def add_parsed(
        self,
        name: str,
        help: str,
        parse: Callable[[str], Any],
        default: Any = None,
        **settings: Any,
    ) -> None:
        """Add an option whose text a function reads; help names the value after it."""
        metavar = parse.__name__.upper()
        self._add_value(name, help, default, type=parse, metavar=metavar, **settings)

    def _add_value(
        self,
        name: str,
        help: str,
        default: Any,
        *,
        form: str = "%(default)s",
        **settings: Any,
    ) -> None:
        """Add an option with a value; its default is shown in a form of argparse."""
        ending = ""
        if default is not None:
            ending = f" [default: {form}]"
        self._add(name, help, ending, default=default, **settings)

    def _add(self, name: str, help: str, ending: str = "", **settings: Any) -> None:
        help = help.replace("%", "%%") + ending
        self._group.add_argument(*name.split(), help=help, **settings)


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


#: Kinds of judgements whose anchors may be queries that are no rows of the data.
OF_QUERIES = ("judgements", "clicks")

#: What commands say of searches without what is remembered.
NO_MEMORY = (
    "Leave out the memory of judged queries, which moves up documents that were "
    "judged relevant for similar queries."
)

#: What commands say of the encoder of a model that is fitted already.
ENCODER_NOW = (
    "Folder or name of the encoder that the model was fitted with. Default: none, "
    "and texts are compared by words alone."
)

#: Files of judgements: the option, and what its table says of rows, by number from 0 or
#: by --id.
JUDGEMENTS = {
    "triplets": "anchor, positive, negative: the anchor is more like the positive; or .npy (n, 3)",
    "quadruplets": "positive_a, positive_b, negative_a, negative_b: the first two are more alike; "
    "or .npy (n, 4)",
    "judgements": "query, document, and grade if there are several; or the qrels of TREC. Queries "
    "are those of --queries, or else the texts in the column",
    "clicks": "query, typed, by id of --queries or as text, or anchor for a row of the data; "
    "document, clicked; event if a query was shown several times; position, the rank from 1 at "
    "which the document was shown, if known",
    "links": "left, right, same: 1 or 0, whether two rows belong together",
    "grades": "query, document, grade: larger is more relevant",
}


def add_model(parser: Parser) -> None:
    """Add the argument of a model file."""
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a model file of `hdsl fit`"
    )


def add_json(options: OptionGroup) -> None:
    """Add the option of JSON instead of text."""
    options.add_flag("--json", "Print JSON on stdout instead of text.", dest="as_json")


def add_quiet(options: OptionGroup) -> None:
    """Add the option of no progress."""
    about_quiet = (
        "Show no progress. In a log, a line names each stage of more than ten seconds."
    )
    options.add_flag("--quiet", about_quiet)


def is_quiet(arguments: Namespace) -> bool:
    """Return whether to show no progress: JSON goes to programs."""
    return arguments.quiet or arguments.as_json


def add_seed(options: OptionGroup, help: str = "Random seed, 0 or more.") -> None:
    """Add the option of a random seed."""
    options.add_parsed("--seed", help, seed, 0)


def add_separator(options: OptionGroup) -> None:
    """Add the option of what separates the fields of a table."""
    options.add_text(
        "--sep", "Separator of fields. Default: , in .csv and a tab in .tsv."
    )


def add_encoding(options: OptionGroup, help: str) -> None:
    """Add the option of how the text of a table is encoded."""
    options.add_parsed("--encoding", help, encoding, "utf-8")


def add_encoder(options: OptionGroup, help: str) -> None:
    """Add the option of what makes an embedding of texts."""
    options.add_text("--encoder", help, metavar="NAME")


def add_zero_based(options: OptionGroup) -> None:
    """Add the option of what the first index of an svmlight file is."""
    options.add_flag("--zero-based", "Indices of an svmlight file start at 0.")


def add_input(parser: Parser) -> OptionGroup:
    """Add the options of a data file with labels or judgements; return those of the data."""
    data = OptionGroup(parser, "input")
    data.add_text("--text", "Column of texts in a table.", metavar="COLUMN")
    data.add_text("--label", "Column of labels in a table.", metavar="COLUMN")
    data.add_path(
        "--labels", "Labels: .npy, or text with one per line.", metavar="FILE"
    )
    about_ids = "Column of ids: judgements and searches name rows by id."
    data.add_text("--id", about_ids, metavar="COLUMN", dest="ids")
    about_groups = (
        "Column of groups, such as users or sites: rows of one group are held out "
        "together. It is in DATA with labels, in the file of --triplets or --quadruplets "
        "with these."
    )
    data.add_text("--group", about_groups, metavar="COLUMN")
    add_separator(data)
    add_encoding(data, "Encoding of a table: latin-1, utf-16, ...")
    data.add_flag(
        "--skip-missing", "Leave out rows of a table without a text, label or id."
    )
    add_zero_based(data)
    judgements = OptionGroup(parser, "judgements instead of labels, as tables")
    for name, columns in JUDGEMENTS.items():
        judgements.add_path(f"--{name}", f"Columns {columns}.", metavar="FILE")
    _add_queries(OptionGroup(parser, "queries that are not rows of the data"))
    return data


def _add_queries(options: OptionGroup) -> None:
    """Add the options of queries beside the data."""
    about_queries = (
        "Queries, a table of texts, or rows as the data are. They are never results."
    )
    options.add_path("--queries", about_queries, metavar="FILE")
    about_text = "Column of their texts. Default: that of --text."
    options.add_text("--query-text", about_text, metavar="COLUMN")
    about_ids = "Column of their ids. Default: that of --id."
    options.add_text("--query-id", about_ids, metavar="COLUMN")
    about_unknown = (
        "Maximum share of the lines of judgements or clicks that may name missing "
        "rows: these are left out and counted."
    )
    options.add_number("--max-unknown", about_unknown, 0.1)


def input_options(**options: Any) -> Namespace:
    """Return the options of a data file; those that are not given have their defaults."""
    parser = Parser()
    add_input(parser)
    return parser.parse_args([], Namespace(**options))


def judgement_files(arguments: Namespace) -> dict[str, Path]:
    """Return the files of judgements that the options name, by their kind."""
    files = {kind: getattr(arguments, kind) for kind in JUDGEMENTS}
    return {kind: path for kind, path in files.items() if path is not None}


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
        raise ValueError(name) from None  # the parser says what is wrong


def names(text: str) -> list[str]:
    """Return names that commas separate."""
    return [name.strip() for name in text.split(",")]
