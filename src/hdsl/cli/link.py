"""``hdsl link``: the same thing in two tables, or twice in one."""

from __future__ import annotations

import csv
import html
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Encoding, Json, Sep, command, option
from .shell import counted, is_watched, one_line, percent, show, show_json, show_table

if TYPE_CHECKING:
    from ..linking import Linker, Links

#: Answers in a file of labels, by label.
ANSWERS = {1: ("1", "yes", "y", "true", "x"), 0: ("0", "no", "n", "false"), None: ("", "?")}

#: Most links and doubtful pairs on a page.
N_SHOWN, N_DOUBTFUL = 300, 50

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.3em .8em;text-align:left;vertical-align:top;"
    "border-bottom:1px solid #8884}:root{color-scheme:light dark}"
)


@command()
def link(
    left: Annotated[Path, typer.Argument(help="A table: .csv, .tsv, .jsonl or .parquet.")],
    right: Annotated[Path | None, typer.Argument(help="None: duplicates in the first.")] = None,
    matches: Annotated[
        list[Path] | None,
        option(
            "Known pairs: a table with columns left and right, or its first two, and perhaps match "
            "or label (yes, no, or empty: not known). Can be given several times."
        ),
    ] = None,
    output: Annotated[Path, option("Links to write.", "-o", "--output")] = Path("links.csv"),
    ids: Annotated[str | None, option("Column of ids. Default: id, if there.", "--id")] = None,
    columns: Annotated[str | None, option("Columns to compare: a,b,c. Default: all.")] = None,
    threshold: Annotated[float, option("Least probability of a link.")] = 0.5,
    one_to_one: Annotated[bool, option("Each record is in one link at most.")] = False,
    label: Annotated[int, option("Pairs to ask about, added to --label-file.")] = 0,
    label_file: Annotated[Path, option("Fill in its column match, and run again.")] = Path(
        "labels.csv"
    ),
    page: Annotated[Path | None, option("HTML page with links and reasons.", "--html")] = None,
    model: Annotated[Path | None, option("Model file to write, for hdsl.load.")] = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    seed: Annotated[int, option("Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Find the records of two tables that are the same thing, or duplicates in one.

    Known matches teach which words count. Without any, links are by cosine; --label asks about the
    pairs that teach most.

    For example:

      hdsl link left.csv right.csv --matches pairs.csv -o links.csv --html links.html

      hdsl link people.csv --label 20     # fill in labels.csv, then the same command again
    """
    from . import inputs

    asked = label_file if label else None
    for path in (output, page, model, asked):
        if path is not None:
            inputs.check_output(path)
    tables = [_read(path, sep, encoding) for path in (left, right) if path is not None]
    if ids is None and all("id" in table for table in tables):
        ids = "id"
    files = dict.fromkeys([*(matches or []), *([asked] if asked and asked.exists() else [])])
    known = [_answers(path, sep, encoding) for path in files]

    from ..linking import Linker

    compared = None if columns is None else [name.strip() for name in columns.split(",")]
    linker = Linker(compared, id_column=ids, random_state=seed, verbose=is_watched(as_json))
    linker.fit(
        tables[0], None if right is None else tables[1],
        *([pair for answers in known for pair in answers[kind]] for kind in (1, 0)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the statement is shown in any case
        links = linker.predict(threshold, one_to_one=one_to_one)
    _write(output, _records(linker, links))
    if asked is not None:
        _ask(linker, asked, label, _read(asked, None, encoding) if asked.exists() else None)
    if page is not None:
        from ..report import write

        names = " and ".join(path.name for path in (left, right) if path is not None)
        write(page, _page(linker, links, f"Links: {names}", f"from {threshold:g} on"))
    if model is not None:
        linker.save(model)
    if as_json:
        facts = {"links": len(links.left), "output": output, "learned": linker.is_learned_}
        facts |= {"statement": linker.statement_, "recall": linker.recall_}
        show_json(facts | {"reliability": linker.reliability_})
        return
    show(linker.statement_)
    for title, rows in _tables(linker):
        show("", title)
        show_table(rows, right=range(1, len(rows[0])))
    show("", f"{counted(len(links.left), 'link')} from a probability of {threshold:g} on: {output}")
    if asked is not None:
        show(f"{asked} has pairs to label: fill in the column match, then run this again.")


# --- files ---------------------------------------------------------------------------------------


def _read(path: Path, sep: str | None, encoding: str) -> dict[str, Any]:
    from ..readers.tables import read_columns
    from . import inputs

    inputs.check_input(path, encoding)
    return read_columns(path, sep=sep and sep.replace("\\t", "\t"), encoding=encoding)


def _answers(path: Path, sep: str | None, encoding: str) -> dict[int | None, list[Any]]:
    """Return the pairs of a file by their answer."""
    table = _read(path, sep, encoding)
    ends = ["left", "right"] if {"left", "right"} <= table.keys() else [*table][:2]
    if len(ends) < 2:
        raise ValueError(f"{path} must have two columns of records: left and right.")
    pairs = [*zip(table[ends[0]], table[ends[1]], strict=True)]
    said = next((table[name] for name in ("match", "label") if name in table), ["1"] * len(pairs))
    found: dict[int | None, list[Any]] = {kind: [] for kind in ANSWERS}
    for row, (pair, word) in enumerate(zip(pairs, map(str, said), strict=True), start=1):
        kinds = [kind for kind, words in ANSWERS.items() if word.strip().lower() in words]
        if not kinds:
            said = one_line(word, 40)
            raise ValueError(f"{path}, record {row}: {said!r} is not yes, no or empty.")
        found[kinds[0]].append(pair)
    return found


def _records(linker: Linker, links: Links) -> dict[str, Any]:
    texts = dict(zip(("left_text", "right_text"), linker.texts(links), strict=True))
    return {**links._asdict(), "probability": links.probability.round(4)} | texts


def _ask(linker: Linker, path: Path, n: int, old: dict[str, Any] | None) -> None:
    """Write pairs to label below those with an answer; those without are asked anew."""
    links = linker.to_label(n)
    new = {"match": [""] * len(links.left), **_records(linker, links)}
    if old is not None:
        if old.keys() != new.keys():
            raise ValueError(f"{path} is no file of pairs to label: name another as --label-file.")
        done = [k for k, word in enumerate(old["match"]) if word.strip()]
        new = {name: [*(old[name][k] for k in done), *values] for name, values in new.items()}
    _write(path, new)


def _write(path: Path, table: dict[str, Any]) -> None:
    from ..files.atomic import atomic_write

    text = io.StringIO(newline="")
    csv.writer(text).writerows([table, *zip(*table.values(), strict=True)])
    with atomic_write(path, "the table") as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


# --- what is shown -------------------------------------------------------------------------------


def _tables(linker: Linker) -> list[tuple[str, list[list[str]]]]:
    """Return recall and reliability as titles and rows of text."""

    def share(found: tuple[float, float, float]) -> str:
        return f"{percent(found[0])} ({100 * found[1]:.0f} to {100 * found[2]:.0f})"

    recall = [[f"  {a['k']}", share(a["cosine"]), share(a["learned"])] for a in linker.recall_]
    honest = [
        [f"  {a['from']} to {a['to']}", str(a["n"]), percent(a["probability"]), share(a["matches"])]
        for a in linker.reliability_
    ]
    tables = [
        ("Held-out matches found among the first, with 95 % intervals",
         [["  first", "cosine", "learned"], *recall]),
        ("Held-out pairs by probability, and how many match",
         [["  probability", "pairs", "mean", "match"], *honest]),
    ]  # fmt: skip
    return tables if recall else []


def _page(linker: Linker, links: Links, title: str, which: str) -> str:
    """Return the page: how good it is, the links with their reasons, and the doubtful ones."""
    n = len(links.left)
    cut = f", the first {N_SHOWN}" if n > N_SHOWN else ""
    parts = [(linker.statement_, [[""]]), *_tables(linker)]
    parts.append((f"{counted(n, 'link')} {which}{cut}", _reasoned(linker, links, N_SHOWN)))
    parts.append(("The doubtful ones", _reasoned(linker, linker.to_label(N_DOUBTFUL), N_DOUBTFUL)))
    body = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"]
    body.append(f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>")
    for head, rows in parts:
        lines = ("<tr><td>" + "<td>".join(map(html.escape, row)) for row in rows)
        body.append(f"<h2>{html.escape(head)}</h2><table>{''.join(lines)}</table>")
    return "".join(body)


def _reasoned(linker: Linker, links: Links, most: int) -> list[list[str]]:
    """Return the first links as rows of text, with the words that make them alike."""
    rows = [["probability", "left", "", "right", "", "why"]]
    for *pair, found, a, b in [*zip(*links, *linker.texts(links), strict=True)][:most]:
        why = ", ".join(f"{name} {value:+.2f}" for name, value in linker.reasons(*pair))
        texts = one_line(a, 300), one_line(b, 300)
        rows.append([f"{found:.2f}", str(pair[0]), texts[0], str(pair[1]), texts[1], why])
    return rows
