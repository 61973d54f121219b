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
    import numpy as np

    from ..linking import Linker, Links

#: Answers in a file of labels.
YES, NO = ("1", "1.0", "yes", "y", "true", "x"), ("0", "0.0", "no", "n", "false")

#: Most links and doubtful pairs on a page.
N_SHOWN, N_DOUBTFUL = 300, 50

Rows = list[tuple[str, ...]]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, link)
    parser.add_argument(
        "left", metavar="LEFT", type=Path, help="table: .csv, .tsv, .jsonl, .parquet"
    )
    parser.add_argument(
        "right", metavar="RIGHT", type=Path, nargs="?", help="none: duplicates in the first"
    )
    options = Section(parser, "links")
    options.add(
        "--matches",
        "Known pairs: a table with columns left and right, or these first, and perhaps match (yes "
        "or no; empty: not known). Can be given several times.",
        type=Path, metavar="FILE", action="append", default=[],
    )  # fmt: skip
    options.add("-o --output", "Links to write.", type=Path, default=Path("links.csv"))
    options.add(
        "--id", "Column of ids, or one per table: sku,code. Default: id, if there.",
        dest="id_column",
    )  # fmt: skip
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

    if not 0.0 <= given.threshold <= 1.0 or given.label < 0:
        raise ValueError("--threshold is a number from 0 to 1, and --label a number of pairs.")
    label_file = given.label_file if given.label else None
    for path in (given.output, given.page, given.model, label_file):
        if path is not None:
            inputs.check_output(path)
    paths = [path for path in (given.left, given.right) if path is not None]
    tables = [_read(path, given.encoding) for path in paths]
    id_column = _share_ids(tables, paths, given.id_column)
    answered, labelled = list(given.matches), {}
    if label_file is not None and label_file.exists():
        labelled = _labelled(label_file, given.encoding)
        answered += [label_file] if label_file not in answered else []
    answers = [answer for path in answered for answer in _answers(path, given.encoding)]

    from ..linking import Linker

    linker = Linker(
        given.columns and [name.strip() for name in given.columns.split(",")],
        id_column=id_column, random_state=given.seed,
        verbose=is_watched(given.as_json),
    )  # fmt: skip
    matches, others = ([pair for pair, is_yes in answers if is_yes == y] for y in (True, False))
    linker.fit(tables[0], tables[1] if len(tables) == 2 else None, matches, others)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the statement is shown in any case
        links = linker.predict(given.threshold, one_to_one=given.one_to_one)
    is_known = _are_known(links, matches, len(tables) == 1)
    n_known, found = int(is_known.sum()), _records(linker, links)
    _write_csv(given.output, found | {"known": ["yes" if yes else "" for yes in is_known]})
    if label_file is not None:
        new = _records(linker, linker.to_label(given.label))
        new = {"match": [""] * len(new["left"]), **new}
        _write_csv(label_file, {name: [*labelled.get(name, ()), *new[name]] for name in new})
    name = " and ".join(path.name for path in paths)
    if given.page is not None:
        from ..report import write

        new_links = type(links)(*(values[~is_known] for values in links))
        write(given.page, _page(linker, new_links, n_known, name, given.threshold))
    if given.model is not None:
        linker.save(given.model)
    if given.as_json:
        show_json({"links": len(links.left), "known": n_known, "output": str(given.output),
                   "learned": linker.is_learned_, "statement": linker.statement_,
                   "recall": linker.recall_, "reliability": linker.reliability_})  # fmt: skip
        return
    show(linker.statement_)
    for title, rows in _measured(linker):
        show("", title)
        show_table(rows, right=range(1, len(rows[0])))
    n, of = counted(len(links.left), "link"), f", {n_known:,} of them known" if n_known else ""
    show("", f"{n} from a probability of {given.threshold:g} on{of}: {given.output}")
    if label_file is not None:
        show(f"{label_file} has pairs to label: fill in the column match, then run this again.")


# --- files ---------------------------------------------------------------------------------------


def _read(path: Path, encoding: str) -> dict[str, list[Any]]:
    from ..readers.tables import read_columns
    from .inputs import check_input

    check_input(path, encoding)
    return {name: list(values) for name, values in read_columns(path, encoding=encoding).items()}


def _share_ids(tables: list[dict[str, Any]], paths: list[Path], given: str | None) -> str | None:
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


def _answers(path: Path, encoding: str) -> list[tuple[tuple[Any, Any], bool]]:
    """Return pairs and whether they match; pairs without an answer are left out."""
    table = _read(path, encoding)
    names = list(table)
    if len(names) < 2:
        raise ValueError(f"{path} must have two columns of records: left and right.")
    left, right = ("left", "right") if {"left", "right"} <= {*names} else names[:2]
    said = next((table[name] for name in ("match", "label") if name in table), None)
    found = []
    for row, pair in enumerate(zip(table[left], table[right], strict=True)):
        word = "1" if said is None else str("" if said[row] is None else said[row]).strip().lower()
        if word not in (*YES, *NO, "", "nan"):
            raise ValueError(
                f"{path}, record {row + 1} answers {one_line(word, 40)!r}: say yes, no or nothing."
            )
        if word in (*YES, *NO):
            found.append((pair, word in YES))
    return found


def _labelled(path: Path, encoding: str) -> dict[str, list[Any]]:
    """Return the answered rows of a file of labels; what has no answer is asked anew."""
    table = _read(path, encoding)
    if [*table][:3] != ["match", "left", "right"]:
        raise ValueError(f"{path} exists and is no file of labels: name another with --label-file.")
    kept = [k for k, word in enumerate(table["match"]) if str(word).strip()]
    return {name: [values[k] for k in kept] for name, values in table.items()}


def _are_known(links: Links, matches: list[tuple[Any, Any]], is_one: bool) -> np.ndarray:
    """Return which links were given as matches, in either order where there is one table."""
    import numpy as np

    known = {(str(a).strip(), str(b).strip()) for a, b in matches}
    known |= {pair[::-1] for pair in known} if is_one else set()
    pairs = zip(links.left.tolist(), links.right.tolist(), strict=True)
    return np.array([(str(a).strip(), str(b).strip()) in known for a, b in pairs], dtype=bool)


def _records(linker: Linker, links: Links) -> dict[str, list[Any]]:
    left, right = linker.texts(links)
    return {"left": links.left.tolist(), "right": links.right.tolist(),
            "probability": [f"{p:.4f}" for p in links.probability],
            "left_text": left, "right_text": right}  # fmt: skip


def _write_csv(path: Path, table: dict[str, list[Any]]) -> None:
    from ..files.atomic import atomic_write

    text = io.StringIO(newline="")
    csv.writer(text).writerows([[*table], *zip(*table.values(), strict=True)])
    with atomic_write(path, str(path)) as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


# --- what is shown -------------------------------------------------------------------------------


def _measured(linker: Linker) -> list[tuple[str, Rows]]:
    """Return recall and reliability as titles and rows of text."""
    if not linker.is_learned_:
        return []

    def shown(share: tuple[float, float, float]) -> str:
        return f"{percent(share[0])} ({100 * share[1]:.0f} to {100 * share[2]:.0f})"

    recall: Rows = [("  first", "cosine", "learned")]
    recall += [(f"  {r['k']}", shown(r["cosine"]), shown(r["learned"])) for r in linker.recall_]
    honest: Rows = [("  probability", "pairs", "mean", "match")]
    honest += [
        (f"  {r['from']:.1f} to {r['to']:.1f}", f"{r['n']:,}", percent(r["probability"]),
         shown(r["matches"]))
        for r in linker.reliability_
    ]  # fmt: skip
    return [
        ("Held-out matches whose right record is among the first (95 % intervals)", recall),
        ("Held-out pairs by probability, and how many match", honest),
    ]


def _page(linker: Linker, links: Links, n_known: int, name: str, threshold: float) -> str:
    """Return the page: how good it is, the new links with their reasons, and the doubtful ones."""
    n = len(links.left)
    cut = f", the first {N_SHOWN}" if n > N_SHOWN else ""
    heading = f"{counted(n, 'new link')} from a probability of {threshold:g} on{cut}"
    doubtful, wide = linker.to_label(N_DOUBTFUL), ' class="wide"'
    tables = [
        *((*measured, "") for measured in _measured(linker)),
        (heading, _reasoned(linker, links, N_SHOWN), wide),
        ("The pairs to ask a person about", _reasoned(linker, doubtful, N_DOUBTFUL), wide),
    ]
    style = (files("hdsl.report") / "links.css").read_text("utf-8")
    title = html.escape(f"Links: {name}")
    known = f" {counted(n_known, 'known match', 'known matches')} are not shown." * (n_known > 0)
    parts = [f"<h1>{title}</h1><p>{html.escape(linker.statement_ + known)}</p>"]
    for heading, (head, *rows), kind in tables:
        lines = ("".join(f"<td>{html.escape(cell)}" for cell in row) for row in rows)
        top = "".join(f"<th>{html.escape(cell)}" for cell in head)
        body = "<tr>".join([top, *lines])
        parts.append(f"<h2>{html.escape(heading)}</h2><table{kind}><tr>{body}</table>")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style>{''.join(parts)}</html>"
    )


def _reasoned(linker: Linker, links: Links, most: int) -> Rows:
    rows: Rows = [("probability", "left", "right", "why")]
    texts = linker.texts(links)
    for k in range(min(most, len(links.left))):
        ends = links.left[k], links.right[k]
        sides = (f"{end}: {one_line(text[k], 300)}" for end, text in zip(ends, texts, strict=True))
        why = ", ".join(
            f"{word} {value:+.2f}" for word, value in linker.reasons(*ends) if abs(value) >= 0.005
        )
        rows.append((f"{links.probability[k]:.2f}", *sides, why))
    return rows
