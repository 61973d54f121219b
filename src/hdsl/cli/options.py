"""Options of commands: each is declared in one statement, and its help says its default."""

from __future__ import annotations

import argparse
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
