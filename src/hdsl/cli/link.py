"""``hdsl link``: the same thing in two tables, or twice in one."""

from __future__ import annotations

import csv
import html
import io
import warnings
from argparse import Namespace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import shell

if TYPE_CHECKING:
    from ..linking import Linker, Links

#: Answers in a file of labels.
YES, NO = ("1", "1.0", "yes", "y", "true", "x"), ("0", "0.0", "no", "n", "false")
UNKNOWN = ("", "nan", "none")

#: Most links and doubtful pairs on a page.
N_SHOWN, N_DOUBTFUL = 300, 50

#: Columns of a file of links; one of labels has answers before.
NAMES = ("left", "right", "probability", "left_text", "right_text")

Columns = dict[str, list[Any]]
Rows = list[tuple[str, ...]]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = shell.add_command(commands, link)
    help = "table: .csv, .tsv, .jsonl, .parquet"
    parser.add_argument("left", metavar="LEFT", type=Path, help=help)
    help = "none: duplicates in the first"
    parser.add_argument("right", metavar="RIGHT", type=Path, nargs="?", help=help)
    options = shell.Section(parser, "links")
    options.add(
        "--matches",
        "Known pairs: a table with columns left and right, or these first, and perhaps match (yes "
        "or no; empty: not known). Can be given several times.",
        [], type=Path, metavar="FILE", action="append",
    )  # fmt: skip
    options.add("-o --output", "Links to write.", Path("links.csv"))
    help = "Column of ids, or one per table: sku,code. Default: id, if there."
    options.add("--id", help, dest="id_column")
    options.add("--columns", "Columns to compare: a,b,c. Default: all.")
    options.add("--threshold", "Least probability of a link.", 0.5)
    options.flag("--one-to-one", "Each record is in one link at most.")
    options.add("--label", "Add this many pairs to label to --label-file.", 0)
    options.add("--label-file", "Pairs to label: fill in match, run again.", Path("labels.csv"))
    options.add("--html", "HTML page with links and reasons.", Path, dest="page")
    options.add("--model", "Model file to write, for hdsl.load.", Path)
    options.add("--encoding", "Encoding of the tables.", "utf-8")
    options.add("--seed", "Random seed.", 0)
    shell.add_json(options)


def link(given: Namespace) -> None:
    """Find the records of two tables that are the same thing, or duplicates in one.

    Known matches teach which words count. Without any, links are by cosine; --label asks about the
    pairs that teach most.

    For example:

      hdsl link left.csv right.csv --matches pairs.csv -o links.csv --html links.html

      hdsl link people.csv --label 20     # fill in labels.csv, then the same command again
    """
    from . import inputs

    if not 0.0 <= given.threshold <= 1.0 or given.label < 0:
        raise ValueError("--threshold is a number from 0 to 1, and --label a number of pairs.")
    label_file = given.label_file if given.label else None
    paths = [path for path in (given.left, given.right) if path is not None]
    taken = [*paths, *(path for path in given.matches if path != label_file)]
    for path in filter(None, (given.output, given.page, given.model, label_file)):
        inputs.check_output(path, taken=taken)
        taken.append(path)
    tables = [_read(path, given.encoding) for path in paths]
    id_column = _share_ids(tables, paths, given.id_column)
    known = {path: _read(path, given.encoding) for path in given.matches if path != label_file}
    labelled: Columns = {}
    if label_file is not None and label_file.exists():
        labelled = known[label_file] = _labelled(label_file)
    answers = [answer for path, table in known.items() for answer in _answers(path, table)]

    from ..linking import Linker

    linker = Linker(
        given.columns and [name.strip() for name in given.columns.split(",")],
        id_column=id_column, random_state=given.seed, verbose=shell.is_watched(given.as_json),
    )  # fmt: skip
    matches, others = ([pair for pair, is_yes in answers if is_yes == y] for y in (True, False))
    linker.fit(tables[0], tables[1] if len(tables) == 2 else None, matches, others)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the statement is shown in any case
        links = linker.predict(given.threshold, one_to_one=given.one_to_one)
    is_known = linker.is_known(links)
    n_known, records = int(is_known.sum()), _records(linker, links)
    _write_csv(given.output, records | {"known": ["yes" if yes else "" for yes in is_known]})
    if label_file is not None:
        asked = _records(linker, linker.to_label(given.label))
        n, m = len(labelled.get("match", ())), len(asked["left"])
        names = dict.fromkeys(["match", *NAMES, *labelled])
        blank = [""] * max(n, m)
        joined = {c: [*labelled.get(c, blank[:n]), *asked.get(c, blank[:m])] for c in names}
        _write_csv(label_file, joined)
    if given.page is not None:
        from ..report import write

        name = " and ".join(path.name for path in paths)
        new = [k for k, yes in enumerate(is_known) if not yes]
        new_links = type(links)(*(values[new] for values in links))
        write(given.page, _page(linker, new_links, n_known, name, given.threshold))
    if given.model is not None:
        linker.save(given.model)
    if given.as_json:
        facts = {"links": len(links.left), "known": n_known, "output": str(given.output)}
        facts |= {"learned": linker.is_learned_, "statement": linker.statement_}
        shell.show_json(facts | {"recall": linker.recall_, "reliability": linker.reliability_})
        return
    shell.show(linker.statement_)
    for title, rows in _measured(linker):
        shell.show("", title)
        shell.show_table(rows, right=range(1, len(rows[0])))
    found = shell.counted(len(links.left), "link")
    found += f" from a probability of {given.threshold:g} on"
    shell.show("", found + f", {n_known:,} of them known" * (n_known > 0) + f": {given.output}")
    if label_file is not None:
        shell.show(f"{label_file} has pairs to label: fill in the column match, run this again.")


# --- files ---------------------------------------------------------------------------------------


def _read(path: Path, encoding: str = "utf-8") -> Columns:
    from ..readers.tables import read_columns
    from .inputs import check_input

    check_input(path, encoding)
    return {name: list(values) for name, values in read_columns(path, encoding=encoding).items()}


def _share_ids(tables: list[Columns], paths: list[Path], given: str | None) -> str | None:
    """Return the name of the column of ids, given to it in each table; None if there is none."""
    if given is None:
        return "id" if all("id" in table for table in tables) else None
    names = [name.strip() for name in given.split(",")]
    if given in tables[0] or len(names) != len(tables):  # a name may have a comma
        return given
    for place, (table, name) in enumerate(zip(tables, names, strict=True)):
        if name not in table:
            there = ", ".join(map(repr, table))
            raise ValueError(f"{paths[place]} has no column {name!r} of ids, only {there}.")
        others = {c: values for c, values in table.items() if c not in (name, "id")}
        tables[place] = {"id": table[name]} | others
    return "id"


def _said(value: Any) -> str:
    return str(value).strip().lower()


def _answers(path: Path, table: Columns) -> list[tuple[tuple[Any, Any], bool]]:
    """Return pairs and whether they match; pairs without an answer are left out."""
    names = list(table)
    if len(names) < 2:
        raise ValueError(f"{path} must have two columns of records: left and right.")
    left, right = ("left", "right") if {"left", "right"} <= {*names} else names[:2]
    pairs = [*zip(table[left], table[right], strict=True)]
    words = [*map(_said, table.get("match", table.get("label", [1] * len(pairs))))]
    for row, word in enumerate(words):
        if word not in YES + NO + UNKNOWN:
            raise ValueError(
                f"{path}, record {row + 1} answers {shell.one_line(word, 40)!r}: say yes, no or "
                "nothing."
            )
    return [(p, word in YES) for p, word in zip(pairs, words, strict=True) if word not in UNKNOWN]


def _labelled(path: Path) -> Columns:
    """Return the answered rows of a file of labels; what has no answer is asked anew."""
    table = _read(path)
    if not {"match", "left", "right"} <= {*table}:
        raise ValueError(f"{path} exists and is no file of labels: name another with --label-file.")
    kept = [k for k, word in enumerate(table["match"]) if _said(word) not in UNKNOWN]
    return {name: [values[k] for k in kept] for name, values in table.items()}


def _records(linker: Linker, links: Links) -> Columns:
    probability: Any = links.probability.round(4)
    columns = (links.left, links.right, probability, *linker.texts(links))
    return {name: [*values] for name, values in zip(NAMES, columns, strict=True)}


def _write_csv(path: Path, table: Columns) -> None:
    from ..files.atomic import atomic_write

    text = io.StringIO(newline="")
    csv.writer(text).writerows([[*table], *zip(*table.values(), strict=True)])
    with atomic_write(path, str(path)) as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


# --- what is shown -------------------------------------------------------------------------------


def _measured(linker: Linker) -> list[tuple[str, Rows]]:
    """Return recall and reliability as titles and rows of text."""

    def shown(share: tuple[float, float, float]) -> str:
        return f"{shell.percent(share[0])} ({100 * share[1]:.0f} to {100 * share[2]:.0f})"

    recall: Rows = [("  first", "cosine", "learned")]
    recall += [(f"  {r['k']}", shown(r["cosine"]), shown(r["learned"])) for r in linker.recall_]
    honest: Rows = [("  probability", "pairs", "mean", "match")]
    for r in linker.reliability_:
        span, n = f"  {r['from']:.1f} to {r['to']:.1f}", f"{r['n']:,}"
        honest.append((span, n, shell.percent(r["probability"]), shown(r["matches"])))
    first = "Held-out matches whose right record is among the first (95 % intervals)"
    second = "Held-out pairs by probability, and how many match"
    return [(first, recall), (second, honest)] if linker.is_learned_ else []


def _page(linker: Linker, links: Links, n_known: int, name: str, threshold: float) -> str:
    """Return the page: how good it is, the new links with their reasons, and the doubtful ones."""
    n = len(links.left)
    cut = f", the first {N_SHOWN}" if n > N_SHOWN else ""
    heading = f"{shell.counted(n, 'new link')} from a probability of {threshold:g} on{cut}"
    doubtful, wide = linker.to_label(N_DOUBTFUL), ' class="wide"'
    tables = [
        *((*measured, "") for measured in _measured(linker)),
        (heading, _reasoned(linker, links), wide),
        ("The pairs to ask a person about", _reasoned(linker, doubtful), wide),
    ]
    style = (files("hdsl.report") / "links.css").read_text("utf-8")
    title = html.escape(f"Links: {name}")
    known = shell.counted(n_known, "known match", "known matches")
    said = linker.statement_ + f" {known} are not shown." * (n_known > 0)
    parts = [f"<h1>{title}</h1><p>{html.escape(said)}</p>"]
    for heading, (head, *rows), kind in tables:
        lines = ("".join(f"<td>{html.escape(cell)}" for cell in row) for row in rows)
        body = "<tr>".join(["".join(f"<th>{html.escape(cell)}" for cell in head), *lines])
        parts.append(f"<h2>{html.escape(heading)}</h2><table{kind}><tr>{body}</table>")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style>{''.join(parts)}</html>"
    )


def _reasoned(linker: Linker, links: Links) -> Rows:
    rows: Rows = [("probability", "left", "right", "why")]
    for *ends, p, left, right in [*zip(*links, *linker.texts(links), strict=True)][:N_SHOWN]:
        sides = (f"{e}: {shell.one_line(t, 300)}" for e, t in zip(ends, (left, right), strict=True))
        reasons = ((word, value) for word, value in linker.reasons(*ends) if abs(value) >= 0.005)
        why = ", ".join(f"{word} {value:+.2f}" for word, value in reasons)
        rows.append((f"{p:.2f}", *sides, why))
    return rows
