"""``hdsl link``: the same thing in two tables, or twice in one."""

from __future__ import annotations

import csv
import html
import io
import warnings
from argparse import Namespace
from collections.abc import Iterable
from importlib.resources import files
from itertools import chain
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from . import shell

if TYPE_CHECKING:
    from ..linking import Linker

#: Answers in a file of labels.
YES = ("1", "1.0", "yes", "y", "true", "x", "same", "match")
NO = ("0", "0.0", "no", "n", "false", "different")
UNKNOWN = ("", "nan", "none")

#: Most links and doubtful pairs on a page.
N_SHOWN = 300
N_DOUBTFUL = 50

#: Columns of a file of links; one of labels has answers before.
NAMES = ("left", "right", "probability", "left_text", "right_text")

Records = list[dict[str, Any]]
Answers = list[tuple[dict[str, Any], bool]]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = shell.add_command(commands, link)
    help = ".csv, .tsv, .jsonl or .parquet; of one table: duplicates in it"
    parser.add_argument("tables", metavar="TABLE", type=Path, nargs="+", help=help)
    options = shell.Section(parser, "links")
    help = (
        "Known pairs: left, right and perhaps match (yes, no or empty). "
        "Several files may be given."
    )
    options.add("--matches", help, [], type=Path, metavar="FILE", action="append")
    options.add("-o --output", "Links to write.", Path("links.csv"))
    help = "Column of ids, or one per table: sku,code. Default: id, if there."
    options.add("--id", help, dest="id_column", type=names)
    options.add("--columns", "Columns to compare: a,b,c. Default: all.", type=names)
    options.add("--threshold", "Least probability of a link.", 0.5)
    options.flag("--one-to-one", "Each record is in one link at most.")
    options.add("--label", "Add this many pairs to label to --label-file.", 0)
    options.add(
        "--label-file", "Pairs to label: fill in match, run again.", Path("labels.csv")
    )
    options.add("--html", "HTML page with links and reasons.", Path, dest="page")
    options.add("--model", "Model file to write, for hdsl.load.", Path)
    options.add("--sep", "Separator of fields. Default: , in .csv and a tab in .tsv.")
    options.add("--encoding", "Encoding of the tables.", "utf-8", type=shell.encoding)
    options.add("--seed", "Random seed, 0 or more.", 0, type=shell.seed)
    shell.add_json(options)


def link(given: Namespace) -> None:
    """Find the records of two tables that are the same thing, or duplicates in one.

    Known matches teach which words count. Without any, links are by cosine; --label
    asks about the pairs that teach most.

    For example:

      hdsl link left.csv right.csv --matches pairs.csv -o links.csv --html links.html

      hdsl link people.csv --label 20     # fill in labels.csv, then the same command
      again
    """
    from . import inputs

    if not 0.0 <= given.threshold <= 1.0 or given.label < 0 or len(given.tables) > 2:
        limits = "--threshold a number from 0 to 1, and --label a number of pairs"
        raise ValueError(f"One or two tables are linked, {limits}.")
    label_file = given.label_file if given.label else None
    if label_file is not None and label_file.suffix.lower() != ".csv":
        raise ValueError(
            f"--label-file must end in .csv, as it is read again. Got {label_file}."
        )
    others = [path for path in given.matches if path != label_file]
    taken = [*given.tables, *others]
    for path in filter(None, (given.output, given.page, given.model, label_file)):
        inputs.check_output(path, taken=taken)
        taken.append(path)
    if given.model is not None:
        inputs.check_model_output(given.model)
    how = {"encoding": given.encoding, "sep": inputs.separator(given.sep)}
    tables = [_read(path, **how) for path in given.tables]
    id_columns = given.id_column or _id_columns(tables, bool(others))
    ids = {
        str(x)
        for table in tables
        for column in id_columns
        for x in table.get(column, ())
    }
    answers = [answer for path in others for answer in _answers(path, ids, **how)]
    labelled: Answers = []
    if label_file is not None and label_file.exists():
        labelled = _answers(label_file, ids, needed=("match", "left", "right"))

    from ..linking import Linker

    linker = Linker(
        given.columns,
        id_column=id_columns or None,
        random_state=given.seed,
        verbose=shell.is_watched(given.as_json),
    )
    known: dict[str, Any] = {"matches": [], "non_matches": []}
    for record, is_match in answers + labelled:
        known["matches" if is_match else "non_matches"].append(
            (record["left"], record["right"])
        )
    linker.fit(*tables, **known)
    # With other columns texts are not those that were asked about.
    _check_records(linker, [] if given.columns else labelled, label_file)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # the statement is shown in any case
        links = linker.records(
            linker.predict(given.threshold, one_to_one=given.one_to_one)
        )
    n_known = sum(record["known"] != "" for record in links)
    _write_csv(given.output, (*NAMES, "known"), links)
    if label_file is not None:
        kept = [
            record for record, _ in labelled
        ]  # what has no answer yet is asked anew
        header = dict.fromkeys(("match", *NAMES, *chain.from_iterable(kept)))
        _write_csv(
            label_file, header, kept + linker.records(linker.to_label(given.label))
        )
    found = f"from a probability of {given.threshold:g} on"
    if given.page is not None:
        from ..report import write

        title = f"Links: {' and '.join(path.name for path in given.tables)}"
        write(given.page, _page(title, linker, links, found))
    if given.model is not None:
        linker.save(given.model)
    if given.as_json:
        facts = {"links": len(links), "known": n_known, "output": str(given.output)}
        facts |= {"learned": linker.is_learned_, "statement": linker.statement_}
        shell.show_json(
            facts | {"recall": linker.recall_, "reliability": linker.reliability_}
        )
        return
    shell.show(linker.statement_, *_measured(linker))
    found += f", {n_known:,} of them known" * (n_known > 0)
    shell.show("", f"{shell.counted(len(links), 'link')} {found}: {given.output}")
    if label_file is not None:
        shell.show(
            f"{label_file} has pairs to label: fill in the column match, run this "
            "again."
        )


# --- files ----------------------------------------------------------------------------


def _read(
    path: Path, encoding: str = "utf-8", sep: str | None = None
) -> dict[str, list[Any]]:
    from ..readers.tables import read_columns
    from .inputs import check_input

    check_input(path, encoding)
    read = read_columns(path, encoding=encoding, sep=sep)
    return {name: list(values) for name, values in read.items()}


def names(text: str) -> list[str]:
    """Return names that commas separate."""
    return [name.strip() for name in text.split(",")]


def _id_columns(tables: list[dict[str, list[Any]]], is_asked: bool) -> list[str]:
    """Return the columns that are called id; no other where one table has none."""

    def is_id(name: str, values: list[Any]) -> bool:
        return name == "id" or (name.lower() == "id" and len({*values}) == len(values))

    found = [
        next((name for name in table if is_id(name, table[name])), "")
        for table in tables
    ]
    if is_asked and any(found) and not all(found):
        way_out = "name both with --id, or give both one or none"
        raise ValueError(f"One table has a column id, the other has none: {way_out}.")
    return found if all(found) else []


def _answers(
    path: Path, ids: set[str], *, needed: tuple[str, ...] = (), **how: Any
) -> Answers:
    """Return the records of a file that have an answer, and whether they are matches."""
    table = _read(path, **how)
    if not {*needed} <= {*table}:
        raise ValueError(
            f"{path} exists and is no file of labels: name another with --label-file."
        )
    sides = [name for name in table if name != "match"][:2]
    if len(sides) < 2:
        raise ValueError(f"{path} must have two columns of records: left and right.")
    sides = ["left", "right"] if {"left", "right"} <= {*table} else sides
    if all(side.strip() in ids or side.strip().isdecimal() for side in sides):
        first = " and ".join(map(shell.one_line, sides))
        raise ValueError(
            f"{path} has no header, but a pair, {first}: put left,right above it."
        )
    for name, values in table.items() if "match" not in table else ():
        words = [
            v for value in values if (v := str(value).strip().lower()) not in UNKNOWN
        ]
        if name not in sides and sum(v in YES + NO for v in words) > 0.5 * len(words):
            raise ValueError(
                f"{path} has no column match: rename {name!r} if it has the answers."
            )
    table |= zip(("left", "right"), [table[side] for side in sides], strict=True)
    records = [
        dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)
    ]
    answers = []
    for row, record in enumerate(records, start=1):
        said = str(record.get("match", "yes")).strip().lower()
        if said not in YES + NO + UNKNOWN:
            said = shell.one_line(said, 40)
            raise ValueError(
                f"{path}, record {row} answers {said!r}: say yes, no or nothing."
            )
        if said not in UNKNOWN:
            answers.append((record, said in YES))
    return answers


def _check_records(linker: Linker, labelled: Answers, path: Path | None) -> None:
    """Raise ValueError where answers are about other texts than the records of their numbers."""
    import numpy as np

    from ..linking import Links

    left, right = (
        np.array([r[side] for r, _ in labelled], object) for side in ("left", "right")
    )
    now = linker.records(Links(left, right, np.zeros(len(labelled))))
    for (then, _), record in zip(labelled, now, strict=True):
        for name in ("left_text", "right_text"):
            words = str(then.get(name) or "").split()
            if words and {*words}.isdisjoint(record[name].split()):
                was = shell.one_line(then[name], 60)
                text = shell.one_line(record[name], 60)
                way_out = "delete it, or name another file with --label-file"
                raise ValueError(
                    f"{path} is about {was!r}, which is now {text!r}: {way_out}."
                )


def _write_csv(path: Path, header: Iterable[str], records: Records) -> None:
    from ..files.atomic import atomic_write

    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*header], restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(records)
    with atomic_write(path, str(path)) as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


# --- what is shown --------------------------------------------------------------------


def _measured(linker: Linker) -> list[str]:
    """Return recall and reliability as lines of text, shares with their 95 % intervals."""

    def shown(value: Any) -> str:
        if isinstance(value, tuple):
            return f"{shell.percent(value[0])} ({100 * value[1]:.0f} to {100 * value[2]:.0f})"
        return shell.percent(value) if isinstance(value, float) else str(value)

    first = "Held-out matches whose right record is among the first k (95 % intervals)"
    second = "Held-out pairs by probability, and the share that matches"
    lines = []
    for title, table in ((first, linker.recall_), (second, linker.reliability_)):
        for line in table[:1]:
            rows = [[*line], *([*map(shown, line.values())] for line in table)]
            lines += ["", title, *shell.table_lines(rows, right=range(len(line)))]
    return lines


def _page(title: str, linker: Linker, links: Records, found: str) -> str:
    """Return the page: how good it is, the new links with their reasons, and the doubtful ones."""
    new = [link for link in links if not link["known"]]
    known = shell.counted(len(links) - len(new), "known match", "known matches")
    texts = {
        "title": title,
        "measured": "\n".join(_measured(linker)),
        "said": f"{linker.statement_} Not shown: {known}.",
        "found": f"{shell.counted(len(new), 'new link')} {found}"
        + f", the first {N_SHOWN}" * (len(new) > N_SHOWN),
    }
    tables = {
        "links": new[:N_SHOWN],
        "doubtful": linker.records(linker.to_label(N_DOUBTFUL)),
    }
    parts = {name: html.escape(text) for name, text in texts.items()}
    parts |= {name: _rows(linker, table) for name, table in tables.items()}
    return Template(
        (files("hdsl.report") / "links.html").read_text("utf-8")
    ).substitute(parts)


def _rows(linker: Linker, links: Records) -> str:
    """Return rows of HTML: links with their texts and reasons."""
    rows = []
    for r in links:
        sides = (
            f"{r[s]}: {shell.one_line(r[f'{s}_text'], 300)}" for s in ("left", "right")
        )
        reasons = linker.reasons(r["left"], r["right"])
        why = ", ".join(
            f"{word} {value:+.2f}" for word, value in reasons if abs(value) >= 0.005
        )
        cells = (f"{r['probability']:.2f}", *sides, why)
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    return "\n".join(rows)
