"""The app, and the options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .shell import Command, Commands

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: Rich takes longer to load than all the rest
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(**settings: Any) -> Any:
    """Return the decorator of a function that is a command."""
    return app.command(cls=Command, **settings)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"hdsl {version('hdsl')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole traceback of an error.")
    ] = False,
) -> None:
    """Learn a similarity for sparse, very high-dimensional data, and see what it is made of.

    Exit codes: 0 success, 1 a bug in hdsl, 2 a problem with the input, 130 interrupted.
    """


def option(help: str, *names: str, panel: str | None = None) -> Any:
    """Return an option with its help, in a panel of that name."""
    return typer.Option(*names, help=help, rich_help_panel=panel)


#: Neighbours that vote where an error is measured.
N_NEIGHBORS = 3

INPUT, JUDGED, LEARNING = "Input", "Judgements instead of labels", "Learning"

#: Files of judgements: the option, and what its table says of rows, by number from 0 or by --id.
JUDGEMENTS = {
    "triplets": "anchor, positive, negative: the anchor is more like the positive",
    "quadruplets": "positive_a, positive_b, negative_a, negative_b: the first two are more alike",
    "clicks": "anchor, item, clicked, and event where an anchor was shown several times",
    "links": "left, right, same: 1 or 0, whether two rows belong together",
    "grades": "anchor, item, grade: larger is more relevant",
}


def _judgements(name: str) -> Any:
    array = {"triplets": ", or .npy (n, 3)", "quadruplets": ", or .npy (n, 4)"}.get(name, "")
    return option(f"Table with columns {JUDGEMENTS[name]}{array}.", f"--{name}", panel=JUDGED)


Json = Annotated[bool, option("Print JSON on stdout instead of text.", "--json")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file from `hdsl fit`.")]
TextColumn = Annotated[str | None, option("Column of texts in a table.", "--text", panel=INPUT)]
LabelColumn = Annotated[str | None, option("Column of labels in a table.", "--label", panel=INPUT)]
Labels = Annotated[
    Path | None,
    option("File of labels: .npy, or text with one label per line.", "--labels", panel=INPUT),
]
Triplets = Annotated[Path | None, _judgements("triplets")]
Quadruplets = Annotated[Path | None, _judgements("quadruplets")]
Clicks = Annotated[Path | None, _judgements("clicks")]
Links = Annotated[Path | None, _judgements("links")]
Grades = Annotated[Path | None, _judgements("grades")]
Id = Annotated[
    str | None,
    option(
        "Column of ids in a table: judgements and searches name rows by id.", "--id", panel=INPUT
    ),
]
Sep = Annotated[
    str | None,
    option("Separator of fields. Default: , in .csv and a tab in .tsv.", "--sep", panel=INPUT),
]
Encoding = Annotated[
    str,
    option("Encoding of a table: utf-8, latin-1, cp1252, utf-16, ...", "--encoding", panel=INPUT),
]
SkipMissing = Annotated[
    bool,
    option("Leave out rows of a table without a text, label or id.", "--skip-missing", panel=INPUT),
]
ZeroBased = Annotated[
    bool, option("Indices of an svmlight file start at 0.", "--zero-based", panel=INPUT)
]
NoClassScores = Annotated[
    bool,
    option(
        "Learn from labels by the rows alone, without the scores that a linear classifier gives "
        "each label.",
        "--no-class-scores",
        panel=LEARNING,
    ),
]
