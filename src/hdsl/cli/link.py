"""``hdsl link``: the same thing in two tables, or twice in one."""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import warnings
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .shell import (
    Section,
    add_command,
    add_json,
    counted,
    is_watched,
    one_line,
    percent,
    show,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from ..linking import Linker, Links

#: Answers in a file of labels.
YES, NO = ("1", "yes", "y", "true", "x"), ("0", "no", "n", "false")

#: Most links and doubtful pairs on a page, and reasons of each.
N_SHOWN, N_DOUBTFUL, N_REASONS = 300, 50, 6

Table = dict[str, list[Any]]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, link)
    tables = ".csv, .tsv, .jsonl (or .gz), .parquet"
    parser.add_argument("left", metavar="LEFT", type=Path, help=f"table: {tables}")
    parser.add_argument(
        "right", metavar="RIGHT", type=Path, nargs="?", help="none: duplicates in the first"
    )
    options = Section(parser, "links")
    options.add(
        "--matches",
        "Known pairs: a table with columns left and right, or these first, and perhaps match (yes "
        "or no; empty: not known). Can be given several times.",
        type=Path, metavar="FILE", action="append",
    )  # fmt: skip
    options.add("-o --output", "Links to write.", type=Path, default=Path("links.csv"))
    options.add("--id", "Column of ids. Default: id, if there.", dest="id_column")
    options.add("--columns", "Columns to compare: a,b,c. Default: all.")
    options.add("--threshold", "Least probability of a link.", type=float, default=0.5)
    options.flag("--one-to-one", "Each record is in one link at most.")
    options.add("--label", "Add this many pairs to label to --label-file.", type=int, default=0)
    options.add(
        "--label-file", "Pairs to label: fill in the column match and run again.", type=Path,
        default=Path("labels.csv"),
    )  # fmt: skip
    options.add("--html", "HTML page with links and reasons.", type=Path, dest="page")
    options.add("--model", "Model file to write, for hdsl.load.", type=Path)
    options.add("--encoding", "Encoding of the tables.", default="utf-8")
    options.add("--seed", "Random seed.", type=int, default=0)
    add_json(options)


def link(given: Namespace) -> None:
    """Find the records of two tables that are the same thing, or duplicates in one.

    Known matches teach which words count. Without any, links are by cosine; --label asks about the
    pairs that teach most.

    For example:

      hdsl link left.csv right.csv --matches pairs.csv -o links.csv --html links.html

      hdsl link people.csv --label 20     # fill in labels.csv, then the same command again
    """
    from . import inputs

    output, page, label, label_file = given.output, given.page, given.label, given.label_file
    threshold, encoding, as_json = given.threshold, given.encoding, given.as_json
    if not 0.0 <= threshold <= 1.0 or label < 0:
        raise ValueError("--threshold is a number from 0 to 1, and --label a number of pairs.")
    for path in (output, page, given.model, label_file if label else None):
        if path is not None:
            inputs.check_output(path)
    paths = [given.left] if given.right is None else [given.left, given.right]
    tables = [_read(path, encoding) for path in paths]
    id_column, columns = given.id_column, given.columns
    if id_column is None and all("id" in table for table in tables):
        id_column = "id"
    files = [*(given.matches or [])]
    if label and label_file.exists() and label_file not in files:
        files.append(label_file)
    answers = [_answers(path, encoding) for path in files]

    from ..linking import Linker

    linker = Linker(
        None if columns is None else [name.strip() for name in columns.split(",")],
        id_column=id_column, random_state=given.seed, verbose=is_watched(as_json),
    ).fit(
        tables[0], tables[1] if len(tables) == 2 else None,
        matches=[pair for yes, _ in answers for pair in yes],
        non_matches=[pair for _, no in answers for pair in no],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the statement is shown in any case
        links = linker.predict(threshold, one_to_one=given.one_to_one)
    _write_csv(output, _records(linker, links), "the links")
    if label:
        _ask(linker, label_file, label, encoding)
    if page is not None:
        from ..report import write

        write(page, _page(linker, links, " and ".join(path.name for path in paths), threshold))
    if given.model is not None:
        linker.save(given.model)
    if as_json:
        show_json({"links": len(links.left), "output": str(output), "learned": linker.is_learned_,
                   "statement": linker.statement_, "recall": linker.recall_,
                   "reliability": linker.reliability_})  # fmt: skip
        return
    show(linker.statement_)
    for title, rows in _tables(linker):
        show("", title)
        show_table(rows, right=range(1, len(rows[0])))
    show("", f"{counted(len(links.left), 'link')} from a probability of {threshold:g} on: {output}")
    if label:
        show(f"{label_file} has pairs to label: fill in the column match, then run this again.")


# --- files ---------------------------------------------------------------------------------------


def _read(path: Path, encoding: str) -> Table:
    """Return all columns of a table."""
    from . import inputs

    inputs.check_input(path, encoding)
    suffix = [part.lower() for part in path.suffixes if part.lower() != ".gz"][-1:]
    if suffix == [".parquet"]:
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pydict()
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise ValueError(f"{path} is not {encoding} text: name its --encoding ({error}).") from None
    if suffix == [".jsonl"]:
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
        names = dict.fromkeys(name for record in records for name in record)
        return {name: [record.get(name) for record in records] for name in names}
    if suffix not in ([".csv"], [".tsv"]):
        raise ValueError(f"{path} must be a table: .csv, .tsv, .jsonl or .parquet.")
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter="\t" if suffix == [".tsv"] else ","
    )
    header = next(reader, [])
    rows = [row for row in reader if row]
    for row, fields in enumerate(rows, start=1):
        if len(fields) != len(header):
            raise ValueError(
                f"{path}, record {row} has {counted(len(fields), 'field')}, but the header has "
                f"{len(header)}."
            )
    if len({*header}) < len(header):
        raise ValueError(f"{path} has two columns of one name: rename one.")
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def _answers(path: Path, encoding: str) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
    """Return the matches and the non-matches of a file; pairs without an answer are left out."""
    table = _read(path, encoding)
    names = list(table)
    if len(names) < 2:
        raise ValueError(f"{path} must have two columns of records: left and right.")
    ends = ("left", "right") if {"left", "right"} <= {*names} else names[:2]
    pairs = list(zip(table[ends[0]], table[ends[1]], strict=True))
    said = next((table[name] for name in ("match", "label") if name in table), ["1"] * len(pairs))
    words = [str("" if word is None else word).strip().lower() for word in said]
    for row, word in enumerate(words, start=1):
        if word not in (*YES, *NO, ""):
            raise ValueError(
                f"{path}, record {row} answers {one_line(word, 40)!r}: say yes, no or nothing."
            )
    yes, no = (
        [pair for pair, word in zip(pairs, words, strict=True) if word in kind]
        for kind in (YES, NO)
    )
    return yes, no


def _records(linker: Linker, links: Links) -> Table:
    texts = linker.texts(links)
    return {"left": links.left.tolist(), "right": links.right.tolist(),
            "probability": [f"{p:.4f}" for p in links.probability],
            "left_text": texts[0], "right_text": texts[1]}  # fmt: skip


def _ask(linker: Linker, path: Path, n: int, encoding: str) -> None:
    """Write pairs to label, below those that the file has; empty ones of before are asked anew."""
    new = {"match": [""] * n, **_records(linker, linker.to_label(n))}
    new["match"] = [""] * len(new["left"])
    if path.exists():
        old = _read(path, encoding)
        if {*old} != {*new}:
            raise ValueError(
                f"{path} exists and is no file of labels: name another with --label-file."
            )
        kept = [k for k, word in enumerate(old["match"]) if word.strip()]
        new = {name: [old[name][k] for k in kept] + values for name, values in new.items()}
    _write_csv(path, new, "the pairs to label")


def _write_csv(path: Path, table: Table, what: str) -> None:
    from ..files.atomic import atomic_write

    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    with atomic_write(path, what) as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


# --- what is shown -------------------------------------------------------------------------------


def _tables(linker: Linker) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return recall and reliability as titles and rows of text."""
    if not linker.recall_:
        return []

    def share(line: dict[str, Any], name: str, interval: str) -> str:
        low, high = line[interval]
        return f"{percent(line[name])} ({100 * low:.0f} to {100 * high:.0f})"

    recall: list[tuple[str, ...]] = [("  first", "cosine", "learned")]
    for line in linker.recall_:
        shares = (share(line, name, f"{name}_interval") for name in ("cosine", "learned"))
        recall.append((f"  {line['k']}", *shares))
    honest: list[tuple[str, ...]] = [("  probability", "pairs", "mean", "match")]
    honest += [
        (
            f"  {line['from']:.1f} to {line['to']:.1f}", f"{line['n']:,}",
            percent(line["probability"]), share(line, "matches", "interval"),
        )
        for line in linker.reliability_
    ]  # fmt: skip
    return [
        ("Held-out matches whose right record is among the first (95 % intervals)", recall),
        ("Held-out pairs by probability, and how many match", honest),
    ]


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.3em .8em;text-align:left;"
    "vertical-align:top;border-bottom:1px solid #8884}small{opacity:.75}"
    ":root{color-scheme:light dark}"
)


def _page(linker: Linker, links: Links, name: str, threshold: float) -> str:
    """Return the page: how good it is, the links with their reasons, and the doubtful ones."""
    doubtful = linker.to_label(N_DOUBTFUL)
    parts = [f"<p>{html.escape(linker.statement_)}</p>"]
    for title, rows in _tables(linker):
        parts.append(f"<h2>{html.escape(title)}</h2>{_html_rows(rows)}")
    n = len(links.left)
    cut = f", the first {N_SHOWN}" if n > N_SHOWN else ""
    parts.append(f"<h2>{counted(n, 'link')} from {threshold:g} on{cut}</h2>")
    parts.append(_html_links(linker, links, N_SHOWN))
    parts.append("<h2>The doubtful ones</h2>" + _html_links(linker, doubtful, N_DOUBTFUL))
    title = html.escape(f"Links: {name}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1>{''.join(parts)}</html>"
    )


def _html_rows(rows: list[tuple[str, ...]]) -> str:
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _html_links(linker: Linker, links: Links, most: int) -> str:
    lines = ["<tr><th>probability<th>left<th>right<th>why</tr>"]
    texts = linker.texts(links)
    for k in range(min(most, len(links.left))):
        sides = (
            f"<td><small>{html.escape(str(ids[k]))}</small> {html.escape(one_line(text[k], 300))}"
            for ids, text in ((links.left, texts[0]), (links.right, texts[1]))
        )
        reasons = linker.reasons(links.left[k], links.right[k], N_REASONS)
        why = ", ".join(f"{html.escape(name)} {value:+.2f}" for name, value in reasons)
        lines.append(
            f"<tr><td>{links.probability[k]:.2f}{''.join(sides)}<td><small>{why}</small></tr>"
        )
    return f"<table>{''.join(lines)}</table>"
