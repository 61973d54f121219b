"""The commands on a model file: ``hdsl evaluate``, ``search``, ``explain`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..memory import format_bytes
from .options import (
    N_NEIGHBORS,
    Encoding,
    Id,
    Json,
    LabelColumn,
    Labels,
    MatlabNames,
    Model,
    Quadruplets,
    Sep,
    SkipMissing,
    TextColumn,
    Triplets,
    ZeroBased,
    command,
    option,
)
from .shell import counted, one_line, say, show, show_json, show_measured, table_lines, width


@command()
def evaluate(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(help="New data. Default: the rows that `fit` held out, from the model."),
    ] = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    labels: Labels = None,
    triplets: Triplets = None,
    quadruplets: Quadruplets = None,
    ids: Id = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    skip_missing: SkipMissing = False,
    zero_based: ZeroBased = False,
    matlab_names: MatlabNames = "fea,gnd",
    n_neighbors: Annotated[int, option("Neighbours that vote.", "-k")] = N_NEIGHBORS,
    as_json: Json = False,
) -> None:
    """Measure a model against the cosine, with intervals.

    The neighbours of new rows are the documents in the model, or the other new rows where it has
    none. Columns default to those of the fit. --triplets and --quadruplets measure judgements.
    Known-item search ranks rows by half of their features.

    For example:

      hdsl evaluate model.hdsl

      hdsl evaluate model.hdsl new_reviews.csv
    """
    from . import documents, inputs

    learned, collection = documents.load_all(model)
    if data is None:
        found = documents.measure_held_out(model, learned, collection, n_neighbors)
    else:
        if inputs.is_table(data):
            columns = collection.columns or {}
            is_labelled = not (labels or triplets or quadruplets)
            text = text or columns.get("text")
            label = (label or columns.get("label")) if is_labelled else None
        source = inputs.Source(
            text, label, labels, triplets, quadruplets, ids, sep, encoding, skip_missing,
            zero_based, matlab_names,
        )  # fmt: skip
        given = inputs.read_data(data, source)
        found = documents.measure_new(given, learned, collection, n_neighbors)
    measured = found.measured
    if as_json:
        facts = {"measure": measured.errors.supervision, "n": measured.n}
        facts |= {"neighbours": n_neighbors, "held out": found.held_out}
        show_json(facts | measured.facts())
    else:
        show_measured(f"{measured.measure}{found.rows}", measured)


@command()
def search(
    model: Model,
    query: Annotated[list[str] | None, typer.Argument(help="Words.", show_default=False)] = None,
    row: Annotated[int | None, option("Row number of a document in the model, from 0.")] = None,
    queries: Annotated[
        Path | None, option("File of queries, one text per line; searches for all of them.")
    ] = None,
    n_neighbors: Annotated[int, option("Neighbours to show.", "-k")] = 5,
    why: Annotated[int, option("Reasons to show per neighbour.")] = 4,
    as_json: Json = False,
) -> None:
    """Find the documents most similar to a query, and why.

    Each has its learned cosine, its rank by plain cosine, and the parts that the learned cosine
    is the sum of. "a ~ b" is a pair: a is in one text and b in the other. A single word is in both.

    For example:

      hdsl search model.hdsl "open a connection"

      hdsl search model.hdsl --row 17 -k 10

      hdsl search model.hdsl --queries queries.txt --json
    """
    from . import documents, inputs

    if (row is not None) + bool(query) + (queries is not None) != 1:
        raise ValueError(
            "Give words to search for, a row number with --row, or a file with --queries, and one "
            "of them only."
        )
    learned, collection = documents.load_all(model)
    if collection.verdict == "worse":
        say("warning: on rows held out, this model makes more errors than the cosine.")
    if queries is not None:
        texts = inputs.read_lines(queries)
        found = documents.find(learned, collection, collection.rows_of(texts), n_neighbors, why)
        _show_answers(texts, found, as_json=as_json)
        return
    words = " ".join(query or [])
    if row is None:
        x = documents.row_of(collection, words, "the query")
    else:
        x = documents.document(collection, row)
    (hits,) = documents.find(learned, collection, x, n_neighbors, why, leave_out=row)
    if as_json:
        show_json({"query": words if row is None else row, "neighbours": hits})
    else:
        show_hits(hits)


def _show_answers(texts: list[str], found: list[list[dict[str, Any]]], *, as_json: bool) -> None:
    """Print the neighbours of several queries."""
    n_unknown = sum(not hits for hits in found)
    if n_unknown:
        have = counted(n_unknown, "query has", "queries have")
        say(f"warning: {have} no word that the model knows.")
    if as_json:
        answers = zip(texts, found, strict=True)
        show_json([{"query": text, "neighbours": hits} for text, hits in answers])
        return
    for text, hits in zip(texts, found, strict=True):
        show(one_line(text))
        show_hits(hits) if hits else show("  nothing found")
        show("")


def show_hits(hits: list[dict[str, Any]]) -> None:
    """Print neighbours, each with the reasons that sum up to its learned cosine."""
    has_ids, has_labels = (any(hit[name] is not None for hit in hits) for name in ("id", "label"))
    rows = [("learned", "by cosine", *["id"] * has_ids, *["label"] * has_labels, "document")]
    for hit in hits:
        cells = [f"{hit['similarity']:.2f}", _ordinal(hit["rank by cosine"])]
        cells += [one_line(hit["id"], 24)] * has_ids
        cells += ["" if hit["label"] is None else one_line(hit["label"], 24)] * has_labels
        cells.append(f"row {hit['row']}" if hit["text"] is None else one_line(hit["text"]))
        rows.append(tuple(cells))
    head, *lines = table_lines(rows, right=(0, 1))
    show(head)
    for line, hit in zip(lines, hits, strict=True):
        show(line, *_reasons(hit))


def _reasons(hit: dict[str, Any]) -> list[str]:
    """Return the reasons of a neighbour as a line: those too small or too many as one sum."""
    named = [w for w in hit["why"] if abs(w["value"]) >= 0.01 * abs(hit["similarity"])]
    n_others, others = hit["more"]["n"], hit["more"]["value"]
    for part in hit["why"][len(named) :]:
        n_others, others = n_others + 1, others + part["value"]
    while named:
        said = [f"{one_line(w['name'], 40)} {w['value']:+.2f}" for w in named]
        rest = round(others, 2) + 0.0  # no -0.00
        said += [f"and {n_others} more {rest:+.2f}"] if n_others else []
        line = f"{' ' * 9}= {', '.join(said)}"
        if len(line) <= width() or len(named) == 1:
            return [line]
        n_others, others = n_others + 1, others + named.pop()["value"]
    return []


def _ordinal(n: int) -> str:
    """Return a rank.

    Examples
    --------
    >>> [_ordinal(n) for n in (1, 2, 3, 4, 11, 1222)]
    ['1st', '2nd', '3rd', '4th', '11th', '1,222nd']
    """
    end = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{end}"


@command()
def explain(
    model: Model,
    x: Annotated[str, option("A text, or the row number of a document in the model.", "--x")],
    y: Annotated[str, option("A text, or the row number of a document in the model.", "--y")],
    rather_than: Annotated[
        str | None, option("A third, likewise: explain why x is more like y than like this.")
    ] = None,
    by: Annotated[str, option("pair: parts per feature pair; atom: per learned pair.")] = "pair",
    top: Annotated[int, option("Parts to show.")] = 10,
    as_json: Json = False,
) -> None:
    """Show what the similarity of two texts or documents is made of.

    For example:

      hdsl explain model.hdsl --x "open a socket" --y "listen on a port"

      hdsl explain model.hdsl --x 17 --y 3 --rather-than 44
    """
    from . import documents

    learned, collection = documents.load_all(model)
    given = {"--x": x, "--y": y, "--rather-than": rather_than}
    rows = {
        name: learned.rows(
            documents.document(collection, int(text))
            if text.strip().isdecimal()
            else documents.row_of(collection, text, name)
        )
        for name, text in given.items()
        if text is not None
    }
    parts = learned.model.explain(
        rows["--x"],
        rows["--y"],
        rather_than=rows.get("--rather-than"),
        by=by,
        feature_names=learned.feature_names(collection.feature_names),
        top=top,
    )
    if as_json:
        show_json(parts.to_dict())
    else:
        show(repr(parts))


@command()
def report(
    model: Model,
    output: Annotated[Path, option("HTML file.", "-o", "--output")] = Path("report.html"),
    title: Annotated[str | None, option("Title of the page.")] = None,
) -> None:
    """Write what was learned as one self-contained HTML page.

    For example:

      hdsl report model.hdsl -o report.html
    """
    from . import documents, inputs

    inputs.check_output(output, (".html", ".htm"))
    learned, collection = documents.load_all(model)
    documents.write_report(learned, collection, output, title)
    show(f"{output}: {format_bytes(output.stat().st_size)}.")
