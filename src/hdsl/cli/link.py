"""``hdsl link``: the same thing in two tables, or twice in one."""

from __future__ import annotations

import warnings
from argparse import Namespace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import shared_options
from .output import announce, counted, is_watched, show, show_json
from .shared_options import OptionGroup, add_command

if TYPE_CHECKING:
    from ..linking import Audit, Linker, Links
    from .link_files import Answer, Columns, Record, UnfinishedAudit


#: What reads a table, by the end of its name.
READERS = {
    ".parquet": "read_parquet({name})",
    ".jsonl": "read_json_auto({name}, format = 'newline_delimited')",
    ".csv": "read_csv({name}, all_varchar = true, header = true{more})",
    ".tsv": "read_csv({name}, all_varchar = true, header = true{more})",
}

#: The name of a table without ids, whose rows are numbered from 0.
ROW = "hdsl_row"

#: Options that are about learning, which --into does not do.
LEARNING = (
    "matches",
    "complete",
    "id_columns",
    "columns",
    "block_on",
    "label",
    "audit",
    "page",
    "one_to_one",
    "max_false",
)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, link)
    about_tables = ".csv, .tsv, .jsonl or .parquet; of one table: duplicates in it"
    parser.add_argument(
        "tables", metavar="TABLE", type=Path, nargs="+", help=about_tables
    )
    options = OptionGroup(parser, "links")
    about_matches = (
        "Known pairs: left, right and perhaps match (yes, no or empty). "
        "Several files may be given."
    )
    options.add_paths("--matches", about_matches)
    about_complete = "All matches of each listed record are listed."
    options.add_flag("--complete", about_complete)
    about_output = "Links to write: .csv or .parquet."
    options.add_path("-o --output", about_output, Path("links.csv"))
    about_ids = "Column of ids, or one per table: sku,code. Default: id, if there."
    options.add_parsed("--id", about_ids, shared_options.names, dest="id_columns")
    about_columns = "Columns to compare: a,b,c. Default: all."
    options.add_parsed("--columns", about_columns, shared_options.names)
    about_blocks = (
        "Column that candidates agree in, for large tables: a or a,b for any of them, "
        "a+b for both."
    )
    options.add_parsed("--block-on", about_blocks, shared_options.names)
    options.add_number("--threshold", "Least probability of a link.", 0.5)
    about_false = (
        "Share of links that may be wrong, 1%% or 0.01, in place of --threshold."
    )
    options.add_parsed("--max-false", about_false, share)
    options.add_flag("--one-to-one", "Each record is in one link at most.")
    options.add_integer("--label", "Add this many pairs to label to --label-file.", 0)
    about_labels = "Pairs to label: fill in match, run again."
    options.add_path("--label-file", about_labels, Path("labels.csv"))
    about_audit = (
        "Write this many random links to --audit-file, to bound the wrong ones."
    )
    options.add_integer("--audit", about_audit, 0)
    about_answers = "Links to audit: fill in match, run again."
    options.add_path("--audit-file", about_answers, Path("audit.csv"))
    options.add_path("--html", "HTML page with links and reasons.", dest="page")
    about_sql = "Print the query by which DuckDB joins the links to both tables."
    options.add_flag("--sql", about_sql)
    options.add_path("--entities", "Entities to write: which records are one thing.")
    options.add_path("--model", "Model file to write, for hdsl.load and --into.")
    about_into = "Link one table of new records with those of this model file."
    options.add_path("--into", about_into)
    about_side = "Table that new records belong to, for --into: right or left."
    options.add_choice("--side", about_side, ("right", "left"))
    options.add_integer("--jobs", "Threads; -1 is all cores.")
    shared_options.add_separator(options)
    shared_options.add_encoding(options, "Encoding of the tables.")
    shared_options.add_seed(options)
    shared_options.add_quiet(options)
    shared_options.add_json(options)


def link(arguments: Namespace) -> None:
    """Find the records of two tables that are the same thing, or duplicates in one.

    Columns tell matches without labels. Known pairs teach more; --label asks about the
    pairs that teach most, and --audit says how many links are wrong at most.

    For example:

      hdsl link left.csv right.csv --matches pairs.csv -o links.csv --html links.html

      hdsl link people.csv --label 20     # fill in labels.csv, then the same command
      again

      hdsl link --into links.hdsl new.csv --model links.hdsl
    """
    _check_options(arguments)
    _check_files(arguments)
    if arguments.into is not None:
        link_into(arguments)
        return
    from .link_files import (
        Format,
        check_texts,
        id_columns_of,
        ids_of,
        read_answers,
        read_columns,
        read_labelled,
    )

    quiet = shared_options.is_quiet(arguments)
    announce("reading the tables", quiet=quiet)
    form = Format.of_options(arguments.encoding, arguments.sep)
    tables = [read_columns(path, form) for path in arguments.tables]
    matches = _match_files(arguments)
    id_columns = arguments.id_columns or id_columns_of(tables, is_needed=bool(matches))
    ids = ids_of(tables, id_columns)
    answers = [answer for path in matches for answer in read_answers(path, ids, form)]
    labelled = read_labelled(_label_file(arguments), ids)
    announce("learning which words count", quiet=quiet)
    linker = _fit(tables, id_columns, answers + labelled, arguments)
    if not arguments.columns:  # other columns are other texts than those asked about
        check_texts(linker, labelled, arguments.label_file)
    announce("finding links", quiet=quiet)
    audit = _audit(linker, ids, arguments)
    found = _predict(linker, arguments)
    links = linker.records(found)
    _write(linker, links, labelled, arguments)
    _show(linker, links, audit, arguments)
    threshold = arguments.threshold
    if arguments.max_false is not None:
        threshold = float(found.probability.min(initial=1.0))
    _write_entities(linker, threshold, arguments)
    if arguments.sql:
        show("", join(arguments, id_columns))


def _check_options(arguments: Namespace) -> None:
    """Raise ValueError for numbers out of range, and for too many tables."""
    is_share = 0.0 <= arguments.threshold <= 1.0
    if arguments.max_false is not None and not 0.0 <= arguments.max_false <= 1.0:
        raise ValueError(
            "--max-false must be a share such as 1% or 0.01. "
            f"Got {arguments.max_false:g}."
        )
    is_number = arguments.label >= 0 and arguments.audit >= 0
    if not is_share or not is_number or len(arguments.tables) > 2:
        limits = (
            "--threshold a number from 0 to 1, and --label and --audit numbers of pairs"
        )
        raise ValueError(f"One or two tables are linked, {limits}.")
    if arguments.sql and (arguments.as_json or arguments.into is not None):
        raise ValueError(
            "--sql prints a query below the links of two tables, or of one: leave out "
            "--json and --into."
        )
    if arguments.jobs == 0:
        raise ValueError("--jobs must be 1 or more, or -1 for all cores. Got 0.")
    named = {"label": _label_file(arguments), "audit": _audit_file(arguments)}
    for name, path in named.items():
        if path is not None and path.suffix.lower() != ".csv":
            raise ValueError(
                f"--{name}-file must end in .csv, as it is read again. Got {path}."
            )


def _check_files(arguments: Namespace) -> None:
    """Raise ValueError unless each output can be written, and is no other file of the command."""
    from . import files

    taken = [*arguments.tables, *_match_files(arguments)]
    label_file = _label_file(arguments)
    outputs = (
        arguments.output,
        arguments.page,
        arguments.entities,
        arguments.model,
        label_file,
        _audit_file(arguments),
    )
    for path in outputs:
        if path is not None:
            files.check_output(path, taken=taken)
            taken.append(path)
    if arguments.model is not None:
        files.check_model_output(arguments.model)


def _label_file(arguments: Namespace) -> Path | None:
    """Return the file of pairs to label, None where no pair is asked for."""
    if arguments.label == 0:
        return None
    return arguments.label_file


def _audit_file(arguments: Namespace) -> Path | None:
    """Return the file of links to audit, None where none is asked for."""
    if arguments.audit == 0:
        return None
    return arguments.audit_file


def share(text: str) -> float:
    """Return a share from 0 to 1, written as 0.01 or as 1%.

    Examples
    --------
    >>> share("1%"), share("0.05")
    (0.01, 0.05)
    """
    number = text.strip().removesuffix("%")
    value = float(number)
    if number != text.strip():
        value /= 100
    return value


def _match_files(arguments: Namespace) -> list[Path]:
    """Return the files of known pairs; that of labels is read in any case."""
    label_file = _label_file(arguments)
    return [path for path in arguments.matches if path != label_file]


# --- links ----------------------------------------------------------------------------


def _fit(
    tables: list[Columns],
    id_columns: list[str],
    answers: list[Answer],
    arguments: Namespace,
) -> Linker:
    """Return a linker that has learned from the answers."""
    from ..linking import Linker

    pairs: dict[bool, list[tuple[Any, Any]]] = {True: [], False: []}
    for record, is_match in answers:
        pairs[is_match].append((record["left"], record["right"]))
    linker = Linker(
        arguments.columns,
        id_column=id_columns or None,
        block_on=_rules(arguments.block_on, tables),
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        verbose=is_watched(shared_options.is_quiet(arguments)),
    )
    left = tables[0]
    right = None
    if len(tables) == 2:
        right = tables[1]
    return linker.fit(
        left,
        right,
        matches=pairs[True],
        non_matches=pairs[False],
        complete=arguments.complete,
    )


def _links_asked_for(arguments: Namespace) -> dict[str, Any]:
    """Return which links are asked for, as the methods of a linker take it."""
    return {
        "threshold": arguments.threshold,
        "one_to_one": arguments.one_to_one,
        "max_false": arguments.max_false,
    }


def _audit(
    linker: Linker, ids: set[str], arguments: Namespace
) -> Audit | UnfinishedAudit | None:
    """Return what an audit says, or how far it is; it is drawn if there is none yet."""
    from .link_files import LINK_COLUMNS, UnfinishedAudit, read_audit, write_table

    path = _audit_file(arguments)
    if path is None:
        return None
    asked_for = _links_asked_for(arguments)
    if not path.exists():
        drawn = linker.records(linker.audit(arguments.audit, **asked_for))
        write_table(path, ("match", *LINK_COLUMNS), drawn)
    answers = read_audit(path, ids)
    if isinstance(answers, UnfinishedAudit):
        return answers
    pairs: dict[bool, list[tuple[Any, Any]]] = {True: [], False: []}
    for record, is_match in answers:
        pairs[is_match].append((record["left"], record["right"]))
    return linker.audited(pairs[True], pairs[False], **asked_for)


def _rules(names: list[str] | None, tables: list[Columns]) -> list[Any] | None:
    """Return what --block-on names: columns, and tuples of columns joined by a plus sign."""
    if not names:
        return None
    known = {name for columns in tables for name in columns}
    return [name if name in known else tuple(name.split("+")) for name in names]


def _predict(linker: Linker, arguments: Namespace) -> Links:
    """Return the links, the most probable first."""
    with warnings.catch_warnings():
        # How many links there are is always shown.
        warnings.simplefilter("ignore", UserWarning)
        links: Links = linker.predict(**_links_asked_for(arguments))
    return links


# --- files ----------------------------------------------------------------------------


def _write(
    linker: Linker, links: list[Record], labelled: list[Answer], arguments: Namespace
) -> None:
    """Write the links, and the pairs to label, the page and the model where they are asked for."""
    from .link_files import LINK_COLUMNS, write_table

    write_table(arguments.output, (*LINK_COLUMNS, "known"), links)
    label_file = _label_file(arguments)
    if label_file is not None:
        faults = linker.label_report_.faults()
        answered = [_marked(answer, faults) for answer in labelled]
        # others are asked about anew
        header = dict.fromkeys(("match", *LINK_COLUMNS, *chain.from_iterable(answered)))
        doubtful = linker.records(linker.to_label(arguments.label))
        write_table(label_file, header, answered + doubtful)
    if arguments.page is not None:
        _write_page(linker, links, arguments)
    if arguments.model is not None:
        linker.save(arguments.model)


def _marked(answer: Answer, faults: dict[tuple[str, str], str]) -> Record:
    """Return the record of an answer, with its fault if it has one."""
    from ..linking.tables import text_of

    record = answer.record
    fault = faults.get((text_of(record["left"]), text_of(record["right"])))
    if fault is None:
        return record
    return record | {"fault": fault}


def _write_page(linker: Linker, links: list[Record], arguments: Namespace) -> None:
    from ..report import write
    from .link_page import page

    names = " and ".join(path.name for path in arguments.tables)
    text = page(f"Links: {names}", linker, links, _threshold(arguments))
    write(arguments.page, text)


def _write_entities(linker: Linker, threshold: float, arguments: Namespace) -> None:
    """Write the entities by links from a threshold on, if they are asked for.

    What became of earlier entities is shown.
    """
    from .link_files import entities_of, lines_of_changes, written_together

    if arguments.entities is not None:
        content, changes = entities_of(linker, threshold, arguments)
        with written_together({arguments.entities: content}):
            pass
        if not arguments.as_json:
            show(*lines_of_changes(changes, arguments.entities))


# --- what is shown --------------------------------------------------------------------


def _show(
    linker: Linker,
    links: list[Record],
    audit: Audit | UnfinishedAudit | None,
    arguments: Namespace,
) -> None:
    """Print what is expected of the links, and where they stand."""
    n_known = sum(link["known"] != "" for link in links)
    n_wrong = sum(1.0 - link["probability"] for link in links)
    if arguments.as_json:
        show_json(
            {
                "links": len(links),
                "known": n_known,
                "expected_wrong": round(n_wrong, 2),
                "output": str(arguments.output),
                "learned": linker.is_learned_,
                "statement": linker.statement_,
                "audit": None if audit is None else audit._asdict(),
                "label_report": linker.label_report_._asdict(),
            }
        )
        return
    show(linker.statement_)
    if audit is not None:
        show(audit.sentence())
    line = f"{counted(len(links), 'link')} {_threshold(arguments)}"
    if n_known > 0:
        line += f", {n_known:,} of them known"
    show("", f"{line}: {arguments.output}")
    label_file = _label_file(arguments)
    if label_file is not None:
        show(
            f"{label_file} has pairs to label: fill in the column match, run this "
            "again."
        )


def _threshold(arguments: Namespace) -> str:
    """Return which links are shown, for the end of a title."""
    if arguments.max_false is not None:
        return f"of which {100 * arguments.max_false:g} % may be wrong"
    return f"from a probability of {arguments.threshold:g} on"


# --- later records --------------------------------------------------------------------


def link_into(arguments: Namespace) -> None:
    """Link the records of one table with those of a linker, and keep them in it."""
    from .link_files import (
        LINK_COLUMNS,
        Format,
        bytes_of,
        entities_of,
        read_columns,
        written_together,
    )

    _check_into(arguments)
    linker = _linker_of(arguments)
    form = Format.of_options(arguments.encoding, arguments.sep)
    path = arguments.tables[0]
    columns = read_columns(path, form)
    announce("linking the new records", quiet=shared_options.is_quiet(arguments))
    links = linker.link(columns, arguments.threshold, side=arguments.side)
    linker.add(columns, side=arguments.side)
    records = linker.records(links)
    output = arguments.output
    files = {output: bytes_of(output, (*LINK_COLUMNS, "known"), records)}
    changes = None
    if arguments.entities is not None:
        content, changes = entities_of(linker, arguments.threshold, arguments)
        files[arguments.entities] = content
    # The model comes first: where it cannot be written, the other files stay.
    with written_together(files):
        if arguments.model is not None:
            linker.save(arguments.model)
    _show_into(records, changes, arguments)


def _check_into(arguments: Namespace) -> None:
    """Raise ValueError for several tables, and for options that need a fit."""
    if len(arguments.tables) != 1:
        raise ValueError(
            "--into links one table of new records with those of a linker."
        )
    used = [name for name in LEARNING if getattr(arguments, name)]
    if used:
        names = {
            "id_columns": "id",
            "block_on": "block-on",
            "page": "html",
            "one_to_one": "one-to-one",
            "max_false": "max-false",
        }
        option = names.get(used[0], used[0])
        raise ValueError(
            f"--{option} has no use with --into: nothing is learned from the new "
            "records. Link all tables again, without --into."
        )


def _linker_of(arguments: Namespace) -> Linker:
    """Return the linker of a file."""
    from ..linking import Linker
    from ..saving import load
    from .files import check_size

    check_size(arguments.into)
    linker = load(arguments.into)
    if not isinstance(linker, Linker):
        raise ValueError(
            f"{arguments.into} holds no links: --into takes a file that `hdsl link "
            "--model` has written."
        )
    linker.n_jobs = arguments.jobs
    return linker


def _show_into(records: list[Record], changes: Any, arguments: Namespace) -> None:
    """Print how many links there are, and where they stand."""
    if arguments.as_json:
        answer: dict[str, Any] = {
            "links": len(records),
            "output": str(arguments.output),
            "model": None,
        }
        if arguments.model is not None:
            answer["model"] = str(arguments.model)
        if changes is not None:
            answer["entities"] = changes._asdict()
        show_json(answer)
        return
    threshold = f"from a probability of {arguments.threshold:g} on"
    show(f"{counted(len(records), 'new link')} {threshold}: {arguments.output}")
    if changes is not None:
        from .link_files import lines_of_changes

        show(*lines_of_changes(changes, arguments.entities))
    if arguments.model is None:
        show("The new records are not kept: --model names the file that keeps them.")
    else:
        show(f"The new records are kept in {arguments.model}.")


# --- the query that joins links to both tables, for DuckDB ----------------------------


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
    reader = READERS.get(path.suffix.lower(), READERS[".csv"])
    return reader.format(name=_quoted(str(path)), more=more)


def _quoted(text: str) -> str:
    """Return a text as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"
