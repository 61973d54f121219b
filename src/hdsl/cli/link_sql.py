"""The query that joins links to both tables, for DuckDB."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

#: What reads a table, by the end of its name.
READERS = {
    ".parquet": "read_parquet({name})",
    ".jsonl": "read_json_auto({name}, format = 'newline_delimited')",
    ".csv": "read_csv({name}, all_varchar = true, header = true{more})",
    ".tsv": "read_csv({name}, all_varchar = true, header = true{more})",
}

#: The name of a table without ids, whose rows are numbered from 0.
ROW = "hdsl_row"


def join(arguments: Namespace, id_columns: list[str]) -> str:
    """Return a query whose rows are links, with all columns of both records.

    Examples
    --------
    >>> tables = [Path("people.csv")]
    >>> options = Namespace(
    ...     tables=tables, output=Path("links.csv"), sep=None, encoding="utf-8"
    ... )
    >>> print(join(options, ["name"]))
    SELECT links.probability, l.*, r.*
    FROM read_csv('links.csv', all_varchar = true, header = true) AS links
    JOIN read_csv('people.csv', all_varchar = true, header = true) AS l
      ON CAST(l."name" AS VARCHAR) = links."left"
    JOIN read_csv('people.csv', all_varchar = true, header = true) AS r
      ON CAST(r."name" AS VARCHAR) = links."right"
    ORDER BY CAST(links.probability AS DOUBLE) DESC;
    """
    tables = arguments.tables
    left = tables[0]
    right = tables[-1]
    more = ""
    if arguments.sep is not None:
        more += f", delim = {_quoted(arguments.sep)}"
    if arguments.encoding != "utf-8":
        more += f", encoding = {_quoted(arguments.encoding)}"
    names: list[str | None] = [None, None]
    if id_columns:
        names = [id_columns[0], id_columns[-1]]
    return "\n".join(
        [
            "SELECT links.probability, l.*, r.*",
            f"FROM {_table(arguments.output, '')} AS links",
            *_joined(left, more, "l", names[0], "left"),
            *_joined(right, more, "r", names[1], "right"),
            "ORDER BY CAST(links.probability AS DOUBLE) DESC;",
        ]
    )


def _joined(
    path: Path, more: str, name: str, id_column: str | None, side: str
) -> list[str]:
    """Return the lines that join a table by its ids, or by the numbers of its rows."""
    table = _table(path, more)
    column = id_column
    if column is None:
        column = ROW
        table = f"(SELECT *, row_number() OVER () - 1 AS {ROW} FROM {table})"
    identifier = '"' + column.replace('"', '""') + '"'
    return [
        f"JOIN {table} AS {name}",
        f'  ON CAST({name}.{identifier} AS VARCHAR) = links."{side}"',
    ]


def _table(path: Path, more: str) -> str:
    """Return what reads a file."""
    return READERS[path.suffix.lower()].format(name=_quoted(str(path)), more=more)


def _quoted(text: str) -> str:
    """Return a text as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"
